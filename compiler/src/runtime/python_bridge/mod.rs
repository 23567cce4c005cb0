//! Between the running model and Python: calls, values over the wire, what the export asks for.

pub(in crate::runtime) mod ahead;
pub(in crate::runtime) mod call;
pub(in crate::runtime) mod calls;
pub(in crate::runtime) mod dataclasses;
pub(in crate::runtime) mod export;
pub(in crate::runtime) mod host_callbacks;
pub(in crate::runtime) mod references;
pub(in crate::runtime) mod told;
