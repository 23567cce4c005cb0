//! Runs a program: dataflow over arenas, exactly as docs/reference/language.md § 8 has it.
//!
//! Start reading at [`Machine`] and its parts, then at `Machine::run` in `scheduler/wait_queue`: `exec/dependencies` creates
//! tasks, `exec/run` executes them, `exec/eval` computes values; `state/store` and `state/delayed` change variables;
//! `speed/tiling` says how large models stay in the cache. Everything is an index: variables, tasks, scopes and instances
//! are `u32`.

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
pub use crate::runtime::python_bridge::export::RenderedFields;
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
