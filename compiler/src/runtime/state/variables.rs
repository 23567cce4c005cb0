//! Looks at variables, and new ones.

use crate::runtime::{ModelState, Var, VarId, VarKind};
use crate::types::Value;

impl ModelState<'_> {
    /// The variable behind proxies.
    #[inline]
    pub(in crate::runtime) fn target(&self, mut id: VarId) -> VarId {
        while let Some(target) = self.vars[id.index()].target() {
            id = target;
        }
        id
    }

    /// The variable; the use is noted in tiles.
    #[inline]
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.index()]
    }

    /// The same, for what does not depend on when it is asked: its kind, or its state after a look of the same step, or
    /// its value when it is known to be there.
    #[inline]
    pub(in crate::runtime) fn known(&self, id: VarId) -> &Var {
        self.vars.peek(id.index())
    }

    /// The variable behind proxies that have their targets.
    #[inline]
    pub(in crate::runtime) fn known_target(&self, mut id: VarId) -> VarId {
        while let Some(target) = self.known(id).target() {
            id = target;
        }
        id
    }

    /// Whether a variable, or what it stands for as a proxy, has its value.
    pub(in crate::runtime) fn is_ready(&self, id: VarId) -> bool {
        self.known(self.target(id)).is_ready()
    }

    /// A new variable.
    pub(in crate::runtime) fn add_var(&mut self, kind: VarKind) -> VarId {
        self.vars.push(Var::new(kind, false));
        VarId(self.vars.len() as u32 - 1)
    }

    /// A variable for the result of a part of an expression, which one task reads.
    pub(in crate::runtime) fn temporary(&mut self) -> VarId {
        self.recycled(VarKind::Temporary)
    }

    /// A variable that is read by one task; its place may be that of one that nobody knows any
    /// more.
    pub(in crate::runtime) fn recycled(&mut self, kind: VarKind) -> VarId {
        match self.free_vars.pop() {
            Some(id) => {
                self.vars.renew(id.index(), Var::new(kind, false));
                id
            }
            None => self.add_var(kind),
        }
    }

    /// Lets the needs of a unit that has run become other variables, if they were made for it alone.
    pub(in crate::runtime) fn recycle_needs(&mut self, needs: &[VarId]) {
        for need in needs {
            let kind = self.known(*need).kind();
            if matches!(kind, VarKind::Proxy | VarKind::Temporary) {
                self.free_vars.push(*need);
            }
        }
    }

    /// The list without elements that all share.
    pub fn empty_list(&self) -> Value {
        self.empty_list
    }
}
