//! What all commands that write for people share: colours, on a terminal only, and how long something took.

use std::io::IsTerminal;
use std::time::Duration;

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
    /// Colours on a terminal, unless `NO_COLOR` is set.
    pub(super) fn of_stdout() -> Self {
        let is_colored = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
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

/// A text without the characters that steer a terminal: what handlers and hosts say must not.
pub(super) fn printable(text: &str) -> String {
    let replaced = |character: char| match character {
        '\t' | '\n' => character,
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(replaced).collect()
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
