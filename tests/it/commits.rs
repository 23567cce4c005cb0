//! A commit becomes a deployment.

use serde_json::json;

use crate::harness::{Host, Repo, Running, files};

//: deploy 22, 28, 35
#[test]
fn a_commit_deploys_only_what_changed_a_revert_undoes_it_and_a_removed_resource_leaves_the_desired_state()
 {
    let (repo, host) = (
        Repo::new(&files(&[("a", "one"), ("b", "one"), ("c", "one")])),
        Host::new(),
    );
    let mut running = Running::start(host.up(repo.path()));
    let (ran, summary) = running.settled(1);
    assert_eq!(ran.len(), 4, "{ran:?}");
    assert_eq!(summary["total"], 4);
    assert_eq!(
        (host.read("a"), host.read("b"), host.read("c")),
        ("one\n".into(), "one\n".into(), "one\n".into())
    );

    repo.write(
        "main.cf",
        &files(&[("a", "one"), ("b", "two"), ("c", "one")]),
    );
    repo.commit("change b");
    let (ran, summary) = running.settled(2);
    assert_eq!(ran, ["b deployed updated"]);
    assert_eq!(
        (&summary["deployed"], &summary["unchanged"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(host.read("b"), "two\n");

    repo.git(&["revert", "--no-edit", "HEAD"]);
    let (ran, _) = running.settled(3);
    assert_eq!(ran, ["b deployed updated"]);
    assert_eq!(host.read("b"), "one\n");

    repo.write("main.cf", &files(&[("a", "one"), ("b", "one")]));
    repo.commit("remove c");
    let (ran, summary) = running.settled(4);
    assert!(ran.is_empty(), "{ran:?}");
    assert_eq!(summary["total"], 3);
    // Nothing is undone on the host; it is no longer cared for.
    assert_eq!(host.read("c"), "one\n");
    let body = running.get_ok("/api/v2/resource?deploy_summary=true&filter.resource_id_value=%2Fc");
    assert_eq!(body["data"][0]["status"], "orphaned", "{body}");
    assert_eq!(body["metadata"]["deploy_summary"]["total"], 3);
    let ids = running.get_ok("/api/v2/desiredstate/4")["data"].to_string();
    assert!(!ids.contains("/c]"), "{ids}");
    assert!(running.stop().success());
}

//: deploy 26
#[test]
fn an_empty_commit_makes_a_version_that_deploys_nothing() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    repo.commit("nothing");
    let (ran, summary) = running.settled(2);
    assert!(ran.is_empty(), "{ran:?}");
    assert_eq!(summary["unchanged"], 2);
}

#[test]
fn many_commits_in_a_burst_end_at_the_last_one() {
    let (repo, host) = (Repo::new(&files(&[("a", "0")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    for n in 1..=20 {
        repo.write("main.cf", &files(&[("a", &n.to_string())]));
        repo.commit("next");
    }
    let head = repo.head();
    running.wait_for(|event| {
        event["event"] == "compiled" && head.starts_with(event["commit"].as_str().unwrap())
    });
    crate::harness::wait_until("the last commit is deployed", || host.read("a") == "20\n");
}

#[test]
fn a_branch_is_followed_and_others_are_not() {
    let (repo, host) = (Repo::new(&files(&[("a", "main")])), Host::new());
    repo.git(&["checkout", "-q", "-b", "prod"]);
    repo.write("main.cf", &files(&[("a", "prod")]));
    repo.commit("prod");
    repo.git(&["checkout", "-q", "main"]);
    let mut command = host.up(repo.path());
    command.args(["--branch", "prod"]);
    let mut running = Running::start(command);
    running.settled(1);
    assert_eq!(host.read("a"), "prod\n");
    repo.write("main.cf", &files(&[("a", "main again")]));
    repo.commit("main");
    running.wait_for(|event| event["event"] == "up_to_date");
    assert_eq!(host.read("a"), "prod\n");
}
