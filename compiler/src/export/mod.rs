//! Instances to resources: fields, ids, requires, hashes, sets. Source: docs/reference/language.md § 12.

mod agents;
mod assemble;
mod catalog;
mod dependencies;
mod dump;
mod fields;
mod fit;
mod json;
mod partial;
mod references;
mod resources;
mod sets;
mod sink;

pub use agents::agents;
pub use dump::dump;
pub use json::{JsonWriter, export_json};
pub use partial::{PartialError, merge_partial};
pub use resources::{check_resources, export};
pub use sink::{ResourceRef, ResourceSink};
