//! The virtual environments of handlers whose code was exported with requirements.
//!
//! One is made when the first run needs it. That run, and all others that need the same packages, wait meanwhile; they run
//! when it is there, and are `unavailable` with the reason if it cannot be made. That it cannot is remembered for a moment:
//! what failed for one resource would fail for the next thousand as well, and each time take as long.
//! Source: docs/reference/deployment.md § 5.4.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::Map;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::domain::{ActionId, HandlerPackages, LogLevel, ResourceId, Timestamp};
use crate::executor::agent_code::AgentCode;
use crate::executor::link::{Message, TaskResult};
use crate::executor::protocol::{LogLine, Task};
use crate::executor::waiting::{Awaited, Begin, Waiting, WaitingRun, not_begun};

/// How long it counts that packages could not be installed.
pub(crate) const FAILED: Duration = Duration::from_secs(20);

/// A virtual environment with the packages that were asked for.
#[derive(Debug, Clone)]
pub struct HandlerVenv {
    pub interpreter: PathBuf,
    /// What was installed, if it was made now.
    pub installed: Option<String>,
}

/// Finds the virtual environment with some packages, or makes it. To drop the future ends what it does.
#[derive(Clone)]
pub struct PackageInstaller(Arc<Install>);

type Install =
    dyn Fn(HandlerPackages) -> BoxFuture<'static, Result<HandlerVenv, String>> + Send + Sync;

impl fmt::Debug for PackageInstaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PackageInstaller")
    }
}

impl PackageInstaller {
    pub fn new(
        install: impl Fn(HandlerPackages) -> BoxFuture<'static, Result<HandlerVenv, String>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(install))
    }

    /// One that installs nothing, and says why.
    pub fn none(why: &'static str) -> Self {
        Self::new(move |_| Box::pin(async move { Err(why.to_owned()) }))
    }
}

/// The virtual environments of the handlers of one environment.
#[derive(Debug)]
pub(super) struct Packages {
    installer: PackageInstaller,
    messages: mpsc::UnboundedSender<Message>,
    /// By the digests of what is in them.
    venvs: HashMap<String, Venv>,
    /// Those that are being made; they end with this.
    installations: JoinSet<()>,
    /// Runs that have waited, since when, and may begin.
    ready: Vec<(Timestamp, ReadyRun)>,
    /// What the logs of runs that have waited say of it.
    notes: HashMap<ActionId, LogLine>,
}

#[derive(Debug)]
enum Venv {
    Making {
        since: Timestamp,
        waiting: Vec<WaitingRun>,
    },
    Made(PathBuf),
    Failed {
        why: String,
        at: Instant,
    },
}

/// A run that may begin.
#[derive(Debug)]
pub(super) struct ReadyRun {
    pub(super) task: Task,
    pub(super) code: Arc<AgentCode>,
    /// That of the virtual environment; `None`: it needs none.
    pub(super) interpreter: Option<PathBuf>,
}

impl ReadyRun {
    fn with(run: WaitingRun, interpreter: PathBuf) -> Self {
        let WaitingRun { mut task, code } = run;
        task.code = code.key_with_packages();
        Self {
            task,
            code,
            interpreter: Some(interpreter),
        }
    }
}

impl Packages {
    pub(super) fn new(
        installer: PackageInstaller,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self {
            installer,
            messages,
            venvs: HashMap::new(),
            installations: JoinSet::new(),
            ready: Vec::new(),
            notes: HashMap::new(),
        }
    }

    /// Takes a run; gives it back if it may begin. Else it waits, or it has ended and its result is on its way.
    pub(super) fn admit(&mut self, task: Task, code: &Arc<AgentCode>) -> Option<ReadyRun> {
        let code = Arc::clone(code);
        let Some(packages) = code.packages_for(&task.resource_type) else {
            return Some(ReadyRun {
                task,
                code,
                interpreter: None,
            });
        };
        let digest = packages.digest();
        match self.venvs.get_mut(&digest) {
            Some(Venv::Making { waiting, .. }) => {
                waiting.push(WaitingRun { task, code });
                return None;
            }
            // Somebody may have cleared the folder.
            Some(Venv::Made(interpreter)) if interpreter.exists() => {
                let run = WaitingRun { task, code };
                return Some(ReadyRun::with(run, interpreter.clone()));
            }
            Some(Venv::Failed { why, at }) if at.elapsed() < FAILED => {
                let failed = failed(&task, why);
                let _ = self.messages.send(Message::NotSent(Box::new(failed)));
                return None;
            }
            _ => {}
        }
        self.install(digest.clone(), packages.clone());
        let making = Venv::Making {
            since: Timestamp::now(),
            waiting: vec![WaitingRun { task, code }],
        };
        self.venvs.insert(digest, making);
        None
    }

