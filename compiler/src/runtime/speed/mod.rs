//! What makes large models fast, and changes no answer.

pub(in crate::runtime) mod direct_steps;
pub(in crate::runtime) mod memory;
pub(in crate::runtime) mod observers;
pub(in crate::runtime) mod prefetch;
pub(in crate::runtime) mod tiling;
