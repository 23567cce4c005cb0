//! The resources of a version and what they require: entering, leaving, and what is blocked with
//! what.
//!
//! There are two ways to be blocked. *Blocked* is a resource with an attribute that is not known
//! yet, and all that requires it, directly or not: none of them can be deployed before a new
//! version. *Temporarily blocked* is one that its handler skipped because a dependency is not good;
//! it goes on when that dependency recovers, or is no longer required.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::{Phase, ScheduledResource, new_state};
use super::{Index, Schedule};
use crate::deploy::Intent;
use crate::domain::{Blocked, ResourceId};
use crate::store::ResourceState;

impl Schedule {
    /// Enters a resource with the state that the store has of it, if any. It is not linked with
    /// others yet: see [`Schedule::link_all`].
    pub(super) fn insert(&mut self, intent: Intent, state: Option<ResourceState>) -> Index {
        let index = Index(u32::try_from(self.entries.len()).expect("fewer than 2^32 resources"));
        let mut state = state.unwrap_or_else(|| new_state(&intent));
        state.intent_hash.clone_from(&intent.attribute_hash);
        state.is_undefined = intent.is_undefined;
        state.is_deploying = false;
        self.by_id.insert(intent.resource_id.clone(), index);
        self.queues.entry(intent.agent.clone()).or_default();
        self.entries.push(Some(ScheduledResource {
            intent: Arc::new(intent),
            requires: Vec::new(),
            provides: Vec::new(),
            state,
            phase: Phase::Idle,
            waiters: Vec::new(),
            timer: None,
            last_change: None,
        }));
        index
    }

    pub(super) fn remove(&mut self, id: &ResourceId) -> bool {
        let Some(index) = self.by_id.get(id).copied() else {
            return false;
        };
        self.stop_timer(index);
        self.unqueue(index);
        if let Phase::Running { action, .. } = &self.entry(index).phase {
            let action = *action;
            self.orphans
                .insert(action, self.entry(index).intent.agent.clone());
        }
        self.unpark_waiters(index);
        for require in self.entry(index).requires.clone() {
            if let Some(entry) = self.entries[require.0 as usize].as_mut() {
                entry.waiters.retain(|waiter| *waiter != index);
            }
        }
        self.by_id.remove(id);
        self.entries[index.0 as usize] = None;
        true
    }

    /// Resolves what resources require to indices, both ways. An unknown id cannot come from the
    /// store; it is left out.
    pub(super) fn link_all(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            entry.provides.clear();
        }
        for slot in 0..self.entries.len() {
            let Some(entry) = &self.entries[slot] else {
                continue;
            };
            let requires: Vec<Index> = entry
                .intent
                .requires
                .iter()
                .filter_map(|id| self.by_id.get(id).copied())
                .collect();
            for require in &requires {
                self.entry_mut(*require).provides.push(Index(slot as u32));
            }
            self.entry_mut(Index(slot as u32)).requires = requires;
        }
    }

    /// Marks as blocked what is undefined or has an undefined ancestor, and frees what has none any
    /// more. Source: docs/reference/deployment.md § 4.6.
    pub(super) fn propagate_blocked(&mut self) {
        let mut blocked: BTreeSet<Index> = BTreeSet::new();
        let mut queue: Vec<Index> = self
            .indices()
            .into_iter()
            .filter(|index| self.entry(*index).state.is_undefined)
            .collect();
        while let Some(index) = queue.pop() {
            if blocked.insert(index) {
                queue.extend(self.entry(index).provides.iter().copied());
            }
        }
        for index in self.indices() {
            let state = &mut self.entry_mut(index).state;
            if blocked.contains(&index) {
                state.blocked = Blocked::Blocked;
            } else if state.blocked == Blocked::Blocked {
                state.blocked = Blocked::NotBlocked;
            }
        }
    }

    /// Frees those of `touched` that waited for the recovery of something that they no longer
    /// require; they are added to `fresh`, which is scheduled.
    pub(super) fn free_temporarily_blocked_without_bad_dependency(
        &mut self,
        touched: &BTreeSet<Index>,
        fresh: &mut Vec<Index>,
    ) {
        for &index in touched {
            if self.entry(index).state.blocked != Blocked::TemporarilyBlocked {
                continue;
            }
            if !self.has_bad_dependency(index) {
                self.entry_mut(index).state.blocked = Blocked::NotBlocked;
                fresh.push(index);
            }
        }
    }

    /// Whether the last run of something that it requires directly left that not as it should be.
    pub(super) fn has_bad_dependency(&self, index: Index) -> bool {
        let bad = |require: &Index| self.entry(*require).state.last_run_compliant == Some(false);
        self.entry(index).requires.iter().any(bad)
    }
}
