//! Jobs of cron, and files by the names that early models have for them.

use serde_json::{Value, json};

use crate::machine::Machine;

#[test]
fn a_job_of_cron_is_written_compared_field_by_field_and_purged() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh("mkdir -p /etc/cron.d");
    let job = |more: &str| {
        format!(
            r#"steward::Cron(host=host, name="backup", command="/bin/backup +%F", minute="*/5", weekday="mon-fri",
               environment={{"MAILTO": "root"}}{more})"#
        )
    };
    machine.check(&job(""), "deployed created");
    assert_eq!(
        machine.read("/etc/cron.d/backup"),
        "# Written by Steward; what is changed here is changed back.\nMAILTO=\"root\"\n\
         */5 * * * mon-fri root /bin/backup +\\%F\n"
    );
    machine.check(&job(""), "deployed nochange");
    machine.sh(
        "sed -i 's,^\\*/5,7,; s/ root / nobody /' /etc/cron.d/backup; chmod 666 /etc/cron.d/backup",
    );
    let event = machine.check(&job(", report_only=true"), "non_compliant nochange");
    assert_eq!(
        event["changes"],
        json!({
            "minute": {"current": "7", "desired": "*/5"},
            "user": {"current": "nobody", "desired": "root"},
            "mode": {"current": "666 of user 0", "desired": "644 of user 0"},
        })
    );
    machine.check(&job(""), "deployed updated");
    machine.check(&job(""), "deployed nochange");
    machine.sh("echo '# mine' >> /etc/cron.d/backup");
    let event = machine.check(&job(""), "deployed updated");
    let names: Vec<&String> = event["changes"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["content"]);
    for (more, reason) in [
        (r#", hour="25""#, "`hour` \"25\" is no schedule"),
        (r#", special="often""#, "`special` often is not known"),
    ] {
        let event = machine.check(&job(more), "failed nochange");
        let message = event["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
    machine.check(&job(", purged=true"), "deployed purged");
    machine.check(&job(", purged=true"), "deployed nochange");
    let daily = r#"steward::Cron(host=host, name="daily", command="true", special="daily")"#;
    machine.check(daily, "deployed created");
    machine.check(daily, "deployed nochange");
    assert!(
        machine
            .read("/etc/cron.d/daily")
            .ends_with("\n@daily root true\n")
    );
}

/// The seeds' names, and ours, for files.
#[test]
fn files_directories_and_links_of_std_are_deployed_natively() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let model = r#"
        std::Directory(host=host, path="/srv/site", owner="root", group="root", mode=750)
        std::File(host=host, path="/srv/site/index", owner="root", group="adm", mode=640, content="hello")
        std::ConfigFile(host=host, path="/srv/site/conf", content="a=1\n")
        std::Symlink(host=host, source="/srv/site/index", target="/srv/site/link")"#;
    let expected = |change: &str| {
        [
            format!("std::Directory /srv/site deployed {change}"),
            format!("std::File /srv/site/conf deployed {change}"),
            format!("std::File /srv/site/index deployed {change}"),
            format!("std::Symlink /srv/site/link deployed {change}"),
        ]
    };
    assert_eq!(machine.summary(model), expected("created"));
    assert_eq!(machine.summary(model), expected("nochange"));
    assert_eq!(
        machine.sh("cd /srv/site && stat -c '%a %U %G %n' . index conf && cat link"),
        "750 root root .\n640 root adm index\n644 root root conf\nhello"
    );
    let file = machine.sh("cd /srv/site && sha256sum index | cut -d' ' -f1");
    let by_digest = format!(
        r#"steward::File(host=host, path="/srv/copy", sha256="{}", source="/srv/site/index", mode=600)"#,
        file.trim()
    );
    machine.check(&by_digest, "deployed created");
    machine.check(&by_digest, "deployed nochange");
    assert_eq!(machine.read("/srv/copy"), "hello");
    let wrong = by_digest.replace(file.trim(), &"0".repeat(64));
    let event: Value = machine.check(&wrong, "failed nochange");
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("has the SHA-256 digest"), "{message}");
    assert_eq!(machine.read("/srv/copy"), "hello");
}