    /// What a run of a resource waits for.
    pub(super) fn waiting_for(&self, resource_id: &ResourceId) -> Option<Waiting> {
        let making = self.venvs.values().filter_map(|venv| match venv {
            Venv::Making { since, waiting } => Some((*since, waiting)),
            Venv::Made(_) | Venv::Failed { .. } => None,
        });
        let making = making.flat_map(|(since, waiting)| {
            waiting
                .iter()
                .map(move |run| (&run.task, since, Awaited::Packages))
        });
        let ready = self.ready.iter();
        let mut all =
            making.chain(ready.map(|(since, run)| (&run.task, *since, Awaited::Permission)));
        let (_, since, awaited) = all.find(|(task, _, _)| task.resource_id == *resource_id)?;
        Some(Waiting { since, awaited })
    }

    fn install(&mut self, digest: String, packages: HandlerPackages) {
        let installing = (self.installer.0)(packages);
        let messages = self.messages.clone();
        self.installations.spawn(async move {
            let made = installing.await;
            let _ = messages.send(Message::Installed { digest, made });
        });
    }

    /// An installation has ended: what has waited for it is ready.
    pub(super) fn on_installed(&mut self, digest: String, made: Result<HandlerVenv, String>) {
        while self.installations.try_join_next().is_some() {}
        let Some(Venv::Making { since, waiting }) = self.venvs.remove(&digest) else {
            return;
        };
        match made {
            Ok(venv) => {
                let note = venv.installed.map(|installed| LogLine {
                    level: LogLevel::Info,
                    msg: format!("Installed what the code of handlers requires: {installed}"),
                    kwargs: Map::new(),
                    timestamp_us: Timestamp::now().0,
                });
                let actions = waiting.iter().map(|run| run.task.action);
                self.notes
                    .extend(actions.filter_map(|action| Some((action, note.clone()?))));
                let interpreter = venv.interpreter;
                self.venvs.insert(digest, Venv::Made(interpreter.clone()));
                let waiting = waiting.into_iter();
                let ready = waiting.map(|run| (since, ReadyRun::with(run, interpreter.clone())));
                self.ready.extend(ready);
            }
            Err(why) => {
                for run in waiting {
                    let failed = failed(&run.task, &why);
                    let _ = self.messages.send(Message::NotSent(Box::new(failed)));
                }
                let at = Instant::now();
                self.venvs.insert(digest, Venv::Failed { why, at });
            }
        }
    }

    /// The runs that have waited and begin now, and the results of those that never do.
    pub(super) fn take_ready(
        &mut self,
        may_begin: impl Fn(&Task) -> Begin,
    ) -> (Vec<ReadyRun>, Vec<TaskResult>) {
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for (since, run) in std::mem::take(&mut self.ready) {
            match may_begin(&run.task) {
                Begin::Now => begun.push(run),
                Begin::Later => self.ready.push((since, run)),
                Begin::Never(why) => {
                    let result = not_begun(&run.task, why);
                    ended.push(self.with_note(result));
                }
            }
        }
        (begun, ended)
    }

    /// The result of a run, whose log begins with what it has waited for.
    pub(super) fn with_note(&mut self, mut result: TaskResult) -> TaskResult {
        let note = self.notes.remove(&result.action);
        result.outcome.logs.splice(0..0, note);
        result
    }

    /// Ends all that is being made; the runs that waited for it are `unavailable`.
    pub(super) fn stop(&mut self, message: &str) -> Vec<TaskResult> {
        self.installations.abort_all();
        let waiting = self.venvs.drain().filter_map(|(_, venv)| match venv {
            Venv::Making { waiting, .. } => Some(waiting),
            Venv::Made(_) | Venv::Failed { .. } => None,
        });
        let waiting = waiting.flatten().map(|run| run.task);
        let ready = self.ready.drain(..).map(|(_, run)| run.task);
        let unavailable = |task: Task| not_begun(&task, message.to_owned());
        waiting.chain(ready).map(unavailable).collect()
    }
}

fn failed(task: &Task, why: &str) -> TaskResult {
    not_begun(task, not_installed(&task.resource_type, why))
}

/// What the log of a run says whose packages cannot be installed. Source: docs/reference/deployment.md § 5.4.
pub(crate) fn not_installed(resource_type: &str, why: &str) -> String {
    format!(
        "All resources of type `{resource_type}` failed to install handler code dependencies: {why}"
    )
}
