//! Resources as such: which entities are resources and by which class ([`registry`]), how an entity's instances become some
//! ([`plan`]), their ids ([`ids`]), and what is known of the references that they hold. The runtime needs this for plugins
//! that ask for a resource's id, the export for all of them.

mod ids;
mod native;
mod plan;
mod references;
mod registry;

pub(crate) use ids::{EMPTY, INVALID_ID, ResourceModel, write_id, write_own_id};
pub(crate) use plan::{FieldPlan, Plan, plans};
pub use references::{ExportedReference, NoModel, ReferenceModels};
pub use registry::{check_names, registrations};
