//! How far an installation is, on standard error: a line for each part, and at a terminal what goes on meanwhile.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::modules::{Progress, with_tool};

/// How often a line at a terminal is drawn anew.
const REDRAW: Duration = Duration::from_millis(250);
/// What fits beside the rest on a line of a terminal.
const MAX_LINE_CHARS: usize = 48;

/// Shows the progress of an installation.
pub(super) struct InstallProgress {
    state: Arc<Mutex<State>>,
    ticker: Option<std::thread::JoinHandle<()>>,
}

struct State {
    is_terminal: bool,
    /// The part that goes on: what, and since when.
    open: Option<(String, Instant)>,
    /// What its program last_line last.
    last_line: String,
    is_over: bool,
}

impl InstallProgress {
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let state = Arc::new(Mutex::new(State {
            is_terminal,
            open: None,
            last_line: String::new(),
            is_over: false,
        }));
        let ticking = Arc::clone(&state);
        let tick = move || {
            loop {
                std::thread::sleep(REDRAW);
                let state = ticking.lock().unwrap_or_else(PoisonError::into_inner);
                if state.is_over {
                    return;
                }
                state.draw();
            }
        };
        let ticker = is_terminal.then(|| std::thread::spawn(tick));
        Self { state, ticker }
    }

    pub(super) fn on_progress(&self, progress: Progress) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Began { what, tool, .. } => {
                if !state.is_terminal {
                    write(&format!("{}\n", with_tool(&what, &tool)));
                }
                state.open = Some((what, Instant::now()));
                state.last_line.clear();
                state.draw();
            }
            Progress::Output(line) => {
                if is_news(&line) {
                    state.last_line = line.chars().take(MAX_LINE_CHARS).collect();
                }
            }
            Progress::Doubt(text) => {
                state.clear();
                write(&format!("warning: {text}\n"));
            }
            Progress::Done { what, took } => {
                state.clear();
                state.open = None;
                write(&format!("{what}: {}\n", shown(took)));
            }
        }
    }

    /// Nothing more is shown.
    pub(super) fn end(mut self) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.clear();
            state.is_over = true;
        }
        if let Some(ticker) = self.ticker.take() {
            // It shows lines only.
            let _ = ticker.join();
        }
    }
}

impl State {
    fn draw(&self) {
        if let Some((what, began)) = &self.open
            && self.is_terminal
        {
            let last_line = &self.last_line;
            write(&format!(
                "\r\x1b[K{what}: {} {last_line}",
                shown(began.elapsed())
            ));
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            write("\r\x1b[K");
        }
    }
}

/// What pip and uv say of what they download and build, and how much it is.
fn is_news(line: &str) -> bool {
    const NEWS: [&str; 6] = [
        "Collecting ",
        "Downloading ",
        "Building ",
        "Preparing ",
        "Installing ",
        "Resolved ",
    ];
    NEWS.iter().any(|start| line.starts_with(start))
}

fn shown(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn write(text: &str) {
    let mut stderr = std::io::stderr();
    // Nobody may look.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
