//! Taking over a version. It costs what the version changed and what is near that in the graph, not
//! what the model has: a release of ten changed resources among a million is done at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::Phase;
use super::{Activation, Index, Priority, Schedule};
use crate::deploy::Intent;
use crate::domain::{Blocked, ResourceId, Timestamp, VersionNumber};

/// What a version touches.
#[derive(Default)]
struct Touched {
    /// New, or with another intent: they are scheduled.
    fresh: Vec<Index>,
    /// Their states are written.
    states: BTreeSet<Index>,
    /// What they require may be another: requires of their own, or one that left and came back.
    links: BTreeSet<Index>,
}

impl Schedule {
    /// Takes over a version: `changed` are the resources that are new or differ, `removed` the ids
    /// that left. An id that is in both left and came back. New and changed resources are scheduled
    /// unless they are blocked, and so are those that were blocked until now and never ran for what
    /// they shall be, or missed events. Returns what the store has to write.
    pub fn apply(
        &mut self,
        version: VersionNumber,
        changed: Vec<Intent>,
        removed: &[ResourceId],
        now: Timestamp,
    ) -> Activation {
        self.version = version;
        let mut activation = Activation::default();
        let mut touched = Touched::default();
        for id in removed {
            if let Some(dependents) = self.remove(id) {
                activation.removed.push(id.clone());
                touched.links.extend(dependents);
            }
        }
        let mut agents = BTreeSet::new();
        for intent in changed {
            match self.by_id.get(&intent.resource_id).copied() {
                None => {
                    activation.n_new += 1;
                    agents.insert(intent.agent.clone());
                    let index = self.insert(intent);
                    touched.fresh.push(index);
                    touched.states.insert(index);
                }
                Some(index) => {
                    if self.replace_intent(index, intent) {
                        activation.n_updated += 1;
                        touched.fresh.push(index);
                    }
                    touched.states.insert(index);
                }
            }
        }
        touched.links.extend(&touched.states);
        self.relink(&mut touched);
        self.schedule_touched(&touched, now);
        let states = touched.states.iter();
        activation.changed = states
            .map(|index| self.entry(*index).state.clone())
            .collect();
        activation.agents = agents.into_iter().collect();
        activation
    }

    /// Gives a resource the intent of a new version; `true`: it shall be something else than before.
    fn replace_intent(&mut self, index: Index, intent: Intent) -> bool {
        let entry = self.entry_mut(index);
        let is_new = entry.intent.attribute_hash != intent.attribute_hash
            || entry.intent.is_undefined != intent.is_undefined;
        entry.state.intent_hash = intent.attribute_hash.clone();
        entry.state.is_undefined = intent.is_undefined;
        entry.intent = Arc::new(intent);
        if is_new {
            entry.state.n_failures = 0;
            if entry.state.blocked == Blocked::TemporarilyBlocked {
                entry.state.blocked = Blocked::NotBlocked;
            }
        }
        is_new
    }

    /// Makes the graph anew around what was touched, and with it what is blocked.
    fn relink(&mut self, touched: &mut Touched) {
        // Of those that required something that left, some have left, too.
        touched
            .links
            .retain(|index| self.entries[index.0 as usize].is_some());
        for &index in &touched.links {
            self.link(index);
        }
        for &index in &touched.links {
            self.unpark(index);
            // It waited for the recovery of something that it does not require any more, or that is new.
            let entry = self.entry(index);
            if entry.state.blocked == Blocked::TemporarilyBlocked && !self.has_bad_dependency(index)
            {
                self.entry_mut(index).state.blocked = Blocked::NotBlocked;
                touched.fresh.push(index);
                touched.states.insert(index);
            }
        }
        let links: Vec<Index> = touched.links.iter().copied().collect();
        for (index, before) in self.propagate_blocked(&links) {
            touched.states.insert(index);
            // What waited for a value of a dependency runs now, if it never did for what it shall be, or if events came
            // meanwhile: what is blocked gets none, and one that waited in its queue left it.
            let entry = self.entry(index);
            if before == Blocked::Blocked && (entry.is_dirty() || entry.has_outstanding_event(self))
            {
                touched.fresh.push(index);
            }
        }
    }

    fn schedule_touched(&mut self, touched: &Touched, now: Timestamp) {
        let reason: Arc<str> = "a new version was released".into();
        for &index in &touched.fresh {
            if self.entry(index).state.blocked != Blocked::Blocked {
                self.enqueue(index, Priority::NewVersion, Arc::clone(&reason), false);
            }
        }
        for &index in &touched.states {
            if self.entry(index).state.blocked == Blocked::Blocked {
                self.unqueue(index);
            }
            if matches!(self.entry(index).phase, Phase::Idle) {
                self.set_timer(index, now);
            }
            self.recount(index);
        }
    }
}
