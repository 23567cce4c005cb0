//! Diagnostics for people: severity, kind, message, place, the source line with a caret, notes and help.

use std::fmt::Write;

use crate::world::World;
use crate::{Diagnostic, Location, Severity};

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// Several lines of text, the last one ended.
pub fn render(diagnostic: &Diagnostic, world: &dyn World, color: bool) -> String {
    let mut out = String::new();
    one(&mut out, diagnostic, world, color, 0);
    out
}

fn one(out: &mut String, diagnostic: &Diagnostic, world: &dyn World, color: bool, depth: usize) {
    let paint = |code: &'static str| if color { code } else { "" };
    let (word, code) = match diagnostic.severity {
        Severity::Error if depth > 0 => ("caused by", BOLD),
        Severity::Error => ("error", RED),
        Severity::Warning => ("warning", YELLOW),
    };
    let indent = "  ".repeat(depth.min(20));
    let mut lines = diagnostic.message.lines();
    let first = lines.next().unwrap_or("");
    let _ = writeln!(
        out,
        "{indent}{}{word}{}[{}]: {}{first}{}",
        paint(code),
        paint(RESET),
        diagnostic.kind,
        paint(BOLD),
        paint(RESET)
    );
    for line in lines {
        let _ = writeln!(out, "{indent}  {line}");
    }
    if let Some(location) = &diagnostic.location {
        excerpt(out, location, world, color, &indent);
    }
    for note in &diagnostic.notes {
        let mut lines = note.message.lines();
        let _ = writeln!(
            out,
            "{indent}  {}note{}: {}",
            paint(BLUE),
            paint(RESET),
            lines.next().unwrap_or("")
        );
        for line in lines {
            let _ = writeln!(out, "{indent}    {line}");
        }
        if let Some(location) = &note.location {
            excerpt(out, location, world, color, &indent);
        }
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "{indent}  {}help{}: {help}", paint(BLUE), paint(RESET));
    }
    for cause in &diagnostic.causes {
        one(out, cause, world, color, depth + 1);
    }
}

fn excerpt(out: &mut String, location: &Location, world: &dyn World, color: bool, indent: &str) {
    let paint = |code: &'static str| if color { code } else { "" };
    let column = location.column.unwrap_or(1);
    let _ = writeln!(
        out,
        "{indent}  {}-->{} {}:{}:{column}",
        paint(BLUE),
        paint(RESET),
        location.file,
        location.line
    );
    let Some(text) = crate::builtin::text(&location.file)
        .map(str::to_owned)
        .or_else(|| world.read_reported(&location.file))
    else {
        return;
    };
    let Some(line) = text.lines().nth(location.line as usize - 1) else {
        return;
    };
    let number = location.line.to_string();
    let pad = " ".repeat(number.len());
    let shown: String = line
        .chars()
        .take(200)
        .map(|c| if c == '\t' { ' ' } else { c })
        .collect();
    let _ = writeln!(out, "{indent} {}{pad} |{}", paint(BLUE), paint(RESET));
    let _ = writeln!(
        out,
        "{indent} {}{number} |{} {shown}",
        paint(BLUE),
        paint(RESET)
    );
    if location.column.is_some() && column as usize <= 200 {
        let same_line = location.end_line.is_none_or(|end| end == location.line);
        let end = if same_line {
            location.end_column.unwrap_or(column + 1)
        } else {
            line.chars().count() as u32 + 1
        };
        let width = end.saturating_sub(column).clamp(1, 200) as usize;
        let _ = writeln!(
            out,
            "{indent} {}{pad} |{} {}{}{}{}",
            paint(BLUE),
            paint(RESET),
            " ".repeat(column as usize - 1),
            paint(RED),
            "^".repeat(width),
            paint(RESET)
        );
    }
}
