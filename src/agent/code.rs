//! The Python code that runs need: contents come from the server once and stay in a file store of the agent, by digest. What
//! packages the code requires is installed before a run with it begins.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Instant;

use super::packages::{InstallEnd, PackageVenvs};
use crate::domain::{ActionId, CodeModule, Content, EnvironmentId, HandlerPackages};
use crate::executor::far_python::FarPython;
use crate::executor::packages::FAILED;
use crate::executor::protocol::{ExecutorCommand, Task};
use crate::files;

/// All code that the server told of.
pub(super) struct Codes {
    far: FarPython,
    venvs: PackageVenvs,
    known: HashMap<String, Code>,
}

struct Code {
    modules: Vec<CodeModule>,
    /// Contents that are on their way.
    missing: BTreeSet<String>,
    packages: Option<HandlerPackages>,
    venv: Venv,
    /// Runs that wait for any of it.
    waiting: Vec<Task>,
    /// The executor that runs now was told of it.
    is_announced: bool,
}

/// The virtual environment with the packages of some code.
enum Venv {
    NotAsked,
    Making,
    /// Its folder.
    Made(PathBuf),
    /// The Python of this machine has the packages.
    OfMachine,
    Failed {
        why: String,
        at: Instant,
    },
}

/// Runs that have waited.
#[derive(Default)]
pub(super) struct Ready {
    /// They may begin.
    pub(super) tasks: Vec<Task>,
    /// Their packages cannot be installed, and why.
    pub(super) failed: Vec<(Task, String)>,
}

impl Code {
    /// Gives the runs that need not wait any more, and has the packages installed when the code is here.
    fn advance(&mut self, key: &str, venvs: &PackageVenvs, used: &[PathBuf]) -> Ready {
        if !self.missing.is_empty() || self.waiting.is_empty() {
            return Ready::default();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let begin = |tasks| Ready {
            tasks,
            failed: Vec::new(),
        };
        let Some(packages) = &self.packages else {
            return begin(waiting);
        };
        match &self.venv {
            // Somebody may have cleared the folder.
            Venv::Made(folder) if folder.join("bin/python").exists() => begin(waiting),
            Venv::OfMachine => begin(waiting),
            Venv::Failed { why, at } if at.elapsed() < FAILED => Ready {
                tasks: Vec::new(),
                failed: waiting
                    .into_iter()
                    .map(|task| (task, why.clone()))
                    .collect(),
            },
            Venv::Making => {
                self.waiting = waiting;
                Ready::default()
            }
            Venv::NotAsked | Venv::Made(_) | Venv::Failed { .. } => {
                venvs.install(key.to_owned(), packages.clone(), used.to_vec());
                self.venv = Venv::Making;
                self.waiting = waiting;
                Ready::default()
            }
        }
    }
}

impl Codes {
    pub(super) fn new(far: FarPython, venvs: PackageVenvs) -> Self {
        Self {
            far,
            venvs,
            known: HashMap::new(),
        }
    }

    /// The server tells of some code.
    pub(super) fn announce(
        &mut self,
        code: String,
        modules: Vec<CodeModule>,
        packages: Option<HandlerPackages>,
    ) {
        if self.known.contains_key(&code) {
            return;
        }
        let store = self.far.files();
        let contents = modules.iter().flat_map(|module| &module.files);
        let missing = contents.filter_map(|file| match &file.content {
            Content::Sha1(name) if !store.has(name) => Some(name.clone()),
            Content::Sha1(_) | Content::Path(_) => None,
        });
        let new = Code {
            missing: missing.collect(),
            modules,
            packages,
            venv: Venv::NotAsked,
            waiting: Vec::new(),
            is_announced: false,
        };
        self.known.insert(code, new);
    }

