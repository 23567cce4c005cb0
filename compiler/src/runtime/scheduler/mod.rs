//! The order in which everything happens. Source: docs/reference/language.md § 8.7.
//!
//! One step runs at a time, and all that is ready stands in one queue, first in, first out. That
//! alone fixes the order in which values arrive. What remains to be decided is when a relation has
//! all its elements, and that is where orders show: of two relations that could be declared
//! complete now, the first decides what the second gets to see.
//!
//! - `steps`: what a task is, and the kinds of steps.
//! - `tasks`: who waits for which variable, and how a task comes into the queue, once or several
//!   times.
//! - `ready_queue`: the queue of steps that are ready.
//! - `wait_queue`: the main loop, and the rule by which relations are declared complete.
//! - `creation_order`: the numbers that say which task is older.

pub(in crate::runtime) mod creation_order;
pub(in crate::runtime) mod ready_queue;
pub(in crate::runtime) mod steps;
pub(in crate::runtime) mod tasks;
pub(in crate::runtime) mod wait_queue;
