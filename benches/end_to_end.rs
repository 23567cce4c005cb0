//! Figures of the whole path; see README.md beside this file.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[expect(dead_code, reason = "the benchmark of services needs more of it")]
#[path = "services/server.rs"]
mod server;

use server::{Database, Server};

const ROUNDS: usize = 15;
/// Resources of a large environment.
const MANY: usize = 100_000;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |name: &str| {
        asked.iter().any(|one| one == name) || asked.iter().all(|one| one.starts_with('-'))
    };
    if is_asked("commit") {
        commit_to_deployed();
    }
    if is_asked("compile") {
        compile_cold();
    }
    if is_asked("no-op") {
        no_op_resources();
    }
    let mut databases = vec![Database::Sqlite];
    databases.extend(std::env::var("STEWARD_TEST_POSTGRES").map(Database::Postgres));
    if is_asked("release") {
        databases.iter().for_each(release_of_ten);
    }
    if is_asked("store") {
        databases.iter().for_each(store_versions);
    }
}

fn quickstart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quickstart")
}

/// Ours, or the binary that `STEWARD_BENCH_PROGRAM` names, such as that of an earlier commit.
fn steward() -> Command {
    let other = std::env::var_os("STEWARD_BENCH_PROGRAM");
    Command::new(other.unwrap_or_else(|| env!("CARGO_BIN_EXE_steward").into()))
}

fn report(what: &str, mut samples: Vec<Duration>, aim: &str) {
    samples.sort_unstable();
    let milliseconds = |at: usize| samples[at].as_secs_f64() * 1e3;
    let last = samples.len() - 1;
    println!(
        "{what:<44} median {:>8.1} ms   min {:>8.1}   max {:>8.1}   ({aim})",
        milliseconds(last / 2),
        milliseconds(0),
        milliseconds(last)
    );
}

struct Running {
    child: Child,
    events: std::io::Lines<BufReader<ChildStdout>>,
    api: String,
}

impl Running {
    fn start(source: &Path, dir: &Path, more: &[&str]) -> Self {
        let mut command = steward();
        command
            .arg("up")
            .arg(source)
            .args(["--format", "json", "--listen", "127.0.0.1:0"])
            .args(more);
        command.arg("--data").arg(dir.join("data")).current_dir(dir);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let events = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut running = Self {
            child,
            events,
            api: String::new(),
        };
        running.api = running.wait_for("started")["api"]
            .as_str()
            .expect("an address")
            .to_owned();
        running
    }

    fn wait_for(&mut self, kind: &str) -> Value {
        for line in self.events.by_ref() {
            let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
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

fn git(dir: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(arguments)
        .current_dir(dir)
        .status()
        .expect("git runs");
    assert!(status.success());
}

fn commit_to_deployed() {
    let dir = tempfile::tempdir().expect("a folder");
    let repo = dir.path().join("repo");
    assert!(
        Command::new("cp")
            .arg("-r")
            .arg(quickstart())
            .arg(&repo)
            .status()
            .expect("cp runs")
            .success()
    );
    git(&repo, &["init", "-q", "-b", "main"]);
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "first"]);
    let mut running = Running::start(&repo, dir.path(), &[]);
    running.wait_for("summary");
    let main = repo.join("main.cf");
    let original = fs::read_to_string(&main).expect("main.cf");
    let mut samples = Vec::new();
    for round in 0..ROUNDS {
        fs::write(
            &main,
            original.replace("Hello, World!", &format!("Hello, {round}!")),
        )
        .expect("it is written");
        git(&repo, &["add", "-A"]);
        // From rest: the pause between two compiles (recompile_backoff) is over.
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        git(&repo, &["commit", "-q", "-m", "next"]);
        let summary = running.wait_for("summary");
        samples.push(began.elapsed());
        assert_eq!(
            (
                summary["failed"].as_i64(),
                summary["deployed"].as_i64() > Some(0)
            ),
            (Some(0), true),
            "{summary}"
        );
    }
    report(
        "commit to deployed (P8)",
        samples,
        "at least 500 ms, aim 200 ms",
    );
    std::thread::sleep(Duration::from_secs(2));
    let server = running.child.id();
    println!(
        "{:<44} {:>8.1} MB   (at least 40 MB)",
        "resident memory of the idle server (P9)",
        resident(server)
    );
    for child in children(server) {
        let command = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        let role = command
            .split('\0')
            .skip(1)
            .find(|part| !part.starts_with('-'))
            .unwrap_or_default()
            .to_owned();
        println!(
            "{:<44} {:>8.1} MB",
            format!("  its child {role}"),
            resident(child)
        );
    }
}

fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}

