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
        (
            r#"steward::Group(host=host, name="b", gid=-5)"#,
            "`gid` -5 is no number of a group",
        ),
        (
            r#"steward::User(host=host, name="a", groups=["adm", "27"])"#,
            r#"`groups` has "27", which is no name of a group"#,
        ),
        (
            r#"steward::User(host=host, name="a", groups=["adm,users"])"#,
            r#"`groups` has "adm,users""#,
        ),
        (
            r#"steward::User(host=host, name="a", password_hash="")"#,
            "`password_hash` is no hash of a password",
        ),
    ] {
        let event = machine.deploy(resource).swap_remove(0);
        assert_eq!(event["status"], "failed", "{event}");
        let message = event["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
}

/// Given: an account and its first group that both are to be removed. Expected: the account goes first, since `groupdel` removes no
/// group that is the first one of somebody.
#[test]
fn a_user_is_purged_before_its_group() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let model = |purged: &str| {
        format!(
            "steward::Group(host=host, name=\"web\"{purged})\n\
             steward::User(host=host, name=\"www\", group=\"web\"{purged})"
        )
    };
    machine.summary(&model(""));
    assert_eq!(
        machine.summary(&model(", purged=true")),
        [
            "steward::Group web deployed purged",
            "steward::User www deployed purged"
        ]
    );
}

/// Given: an account without a password that is to be unlocked, and a group as a number with a zero before it. Expected: nothing is
/// changed the second time.
#[test]
fn what_is_there_in_other_words_is_not_changed_again() {
    let Some(machine) = Machine::start() else {
        return;
    };
    for user in [
        r#"steward::User(host=host, name="a", locked=false)"#,
        r#"steward::User(host=host, name="b", group="0027")"#,
        r#"steward::User(host=host, name="c", password_hash="*", locked=true)"#,
    ] {
        machine.check(user, "deployed created");
        machine.check(user, "deployed nochange");
    }
    machine.check(
        r#"steward::User(host=host, name="a", locked=true)"#,
        "deployed nochange",
    );
}

/// Given: home directories that can not be moved or removed. Expected: that is said before the account is changed, and again with
/// the next deployment, until somebody has done something about it.
#[test]
fn a_home_directory_that_stays_where_it_is_is_an_error_each_time() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.check(
        r#"steward::User(host=host, name="a", home="/srv/a")"#,
        "deployed created",
    );
    machine.sh("mkdir /srv/b");
    let moved = r#"steward::User(host=host, name="a", home="/srv/b", move_home=true)"#;
    for _ in 0..2 {
        let event = machine.check(moved, "failed nochange");
        assert!(
            event.to_string().contains("something is already"),
            "{event}"
        );
    }
    machine.sh("rmdir /srv/b; touch /srv/a/mine");
    machine.check(moved, "deployed updated");
    machine.sh("ls /srv/b/mine; chown root /srv/b");
    let purged = r#"steward::User(host=host, name="a", purged=true, remove_home=true)"#;
    for _ in 0..2 {
        let event = machine.check(purged, "failed nochange");
        assert!(event.to_string().contains("belongs to user 0"), "{event}");
    }
    machine.sh("rm -r /srv/b");
    machine.check(purged, "deployed purged");
}

/// Given: a group whose members are named twice. Expected: each is a member once, and there is nothing to do the next time, also when
/// somebody has written one down twice.
#[test]
fn a_member_that_is_named_twice_is_a_member_once() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let group = r#"steward::Group(host=host, name="team", members=["root", "daemon", "root"])"#;
    machine.check(group, "deployed created");
    machine.check(group, "deployed nochange");
    assert!(machine.sh("getent group team").ends_with(":daemon,root\n"));
    machine.sh("sed -i 's/^team:.*/&,root/' /etc/group");
    machine.check(group, "deployed nochange");
}
