//! What happens, as it happens: events for the prompt, the log and whoever listens.
//!
//! Events tell of what is durable already; a listener that falls behind loses events, never state. The store is the
//! truth.

mod action_log;
mod lines;

pub use action_log::ActionLogs;
pub use lines::LineLimit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::domain::{Change, CompileId, EnvironmentId, ResourceId, ResourceStatus, VersionNumber};

/// Something that happened in an environment.
#[derive(Debug, Clone)]
pub struct Event {
    pub environment: EnvironmentId,
    pub what: EventKind,
}

#[derive(Debug, Clone)]
pub enum EventKind {
    /// The repository cannot be reached or read; the next poll tries again.
    FetchFailed {
        message: String,
    },
    /// Something of ours does not work, for now.
    Trouble {
        message: String,
    },
    /// A look found the commit that the newest version was made from.
    UpToDate {
        commit: String,
        version: Option<VersionNumber>,
    },
    CompileStarted {
        compile: CompileId,
        commit: String,
        summary: String,
    },
    /// A stage that may take long.
    StageBegan {
        compile: CompileId,
        name: String,
        /// What it does, and to how much.
        detail: String,
    },
    StageDone {
        compile: CompileId,
        name: String,
        duration: Duration,
        detail: String,
    },
    CompileDone(CompileDone),
    Activated {
        version: VersionNumber,
        n_new: usize,
        n_updated: usize,
        n_removed: usize,
        n_total: usize,
    },
    ResourceDone(ResourceDone),
    /// A run goes on for long, and so do others.
    LongRun {
        resource_id: ResourceId,
        took: Duration,
        n_others: usize,
    },
    /// Everything that was to do is done, for now.
    Settled(Summary),
}

#[derive(Debug, Clone)]
pub struct CompileDone {
    pub compile: CompileId,
    pub commit: String,
    /// The stored version; `None` when it did not compile.
    pub version: Option<VersionNumber>,
    /// Why it failed; `None`: it did not.
    pub failure: Option<String>,
    pub diagnostics: Vec<RenderedDiagnostic>,
    pub n_resources: usize,
    pub duration: Duration,
}

#[derive(Debug, Clone)]
pub struct RenderedDiagnostic {
    pub json: serde_json::Value,
    pub plain: String,
    pub colored: String,
}

/// A run of a resource that ended.
#[derive(Debug, Clone)]
pub struct ResourceDone {
    pub resource_id: ResourceId,
    pub version: VersionNumber,
    pub status: ResourceStatus,
    pub change: Change,
    /// attribute → {current, desired}
    pub changes: BTreeMap<String, serde_json::Value>,
    pub reason: String,
    /// The last error or warning of the run.
    pub message: Option<String>,
    pub duration: Duration,
}

/// The whole model after a round of work. The five counts add up to `total`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Counts the rounds of work since the engine started.
    pub round: u64,
    pub version: VersionNumber,
    pub total: usize,
    /// Changed in this round, and as they shall be now.
    pub deployed: usize,
    /// Resources that were as they shall be, without a change in this round.
    pub unchanged: usize,
    pub failed: usize,
    /// They differ, and are only reported.
    pub reported: usize,
    pub skipped: usize,
    /// Wait for a value that is not known.
    pub undefined: usize,
    /// Runs of handlers in this round.
    pub n_runs: usize,
    pub duration: Duration,
}

impl Summary {
    pub fn is_good(&self) -> bool {
        self.failed + self.reported + self.skipped + self.undefined == 0
    }
}

/// Where events go. All listeners share an event; the places of the events on their way are there from the beginning, so
/// they are small.
#[derive(Debug, Clone)]
pub struct Bus(broadcast::Sender<Arc<Event>>);

impl Default for Bus {
    fn default() -> Self {
        // A burst of resources of a large model fits; a slower listener gets the number that it missed.
        Self(broadcast::channel(16_384).0)
    }
}

impl Bus {
    pub fn emit(&self, environment: EnvironmentId, what: EventKind) {
        // Nobody listening is fine.
        let _ = self.0.send(Arc::new(Event { environment, what }));
    }

    pub fn listen(&self) -> broadcast::Receiver<Arc<Event>> {
        self.0.subscribe()
    }
}
