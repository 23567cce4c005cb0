//! Steward.

pub mod forge;
pub mod git;
