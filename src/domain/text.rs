//! Texts of unknown origin, for a line of a log or a terminal.

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
