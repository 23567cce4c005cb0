//! What all commands that write for people share: colours, on a terminal only, and how long something took.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::TROUBLE;

#[derive(Clone, Copy)]
pub(super) enum Style {
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Cyan,
}

/// Colours texts, or leaves them as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    is_colored: bool,
}

impl Paint {
    /// Colours on a terminal that has them, unless `NO_COLOR` is set.
    pub(super) fn of_stdout() -> Self {
        let is_colored = std::io::stdout().is_terminal() && may_be_colored();
        Self { is_colored }
    }

    /// As [`Paint::of_stdout`], of standard error.
    pub(super) fn of_stderr() -> Self {
        let is_colored = std::io::stderr().is_terminal() && may_be_colored();
        Self { is_colored }
    }

    /// No colours.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { is_colored: false }
    }

    pub(super) fn is_colored(self) -> bool {
        self.is_colored
    }

    pub(super) fn paint(self, text: &str, style: Style) -> String {
        if !self.is_colored {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Red => "31",
            Style::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// A text for people that is made line by line. Each command adds to it what its lines are.
pub(super) struct Page {
    pub(super) paint: Paint,
    pub(super) text: String,
}

impl Page {
    pub(super) fn new(paint: Paint) -> Self {
        let text = String::new();
        Self { paint, text }
    }

    /// Adds a line, without blanks at its end.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// Writes an answer to standard output, and gives the exit code of that: a reader that is gone needs no text, and a disk that is
/// full has to be known.
#[expect(clippy::print_stderr, reason = "it is for the person at the terminal")]
pub(super) fn write_out(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("steward: cannot write the answer: {error}");
            ExitCode::from(TROUBLE)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Whether a character turns the direction of a text around, or ends its line: what stands there would not be what is read.
fn is_misleading(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A text without the characters that steer a terminal: what handlers and hosts say must not.
pub(super) fn printable(text: &str) -> String {
    let replaced = |character: char| match character {
        '\t' | '\n' => character,
        other if other.is_control() || is_misleading(other) => '\u{fffd}',
        other => other,
    };
    text.chars().map(replaced).collect()
}

fn may_be_colored() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    !is_dumb && std::env::var_os("NO_COLOR").is_none()
}

/// `3 ms`, `1.2 s`, `2 min 5 s`.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match duration.as_millis() {
        0..1000 => format!("{} ms", duration.as_millis()),
        1000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
