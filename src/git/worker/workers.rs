//! The server's side: starts a worker for each job, and ends it at its limits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::frames::{Ahead, Job, MAX_FRAME_BYTES, Reply, Request, Shown, Task};
use crate::domain::{chain, is_unprintable, printable};
use crate::git::checkout::finished_checkout;
use crate::git::error::Error;
use crate::git::mirror::{FetchOptions, Mirror};
use crate::git::repository::{CommitId, CommitInfo};
use crate::git::rules::Reach;
use crate::git::transport::Credentials;
use crate::git::url::RepositoryUrl;
use crate::process::{self, cgroup::Cgroup};
use crate::sandbox::{Network, OpenNetwork, SandboxPolicy, SandboxSupport, support};

/// Workers at the same time. Each takes some MiB and mostly waits for its remote.
const MAX_WORKERS: usize = 32;
/// Enough for a process to start on a busy machine and to enter its sandbox.
const ENTER_TIMEOUT: Duration = Duration::from_secs(30);
/// A worker that keeps to its time answers by then, and says what took so long.
const GRACE: Duration = Duration::from_secs(5);
/// No error of this room is longer, nor is its cause.
const MAX_ERROR_BYTES: usize = 16 << 10;
/// A spare worker is started this long after a job: by then the compile that mostly follows a fetch has had the processors.
const SPARE_AFTER: Duration = Duration::from_secs(1);
/// Where certificates are that this machine trusts, if they are not where they mostly are: a worker asks for them when it
/// connects by https.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What one job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// For a fetch, and for a checkout.
    pub time: Duration,
    /// Bytes of memory that a worker may map, and that it and what it starts may use together.
    pub memory_bytes: u64,
}

impl Default for WorkerLimits {
    fn default() -> WorkerLimits {
        WorkerLimits {
            time: FetchOptions::default().time,
            // The largest object that is read (512 MiB), the one that it is made from, and as much again for all others.
            memory_bytes: 2 << 30,
        }
    }
}

/// A repository that others serve, and where mirrors are.
#[derive(Debug, Clone)]
pub struct Remote {
    pub url: RepositoryUrl,
    /// The folder of all mirrors, by a path without links.
    pub mirrors: PathBuf,
    /// The environment that it is for, as the log names it.
    pub environment: String,
}

/// What a fetch needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Fetch<'a> {
    /// `None`: the one that the remote's HEAD names.
    pub branch: Option<&'a str>,
    pub credentials: &'a Credentials,
    /// The hosts that may be connected to.
    pub reach: Reach,
    /// The commit that the last fetch brought.
    pub known: Option<CommitId>,
    /// Where commits are laid out, by a path without links.
    pub dir: &'a Path,
}

/// Starts git workers. Clones share their number, the turns of repositories, and the spare worker.
#[derive(Debug, Clone)]
pub struct Workers {
    limits: WorkerLimits,
    slots: Arc<Semaphore>,
    turns: Turns,
    spare: Spare,
}

/// A worker that was started ahead of its job. It has been told nothing yet, and is in no sandbox.
type Spare = Arc<Mutex<Option<Worker>>>;

/// Who is at work on a mirror; the others wait without a process and without a place.
type Turns = Arc<Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>>;

impl Workers {
    pub fn new(limits: WorkerLimits) -> Workers {
        Workers {
            limits,
            slots: Arc::new(Semaphore::new(MAX_WORKERS)),
            turns: Turns::default(),
            spare: Spare::default(),
        }
    }

