//! Tables and values as people read them.

use serde_json::Value;

use crate::cli::terminal::{Paint, Style, printable};
use crate::domain::Timestamp;

/// Characters of a cell; the last column has all that it needs.
const MAX_CELL: usize = 36;

/// One cell: its text, and how it is shown.
pub(super) type Cell = (String, Option<Style>);

/// A text without a colour.
pub(super) fn plain(text: impl AsRef<str>) -> Cell {
    (printable(text.as_ref()).replace(['\n', '\t'], " "), None)
}

/// Lines with columns side by side, below their titles.
pub(super) fn table(titles: &[&str], rows: &[Vec<Cell>], paint: Paint) -> String {
    let mut widths: Vec<usize> = titles.iter().map(|title| title.chars().count()).collect();
    for row in rows {
        for (width, (text, _)) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count().min(MAX_CELL));
        }
    }
    let titles: Vec<Cell> = titles
        .iter()
        .map(|title| ((*title).to_owned(), Some(Style::Dim)))
        .collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for (at, (cell, style)) in row.iter().enumerate() {
            let is_last = at + 1 == row.len();
            let shown = if is_last {
                cell.clone()
            } else {
                shortened(cell)
            };
            let n_missing = widths[at].saturating_sub(shown.chars().count());
            line.push_str(&style.map_or(shown.clone(), |style| paint.paint(&shown, style)));
            if !is_last {
                line.push_str(&" ".repeat(n_missing + 2));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_CELL {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_CELL - 1).collect();
    format!("{kept}…")
}

/// Attributes, a line each; what is inside of another one stands below it.
pub(super) fn attributes(value: &Value, indent: usize) -> String {
    let mut text = String::new();
    let Some(fields) = value.as_object() else {
        return text;
    };
    let space = " ".repeat(indent);
    for (name, value) in fields {
        let name = printable(name);
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push_str(&format!("{space}{name}:\n"));
                text.push_str(&attributes(value, indent + 2));
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                text.push_str(&format!("{space}{name}:\n"));
                for item in items {
                    let lines = attributes(item, indent + 4);
                    // The first line of an element has a dash.
                    let begin = format!("{space}  - ");
                    text.push_str(&begin);
                    text.push_str(lines.get(indent + 4..).unwrap_or("\n"));
                }
            }
            value => text.push_str(&format!("{space}{name}: {}\n", shown(value))),
        }
    }
    text
}

/// A value on one line.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text).replace('\n', "\\n"),
        value => printable(&value.to_string()),
    }
}

/// A time without the parts that nobody reads: `2026-11-22 21:05:09 UTC`.
pub(super) fn time(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    match Timestamp::parse(text) {
        Some(moment) => moment.for_people(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_no_line_ends_with_spaces() {
        let rows = [
            vec![plain("ams1"), plain("up"), plain("a\nb")],
            vec![plain("x".repeat(50)), plain("creating"), plain("")],
        ];
        let text = table(&["name", "state", "more"], &rows, Paint::none());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| *line == line.trim_end()), "{text}");
        assert!(
            lines[1].starts_with("ams1 ") && lines[1].ends_with("up        a b"),
            "{text}"
        );
        assert!(lines[2].contains("x…  creating"), "{text}");
    }

    #[test]
    fn what_is_inside_of_an_attribute_stands_below_it() {
        let value = json!({"a": "x\u{1b}[1m", "b": null, "c": {"d": [1, 2]}, "e": [{"f": 1, "g": true}, {"f": 2}]});
        let expected = "  a: x\u{fffd}[1m\n  b: -\n  c:\n    d: [1,2]\n  e:\n    - f: 1\n      g: true\n    - f: 2\n";
        assert_eq!(attributes(&value, 2), expected);
    }
}
