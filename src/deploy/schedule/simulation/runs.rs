//! What starts and ends in a life, what is written of it, and what a kill leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;

use super::super::{Dependency, Ended, Priority, Run, Schedule, Start};
use super::life::{Held, Life, Pace, Write, agents, has_missed_event, is_dirty};
use super::naive::{Naive, Started};
use crate::domain::{
    ActionId, Blocked, HandlerStatus, LastRun, ResourceId, ResourceStatus, Timestamp,
};
use crate::store::ResourceState;

impl Life {
    /// Starts what may start.
    pub(super) fn start(&mut self) {
        if self.halted {
            return;
        }
        self.apply_room();
        // As many calls as it takes: whatever one leaves, the next ones bring.
        let mut starts = Vec::new();
        loop {
            let most = self.random.random_range(1..5);
            let some = self.schedule.take(most);
            assert!(some.len() <= most);
            if some.is_empty() {
                break;
            }
            starts.extend(some);
        }
        for start in starts {
            let run = match start {
                Start::Deploy(run) => run,
                Start::Task(action) => {
                    self.start_task(action);
                    continue;
                }
            };
            self.check_start(&run);
            if self.naive.n_running(&run.intent.agent) > 0 {
                self.seen.note("several at once");
            }
            let (priority, _) = self.naive.queue.remove(&run.intent.resource_id).unwrap();
            self.begin(run, priority);
            self.seen.note("run");
        }
        let active: Vec<_> = agents().filter(|agent| !self.is_still(agent)).collect();
        for agent in active {
            let is_free = self.naive.n_running(&agent) == 0;
            let waits = self.naive.next_of(&agent).filter(|_| is_free);
            if waits.is_some() && !self.has_room(&agent) {
                self.seen.note("no room");
                continue;
            }
            assert_eq!(waits, None, "{agent} has work and does nothing");
        }
        self.check();
        if self.held.is_empty() && self.naive.running_tasks.is_empty() {
            self.check_rest();
        }
    }

    fn begin(&mut self, run: Run, priority: Priority) {
        let id = run.intent.resource_id.clone();
        let started = Started {
            action: run.action,
            hash: run.intent.attribute_hash.clone(),
            priority,
            again: None,
        };
        self.naive.running.insert(id.clone(), started);
        self.unwritten.push(Write::Start(run.action, id, self.now));
        self.held.push(Held {
            run,
            started: self.now,
        });
    }

    /// After a start of the server, an agent on another machine says that it is still at a run.
    fn take_up(&mut self, run: &Run) {
        let (id, agent) = (&run.intent.resource_id, &run.intent.agent);
        let intent = self.naive.model.get(id);
        if intent.is_none_or(|intent| intent.attribute_hash != run.intent.attribute_hash) {
            return;
        }
        let of_others = self.naive.orphans.values();
        let mut of_others = of_others.chain(self.naive.running_tasks.values());
        let is_expected = !self.naive.is_blocked(id)
            && !self.naive.running.contains_key(id)
            && !of_others.any(|of| of == agent);
        let adopted = self.schedule.adopt(id, run.action);
        assert_eq!(adopted.is_some(), is_expected, "{id} is taken up");
        if let Some(run) = adopted {
            // It has begun already, so nothing that waits is less urgent.
            self.naive.queue.remove(id);
            self.begin(run, Priority::NewVersion);
            self.seen.note("taken up");
        }
    }

    /// What the length of a run says of the next ones.
    fn measure(&mut self, run: &Run, started: Timestamp) {
        if !self.is_measured {
            return;
        }
        self.schedule.measured(&run.intent, started, self.now);
        let pace = self.pace.entry(run.intent.agent.clone()).or_insert(Pace {
            last_end: Timestamp(0),
            quick: None,
            n_ahead: 1,
        });
        let took = self.now.since(started.max(pace.last_end));
        pace.last_end = self.now;
        if took > Duration::from_millis(1) {
            (pace.quick, pace.n_ahead) = (None, 1);
        } else {
            pace.quick = Some(run.intent.resource_type.clone());
            pace.n_ahead = (pace.n_ahead * 2).min(32);
        }
    }

    pub(super) fn start_task(&mut self, action: ActionId) {
        let (agent, priority, request) = self.naive.tasks[&action].clone();
        self.check_agent(&agent, (priority, request), None);
        self.naive.tasks.remove(&action);
        self.naive.running_tasks.insert(action, agent);
        self.seen.note("task");
    }

    pub(super) fn end_some(&mut self) {
        if self.random.random_bool(0.7)
            && let Some((action, _)) = self.naive.running_tasks.pop_first()
        {
            self.schedule.task_finished(action);
        }
        for _ in 0..self.random.random_range(0..if self.healed { 4 } else { 2 }) {
            if self.held.is_empty() {
                return;
            }
            let held = self
                .held
                .remove(self.random.random_range(0..self.held.len()));
            self.now = Timestamp(self.now.0 + 1);
            self.end(held);
            self.check();
        }
        if self.random.random_bool(0.3) {
            self.write();
        }
    }

