//! The server's side: compile slots, and workers to fill them.
//!
//! A model that crashes, eats memory or never ends takes its worker with it, never the server: memory is limited in the
//! worker and over all processes below it, time here. A worker that has entered the sandbox of an environment serves that
//! environment only; a spare one, which has entered none yet, is kept for whoever comes next.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use steward_compiler::{PythonRuntime, ServiceAnswer, ServiceQuestion};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::breadcrumb::{BREADCRUMB, Place, Trail};
use super::frames::{Job, JobDone, Refusal, Reply, Request};
use super::memory::OutOfMemory;
use super::stopped::{Which, stopped};
use crate::compile::local_sources::LocalSources;
use crate::git::{WorkerLimits, Workers};
use crate::modules::{Inspection, Turns};
use crate::process::{self, cgroup::Cgroup};
use crate::python::Pythons;
use crate::sandbox::{SandboxPolicy, SandboxSupport};

/// Limits of a compile.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Compiles at the same time, and installations beside them.
    pub slots: usize,
    pub timeout: Duration,
    /// Bytes of memory of each process of a compile, and of all together.
    pub memory_bytes: u64,
    /// What a compile may leave in its scratch folder at any time.
    pub scratch_bytes: u64,
    /// Of reading a repository.
    pub git: WorkerLimits,
    /// How long pip may take for what a commit asks for.
    pub install_timeout: Duration,
    pub python: Option<PythonRuntime>,
    /// What `python` is chosen from, and the environments' own.
    pub pythons: Pythons,
    /// Files of the server's that no code of a repository may read, beside its data.
    pub secrets: Vec<PathBuf>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            slots: 2,
            timeout: Duration::from_secs(600),
            memory_bytes: default_memory_bytes(process::memory::available_bytes()),
            scratch_bytes: 1 << 30,
            git: WorkerLimits::default(),
            install_timeout: Duration::from_secs(600),
            python: None,
            pythons: Pythons::new(None),
            secrets: Vec::new(),
        }
    }
}

/// What a compile may take, unless somebody says: no more than there is, since the kernel would end it sooner.
fn default_memory_bytes(available: u64) -> u64 {
    const MOST: u64 = 4 << 30;
    // What the configuration accepts.
    const LEAST: u64 = 1 << 30;
    // Whole mebibytes, as people see it.
    (available >> 20 << 20).clamp(LEAST, MOST)
}

/// Why a compile has no verdict.
#[derive(Debug, thiserror::Error)]
pub(in crate::compile) enum PoolError {
    #[error("cannot start a compile worker: {0}")]
    Start(#[source] std::io::Error),
    #[error("the compile worker cannot be put into its sandbox: {0}")]
    Sandbox(String),
    #[error("the compile did not end within {0:?} (`compile.timeout` of the configuration) and was stopped{at}", at = at(.1.as_ref()))]
    Timeout(Duration, Option<Place>),
    #[error("the compile worker ended: {0}{at}", at = at(.1.as_ref()))]
    Ended(String, Option<Place>),
}

fn at(place: Option<&Place>) -> String {
    place.map_or_else(String::new, |place| format!("; it was at {place}"))
}

impl PoolError {
    fn strange_answer() -> Self {
        Self::Ended("it answered something else".to_owned(), None)
    }

    /// What a project did to its worker it will do again; else our world failed, and trying again may help.
    pub(in crate::compile) fn is_of_project(&self) -> bool {
        matches!(self, Self::Timeout(..) | Self::Ended(..))
    }
}

/// The compile slots of this server, and idle processes to fill them.
#[derive(Debug, Clone)]
pub struct Pool {
    options: Arc<PoolOptions>,
    slots: Arc<tokio::sync::Semaphore>,
    idle: Arc<Mutex<Idle>>,
    git: Workers,
    installations: Turns,
    local_sources: LocalSources,
}

/// Answers a compile that runs what it wants to know of service instances.
pub(in crate::compile) trait Inventory: Sync {
    /// The answer to a question, or why there is none.
    fn ask(&self, question: ServiceQuestion) -> BoxFuture<'_, Result<ServiceAnswer, String>>;
}

/// What a worker is asked, and who answers what it asks meanwhile.
type Asked<'a> = (&'a Request, Option<&'a dyn Inventory>);

#[derive(Debug, Default)]
struct Idle {
    /// In a sandbox; the one that was used last is at the end.
    entered: Vec<Worker>,
    spare: Option<Worker>,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: tokio::io::BufReader<ChildStdout>,
    n_jobs: u32,
    /// The sandbox that it has entered.
    policy: Option<SandboxPolicy>,
    /// The file in which it notes which place of the model it is at.
    trail: Trail,
    /// Ends what is left when the supervisor is gone, where groups can be made.
    _group: Option<Cgroup>,
}

/// A worker is replaced after this many jobs, so that whatever a model leaves behind in it does not add up. Its Python code
/// runs in a fork of its own each time, which leaves nothing; a new worker imports all modules again, as long as it takes to
/// compile dozens of service instances.
const JOBS_PER_WORKER: u32 = 1000;

/// How often a compile whose worker ended is given another one.
const RETRIES: u32 = 2;

/// Idle workers for each slot. An environment with services has one that validates and one that exports; both have imported
/// its modules, which takes longer than to compile one instance.
const IDLE_PER_SLOT: usize = 2;

/// Reading a few files of a project takes no longer.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(30);

impl Pool {
    pub fn new(options: PoolOptions) -> Self {
        let slots = Arc::new(tokio::sync::Semaphore::new(options.slots.max(1)));
        Self {
            git: Workers::new(options.git),
            installations: Turns::new(options.slots),
            options: Arc::new(options),
            slots,
            idle: Arc::default(),
            local_sources: LocalSources::default(),
        }
    }

