//! Processes that compile. `pool` is the server's side: compile slots, and workers to fill them. `process` is the life of
//! a worker: it enters the sandbox of one environment, then reads projects and compiles them. `frames` is what the two say
//! to each other, `scratch` the folder that a compile may fill.
//!
//! Nothing that comes out of a repository is parsed by the server: a worker reads it, within limits of time and memory, and
//! tells what the server must know in a frame of limited size.
//! `commit_code` says what may be kept from one commit to the next.
//! `breadcrumb` is how a worker that was killed still says where it was; `stopped` notices one that somebody has stopped.

mod breadcrumb;
mod commit_code;
mod frames;
mod memory;
mod pool;
mod process;
mod reported;
mod scratch;
mod stopped;

pub use frames::read_any_frame;
pub(super) use frames::{Job, JobDone, Reported};
pub(super) use pool::{Inventory, PoolError};
pub use pool::{Pool, PoolOptions};
pub use process::run;
