//! Units and services, of a systemd that runs and where none does.

use std::time::Duration;

use serde_json::json;

use crate::machine::Machine;

const SERVICE: &str = r#"
    steward::Unit(host=host, name="tick.service",
        content="[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=test.target\n")
    steward::Service(host=host, name="tick""#;

#[test]
fn a_service_of_systemd_is_started_enabled_restarted_and_stopped() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    let state = || machine.sh("systemctl is-active tick; systemctl is-enabled tick; true");
    let pid = || machine.sh("systemctl show -P MainPID tick");
    let model = format!("{SERVICE})");
    assert_eq!(
        machine.summary(&model),
        [
            "steward::Service tick deployed updated",
            "steward::Unit tick.service deployed created"
        ]
    );
    assert_eq!(state(), "active\nenabled\n");
    let first = pid();
    assert_eq!(
        machine.summary(&model),
        [
            "steward::Service tick deployed nochange",
            "steward::Unit tick.service deployed nochange"
        ]
    );
    assert_eq!(pid(), first);
    // The unit changes: the service is started anew, with the new unit.
    let changed = model.replace("sleep 1000", "sleep 2000");
    machine.summary(&changed);
    assert_ne!(pid(), first);
    assert!(
        machine
            .sh("tr '\\0' ' ' < /proc/$(systemctl show -P MainPID tick)/cmdline")
            .contains("sleep 2000")
    );
    machine.sh("systemctl stop tick; systemctl disable tick 2>/dev/null");
    let event = machine.check(
        r#"steward::Service(host=host, name="tick", report_only=true)"#,
        "non_compliant nochange",
    );
    assert_eq!(
        event["changes"],
        json!({
            "state": {"current": "stopped", "desired": "running"},
            "enabled": {"current": false, "desired": true},
        })
    );
    assert_eq!(state(), "inactive\ndisabled\n");
    machine.check(
        r#"std::Service(host=host, name="tick", state="running", onboot=true)"#,
        "deployed updated",
    );
    assert_eq!(state(), "active\nenabled\n");
    machine.check(
        r#"steward::Service(host=host, name="tick", state="stopped", enabled=false)"#,
        "deployed updated",
    );
    assert_eq!(state(), "inactive\ndisabled\n");
    machine.check(
        r#"steward::Unit(host=host, name="tick.service", content="", purged=true)"#,
        "deployed purged",
    );
    assert_eq!(
        machine.sh("systemctl show -P LoadState tick"),
        "not-found\n"
    );
}

#[test]
fn a_service_that_does_not_start_or_exist_fails_with_a_reason() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    let event = machine.check(
        r#"steward::Service(host=host, name="nowhere")"#,
        "failed nochange",
    );
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("nowhere.service"), "{message}");
    machine.check(
        r#"steward::Service(host=host, name="nowhere", state="stopped", enabled=false)"#,
        "deployed nochange",
    );
    machine.sh("printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n' > /etc/systemd/system/bad.service; systemctl daemon-reload");
    let event = machine.check(
        r#"steward::Service(host=host, name="bad", enabled=null)"#,
        "failed nochange",
    );
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("Job for bad.service failed") || message.contains("bad.service"),
        "{message}"
    );
}

/// Given: a unit that is named by its alias. Expected: it is stopped and disabled, in this order, since the alias goes with the latter.
#[test]
fn a_service_is_stopped_by_its_alias() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    machine.sh("printf '[Service]\\nExecStart=/bin/sleep 1000\\n[Install]\\nWantedBy=test.target\\nAlias=nick.service\\n' \
        > /etc/systemd/system/own.service; systemctl daemon-reload; systemctl enable --now own 2>/dev/null");
    machine.check(
        r#"steward::Service(host=host, name="nick", state="stopped", enabled=false)"#,
        "deployed updated",
    );
    assert_eq!(
        machine.sh("systemctl is-active own; systemctl is-enabled own; true"),
        "inactive\ndisabled\n"
    );
}

/// Given: services whose programs end with a failure just after systemd has started them, and one that is done. Expected: the first
/// are failures that say where to look, each time.
#[test]
fn a_service_that_ends_at_once_is_not_deployed() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    for (name, unit) in [
        ("soon", "ExecStart=/bin/sh -c 'sleep 0.1; exit 3'"),
        ("again", "Restart=always\\nExecStart=/bin/false"),
        ("nothing", "ExecStart=/nowhere/at/all"),
    ] {
        let model = format!(
            "steward::Unit(host=host, name=\"{name}.service\", content=\"[Service]\\n{unit}\\n\")\n\
             steward::Service(host=host, name=\"{name}\", enabled=null)"
        );
        for _ in 0..2 {
            let summary = machine.summary(&model);
            assert!(
                summary[0].contains("failed nochange")
                    && summary[0].contains(&format!("{name}.service")),
                "{summary:#?}"
            );
        }
    }
    // What ends only after a while is known when it has been started anew.
    let later = r#"
        steward::Unit(host=host, name="later.service",
            content="[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=0\nExecStart=/bin/sleep 1.2\n")
        steward::Service(host=host, name="later", enabled=null)"#;
    machine.summary(later);
    std::thread::sleep(Duration::from_secs(2));
    let summary = machine.summary(later);
    assert!(
        summary[0].contains("failed nochange") && summary[0].contains("later.service"),
        "{summary:#?}"
    );
    let job = r#"
        steward::Unit(host=host, name="job.service", content="[Service]\nType=oneshot\nExecStart=/bin/true\n")
        steward::Service(host=host, name="job", enabled=null)"#;
    assert_eq!(
        machine.summary(job)[0],
        "steward::Service job deployed updated"
    );
}

