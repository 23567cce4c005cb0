//! Steward: a commit goes in at one end, the infrastructure is as the commit says at the other.

pub mod agent;
pub mod api;
pub mod app;
pub mod cli;
pub mod compile;
pub mod config;
pub mod deploy;
pub mod domain;
pub mod executor;
pub mod facts;
pub mod files;
pub mod forge;
#[doc(hidden)]
pub mod fuzzing;
pub mod gc;
pub mod git;
pub mod lsm;
pub mod metrics;
pub mod modules;
pub mod observe;
pub mod process;
pub mod python;
pub mod sandbox;
pub mod server;
pub mod store;
pub mod watch;
