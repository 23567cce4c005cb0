//! A database that goes away, stands still or is full while resources deploy: what was done is not lost and not repeated, it is
//! told, and work goes on without a restart (docs/reference/security.md § 4.9).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::database::{Postgres, Small};
use crate::harness::{Repo, request, signal, wait_until};
use crate::serve::{Served, serve};
use crate::service_world::LINKS;

const RESOURCES: usize = 400;
const AGENTS: usize = 4;

/// Resources without effect on four agents, so that there is always something to write.
fn model(value: usize) -> String {
    format!(
        "import std::testing\nfor n in std::sequence({RESOURCES}):\n    agent = n % {AGENTS}\n    \
         std::testing::NullResource(name=\"r{{{{n}}}}\", agentname=\"agent{{{{agent}}}}\", value=\"{value}\", \
         send_event=false)\nend\n"
    )
}

fn config(repo: &Repo, database: &str) -> String {
    format!(
        "{database}environments:\n  - project: infra\n    name: prod\n    repository: {}\n    branch: main\n    \
         settings: {{autostart_agent_repair_interval: 0, autostart_agent_deploy_interval: 0}}\n",
        repo.path().display()
    )
}

/// How many resources are deployed, and how many deploy.
fn deployed(served: &Served) -> (u64, u64) {
    let environment = served.environment("prod");
    let body = served.get(&environment, "/api/v2/resource?deploy_summary=true&limit=1");
    let states = &body["metadata"]["deploy_summary"]["by_state"];
    let count = |state: &str| states[state].as_u64().unwrap_or_default();
    (count("deployed"), count("deploying"))
}

#[track_caller]
fn wait_for_version(served: &Served, version: usize) {
    wait_until("the version is in force", || {
        let environment = served.environment("prod");
        let newest = served.get(&environment, "/api/v2/desiredstate?limit=1")["data"][0].clone();
        newest["version"] == version && newest["status"] == "active"
    });
    wait_until("all is deployed", || {
        deployed(served) == (RESOURCES as u64, 0)
    });
}

/// Runs of the version, each of which must have ended, by resource.
#[track_caller]
fn check_runs(served: &Served, version: usize) {
    let environment = served.environment("prod");
    let mut runs: Vec<String> = Vec::new();
    let mut path = "/api/v2/resource_actions?limit=1000".to_owned();
    loop {
        let page = served.get(&environment, &path);
        for action in page["data"].as_array().unwrap() {
            if action["action"] == "deploy" && action["version"] == version {
                assert!(!action["finished"].is_null(), "{action}");
                runs.push(action["resource_version_ids"][0].to_string());
            }
        }
        match page["links"]["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    // Nor twice: what was handed out before the database went away has its result, which is written when it is back.
    assert_eq!(runs.len(), RESOURCES);
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), RESOURCES);
}

/// Stands between the server and its database, and breaks connections when the database has just committed, so that the
/// server can not know whether it has.
struct Proxy {
    port: u16,
    /// Commits that are still to be broken off.
    n_to_break: Arc<AtomicI64>,
    n_broken: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(database: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            n_to_break: Arc::default(),
            n_broken: Arc::default(),
        };
        let (n_to_break, n_broken) = (Arc::clone(&proxy.n_to_break), Arc::clone(&proxy.n_broken));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(database) = TcpStream::connect(("127.0.0.1", database)) else {
                    continue;
                };
                let (n_to_break, n_broken) = (Arc::clone(&n_to_break), Arc::clone(&n_broken));
                std::thread::spawn(move || connect(&client, &database, &n_to_break, &n_broken));
            }
        });
        proxy
    }
}

