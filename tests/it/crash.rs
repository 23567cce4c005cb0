//! kill -9 at random moments: nothing acknowledged is lost, and in the end the host is as the head commit says.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::Signal;

use crate::harness::{Host, Repo, Running, files, signal, wait_until};

/// A process below another one.
pub struct Descendant {
    pub pid: u32,
    /// The subcommand of our binary, or `python`.
    pub role: String,
}

/// All processes below `pid`, read from /proc.
pub fn descendants(pid: u32) -> Vec<Descendant> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(child) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        all.push((
            child,
            parent.unwrap_or(0),
            String::from_utf8_lossy(&command).into_owned(),
        ));
    }
    let (mut found, mut queue) = (Vec::new(), vec![pid]);
    while let Some(parent) = queue.pop() {
        for (child, _, command) in all.iter().filter(|(_, its, _)| *its == parent) {
            queue.push(*child);
            let role = command.split('\0').nth(1).unwrap_or_default();
            let role = if command.contains("steward_host") {
                "python"
            } else {
                role
            };
            found.push(Descendant {
                pid: *child,
                role: role.to_owned(),
            });
        }
    }
    found
}

const FILES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Files that change at different rounds, each requiring the one before.
fn model(round: u32) -> String {
    let mut model = files(&[]).replace("fs::Directory(", "before_a = fs::Directory(");
    for (n, name) in FILES.iter().enumerate() {
        let (content, next) = (round / (n as u32 + 1), FILES.get(n + 1).unwrap_or(&"end"));
        model.push_str(&format!(
            "before_{next} = fs::File(host=host, path=\"{{{{root}}}}/{name}\", content=\"{content}\\n\", \
             send_event=false, requires=before_{name})\n"
        ));
    }
    model
}

/// Input: kill -9 of server, worker and executor at random moments (docs/reference/security.md § 3.34). Answer: nothing acknowledged is lost, and the host is as the head commit says.
//: deploy 88, 129
#[test]
fn fifty_kills_of_server_worker_and_executor_lose_nothing() {
    let seed = std::env::var("STEWARD_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let mut random = StdRng::seed_from_u64(seed);
    let (repo, host) = (Repo::new(&model(0)), Host::new());
    let mut running: Option<Running> = None;
    let mut acknowledged = Vec::new();
    for round in 1..=50 {
        let server = running.get_or_insert_with(|| Running::start(host.up(repo.path())));
        repo.write("main.cf", &model(round));
        repo.commit("next");
        // A request over the API is acknowledged: it must be in the reports afterwards, whatever happens.
        if random.random_bool(0.3) {
            let environment = server.environment();
            let (status, body) =
                server.call("POST", &format!("/api/v1/notify/{environment}"), None);
            assert_eq!(status, 200, "{body}");
            acknowledged.push(body["compile_id"].as_str().unwrap().to_owned());
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..150_000)));
        let children = descendants(server.child.id());
        let role = ["server", "compile-worker", "executor"][random.random_range(0..3)];
        match children.iter().find(|child| child.role == role) {
            Some(child) => signal(child.pid, Signal::KILL),
            None => {
                signal(server.child.id(), Signal::KILL);
                server.child.wait().unwrap();
                running = None;
            }
        }
    }
    drop(running);
    // The last restart.
    let mut server = Running::start(host.up(repo.path()));
    let head = repo.head();
    let expected = model(50);
    wait_until("the host is as the head commit says", || {
        FILES.iter().all(|name| {
            let content = host.read(name);
            expected.contains(&format!("/{name}\", content=\"{}\\n\"", content.trim_end()))
        })
    });
    wait_until("all is deployed", || {
        let body = server.get_ok("/api/v2/resource?deploy_summary=true");
        body["metadata"]["deploy_summary"]["by_state"]["deployed"] == FILES.len() + 1
    });
    // An acknowledged request may make one more version of the same commit.
    wait_until(
        "the newest version is of the head commit, and active",
        || {
            let newest = server.get_ok("/api/v2/desiredstate?limit=1")["data"][0].clone();
            newest["commit"] == head && newest["status"] == "active"
        },
    );
    for id in acknowledged {
        wait_until("the acknowledged compile is done", || {
            let report = server.get_ok(&format!("/api/v2/compilereport/{id}"));
            assert_ne!(report["data"]["success"], false, "{report}");
            report["data"]["success"] == true
        });
    }
    // No run is left open, and nothing counts as deploying, once the version of the last compile is deployed, too.
    wait_until("nothing is left open", || {
        let body = server.get_ok("/api/v2/resource?deploy_summary=true");
        let summary = &body["metadata"]["deploy_summary"];
        assert_eq!(summary["total"], FILES.len() + 1);
        let actions = server.get_ok("/api/v2/resource_actions?limit=1000");
        let mut actions = actions["data"].as_array().unwrap().iter();
        summary["by_state"]["deploying"] == 0 && actions.all(|action| !action["finished"].is_null())
    });
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}

#[test]
fn children_die_with_the_server() {
    let (repo, host) = (Repo::new(&model(0)), Host::new());
    let mut server = Running::start(host.up(repo.path()));
    server.settled(1);
    let children = descendants(server.child.id());
    let roles: Vec<&str> = children.iter().map(|child| child.role.as_str()).collect();
    assert!(
        roles.contains(&"executor") && roles.contains(&"compile-worker"),
        "{roles:?}"
    );
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    for child in children {
        wait_until("a child is gone", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid));
            stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
        });
    }
}

/// Input: a second server on one data directory (docs/reference/security.md § 3.40). Answer: it does not start, and says why.
//: deploy 89
#[test]
fn two_servers_do_not_share_a_data_directory() {
    let (repo, host) = (Repo::new(&model(0)), Host::new());
    let mut server = Running::start(host.up(repo.path()));
    server.settled(1);
    let output = crate::harness::finish(host.up(repo.path()));
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("another steward runs"), "{text}");
}

#[test]
fn a_python_host_that_dies_while_it_is_idle_is_no_failure_of_the_next_resource() {
    let home = tempfile::tempdir().unwrap();
    let quickstart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quickstart");
    let mut command = crate::harness::steward();
    command
        .arg("up")
        .arg(quickstart)
        .args(["--format", "json", "--listen", "127.0.0.1:0"]);
    command
        .arg("--data")
        .arg(home.path().join("data"))
        .current_dir(home.path());
    let mut server = Running::start(command);
    server.settled(1);
    let hosts: Vec<u32> = descendants(server.child.id())
        .into_iter()
        .filter(|child| child.role == "python")
        .map(|child| child.pid)
        .collect();
    assert!(!hosts.is_empty(), "a handler in Python ran");
    for pid in hosts {
        signal(pid, Signal::KILL);
        wait_until("it is dead", || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| stat.contains(") Z "))
        });
    }
    assert_eq!(server.call("POST", "/api/v1/deploy", None).0, 200);
    let (_, summary) = server.settled(1);
    assert_eq!(
        (&summary["failed"], &summary["skipped"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
}
