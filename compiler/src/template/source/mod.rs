//! What Jinja2 reads otherwise than the engine: a template's text is rewritten before it is parsed, line by line, so that
//! errors keep their lines.

pub(in crate::template) mod compiled;
pub(in crate::template) mod dotted_filters;
pub(in crate::template) mod macros;
pub(in crate::template) mod rewrite;

/// The text of a template as the engine shall read it.
pub(crate) fn prepared(source: &str) -> String {
    rewrite::adapt(source)
}