/// Hands on what both sides say, until one of them ends or the connection is to break.
fn connect(
    client: &TcpStream,
    database: &TcpStream,
    n_to_break: &AtomicI64,
    n_broken: &AtomicUsize,
) {
    let is_writing = Arc::new(AtomicI64::new(0));
    std::thread::scope(|scope| {
        let writing = Arc::clone(&is_writing);
        scope.spawn(move || {
            // Nothing that comes back is handed on behind a commit that is to be broken off.
            let broken = hand_on(database, client, |_| writing.load(Ordering::SeqCst) < 2);
            if broken {
                n_broken.fetch_add(1, Ordering::SeqCst);
            }
        });
        hand_on(client, database, |sent| {
            let says = |words: &[u8]| sent.windows(words.len()).any(|part| part == words);
            if says(b"INSERT INTO resource_action") {
                is_writing.store(1, Ordering::SeqCst);
            }
            let is_end = says(b"COMMIT") && is_writing.load(Ordering::SeqCst) == 1;
            if is_end {
                let is_meant = n_to_break.fetch_sub(1, Ordering::SeqCst) > 0;
                is_writing.store(if is_meant { 2 } else { 0 }, Ordering::SeqCst);
            }
            true
        });
    });
}

/// Copies until the end of either side, or until `goes_on` refuses; then both are closed. `true`: it refused.
fn hand_on(
    mut from: &TcpStream,
    mut to: &TcpStream,
    mut goes_on: impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut buffer = vec![0; 1 << 16];
    let is_refused = loop {
        let Ok(n_read @ 1..) = from.read(&mut buffer) else {
            break false;
        };
        if !goes_on(&buffer[..n_read]) {
            break true;
        }
        if to.write_all(&buffer[..n_read]).is_err() {
            break false;
        }
    };
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
    is_refused
}

/// Input: connections to PostgreSQL that break just after a commit of results, so that the server does not know whether they are written; then PostgreSQL stopped (SIGSTOP) in the middle of a deployment (docs/reference/security.md § 4.9, § 3.33). Answer: results are there once, health says that the database does not answer, and the deployment goes on without a restart.
#[test]
fn results_whose_commit_was_not_answered_are_written_once_and_a_database_that_stands_still_is_waited_for()
 {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let proxy = Proxy::start(postgres.port);
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::new(&model(1));
    let database = format!(
        "database: postgres://postgres@127.0.0.1:{}/postgres\n",
        proxy.port
    );
    proxy.n_to_break.store(3, Ordering::SeqCst);
    let served = serve(dir.path(), &config(&repo, &database));
    wait_for_version(&served, 1);
    assert_eq!(proxy.n_broken.load(Ordering::SeqCst), 3, "{}", served.log());
    check_runs(&served, 1);
    assert!(
        served.log().contains("cannot write results"),
        "{}",
        served.log()
    );

    let all = std::fs::read_to_string(format!("{}/postmaster.pid", postgres.data())).unwrap();
    let postmaster: i32 = all.lines().next().unwrap().parse().unwrap();
    let each = |what: Signal| {
        signal(postmaster.cast_unsigned(), what);
        for process in steward::process::descendants::below([postmaster]) {
            signal(process.cast_unsigned(), what);
        }
    };
    repo.write("main.cf", &model(2));
    repo.commit("next");
    wait_until("some of it runs", || {
        served.log().contains("version 2 is in force")
    });
    each(Signal::STOP);
    wait_until("health says so", || served.health() == 503);
    std::thread::sleep(Duration::from_secs(outage()));
    each(Signal::CONT);
    wait_until("it is well again", || served.health() == 200);
    wait_for_version(&served, 2);
    check_runs(&served, 2);
}