    /// Brings the newest commit of a branch into the mirror, as [`Mirror::fetch`] does. One that is not `known` is laid out
    /// below `dir` by the way, if that can be. Dropping the future ends the worker.
    ///
    /// # Errors
    /// Those of [`Mirror::fetch`], and those of a process: it cannot be started, it ended, it passed a limit.
    pub async fn fetch(
        &self,
        sandbox: &SandboxPolicy,
        remote: &Remote,
        fetch: Fetch<'_>,
    ) -> Result<CommitInfo, Error> {
        let task = Task::Fetch {
            branch: fetch.branch.map(str::to_owned),
            credentials: Shown::from(fetch.credentials),
            options: Box::new(FetchOptions {
                time: self.limits.time,
                reach: fetch.reach,
                ..FetchOptions::default()
            }),
            ahead: Ahead {
                dir: fetch.dir.to_owned(),
                known: fetch.known,
            },
        };
        let turn = self.turn(remote).await?;
        let reply = self.ask(sandbox, remote, task).await?;
        drop(turn);
        match reply {
            Reply::Fetched(Ok(info)) => Ok(CommitInfo {
                // It went through this in the worker, which may be somebody else's by now.
                author: printable(&info.author, 500),
                summary: printable(&info.summary, 200),
                ..info
            }),
            Reply::Fetched(Err(error)) => Err(self.judged(remote, error)),
            _ => Err(strange_answer(remote)),
        }
    }

    /// The folder below `dir` with the content of a commit, as [`checkout`](crate::git::checkout()) makes it.
    ///
    /// # Errors
    /// Those of [`checkout`](crate::git::checkout()), and those of a process.
    pub async fn check_out(
        &self,
        sandbox: &SandboxPolicy,
        remote: &Remote,
        commit: CommitId,
        dir: &Path,
    ) -> Result<PathBuf, Error> {
        let task = Task::CheckOut {
            commit,
            dir: dir.to_owned(),
        };
        match self.ask(sandbox, remote, task).await? {
            // Where it is is ours to say.
            Reply::CheckedOut(Ok(tree)) => {
                finished_checkout(dir, tree)?.ok_or_else(|| strange_answer(remote))
            }
            Reply::CheckedOut(Err(error)) => Err(self.judged(remote, error)),
            _ => Err(strange_answer(remote)),
        }
    }

    /// Waits until no other fetch of ours is at work on the mirror. The lock file of a mirror would do, but who waits for
    /// that one is a process already.
    async fn turn(&self, remote: &Remote) -> Result<OwnedMutexGuard<()>, Error> {
        let place = Mirror::place(&remote.mirrors, &remote.url);
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(place).or_default())
        };
        let taken = tokio::time::timeout(self.limits.time, turn.lock_owned()).await;
        taken.map_err(|_| Error::Busy {
            url: remote.url.as_str().to_owned(),
            waited: self.limits.time,
        })
    }

    async fn ask(
        &self,
        sandbox: &SandboxPolicy,
        remote: &Remote,
        task: Task,
    ) -> Result<Reply, Error> {
        let url = || remote.url.as_str().to_owned();
        let not_started = |how: String| Error::WorkerStart { url: url(), how };
        // The semaphore is never closed.
        let slot = self.slots.acquire().await;
        let _slot = slot.map_err(|error| not_started(error.to_string()))?;
        let policy = SandboxPolicy {
            memory_bytes: Some(self.limits.memory_bytes),
            ..sandbox.clone()
        };
        let mut worker = self.worker().map_err(|error| not_started(chain(&error)))?;
        self.prepare();
        if policy.network == Network::Open {
            worker.open = Some(OpenNetwork::begin());
        }
        let enter = Request::Enter(Box::new(policy));
        let entered = Instant::now() + ENTER_TIMEOUT;
        match timeout_at(entered, worker.exchange(&enter)).await {
            Ok(Ok(Reply::Entered(Ok(held)))) => check(held).map_err(not_started)?,
            Ok(Ok(Reply::Entered(Err(how)))) => return Err(not_started(printable(&how, 300))),
            Ok(Ok(_)) => return Err(strange_answer(remote)),
            Ok(Err(how)) => return Err(not_started(how)),
            Err(_) => return Err(not_started("it does not answer".to_owned())),
        }
        let job = Request::Work(Box::new(Job {
            mirrors: remote.mirrors.clone(),
            url: url(),
            environment: remote.environment.clone(),
            task,
        }));
        let until = Instant::now() + self.limits.time + GRACE;
        match timeout_at(until, worker.exchange(&job)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(how)) => {
                let memory = self.limits.memory_bytes >> 20;
                let how = format!("{how}; its memory is limited to {memory} MiB");
                Err(Error::WorkerEnded { url: url(), how })
            }
            Err(_) => Err(Error::TimeLimit {
                url: url(),
                limit: self.limits.time,
            }),
        }
    }

    /// The spare worker, or a new one if there is none, or no more.
    fn worker(&self) -> std::io::Result<Worker> {
        let mut spare = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match spare.take_if(Worker::runs) {
            Some(worker) => Ok(worker),
            None => Worker::start(self.limits.memory_bytes),
        }
    }

    /// Starts the next spare worker a little later, unless nobody wants one any more.
    fn prepare(&self) {
        let (spare, memory_bytes) = (Arc::downgrade(&self.spare), self.limits.memory_bytes);
        tokio::spawn(async move {
            tokio::time::sleep(SPARE_AFTER).await;
            let Some(spare) = spare.upgrade() else { return };
            let mut spare = spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.is_none() {
                // Whoever needs one then starts it, and says what is wrong.
                *spare = Worker::start(memory_bytes).ok();
            }
        });
    }

    /// What a worker says that went wrong, unless that is nothing that one of ours would say.
    fn judged(&self, remote: &Remote, error: Error) -> Error {
        let text = chain(&error);
        if text.len() > MAX_ERROR_BYTES || text.contains(is_unprintable) {
            return strange_answer(remote);
        }
        match error {
            Error::OutOfMemory { .. } => Error::MemoryLimit {
                url: remote.url.as_str().to_owned(),
                limit_mib: self.limits.memory_bytes >> 20,
            },
            error => error,
        }
    }
}

