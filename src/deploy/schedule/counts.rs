//! How many resources are how, kept up to date with each change: a round of work that concerned ten
//! resources of a million can say how all are without looking at them.

use super::{Index, Schedule};
use crate::domain::{Blocked, ResourceStatus};
use crate::store::ResourceState;

/// The resources of the version in force by what they are at rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Undefined, or with an undefined ancestor.
    pub undefined: usize,
    pub deployed: usize,
    /// Failed, or unavailable.
    pub failed: usize,
    /// They differ, and are only reported.
    pub reported: usize,
    /// Skipped, or not run yet.
    pub skipped: usize,
}

/// One of [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Undefined,
    Deployed,
    Failed,
    Reported,
    Skipped,
}

impl Class {
    fn of(state: &ResourceState) -> Self {
        if state.is_undefined || state.blocked == Blocked::Blocked {
            return Self::Undefined;
        }
        if state.deployed_hash.as_deref() != Some(&state.intent_hash) {
            return Self::Skipped;
        }
        match state.last_status {
            ResourceStatus::Deployed => Self::Deployed,
            ResourceStatus::Failed | ResourceStatus::Unavailable => Self::Failed,
            ResourceStatus::NonCompliant => Self::Reported,
            _ => Self::Skipped,
        }
    }
}

impl Counts {
    fn of(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Undefined => &mut self.undefined,
            Class::Deployed => &mut self.deployed,
            Class::Failed => &mut self.failed,
            Class::Reported => &mut self.reported,
            Class::Skipped => &mut self.skipped,
        }
    }
}

impl Schedule {
    /// To be called when the state of a resource is another.
    pub(super) fn recount(&mut self, index: Index) {
        let class = Class::of(&self.entry(index).state);
        self.uncount(index);
        self.entry_mut(index).counted = Some(class);
        *self.counts.of(class) += 1;
    }

    /// To be called when a resource leaves.
    pub(super) fn uncount(&mut self, index: Index) {
        if let Some(class) = self.entry_mut(index).counted.take() {
            *self.counts.of(class) -= 1;
        }
    }
}
