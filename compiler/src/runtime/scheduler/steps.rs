//! What a task is, and what can stand in the queue of steps.
//!
//! Most of what runs does not need a task: its values are there when it is created, so it can stand
//! in the queue at once and needs no waiters, no list of dependencies and no place in the arena of
//! tasks. [`Step`] has a form for each such case, since a large model makes tens of millions of
//! steps. What kinds of work there are says [`Action`]; it is what docs/reference/language.md § 8.6
//! calls the tasks that an expression or statement emits.

use crate::hir::{ConstructId, ExprId, ImplementId, StmtId};
use crate::runtime::{
    Dependencies, ListenerId, LoopId, PromiseGroupId, RunId, ScopeId, TaskId, VarId,
};
use crate::span::Loc;
use crate::types::InstId;

/// A pending computation: it runs when all its dependencies have values. 56 bytes, since a large
/// model has millions of them.
pub(in crate::runtime) struct Task {
    /// How many of the dependencies have no value yet.
    pub pending: Pending,
    /// Its number by creation
    /// ([`CreationOrder`](crate::runtime::scheduler::creation_order::CreationOrder)): the older of
    /// two tasks has the smaller number. Only step C of the main loop and messages about stuck
    /// models look at it.
    pub seq: u32,
    /// What it does when it runs.
    pub action: Action,
    /// What it waits for, in the order in which its evaluation reads them.
    pub dependencies: Dependencies,
}

const _: () = assert!(size_of::<Task>() == 56);

/// How many dependencies have no value yet (the lower 24 bits), and in tiles the last round that
/// changed this number (the upper 8), so that changes out of order are noticed.
#[derive(Clone, Copy, Default)]
pub(in crate::runtime) struct Pending(u32);

impl Pending {
    const ROUND_SHIFT: u32 = 24;
    /// The largest number that fits: no task has so many dependencies, since lists are shorter.
    const MOST: u32 = (1 << Pending::ROUND_SHIFT) - 1;

    pub fn new(missing: u32, round: u8) -> Pending {
        debug_assert!(missing <= Pending::MOST);
        Pending(missing | u32::from(round) << Pending::ROUND_SHIFT)
    }

    /// How many dependencies have no value yet.
    pub fn missing(self) -> u32 {
        self.0 & Pending::MOST
    }

    /// The last round of tiles that changed this; 0 outside of tiles.
    pub fn round(self) -> u8 {
        (self.0 >> Pending::ROUND_SHIFT) as u8
    }
}

/// What is ready to run, in order. Steps that follow one another in the queue, wait for nothing and
/// are of the same constructor or instance are one entry (`Constants`, `Implement`): nothing could
/// come between them.
#[derive(Clone, Copy)]
pub(in crate::runtime) enum Step {
    Task(TaskId),
    /// A step without a task: all it reads is there. It goes to the end of the queue
    /// `requeue_count` times before it runs, which is as often as the tasks for its path would have
    /// gone in the reference (`speed/direct_steps.rs`).
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

/// What a step does, with the expression or statement it does it for, the scope it does it in, and
/// the variable its result goes to. `context` is the slot that a value is assigned to, if any: a
/// constructor there sets the inverse of that relation. `listener` gets the elements of a list one
/// by one.
#[derive(Clone, Copy)]
pub(in crate::runtime) enum Action {
    /// Nothing: the place in the arena of tasks is free.
    Idle,
    /// An `is defined` that was answered before its list was complete; it must not run any more,
    /// but others still know its number.
    Cancelled,
    /// An expression statement, an assignment to a variable, or the first half of one to an
    /// attribute: `object` of `object.a = value` is known.
    Stmt { stmt: StmtId, scope: ScopeId },
    /// The object of `object.a` is known: the proxy that stands for the attribute gets its target.
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
    /// The left operand of `and` or `or` is known.
    Logic {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    /// The left operand did not decide, and the right one is known.
    LogicRight {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    /// The condition of `c ? a : b` is known: one of the branches is emitted.
    Ternary {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        listener: ListenerId,
        context: VarId,
    },
    /// The value of the branch of a conditional expression that was decided for is known.
    Branch {
        ternary: ExprId,
        then: bool,
        scope: ScopeId,
        result: VarId,
        listener: ListenerId,
        context: VarId,
    },
    /// The variable of an `is defined` is complete, and no element came before.
    Defined { result: VarId },
    /// The object of `object.a is defined` is known.
    DefinedAttr {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    /// The arguments of a call or cast are known. `seq` is its number by creation, should it have
    /// to wait for more and become a task when it runs.
    Call {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        seq: u32,
    },
    /// The values of an index lookup are known.
    Query {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    /// An item of a streamed list literal is known: it is delivered before the others are.
    /// `listener` is that of the literal.
    Item {
        expr: ExprId,
        list: ExprId,
        scope: ScopeId,
        listener: ListenerId,
        context: VarId,
    },
    /// The value of an assignment to a slot is known: it is stored, and the promise on the slot is
    /// kept.
    Store {
        expr: ExprId,
        scope: ScopeId,
        slot: VarId,
        listener: ListenerId,
        loc: Loc,
    },
    /// The list that a `for` goes through is complete; its elements have started their bodies
    /// already.
    For { run: LoopId },
    /// The condition of an `if` is known: its promises are kept, and one of its blocks is emitted.
    If {
        stmt: StmtId,
        scope: ScopeId,
        group: PromiseGroupId,
    },
    /// The condition of an `implement` entry is known for an instance.
    Implement {
        implement: ImplementId,
        scope: ScopeId,
        instance: InstId,
        loc: Loc,
    },
    /// The object of one of the assignments inside an `if` or `for` is known: the promise on its
    /// slot is made. `which` counts the promises of the statement.
    Promise {
        stmt: StmtId,
        which: u32,
        scope: ScopeId,
        group: PromiseGroupId,
    },
    /// The iterable of a comprehension is complete.
    Iterable { run: RunId },
    /// The value of one element of a comprehension is known.
    Element {
        run: RunId,
        result: VarId,
        scope: ScopeId,
    },
    /// The values of all elements of a comprehension are there.
    Collect { run: RunId },
    /// The value of a relation annotation is known. `which` counts those of the program.
    Annotation { which: u32, scope: ScopeId },
}

impl Action {
    /// The variable that it sets, if that is one whose memory is worth fetching early.
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

    /// Where it runs; `NONE` if it has no such place.
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
