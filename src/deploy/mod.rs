//! From a released version to hosts that are as it says: decide purely, act plainly.
//!
//! `schedule` decides what runs next and is a value without clock, store or task. `engine` is the one loop an
//! environment has around it: it reads versions, writes results in batches and feeds the schedule. Handlers run in the
//! process at the other end of `executor::link`. Nothing here knows how a version came to be.

mod ask;
mod code;
mod engine;
mod explain;
mod facts;
mod intent;
mod schedule;

pub use ask::{ApiRequest, ApiRequests, discovered_input};
pub use code::{Needed, needed_by_code};
pub(crate) use engine::LIFECYCLE_TRANSFER;
pub use engine::{DeployKind, Engine, Inspected, Options, RequestError, Scheduled};
pub use explain::{add_waiting, explain, explain_without_server, root_that_deploys};
pub use intent::Intent;
use intent::Reading;
