//! The resources of a version and what they require: entering, leaving, and what is blocked with
//! what.
//!
//! There are two ways to be blocked. *Blocked* is a resource with an attribute that is not known
//! yet, and all that requires it, directly or not: none of them can be deployed before a new
//! version. *Temporarily blocked* is one that its handler skipped because a dependency is not good;
//! it goes on when that dependency recovers, or is no longer required.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entry::{Phase, ScheduledResource, new_state};
use super::{Index, Schedule};
use crate::deploy::Intent;
use crate::domain::{Blocked, ResourceId};

impl Schedule {
    /// Enters a resource that never ran. It is not linked with others yet: see [`Schedule::link`].
    pub(super) fn insert(&mut self, intent: Intent) -> Index {
        let index = Index(u32::try_from(self.entries.len()).expect("fewer than 2^32 resources"));
        self.by_id.insert(intent.resource_id.clone(), index);
        let agent = self.agent(&intent.agent);
        self.add_type(agent, &intent.resource_type);
        self.entries.push(Some(ScheduledResource {
            state: new_state(&intent),
            intent: Arc::new(intent),
            agent,
            requires: Vec::new(),
            first_to_look_at: 0,
            provides: Vec::new(),
            phase: Phase::Idle,
            timer: None,
            counted: None,
        }));
        index
    }

    /// Takes a resource out; its run, if it has one, goes on as an orphan. Gives those that required
    /// it, which have to be linked anew (and go on, if they are parked); `None`: there is no such resource.
    pub(super) fn remove(&mut self, id: &ResourceId) -> Option<Vec<Index>> {
        let index = self.by_id.get(id).copied()?;
        self.stop_timer(index);
        self.unqueue(index);
        let entry = self.entry(index);
        if let Phase::Running(run) = &entry.phase {
            let (action, agent) = (run.action, entry.agent);
            self.orphans.insert(action, agent);
            self.run_orphaned(agent);
            self.running.remove(&index);
        }
        self.set_requires(index, Vec::new());
        self.uncount(index);
        self.by_id.remove(id);
        self.waiters.remove(&index);
        let entry = self.entries[index.0 as usize].take()?;
        self.remove_type(entry.agent, &entry.intent.resource_type);
        Some(entry.provides)
    }

    /// Resolves what a resource requires to indices, both ways. An unknown id cannot come from the
    /// store; it is left out.
    pub(super) fn link(&mut self, index: Index) {
        let ids = self.entry(index).intent.requires.iter();
        let mut requires: Vec<Index> = ids.filter_map(|id| self.by_id.get(id).copied()).collect();
        requires.sort_unstable();
        requires.dedup();
        self.set_requires(index, requires);
    }

    fn set_requires(&mut self, index: Index, requires: Vec<Index>) {
        let entry = self.entry_mut(index);
        entry.first_to_look_at = 0;
        for require in std::mem::replace(&mut entry.requires, requires.clone()) {
            let Some(required) = self.entries[require.0 as usize].as_mut() else {
                continue;
            };
            if let Ok(place) = required.provides.binary_search(&index) {
                required.provides.remove(place);
            }
        }
        for require in requires {
            let provides = &mut self.entry_mut(require).provides;
            if let Err(place) = provides.binary_search(&index) {
                provides.insert(place, index);
            }
        }
    }

    /// Marks as blocked what is undefined or has an undefined ancestor, and frees what has none any
    /// more, starting from `links`: those whose own values or requires are new. Gives what changed,
    /// and how it was before. Source: docs/reference/deployment.md § 4.6.
    ///
    /// First all that could be free now is taken for free: those of `links` that are blocked, and
    /// what is blocked behind them. Then, from what is undefined or requires something blocked among
    /// these, blocking goes down the graph again. Neither way goes beyond what is blocked before or
    /// afterwards.
    pub(super) fn propagate_blocked(&mut self, links: &[Index]) -> BTreeMap<Index, Blocked> {
        let mut before: BTreeMap<Index, Blocked> = BTreeMap::new();
        let mut queue: Vec<Index> = links.to_vec();
        while let Some(index) = queue.pop() {
            if self.entry(index).state.blocked == Blocked::Blocked {
                before.insert(index, Blocked::Blocked);
                self.entry_mut(index).state.blocked = Blocked::NotBlocked;
                queue.extend(&self.entry(index).provides);
            }
        }
        let candidates: BTreeSet<Index> = links.iter().chain(before.keys()).copied().collect();
        let mut queue: Vec<Index> = candidates
            .into_iter()
            .filter(|index| self.has_to_be_blocked(*index))
            .collect();
        while let Some(index) = queue.pop() {
            let entry = self.entry_mut(index);
            if entry.state.blocked != Blocked::Blocked {
                before.entry(index).or_insert(entry.state.blocked);
                entry.state.blocked = Blocked::Blocked;
                queue.extend(&self.entry(index).provides);
            }
        }
        before.retain(|index, before| self.entry(*index).state.blocked != *before);
        before
    }

    /// Whether a resource is undefined or requires directly what is blocked.
    fn has_to_be_blocked(&self, index: Index) -> bool {
        let entry = self.entry(index);
        let is_blocked = |one: &Index| self.entry(*one).state.blocked == Blocked::Blocked;
        entry.state.is_undefined || entry.requires.iter().any(is_blocked)
    }

    /// Whether the last run of something that it requires directly left that not as it should be.
    pub(super) fn has_bad_dependency(&self, index: Index) -> bool {
        let bad = |require: &Index| self.entry(*require).state.last_run_compliant == Some(false);
        self.entry(index).requires.iter().any(bad)
    }
}
