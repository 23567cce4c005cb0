//! How long a server takes after its start until the engine of an environment answers a request, and what memory that takes,
//! with as many resources as the first argument says (1 000 000), all of them deployed (law P10 of docs/design.md).
//!
//! `STEWARD_TEST_POSTGRES`: also with a database on this server. `STEWARD_BENCH_PROGRAM`: another binary to measure.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "services/server.rs"]
#[expect(dead_code, reason = "other benchmarks use the rest")]
mod server;

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::json;
use server::{Cpu, Database, Server};
use steward::domain::{
    ActionId, ActionKind, AgentName, Blocked, Change, CompileId, EnvironmentId, LastRun,
    ResourceId, ResourceStatus, Timestamp, VersionNumber,
};
use steward::store::{
    ActionEnd, ActionStart, CompileEnd, NewVersion, Outcome, ResourceState, Store, StoredResource,
};

const SETTINGS: &str =
    "auto_deploy: false, autostart_agent_repair_interval: 0, autostart_agent_deploy_interval: 0";

/// Resources of a set; all but the first require that.
const OF_SET: usize = 10;

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

/// Stores a version with these resources, puts it in force, and writes a run of each.
async fn fill(server: &Server, n_resources: usize) {
    let store = match server.database() {
        Database::Sqlite => Store::open_sqlite(&server.data().join("steward.db")).await,
        Database::Postgres(url) => Store::open_postgres(url).await,
    };
    let store = store.expect("a database");
    let id = EnvironmentId::named("bench", "bench");
    let resources: Vec<StoredResource> = (0..n_resources).map(resource).collect();
    let states: Vec<ResourceState> = resources.iter().map(state).collect();
    let new = NewVersion {
        environment_id: id,
        commit_id: None,
        tree_id: None,
        metadata: json!({}),
        modules: json!([]),
        unknowns: json!([]),
        agent_places: BTreeMap::new(),
        resources,
        release: true,
    };
    let end = CompileEnd {
        id: CompileId::generate(),
        served: Vec::new(),
        outcome: Outcome::Compiled,
        diagnostics: json!([]),
        commit_id: None,
        tree_id: None,
        inputs_digest: None,
        result_digest: None,
    };
    store.version_store(&new, &end).await.expect("it is stored");
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

fn id_of(n: usize) -> ResourceId {
    let agent = n / OF_SET % 100;
    ResourceId::new(format!(
        "fs::File[host-{agent},path=/etc/services/{n:07}/config]"
    ))
}

fn resource(n: usize) -> StoredResource {
    let path = format!("/etc/services/{n:07}/config");
    let attributes = json!({
        "content": "x".repeat(200), "managed": true, "mutators": [], "path": path, "purged": false, "receive_events": true,
        "references": [], "report_only": false, "send_event": true,
    });
    let first = n - n % OF_SET;
    StoredResource {
        digest: String::new(),
        resource_id: id_of(n),
        resource_type: "fs::File".to_owned(),
        agent: AgentName::new(format!("host-{}", n / OF_SET % 100)),
        id_attribute: "path".to_owned(),
        id_value: path,
        attributes: attributes.to_string(),
        attribute_hash: format!("{n:032}"),
        requires: (first != n).then(|| id_of(first)).into_iter().collect(),
        is_undefined: false,
        set_name: format!("service-{:06}", n / OF_SET),
        created: Timestamp(0),
    }
    .with_digest()
}

fn state(resource: &StoredResource) -> ResourceState {
    ResourceState {
        resource_id: resource.resource_id.clone(),
        resource_type: resource.resource_type.clone().into(),
        agent: resource.agent.clone(),
        id_value: resource.id_value.clone().into(),
        created: Timestamp(0),
        orphaned_after: None,
        is_undefined: false,
        is_deploying: false,
        blocked: Blocked::NotBlocked,
        intent_hash: resource.attribute_hash.clone().into(),
        deployed_hash: Some(resource.attribute_hash.clone().into()),
        deployed_version: Some(VersionNumber::new(1)),
        last_run: LastRun::Successful,
        last_run_compliant: Some(true),
        last_run_at: Some(Timestamp(1)),
        last_success: Some(Timestamp(1)),
        last_events: Some(Timestamp(1)),
        last_change: None,
        last_status: ResourceStatus::Deployed,
        n_failures: 0,
    }
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
