//! Between the running model and Python: calls of plugins, values on the wire, what the export asks
//! for.
//!
//! Plugins of modules are Python, and run in a process of their own, the Python host
//! (`crate::python_host`). A call is one frame there and one back. While it runs, the plugin may
//! read the model: it has instances as handles, and asks for their attributes in *host callbacks*,
//! which are answered in the middle of the call.
//!
//! - `calls`: values on the wire, in both directions, and how an answer that is no value becomes an
//!   error.
//! - `call`: writes the frame of a call.
//! - `ahead`: calls behind it in the queue that go in the same frame.
//! - `told`: attributes that travel with instances, so that they need not be asked for.
//! - `host_callbacks`: answers to what a running plugin asks.
//! - `dataclasses`, `references`: values that have a form of their own on the wire.
//! - `export`: what the export asks Python about resources.

pub(in crate::runtime) mod ahead;
pub(in crate::runtime) mod call;
pub(in crate::runtime) mod calls;
pub(in crate::runtime) mod dataclasses;
pub(in crate::runtime) mod export;
pub(in crate::runtime) mod host_callbacks;
pub(in crate::runtime) mod references;
pub(in crate::runtime) mod told;
