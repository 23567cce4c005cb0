//! A real `steward serve` with one environment, and calls to it over one connection.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The database of a server; of PostgreSQL the URL of the server that has it.
#[derive(Clone)]
pub enum Database {
    Sqlite,
    Postgres(String),
}

impl Database {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// A new database on the same PostgreSQL server, with its name there; SQLite makes its own.
    fn fresh(&self) -> (Self, Option<Fresh>) {
        let Self::Postgres(url) = self else {
            return (Self::Sqlite, None);
        };
        let name = format!("steward_bench_{}", uuid::Uuid::now_v7().simple());
        let fresh = Fresh {
            admin: url.clone(),
            name: name.clone(),
        };
        fresh.execute(&format!("CREATE DATABASE {name}"));
        let base = url.rsplit_once('/').expect("the URL of a database").0;
        (Self::Postgres(format!("{base}/{name}")), Some(fresh))
    }
}

/// A database that goes with the benchmark.
struct Fresh {
    admin: String,
    name: String,
}

impl Fresh {
    fn execute(&self, statement: &str) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let pool = sqlx::PgPool::connect(&self.admin)
                .await
                .expect("PostgreSQL");
            sqlx::query(statement)
                .execute(&pool)
                .await
                .expect("a database");
        });
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

pub struct Server {
    child: Option<Child>,
    api: String,
    environment: String,
    agent: ureq::Agent,
    database: Database,
    dir: tempfile::TempDir,
    _fresh: Option<Fresh>,
}

impl Server {
    /// A server that does not run yet, with a project of these files. `settings`: of the environment, as `name: value, …`.
    pub fn new(database: &Database, files: &[(&str, &str)], settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let repository = dir.path().join("project");
        for (path, text) in files {
            let path = repository.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        for arguments in [
            &["init", "--quiet", "--initial-branch", "main"][..],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "bench"],
        ] {
            let done = Command::new("git")
                .arg("-C")
                .arg(&repository)
                .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"])
                .args(arguments)
                .status();
            assert!(done.expect("git").success(), "git {arguments:?}");
        }
        let (database, fresh) = database.fresh();
        let url = match &database {
            Database::Sqlite => "sqlite",
            Database::Postgres(url) => url,
        };
        let config = format!(
            "listen: 127.0.0.1:0\ndata: {}\ndatabase: {url}\nenvironments:\n  - project: bench\n    name: bench\n    \
             repository: {}\n    branch: main\n    settings: {{{settings}}}\n",
            dir.path().join("data").display(),
            repository.display()
        );
        fs::write(dir.path().join("steward.yaml"), config).expect("a file");
        Self {
            child: None,
            api: String::new(),
            environment: String::new(),
            agent: ureq::Agent::config_builder()
                .http_status_as_error(false)
                .timeout_global(Some(Duration::from_secs(600)))
                .build()
                .into(),
            database,
            dir,
            _fresh: fresh,
        }
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn start(&mut self) {
        let program = std::env::var_os("STEWARD_BENCH_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_steward").into());
        let mut child = Command::new(program)
            .arg("serve")
            .arg("--config")
            .arg(self.dir.path().join("steward.yaml"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("listening on http://")?;
            Some(address.trim().to_owned())
        });
        self.api = format!("http://{}", address.expect("the server listens"));
        // To its end, or the server would wait for somebody to read.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        self.child = Some(child);
        self.environment.clear();
        let environments = self.get("/api/v2/environment");
        environments["data"][0]["id"]
            .as_str()
            .expect("an environment")
            .clone_into(&mut self.environment);
    }

    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = child.wait();
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.api))
            .header("X-Inmanta-tid", &self.environment);
        let body = body.map(|body| body.to_string().into_bytes());
        let request = request.body(body.unwrap_or_default()).expect("a request");
        let mut response = self.agent.run(request).expect("an answer");
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().expect("a text");
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(body));
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Asks for a full compile.
    pub fn notify(&self) {
        self.post(
            &format!("/api/v1/notify/{}", self.environment),
            &json!({"update": false}),
        );
    }

    pub fn catalog_has(&self, service: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let path = format!("/lsm/v1/service_catalog/{service}");
        while self.call("GET", &path, None).0 != 200 {
            assert!(
                Instant::now() < deadline,
                "{}",
                self.get("/api/v2/compilereport?limit=1")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The newest compile of this kind that has ended, with its stages.
    pub fn newest(&self, kind: &str) -> Value {
        let reports = self.get("/api/v2/compilereport?limit=20");
        let mut reports = reports["data"].as_array().into_iter().flatten();
        let found = reports
            .find(|one| one["metadata"]["type"] == kind && one["completed"].is_string())
            .expect("such a compile");
        let id = found["id"].as_str().expect("an id");
        self.get(&format!("/api/v2/compilereport/{id}"))["data"].clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// What of memory the server takes, and what all processes below it take.
    pub fn memory(&self) -> String {
        let below: u64 = family(self.pid())
            .iter()
            .skip(1)
            .filter_map(|pid| kib(*pid, "smaps_rollup", "Pss:"))
            .sum();
        let of = |name| kib(self.pid(), "status", name).unwrap_or_default() >> 10;
        format!(
            "server {} MB (most {}), processes below it {} MB",
            of("VmRSS:"),
            of("VmHWM:"),
            below >> 10
        )
    }

    /// The processor time that the server and those below it have taken.
    pub fn cpu(&self) -> Cpu {
        let all = family(self.pid());
        let below = all.iter().skip(1).map(|pid| ticks(*pid)).sum();
        Cpu(ticks(self.pid()), below)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Processor time in hundredths of seconds: of the server, and of the processes below it.
#[derive(Default)]
pub struct Cpu(u64, u64);

impl Cpu {
    pub fn since(&self, before: &Self) -> String {
        let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 100.0;
        format!(
            "server {:.1}, below {:.1}",
            seconds(self.0, before.0),
            seconds(self.1, before.1)
        )
    }
}

/// Its own ticks and those of children that it has waited for.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields = rest.split_whitespace().skip(11).take(4);
    fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// A process and all below it.
fn family(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut at = 0;
    while let Some(next) = found.get(at).copied() {
        let tasks = fs::read_dir(Path::new("/proc").join(next.to_string()).join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        at += 1;
    }
    found
}

fn kib(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A moment of the API as milliseconds of its day.
pub fn milliseconds(moment: &Value) -> f64 {
    let text = moment.as_str().unwrap_or_default();
    let time = text.split('T').nth(1).unwrap_or_default();
    let time = time.split(['+', 'Z']).next().unwrap_or_default();
    time.split(':').fold(0.0, |sum, part| {
        sum * 60.0 + part.parse::<f64>().unwrap_or_default()
    }) * 1000.0
}
