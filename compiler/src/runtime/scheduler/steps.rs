//! What runs, and what waits to run.

use crate::hir::{ConstructId, ExprId, ImplementId, StmtId};
use crate::runtime::{
    Dependencies, ListenerId, LoopId, PromiseGroupId, RunId, ScopeId, TaskId, VarId,
};
use crate::span::Loc;
use crate::types::InstId;

/// A pending computation.
pub(in crate::runtime) struct Task {
    pub pending: Pending,
    /// Number by creation.
    pub seq: u32,
    pub action: Action,
    pub dependencies: Dependencies,
}

const _: () = assert!(size_of::<Task>() == 56);

/// How many needs are not there, and in tiles the last round that changed it.
#[derive(Clone, Copy, Default)]
pub(in crate::runtime) struct Pending(u32);

impl Pending {
    const ROUND_SHIFT: u32 = 24;
    /// Lists are shorter.
    const MOST: u32 = (1 << Pending::ROUND_SHIFT) - 1;

    pub fn new(missing: u32, round: u8) -> Pending {
        debug_assert!(missing <= Pending::MOST);
        Pending(missing | u32::from(round) << Pending::ROUND_SHIFT)
    }

    pub fn missing(self) -> u32 {
        self.0 & Pending::MOST
    }

    pub fn round(self) -> u8 {
        (self.0 >> Pending::ROUND_SHIFT) as u8
    }
}

/// What is ready to run, in order. A run of steps that follow one another in the queue and wait for nothing is one entry.
#[derive(Clone, Copy)]
pub(in crate::runtime) enum Step {
    Task(TaskId),
    /// All it needs is there. It goes to the end of the queue `requeue_count` times before it runs.
    Direct {
        requeue_count: u8,
        action: Action,
    },
    /// Constants of a constructor into plain attributes: arguments `from` to `to` of the indirect ones.
    Constants {
        construct: ConstructId,
        from: u16,
        to: u16,
        instance: InstId,
    },
    /// Unconditional `implement` entries `from` to `to` of an instance's entity.
    Implement {
        instance: InstId,
        from: u16,
        to: u16,
        loc: Loc,
    },
}

#[derive(Clone, Copy)]
pub(in crate::runtime) enum Action {
    /// Nothing: the unit is free.
    Idle,
    /// Answered before all it waits for is ready; it must not run any more.
    Cancelled,
    Stmt {
        stmt: StmtId,
        scope: ScopeId,
    },
    Attr {
        expr: ExprId,
        scope: ScopeId,
        proxy: VarId,
    },
    /// An attribute on the path of a promise: an unset optional ends the promise, and is no error.
    PromisedAttr {
        expr: ExprId,
        scope: ScopeId,
        proxy: VarId,
    },
    Logic {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    LogicRight {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    Ternary {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        listener: ListenerId,
        context: VarId,
    },
    /// The branch of a conditional expression that was decided for.
    Branch {
        ternary: ExprId,
        then: bool,
        scope: ScopeId,
        result: VarId,
        listener: ListenerId,
        context: VarId,
    },
    Defined {
        result: VarId,
    },
    DefinedAttr {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    /// `seq`: its number by creation, should it become a unit when it runs.
    Call {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        seq: u32,
    },
    Query {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    /// An element of a list that is delivered before the list is complete; the listener is that of the literal.
    Item {
        expr: ExprId,
        list: ExprId,
        scope: ScopeId,
        listener: ListenerId,
        context: VarId,
    },
    /// Stores a value into a slot.
    Store {
        expr: ExprId,
        scope: ScopeId,
        slot: VarId,
        listener: ListenerId,
        loc: Loc,
    },
    /// The completion of a `for`.
    For {
        run: LoopId,
    },
    If {
        stmt: StmtId,
        scope: ScopeId,
        group: PromiseGroupId,
    },
    Implement {
        implement: ImplementId,
        scope: ScopeId,
        instance: InstId,
        loc: Loc,
    },
    Promise {
        stmt: StmtId,
        which: u32,
        scope: ScopeId,
        group: PromiseGroupId,
    },
    /// The iterable of a comprehension is complete.
    Iterable {
        run: RunId,
    },
    /// One element's result.
    Element {
        run: RunId,
        result: VarId,
        scope: ScopeId,
    },
    /// All results are there.
    Collect {
        run: RunId,
    },
    Annotation {
        which: u32,
        scope: ScopeId,
    },
}

impl Action {
    /// What it sets.
    pub fn variable(&self) -> Option<VarId> {
        match *self {
            Action::Attr { proxy: id, .. }
            | Action::Store { slot: id, .. }
            | Action::Logic { result: id, .. }
            | Action::LogicRight { result: id, .. }
            | Action::Ternary { result: id, .. }
            | Action::Branch { result: id, .. }
            | Action::Call { result: id, .. }
            | Action::Query { result: id, .. } => Some(id),
            _ => None,
        }
    }

    /// Where it runs, if it has such a place.
    pub fn scope(&self) -> ScopeId {
        match *self {
            Action::Stmt { scope, .. }
            | Action::Attr { scope, .. }
            | Action::PromisedAttr { scope, .. }
            | Action::Logic { scope, .. }
            | Action::LogicRight { scope, .. }
            | Action::Ternary { scope, .. }
            | Action::Branch { scope, .. }
            | Action::DefinedAttr { scope, .. }
            | Action::Call { scope, .. }
            | Action::Query { scope, .. }
            | Action::Item { scope, .. }
            | Action::Store { scope, .. }
            | Action::If { scope, .. }
            | Action::Implement { scope, .. }
            | Action::Promise { scope, .. }
            | Action::Element { scope, .. }
            | Action::Annotation { scope, .. } => scope,
            Action::Idle
            | Action::Cancelled
            | Action::Defined { .. }
            | Action::For { .. }
            | Action::Iterable { .. }
            | Action::Collect { .. } => ScopeId::NONE,
        }
    }
}
