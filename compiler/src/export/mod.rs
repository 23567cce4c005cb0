//! Instances to resources: fields, ids, requires, hashes, sets. Source: language.md 12.

mod assemble;
mod catalog;
mod dependencies;
mod dump;
mod fields;
mod fit;
mod json;
mod partial;
mod plan;
mod references;
mod registry;
mod resources;
mod sets;
mod sink;

pub use dump::dump;
pub use fields::resource_id;
pub use json::{JsonWriter, export_json};
pub use partial::{PartialError, merge_partial};
pub use references::{Models as ReferenceModels, NoModel};
pub use registry::Field;
pub use resources::export;
pub use sink::{ResourceRef, ResourceSink};
