//! Values of templates that Python has and the engine has not.

pub(in crate::template) mod bytes;
pub(in crate::template) mod containers;
pub(in crate::template) mod model_objects;
pub(in crate::template) mod views;