    /// The connection was cut. Code whose contents had not all come is forgotten: on another connection the server tells of it
    /// again when it hands a run with it over, and gives no contents of what it has not told of. Gives the runs that waited.
    pub(super) fn on_cut(&mut self) -> Vec<ActionId> {
        let incomplete = self.known.extract_if(|_, code| !code.missing.is_empty());
        let waiting = incomplete.flat_map(|(_, code)| code.waiting);
        waiting.map(|task| task.action).collect()
    }

    /// Contents that are to be asked for.
    pub(super) fn missing(&self) -> Vec<String> {
        let missing = self.known.values().flat_map(|code| &code.missing);
        let missing: BTreeSet<&String> = missing.collect();
        missing.into_iter().cloned().collect()
    }

    /// A content has come.
    pub(super) fn take(&mut self, content: &[u8]) -> Ready {
        if let Err(error) = self.far.files().put(content) {
            // Its module will say that it is missing.
            tracing::error!(%error, "cannot keep a file of a module");
        }
        self.has_come(&files::name_of(content))
    }

    /// A content is here, or will not come: then its module says so.
    pub(super) fn has_come(&mut self, name: &str) -> Ready {
        let used = self.used();
        let mut ready = Ready::default();
        for (key, code) in &mut self.known {
            if code.missing.remove(name) {
                let Ready { tasks, failed } = code.advance(key, &self.venvs, &used);
                ready.tasks.extend(tasks);
                ready.failed.extend(failed);
            }
        }
        ready
    }

    /// An installation has ended.
    pub(super) fn on_installed(&mut self, end: InstallEnd) -> Ready {
        let used = self.used();
        let Some(code) = self.known.get_mut(&end.code) else {
            return Ready::default();
        };
        code.venv = match end.made {
            Ok(Some(folder)) => Venv::Made(folder),
            Ok(None) => Venv::OfMachine,
            Err(why) => {
                let at = Instant::now();
                Venv::Failed { why, at }
            }
        };
        code.advance(&end.code, &self.venvs, &used)
    }

    /// Takes a run; gives it back if its code and packages are here, else it waits.
    pub(super) fn ready(&mut self, task: Task) -> Ready {
        let used = self.used();
        let key = task.code.clone();
        let Some(code) = self.known.get_mut(&key) else {
            // The executor says that it does not know it.
            return Ready {
                tasks: vec![task],
                ..Ready::default()
            };
        };
        code.waiting.push(task);
        code.advance(&key, &self.venvs, &used)
    }

    /// The folders of virtual environments that runs may be in.
    fn used(&self) -> Vec<PathBuf> {
        let venvs = self.known.values().filter_map(|code| match &code.venv {
            Venv::Made(folder) => Some(folder.clone()),
            Venv::NotAsked | Venv::Making | Venv::OfMachine | Venv::Failed { .. } => None,
        });
        venvs.collect()
    }

    /// What an executor has to hear before it gets a run with this code; `None`: it has heard it.
    pub(super) fn command(
        &mut self,
        key: &str,
        environment_id: EnvironmentId,
    ) -> Option<ExecutorCommand> {
        let code = self.known.get_mut(key)?;
        if std::mem::replace(&mut code.is_announced, true) {
            return None;
        }
        let mut python = None;
        if !code.modules.is_empty() {
            match self.far.python(std::path::Path::new("")) {
                Ok(mut found) => {
                    if let Venv::Made(folder) = &code.venv {
                        found.interpreter = folder.join("bin/python");
                    }
                    python = Some(found);
                }
                Err(error) => {
                    tracing::error!(%error, "handlers in Python cannot run on this machine");
                }
            }
        }
        Some(ExecutorCommand::Code {
            code: key.to_owned(),
            modules: code.modules.clone(),
            python,
            environment_id,
            // They are in the environment of its interpreter.
            packages: None,
        })
    }

    /// There is a new executor, which has heard nothing.
    pub(super) fn on_new_executor(&mut self) {
        for code in self.known.values_mut() {
            code.is_announced = false;
        }
    }
}
