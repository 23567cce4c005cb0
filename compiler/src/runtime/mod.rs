//! Runs a program: dataflow over arenas, exactly as docs/reference/language.md § 8 has it.
//!
//! A model says what is, not in which order: a statement may read a variable that a later statement
//! sets, and a list may get elements from anywhere. So nothing is evaluated when it is met. Each
//! statement becomes a *task* that waits for the variables it reads; when the last of them has its
//! value, the task becomes a *step* in the queue of what is ready; the step computes, sets
//! variables, and with that makes other tasks ready. Instances bring their implementations with
//! them, whose statements become tasks again, until nothing is left.
//!
//! Two kinds of variables do not say by themselves when they are done: a relation with many
//! elements, and one with one or none. Somebody who counts a list has to know that no element will
//! come any more. The machine decides that by a fixed rule when all else stands still
//! ([`scheduler::wait_queue`]). Some models mean something else under another rule, and existing
//! models were written against the rule of the reference implementation; so the order of all steps,
//! and of the decisions, is that of the reference, and everything in this folder has to keep it.
//!
//! Rooms, in the order in which a newcomer should read them:
//!
//! - [`scheduler`]: tasks, the queue of steps, and when a relation is complete. Start at
//!   [`scheduler::wait_queue`], whose `run` is the main loop.
//! - [`state`]: what there is to know: variables, instances, scopes, index tables.
//! - [`exec`]: what each kind of statement and expression does. `exec/dependencies.rs` turns
//!   expressions into tasks, `exec/run.rs` runs steps, `exec/eval.rs` computes values.
//! - [`python_bridge`]: calls of plugins that run in the Python process, and what the export asks
//!   it for.
//! - [`report`]: what is said about a model with mistakes.
//! - [`speed`]: how a model with millions of variables stays in the cache of the processor. None of
//!   it changes an answer.
//!
//! Everything is an index: variables, tasks, scopes and instances are `u32` numbers into vectors
//! that only grow, so a value is copied without counting references, and a model is freed as a
//! whole. `VarId::NONE` and its like (all bits set) mean that there is none.

pub(super) mod exec;
mod ids;
mod machine;
pub(super) mod python_bridge;
pub(super) mod report;
pub(super) mod scheduler;
pub(super) mod speed;
pub(super) mod state;

pub use crate::runtime::ids::VarId;
pub(in crate::runtime) use crate::runtime::ids::{
    Dependencies, ListenerId, LoopId, PromiseGroupId, RunId, ScopeId, TaskId,
};
pub use crate::runtime::machine::Machine;
pub(in crate::runtime) use crate::runtime::python_bridge::PythonBridge;
pub use crate::runtime::python_bridge::rendering::{RenderedFields, Rendering};
pub(in crate::runtime) use crate::runtime::report::Report;
pub(in crate::runtime) use crate::runtime::scheduler::steps::{Action, Pending, Step, Task};
pub(in crate::runtime) use crate::runtime::scheduler::{Listener, Scheduler};
pub use crate::runtime::speed::prefetch::PREFETCHED_STEPS;
pub use crate::runtime::speed::tiling::Tiling;
pub use crate::runtime::state::ModelState;
pub use crate::runtime::state::instances::Instance;
pub use crate::runtime::state::model::ReadError;
pub(in crate::runtime) use crate::runtime::state::scopes::Scope;
pub(in crate::runtime) use crate::runtime::state::var::Chain;
pub use crate::runtime::state::var::{Var, VarKind};
pub(in crate::runtime) use crate::runtime::state::vars::Vars;
pub(in crate::runtime) use crate::types::InstId;
