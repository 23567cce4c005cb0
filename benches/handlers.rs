//! No-op Python resources through the executor process; see README.md beside this file.
//!
//! `cargo bench --bench handlers`; `STEWARD_PYTHON` names another Python than the first of the path.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;
use steward::domain::{
    ActionId, AgentName, CodeFile, CodeModule, Content, EnvironmentId, ResourceId, VersionNumber,
};
use steward::executor::protocol::{ExecutorCommand, ExecutorReply, Hello, Python, Task, TaskKind};
use steward_compiler::protocol;

const RESOURCES: usize = 4_000;
const ROUNDS: usize = 5;

/// A resource as modules have them: some fields of several types, a handler that reads and finds what is wanted.
const MODULE: &str = r#"
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource

@resource("net::Row", agent="host", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name", "mtu", "addresses", "options", "enabled")

@provider("net::Row", name="row")
class RowHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        pass

    def create_resource(self, ctx, resource):
        ctx.set_created()

    def delete_resource(self, ctx, resource):
        ctx.set_purged()

    def update_resource(self, ctx, changes, resource):
        ctx.set_updated()
"#;

fn main() {
    let dir = tempfile::tempdir().expect("a folder");
    let code = code(dir.path());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores");
    for (n_agents, law) in [
        (1, "2 000"),
        (2, "-"),
        (4, "10 000 with four cores to itself"),
    ] {
        let rate = rate(&code, n_agents);
        println!("no-op Python resources, {n_agents} agents {rate:>18.0} a second   (law: {law})");
    }
}

fn code(dir: &Path) -> ExecutorCommand {
    let path = dir.join("net/plugins/__init__.py");
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(&path, MODULE).expect("a file");
    let file = CodeFile {
        module: "inmanta_plugins.net".into(),
        package: true,
        content: Content::Path(path),
    };
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    ExecutorCommand::Code {
        code: "code".into(),
        modules: vec![CodeModule {
            name: "net".into(),
            files: vec![file],
            requirements: Default::default(),
        }],
        python: Some(Python {
            interpreter: interpreter.into(),
            package: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("python"),
            files: None,
        }),
        environment_id: EnvironmentId::generate(),
        packages: None,
    }
}

fn task(agent: usize, n: usize) -> Task {
    let attributes = json!({
        "name": format!("row{n}"), "mtu": 1500, "addresses": ["192.0.2.1/24", "2001:db8::1/64"],
        "options": {"speed": "auto", "duplex": true}, "enabled": true, "purged": false, "purge_on_delete": false,
        "report_only": false, "references": [], "mutators": [], "receive_events": true, "send_event": false,
    });
    Task {
        action: ActionId::generate(),
        kind: TaskKind::Deploy {
            requires: Vec::new(),
            dependency_changed: false,
        },
        code: "code".into(),
        agent: AgentName::new(format!("agent{agent}")),
        resource_id: ResourceId::new(format!("net::Row[agent{agent},name=row{n}]")),
        resource_type: "net::Row".into(),
        version: VersionNumber::new(1),
        attributes: attributes.to_string(),
        reason: "a benchmark asked for it".into(),
        limit_ms: 600_000,
    }
}

/// Resources a second, the hosts started: the median of some rounds.
fn rate(code: &ExecutorCommand, n_agents: usize) -> f64 {
    let other = std::env::var_os("STEWARD_BENCH_PROGRAM");
    let program = other.unwrap_or_else(|| env!("CARGO_BIN_EXE_steward").into());
    let mut child = Command::new(program)
        .arg("executor")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let hello = ExecutorCommand::Hello(Hello::ours());
    protocol::write_frame(&mut stdin, &hello).expect("it reads");
    protocol::write_frame(&mut stdin, code).expect("it reads");
    let mut run = |n_resources: usize| {
        let mut frames = Vec::new();
        for n in 0..n_resources {
            let command = ExecutorCommand::Run(task(n % n_agents, n));
            protocol::write_frame(&mut frames, &command).expect("memory");
        }
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| stdin.write_all(&frames).expect("it reads"));
            for _ in 0..n_resources {
                let mut reply = protocol::read_frame(&mut stdout).expect("a frame");
                while matches!(reply, Some(ExecutorReply::Hello(_) | ExecutorReply::Alive)) {
                    reply = protocol::read_frame(&mut stdout).expect("a frame");
                }
                let Some(ExecutorReply::Done(done)) = reply else {
                    panic!("the executor ended");
                };
                assert_eq!(
                    done.outcome.status.as_str(),
                    "deployed",
                    "{:?}",
                    done.outcome
                );
            }
        });
        began.elapsed().as_secs_f64()
    };
    run(n_agents * 10);
    let mut seconds: Vec<f64> = (0..ROUNDS).map(|_| run(RESOURCES)).collect();
    seconds.sort_by(f64::total_cmp);
    drop(stdin);
    child.wait().expect("it ends");
    RESOURCES as f64 / seconds[ROUNDS / 2]
}
