//! Texts as Jinja2 and Python make them; no template engine here.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value as Jinja};

use crate::template::repr::{repr, shown};

pub(in crate::template) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&#34;")
}

/// Cuts a text that is longer than `length + leeway`, at a blank unless words may be cut.
pub(in crate::template) fn truncated(
    text: &str,
    length: usize,
    kill: bool,
    end: &str,
    leeway: usize,
) -> String {
    let n_chars = text.chars().count();
    if n_chars <= length.saturating_add(leeway) {
        return text.to_owned();
    }
    let cut: String = text
        .chars()
        .take(length.saturating_sub(end.chars().count()))
        .collect();
    match cut.rsplit_once(' ') {
        Some((words, _)) if !kill => format!("{words}{end}"),
        _ => format!("{cut}{end}"),
    }
}

pub(in crate::template) struct WordWrap {
    pub width: usize,
    pub break_long_words: bool,
    pub break_on_hyphens: bool,
}

impl WordWrap {
    /// Lines of at most `width` characters; blanks between the words of a line are kept.
    pub fn wrap(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = String::new();
        let mut length = 0;
        let mut pieces: std::collections::VecDeque<String> = self.pieces(text).into();
        while let Some(piece) = pieces.pop_front() {
            let n_chars = piece.chars().count();
            let blank = piece.trim().is_empty();
            if blank && line.is_empty() && !lines.is_empty() {
                continue;
            }
            if length + n_chars <= self.width {
                line.push_str(&piece);
                length += n_chars;
                continue;
            }
            if n_chars > self.width && self.break_long_words && !blank {
                let room = self.width - length;
                let (head, tail): (String, String) = (
                    piece.chars().take(room).collect(),
                    piece.chars().skip(room).collect(),
                );
                line.push_str(&head);
                pieces.push_front(tail);
            } else if line.trim().is_empty() && !blank {
                line.push_str(&piece);
            } else if !blank {
                pieces.push_front(piece);
            }
            lines.push(line.trim_end().to_owned());
            line.clear();
            length = 0;
        }
        if !line.trim_end().is_empty() || lines.is_empty() {
            lines.push(line.trim_end().to_owned());
        }
        lines
    }

    /// Words and the blanks between them; words end behind hyphens, too.
    fn pieces(&self, text: &str) -> Vec<String> {
        let mut pieces: Vec<String> = Vec::new();
        let mut blank = None;
        let mut after_hyphen = false;
        for c in text.chars() {
            let is_blank = c.is_whitespace();
            if blank == Some(is_blank) && (is_blank || !after_hyphen) {
                if let Some(piece) = pieces.last_mut() {
                    piece.push(c);
                }
            } else {
                pieces.push(c.to_string());
            }
            blank = Some(is_blank);
            let in_word = pieces.last().is_some_and(|piece| piece.chars().count() > 1);
            after_hyphen = self.break_on_hyphens && c == '-' && in_word;
        }
        pieces
    }
}

/// Rounds as Python's `round` does: half to even, over the exact decimal value.
pub(in crate::template) fn round_half_even(value: f64, precision: i32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    match usize::try_from(precision) {
        // The formatter rounds the exact value, ties to even.
        Ok(precision) => format!("{value:.*}", precision.min(300))
            .parse()
            .unwrap_or(value),
        Err(_) => {
            let scale = 10f64.powi(precision.saturating_neg());
            (value / scale).round_ties_even() * scale
        }
    }
}

pub(in crate::template) fn file_size(bytes: f64, binary: bool) -> String {
    let base = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return "1 Byte".to_owned();
    }
    if bytes < base {
        return format!("{} Bytes", bytes.trunc());
    }
    let units = if binary {
        ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]
    } else {
        ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]
    };
    let mut unit = base;
    for (at, name) in units.iter().enumerate() {
        if bytes < unit * base || at + 1 == units.len() {
            return format!("{:.1} {name}", bytes / unit);
        }
        unit *= base;
    }
    String::new()
}

pub(in crate::template) fn quoted_url(text: &str, form: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(byte as char)
            }
            b'/' if !form => out.push('/'),
            b' ' if form => out.push('+'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Writes a value as `json.dumps` does with sorted keys.
pub(in crate::template) fn write_json(
    value: &Jinja,
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    let newline = |out: &mut String, depth: usize| {
        if let Some(indent) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent * depth));
        }
    };
    let separator = if indent.is_some() { "," } else { ", " };
    if crate::template::objects::model_objects::is_view(value) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "a view of a list, a dict or a range is not JSON serializable",
        ));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&shown(value)),
        ValueKind::String => crate::types::json::write_text(value.as_str().unwrap_or(""), out),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Jinja> = value.try_iter()?.collect();
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(separator);
                }
                newline(out, depth + 1);
                write_json(item, indent, depth + 1, out)?;
            }
            if !items.is_empty() {
                newline(out, depth);
            }
            out.push(']');
        }
        ValueKind::Map => {
            let mut keys: Vec<Jinja> = value.try_iter()?.collect();
            keys.sort();
            out.push('{');
            for (at, key) in keys.iter().enumerate() {
                if at > 0 {
                    out.push_str(separator);
                }
                newline(out, depth + 1);
                crate::types::json::write_text(&shown(key), out);
                out.push_str(": ");
                write_json(&value.get_item(key)?, indent, depth + 1, out)?;
            }
            if !keys.is_empty() {
                newline(out, depth);
            }
            out.push('}');
        }
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{} is not JSON serializable", shown(value)),
            ));
        }
    }
    Ok(())
}

/// The text as Python writes it, with the keys of dicts sorted.
fn sorted_repr(value: &Jinja) -> String {
    let items = || -> Vec<Jinja> { value.try_iter().map(Iterator::collect).unwrap_or_default() };
    match value.kind() {
        _ if crate::template::objects::model_objects::is_view(value) => repr(value),
        ValueKind::Map => {
            let mut keys = items();
            keys.sort();
            let entry = |key: &Jinja| {
                let item = value.get_item(key).unwrap_or(Jinja::UNDEFINED);
                format!("{}: {}", repr(key), sorted_repr(&item))
            };
            let entries: Vec<String> = keys.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        ValueKind::Seq if !repr(value).starts_with('(') => {
            let parts: Vec<String> = items().iter().map(sorted_repr).collect();
            format!("[{}]", parts.join(", "))
        }
        _ => repr(value),
    }
}

/// The text of a value as `pprint.pformat` lays it out: on one line where 80 characters suffice,
/// else one item a line.
pub(in crate::template) fn pretty(value: &Jinja, indent: usize) -> String {
    if crate::template::objects::model_objects::is_view(value) {
        return repr(value);
    }
    let line = sorted_repr(value);
    let (open, close) = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => ('[', ']'),
        ValueKind::Map => ('{', '}'),
        _ => return line,
    };
    if indent + line.chars().count() < 80 {
        return line;
    }
    let mut keys: Vec<Jinja> = value.try_iter().map(Iterator::collect).unwrap_or_default();
    let separator = format!(",\n{}", " ".repeat(indent + 1));
    let items: Vec<String> = if open == '{' {
        keys.sort();
        keys.iter()
            .map(|key| {
                let name = repr(key);
                let inner = value.get_item(key).unwrap_or(Jinja::UNDEFINED);
                let text = pretty(&inner, indent + name.chars().count() + 3);
                format!("{name}: {text}")
            })
            .collect()
    } else {
        keys.iter().map(|item| pretty(item, indent + 1)).collect()
    };
    format!("{open}{}{close}", items.join(&separator))
}
