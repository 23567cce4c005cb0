//! Touches what the next steps will read, so that the processor fetches it together.
//!
//! In a large model nearly every step begins with memory that is not in the cache, and waits some
//! 100 ns for it: for the task, then for the variable that the task names, then for the one behind
//! that proxy. A step can not do anything about it, since each address comes out of the read
//! before. But the reads of *different* steps do not depend on one another, and a processor has ten
//! and more of them under way at a time. So once in [`PREFETCHED_STEPS`] steps this goes over the
//! next ones in passes, each of which waits about once:
//!
//! ```text
//! one by one    task 1 … variable 1 … target 1 … task 2 … variable 2 … target 2 …     (… is a wait)
//! in passes     tasks 1 to 16 … variables 1 to 16 … targets 1 to 16 … then 16 steps without a wait
//! ```
//!
//! The values read are added up and given to `black_box`, because the compiler would leave out
//! reads without a use.
//!
//! The invariant is easy to keep: nothing is changed here, and no step relies on it. One that looks
//! different when its turn comes only finds less in the cache. In tiles it is not done: there,
//! reads count as uses, and all is in the cache.

use std::hint::black_box;

use crate::runtime::{InstId, Machine, ModelState, Step, TaskId, VarId};

/// Steps whose memory is fetched together: about as many reads as a processor has under way.
pub const PREFETCHED_STEPS: usize = 16;

/// With fewer variables (4 MiB of them) all is in the cache.
const LARGE: usize = 1 << 19;

impl ModelState<'_> {
    fn is_small(&self) -> bool {
        self.vars.len() < LARGE
    }

    /// Brings a variable into the cache by reading it; the result is of no use but to be added up.
    fn prefetch_variable(&self, id: VarId) -> usize {
        self.vars
            .get(id.index())
            .map_or(0, |var| usize::from(var.is_ready()))
    }

    /// Reads some of an instance's variables: most instances have theirs in two or three lines of
    /// the cache.
    fn prefetch_slots(&self, id: InstId) -> usize {
        let first = self.instance(id).slots.0;
        self.prefetch_variable(VarId(first))
            + self.prefetch_variable(VarId(first + 8))
            + self.prefetch_variable(VarId(first + 16))
    }

    /// Fetches what the export will read of its next instances.
    pub fn prefetch_instances(&self, next: impl Iterator<Item = InstId> + Clone) {
        if self.is_small() {
            return;
        }
        let mut sum = 0usize;
        for id in next.clone() {
            sum += self.instance(id).slots.index();
        }
        for id in next {
            sum += self.prefetch_slots(id);
        }
        black_box(sum);
    }
}

impl Machine<'_> {
    /// Fetches what the next steps will read, in three passes. In tiles everything is in the cache.
    pub(in crate::runtime) fn prefetch(&self) {
        if self.state.is_small() || self.state.vars.is_in_tiles() {
            return;
        }
        let next = self.scheduler.ready.next(PREFETCHED_STEPS);
        let mut sum = 0usize;
        for step in next {
            sum += match *step {
                Step::Task(task) => self.scheduler.task(task).pending.missing() as usize,
                Step::Direct { ref action, .. } => {
                    let scope = self.state.scopes.get(action.scope().index());
                    let used = action
                        .variable()
                        .map_or(0, |id| self.state.prefetch_variable(id));
                    used + scope.map_or(0, |scope| scope.base.index())
                }
                Step::Constants { instance, .. } | Step::Implement { instance, .. } => {
                    self.state.instance(instance).slots.index()
                }
            };
        }
        for step in next {
            let action = match step {
                Step::Task(task) => {
                    let task = self.scheduler.task(*task);
                    for need in &task.dependencies {
                        sum += self.state.prefetch_variable(*need);
                    }
                    &task.action
                }
                Step::Direct {
                    requeue_count: 0,
                    action,
                } => action,
                Step::Direct { .. } => continue,
                Step::Constants { instance, .. } | Step::Implement { instance, .. } => {
                    sum += self.state.prefetch_slots(*instance);
                    continue;
                }
            };
            if let Some(scope) = self.state.scopes.get(action.scope().index()) {
                sum += self.state.prefetch_variable(scope.base);
                if let Some(instance) = self.state.instances.get(scope.instance.index()) {
                    sum += instance.slots.index();
                }
            }
        }
        for step in next {
            let action = match step {
                Step::Task(task) => {
                    let task = self.scheduler.task(*task);
                    for need in &task.dependencies {
                        if let Some(target) = self.state.var(*need).target() {
                            sum += self.state.prefetch_variable(target);
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
            if let Some(scope) = self.state.scopes.get(action.scope().index())
                && scope.instance.is_some()
            {
                sum += self.state.prefetch_slots(scope.instance);
            }
        }
        black_box(sum);
    }

    /// Fetches what freezing the next of the wait queue will read: the variables, what is known of
    /// them, and the tasks that wait.
    pub(in crate::runtime) fn prefetch_waiting(&self) {
        if self.state.is_small() {
            return;
        }
        let mut sum = 0usize;
        let next = self.scheduler.queue.next(PREFETCHED_STEPS);
        for id in next.clone() {
            sum += self.state.prefetch_variable(id);
        }
        let delayed = next.filter_map(|id| self.state.delayed(id));
        for delayed in delayed.clone() {
            sum += delayed.open as usize;
        }
        let last = delayed.filter_map(|delayed| self.state.cell(delayed.chain.tail));
        for (_, first) in last.clone() {
            sum += first as usize;
        }
        let first = last.filter_map(|(_, first)| self.state.cell(first));
        for (task, _) in first.clone() {
            sum += task as usize;
        }
        let tasks = first.filter_map(|(task, _)| self.scheduler.known_task(TaskId(task)));
        for task in tasks.clone() {
            sum += task.pending.missing() as usize;
        }
        let scopes = tasks.filter_map(|task| self.state.scopes.get(task.action.scope().index()));
        for scope in scopes {
            sum += scope.base.index();
        }
        black_box(sum);
    }
}
