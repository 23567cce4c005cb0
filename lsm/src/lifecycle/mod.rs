//! The state machine of an instance, as a function: what happened, and what follows from it.
//!
//! Source: docs/reference/lsm.md § 3.5 to § 3.12, § 3.14, § 3.15.

mod decision;
mod trigger;

pub use decision::{Decision, Effect, Event, EventType, Next, Refusal, Severity, Validation};
pub use trigger::{
    Change, Edge, Edit, EditOperation, Migration, NewInstance, Request, Settings, Trigger,
};
