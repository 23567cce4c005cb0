//! Tasks, who waits for what, and how a task comes into the queue. Source:
//! docs/reference/language.md § 8.2, § 8.4.
//!
//! # From statement to step
//!
//! A task has an action and a list of variables that the action will read. When it is created, it
//! is appended to the waiters of each variable that has no value yet, and counts them. A variable
//! that gets its value tells its waiters in the order in which they came; each counts one down, and
//! at zero the task goes to the end of the queue of steps. If nothing is missing at the beginning,
//! it goes there at once. When it has run, its place is used for another one.
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
//! # Chains of waiters
//!
//! A model has many more variables than waits, so a variable has no list of its own: `cells` is one
//! vector of (task, next cell) for all, with a list of free cells inside. The waiters of a variable
//! are a ring, known by its last cell, whose next is the first one: appending and taking the first
//! both take one step, and a variable pays 4 bytes. A proxy (the attribute at the end of a path
//! that is not known yet) may also have a listener; then its cell holds the listener, and its next
//! is the last waiter.
//!
//! # Invariants
//!
//! - `pending.missing()` is the number of chains that the task is in. A task whose count is zero is
//!   in the queue, is running, or is cancelled.
//! - Waiters are told in the order of registration, since that decides the order of steps.
//! - Proxies and temporaries are read by one task. They are recycled with it, and nobody else may
//!   keep their ids.
//! - `n_live` counts tasks that have not run and are not cancelled; if it is above zero at the end,
//!   the model is stuck (`exec/completion.rs`).

use crate::diagnostics::Fail;
use crate::runtime::{
    Action, Chain, Dependencies, ListenerId, Machine, Pending, Step, Task, TaskId, VarId, VarKind,
};
use crate::span::Loc;
use crate::types::Value;

