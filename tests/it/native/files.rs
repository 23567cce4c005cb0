//! Jobs of cron, and files by the names that early models have for them.

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::native::tasks::check;

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
    machine.check(&job(r#", purged=true, special="often""#), "deployed purged");
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

/// Given: a slash at the end of the path of what is no directory. Expected: the attribute is named, and nothing is made, followed or
/// removed.
#[test]
fn a_path_that_ends_with_a_slash_is_that_of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| format!("{}/{name}", dir.path().display());
    std::os::unix::fs::symlink(place("kept"), place("link")).unwrap();
    std::fs::create_dir(place("kept")).unwrap();
    for purged in [false, true] {
        let file = json!({"path": place("file/"), "content": "x", "purged": purged});
        let link = json!({"path": place("link/"), "target": "/x", "purged": purged});
        let of_std = json!({"target": place("link/"), "source": "/x", "purged": purged});
        for (kind, wanted, name) in [
            ("steward::File", file, "path"),
            ("steward::Symlink", link, "path"),
            ("std::Symlink", of_std, "target"),
        ] {
            let log = check(kind, wanted, "failed nochange");
            assert!(
                log.contains(&format!("the attribute `{name}` is ")),
                "{log}"
            );
            assert!(log.contains("leave the slash out"), "{log}");
        }
    }
    assert!(std::path::Path::new(&place("link")).is_symlink());
}
