//! Many agents with one Python resource each, through the whole server; see README.md beside this file.
//!
//! `cargo bench --bench agents`; numbers behind `--` are numbers of agents.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const MODULE: &str = r#"
import os
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource

@resource("net::Row", agent="agent", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name", "value")

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

const MODEL: &str = "entity Row extends std::PurgeableResource:\n    string name\n    string agent\n    int value\nend\n\
    index Row(name)\nimplement Row using std::none\n";

fn main() {
    let asked: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let sizes = if asked.is_empty() {
        vec![1_000, 10_000]
    } else {
        asked
    };
    native(1_000);
    python(1, 1_000);
    for n_agents in sizes {
        python(n_agents, 1);
    }
}

/// A project whose model is `model`, with the module `net`.
fn project(dir: &Path, model: &str) {
    let module = dir.join("libs/net");
    for (path, text) in [
        (
            dir.join("project.yml"),
            "name: bench\nmodulepath: libs\n".to_owned(),
        ),
        (dir.join("main.cf"), model.to_owned()),
        (
            module.join("module.yml"),
            "name: net\nversion: 1.0.0\nlicense: x\n".to_owned(),
        ),
        (module.join("model/_init.cf"), MODEL.to_owned()),
        (module.join("plugins/__init__.py"), MODULE.to_owned()),
    ] {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

fn python(n_agents: usize, n_each: usize) {
    let model = |value: usize| {
        format!(
            "import net\nfor a in std::sequence({n_agents}):\n    for n in std::sequence({n_each}):\n        \
             net::Row(name=\"row{{{{a}}}}_{{{{n}}}}\", agent=\"agent{{{{a}}}}\", value={value})\n    end\nend\n"
        )
    };
    measure(
        &format!("{n_agents} agents, {n_each} Python resources each"),
        n_agents * n_each,
        model,
    );
}

fn native(n_agents: usize) {
    let model = |value: usize| {
        format!(
            "import std::testing\nfor a in std::sequence({n_agents}):\n    std::testing::NullResource(name=\"r\", \
             agentname=\"agent{{{{a}}}}\", value=\"{value}\", send_event=false)\nend\n"
        )
    };
    measure(
        &format!("{n_agents} agents, 1 native resource each"),
        n_agents,
        model,
    );
}

/// Deploys one version, then another one in which every resource is another one.
fn measure(what: &str, n_resources: usize, model: impl Fn(usize) -> String) {
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("project");
    project(&source, &model(0));
    let mut running = Running::start(&source, dir.path());
    let peak = Peak::watch(running.child.id());
    for (version, name) in [(1, "first version"), (2, "next version")] {
        if version == 2 {
            fs::write(source.join("main.cf"), model(1)).expect("a file");
        }
        running.wait_for("released");
        let began = Instant::now();
        let summary = running.wait_for("summary");
        let seconds = began.elapsed().as_secs_f64();
        let deployed = summary["deployed"].as_u64().unwrap_or_default()
            + summary["unchanged"].as_u64().unwrap_or_default();
        println!(
            "{what:<44} {name:<14} {seconds:>7.2} s   {} of {n_resources} deployed, {} runs were not good, peak {} MB, {} processes",
            deployed,
            running.n_bad,
            peak.most_kib.load(Ordering::Relaxed) >> 10,
            peak.n_processes.load(Ordering::Relaxed),
        );
    }
}

struct Running {
    child: Child,
    events: std::io::Lines<BufReader<ChildStdout>>,
    /// Runs that ended in anything but success.
    n_bad: usize,
}

impl Running {
    fn start(source: &Path, dir: &Path) -> Self {
        let program = std::env::var_os("STEWARD_BENCH_PROGRAM");
        let mut child =
            Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_steward").into()))
                .arg("up")
                .arg(source)
                .args(["--format", "json", "--listen", "127.0.0.1:0"])
                .arg("--data")
                .arg(dir.join("data"))
                .current_dir(dir)
                .stdout(Stdio::piped())
                .spawn()
                .expect("the binary starts");
        let events = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self {
            child,
            events,
            n_bad: 0,
        }
    }

    fn wait_for(&mut self, kind: &str) -> Value {
        for line in self.events.by_ref() {
            let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            if event["event"] == "resource" && event["status"] != "deployed" {
                self.n_bad += 1;
            }
            if event["event"] == kind {
                return event;
            }
        }
        panic!("the server ended before `{kind}`");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The most memory that a process and all below it ever had together.
struct Peak {
    most_kib: Arc<AtomicU64>,
    n_processes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Peak {
    fn watch(server: u32) -> Self {
        let peak = Self {
            most_kib: Arc::default(),
            n_processes: Arc::default(),
            is_over: Arc::default(),
        };
        let (most, n_processes, is_over) = (
            Arc::clone(&peak.most_kib),
            Arc::clone(&peak.n_processes),
            Arc::clone(&peak.is_over),
        );
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let processes = family(server);
                let kib = processes.iter().filter_map(|pid| share_kib(*pid)).sum();
                most.fetch_max(kib, Ordering::Relaxed);
                n_processes.fetch_max(processes.len() as u64, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        peak
    }
}

impl Drop for Peak {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A process and all below it.
fn family(process: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = stat.rsplit(')').next()?;
        rest.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let all: Vec<(u32, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parent(pid)?))
        })
        .collect();
    let mut found = vec![process];
    let mut at = 0;
    while let Some(next) = found.get(at).copied() {
        found.extend(
            all.iter()
                .filter(|(_, parent)| *parent == next)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    found
}

/// What of its memory is a process's own, and its part of what it shares with others.
fn share_kib(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}
