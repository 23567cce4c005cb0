//! A plan as people read it: resources that change with their attributes, the others by their numbers.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::{Plan, Verdict, attributes};
use crate::cli::terminal::{Page, Paint, Style, printable};

/// Lines of one text that are shown; of the others there is a count.
const MAX_LINES: usize = 40;
/// Characters of one value that are shown.
const MAX_CHARS: usize = 300;
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
                    let to = self.paint.paint(&shown(to), Style::Green);
                    self.line(&format!("      {padded}  {to}"));
                }
                _ => {
                    let from = self.paint.paint(&shown(from), Style::Red);
                    let to = self.paint.paint(&shown(to), Style::Green);
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
            for change in group.iter().flat_map(|op| difference.iter_changes(op)) {
                let (sign, style) = match change.tag() {
                    ChangeTag::Delete => ("-", Style::Red),
                    ChangeTag::Insert => ("+", Style::Green),
                    ChangeTag::Equal => (" ", Style::Dim),
                };
                let line = cut(&printable(change.value().trim_end_matches('\n')));
                let end = if change.missing_newline() {
                    " (no line end)"
                } else {
                    ""
                };
                lines.push((format!("{sign} {line}{end}"), style));
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
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text == super::hidden::HIDDEN => text.clone(),
        Value::Null => "none".to_owned(),
        other => cut(&printable(&other.to_string())),
    }
}

fn cut(text: &str) -> String {
    let n_chars = text.chars().count();
    if n_chars <= MAX_CHARS {
        return text.to_owned();
    }
    let start: String = text.chars().take(MAX_CHARS).collect();
    format!("{start}… ({} more characters)", n_chars - MAX_CHARS)
}
