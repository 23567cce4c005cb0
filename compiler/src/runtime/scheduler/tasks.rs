//! Units and who waits for what. Source: docs/reference/language.md § 8.2, § 8.4.

use crate::diagnostics::Fail;
use crate::runtime::{
    Action, Chain, Dependencies, ListenerId, Machine, Pending, Step, Task, TaskId, VarId, VarKind,
};
use crate::span::Loc;
use crate::types::Value;

impl Machine<'_> {
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

    /// A proxy's elements go to a listener once it is known what they are.
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

    /// Gives a proxy its target; who listened, and who waited.
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

    /// Takes the first of a chain off.
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

    /// Gives a value to a variable that is not delayed, and tells those who wait for it.
    pub(in crate::runtime) fn settle(&mut self, id: VarId, value: Value, loc: Loc) {
        let chain = self.chain(id);
        self.vars[id.index()].set(value, loc, &mut self.heap);
        self.notify_all(chain);
    }

    /// The least (creation, position) among those who wait; an `is defined` that is answered waits on, for its place.
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

    /// Creates a unit that runs when all of `dependencies` are ready.
    pub(in crate::runtime) fn add_task(
        &mut self,
        action: Action,
        dependencies: Dependencies,
    ) -> Result<TaskId, Fail> {
        let number = self.numbers.next(self.vars.round());
        self.add_numbered(action, dependencies, number)
    }

    /// The same with the number that it has already.
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

    /// Registers a waiter; false: there is nothing to wait for.
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

    /// One of the things a unit waits for is ready.
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

    /// After a unit has run: its needs are its own and are not needed any more.
    pub(in crate::runtime) fn finish_task(&mut self, id: TaskId) {
        self.n_live -= 1;
        self.recycle(id);
    }

    fn recycle(&mut self, id: TaskId) {
        let dependencies = std::mem::take(&mut self.tasks[id.index()].dependencies);
        for need in &dependencies {
            // Proxies and temporaries are made for one unit only.
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

    /// The answer came early: the unit will not run.
    pub(in crate::runtime) fn cancel(&mut self, id: TaskId) {
        self.n_live -= 1;
        self.tasks[id.index()].action = Action::Cancelled;
    }

    /// Waits for one more variable and runs again then.
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
