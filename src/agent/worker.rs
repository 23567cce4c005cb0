//! The work of one agent: one task at a time, by a native handler or through Python.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use steward_compiler::protocol::{HandlerOutcome, PythonModule};

use super::handler::{self, Context};
use super::python::{Limits, PythonHost};
use crate::deploy::{Task, TaskDone};
use crate::domain::{EnvironmentId, HandlerStatus, Timestamp};

/// The Python code of a version.
#[derive(Debug)]
pub(super) struct Code {
    /// The same for the same content, wherever it lies.
    pub(super) key: String,
    pub(super) modules: Vec<PythonModule>,
    pub(super) python: Option<crate::deploy::Python>,
    pub(super) environment_id: EnvironmentId,
}

impl Code {
    /// `announced` is the server's name for it, which differs between commits of the same content.
    pub(super) fn new(
        announced: &str,
        modules: Vec<PythonModule>,
        python: Option<crate::deploy::Python>,
        environment_id: EnvironmentId,
    ) -> Self {
        let key = digest(&modules, python.as_ref()).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read all Python code: its handlers start anew");
            announced.to_owned()
        });
        Self {
            key,
            modules,
            python,
            environment_id,
        }
    }

    fn is_on_disk(&self) -> bool {
        let mut files = self.modules.iter().flat_map(|module| &module.files);
        files.all(|file| Path::new(&file.path).exists())
    }

    /// The module of a resource type has Python code of its own, so its handlers win over native ones.
    fn has_module_of(&self, resource_type: &str) -> bool {
        let module = resource_type.split("::").next().unwrap_or_default();
        self.modules
            .iter()
            .any(|known| known.name == module && !known.files.is_empty())
    }
}

/// Puts a handler's question to the server: method and arguments, status and body.
pub(super) type Ask = Box<dyn Fn(String, Map<String, Value>) -> (u16, Value) + Send>;

pub(super) struct Worker {
    agent: String,
    limits: Limits,
    ask: Ask,
    host: Option<(Arc<Code>, PythonHost)>,
}

impl Worker {
    pub(super) fn new(agent: String, limits: Limits, ask: Ask) -> Self {
        Self {
            agent,
            limits,
            ask,
            host: None,
        }
    }

    pub(super) fn has_host(&self) -> bool {
        self.host.is_some()
    }

    /// Ends the Python host, if there is one; what its handlers cached is let go of in order.
    pub(super) fn end_host(&mut self) {
        if let Some((_, host)) = self.host.take() {
            host.stop();
        }
    }

    pub(super) fn run(&mut self, task: Task, code: &Arc<Code>) -> TaskDone {
        let started_us = Timestamp::now().0;
        let outcome = match serde_json::from_str::<Map<String, Value>>(&task.attributes) {
            Err(error) => refused(&format!(
                "the resource's attributes are no JSON object: {error}"
            )),
            Ok(attributes) => match handler::native(&task.resource_type) {
                Some(native) if !code.has_module_of(&task.resource_type) => {
                    catch_unwind(AssertUnwindSafe(|| {
                        handler::run(native, &task, &attributes)
                    }))
                    .unwrap_or_else(|_| refused("the handler panicked; this is a bug in Steward"))
                }
                _ => self.run_in_python(&task, attributes, code),
            },
        };
        let finished_us = Timestamp::now().0;
        let (action, resource_id, dry_run) = (task.action, task.resource_id, task.dry_run);
        TaskDone {
            action,
            resource_id,
            dry_run,
            started_us,
            finished_us,
            outcome,
        }
    }

    fn run_in_python(
        &mut self,
        task: &Task,
        attributes: Map<String, Value>,
        code: &Arc<Code>,
    ) -> HandlerOutcome {
        if !code.has_module_of(&task.resource_type) {
            return refused(&format!(
                "there is no handler for resources of type {}",
                task.resource_type
            ));
        }
        let is_fit = |(loaded, _): &(Arc<Code>, _)| {
            // Of the same content, and its files are still there for handlers that look for them.
            loaded.key == code.key && (Arc::ptr_eq(loaded, code) || loaded.is_on_disk())
        };
        // One that died while it was at rest is no fault of this resource.
        let is_alive = self.host.as_mut().is_some_and(|(_, host)| host.is_alive());
        if !is_alive || !self.host.as_ref().is_some_and(is_fit) {
            self.end_host();
            match PythonHost::start(code, &self.agent, self.limits) {
                Ok(host) => self.host = Some((Arc::clone(code), host)),
                Err(error) => {
                    return refused(&format!(
                        "cannot start a Python host for resource {}: {error}",
                        task.resource_id
                    ));
                }
            }
        }
        let Some((_, host)) = &mut self.host else {
            return refused("the Python host is gone");
        };
        match host.deploy(task, attributes, &self.ask) {
            Ok(outcome) => outcome,
            Err(error) => {
                // Whatever state it is in, the next task starts a new one.
                self.host = None;
                refused(&format!(
                    "Failure during executor execution for resource {}: {error}",
                    task.resource_id
                ))
            }
        }
    }
}

/// A digest of all that handlers can read of their modules: the Python files, and what lies beside them but for the model.
fn digest(modules: &[PythonModule], python: Option<&crate::deploy::Python>) -> io::Result<String> {
    let mut sha = Sha256::new();
    let mut add = |bytes: &[u8]| {
        sha.update((bytes.len() as u64).to_be_bytes());
        sha.update(bytes);
    };
    if let Some(python) = python {
        add(python.interpreter.as_os_str().as_encoded_bytes());
        add(python.package.as_os_str().as_encoded_bytes());
    }
    for module in modules {
        add(module.name.as_bytes());
        for file in &module.files {
            add(file.module.as_bytes());
            add(&[u8::from(file.package)]);
            add(&fs::read(&file.path)?);
        }
        // Without Python code there is nothing that reads.
        if !module.files.is_empty() {
            let root = Path::new(&module.root);
            add_files(root, root, &mut add)?;
        }
    }
    Ok(hex::encode(sha.finalize()))
}

fn add_files(root: &Path, dir: &Path, add: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name, kind) = (entry.path(), entry.file_name(), entry.file_type()?);
        let is_model = dir == root && name == "model";
        if is_model || name == "__pycache__" || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let below = path.strip_prefix(root).unwrap_or(&path);
        add(below.as_os_str().as_encoded_bytes());
        if kind.is_dir() {
            add_files(root, &path, add)?;
        } else if kind.is_file() {
            add(&fs::read(&path)?);
        } else if kind.is_symlink() {
            add(fs::read_link(&path)?.as_os_str().as_encoded_bytes());
        }
    }
    Ok(())
}

/// A resource that could not be handed to any handler.
fn refused(message: &str) -> HandlerOutcome {
    let mut context = Context::default();
    context.error(message);
    context.into_outcome(HandlerStatus::Unavailable)
}
