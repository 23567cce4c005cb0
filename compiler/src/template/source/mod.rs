//! What Jinja2 reads otherwise than the engine: a template's text is rewritten before it is parsed.

pub(in crate::template) mod macros;
pub(in crate::template) mod rewrite;
