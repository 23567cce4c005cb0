//! The text of a Python file without running it: what is string or comment, and the logical lines.

/// A statement's line with those that its brackets and backslashes join to it.
pub(in crate::analysis) struct LogicalLine<'a> {
    /// The number of its first line, from 1.
    pub number: u32,
    /// Blanks before it.
    pub indent: usize,
    /// The text as it is written, without the blanks before it.
    pub raw: &'a str,
    /// The same, byte for byte, without what is in strings and comments.
    pub code: &'a str,
    /// All that comes after it.
    pub rest: &'a str,
}

/// The text with blanks in the place of what strings and comments say. It has the same number of bytes, and its lines end
/// where they did, but for those in strings.
pub(in crate::analysis) fn blanked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let n_bytes = match c {
            '#' => {
                let end = rest.find('\n').unwrap_or(rest.len());
                blank(&mut out, end);
                end
            }
            '"' | '\'' => {
                let is_long = rest.len() >= 3 && rest.bytes().take(3).all(|b| b == c as u8);
                let quotes = if is_long { 3 } else { 1 };
                let end = quotes + string_end(&rest[quotes..], c, is_long);
                out.push_str(&rest[..quotes]);
                blank(&mut out, end - quotes);
                if rest[end..].starts_with(c) {
                    out.push_str(&rest[end..end + quotes]);
                    end + quotes
                } else {
                    end
                }
            }
            _ => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[n_bytes..];
    }
    out
}

fn blank(out: &mut String, n_bytes: usize) {
    out.extend(std::iter::repeat_n(' ', n_bytes));
}

/// Where the text of a string ends: at its quotes, or where the line of a short one ends.
fn string_end(text: &str, quote: char, is_long: bool) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '\n' if !is_long => return at,
            c if c == quote && (!is_long || is_tripled(&text[at..], quote)) => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_tripled(text: &str, quote: char) -> bool {
    text.bytes().take(3).filter(|b| *b == quote as u8).count() == 3
}

/// The logical lines of a text and of what [`blanked`] makes of it.
pub(in crate::analysis) fn logical_lines<'a>(text: &'a str, code: &'a str) -> Vec<LogicalLine<'a>> {
    let mut lines = Vec::new();
    let (mut start, mut number, mut n_newlines) = (0, 1, 0);
    let (mut depth, mut joined) = (0_u32, false);
    for (at, byte) in code.bytes().enumerate() {
        // Those in strings are blank in the code.
        if text.as_bytes()[at] == b'\n' {
            n_newlines += 1;
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' if depth == 0 && !joined => {
                lines.extend(logical_line(text, code, start, at, number));
                start = at + 1;
                number = n_newlines + 1;
            }
            _ => {}
        }
        joined = byte == b'\\' || (joined && byte == b'\r');
    }
    lines.extend(logical_line(text, code, start, code.len(), number));
    lines
}

fn logical_line<'a>(
    text: &'a str,
    code: &'a str,
    start: usize,
    end: usize,
    number: u32,
) -> Option<LogicalLine<'a>> {
    let indent = code[start..end].len() - code[start..end].trim_start().len();
    let start = start + indent;
    let code = code[start..end].trim_end();
    (!code.is_empty()).then(|| LogicalLine {
        number,
        indent,
        raw: &text[start..start + code.len()],
        code,
        rest: &text[end..],
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::python_text::*;

    #[test]
    fn strings_and_comments_say_nothing() {
        let text = "a = 'x#\\'y' # \"é\nb = \"\"\"é\n@plugin\n\"\"\"\nc = (1, # [\n  ')')\n  d = \"open\ne";
        let code = blanked(text);
        assert_eq!(code.len(), text.len());
        let lines: Vec<(u32, usize, String)> = logical_lines(text, &code)
            .iter()
            .map(|line| {
                let words: Vec<&str> = line.code.split_whitespace().collect();
                (line.number, line.indent, words.join(" "))
            })
            .collect();
        let expected = [
            (1, 0, "a = ' '"),
            (2, 0, "b = \"\"\" \"\"\""),
            (5, 0, "c = (1, ' ')"),
            (7, 2, "d = \""),
            (8, 0, "e"),
        ];
        let expected = expected.map(|(number, indent, code)| (number, indent, code.to_owned()));
        assert_eq!(lines, expected);
    }
}