    pub(super) fn outcome(&mut self, run: &Run) -> HandlerStatus {
        let is_bad = |one: &Dependency| one.status != ResourceStatus::Deployed;
        if run.requires.iter().any(is_bad) {
            return HandlerStatus::SkippedForDependency;
        }
        if self.healed {
            return HandlerStatus::Deployed;
        }
        match self.random.random_range(0..20) {
            0..12 => HandlerStatus::Deployed,
            12..15 => HandlerStatus::Failed,
            15 => HandlerStatus::Unavailable,
            16 => HandlerStatus::Skipped,
            17 => HandlerStatus::SkippedForDependency,
            _ => HandlerStatus::NonCompliant,
        }
    }

    pub(super) fn end(&mut self, held: Held) {
        let Held { run, started } = held;
        let status = self.outcome(&run);
        let ended = Ended {
            status,
            changed: self.random.random_bool(0.3),
            started,
            finished: self.now,
        };
        let id = &run.intent.resource_id;
        let states = self.states();
        let state = self.schedule.finished(id, run.action, ended, self.now);
        self.measure(&run, started);
        self.unwritten.push(Write::End(
            run.action,
            id.clone(),
            state.clone().map(Box::new),
        ));
        if self.naive.orphans.remove(&run.action).is_some() {
            self.seen.note("run of an orphan");
            assert_eq!(
                state, None,
                "a run of what left the model says nothing of what is in it"
            );
            let now = self.states();
            assert_eq!(states, now);
            return;
        }
        let started = self.naive.running.remove(id).expect("it was started");
        let is_stale = started.hash != self.naive.model[id].attribute_hash;
        self.check_end(&states[id], &state.expect("a state"), ended, is_stale);
        self.naive.request += 1;
        self.notify(id, &states, ended, started.priority, is_stale);
        if self.naive.is_blocked(id) {
            return;
        }
        if let Some(again) = started.again {
            self.seen.note("ran again");
            self.naive.want(id, again, false);
        } else if is_stale {
            self.naive.want(id, Priority::NewVersion, false);
        }
    }

    /// What the end of a run means for those that require the resource.
    pub(super) fn notify(
        &mut self,
        id: &ResourceId,
        states: &BTreeMap<ResourceId, ResourceState>,
        ended: Ended,
        priority: Priority,
        is_stale: bool,
    ) {
        let recovered =
            ended.status == HandlerStatus::Deployed && states[id].last_run_compliant == Some(false);
        let sends = self.naive.model[id].send_event && !is_stale;
        for dependent in self.naive.dependents(id) {
            let waits = states[&dependent].blocked == Blocked::TemporarilyBlocked;
            let receives =
                self.naive.model[&dependent].receive_events && !self.naive.is_blocked(&dependent);
            if recovered && waits {
                self.seen.note("recovery");
            } else if sends && receives && !waits {
                self.seen.note("event");
            } else {
                continue;
            }
            self.naive.want(&dependent, priority, true);
        }
    }

    /// One transaction.
    pub(super) fn write(&mut self) {
        for write in self.unwritten.drain(..) {
            match write {
                Write::Start(action, id, started) => {
                    if let Some(state) = self.stored.states.get_mut(&id) {
                        state.is_deploying = true;
                    }
                    self.stored.open.insert(action, (id, started));
                }
                Write::End(action, id, state) => {
                    self.stored.open.remove(&action);
                    if let Some(state) = state {
                        self.stored.states.insert(id, *state);
                    }
                }
            }
        }
    }

    /// kill -9, and a start: what is not stored never was.
    pub(super) fn kill(&mut self) {
        self.seen.note("kill");
        if self
            .unwritten
            .iter()
            .any(|write| matches!(write, Write::End(..)))
        {
            self.seen.note("result lost");
        }
        self.unwritten.clear();
        self.pace.clear();
        let held = std::mem::take(&mut self.held);
        let carried: Vec<Held> = held
            .into_iter()
            .filter(|_| self.random.random_bool(0.3))
            .collect();
        let open = std::mem::take(&mut self.stored.open);
        let begun = |id: &ResourceId| {
            let of_it = open.values().filter(|(one, _)| one == id);
            of_it.map(|(_, started)| *started).max()
        };
        let states = self.stored.states.iter_mut();
        for (id, state) in states.filter(|(_, state)| state.is_deploying) {
            self.seen.note("run cut off");
            // It may have changed something.
            state.last_change = begun(id).or(state.last_change);
            state.is_deploying = false;
            (state.last_run, state.last_status) = (LastRun::Failed, ResourceStatus::Unavailable);
            state.last_run_compliant = Some(false);
        }
        let stored = &self.stored;
        self.schedule = Schedule::restore(
            stored.version,
            stored.model.values().cloned().collect(),
            stored.states.values().cloned().collect(),
            self.schedule.policy.clone(),
            self.paused.iter().cloned(),
            self.now,
        );
        self.naive = Naive {
            model: stored.model.clone(),
            ..Naive::default()
        };
        for (id, intent) in &stored.model {
            let state = &stored.states[id];
            let is_free = ResourceState {
                blocked: Blocked::NotBlocked,
                ..state.clone()
            };
            if self.naive.is_blocked(id) {
                continue;
            }
            let has_event = has_missed_event(intent, state, &stored.model, &stored.states);
            if is_dirty(&is_free) || has_event {
                self.seen.note(if is_dirty(&is_free) {
                    "dirty at a start"
                } else {
                    "outstanding event"
                });
                self.naive.want(id, Priority::IntervalDeploy, false);
            }
        }
        for agent in &self.away {
            self.schedule.set_away(agent, true);
        }
        for held in carried {
            self.take_up(&held.run);
        }
    }
}
