//! Filters whose names have dots, as the reference lets templates write plugins: `{{ name | std.upper }}`.

use crate::hir::Program;

/// Dotted filters are written with these instead of the dot.
pub(in crate::template) const DOT: &str = "__dot__";

/// Writes dotted filter names so that the engine takes them for one name.
pub(in crate::template) fn without_dots(source: &str, program: &Program) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('|') {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        let blanks = after.len() - after.trim_start().len();
        let body = &after[blanks..];
        let end = body
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            .unwrap_or(body.len());
        let name = &body[..end];
        let full = name.replace('.', "::");
        let known = name.contains('.')
            && program
                .names
                .find(&full)
                .is_some_and(|symbol| program.plugins.iter().any(|plugin| plugin.name == symbol));
        if known {
            out.push_str(&after[..blanks]);
            out.push_str(&name.replace('.', DOT));
            rest = &body[end..];
        } else {
            rest = after;
        }
    }
    out.push_str(rest);
    out
}
