//! When resources run by themselves. Source: docs/reference/deployment.md § 4.8.

use std::time::Duration;

use super::entry::Phase;
use super::{Index, Priority, RetryPolicy, Schedule};
use crate::domain::{Blocked, ResourceId, Timestamp};
use crate::store::ResourceState;

impl Schedule {
    /// When [`Schedule::tick`] has something to do next; `None`: no timer is set.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Takes over new interval settings: the timers of all idle resources are planned anew.
    pub fn set_policy(&mut self, policy: RetryPolicy, now: Timestamp) {
        if policy == self.policy {
            return;
        }
        self.policy = policy;
        self.plan_anew(now);
    }

    fn plan_anew(&mut self, now: Timestamp) {
        for index in self.indices() {
            if matches!(self.entry(index).phase, Phase::Idle) {
                self.set_timer(index, now);
            }
        }
    }

    /// Puts resources whose timers are due into their queues.
    ///
    /// Times are those of the wall clock, which outlives a restart and may step back: the clock of a machine that ran ahead is
    /// set right, or a virtual machine is resumed. What was planned by the earlier time would then be late by the whole step.
    pub fn tick(&mut self, now: Timestamp) {
        if self.ticked.replace(now).is_some_and(|before| now < before) {
            self.set_back(now);
            self.plan_anew(now);
        }
        while let Some(&(due, index)) = self.timers.first() {
            if due > now {
                break;
            }
            self.timers.remove(&(due, index));
            let Some((_, priority)) = self.entry_mut(index).timer.take() else {
                continue;
            };
            let last = self.entry(index).state.last_run_at;
            let kind = if priority == Priority::IntervalDeploy {
                "deploy"
            } else {
                "repair"
            };
            let ago = last.map(|last| now.since(last));
            let reason = match ago {
                None => format!("no {kind} happened before"),
                Some(ago) if ago < Duration::from_secs(1) => {
                    let tenths = ago.as_millis() / 100;
                    format!("previous {kind} happened more than 0.{tenths}s ago")
                }
                Some(ago) => format!("previous {kind} happened more than {}s ago", ago.as_secs()),
            };
            self.enqueue(index, priority, reason.into(), false);
        }
    }

    /// Moves what happened at times that are still to come, by a clock that has been set back since, into the past, all by as much:
    /// then a change that is made now is later than the last success of those that shall be reloaded for it.
    pub(super) fn set_back(&mut self, now: Timestamp) {
        let times =
            |state: &ResourceState| [state.last_success, state.last_change, state.last_events];
        let latest = self.states().flat_map(times).flatten().max();
        let Some(latest) = latest.filter(|latest| *latest > now) else {
            return;
        };
        let by = latest.0.saturating_sub(now.0);
        for index in self.indices() {
            let state = &mut self.entry_mut(index).state;
            let times = [
                &mut state.last_success,
                &mut state.last_change,
                &mut state.last_events,
            ];
            for time in times.into_iter().flatten().filter(|time| **time > now) {
                *time = Timestamp(time.0.saturating_sub(by));
            }
        }
    }

    /// Plans when an idle resource runs by itself: the earlier of its retry, if it is dirty or
    /// reported, and its repair, counted from its last run. A blocked one is not planned.
    pub(super) fn set_timer(&mut self, index: Index, now: Timestamp) {
        self.stop_timer(index);
        let timer = self.timer_of(index, now);
        if let Some((due, _)) = timer {
            self.timers.insert((due, index));
            self.entry_mut(index).timer = timer;
        }
    }

    /// When an idle resource runs by itself, and with which priority.
    pub(super) fn timer_of(&self, index: Index, now: Timestamp) -> Option<(Timestamp, Priority)> {
        let entry = self.entry(index);
        if entry.state.blocked == Blocked::Blocked {
            return None;
        }
        // A run in the future was by a clock that has been set back since.
        let last = entry.state.last_run_at.map_or(now, |last| last.min(now));
        let early = |every: Duration| shortened(every, &entry.intent.resource_id, &self.policy);
        let repair = self.policy.repair.map(early);
        let retry = if entry.is_dirty() {
            entry.retry_delay(&self.policy)
        } else {
            // Nothing failed that could be tried again sooner.
            self.policy.deploy.filter(|_| entry.is_reported())
        };
        let retry = retry.map(early);
        let repair = repair.map(|every| (last.plus(every), Priority::IntervalRepair));
        let retry = retry.map(|delay| (last.plus(delay), Priority::IntervalDeploy));
        [retry, repair].into_iter().flatten().min()
    }

    /// Takes back what [`Schedule::set_timer`] planned.
    pub(super) fn stop_timer(&mut self, index: Index) {
        if let Some((due, _)) = self.entry_mut(index).timer.take() {
            self.timers.remove(&(due, index));
        }
    }
}

/// A time without the part of it by which this resource comes early. Resources that run together keep running together
/// if each waits equally long; an interval is what a user was promised at most, so none waits longer.
fn shortened(every: Duration, resource_id: &ResourceId, policy: &RetryPolicy) -> Duration {
    let most = every * policy.spread_percent.min(100) / 100;
    let share = f64::from(share_of(resource_id.as_str())) / f64::from(u32::MAX);
    every - most.mul_f64(share)
}

/// A number that is the same for a text at each start and on each machine, and spread evenly: FNV-1a, whose bits are
/// mixed once more, since ids that differ only at the end would otherwise get numbers that are near one another.
fn share_of(text: &str) -> u32 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = text.bytes().fold(OFFSET, mix);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (hash >> 32) as u32
}