/// Input: PostgreSQL is killed just after it has taken orders for services, whose next steps do not wait for the disk (docs/reference/security.md § 4.9, § 3.33). Answer: every instance that a client was told of comes up, without a restart of the server.
#[test]
fn instances_go_on_when_the_database_has_forgotten_their_last_step() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let root = format!("{:?}", dir.path());
    let repo = Repo::new(&LINKS.replace("std::get_env(\"ROOT\")", &root));
    let database = format!(
        "database: postgres://postgres@127.0.0.1:{}/postgres\n",
        postgres.port
    );
    let served = serve(dir.path(), &config(&repo, &database));
    wait_until("the service is in the catalog", || {
        let environment = served.environment("prod");
        let url = format!("{}/lsm/v1/service_catalog/link", served.api);
        request("GET", &url, Some(&environment), None).0 == 200
    });
    let environment = served.environment("prod");
    let url = format!("{}/lsm/v1/service_inventory/link", served.api);
    for n in 0..3 {
        let body = json!({"attributes": {"site": format!("site{n}"), "mbps": 1}});
        let (status, answer) = request("POST", &url, Some(&environment), Some(&body));
        assert_eq!(status, 200, "{answer}");
    }
    postgres.kill();
    postgres.up();
    wait_until("all instances are up", || {
        let (status, all) = request("GET", &url, Some(&environment), None);
        let all = all["data"].as_array().cloned().unwrap_or_default();
        status == 200 && all.len() == 3 && all.iter().all(|one| one["state"] == "up")
    });
}

/// Given: a compile that has failed, which is written without waiting for the disk, and a crash of PostgreSQL that has taken it away,
/// so that the compile is marked running and nobody runs it. Expected: it runs again and ends, without a restart of the server.
#[test]
fn a_compile_ends_when_the_database_has_forgotten_its_end() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::new("x = \n");
    let database = format!(
        "database: postgres://postgres@127.0.0.1:{}/postgres\n",
        postgres.port
    );
    // No poll asks for another compile meanwhile.
    let config = format!("{}    poll: 1h\n", config(&repo, &database));
    let served = serve(dir.path(), &config);
    let has_failed = || {
        let environment = served.environment("prod");
        let url = format!("{}/api/v2/compilereport?limit=1", served.api);
        let (status, reports) = request("GET", &url, Some(&environment), None);
        status == 200 && !reports["data"][0]["completed"].is_null()
    };
    wait_until("the compile has failed", has_failed);
    // What a crash leaves whose last commits were not on the disk. The loop has long come to rest.
    postgres.sql("UPDATE compile SET state = 'running', completed_us = NULL, reason = NULL");
    assert!(!has_failed());
    postgres.kill();
    postgres.up();
    wait_until("it has failed again", has_failed);
}

/// How many seconds the database is away: a minute by hand, a moment where many tests run.
fn outage() -> u64 {
    let seconds = std::env::var("STEWARD_TEST_OUTAGE").ok();
    seconds.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Input: the disk of the database is full in the middle of a deployment (docs/reference/security.md § 4.9, § 3.33). Answer: the log and health say so, nothing new is begun, and with room again the deployment goes on without a restart.
#[test]
fn a_disk_that_is_full_while_resources_deploy_stops_work_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let Some(_small) = Small::mount(&data, "24m") else {
        return;
    };
    let repo = Repo::new(&model(1));
    let served = serve(dir.path(), &config(&repo, ""));
    wait_for_version(&served, 1);
    let environment = served.environment("prod");
    let deploy = || {
        let headers = [("X-Inmanta-tid".to_owned(), environment.clone())];
        let url = format!("{}/api/v1/deploy", served.api);
        crate::harness::send("POST", &url, &headers, b"");
    };
    // The log of the database has room for what a check of its health writes, and for little more.
    wait_until("the log of the database has grown", || {
        deploy();
        std::fs::metadata(data.join("steward.db-wal")).is_ok_and(|log| log.len() > 2 << 20)
    });
    let filler = data.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    // What is open keeps its room.
    drop(file);
    // Runs until what it writes finds no room.
    wait_until("it is told", || {
        deploy();
        served.log().contains("cannot write results")
    });
    wait_until("health says so", || served.health() == 503);
    std::fs::remove_file(&filler).unwrap();
    wait_until("there is room again", || served.health() == 200);
    repo.write("main.cf", &model(2));
    repo.commit("next");
    wait_for_version(&served, 2);
    let actions: Value = served.get(&environment, "/api/v2/resource_actions?limit=1000");
    let mut actions = actions["data"].as_array().unwrap().iter();
    assert!(actions.all(|action| !action["finished"].is_null()));
}
