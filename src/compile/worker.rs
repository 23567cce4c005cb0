//! Processes that compile: a pool of warm ones, and what such a process does.
//!
//! A model that crashes, eats memory or never ends takes its worker with it, never the server: memory is limited in the
//! worker, time here.

use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steward_compiler::{Compiled, Export, PythonRuntime, Severity, Variables, WarmHosts, protocol};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::code::{self, Kept};
use crate::deploy::{Python, VersionCode};
use crate::files::Files;
use crate::process;

/// One compile to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) project_dir: PathBuf,
    pub(super) variables: Variables,
    pub(super) environment_id: String,
    /// Parameters and facts that are known.
    pub(super) inputs: steward_compiler::Inputs,
    pub(super) python: Option<Python>,
    /// What the project's Python code may do.
    pub(super) policy: Option<process::Policy>,
    /// With the modules that the project asks for.
    pub(super) environment: Option<PathBuf>,
    /// Left to Python code, a little less than to the whole: what hangs is then named.
    pub(super) time_limit: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct JobDone {
    pub(super) diagnostics: Vec<Reported>,
    /// Present when there is no error.
    pub(super) export: Option<Export>,
    /// What the executors need.
    pub(super) code: VersionCode,
    /// What the model printed and its Python code wrote, capped.
    pub(super) printed: String,
}

/// For fuzzing: bytes as what a worker is told and says.
pub fn read_any_frame(bytes: &[u8]) {
    let _ = steward_compiler::protocol::decode::<Job>(bytes);
    let _ = steward_compiler::protocol::decode::<JobDone>(bytes);
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Reported {
    pub(super) is_error: bool,
    pub(super) json: String,
    pub(super) plain: String,
    pub(super) colored: String,
}

/// Limits of a compile.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Compiles at the same time.
    pub slots: usize,
    pub timeout: Duration,
    pub memory_bytes: u64,
    /// How long pip may take for what a commit asks for.
    pub install_timeout: Duration,
    pub python: Option<PythonRuntime>,
    /// Files of the server's that no Python code of a repository may read, beside its data.
    pub secrets: Vec<PathBuf>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            slots: 2,
            timeout: Duration::from_secs(600),
            memory_bytes: 4 << 30,
            install_timeout: Duration::from_secs(600),
            python: None,
            secrets: Vec::new(),
        }
    }
}

/// Why a compile has no verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum PoolError {
    #[error("cannot start a compile worker: {0}")]
    Start(#[source] std::io::Error),
    #[error("the compile did not end within {0:?} and was stopped")]
    Timeout(Duration),
    #[error("the compile worker ended: {0}")]
    Ended(String),
}

/// The compile slots of this server, and idle processes to fill them.
#[derive(Debug, Clone)]
pub struct Pool {
    options: Arc<PoolOptions>,
    slots: Arc<tokio::sync::Semaphore>,
    idle: Arc<Mutex<Vec<Worker>>>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: tokio::io::BufReader<ChildStdout>,
    n_jobs: u32,
    /// Of its last job: it has the Python modules of this environment in memory.
    environment: String,
}

/// A worker is replaced after this many jobs, so that whatever a model leaves behind in it does not add up.
const JOBS_PER_WORKER: u32 = 100;

/// How often a compile whose worker ended is given another one.
const RETRIES: u32 = 2;

/// What is kept of the output of `std::print`.
const PRINTED_BYTES: usize = 1 << 20;

impl Pool {
    pub fn new(options: PoolOptions) -> Self {
        let slots = Arc::new(tokio::sync::Semaphore::new(options.slots.max(1)));
        Self {
            options: Arc::new(options),
            slots,
            idle: Arc::default(),
        }
    }

    pub(super) fn secrets(&self) -> &[PathBuf] {
        &self.options.secrets
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.options.memory_bytes
    }

    pub(super) fn install_limit(&self) -> Duration {
        self.options.install_timeout
    }

    pub fn python(&self) -> Option<&PythonRuntime> {
        self.options.python.as_ref()
    }

    /// Starts one worker ahead of the first compile.
    pub fn warm(&self) {
        match self.start() {
            Ok(worker) => self.put_back(worker),
            Err(error) => tracing::warn!(%error, "cannot start a compile worker ahead of need"),
        }
    }

