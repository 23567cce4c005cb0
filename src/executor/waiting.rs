//! Runs that are handed over and cannot begin yet.
//!
//! For whoever asks such a run is being deployed, since its agent does nothing else meanwhile. But what is wanted may change before
//! it begins; so it is asked again then.

use std::sync::Arc;

use crate::domain::Timestamp;
use crate::executor::agent_code::AgentCode;
use crate::executor::link::{Purpose, TaskResult};
use crate::executor::protocol::Task;

/// A run that has to wait.
#[derive(Debug)]
pub(super) struct WaitingRun {
    pub(super) task: Task,
    pub(super) code: Arc<AgentCode>,
}

/// What a run waits for that is given to no executor yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    pub since: Timestamp,
    pub awaited: Awaited,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// That the packages are installed which its handler requires.
    Packages,
    /// That its environment, or its agent, goes on: else it could begin.
    Permission,
    /// A connection to its machine, of which there are so many at once.
    Connection(usize),
}

/// What becomes of a run that could begin now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begin {
    Now,
    Later,
    /// It is of no use any more; why.
    Never(String),
}

/// The result of a run that was not begun.
pub(super) fn not_begun(task: &Task, why: String) -> TaskResult {
    let purpose = Purpose::from(&task.kind);
    TaskResult::unavailable(task.action, task.resource_id.clone(), purpose, why)
}
