//! The modelling language: text in, desired state and diagnostics out.

mod api;
pub mod protocol;

pub use api::*;
