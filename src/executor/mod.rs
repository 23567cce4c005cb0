//! Executors: processes that bring the resources of an environment to their desired state.
//!
//! The server holds the near end of an executor (`link`), a process of the same binary is the far end ([`process`]),
//! [`protocol`] is what they say to one another, and a `transport` carries it. In the process, `agents` are queues of tasks,
//! which threads work off; `agent` runs a task with a native handler (`handler`, run by `native`) or through a Python host
//! (`python`) that imports the version's code from a folder (`code_folder`). `hosts` decides which agents have a host.
//! An executor on another machine that somebody started there (`steward agent`) speaks [`remote`] with the server.
//! What packages the code of handlers needs, [`packages`] has installed before it runs.
//! Whether bytes move on a slow line, `progress` counts.
//! [`limits`] says how many there are; how much of what handlers say is kept is in [`bounds`],
//! and which of it is not shown in `secret_names`. Times of a machine whose clock is wrong, `clock` makes ours.

pub mod access;
mod agent;
pub(crate) mod agent_code;
mod agents;
pub mod bounds;
pub(crate) mod clock;
mod code_folder;
mod connections;
pub(crate) mod external;
pub mod far_codes;
pub(crate) mod far_python;
pub mod handler;
mod hosts;
pub mod limits;
pub(crate) mod link;
mod native;
mod outbox;
mod output_capture;
pub mod packages;
pub(crate) mod places;
pub mod process;
pub(crate) mod progress;
pub mod protocol;
mod python;
pub mod remote;
pub(crate) mod replies;
pub(crate) mod secret_names;
pub(crate) mod transport;
mod unreached;
pub mod variables;
pub mod waiting;

pub use code_folder::gc_code_folders;
