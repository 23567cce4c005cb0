//! Scopes: the variables of a block that runs, and what is around it.

use crate::hir::{BlockId, NamespaceId};
use crate::runtime::{ModelState, ScopeId, VarId, VarKind};
use crate::types::{InstId, Value};

/// The variables of one run of a block, and where names that are not among them are looked for.
#[derive(Clone, Copy)]
pub(in crate::runtime) struct Scope {
    /// The scope around it; `NONE`: it is that of a file or an implementation.
    pub(in crate::runtime) parent: ScopeId,
    /// First variable.
    pub(in crate::runtime) base: VarId,
    /// The instance that an implementation runs on, which `self` means; `NONE`: there is none.
    pub(in crate::runtime) instance: InstId,
    /// The instance behind what the scope's statements construct: its own, or the element of the loop that they are in.
    pub(in crate::runtime) maker: InstId,
    /// The namespace of the block.
    pub(in crate::runtime) namespace: NamespaceId,
}

impl ModelState<'_> {
    /// A scope for a run of a block.
    pub(in crate::runtime) fn add_scope(
        &mut self,
        parent: ScopeId,
        block: BlockId,
        instance: InstId,
        namespace: NamespaceId,
    ) -> ScopeId {
        let n_variables = self.program.blocks[block.index()].variables.len();
        self.push_scope(parent, n_variables, VarKind::Plain, instance, namespace)
    }

    /// A scope with so many variables of one kind.
    pub(in crate::runtime) fn push_scope(
        &mut self,
        parent: ScopeId,
        n_variables: usize,
        kind: VarKind,
        instance: InstId,
        namespace: NamespaceId,
    ) -> ScopeId {
        let base = VarId(self.vars.len() as u32);
        for _ in 0..n_variables {
            self.add_var(kind);
        }
        self.scopes.push(Scope {
            parent,
            base,
            instance,
            maker: match parent.is_some() {
                true => self.scopes[parent.index()].maker,
                false => instance,
            },
            namespace,
        });
        ScopeId(self.scopes.len() as u32 - 1)
    }

    /// What a loop constructs for an element comes from that element.
    pub(in crate::runtime) fn set_maker(&mut self, scope: ScopeId, item: Value) {
        if let Value::Instance(item) = item {
            let maker = self.scopes[scope.index()].maker;
            if !maker.is_some() || self.instance(item).depth >= self.instance(maker).depth {
                self.scopes[scope.index()].maker = item;
            }
        }
    }
}