    /// Compiles in a worker process, waiting for a free slot first.
    pub(super) async fn run(&self, job: &Job) -> Result<JobDone, PoolError> {
        // The semaphore is never closed.
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|error| PoolError::Ended(error.to_string()))?;
        let reused = self.take(&job.environment_id);
        let mut worker = match reused {
            Some(worker) => worker,
            None => self.start().map_err(PoolError::Start)?,
        };
        let mut done = self.run_in(&mut worker, job).await;
        for _ in 0..RETRIES {
            if !matches!(&done, Err(PoolError::Ended(_))) {
                break;
            }
            // Somebody else may have killed it; only what ends each of them is the model's doing.
            process::kill_group(&mut worker.child);
            worker = self.start().map_err(PoolError::Start)?;
            done = self.run_in(&mut worker, job).await;
        }
        match done {
            Ok(done) => {
                worker.n_jobs += 1;
                worker.environment.clone_from(&job.environment_id);
                if worker.n_jobs < JOBS_PER_WORKER {
                    self.put_back(worker);
                }
                Ok(done)
            }
            Err(error) => {
                process::kill_group(&mut worker.child);
                Err(error)
            }
        }
    }

    async fn run_in(&self, worker: &mut Worker, job: &Job) -> Result<JobDone, PoolError> {
        let exchange = async {
            process::write_frame(&mut worker.stdin, job).await?;
            process::read_frame::<JobDone>(&mut worker.stdout).await
        };
        match tokio::time::timeout(self.options.timeout, exchange).await {
            Err(_) => Err(PoolError::Timeout(self.options.timeout)),
            Ok(Ok(Some(done))) => Ok(done),
            Ok(Ok(None)) => {
                let limit = self.options.memory_bytes >> 20;
                let how =
                    match tokio::time::timeout(Duration::from_secs(1), worker.child.wait()).await {
                        Ok(Ok(status)) => format!("{status}; its memory is limited to {limit} MiB"),
                        _ => "its pipe was closed".to_owned(),
                    };
                Err(PoolError::Ended(how))
            }
            Ok(Err(error)) => Err(PoolError::Ended(error.to_string())),
        }
    }

    /// An idle worker; best the one that had this environment before.
    fn take(&self, environment: &str) -> Option<Worker> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle.iter().position(|w| w.environment == environment);
        match known {
            Some(at) => Some(idle.remove(at)),
            None => idle.pop(),
        }
    }

    /// What a compile gives to its Python code.
    pub(super) fn python_limit(&self) -> Duration {
        self.options.timeout.mul_f64(0.95)
    }

    fn put_back(&self, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.options.slots {
            idle.push(worker);
        }
    }

    fn start(&self) -> std::io::Result<Worker> {
        let memory = self.options.memory_bytes.to_string();
        let mut child = process::spawn_own(&["compile-worker", "--memory-bytes", &memory])?;
        let pipe = || std::io::Error::other("a pipe to the worker is missing");
        let stdin = child.stdin.take().ok_or_else(pipe)?;
        let stdout = tokio::io::BufReader::new(child.stdout.take().ok_or_else(pipe)?);
        Ok(Worker {
            child,
            stdin,
            stdout,
            n_jobs: 0,
            environment: String::new(),
        })
    }
}

/// The whole life of a worker process: jobs on stdin, results on stdout.
pub fn run(memory_bytes: u64) -> ExitCode {
    process::die_with_parent();
    process::limit_memory(memory_bytes);
    let mut reader = BufReader::new(std::io::stdin());
    let mut writer = BufWriter::new(std::io::stdout());
    let hosts = Arc::new(WarmHosts::default());
    loop {
        match protocol::read_frame::<Job>(&mut reader) {
            Ok(Some(job)) => {
                let done = compile(job, &hosts);
                if protocol::write_frame(&mut writer, &done).is_err() {
                    return ExitCode::SUCCESS;
                }
            }
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "cannot read the next job");
                return ExitCode::FAILURE;
            }
        }
    }
}

fn compile(job: Job, hosts: &Arc<WarmHosts>) -> JobDone {
    let printed = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&printed);
    let print = move |line: &str| {
        let mut printed = sink.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.len() + line.len() < PRINTED_BYTES {
            printed.push_str(line);
            printed.push('\n');
        }
    };
    let world = steward_compiler::DirWorld::new(job.project_dir, job.variables, print)
        .with_environment(job.environment.as_deref());
    let mut runtime = job.python.map(|python| python.runtime());
    if let (Some(runtime), Some(policy)) = (&mut runtime, &job.policy) {
        // Without this program there is no Python: less than nothing must not run.
        runtime.launcher = policy
            .launcher()
            .unwrap_or_else(|_| vec!["/nonexistent".into()]);
    }
    let store = runtime.as_ref().and_then(|python| python.files.clone());
    let python = runtime.into();
    let options = steward_compiler::Options {
        export: true,
        dump_model: false,
        python,
        environment_id: Some(job.environment_id),
        inputs: job.inputs,
        hosts: Some(Arc::clone(hosts)),
        time_limit: Some(job.time_limit),
        ..steward_compiler::Options::default()
    };
    let compiled = steward_compiler::compile(&world, &options);
    let report = |diagnostic: &steward_compiler::Diagnostic| Reported {
        is_error: diagnostic.severity == Severity::Error,
        json: diagnostic.to_json().to_string(),
        plain: steward_compiler::render(diagnostic, &world, false),
        colored: steward_compiler::render(diagnostic, &world, true),
    };
    let mut diagnostics: Vec<Reported> = compiled.diagnostics.iter().map(report).collect();
    let kept = store.map_or_else(
        || Ok(Kept::default()),
        |store| keep(&compiled, &Files::new(store)),
    );
    let kept = kept.unwrap_or_else(|error| {
        let text = format!("what the resources need can not be kept: {error}");
        diagnostics.push(Reported {
            is_error: true,
            json: serde_json::json!({"severity": "error", "kind": "UploadFailed", "message": text})
                .to_string(),
            plain: text.clone(),
            colored: text,
        });
        Kept::default()
    });
    let mut printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
    printed.push_str(&compiled.plugin_output);
    JobDone {
        diagnostics,
        export: compiled.export,
        code: VersionCode {
            interpreter: job.environment.map(|path| path.join("bin/python")),
            modules: kept.modules,
            types: Some(kept.types),
        },
        printed,
    }
}

/// Keeps what resources upload, and the code of their handlers.
fn keep(compiled: &Compiled, store: &Files) -> std::io::Result<Kept> {
    store.keep_all(&compiled.files)?;
    match &compiled.export {
        Some(export) => code::keep(compiled, &export.resources, store),
        None => Ok(Kept::default()),
    }
}
