//! A resource in the schedule: what it is, where it stands, and what its state says about the next
//! run.

use std::sync::Arc;
use std::time::Duration;

use super::agents::AgentIndex;
use super::counts::Class;
use super::{Ended, Index, Priority, RetryPolicy, Schedule};
use crate::deploy::Intent;
use crate::domain::{
    ActionId, Blocked, HandlerStatus, LastRun, ResourceStatus, SharedText, Timestamp, VersionNumber,
};
use crate::store::ResourceState;

/// One resource of the version in force.
#[derive(Debug)]
pub(super) struct ScheduledResource {
    /// What it shall be.
    pub(super) intent: Arc<Intent>,
    pub(super) agent: AgentIndex,
    /// What it requires directly, sorted.
    pub(super) requires: Vec<Index>,
    /// Where in `requires` the search for a blocker begins.
    pub(super) first_to_look_at: usize,
    /// Those that require it directly, sorted.
    pub(super) provides: Vec<Index>,
    /// What the store knows of it now; see docs/reference/deployment.md § 3.1.
    pub(super) state: ResourceState,
    /// Where it is: idle, queued or running.
    pub(super) phase: Phase,
    /// When it runs by itself and with which priority; also in [`Schedule::timers`].
    pub(super) timer: Option<(Timestamp, Priority)>,
    /// As what it is in [`super::Counts`].
    pub(super) counted: Option<Class>,
}

/// Where a resource is in the schedule.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing is planned but the run of its timer, if it has one.
    Idle,
    /// It is in its agent's queue, or `parked` beside it until a dependency is done. `sequence` is
    /// the number of the request that gave it its priority.
    Queued {
        priority: Priority,
        sequence: u64,
        reason: Arc<str>,
        parked: bool,
    },
    /// A run is in progress. Of a million resources few are running, so it takes no room in the others.
    Running(Box<InProgress>),
}

/// A run that has begun.
#[derive(Debug)]
pub(super) struct InProgress {
    /// Of the intent that it is for.
    pub(super) hash: SharedText,
    pub(super) action: ActionId,
    /// That of the events that it sends; it rises with further requests.
    pub(super) priority: Priority,
    /// It runs once more after that, for this reason.
    pub(super) again: Option<(Priority, Arc<str>)>,
}

impl ScheduledResource {
    /// Whether a user deploy would run it: it is not blocked, and it never ran for what it shall
    /// be, or failed, or was skipped. Source: docs/reference/deployment.md § 4.2 "Dirty".
    pub(super) fn is_dirty(&self) -> bool {
        let state = &self.state;
        state.blocked == Blocked::NotBlocked
            && (state.deployed_hash.as_deref() != Some(&state.intent_hash)
                || matches!(
                    state.last_run,
                    LastRun::New | LastRun::Failed | LastRun::Skipped
                ))
    }

    /// Whether its last run was to report only, and found a difference: a user deploy leaves it alone, but the deploy
    /// interval has it looked at again. Source: docs/reference/deployment.md § 3.5.
    pub(super) fn is_reported(&self) -> bool {
        self.state.blocked == Blocked::NotBlocked
            && self.state.last_run == LastRun::Successful
            && self.state.last_run_compliant == Some(false)
    }

    /// Whether a dependency ran after this one's last success, and the event was not worked off: before a restart, or while
    /// this one was blocked.
    pub(super) fn has_outstanding_event(&self, schedule: &Schedule) -> bool {
        self.state.blocked == Blocked::NotBlocked
            && self.intent.receive_events
            && self
                .requires
                .iter()
                .map(|require| schedule.entry(*require))
                .any(|require| {
                    require.intent.send_event
                        && require.state.last_events.is_some_and(|events| {
                            self.state
                                .last_success
                                .is_none_or(|success| events > success)
                        })
                })
    }

    /// Whether it will run, or is running for what it shall be now: those that require it wait. A
    /// stale run without a successor does not count; its end schedules the next one.
    pub(super) fn is_scheduled(&self) -> bool {
        match &self.phase {
            Phase::Idle => false,
            Phase::Queued { .. } => true,
            Phase::Running(run) => run.hash == self.intent.attribute_hash || run.again.is_some(),
        }
    }

    /// Source: docs/reference/deployment.md § 3.3.
    pub(super) fn status_for_dependents(&self) -> ResourceStatus {
        if self.state.is_undefined {
            ResourceStatus::Undefined
        } else if self.state.blocked == Blocked::Blocked {
            ResourceStatus::SkippedForUndefined
        } else if self.state.last_run == LastRun::New
            || self.state.deployed_hash.as_deref() != Some(&self.state.intent_hash)
        {
            ResourceStatus::Available
        } else {
            self.state.last_status
        }
    }

    /// The time from its last run to the next attempt; `None`: it is not tried again by itself.
    pub(super) fn retry_delay(&self, policy: &RetryPolicy) -> Option<Duration> {
        let longest = policy.deploy?;
        if policy.backoff.is_zero() {
            return Some(longest);
        }
        let n_doublings = u32::try_from(self.state.n_failures.max(1) - 1)
            .unwrap_or(u32::MAX)
            .min(20);
        Some(policy.backoff.saturating_mul(1 << n_doublings).min(longest))
    }

    /// Source: docs/reference/deployment.md § 3.4, the rows "run ends".
    pub(super) fn record(&mut self, ended: &Ended, is_stale: bool, version: VersionNumber) {
        let state = &mut self.state;
        state.is_deploying = false;
        state.last_run = ended.status.last_run();
        state.last_run_at = Some(ended.finished);
        if ended.changed {
            state.last_change = Some(ended.started);
        }
        if is_stale {
            return;
        }
        state.deployed_hash = Some(state.intent_hash.clone());
        state.deployed_version = Some(version);
        state.last_run_compliant = Some(ended.status == HandlerStatus::Deployed);
        state.last_status = ended.status.legacy();
        state.last_events = Some(ended.finished);
        if ended.status == HandlerStatus::Deployed {
            state.last_success = Some(ended.started);
        }
        if matches!(
            ended.status,
            HandlerStatus::Deployed | HandlerStatus::NonCompliant
        ) {
            state.n_failures = 0;
            if state.blocked == Blocked::TemporarilyBlocked {
                state.blocked = Blocked::NotBlocked;
            }
        } else {
            state.n_failures += 1;
        }
    }
}

/// The state of a resource that never ran.
pub(super) fn new_state(intent: &Intent) -> ResourceState {
    ResourceState {
        resource_id: intent.resource_id.clone(),
        resource_type: intent.resource_type.clone(),
        agent: intent.agent.clone(),
        id_value: intent.id_value.clone(),
        created: intent.created,
        orphaned_after: None,
        is_undefined: intent.is_undefined,
        is_deploying: false,
        blocked: Blocked::NotBlocked,
        intent_hash: intent.attribute_hash.clone(),
        deployed_hash: None,
        deployed_version: None,
        last_run: LastRun::New,
        last_run_compliant: None,
        last_run_at: None,
        last_success: None,
        last_events: None,
        last_change: None,
        last_status: ResourceStatus::Available,
        n_failures: 0,
    }
}
