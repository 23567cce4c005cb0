//! What the server and an executor say to one another: MessagePack frames over the executor's pipes.
//!
//! The server sends [`ExecutorCommand`]s, the executor answers with [`ExecutorReply`]s in any order. Both ends are the same
//! binary, so the two always speak the same version.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steward_compiler::PythonRuntime;
use steward_compiler::protocol::HandlerOutcome;

use crate::domain::{ActionId, CodeModule, EnvironmentId};

/// How often an executor says that it runs.
pub const BEAT: Duration = Duration::from_secs(5);
/// What the server says to an executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorCommand {
    /// The Python code that tasks with this `code` need.
    Code {
        code: String,
        modules: Vec<CodeModule>,
        python: Option<Python>,
        environment_id: EnvironmentId,
    },
    Run(Task),
    /// To [`ExecutorReply::Ask`]: HTTP status and body.
    Answer {
        id: u64,
        code: u16,
        body: serde_json::Value,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Python {
    pub interpreter: PathBuf,
    pub package: PathBuf,
    /// The directory of the file store.
    pub files: Option<PathBuf>,
}

impl From<&PythonRuntime> for Python {
    fn from(runtime: &PythonRuntime) -> Self {
        Self {
            interpreter: runtime.interpreter.clone(),
            package: runtime.package.clone(),
            files: runtime.files.clone(),
        }
    }
}

impl Python {
    pub fn runtime(&self) -> PythonRuntime {
        PythonRuntime {
            interpreter: self.interpreter.clone(),
            package: self.package.clone(),
            files: self.files.clone(),
            launcher: Default::default(),
        }
    }
}

/// One resource to bring to its desired state, or to look at.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    pub action: ActionId,
    /// Which code; see [`ExecutorCommand::Code`].
    pub code: String,
    pub agent: String,
    pub resource_id: String,
    pub resource_type: String,
    pub version: i64,
    /// The attributes, as the text of a JSON object.
    pub attributes: String,
    /// The status of each dependency, by its id.
    pub requires: BTreeMap<String, String>,
    pub dependency_changed: bool,
    pub dry_run: bool,
    /// The handler is only asked for facts.
    pub facts: bool,
    pub reason: String,
    /// How long the handler may take, in milliseconds: the setting `deploy_timeout`.
    pub limit_ms: u64,
}

impl Task {
    /// How long the handler may take.
    pub fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }
}

/// What an executor says to the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorReply {
    /// Said every [`BEAT`], whatever the handlers do: the process runs.
    Alive,
    Done(TaskDone),
    /// A handler calls a method of the API.
    Ask {
        id: u64,
        method: String,
        arguments: serde_json::Map<String, serde_json::Value>,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskDone {
    pub action: ActionId,
    pub resource_id: String,
    pub dry_run: bool,
    pub started_us: i64,
    pub finished_us: i64,
    pub outcome: HandlerOutcome,
}
