//! Tasks, who waits for what, and how a task comes into the queue. Source:
//! docs/reference/language.md § 8.2, § 8.4.
//!
//! # From statement to step
//!
//! A task has an action and a list of variables that the action will read. When it is created, it
//! is appended to the waiters of each variable that has no value yet (`state/waiters.rs`), and
//! counts them. A variable that gets its value tells its waiters in the order in which they came;
//! each counts one down, and at zero the task goes to the end of the queue of steps. If nothing is
//! missing at the beginning, it goes there at once. When it has run, its place is used for another
//! one.
//!
//! A task is never run where it becomes ready, not even if it is the only one: it always goes to
//! the end of the queue. This is what makes the order of the whole run a matter of the queue only,
//! and keeps the machine from recursing as deeply as the model is.
//!
//! # Running again
//!
//! A task may find out while it runs that it needs more than it knew: a plugin reads
//! `host.owner.name`, and `name` has no value yet. The action ends with "not now",
//! [`Machine::wait_again`] adds the variable to the dependencies, and the task comes into the queue
//! again when it is there. Its number by creation stays, so it keeps its age among those that wait
//! (step C of `wait_queue`). What it computed stays with it where doing so twice would be seen: the
//! arguments of a call are evaluated once (`exec/calls.rs`).
//!
//! The other way to go through the queue more than once is that of steps without a task, which are
//! requeued to keep the pace of the reference: see `speed/direct_steps.rs`.
//!
//! # Invariants
//!
//! - `pending.missing()` is the number of chains that the task is in. A task whose count is zero is
//!   in the queue, is running, or is cancelled.
//! - Waiters are told in the order of registration, since that decides the order of steps.
//! - Proxies and temporaries are read by one task. They are recycled with it, and nobody else may
//!   keep their ids.
//! - The number of live tasks counts those that have not run and are not cancelled; if it is above
//!   zero at the end, the model is stuck (`exec/completion.rs`).

use crate::diagnostics::Fail;
use crate::runtime::{
    Action, Chain, Dependencies, Machine, ModelState, Pending, Scheduler, Step, Task, TaskId, VarId,
};
use crate::span::Loc;
use crate::types::Value;

impl Scheduler {
    /// The task of this number, whose place may be that of another one when it has run.
    #[inline]
    pub(in crate::runtime) fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// The task, if it is a number of one.
    pub(in crate::runtime) fn known_task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(id.index())
    }

    /// Tasks that have not run and still will, by creation.
    pub(in crate::runtime) fn live_tasks(&self) -> Vec<TaskId> {
        let all = (0..self.tasks.len() as u32).map(TaskId);
        let is_live = |id: &TaskId| {
            let action = &self.task(*id).action;
            !matches!(action, Action::Idle | Action::Cancelled)
        };
        let mut live: Vec<TaskId> = all.filter(is_live).collect();
        live.sort_by_key(|id| self.task(*id).seq);
        live
    }

    /// Whether some task has not run: at the end, the model is stuck then.
    pub(in crate::runtime) fn has_live_tasks(&self) -> bool {
        self.n_live > 0
    }

    /// The number that the next task gets.
    pub(in crate::runtime) fn next_task(&self) -> TaskId {
        let free = self.free_tasks.last().copied();
        free.unwrap_or(TaskId(self.tasks.len() as u32))
    }

    /// Puts a task into the arena, at the place that [`Scheduler::next_task`] gives.
    fn add(&mut self, task: Task) {
        self.n_live += 1;
        match self.free_tasks.pop() {
            Some(id) => self.tasks[id.index()] = task,
            None => self.tasks.push(task),
        }
    }

    /// What a task that begins to run does, and with which variables. It may add further ones.
    #[inline]
    pub(in crate::runtime) fn begin(&mut self, id: TaskId) -> (Action, Dependencies) {
        let task = &mut self.tasks[id.index()];
        (task.action, std::mem::take(&mut task.dependencies))
    }

    /// Puts the variables of a task that ran back, before those that it wants besides.
    #[inline]
    pub(in crate::runtime) fn end(&mut self, id: TaskId, dependencies: Dependencies) {
        let task = &mut self.tasks[id.index()];
        let added = std::mem::replace(&mut task.dependencies, dependencies);
        task.dependencies.extend(added);
    }

    /// One of the variables that a task waits for is ready. At the last one it goes to the end of
    /// the queue; a cancelled task is done with instead.
    #[inline]
    pub(in crate::runtime) fn notify(&mut self, state: &mut ModelState, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        let mut round = task.pending.round();
        state.vars.check(&mut round);
        let missing = task.pending.missing() - 1;
        task.pending = Pending::new(missing, round);
        if missing == 0 {
            if matches!(task.action, Action::Cancelled) {
                let dependencies = std::mem::take(&mut task.dependencies);
                self.recycle(state, id, &dependencies);
            } else {
                self.ready.push(Step::Task(id));
            }
        }
    }

    /// Tells all tasks of a ring, in order; the ring is used up.
    #[inline]
    pub(in crate::runtime) fn notify_all(&mut self, state: &mut ModelState, mut chain: Chain) {
        while let Some(task) = state.next_waiter(&mut chain) {
            self.notify(state, task);
        }
    }

    /// After a task has run: its place, and the variables that were made for it alone, are free.
    #[inline]
    pub(in crate::runtime) fn finish_task(
        &mut self,
        state: &mut ModelState,
        id: TaskId,
        dependencies: &Dependencies,
    ) {
        self.n_live -= 1;
        self.recycle(state, id, dependencies);
    }

    /// Makes the place of a task free, and those of its dependencies that were made for it alone.
    #[inline]
    fn recycle(&mut self, state: &mut ModelState, id: TaskId, dependencies: &Dependencies) {
        self.tasks[id.index()].action = Action::Idle;
        state.recycle_needs(dependencies);
        self.free_tasks.push(id);
    }

    /// The answer of an `is defined` came early, so the task will not run. It stays in the rings
    /// that it is in, and is recycled when the last of those variables is complete.
    pub(in crate::runtime) fn cancel(&mut self, id: TaskId) {
        self.n_live -= 1;
        self.tasks[id.index()].action = Action::Cancelled;
    }
}

