//! A resource in the schedule: what it is, where it stands, and what its state says about the next run.

use std::sync::Arc;
use std::time::Duration;

use super::{Ended, Index, Priority, RetryPolicy, Schedule};
use crate::deploy::Intent;
use crate::domain::{
    ActionId, Blocked, HandlerStatus, LastRun, ResourceStatus, Timestamp, VersionNumber,
};
use crate::store::ResourceState;

#[derive(Debug)]
pub(super) struct ScheduledResource {
    pub(super) intent: Arc<Intent>,
    pub(super) requires: Vec<Index>,
    pub(super) provides: Vec<Index>,
    pub(super) state: ResourceState,
    pub(super) phase: Phase,
    /// Those that wait for this one to be done.
    pub(super) waiters: Vec<Index>,
    pub(super) timer: Option<(Timestamp, Priority)>,
    /// Start of the last run that changed something.
    pub(super) last_change: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Queued {
        priority: Priority,
        sequence: u64,
        reason: String,
        parked: bool,
    },
    Running {
        hash: String,
        action: ActionId,
        priority: Priority,
        again: Option<(Priority, String)>,
    },
}

impl ScheduledResource {
    /// Source: docs/reference/deployment.md § 4.2 "Dirty".
    pub(super) fn is_dirty(&self) -> bool {
        let state = &self.state;
        state.blocked == Blocked::NotBlocked
            && (state.deployed_hash.as_deref() != Some(&state.intent_hash)
                || matches!(
                    state.last_run,
                    LastRun::New | LastRun::Failed | LastRun::Skipped
                ))
    }

    /// Some dependency ran after our last success, and its event was not worked off before a restart.
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

    /// It will run, or is running for what it shall be now: those that require it wait.
    pub(super) fn is_scheduled(&self) -> bool {
        match &self.phase {
            Phase::Idle => false,
            Phase::Queued { .. } => true,
            Phase::Running { hash, again, .. } => {
                *hash == self.intent.attribute_hash || again.is_some()
            }
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

    /// `None`: it is not tried again by itself.
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
            self.last_change = Some(ended.started);
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
        last_status: ResourceStatus::Available,
        n_failures: 0,
    }
}
