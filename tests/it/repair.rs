//! Somebody changes a managed file; it is repaired on the interval.

use std::fs;

use crate::harness::{Host, Repo, Running, files, segment};

#[test]
fn an_edited_and_a_deleted_file_are_repaired_on_the_interval_and_the_history_tells() {
    let (repo, host) = (
        Repo::new(&files(&[("a", "one"), ("b", "two")])),
        Host::new(),
    );
    let mut command = host.up(repo.path());
    command.args(["--set", "autostart_agent_repair_interval=1"]);
    let mut running = Running::start(command);
    running.settled(1);
    // In one step, or a repair may see the file empty.
    fs::write(host.data().join("edited"), "somebody was here\n").unwrap();
    fs::rename(host.data().join("edited"), host.file("a")).unwrap();
    fs::remove_file(host.file("b")).unwrap();
    let is_repair = |name: &str, event: &serde_json::Value| {
        event["event"] == "resource"
            && event["resource"]
                .as_str()
                .unwrap()
                .ends_with(&format!("/{name}]"))
            && event["change"] != "nochange"
    };
    let (mut first, mut second) = (None, None);
    while first.is_none() || second.is_none() {
        let event = running.wait_for(|event| is_repair("a", event) || is_repair("b", event));
        if is_repair("a", &event) {
            first = Some(event)
        } else {
            second = Some(event)
        }
    }
    let (a, b) = (first.unwrap(), second.unwrap());
    assert_eq!(
        (&a["change"], &b["change"]),
        (&"updated".into(), &"created".into())
    );
    assert_eq!(a["changes"]["content"]["current"], "somebody was here\n");
    assert!(
        a["reason"]
            .as_str()
            .unwrap()
            .starts_with("previous repair happened more than"),
        "{a}"
    );
    assert_eq!(
        (host.read("a"), host.read("b")),
        ("one\n".into(), "two\n".into())
    );

    let id = a["resource"].as_str().unwrap();
    let body = running.get_ok(&format!("/api/v2/resource/{}/logs?limit=1000", segment(id)));
    let lines = body["data"].to_string();
    assert!(
        lines.contains("Start run because previous repair happened more than"),
        "{lines}"
    );
    // A client's own moment, however it is written, is a boundary; what is none is refused.
    let all = body["data"].as_array().unwrap();
    let newest = all[0]["timestamp"].as_str().unwrap();
    let later = |boundary: &str| {
        let path = format!(
            "/api/v2/resource/{}/logs?sort=timestamp.asc&{boundary}",
            segment(id)
        );
        running.get(&path)
    };
    let elsewhere = newest.replace("+00:00", "Z");
    assert_ne!(elsewhere, newest);
    let (status, page) = later(&format!("start={elsewhere}"));
    assert_eq!(status, 200);
    let is_later = |line: &serde_json::Value| line["timestamp"].as_str() >= Some(newest);
    assert!(
        page["data"].as_array().unwrap().iter().all(is_later),
        "{page}"
    );
    assert_eq!(later("start=zz").0, 400);
    let actions = running.get_ok("/api/v2/resource_actions?agent=localhost&limit=1000");
    // An editor that empties a file before it writes may be caught between the two.
    let repairs = actions["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|action| action["change"] == "updated");
    assert!(repairs.count() >= 1);
    running.stop();
}

#[test]
fn a_repair_and_a_deploy_can_be_asked_for() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    fs::write(host.file("a"), "changed").unwrap();
    let (status, body) = running.call(
        "POST",
        "/api/v1/deploy",
        Some(&serde_json::json!({
            "agent_trigger_method": "push_incremental_deploy"
        })),
    );
    assert_eq!(
        (status, &body["agents"]),
        (200, &serde_json::json!([])),
        "nothing is known to differ"
    );
    let (ran, _) = running.settled(1);
    assert!(ran.is_empty(), "{ran:?}");
    let (status, body) = running.call("POST", "/api/v1/deploy", None);
    assert_eq!(
        (status, &body["agents"]),
        (200, &serde_json::json!(["localhost"]))
    );
    let (ran, _) = running.settled(1);
    assert!(ran.contains(&"a deployed updated".to_owned()), "{ran:?}");
    assert_eq!(host.read("a"), "one\n");
}
