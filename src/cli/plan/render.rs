//! A plan as people read it: resources that change with their attributes, the others by their numbers.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Plan, Verdict, attributes};
use crate::cli::terminal::{Page, Paint, Style, printable};

/// Lines of one text that are shown; of the others there is a count.
const MAX_LINES: usize = 40;
/// Characters of one value that are shown.
const MAX_CHARS: usize = 300;
/// Characters that are the same in two long values, shown before what differs.
const SAME_CHARS: usize = 40;
/// Unchanged lines around changed ones.
const AROUND: usize = 2;

/// The whole text, with an end of line.
pub(super) fn text(plan: &Plan, paint: Paint) -> String {
    let mut page = Page::new(paint);
    for difference in &plan.differences {
        page.resource(difference);
    }
    for id in &plan.unmanaged {
        let mark = paint.paint("!", Style::Yellow);
        page.line(&format!("  {mark} {}", printable(id)));
        page.detail("no longer in the model: it is not managed any more, and stays as it is");
    }
    page.summary(plan);
    page.text
}

impl Page {
    fn detail(&mut self, text: &str) {
        let text = self.paint.paint(text, Style::Dim);
        self.line(&format!("      {text}"));
    }

    fn resource(&mut self, difference: &Value) {
        let id = difference["resource_id"].as_str().unwrap_or_default();
        let verdict = Verdict::of(difference);
        let (mark, style) = match verdict {
            Verdict::Unchanged => return,
            Verdict::Added => ("+", Style::Green),
            Verdict::Changed => ("~", Style::Yellow),
            Verdict::Removed => ("-", Style::Red),
            Verdict::Reported => ("≠", Style::Yellow),
            Verdict::Failed => ("✗", Style::Red),
            Verdict::Skipped | Verdict::Undefined | Verdict::Paused => ("○", Style::Yellow),
        };
        let mark = self.paint.paint(mark, style);
        self.line(&format!("  {mark} {}", printable(id)));
        match verdict {
            Verdict::Removed => self.detail("is removed from its target"),
            Verdict::Paused => self.detail("not compared: its agent is paused"),
            Verdict::Undefined if difference["status"] == "undefined" => {
                self.detail("not compared: it waits for a value that is not known yet");
            }
            Verdict::Undefined => {
                self.detail("not compared: a resource that it requires waits for a value");
            }
            Verdict::Skipped => {
                let reason = difference["skipped"].as_str().unwrap_or_default();
                let reason = printable(reason);
                self.detail(&format!("not compared: its handler skips it: {reason}"));
            }
            Verdict::Failed => {
                let why = difference["attributes"]["handler"]["to_value"].as_str();
                let why = printable(why.unwrap_or_default());
                let why = self.paint.paint(&why, Style::Red);
                self.line(&format!("      cannot be compared: {why}"));
            }
            Verdict::Added | Verdict::Changed => self.attributes(difference, verdict),
            Verdict::Reported => {
                self.detail("differs, and is only reported: it stays as it is");
                self.attributes(difference, verdict);
            }
            Verdict::Unchanged => {}
        }
    }

