//! Texts of unknown origin, for a line of a log or a terminal.

use std::borrow::Cow;

/// Makes text of unknown origin fit for one line of a log or a terminal: control characters become `?`,
/// and what is longer than `max` characters is cut.
pub fn printable(text: &str, max: usize) -> String {
    let mut line: String = text
        .trim()
        .chars()
        .take(max)
        .map(|c| if is_unprintable(c) { '?' } else { c })
        .collect();
    if text.trim().chars().nth(max).is_some() {
        line.push('…');
    }
    line
}

/// Control characters, and those that reorder or hide text around them.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The begin and the end of a text that has more than `limit` bytes, with a mark between them.
pub fn without_middle(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let first = text.floor_char_boundary(limit / 2);
    let last = text.ceil_char_boundary(text.len() - limit / 2);
    let n_cut = last - first;
    format!(
        "{}\n[... {n_cut} bytes were left out here ...]\n{}",
        &text[..first],
        &text[last..]
    )
    .into()
}
