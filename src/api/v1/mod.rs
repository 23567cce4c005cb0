//! Calls of version 1 of the API that have another shape than those of version 2: older clients, and the command line of the
//! reference, know only them. They do the same. Source: docs/reference/rest.md § 1, § 4.

pub(super) mod agents;
pub(super) mod compiles;
pub(super) mod dry_runs;
pub(super) mod environments;
pub(super) mod projects;
pub(super) mod resources;
pub(super) mod settings;
pub(super) mod shapes;
pub(super) mod versions;
