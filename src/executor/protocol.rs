//! What the server and an executor say to one another: MessagePack frames over a transport.
//!
//! Both begin with a [`Hello`] and check that of the other; who cannot work with the other says why and ends. Then the server
//! sends [`ExecutorCommand`]s, and the executor answers with [`ExecutorReply`]s in any order. A task says what it is for
//! ([`TaskKind`]); the server keeps that beside the task's action, so a result is not guessed from where it fits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steward_compiler::PythonRuntime;
use steward_compiler::protocol::{self, Discovered, Fact, HandlerOutcome};

use crate::domain::{
    ActionId, AgentName, Change, CodeModule, DryRunId, EnvironmentId, HandlerPackages,
    HandlerStatus, LogLevel, ResourceId, ResourceStatus, VersionNumber,
};

/// Of the frames below. It changes with each change that the other side would not understand.
pub const VERSION: u32 = 3;

/// How often an executor says that it runs.
pub const BEAT: Duration = Duration::from_secs(5);

/// Bytes of frames that either side reads at once: as much as a pipe holds.
pub(super) const READ_BYTES: usize = 1 << 16;

/// What an executor can do for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// [`TaskKind::Deploy`]
    Deploy,
    /// [`TaskKind::DryRun`]
    DryRun,
    /// [`TaskKind::CollectFacts`]
    CollectFacts,
    /// Handlers written in Python, from the code of a version.
    PythonHandlers,
    /// One that a later release knows.
    #[serde(other)]
    Unknown,
}

impl Capability {
    /// What executors of this release can do, which a server of this release needs.
    pub const ALL: &[Self] = &[
        Self::Deploy,
        Self::DryRun,
        Self::CollectFacts,
        Self::PythonHandlers,
    ];
}

/// The first frame in both directions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// Of an executor: what it can do. Of a server: what it needs.
    pub capabilities: Vec<Capability>,
}

/// Why a server and an executor do not work with one another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    #[error(
        "the {peer} speaks version {theirs} of the executor protocol, this process speaks version {VERSION}: run the same \
         release of Steward on both sides"
    )]
    Version { peer: &'static str, theirs: u32 },
    #[error(
        "the executor lacks what the server needs ({lacking:?}): run the same release of Steward on both sides"
    )]
    Capabilities { lacking: Vec<Capability> },
    #[error("the {peer} did not say hello first")]
    Missing { peer: &'static str },
}

impl Hello {
    /// That of this release.
    pub fn ours() -> Self {
        Self {
            version: VERSION,
            capabilities: Capability::ALL.to_vec(),
        }
    }

    /// On the server: whether an executor that said this can do what we need.
    ///
    /// # Errors
    /// It cannot, and why.
    pub fn check_executor(&self) -> Result<(), HelloError> {
        self.check_version("executor")?;
        lacking(Capability::ALL, &self.capabilities)
    }

    /// On the executor: whether we can do what a server that said this needs.
    ///
    /// # Errors
    /// We cannot, and why.
    pub fn check_server(&self) -> Result<(), HelloError> {
        self.check_version("server")?;
        lacking(&self.capabilities, Capability::ALL)
    }

    fn check_version(&self, peer: &'static str) -> Result<(), HelloError> {
        let theirs = self.version;
        match theirs {
            VERSION => Ok(()),
            _ => Err(HelloError::Version { peer, theirs }),
        }
    }
}

fn lacking(needed: &[Capability], there: &[Capability]) -> Result<(), HelloError> {
    let needed = needed.iter().copied();
    let lacking: Vec<Capability> = needed.filter(|one| !there.contains(one)).collect();
    match lacking.is_empty() {
        true => Ok(()),
        false => Err(HelloError::Capabilities { lacking }),
    }
}

/// What the server says to an executor.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorCommand {
    /// The first one, and only the first one.
    Hello(Hello),
    /// The Python code that tasks with this `code` need.
    Code {
        code: String,
        modules: Vec<CodeModule>,
        python: Option<Python>,
        environment_id: EnvironmentId,
        /// What an executor on another machine installs before it runs any of it.
        packages: Option<HandlerPackages>,
    },
    Run(Task),
    /// To [`ExecutorReply::Ask`]: HTTP status and body.
    Answer {
        id: u64,
        code: u16,
        body: Value,
    },
    /// One content of the code that is announced next, for an executor that does not see the file store.
    Content {
        #[serde(with = "crate::executor::remote::bytes")]
        content: Vec<u8>,
    },
    /// Said every [`BEAT`] over a connection that may be cut: the server is there.
    Alive,
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