impl Machine<'_> {
    /// Gives a value to a variable that is not delayed, and tells those who wait for it. It must
    /// not have one yet.
    pub(in crate::runtime) fn settle(&mut self, id: VarId, value: Value, loc: Loc) {
        let chain = self.state.chain(id);
        self.state.vars[id.index()].set(value, loc, &mut self.state.heap);
        self.scheduler.notify_all(&mut self.state, chain);
    }

    /// The oldest task that waits for a variable, as its creation number and the position of the
    /// variable among its dependencies. An `is defined` that was answered early is cancelled, but
    /// stays in the ring and counts here, as it does in the reference.
    pub(in crate::runtime) fn first_waiter(&self, id: VarId) -> Option<(u32, u32)> {
        let mut best = None;
        for task in self.state.waiters(id) {
            let task = self.scheduler.task(task);
            if best.is_none_or(|(seq, _)| task.seq < seq) {
                let needs = &task.dependencies;
                let position = needs.iter().position(|need| self.state.target(*need) == id);
                best = Some((task.seq, position.unwrap_or(0) as u32));
            }
        }
        best
    }

    /// Creates a task that runs when all of `dependencies` are ready, and gives it the next number
    /// by creation.
    pub(in crate::runtime) fn add_task(
        &mut self,
        action: Action,
        dependencies: Dependencies,
    ) -> Result<TaskId, Fail> {
        let number = self.scheduler.numbers.next(self.state.vars.round());
        self.add_numbered(action, dependencies, number)
    }

    /// The same for what has a number already: a direct step that has to wait after all, and keeps
    /// its age.
    pub(in crate::runtime) fn add_numbered(
        &mut self,
        action: Action,
        dependencies: Dependencies,
        seq: u32,
    ) -> Result<TaskId, Fail> {
        self.check_steps()?;
        let id = self.scheduler.next_task();
        let mut missing = 0;
        for need in &dependencies {
            if self.wait_numbered(*need, id, seq) {
                missing += 1;
            }
        }
        self.scheduler.add(Task {
            pending: Pending::new(missing, self.state.vars.round()),
            seq,
            action,
            dependencies,
        });
        if missing == 0 {
            self.scheduler.ready.push(Step::Task(id));
        }
        Ok(id)
    }

    /// Registers a task as a waiter of a variable, through proxies. False: it has its value, there
    /// is nothing to wait for.
    pub(in crate::runtime) fn wait(&mut self, need: VarId, task: TaskId) -> bool {
        let seq = self.scheduler.task(task).seq;
        self.wait_numbered(need, task, seq)
    }

    /// The same for a task with this number by creation, which may not be in the arena yet.
    fn wait_numbered(&mut self, need: VarId, task: TaskId, seq: u32) -> bool {
        let target = self.state.target(need);
        let var = self.state.known(target);
        if var.is_ready() {
            return false;
        }
        let delayed = var.kind().is_delayed();
        self.state.append_waiter(target, task);
        if delayed {
            self.state.delayed_mut(target).waiters += 1;
            self.potential_changed(target);
            self.waiter_added(target, seq);
        }
        true
    }

    /// Waits for more variables and runs again when they are there. They are added behind the
    /// dependencies that the task has.
    pub(in crate::runtime) fn wait_again(&mut self, id: TaskId, dependencies: &[VarId]) {
        let mut missing = 0;
        for need in dependencies {
            self.scheduler.tasks[id.index()].dependencies.push(*need);
            if self.wait(*need, id) {
                missing += 1;
            }
        }
        self.scheduler.tasks[id.index()].pending = Pending::new(missing, self.state.vars.round());
        if missing == 0 {
            self.scheduler.ready.push(Step::Task(id));
        }
    }
}
