//! Touches what comes next. In a large model each step waits for memory, one time after the other; the reads here do not
//! depend on one another, so they wait together.

use std::hint::black_box;

use crate::runtime::{InstId, Machine, Step, VarId};

/// So many are touched together.
pub const PREFETCHED_STEPS: usize = 16;

/// With fewer variables all is in the cache.
const LARGE: usize = 1 << 19;

impl Machine<'_> {
    fn is_small(&self) -> bool {
        self.vars.len() < LARGE
    }

    /// What the next steps will read.
    pub(in crate::runtime) fn prefetch(&self) {
        if self.is_small() || self.vars.is_in_tiles() {
            return;
        }
        let next = self.ready.next(PREFETCHED_STEPS);
        let mut sum = 0usize;
        for step in next {
            sum += match *step {
                Step::Task(task) => self.tasks[task.index()].pending.missing() as usize,
                Step::Direct { ref action, .. } => {
                    let scope = self.scopes.get(action.scope().index());
                    let used = action.variable().map_or(0, |id| self.touch(id));
                    used + scope.map_or(0, |scope| scope.base.index())
                }
                Step::Constants { instance, .. } | Step::Implement { instance, .. } => {
                    self.instance(instance).slots.index()
                }
            };
        }
        for step in next {
            let action = match step {
                Step::Task(task) => {
                    let task = &self.tasks[task.index()];
                    for need in &task.dependencies {
                        sum += self.touch(*need);
                    }
                    &task.action
                }
                Step::Direct {
                    requeue_count: 0,
                    action,
                } => action,
                Step::Direct { .. } => continue,
                Step::Constants { instance, .. } | Step::Implement { instance, .. } => {
                    sum += self.touch_slots(*instance);
                    continue;
                }
            };
            if let Some(scope) = self.scopes.get(action.scope().index()) {
                sum += self.touch(scope.base);
                if let Some(instance) = self.instances.get(scope.instance.index()) {
                    sum += instance.slots.index();
                }
            }
        }
        for step in next {
            let action = match step {
                Step::Task(task) => {
                    let task = &self.tasks[task.index()];
                    for need in &task.dependencies {
                        if let Some(target) = self.var(*need).target() {
                            sum += self.touch(target);
                        }
                    }
                    &task.action
                }
                Step::Direct {
                    requeue_count: 0,
                    action,
                } => action,
                _ => continue,
            };
            if let Some(scope) = self.scopes.get(action.scope().index())
                && scope.instance.is_some()
            {
                sum += self.touch_slots(scope.instance);
            }
        }
        black_box(sum);
    }

    fn touch(&self, id: VarId) -> usize {
        self.vars
            .get(id.index())
            .map_or(0, |var| usize::from(var.is_ready()))
    }

    /// Most instances have slots in two or three lines of the cache.
    fn touch_slots(&self, id: InstId) -> usize {
        let first = self.instance(id).slots.0;
        self.touch(VarId(first)) + self.touch(VarId(first + 8)) + self.touch(VarId(first + 16))
    }

    /// What declaring the next of the wait queue complete will read.
    pub(in crate::runtime) fn warm_waiting(&self) {
        if self.is_small() {
            return;
        }
        let mut sum = 0usize;
        let next = self.queue.next(PREFETCHED_STEPS);
        for id in next.clone() {
            sum += self.touch(id);
        }
        let delayed = next.filter_map(|id| self.delayed(id));
        for delayed in delayed.clone() {
            sum += delayed.open as usize;
        }
        let last = delayed.filter_map(|delayed| self.cells.get(delayed.chain.tail as usize));
        for (_, first) in last.clone() {
            sum += *first as usize;
        }
        let first = last.filter_map(|(_, first)| self.cells.get(*first as usize));
        for (task, _) in first.clone() {
            sum += *task as usize;
        }
        let tasks = first.filter_map(|(task, _)| self.tasks.get(*task as usize));
        for task in tasks.clone() {
            sum += task.pending.missing() as usize;
        }
        let scopes = tasks.filter_map(|task| self.scopes.get(task.action.scope().index()));
        for scope in scopes {
            sum += scope.base.index();
        }
        black_box(sum);
    }

    /// What writing resources will read of their instances.
    pub fn warm_instances(&self, next: impl Iterator<Item = InstId> + Clone) {
        if self.is_small() {
            return;
        }
        let mut sum = 0usize;
        for id in next.clone() {
            sum += self.instance(id).slots.index();
        }
        for id in next {
            sum += self.touch_slots(id);
        }
        black_box(sum);
    }
}