impl Machine<'_> {
    /// A cell with this content, new or used before; its next is not set.
    fn cell(&mut self, payload: u32) -> u32 {
        if self.free_cell != u32::MAX {
            let at = self.free_cell;
            self.free_cell = self.cells[at as usize].1;
            self.cells[at as usize] = (payload, u32::MAX);
            return at;
        }
        self.cells.push((payload, u32::MAX));
        self.cells.len() as u32 - 1
    }

    /// Adds a task to the end of a variable's ring.
    fn append_waiter(&mut self, id: VarId, task: TaskId) {
        let cell = self.cell(task.0);
        let chain = self.chain(id);
        self.cells[cell as usize].1 = if chain.is_empty() {
            cell
        } else {
            std::mem::replace(&mut self.cells[chain.tail as usize].1, cell)
        };
        self.set_chain(id, Chain { tail: cell });
    }

    /// Those who wait for a variable, wherever its kind keeps them: with what is known of a delayed
    /// variable, behind the listener of a proxy, or in the variable itself.
    #[inline]
    fn chain(&self, id: VarId) -> Chain {
        let var = self.known(id);
        if var.kind().is_delayed() {
            self.delayed(id)
                .map_or(Chain::EMPTY, |delayed| delayed.chain)
        } else if let Some(link) = var.link() {
            Chain {
                tail: self.cells[link as usize].1,
            }
        } else {
            var.waiters()
        }
    }

    fn set_chain(&mut self, id: VarId, chain: Chain) {
        let var = self.known(id);
        if var.kind().is_delayed() {
            self.delayed_mut(id).chain = chain;
        } else if let Some(link) = var.link() {
            self.cells[link as usize].1 = chain.tail;
        } else {
            self.vars[id.index()].set_waiters(chain);
        }
    }

    /// Who wants the elements of the list that a proxy will turn out to be. The listener goes to
    /// the list when the proxy is connected.
    pub(in crate::runtime) fn set_listener(&mut self, proxy: VarId, listener: ListenerId) {
        if let Some(link) = self.var(proxy).link() {
            self.cells[link as usize].0 = listener.0;
            return;
        }
        let chain = self.var(proxy).waiters();
        let link = self.cell(listener.0);
        self.cells[link as usize].1 = chain.tail;
        self.vars[proxy.index()].set_link(link);
    }

    /// Gives a proxy its target. The listener and the waiters that it had are returned, and the
    /// caller moves them to the target: [`Machine::connect`].
    pub(in crate::runtime) fn connect_proxy(
        &mut self,
        proxy: VarId,
        target: VarId,
    ) -> (ListenerId, Chain) {
        let chain = self.chain(proxy);
        let var = &mut self.vars[proxy.index()];
        let link = var.link();
        var.connect(target);
        let Some(link) = link else {
            return (ListenerId::NONE, chain);
        };
        let (listener, _) = self.cells[link as usize];
        self.free(link);
        (ListenerId(listener), chain)
    }

    fn free(&mut self, cell: u32) {
        self.cells[cell as usize].1 = self.free_cell;
        self.free_cell = cell;
    }

    /// Takes the first task off a ring, and frees its cell; `None`: the ring is empty.
    pub(in crate::runtime) fn next_waiter(&mut self, chain: &mut Chain) -> Option<TaskId> {
        if chain.is_empty() {
            return None;
        }
        let first = self.cells[chain.tail as usize].1;
        let (task, next) = self.cells[first as usize];
        if first == chain.tail {
            *chain = Chain::EMPTY;
        } else {
            self.cells[chain.tail as usize].1 = next;
        }
        self.free(first);
        Some(TaskId(task))
    }

    /// Gives a value to a variable that is not delayed, and tells those who wait for it. It must
    /// not have one yet.
    pub(in crate::runtime) fn settle(&mut self, id: VarId, value: Value, loc: Loc) {
        let chain = self.chain(id);
        self.vars[id.index()].set(value, loc, &mut self.heap);
        self.notify_all(chain);
    }

    /// The oldest task that waits for a variable, as its creation number and the position of the
    /// variable among its dependencies. An `is defined` that was answered early is cancelled, but
    /// stays in the ring and counts here, as it does in the reference.
    pub(in crate::runtime) fn first_waiter(&self, id: VarId) -> Option<(u32, u32)> {
        let mut best = None;
        let Chain { tail } = self.chain(id);
        let mut last = tail;
        while last != u32::MAX {
            let at = self.cells[last as usize].1;
            let (task, _) = self.cells[at as usize];
            let task = &self.tasks[task as usize];
            if best.is_none_or(|(seq, _)| task.seq < seq) {
                let position = task
                    .dependencies
                    .iter()
                    .position(|need| self.target(*need) == id)
                    .unwrap_or(0);
                best = Some((task.seq, position as u32));
            }
            last = if at == tail { u32::MAX } else { at };
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
        let number = self.numbers.next(self.vars.round());
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
        let task = Task {
            pending: Pending::default(),
            seq,
            action,
            dependencies,
        };
        self.n_live += 1;
        let id = match self.free_tasks.pop() {
            Some(id) => {
                self.tasks[id.index()] = task;
                id
            }
            None => {
                self.tasks.push(task);
                TaskId(self.tasks.len() as u32 - 1)
            }
        };
        let mut missing = 0;
        for at in 0..self.tasks[id.index()].dependencies.len() {
            let need = self.tasks[id.index()].dependencies[at];
            if self.wait(need, id) {
                missing += 1;
            }
        }
        if missing == 0 {
            self.ready.push(Step::Task(id));
        } else {
            self.tasks[id.index()].pending = Pending::new(missing, self.vars.round());
        }
        Ok(id)
    }

    /// Registers a task as a waiter of a variable, through proxies. False: it has its value, there
    /// is nothing to wait for.
    pub(in crate::runtime) fn wait(&mut self, need: VarId, task: TaskId) -> bool {
        let target = self.target(need);
        let var = self.known(target);
        if var.is_ready() {
            return false;
        }
        let delayed = var.kind().is_delayed();
        self.append_waiter(target, task);
        if delayed {
            self.delayed_mut(target).waiters += 1;
            self.potential_changed(target);
            let seq = self.tasks[task.index()].seq;
            self.waiter_added(target, seq);
        }
        true
    }

    /// One of the variables that a task waits for is ready. At the last one it goes to the end of
    /// the queue; a cancelled task is done with instead.
    #[inline]
    pub(in crate::runtime) fn notify(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        let mut round = task.pending.round();
        self.vars.check(&mut round);
        let missing = task.pending.missing() - 1;
        task.pending = Pending::new(missing, round);
        if missing == 0 {
            if matches!(task.action, Action::Cancelled) {
                self.recycle(id);
            } else {
                self.ready.push(Step::Task(id));
            }
        }
    }

    pub(in crate::runtime) fn notify_all(&mut self, mut chain: Chain) {
        while let Some(task) = self.next_waiter(&mut chain) {
            self.notify(task);
        }
    }

    /// After a task has run: its place, and the variables that were made for it alone, are free.
    pub(in crate::runtime) fn finish_task(&mut self, id: TaskId) {
        self.n_live -= 1;
        self.recycle(id);
    }

    fn recycle(&mut self, id: TaskId) {
        let dependencies = std::mem::take(&mut self.tasks[id.index()].dependencies);
        for need in &dependencies {
            // Proxies and temporaries are made for one task only.
            if matches!(
                self.known(*need).kind(),
                VarKind::Proxy | VarKind::Temporary
            ) {
                self.free_vars.push(*need);
            }
        }
        self.tasks[id.index()].action = Action::Idle;
        self.free_tasks.push(id);
    }

    /// The answer of an `is defined` came early, so the task will not run. It stays in the rings
    /// that it is in, and is recycled when the last of those variables is complete.
    pub(in crate::runtime) fn cancel(&mut self, id: TaskId) {
        self.n_live -= 1;
        self.tasks[id.index()].action = Action::Cancelled;
    }

    /// Waits for more variables and runs again when they are there. They are added behind the
    /// dependencies that the task has.
    pub(in crate::runtime) fn wait_again(&mut self, id: TaskId, dependencies: &[VarId]) {
        let mut missing = 0;
        for need in dependencies {
            self.tasks[id.index()].dependencies.push(*need);
            if self.wait(*need, id) {
                missing += 1;
            }
        }
        self.tasks[id.index()].pending = Pending::new(missing, self.vars.round());
        if missing == 0 {
            self.ready.push(Step::Task(id));
        }
    }
}