    /// What reads repositories: these workers have their own number, so a compile waits for no fetch of another environment.
    pub(in crate::compile) fn git(&self) -> &Workers {
        &self.git
    }

    /// The installations for compiles and for handlers: no more run at the same time than compiles do, beside them.
    pub(in crate::compile) fn installations(&self) -> &Turns {
        &self.installations
    }

    /// What environments are compiled from that is on this machine.
    pub fn local_sources(&self) -> &LocalSources {
        &self.local_sources
    }

    pub(in crate::compile) fn options(&self) -> &PoolOptions {
        &self.options
    }

    pub fn python(&self) -> Option<&PythonRuntime> {
        self.options.python.as_ref()
    }

    /// What a compile gives to its Python code.
    pub(in crate::compile) fn python_limit(&self) -> Duration {
        self.options.timeout.mul_f64(0.95)
    }

    /// Starts one worker ahead of the first compile.
    pub fn warm(&self) {
        if self.idle().spare.is_some() {
            return;
        }
        match self.start() {
            Ok(worker) => self.idle().spare = Some(worker),
            Err(error) => tracing::warn!(%error, "cannot start a compile worker ahead of need"),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles in a worker process, waiting for a free slot first.
    pub(in crate::compile) async fn compile(
        &self,
        policy: &SandboxPolicy,
        job: Job,
        inventory: &dyn Inventory,
    ) -> Result<JobDone, PoolError> {
        let request = Request::Compile(Box::new(job));
        let asked = (&request, Some(inventory));
        match self.ask(policy, asked, self.options.timeout).await? {
            Reply::Compiled(done) => Ok(*done),
            _ => Err(PoolError::strange_answer()),
        }
    }

    /// Reads what a project asks for, in a worker process.
    pub(in crate::compile) async fn inspect(
        &self,
        policy: &SandboxPolicy,
        project: &Path,
    ) -> Result<Result<Inspection, Refusal>, PoolError> {
        let request = Request::Inspect {
            project_dir: project.to_owned(),
        };
        let limit = INSPECT_TIMEOUT.min(self.options.timeout);
        match self.ask(policy, (&request, None), limit).await? {
            Reply::Inspected(inspected) => Ok(inspected.map(|inspection| *inspection)),
            _ => Err(PoolError::strange_answer()),
        }
    }

    async fn ask(
        &self,
        policy: &SandboxPolicy,
        request: Asked<'_>,
        limit: Duration,
    ) -> Result<Reply, PoolError> {
        // The semaphore is never closed.
        let _slot = self
            .slots
            .acquire()
            .await
            .map_err(|error| PoolError::Ended(error.to_string(), None))?;
        let mut asked = self.ask_once(policy, request, limit).await;
        for _ in 0..RETRIES {
            let Err(error @ PoolError::Ended(..)) = &asked else {
                break;
            };
            tracing::warn!(%error, "another compile worker is asked");
            // Somebody else may have killed it; only what ends each of them is the model's doing.
            asked = self.ask_once(policy, request, limit).await;
        }
        asked
    }

    /// Asks one worker, which is ended with all below it if it does not answer.
    async fn ask_once(
        &self,
        policy: &SandboxPolicy,
        request: Asked<'_>,
        limit: Duration,
    ) -> Result<Reply, PoolError> {
        let mut worker = match self.take(policy) {
            Some(worker) => worker,
            None => self.start().map_err(PoolError::Start)?,
        };
        if worker.policy.is_none() {
            self.enter(&mut worker, policy).await?;
        }
        let reply = self.exchange(&mut worker, request, limit).await?;
        worker.n_jobs += 1;
        if worker.n_jobs < JOBS_PER_WORKER {
            self.put_back(worker);
        }
        Ok(reply)
    }

    async fn enter(&self, worker: &mut Worker, policy: &SandboxPolicy) -> Result<(), PoolError> {
        let request = Request::Enter(Box::new(policy.clone()));
        match self
            .exchange(worker, (&request, None), INSPECT_TIMEOUT)
            .await?
        {
            Reply::Entered(Ok(support)) => {
                worker.policy = Some(policy.clone());
                self.check(support)
            }
            Reply::Entered(Err(reason)) => Err(PoolError::Sandbox(reason)),
            _ => Err(PoolError::strange_answer()),
        }
    }

    /// A worker must be held by what this kernel has: a sandbox that is less than that is a mistake, ours or somebody's.
    fn check(&self, entered: SandboxSupport) -> Result<(), PoolError> {
        let expected = crate::sandbox::support();
        if entered.is_at_least(expected) {
            return Ok(());
        }
        Err(PoolError::Sandbox(format!(
            "it is held by {entered}, where the kernel has {expected}"
        )))
    }

    async fn exchange(
        &self,
        worker: &mut Worker,
        (request, inventory): Asked<'_>,
        limit: Duration,
    ) -> Result<Reply, PoolError> {
        let exchange = async {
            process::write_frame(&mut worker.stdin, request).await?;
            loop {
                let reply = process::read_frame::<Reply>(&mut worker.stdout).await?;
                let (Some(Reply::Ask(question)), Some(inventory)) = (&reply, inventory) else {
                    return Ok::<_, std::io::Error>(reply);
                };
                let found = Request::Found(inventory.ask(question.clone()).await);
                process::write_frame(&mut worker.stdin, &found).await?;
            }
        };
        let supervisor = worker.child.id().unwrap_or_default();
        let which = match request {
            Request::Compile(_) => Which::WithHosts,
            _ => Which::Worker,
        };
        let kills = OutOfMemory::watch();
        // Either may be dropped at any point: the worker is given up then.
        let exchanged = tokio::select! {
            exchanged = tokio::time::timeout(limit, exchange) => exchanged,
            why = stopped(supervisor, which) => {
                tracing::warn!(process.id = supervisor, "{why}");
                // One that is stopped does not hear that it shall end.
                process::kill_tree(supervisor);
                return Err(PoolError::Ended(why, worker.trail.place()));
            }
        };
        match exchanged {
            Err(_) => Err(PoolError::Timeout(limit, worker.trail.place())),
            Ok(Ok(Some(reply))) => Ok(reply),
            Ok(Ok(None)) => {
                let memory = self.options.memory_bytes >> 20;
                let ended = tokio::time::timeout(Duration::from_secs(1), worker.child.wait());
                let how = match ended.await {
                    Ok(Ok(status)) => {
                        let status = status.to_string();
                        match kills.reason(&status, self.options.memory_bytes) {
                            Some(reason) => format!("{status}; {reason}"),
                            None => format!(
                                "{status}; its memory, and that of all its processes together, is limited to {memory} MiB \
                                 (`compile.memory_mib`)"
                            ),
                        }
                    }
                    _ => "its pipe was closed".to_owned(),
                };
                Err(PoolError::Ended(how, worker.trail.place()))
            }
            Ok(Err(error)) => Err(PoolError::Ended(error.to_string(), worker.trail.place())),
        }
    }

    /// An idle worker in this sandbox, else the spare one, which will be replaced.
    fn take(&self, policy: &SandboxPolicy) -> Option<Worker> {
        let mut idle = self.idle();
        // Nobody watches them: one that was killed meanwhile would count as one that the next job has ended.
        idle.entered.retain_mut(Worker::lives);
        let had_spare = idle.spare.is_some();
        idle.spare.take_if(|spare| !spare.lives());
        let known = idle
            .entered
            .iter()
            .rposition(|worker| worker.policy.as_ref() == Some(policy));
        let taken = match known {
            Some(at) => Some(idle.entered.remove(at)),
            None => idle.spare.take(),
        };
        let is_spare_gone = had_spare && idle.spare.is_none();
        drop(idle);
        if is_spare_gone {
            let pool = self.clone();
            tokio::task::spawn_blocking(move || pool.warm());
        }
        taken
    }

    fn put_back(&self, worker: Worker) {
        let mut idle = self.idle();
        idle.entered.push(worker);
        let most = self.options.slots * IDLE_PER_SLOT;
        let oldest = (idle.entered.len() > most).then(|| idle.entered.remove(0));
        drop(idle);
        drop(oldest);
    }

    fn start(&self) -> std::io::Result<Worker> {
        let memory = self.options.memory_bytes.to_string();
        let group = Cgroup::make(self.options.memory_bytes);
        let trail = Trail::make()?;
        let mut child = process::spawn_own_supervised(
            &["compile-worker", "--memory-bytes", &memory],
            self.options.memory_bytes,
            group.as_ref(),
            Some((BREADCRUMB, trail.number())),
            [],
        )?;
        let pipe = || std::io::Error::other("a pipe to the worker is missing");
        let stdin = child.stdin.take().ok_or_else(pipe)?;
        let stdout = tokio::io::BufReader::new(child.stdout.take().ok_or_else(pipe)?);
        Ok(Worker {
            child,
            stdin,
            stdout,
            n_jobs: 0,
            policy: None,
            trail,
            _group: group,
        })
    }
}

impl Worker {
    fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The supervisor ends all that is below it before it ends itself. To kill it would let them go, where they are in no
        // control group.
        process::end_supervised(&self.child);
    }
}