fn strange_answer(remote: &Remote) -> Error {
    Error::WorkerEnded {
        url: remote.url.as_str().to_owned(),
        how: "it answered something else".to_owned(),
    }
}

/// A worker must be held by what this kernel has, or it is given nothing.
fn check(held: SandboxSupport) -> Result<(), String> {
    let expected = support();
    if held.is_at_least(expected) {
        return Ok(());
    }
    Err(format!(
        "it is held by {held}, where the kernel has {expected}"
    ))
}

/// A process that was started for one job. Dropping it ends it with all below it.
#[derive(Debug)]
struct Worker {
    /// `None`: this is being dropped.
    child: Option<Child>,
    open: Option<OpenNetwork>,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// Ends what is left when the supervisor is gone, where groups can be made.
    _group: Option<Cgroup>,
}

impl Worker {
    fn start(memory_bytes: u64) -> std::io::Result<Worker> {
        let certificates = CERTIFICATES
            .into_iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let group = Cgroup::make(memory_bytes);
        let mut child = process::spawn_own_supervised(
            &["git-worker"],
            memory_bytes,
            group.as_ref(),
            None,
            certificates,
        )?;
        let pipe = || std::io::Error::other("a pipe to it is missing");
        Ok(Worker {
            stdin: child.stdin.take().ok_or_else(pipe)?,
            stdout: child.stdout.take().ok_or_else(pipe)?,
            child: Some(child),
            open: None,
            _group: group,
        })
    }

    fn runs(&mut self) -> bool {
        let ended = self.child.as_mut().map(Child::try_wait);
        matches!(ended, Some(Ok(None)))
    }

    /// Asks, and waits for the answer; the error says how the worker ended.
    async fn exchange(&mut self, request: &Request) -> Result<Reply, String> {
        let asked = process::write_frame(&mut self.stdin, request).await;
        let answered = match asked {
            Ok(()) => process::read_frame_within::<Reply>(&mut self.stdout, MAX_FRAME_BYTES).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.end().await),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(self.end().await),
            Err(error) => Err(printable(&error.to_string(), 300)),
        }
    }

    /// How it ended, if it does so soon.
    async fn end(&mut self) -> String {
        let ended = async {
            let ended = self.child.as_mut()?.wait();
            let status = tokio::time::timeout(Duration::from_secs(1), ended).await;
            status.ok()?.ok()
        };
        match ended.await {
            Some(status) => ExitStatus::to_string(&status),
            None => "its pipe was closed".to_owned(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let (Some(mut child), open) = (self.child.take(), self.open.take()) else {
            return;
        };
        // The supervisor ends all that is below it before it ends itself.
        process::end_supervised(&child);
        if let (Some(open), Ok(runtime)) = (open, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let _ = child.wait().await;
                drop(open);
            });
        }
    }
}
