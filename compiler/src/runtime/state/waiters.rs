//! Who waits for a variable: chains of cells, each a ring that is known by its last one.
//!
//! A model has many more variables than waits, so a variable has no list of its own: `cells` is one
//! vector of (task, next cell) for all, with a list of free cells inside. The waiters of a variable
//! are a ring, known by its last cell, whose next is the first one: appending and taking the first
//! both take one step, and a variable pays 4 bytes. A proxy (the attribute at the end of a path
//! that is not known yet) may also have a listener; then its cell holds the listener, and its next
//! is the last waiter.
//!
//! The invariant: a ring holds its tasks in the order in which they began to wait, since they are
//! told in that order, which decides the order of steps.

use crate::runtime::{Chain, ListenerId, ModelState, TaskId, VarId};

impl ModelState<'_> {
    /// A cell with this content, new or used before; its next is not set.
    fn new_cell(&mut self, payload: u32) -> u32 {
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
    pub(in crate::runtime) fn append_waiter(&mut self, id: VarId, task: TaskId) {
        let cell = self.new_cell(task.0);
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
    pub(in crate::runtime) fn chain(&self, id: VarId) -> Chain {
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
        let link = self.new_cell(listener.0);
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

    /// Those that wait for a variable, in the order in which they began to.
    pub(in crate::runtime) fn waiters(&self, id: VarId) -> impl Iterator<Item = TaskId> {
        let Chain { tail } = self.chain(id);
        let mut last = tail;
        std::iter::from_fn(move || {
            let (_, at) = *self.cells.get(last as usize)?;
            last = if at == tail { u32::MAX } else { at };
            self.cells.get(at as usize).map(|(task, _)| TaskId(*task))
        })
    }

    /// A cell with this content, new or used before; its next is not set.
    pub(in crate::runtime) fn cell(&self, at: u32) -> Option<(u32, u32)> {
        self.cells.get(at as usize).copied()
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
}
