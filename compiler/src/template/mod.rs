//! The template engine made to speak Python: Jinja2's syntax, filters, tests and errors over `minijinja`.

pub(super) mod conditions;
pub(super) mod engine;
pub(super) mod filters;
pub(super) mod format;
pub(super) mod markup;
pub(super) mod methods;
pub(super) mod objects;
pub(super) mod sorting;
pub(super) mod source;
pub(super) mod text;
pub(super) mod undefined;
