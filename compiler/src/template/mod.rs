//! The template engine made to speak Python: Jinja2's syntax, filters, tests and errors over `minijinja`. Source:
//! docs/reference/std.md § 7.
//!
//! `source` rewrites a template where Jinja2 reads it otherwise than the engine, and decides what Jinja2 decides before it renders; `engine` assembles an environment of
//! `filters`, `markup`, `sorting`, `methods`, `choosing`, `conditions` (Jinja2's tests) and `plugin_filters`, with what `arguments` has for all of them; `objects` are the values
//! that templates see; `repr`, `text` and `format` write them as Python does; `undefined` finds the name that an error is
//! about, `path` how a template got to an object. The running model is known by one trait only, [`TemplateModel`]: start reading in `model`.

mod arguments;
mod choosing;
mod conditions;
mod engine;
mod filters;
mod format;
mod markup;
mod methods;
mod model;
mod objects;
mod path;
mod plugin_filters;
mod repr;
mod sorting;
mod source;
mod text;
mod undefined;

pub(crate) use engine::environment;
pub(crate) use model::{
    Lookup, ReferencePlace, RequestChannel, SharedModel, TemplateModel, TemplateRequest,
};
pub(crate) use objects::model_objects::root;
pub(crate) use source::dotted_filters::with_dots;
pub(crate) use source::prepared;
pub(crate) use undefined::{Missing, MissingName};
