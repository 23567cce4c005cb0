//! Users and groups, by the programs of the system.

use serde_json::json;

use crate::machine::Machine;

const USER: &str = r#"
    steward::Group(host=host, name="web", gid=4711)
    steward::User(host=host, name="www", uid=4712, group="web", groups=["adm"], home="/srv/www", shell="/bin/sh",
        comment="the web", password_hash="$6$salt$hash", locked=false"#;

#[test]
fn a_user_and_its_group_are_made_changed_repaired_and_purged() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let model = format!("{USER})");
    assert_eq!(
        machine.summary(&format!("{USER}, report_only=true)")),
        [
            "steward::Group web deployed created",
            "steward::User www non_compliant nochange"
        ]
    );
    assert_eq!(
        machine.summary(&model),
        [
            "steward::Group web deployed nochange",
            "steward::User www deployed created"
        ]
    );
    assert_eq!(
        machine.sh("getent passwd www; id www; ls -d /srv/www; getent shadow www | cut -d: -f2"),
        "www:x:4712:4711:the web:/srv/www:/bin/sh\n\
         uid=4712(www) gid=4711(web) groups=4711(web),4(adm)\n/srv/www\n$6$salt$hash\n"
    );
    assert_eq!(
        machine.summary(&model),
        [
            "steward::Group web deployed nochange",
            "steward::User www deployed nochange"
        ]
    );
    machine.sh("usermod -s /bin/bash -G users -L www && groupmod -g 4999 web");
    let ran = machine.deploy(&model);
    let changes = |name: &str| {
        let event = ran.iter().find(|event| {
            event["resource"]
                .as_str()
                .unwrap()
                .ends_with(&format!("={name}]"))
        });
        event.unwrap()["changes"].clone()
    };
    assert_eq!(
        changes("web"),
        json!({"gid": {"current": 4999, "desired": 4711}})
    );
    assert_eq!(
        changes("www"),
        json!({
            "shell": {"current": "/bin/bash", "desired": "/bin/sh"},
            "groups": {"current": ["users"], "desired": ["adm"]},
            "locked": {"current": true, "desired": false},
        })
    );
    assert_eq!(
        machine.sh("getent passwd www; id -nG www; getent shadow www | cut -d: -f2"),
        "www:x:4712:4711:the web:/srv/www:/bin/sh\nweb adm\n$6$salt$hash\n"
    );
    machine.check(
        r#"steward::User(host=host, name="www", purged=true, remove_home=true)"#,
        "deployed purged",
    );
    machine.check(
        r#"steward::Group(host=host, name="web", purged=true)"#,
        "deployed purged",
    );
    machine.check(
        r#"steward::User(host=host, name="www", purged=true)"#,
        "deployed nochange",
    );
    assert_eq!(
        machine.sh("getent passwd www; getent group web; ls /srv"),
        ""
    );
}

#[test]
fn a_password_is_in_no_difference_and_no_log() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let user = |hash: &str| {
        format!(r#"steward::User(host=host, name="secret", password_hash="{hash}", locked=true)"#)
    };
    machine.check(&user("$6$a$first"), "deployed created");
    assert_eq!(
        machine.sh("getent shadow secret | cut -d: -f2"),
        "!$6$a$first\n"
    );
    let event = machine.check(&user("$6$a$other"), "deployed updated");
    assert_eq!(
        event["changes"],
        json!({"password_hash": {"current": "(hidden)", "desired": "(hidden)"}})
    );
    assert_eq!(
        machine.sh("getent shadow secret | cut -d: -f2"),
        "!$6$a$other\n"
    );
    assert!(!event.to_string().contains("other"), "{event}");
    let event = machine.check(&user("x:\\nroot:"), "failed nochange");
    assert!(
        event["message"]
            .as_str()
            .unwrap()
            .contains("is no hash of a password"),
        "{event}"
    );
}

#[test]
fn what_an_account_can_not_be_fails_with_a_reason() {
    let Some(machine) = Machine::start() else {
        return;
    };
    for (resource, reason) in [
        (
            r#"steward::User(host=host, name="a", group="nobody-has-it")"#,
            "group 'nobody-has-it' does not exist",
        ),
        (
            r#"steward::User(host=host, name="a", comment="x:0:0")"#,
            "`comment` holds a colon",
        ),
        (
            r#"steward::User(host=host, name="a", uid=0)"#,
            "UID 0 is not unique",
        ),
        (
            r#"steward::Group(host=host, name="a", members=["nobody-is-it"])"#,
            "user 'nobody-is-it' does not exist",
        ),
    ] {
        let event = machine.deploy(resource).swap_remove(0);
        assert_eq!(event["status"], "failed", "{event}");
        let message = event["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
}
