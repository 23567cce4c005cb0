//! The Python code that runs need: contents come from the server once and stay in a file store of the agent, by digest.

use std::collections::{BTreeSet, HashMap};

use crate::domain::{CodeModule, Content};
use crate::executor::far_python::FarPython;
use crate::executor::protocol::{ExecutorCommand, Task};
use crate::files;

/// All code that the server told of.
pub(super) struct Codes {
    far: FarPython,
    known: HashMap<String, Code>,
}

struct Code {
    modules: Vec<CodeModule>,
    /// Contents that are on their way.
    missing: BTreeSet<String>,
    /// Runs that wait for them.
    waiting: Vec<Task>,
    /// The executor that runs now was told of it.
    is_announced: bool,
}

impl Codes {
    pub(super) fn new(far: FarPython) -> Self {
        Self {
            far,
            known: HashMap::new(),
        }
    }

    /// The server tells of some code.
    pub(super) fn announce(&mut self, code: String, modules: Vec<CodeModule>) {
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
            waiting: Vec::new(),
            is_announced: false,
        };
        self.known.insert(code, new);
    }

    /// Contents that are to be asked for.
    pub(super) fn missing(&self) -> Vec<String> {
        let missing = self.known.values().flat_map(|code| &code.missing);
        let missing: BTreeSet<&String> = missing.collect();
        missing.into_iter().cloned().collect()
    }

    /// A content has come. Gives runs that need not wait any more.
    pub(super) fn take(&mut self, content: &[u8]) -> Vec<Task> {
        if let Err(error) = self.far.files().put(content) {
            // Its module will say that it is missing.
            tracing::error!(%error, "cannot keep a file of a module");
        }
        self.has_come(&files::name_of(content))
    }

    /// A content is here, or will not come: then its module says so. Gives runs that need not wait any more.
    pub(super) fn has_come(&mut self, name: &str) -> Vec<Task> {
        let mut ready = Vec::new();
        for code in self.known.values_mut() {
            if code.missing.remove(name) && code.missing.is_empty() {
                ready.append(&mut code.waiting);
            }
        }
        ready
    }

    /// Gives the run back if its code is here; else it waits. `None` also for code that was never told of.
    pub(super) fn ready(&mut self, task: Task) -> Option<Task> {
        match self.known.get_mut(&task.code) {
            Some(code) if code.missing.is_empty() => Some(task),
            Some(code) => {
                code.waiting.push(task);
                None
            }
            // The executor says that it does not know it.
            None => Some(task),
        }
    }

    /// What an executor has to hear before it gets a run with this code; `None`: it has heard it.
    pub(super) fn command(
        &mut self,
        key: &str,
        environment_id: crate::domain::EnvironmentId,
    ) -> Option<ExecutorCommand> {
        let code = self.known.get_mut(key)?;
        if std::mem::replace(&mut code.is_announced, true) {
            return None;
        }
        let mut python = None;
        if !code.modules.is_empty() {
            match self.far.python(std::path::Path::new("")) {
                Ok(found) => python = Some(found),
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
        })
    }

    /// There is a new executor, which has heard nothing.
    pub(super) fn on_new_executor(&mut self) {
        for code in self.known.values_mut() {
            code.is_announced = false;
        }
    }
}