/// Given: two instances of a template, which changes; then the template is purged, and its instances are stopped and disabled. Expected:
/// the first are started anew; the others are disabled before the file is gone, so that no link to it stays.
#[test]
fn instances_go_with_their_template() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    let model = |seconds: u32| {
        format!(
            r#"
            steward::Unit(host=host, name="tick@.service",
                content="[Service]\nExecStart=/bin/sleep {seconds}\n[Install]\nWantedBy=test.target\n")
            steward::Service(host=host, name="tick@one")
            steward::Service(host=host, name="tick@two")"#
        )
    };
    assert_eq!(
        machine.summary(&model(1000)),
        [
            "steward::Service tick@one deployed updated",
            "steward::Service tick@two deployed updated",
            "steward::Unit tick@.service deployed created"
        ]
    );
    machine.summary(&model(2000));
    for name in ["one", "two"] {
        let script =
            format!("tr '\\0' ' ' < /proc/$(systemctl show -P MainPID tick@{name})/cmdline");
        assert_eq!(machine.sh(&script).trim(), "/bin/sleep 2000");
    }
    machine.summary(
        r#"
        steward::Unit(host=host, name="tick@.service", content="", purged=true)
        steward::Service(host=host, name="tick@one", state="stopped", enabled=false)
        steward::Service(host=host, name="tick@two", state="stopped", enabled=false)"#,
    );
    assert_eq!(
        machine.sh(
            "find /etc/systemd/system -name 'tick*'; systemctl is-active tick@one tick@two || true"
        ),
        "inactive\ninactive\n"
    );
}

#[test]
fn where_systemd_does_not_run_units_are_written_and_enabled() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let model = format!("{SERVICE}, state=null)").replace("test.target", "multi-user.target");
    assert_eq!(
        machine.summary(&model),
        [
            "steward::Service tick deployed updated",
            "steward::Unit tick.service deployed created"
        ]
    );
    assert_eq!(
        machine.sh("readlink /etc/systemd/system/multi-user.target.wants/tick.service"),
        "/etc/systemd/system/tick.service\n"
    );
    assert_eq!(
        machine.summary(&model),
        [
            "steward::Service tick deployed nochange",
            "steward::Unit tick.service deployed nochange"
        ]
    );
    let event = machine.check(
        r#"steward::Service(host=host, name="tick")"#,
        "failed nochange",
    );
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("systemd does not run on this host"),
        "{message}"
    );
    // A file that adds to a unit is in a folder of its own.
    let drop_in = |more: &str| {
        format!(
            r#"steward::Unit(host=host, name="tick.service.d/limits.conf", content="[Service]\nNice=5\n"{more})"#
        )
    };
    machine.check(&drop_in(""), "deployed created");
    assert_eq!(
        machine.read("/etc/systemd/system/tick.service.d/limits.conf"),
        "[Service]\nNice=5\n"
    );
    machine.check(&drop_in(", purged=true"), "deployed purged");
    assert!(!machine.file("/etc/systemd/system/tick.service.d").exists());
}

/// Given: a service that systemd makes from a script in `/etc/init.d`, which links start with the machine. Expected: it is enabled and
/// disabled as others are.
#[test]
fn a_service_of_an_old_script_is_enabled_and_disabled() {
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    let tools = "test -x /lib/systemd/systemd-sysv-install && command -v update-rc.d || echo none";
    if machine.sh(tools) == "none\n" {
        eprintln!("SKIPPED: systemd-sysv-install and update-rc.d are not installed");
        return;
    }
    // As the program of systemd that looks for such scripts does it.
    machine.sh(
        r#"set -e
cat > /etc/init.d/old <<'END'
#!/bin/sh
### BEGIN INIT INFO
# Provides: old
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
END
cat > /usr/lib/systemd/system-generators/old <<'END'
#!/bin/sh
printf '[Unit]\nSourcePath=/etc/init.d/old\n[Service]\nExecStart=/bin/sleep 1000\n' > "$1/old.service"
END
chmod 755 /etc/init.d/old /usr/lib/systemd/system-generators/old
update-rc.d old defaults
update-rc.d old disable
systemctl daemon-reload
test "$(systemctl show -P UnitFileState old)" = generated"#,
    );
    let links = || machine.sh("ls /etc/rc2.d | grep old");
    let model = r#"steward::Service(host=host, name="old")"#;
    machine.check(model, "deployed updated");
    assert!(links().starts_with('S'), "{}", links());
    machine.check(model, "deployed nochange");
    let disabled = r#"steward::Service(host=host, name="old", enabled=false)"#;
    machine.check(disabled, "deployed updated");
    assert!(links().starts_with('K'), "{}", links());
    machine.check(disabled, "deployed nochange");
}
