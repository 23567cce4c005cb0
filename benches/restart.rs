//! How long a server takes after its start until the engine of an environment answers a request, and what memory that takes,
//! with as many resources as the first argument says (1 000 000), all of them deployed (law P10 of docs/design.md).
//!
//! `STEWARD_TEST_POSTGRES`: also with a database on this server. `STEWARD_BENCH_PROGRAM`: another binary to measure.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "resources/mod.rs"]
mod resources;
#[path = "services/server.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod server;

use std::time::{Duration, Instant};

use resources::{OF_SERVICE, end, resource, state, version};
use serde_json::json;
use server::{Cpu, Database, Server};
use steward::domain::{
    ActionId, ActionKind, Change, EnvironmentId, ResourceStatus, Timestamp, VersionNumber,
};
use steward::store::{ActionEnd, ActionStart, ResourceState, Store};

const SETTINGS: &str =
    "auto_deploy: false, autostart_agent_repair_interval: 0, autostart_agent_deploy_interval: 0";

/// Runs that are written in one transaction.
const RUNS_AT_ONCE: usize = 1000;

fn main() {
    let arguments = std::env::args().filter_map(|arg| arg.parse().ok());
    let numbers: Vec<usize> = arguments.collect();
    let n_resources = numbers.first().copied().unwrap_or(1_000_000);
    measure(&Database::Sqlite, n_resources);
    if let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") {
        measure(&Database::Postgres(url), n_resources);
    }
}

fn measure(database: &Database, n_resources: usize) {
    let files = [("project.yml", "name: bench\n"), ("main.cf", "")];
    let mut server = Server::new(database, &files, SETTINGS);
    server.start();
    has_compiled(&server);
    server.stop();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(fill(&server, n_resources));
    for _ in 0..3 {
        let began = Instant::now();
        server.start();
        let listens = began.elapsed();
        server.post("/api/v1/deploy", &json!({}));
        let took = began.elapsed();
        println!(
            "{}, {n_resources} resources: listens after {:.1} s, its engine answers after {:.1} s; {}; {}",
            database.name(),
            listens.as_secs_f64(),
            took.as_secs_f64(),
            server.cpu().since(&Cpu::default()),
            server.memory(),
        );
        server.stop();
    }
}

/// Waits until the compile that the first start asks for is over. Each start would do it again until it is, beside what is
/// measured.
fn has_compiled(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let reports = server.get("/api/v2/compilereport?limit=1");
        if reports["data"][0]["completed"].is_string() {
            return;
        }
        assert!(Instant::now() < deadline, "{reports}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stores a version with these resources, puts it in force, and writes a run of each.
async fn fill(server: &Server, n_resources: usize) {
    let store = match server.database() {
        Database::Sqlite => Store::open_sqlite(&server.data().join("steward.db")).await,
        Database::Postgres(url) => Store::open_postgres(url).await,
    };
    let store = store.expect("a database");
    let id = EnvironmentId::named("bench", "bench");
    let all = (0..n_resources).map(|n| resource(n, n / OF_SERVICE, 0));
    let new = version(id, all.collect());
    let states: Vec<ResourceState> = new.resources.iter().map(state).collect();
    let stored = store.version_store(&new, &end()).await;
    stored.expect("it is stored");
    let released = store.version_released(id).await.expect("versions");
    let number = released.expect("a released version").number;
    store
        .version_activate(id, number, &states, &[], &[])
        .await
        .expect("it is put in force");
    for states in states.chunks(RUNS_AT_ONCE) {
        let (starts, ends) = states.iter().map(|state| run(number, state)).unzip();
        let (starts, ends): (Vec<ActionStart>, Vec<ActionEnd>) = (starts, ends);
        let written = store.action_write(id, &starts, &ends);
        written.await.expect("runs are written");
    }
    store.close().await;
}

fn run(version: VersionNumber, state: &ResourceState) -> (ActionStart, ActionEnd) {
    let start = ActionStart {
        id: ActionId::generate(),
        action: ActionKind::Deploy,
        version,
        resource_id: state.resource_id.clone(),
        started: Timestamp(1),
    };
    let end = ActionEnd {
        id: start.id,
        finished: Timestamp(1),
        status: ResourceStatus::Deployed,
        change: Change::NoChange,
        changes: "{}".into(),
        messages: "[]".into(),
        state: Some(state.clone()),
        facts: Vec::new(),
        discovered: Vec::new(),
        resource_id: state.resource_id.clone(),
    };
    (start, end)
}
