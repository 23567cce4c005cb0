//! The environments of the configuration that cannot run, and why each of them cannot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::App;
use crate::config::Refused;
use crate::domain::EnvironmentId;

/// The environments that cannot run.
#[derive(Clone, Default)]
pub(crate) struct RefusedEnvironments {
    entries: Arc<Mutex<Vec<Entry>>>,
    changed: Arc<Notify>,
}

#[derive(Clone)]
pub(crate) struct Entry {
    /// `None`: another environment has its name, or it has none that is good.
    pub environment: Option<EnvironmentId>,
    pub refused: Refused,
}

/// An environment that cannot run, for people.
#[derive(Debug, Clone)]
pub struct EnvironmentProblem {
    /// `None`: another environment has its name, or it has none that is good.
    pub environment: Option<EnvironmentId>,
    /// `project/name`.
    pub name: String,
    /// Of the configuration, such as `environments[0].repository`.
    pub field: String,
    pub message: String,
}

impl RefusedEnvironments {
    fn locked(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn list(&self) -> Vec<Entry> {
        self.locked().clone()
    }

    /// The entry whose declaration has this field is `now`, or is gone.
    pub(crate) fn set(&self, refused: &Refused, now: Option<Entry>) {
        let is_it = |entry: &Entry| {
            (
                &entry.refused.project,
                &entry.refused.name,
                entry.refused.is_named,
            ) == (&refused.project, &refused.name, refused.is_named)
        };
        let mut entries = self.locked();
        match (entries.iter().position(is_it), now) {
            (Some(at), Some(now)) => entries[at] = now,
            (Some(at), None) => drop(entries.remove(at)),
            (None, Some(now)) => entries.push(now),
            (None, None) => {}
        }
        drop(entries);
        self.changed.notify_one();
    }
}

impl App {
    /// The environments of the configuration that cannot run, and why.
    pub fn troubles(&self) -> Vec<EnvironmentProblem> {
        let trouble = |entry: Entry| EnvironmentProblem {
            environment: entry.environment,
            name: entry.refused.shown(),
            field: entry.refused.field,
            message: entry.refused.message,
        };
        self.refused.list().into_iter().map(trouble).collect()
    }

    /// Why an environment cannot run; `None`: it can.
    pub fn trouble(&self, id: EnvironmentId) -> Option<EnvironmentProblem> {
        let mut troubles = self.troubles().into_iter();
        troubles.find(|trouble| trouble.environment == Some(id))
    }

    /// Waits until the list of [`App::troubles`] may have changed. For one waiting task.
    pub async fn troubles_changed(&self) {
        self.refused.changed.notified().await;
    }
}
