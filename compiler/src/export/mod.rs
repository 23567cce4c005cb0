//! Instances to resources: fields, ids, requires, hashes, sets. Source: language.md 12.

mod dependencies;
mod dump;
mod fields;
mod json;
mod references;
mod registry;
mod resources;

pub use dump::dump;
pub use fields::resource_id;
pub use json::{NotJson, export_json, write_json};
pub use references::Models as ReferenceModels;
pub use registry::Field;
pub use resources::export;
