//! Filters whose names have dots, as the reference lets templates write plugins: `{{ name | std.upper }}`. In Jinja2 dots
//! behind the name of a filter belong to it, whether there is such a filter or not.

use std::borrow::Cow;

use crate::template::source::rewrite::{is_word, string_end};

/// Names of filters are written with these instead of their dots.
pub(in crate::template) const DOT: &str = "__dot__";

/// The inside of a tag, so that the engine takes the names of filters for one name each. `is_filter`: it begins with the word
/// `filter`, whose name follows.
pub(in crate::template) fn without_dots(inner: &str, is_filter: bool) -> Cow<'_, str> {
    if !inner.contains('.') || !(is_filter || inner.contains('|')) {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len() + DOT.len());
    let mut at = 0;
    if is_filter {
        at = inner.find("filter").map_or(0, |at| at + "filter".len());
        out.push_str(&inner[..at]);
        at += name(&inner[at..], &mut out);
    }
    while let Some(c) = inner[at..].chars().next() {
        let length = match c {
            '"' | '\'' => string_end(&inner[at..]),
            c => c.len_utf8(),
        };
        out.push_str(&inner[at..at + length]);
        at += length;
        if c == '|' {
            at += name(&inner[at..], &mut out);
        }
    }
    Cow::Owned(out)
}

/// Writes the name of a filter, with the blanks before it; how long they are.
fn name(text: &str, out: &mut String) -> usize {
    let start = text.len() - text.trim_start().len();
    let length = text[start..].find(|c| !is_word(c) && c != '.');
    let end = length.map_or(text.len(), |length| start + length);
    out.push_str(&text[..start]);
    out.push_str(&text[start..end].replace('.', DOT));
    end
}

/// A text of the engine's about a filter, with its name as it is written.
pub(crate) fn with_dots(text: &str) -> String {
    text.replace(DOT, ".")
}