    fn attributes(&mut self, difference: &Value, verdict: Verdict) {
        let attributes = attributes(difference);
        let is_shown = |name: &String| !(verdict == Verdict::Added && name == "purged");
        let names = attributes.keys().filter(|name| is_shown(name));
        let width = names
            .clone()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0);
        for name in names {
            let change = &attributes[name];
            let (from, to) = (&change["from_value"], &change["to_value"]);
            let padded = format!("{name:<width$}");
            match (from.as_str(), to.as_str()) {
                (_, Some(to))
                    if matches!(verdict, Verdict::Changed | Verdict::Reported)
                        && to.contains('\n') =>
                {
                    self.line(&format!("      {name}"));
                    self.line_difference(from.as_str().unwrap_or_default(), to);
                }
                _ if verdict == Verdict::Added => {
                    let to = self.paint.paint(&cut(&in_full(to), 0), Style::Green);
                    self.line(&format!("      {padded}  {to}"));
                }
                _ => {
                    let (from, to) = (in_full(from), in_full(to));
                    let n_same = n_left_out(&from, &to);
                    let from = self.paint.paint(&cut(&from, n_same), Style::Red);
                    let to = self.paint.paint(&cut(&to, n_same), Style::Green);
                    self.line(&format!("      {padded}  {from} → {to}"));
                }
            }
        }
    }

    /// The lines of a text that change, with a few around them.
    fn line_difference(&mut self, from: &str, to: &str) {
        let difference = TextDiff::from_lines(from, to);
        let mut lines = Vec::new();
        for (index, group) in difference.grouped_ops(AROUND).iter().enumerate() {
            if index > 0 {
                lines.push(("…".to_owned(), Style::Dim));
            }
            for op in group {
                let changes: Vec<_> = difference.iter_changes(op).collect();
                let texts: Vec<String> = changes
                    .iter()
                    .map(|change| printable(change.value().trim_end_matches('\n')))
                    .collect();
                let (n_old, n_new) = (op.old_range().len(), op.new_range().len());
                for (index, (change, text)) in changes.iter().zip(&texts).enumerate() {
                    // Of lines that take the place of others, the ones that go come first.
                    let (sign, style, other) = match change.tag() {
                        ChangeTag::Delete if index < n_new => {
                            ("-", Style::Red, Some(n_old + index))
                        }
                        ChangeTag::Delete => ("-", Style::Red, None),
                        ChangeTag::Insert if index < 2 * n_old => {
                            ("+", Style::Green, index.checked_sub(n_old))
                        }
                        ChangeTag::Insert => ("+", Style::Green, None),
                        ChangeTag::Equal => (" ", Style::Dim, None),
                    };
                    let other = other.and_then(|other| texts.get(other));
                    let n_same = other.map_or(0, |other| n_left_out(text, other));
                    let line = cut(text, n_same);
                    let end = if change.missing_newline() {
                        " (no line end)"
                    } else {
                        ""
                    };
                    lines.push((format!("{sign} {line}{end}"), style));
                }
            }
        }
        let n_more = lines.len().saturating_sub(MAX_LINES);
        for (line, style) in lines.into_iter().take(MAX_LINES) {
            let line = self.paint.paint(&line, style);
            self.line(&format!("        {line}"));
        }
        if n_more > 0 {
            self.detail(&format!("  … {n_more} more lines"));
        }
    }

    fn summary(&mut self, plan: &Plan) {
        let counts = plan.counts();
        let parts = [
            (counts.added, "to add", Style::Green),
            (counts.changed, "to change", Style::Yellow),
            (counts.removed, "to remove", Style::Red),
            (counts.unmanaged, "no longer managed", Style::Yellow),
            (counts.reported, "only reported", Style::Yellow),
            (counts.skipped, "skipped by their handlers", Style::Yellow),
            (counts.undefined, "waiting for a value", Style::Yellow),
            (counts.paused, "on paused agents", Style::Yellow),
            (counts.failed, "cannot be compared", Style::Red),
            (counts.unchanged, "unchanged", Style::Dim),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, words, style)| self.paint.paint(&format!("{count} {words}"), style))
            .collect();
        let parts = match parts.is_empty() {
            true => "no resources".to_owned(),
            false => parts.join(", "),
        };
        let head = self.paint.paint("plan", Style::Bold);
        if !self.text.is_empty() {
            self.line("");
        }
        self.line(&format!("{head} of version {}: {parts}", plan.version));
    }
}

/// A value on one line: texts with quotes, the rest as JSON.
fn in_full(value: &Value) -> String {
    match value {
        Value::String(text) if text == super::hidden::HIDDEN => text.clone(),
        Value::Null => "none".to_owned(),
        other => printable(&other.to_string()),
    }
}

/// How many characters are left out at the beginning of two texts that are alike there: of long ones only, which would be cut before
/// they differ.
fn n_left_out(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    let n_same = pairs.take_while(|(one, other)| one == other).count();
    let is_long = |text: &str| text.chars().nth(MAX_CHARS).is_some();
    match is_long(one) || is_long(other) {
        true if n_same > MAX_CHARS / 2 => n_same - SAME_CHARS,
        _ => 0,
    }
}

/// What is shown of a text without its first `n_left_out` characters.
fn cut(text: &str, n_left_out: usize) -> String {
    let before = match n_left_out {
        0 => String::new(),
        n_left_out => format!("({n_left_out} characters) …"),
    };
    let shown: String = text.chars().skip(n_left_out).take(MAX_CHARS).collect();
    let n_more = text.chars().skip(n_left_out + MAX_CHARS).count();
    match n_more {
        0 => format!("{before}{shown}"),
        n_more => format!("{before}{shown}… ({n_more} more characters)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(from: &Value, to: &Value) -> String {
        let difference = json!({
            "resource_id": "a::A[a,a=a]",
            "status": "modified",
            "attributes": {"value": {"from_value": from, "to_value": to}},
        });
        let mut page = Page::new(Paint::none());
        page.resource(&difference);
        page.text
    }

    /// Given: long values on one line, and long lines, that differ near their end only. Expected: what is shown differs.
    #[test]
    fn long_values_are_shown_from_where_they_differ() {
        let keys = |last: u32| {
            let keys = (0..100).map(|n| (format!("key{n:03}"), json!(n)));
            let mut keys: serde_json::Map<_, _> = keys.collect();
            keys.insert("key098".to_owned(), json!(last));
            Value::Object(keys)
        };
        let text = page(&keys(1), &keys(2));
        assert!(text.contains(r#""key098":1,"key099":99}"#), "{text}");
        assert!(text.contains(r#""key098":2,"key099":99}"#), "{text}");
        assert!(text.contains(" characters) …"), "{text}");

        let lines = |last: u32| json!(format!("first\n{}\nlast\n", keys(last)));
        let text = page(&lines(1), &lines(2));
        assert!(text.contains("  first\n"), "{text}");
        assert!(text.contains(r#""key098":1,"key099":99}"#), "{text}");
        assert!(text.contains(r#""key098":2,"key099":99}"#), "{text}");

        let text = page(&json!("x".repeat(400)), &json!("short"));
        assert!(
            text.contains("x… (102 more characters) → \"short\""),
            "{text}"
        );
    }
}
