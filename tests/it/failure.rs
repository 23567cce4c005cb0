//! A handler that fails: what depends on it is skipped, and it recovers.

use std::fs;

use serde_json::json;

use crate::harness::{Host, Repo, Running, segment};

const MODEL: &str = r#"
import fs
root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)
first = fs::File(host=host, path="{{root}}/missing/first", content="1\n")
second = fs::File(host=host, path="{{root}}/second", content="2\n", requires=first)
third = fs::File(host=host, path="{{root}}/third", content="3\n", requires=second)
other = fs::File(host=host, path="{{root}}/other", content="4\n")
"#;

//: deploy 67, 69
#[test]
fn dependents_of_a_failure_are_skipped_and_say_why_and_it_is_retried_until_it_recovers() {
    let (repo, host) = (Repo::new(MODEL), Host::new());
    let mut command = host.up(repo.path());
    command.args(["--set", "deploy_retry_backoff=1"]);
    let mut running = Running::start(command);
    let (mut ran, summary) = running.settled(1);
    ran.sort();
    assert_eq!(
        ran,
        [
            "first failed nochange",
            "other deployed created",
            "second skipped nochange",
            "third skipped nochange"
        ]
    );
    assert_eq!(
        (
            &summary["failed"],
            &summary["skipped"],
            &summary["deployed"]
        ),
        (&json!(1), &json!(2), &json!(1))
    );
    let message = |name: &str| {
        let event = running.seen.iter().rev().find(|event| {
            event["resource"]
                .as_str()
                .is_some_and(|id| id.ends_with(&format!("/{name}]")))
        });
        event.unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert!(
        message("first").contains("does not exist; declare it as fs::Directory"),
        "{}",
        message("first")
    );
    assert!(
        message("second").contains("failed dependencies")
            && message("second").contains("/missing/first")
    );

    // It is tried again, later each time.
    let retry =
        running.wait_for(|event| event["event"] == "resource" && event["status"] == "failed");
    assert!(
        retry["reason"]
            .as_str()
            .unwrap()
            .starts_with("previous deploy happened more than"),
        "{retry}"
    );
    fs::create_dir(host.file("missing")).unwrap();
    running.wait_for(|event| {
        event["event"] == "summary" && event["failed"] == 0 && event["skipped"] == 0
    });
    assert_eq!(
        (host.read("missing/first"), host.read("third")),
        ("1\n".into(), "3\n".into())
    );
    let second = running.seen.iter().rev().find(|event| {
        event["resource"]
            .as_str()
            .is_some_and(|id| id.ends_with("/second]"))
    });
    let id = second.unwrap()["resource"].as_str().unwrap().to_owned();
    assert!(
        second.unwrap()["reason"]
            .as_str()
            .unwrap()
            .starts_with("a recovery event was received from")
    );
    let detail = running.get_ok(&format!("/api/v2/resource/{}", segment(&id)))["data"].clone();
    assert_eq!(
        (&detail["status"], &detail["compliance"]),
        (&json!("deployed"), &json!("compliant"))
    );
    assert_eq!(
        detail["requires_status"]
            .as_object()
            .unwrap()
            .values()
            .collect::<Vec<_>>(),
        [&json!("deployed")]
    );
}

//: deploy 134
#[test]
fn once_ends_with_one_when_a_resource_is_not_deployed() {
    let (repo, host) = (Repo::new(MODEL), Host::new());
    let mut command = host.up(repo.path());
    command.arg("--once");
    let output = crate::harness::finish(command);
    assert_eq!(output.status.code(), Some(1));
    let summary = crate::harness::events(&output).pop().unwrap();
    assert_eq!(
        (&summary["event"], &summary["failed"]),
        (&json!("summary"), &json!(1))
    );
}
