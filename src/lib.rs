//! Steward: a commit goes in at one end, the infrastructure is as the commit says at the other.

pub mod agent;
pub mod compile;
pub mod deploy;
pub mod domain;
pub mod git;
pub mod observe;
pub mod process;
pub mod store;
