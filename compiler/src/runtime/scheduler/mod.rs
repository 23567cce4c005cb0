//! The order in which everything happens. Source: docs/reference/language.md § 8.7.

pub(in crate::runtime) mod creation_order;
pub(in crate::runtime) mod ready_queue;
pub(in crate::runtime) mod steps;
pub(in crate::runtime) mod tasks;
pub(in crate::runtime) mod wait_queue;
