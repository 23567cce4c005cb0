//! The code of an executor that came over ssh, as far as it needs packages: they are installed there before it runs, into the
//! folder that the executor leaves nothing of. Source: docs/reference/deployment.md § 5.12.
//!
//! Commands are read by one thread that must not wait, so an installation has a thread of its own; runs that need it wait, and
//! are given to their agents, or end, when it has ended. That it failed is remembered for a moment, as on the server
//! (`executor/packages.rs`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::domain::{CodeModule, EnvironmentId, HandlerPackages};
use crate::executor::agent::{done_of, refused};
use crate::executor::agents::{Agents, Reply};
use crate::executor::code_folder::Code;
use crate::executor::far_python::FarPython;
use crate::executor::outbox::Urgency;
use crate::executor::packages::{FAILED, not_installed};
use crate::executor::protocol::{Python, Task};

/// Makes the virtual environment with some packages, with an interpreter of this machine: its interpreter. `None`: the other one
/// has the packages itself. Blocks.
pub type InstallFar =
    Arc<dyn Fn(&HandlerPackages, &Path) -> Result<Option<PathBuf>, String> + Send + Sync>;

/// All codes with packages that the server has announced.
#[derive(Clone)]
pub(super) struct FarCodes(Arc<Shared>);

struct Shared {
    far: FarPython,
    install: InstallFar,
    agents: Agents,
    reply: Reply,
    codes: Mutex<HashMap<String, FarCode>>,
}

/// Code as it was announced.
pub(super) struct Announced {
    pub(super) modules: Vec<CodeModule>,
    pub(super) environment_id: EnvironmentId,
    /// What has to be installed for it here.
    pub(super) packages: Option<HandlerPackages>,
}

struct FarCode {
    announced: Arc<Announced>,
    /// The interpreter that the model names.
    wanted: PathBuf,
    state: State,
}

enum State {
    NotAsked,
    Installing(Vec<Task>),
    Ready(Arc<Code>),
    Failed { why: String, at: Instant },
}

/// What becomes of a run.
pub(super) enum Admitted {
    Ready(Task, Arc<Code>),
    /// It waits, or has ended.
    Taken,
    /// No such code needs packages.
    Unknown(Task),
}

impl FarCodes {
    pub(super) fn new(far: FarPython, install: InstallFar, agents: Agents, reply: Reply) -> Self {
        Self(Arc::new(Shared {
            far,
            install,
            agents,
            reply,
            codes: Mutex::default(),
        }))
    }

    pub(super) fn announce(&self, key: String, wanted: PathBuf, announced: Announced) {
        let code = FarCode {
            announced: Arc::new(announced),
            wanted,
            state: State::NotAsked,
        };
        self.0.codes().entry(key).or_insert(code);
    }

    pub(super) fn admit(&self, task: Task) -> Admitted {
        let key = task.code.clone();
        let mut codes = self.0.codes();
        let Some(code) = codes.get_mut(&key) else {
            return Admitted::Unknown(task);
        };
        match &mut code.state {
            State::Ready(ready) => return Admitted::Ready(task, Arc::clone(ready)),
            State::Installing(waiting) => waiting.push(task),
            State::Failed { why, at } if at.elapsed() < FAILED => self.0.fail(&task, why),
            State::NotAsked | State::Failed { .. } => {
                code.state = State::Installing(vec![task]);
                let (shared, announced) = (Arc::clone(&self.0), Arc::clone(&code.announced));
                let wanted = code.wanted.clone();
                thread::spawn(move || {
                    let made = shared.make(&wanted, &announced);
                    shared.on_made(&key, made);
                });
            }
        }
        Admitted::Taken
    }
}

impl Shared {
    fn codes(&self) -> MutexGuard<'_, HashMap<String, FarCode>> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, wanted: &Path, announced: &Announced) -> Result<Code, String> {
        let python = self.far.python(wanted);
        let python = python.map_err(|error| error.to_string())?;
        let made = match &announced.packages {
            Some(packages) => (self.install)(packages, &python.interpreter)?,
            None => None,
        };
        let python = Python {
            interpreter: made.unwrap_or(python.interpreter),
            ..python
        };
        let modules = announced.modules.clone();
        Ok(Code::new(modules, Some(python), announced.environment_id))
    }

    fn on_made(&self, key: &str, made: Result<Code, String>) {
        let mut codes = self.codes();
        let Some(code) = codes.get_mut(key) else {
            return;
        };
        let waiting = match std::mem::replace(&mut code.state, State::NotAsked) {
            State::Installing(waiting) => waiting,
            State::NotAsked | State::Ready(_) | State::Failed { .. } => Vec::new(),
        };
        match made {
            Ok(made) => {
                let made = Arc::new(made);
                code.state = State::Ready(Arc::clone(&made));
                let ready = waiting.into_iter().map(|task| (task, Arc::clone(&made)));
                // Those that come next are given behind these.
                self.agents.give(ready);
            }
            Err(why) => {
                waiting.iter().for_each(|task| self.fail(task, &why));
                let at = Instant::now();
                code.state = State::Failed { why, at };
            }
        }
    }

    fn fail(&self, task: &Task, why: &str) {
        let outcome = refused(&not_installed(&task.resource_type, why));
        (self.reply)(done_of(task.action, outcome), Urgency::Now);
    }
}