fn children(pid: u32) -> Vec<u32> {
    let is_child = |candidate: u32| {
        let stat = fs::read_to_string(format!("/proc/{candidate}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok())
            == Some(pid)
    };
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|candidate| is_child(*candidate)).collect()
}

fn compile_cold() {
    let dir = tempfile::tempdir().expect("a folder");
    let project = |name: &str, model: &str| {
        let project = dir.path().join(name);
        fs::create_dir(&project).expect("a folder");
        fs::write(project.join("project.yml"), "name: bench\n").expect("it is written");
        fs::write(project.join("main.cf"), model).expect("it is written");
        project
    };
    let mut model = String::from("import fs\nhost = std::Host(name=\"h\", os=std::linux)\n");
    for n in 0..40 {
        model.push_str(&format!(
            "fs::File(host=host, path=\"/srv/{n}\", content=\"{{{{host.name}}}} {n}\")\n"
        ));
    }
    let cases = [
        (
            "compile of the quickstart, cold, with Python",
            quickstart(),
            "-",
        ),
        (
            "compile of 40 files, cold, without Python",
            project("files", &model),
            "aim 50 ms",
        ),
        (
            "compile of one line, cold",
            project("line", "x = 1\n"),
            "aim 15 ms",
        ),
    ];
    for (what, project, aim) in cases {
        let run = || {
            let out = dir.path().join("out.json");
            let began = Instant::now();
            let mut command = steward();
            command
                .arg("compile")
                .arg("--project")
                .arg(&project)
                .arg("--export-json")
                .arg(&out);
            let status = command
                .env("XDG_CACHE_HOME", dir.path())
                .stdout(Stdio::null())
                .status()
                .expect("it runs");
            assert!(status.success());
            began.elapsed()
        };
        run();
        report(what, (0..ROUNDS).map(|_| run()).collect(), aim);
    }
}

/// A hundred thousand resources of a hundred agents, ten of which have this value.
fn ten_of_many(value: usize) -> String {
    format!(
        "import std::testing\nfor n in std::sequence({MANY}):\n    agent = n % 100\n    \
         value = n < 10 ? {value} : 0\n    std::testing::NullResource(name=\"r{{{{n}}}}\", \
         agentname=\"agent{{{{agent}}}}\", value=\"{{{{value}}}}\", send_event=false)\nend\n"
    )
}

/// What the server takes for a version, from what a worker exports until it is stored: one whose resources are all new, and
/// some in which ten of them changed.
fn store_versions(database: &Database) {
    const VERSIONS: usize = 4;
    let first = ten_of_many(0);
    let files = [("project.yml", "name: bench\n"), ("main.cf", &*first)];
    let mut server = Server::new(database, &files, "auto_deploy: false");
    server.start();
    let mut before = processor_time(&server);
    for version in 1..=VERSIONS {
        if version > 1 {
            before = processor_time(&server);
            commit_value(&server, version);
        }
        wait_until_stored(&server, version);
        let took = processor_time(&server) - before;
        let stored = milliseconds_of_storing(&server);
        let new = if version == 1 { MANY } else { 10 };
        println!(
            "{:<44} stored in {stored:>6.0} ms; processor time {:>5.2} s, {:.1} us a resource",
            format!("version with {new} of {MANY} new, {}", database.name()),
            took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / MANY as f64
        );
    }
}

/// How long it took to store the version of the newest compile.
fn milliseconds_of_storing(server: &Server) -> f64 {
    loop {
        let newest = server.get("/api/v2/compilereport?limit=1");
        let id = newest["data"][0]["id"].as_str().expect("a compile");
        let compile = &server.get(&format!("/api/v2/compilereport/{id}"))["data"];
        let mut stages = compile["reports"].as_array().into_iter().flatten();
        let is_storing = |stage: &&Value| {
            stage["name"] == "Storing the version" && stage["completed"].is_string()
        };
        if let Some(stage) = stages.find(is_storing) {
            let moment = |name| server::milliseconds(&stage[name]);
            return moment("completed") - moment("started");
        }
        // It is written a moment after the version.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processor time that the server has taken without the processes below it, and PostgreSQL for it, if that runs on this
/// machine: as long as the server's connections live.
fn processor_time(server: &Server) -> Duration {
    const SESSIONS: &str = "SELECT pid FROM pg_stat_activity WHERE datname = CURRENT_DATABASE() AND pid <> pg_backend_pid()";
    let mut processes = vec![server.pid()];
    if let Database::Postgres(url) = server.database() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let sessions: Vec<(i32,)> = runtime.block_on(async {
            let pool = sqlx::PgPool::connect(url).await.expect("PostgreSQL");
            let sessions = sqlx::query_as(SESSIONS).fetch_all(&pool).await;
            sessions.expect("sessions")
        });
        processes.extend(sessions.into_iter().map(|(pid,)| pid.cast_unsigned()));
    }
    let own = |pid: u32| -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or_default();
        // In hundredths of a second, in user mode and in the kernel.
        let fields = rest.split_whitespace().skip(11).take(2);
        fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    };
    Duration::from_millis(10 * processes.into_iter().map(own).sum::<u64>())
}

/// The next version of [`ten_of_many`]. The server sees the commit: whoever asked for a compile, too, would get two versions, as
/// long as the first one has not ended.
fn commit_value(server: &Server, value: usize) {
    let repository = server.data().with_file_name("project");
    fs::write(repository.join("main.cf"), ten_of_many(value)).expect("it is written");
    git(
        &repository,
        &["commit", "--quiet", "--all", "--message", "next"],
    );
}

/// From the request to release a version to the first run of one of the ten resources, of a hundred thousand, that it changes.
fn release_of_ten(database: &Database) {
    const VERSIONS: usize = 5;
    let first = ten_of_many(0);
    let files = [("project.yml", "name: bench\n"), ("main.cf", &*first)];
    let mut server = Server::new(database, &files, "auto_deploy: false");
    server.start();
    release(&server, 1);
    wait_until_deployed(&server, MANY);
    let mut samples = Vec::new();
    for version in 2..VERSIONS + 2 {
        commit_value(&server, version);
        let asked = release(&server, version);
        wait_until_deployed(&server, MANY);
        let runs = server.get("/api/v2/resource_actions?limit=10");
        let runs = runs["data"].as_array().into_iter().flatten();
        let first = runs
            .map(|run| server::milliseconds(&run["started"]))
            .min_by(f64::total_cmp)
            .expect("a run");
        // Else the newest runs are those of the version before.
        if first >= asked {
            samples.push(Duration::from_secs_f64((first - asked) / 1e3));
        }
    }
    report(
        &format!("release of 10 of 100 000 to first run, {}", database.name()),
        samples,
        "at most 50 ms",
    );
}

/// Waits until a version is stored, and releases it; gives when that was asked for, in milliseconds of the day.
fn release(server: &Server, version: usize) -> f64 {
    wait_until_stored(server, version);
    // From rest: what the compile left to do is done.
    std::thread::sleep(Duration::from_secs(1));
    let now = steward::domain::Timestamp::now().0 as f64 / 1e3 % 86_400_000.0;
    server.post(
        &format!("/api/v1/version/{version}"),
        &serde_json::json!({}),
    );
    now
}

fn wait_until_stored(server: &Server, version: usize) {
    while server.get("/api/v1/version?limit=1")["versions"][0]["version"].as_u64()
        != Some(version as u64)
    {
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Waits until each resource is as it shall be, and stays so.
fn wait_until_deployed(server: &Server, n_resources: usize) {
    let mut n_times = 0;
    while n_times < 5 {
        let resources = server.get("/api/v2/resource?limit=1&deploy_summary=true");
        let deployed = resources["metadata"]["deploy_summary"]["by_state"]["deployed"].as_u64();
        n_times = if deployed == Some(n_resources as u64) {
            n_times + 1
        } else {
            0
        };
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn no_op_resources() {
    const RESOURCES: usize = 20_000;
    let dir = tempfile::tempdir().expect("a folder");
    let project = dir.path().join("project");
    fs::create_dir(&project).expect("a folder");
    fs::write(project.join("project.yml"), "name: bench\n").expect("it is written");
    let model = format!(
        "import std::testing\nfor n in std::sequence({RESOURCES}):\n    \
         std::testing::NullResource(name=\"r{{{{n}}}}\", agentname=\"agent{{{{n % 4}}}}\", send_event=false)\nend\n"
    );
    let model = model
        .replace("agent{{n % 4}}", "agent{{agent}}")
        .replace("    std::testing", "    agent = n % 4\n    std::testing");
    fs::write(project.join("main.cf"), model).expect("it is written");
    let mut running = Running::start(&project, dir.path(), &[]);
    running.wait_for("summary");
    let mut samples = Vec::new();
    for _ in 0..5 {
        let url = format!("{}/api/v2/environment", running.api);
        let body = ureq::get(&url)
            .call()
            .expect("an answer")
            .body_mut()
            .read_to_string()
            .expect("text");
        let environments: Value = serde_json::from_str(&body).expect("JSON");
        let id = environments["data"][0]["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let began = Instant::now();
        let deploy =
            ureq::post(format!("{}/api/v1/deploy", running.api)).header("X-Inmanta-tid", &id);
        deploy.send_empty().expect("an answer");
        let summary = running.wait_for("summary");
        samples.push(began.elapsed());
        assert_eq!(summary["total"].as_i64(), Some(RESOURCES as i64));
    }
    samples.sort_unstable();
    let rate = RESOURCES as f64 / samples[samples.len() / 2].as_secs_f64();
    println!(
        "{:<44} {rate:>8.0} a second   (P6: at least 20 000)",
        "no-op native resources, durable (P6)"
    );
}
