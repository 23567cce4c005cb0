//! Units and who waits for what. Source: language.md 8.2, 8.4.

use super::{Action, Chain, Machine, Needs, Unit, UnitId, VarId, VarKind};
use crate::diagnostics::Fail;

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

    pub(super) fn append_waiter(&mut self, id: VarId, unit: UnitId) {
        let cell = self.cell(unit.0);
        let waiters = &mut self.vars[id.index()].waiters;
        if waiters.head == u32::MAX {
            *waiters = Chain {
                head: cell,
                tail: cell,
            };
        } else {
            let tail = waiters.tail;
            waiters.tail = cell;
            self.cells[tail as usize].1 = cell;
        }
    }

    pub(super) fn take_waiters(&mut self, id: VarId) -> smallvec::SmallVec<[UnitId; 8]> {
        let chain = std::mem::replace(&mut self.vars[id.index()].waiters, Chain::EMPTY);
        let mut units = smallvec::SmallVec::new();
        let mut at = chain.head;
        while at != u32::MAX {
            let (unit, next) = self.cells[at as usize];
            units.push(UnitId(unit));
            self.cells[at as usize].1 = self.free_cell;
            self.free_cell = at;
            at = next;
        }
        units
    }

    /// The least (creation, position) among those who wait.
    pub(super) fn first_waiter(&self, id: VarId) -> Option<(u64, u32)> {
        let mut best = None;
        let mut at = self.vars[id.index()].waiters.head;
        while at != u32::MAX {
            let (unit, next) = self.cells[at as usize];
            let unit = &self.units[unit as usize];
            if !unit.dead && best.is_none_or(|(seq, _)| unit.seq < seq) {
                let position = unit
                    .needs
                    .iter()
                    .position(|need| self.target(*need) == id)
                    .unwrap_or(0);
                best = Some((unit.seq, position as u32));
            }
            at = next;
        }
        best
    }

    /// Creates a unit that runs when all of `needs` are ready.
    pub(super) fn add_unit(&mut self, action: Action, needs: Needs) -> Result<UnitId, Fail> {
        self.n_created += 1;
        if self.n_created > super::MAX_UNITS
            && self.n_created > super::MAX_UNITS + 64 * self.instances.len() as u64
        {
            let message = format!(
                "the model needs more than {} steps: {}",
                super::MAX_UNITS,
                self.construct_chain()
            );
            return Err(crate::diagnostics::runtime(crate::span::Loc::NONE, message));
        }
        let unit = Unit {
            missing: 0,
            prev: self.last_live,
            next: UnitId::NONE,
            seq: self.n_created,
            dead: false,
            action,
            needs,
        };
        let id = match self.free_units.pop() {
            Some(id) => {
                self.units[id.index()] = unit;
                id
            }
            None => {
                self.units.push(unit);
                UnitId(self.units.len() as u32 - 1)
            }
        };
        if self.last_live.is_some() {
            self.units[self.last_live.index()].next = id;
        } else {
            self.first_live = id;
        }
        self.last_live = id;
        let mut missing = 0;
        for at in 0..self.units[id.index()].needs.len() {
            let need = self.units[id.index()].needs[at];
            if self.wait(need, id) {
                missing += 1;
            }
        }
        self.units[id.index()].missing = missing;
        if missing == 0 {
            self.ready.push_back(id);
        }
        Ok(id)
    }

    /// Registers a waiter; false: there is nothing to wait for.
    pub(super) fn wait(&mut self, need: VarId, unit: UnitId) -> bool {
        let target = self.target(need);
        let var = &self.vars[target.index()];
        if var.kind == VarKind::Proxy {
            self.append_waiter(target, unit);
            return true;
        }
        if var.ready {
            return false;
        }
        let delayed = matches!(
            var.kind,
            VarKind::Optional | VarKind::List | VarKind::Literal
        );
        self.append_waiter(target, unit);
        if delayed {
            let extra = self.vars[target.index()].extra as usize;
            self.delayed[extra].waiters += 1;
            self.potential_changed(target);
            let seq = self.units[unit.index()].seq;
            self.waiter_added(target, seq);
        }
        true
    }

    /// One of the things a unit waits for is ready.
    pub(super) fn notify(&mut self, id: UnitId) {
        let unit = &mut self.units[id.index()];
        unit.missing -= 1;
        if unit.missing == 0 {
            if unit.dead {
                self.recycle(id);
            } else {
                self.ready.push_back(id);
            }
        }
    }

    pub(super) fn notify_all(&mut self, id: VarId) {
        if self.vars[id.index()].waiters.head == u32::MAX {
            return;
        }
        for unit in self.take_waiters(id) {
            self.notify(unit);
        }
    }

    fn unlink(&mut self, id: UnitId) {
        let (prev, next) = (self.units[id.index()].prev, self.units[id.index()].next);
        if prev.is_some() {
            self.units[prev.index()].next = next;
        } else {
            self.first_live = next;
        }
        if next.is_some() {
            self.units[next.index()].prev = prev;
        } else {
            self.last_live = prev;
        }
    }

    /// After a unit has run: its needs are its own and are not needed any more.
    pub(super) fn finish_unit(&mut self, id: UnitId) {
        self.unlink(id);
        self.recycle(id);
    }

    fn recycle(&mut self, id: UnitId) {
        let needs = std::mem::take(&mut self.units[id.index()].needs);
        for need in &needs {
            // Proxies and temporaries are made for one unit only.
            if matches!(
                self.vars[need.index()].kind,
                VarKind::Proxy | VarKind::Temporary
            ) {
                self.free_vars.push(*need);
            }
        }
        self.units[id.index()].action = Action::Idle;
        self.free_units.push(id);
    }

    /// The answer came early: the unit will not run.
    pub(super) fn cancel(&mut self, id: UnitId) {
        self.unlink(id);
        self.units[id.index()].dead = true;
    }

    /// Waits for one more variable and runs again then.
    pub(super) fn wait_again(&mut self, id: UnitId, needs: &[VarId]) {
        let mut missing = 0;
        for need in needs {
            self.units[id.index()].needs.push(*need);
            if self.wait(*need, id) {
                missing += 1;
            }
        }
        self.units[id.index()].missing = missing;
        if missing == 0 {
            self.ready.push_back(id);
        }
    }
}
