//! Steward.

pub mod git;