/// One resource, and what to do with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    pub action: ActionId,
    pub kind: TaskKind,
    /// Which code; see [`ExecutorCommand::Code`].
    pub code: String,
    pub agent: AgentName,
    pub resource_id: ResourceId,
    pub resource_type: String,
    pub version: VersionNumber,
    /// The attributes, as the text of a JSON object.
    pub attributes: String,
    /// In words, for the log of the run.
    pub reason: String,
    /// How long the handler may take, in milliseconds: the setting `deploy_timeout`.
    pub limit_ms: u64,
}

impl Task {
    /// How long the handler may take.
    pub fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }

    pub fn is_dry_run(&self) -> bool {
        matches!(self.kind, TaskKind::DryRun { .. })
    }

    /// What the resource depends on, with the statuses that its handler is told.
    pub fn requires(&self) -> BTreeMap<String, String> {
        let of = |id: &ResourceId, status: ResourceStatus| (id.to_string(), status.to_string());
        match &self.kind {
            TaskKind::Deploy { requires, .. } => requires
                .iter()
                .map(|dependency| of(&dependency.resource_id, dependency.status))
                .collect(),
            // It is compared as if all was well before it.
            TaskKind::DryRun { requires, .. } => requires
                .iter()
                .map(|id| of(id, ResourceStatus::Deployed))
                .collect(),
            TaskKind::CollectFacts => BTreeMap::new(),
        }
    }
}

/// What a task is for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Bring the resource to its desired state.
    Deploy {
        requires: Vec<Dependency>,
        /// Some dependency changed since the last success.
        dependency_changed: bool,
    },
    /// Only compare.
    DryRun {
        run: DryRunId,
        requires: Vec<ResourceId>,
    },
    /// Only ask the handler for facts.
    CollectFacts,
}

/// A resource that must be well before another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    pub resource_id: ResourceId,
    pub status: ResourceStatus,
}

/// What an executor says to the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorReply {
    /// The first one, and only the first one.
    Hello(Hello),
    /// Said every [`BEAT`], whatever the handlers do: the process runs.
    Alive,
    Done(TaskDone),
    /// A handler calls a method of the API.
    Ask {
        id: u64,
        method: String,
        arguments: Map<String, Value>,
    },
}

/// A task that ended. What it was for, the server knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskDone {
    pub action: ActionId,
    pub finished_us: i64,
    pub outcome: TaskOutcome,
}

/// What came of a task. Source: docs/reference/deployment.md § 3.2 and § 5.6, docs/reference/python.md § 5.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskOutcome {
    pub status: HandlerStatus,
    pub change: Change,
    /// attribute → {current, desired}
    pub changes: Map<String, Value>,
    pub logs: Vec<LogLine>,
    pub facts: Vec<Fact>,
    /// Of a discovery resource: what exists. Source: docs/reference/deployment.md § 5.9.
    pub discovered: Vec<Discovered>,
}

impl TaskOutcome {
    /// Without any change, word or fact.
    pub fn of(status: HandlerStatus) -> Self {
        Self {
            status,
            change: Change::NoChange,
            changes: Map::new(),
            logs: Vec::new(),
            facts: Vec::new(),
            discovered: Vec::new(),
        }
    }
}

/// From a Python host, which runs code of others: a status that is none counts as failed.
impl From<HandlerOutcome> for TaskOutcome {
    fn from(outcome: HandlerOutcome) -> Self {
        Self {
            status: HandlerStatus::parse(&outcome.status).unwrap_or(HandlerStatus::Failed),
            change: Change::parse(&outcome.change).unwrap_or(Change::NoChange),
            changes: outcome.changes,
            logs: outcome.logs.into_iter().map(LogLine::from).collect(),
            facts: outcome.facts,
            discovered: outcome.discovered,
        }
    }
}

/// One line of a run's log. Source: docs/reference/deployment.md § 5.8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    pub level: LogLevel,
    /// The template already filled in.
    pub msg: String,
    pub kwargs: Map<String, Value>,
    /// UTC microseconds.
    pub timestamp_us: i64,
}

impl From<protocol::LogLine> for LogLine {
    fn from(line: protocol::LogLine) -> Self {
        Self {
            // Python knows the same six; a host that says another one tells no more than that it logged something.
            level: LogLevel::parse(&line.level).unwrap_or(LogLevel::Info),
            msg: line.msg,
            kwargs: line.kwargs,
            timestamp_us: line.timestamp_us,
        }
    }
}

#[cfg(test)]
mod tests;
