//! The Python code that runs need: contents come from the server once and stay in a file store of the agent, by digest. What
//! packages the code requires is installed before a run with it begins. What no run has needed for long is removed when other code
//! comes; should it be needed again, its contents are asked for again.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::packages::{InstallEnd, PackageVenvs, UNUSED};
use crate::domain::{ActionId, CodeModule, Content, DataDir, EnvironmentId, HandlerPackages};
use crate::executor::far_python::FarPython;
use crate::executor::gc_code_folders;
use crate::executor::packages::FAILED;
use crate::executor::protocol::{ExecutorCommand, Task};
use crate::files::{self, Files};

/// How often old code is looked for, at most.
const LOOK: Duration = Duration::from_secs(3600);

/// All code that the server told of.
pub(super) struct Codes {
    far: FarPython,
    venvs: PackageVenvs,
    known: HashMap<String, Code>,
    /// When old code was looked for.
    looked: Option<Instant>,
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
    /// When the server told of it, or a run needed it.
    used: Instant,
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
            looked: None,
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
        let new = Code {
            missing: missing_of(&modules, &self.far.files()),
            modules,
            packages,
            venv: Venv::NotAsked,
            waiting: Vec::new(),
            is_announced: false,
            used: Instant::now(),
        };
        self.known.insert(code, new);
    }

    /// Removes what no run has needed for long. What there is grows only when other code comes, so that is when this is called.
    pub(super) async fn remove_old(&mut self) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        let used = self
            .known
            .values()
            .filter(|code| code.used.elapsed() < UNUSED);
        let kept: BTreeSet<String> = used
            .flat_map(|code| names_of(&code.modules))
            .cloned()
            .collect();
        let data = self.far.data().clone();
        // Waited for: no run finds code that is about to go. What cannot be removed stays.
        let _ = tokio::task::spawn_blocking(move || remove_unused(&data, &kept, UNUSED)).await;
    }

    /// A run with this code is about to come. Whether contents have to be asked for: what no run has needed for long may have been
    /// removed.
    pub(super) fn look_again(&mut self, key: &str) -> bool {
        let Some(code) = self.known.get_mut(key) else {
            return false;
        };
        let before = std::mem::replace(&mut code.used, Instant::now());
        if before.elapsed() < UNUSED / 2 {
            return false;
        }
        code.missing
            .extend(missing_of(&code.modules, &self.far.files()));
        !code.missing.is_empty()
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

/// The contents that some modules are made of.
fn names_of(modules: &[CodeModule]) -> impl Iterator<Item = &String> {
    let contents = modules.iter().flat_map(|module| &module.files);
    contents.filter_map(|file| match &file.content {
        Content::Sha1(name) => Some(name),
        Content::Path(_) => None,
    })
}

/// Those of them that are not there; the others stay for another while.
fn missing_of(modules: &[CodeModule], store: &Files) -> BTreeSet<String> {
    let missing = names_of(modules).filter(|name| !store.renew_if_there(name));
    missing.cloned().collect()
}

/// Removes folders that code was laid out in and contents that were not used for `age`, but for the contents that are `kept`: a
/// folder is laid out again from them. Blocks.
fn remove_unused(data: &DataDir, kept: &BTreeSet<String>, age: Duration) {
    gc_code_folders(data, age);
    let store = Files::new(data.files());
    let mut old = store.older_than(age);
    old.retain(|name| !kept.contains(name));
    store.gc(&old, age);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::CodeFile;

    fn module(content: &str) -> CodeModule {
        CodeModule {
            name: "net".to_owned(),
            files: vec![CodeFile {
                module: "inmanta_plugins.net".to_owned(),
                package: true,
                content: Content::Sha1(content.to_owned()),
            }],
            requirements: BTreeSet::new(),
        }
    }

    /// Given: code that runs need, and code that none needs. Expected: the contents of the first stay, whatever their age, and
    /// those of the second go with all folders, and are missing then.
    #[test]
    fn code_that_no_run_needs_goes_and_is_missing_then() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::new(folder.path());
        let store = Files::new(data.files());
        let used = store.put(b"x = 1\n").unwrap();
        let unused = store.put(b"x = 2\n").unwrap();
        for name in ["used", "unused"] {
            std::fs::create_dir_all(data.code().join(name).join("inmanta_plugins")).unwrap();
        }
        let kept: BTreeSet<String> = names_of(&[module(&used)]).cloned().collect();
        remove_unused(&data, &kept, Duration::from_secs(60));
        assert!(store.has(&used) && store.has(&unused));
        assert_eq!(files::folders(&data.code()).len(), 2);
        remove_unused(&data, &kept, Duration::ZERO);
        assert!(files::folders(&data.code()).is_empty());
        assert!(missing_of(&[module(&used)], &store).is_empty());
        let missing = missing_of(&[module(&unused)], &store);
        assert_eq!(missing, BTreeSet::from([unused]));
    }
}
