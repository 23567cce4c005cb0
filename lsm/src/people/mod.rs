//! What people look at: state diagrams of lifecycles, the schema of a service's attributes, and the description of its API.

mod diagram;
mod openapi;
mod schema;
mod svg;

pub use diagram::{dot, mermaid};
pub use openapi::openapi;
pub use schema::{Purpose, schema};
pub use svg::svg;
