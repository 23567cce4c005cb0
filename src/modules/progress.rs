//! The progress that an installation reports.

use std::time::{Duration, Instant};

/// A part of an installation, in the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Waits until fewer others install.
    Turn,
    /// Makes the virtual environment.
    Environment,
    /// Versions are chosen.
    Versions,
    /// Downloads, builds, installs.
    Packages,
}

/// What happens during an installation.
#[derive(Debug, Clone)]
pub enum Progress {
    /// A part begins: what it does and to how much, such as `installing 21 packages`, and the program that does it, such
    /// as `uv 0.13.9`.
    Began {
        part: Part,
        what: String,
        tool: String,
    },
    /// A line that this program writes meanwhile; only of an installation that is not sandboxed.
    Output(String),
    /// What may be in the way of what comes, said before it begins.
    Doubt(String),
    /// The part is done.
    Done { what: String, took: Duration },
}

/// Whoever wants to know.
pub type Watcher<'a> = &'a (dyn Fn(Progress) + Sync);

/// What begins as one text; the tool may be empty.
pub fn with_tool(what: &str, tool: &str) -> String {
    match tool {
        "" => what.to_owned(),
        tool => format!("{what}, with {tool}"),
    }
}

/// Does a part, and reports when it begins and when it is done.
pub(super) fn part<T, E>(
    watcher: Watcher<'_>,
    part: Part,
    what: &str,
    tool: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let (what, tool) = (what.to_owned(), tool.to_owned());
    watcher(Progress::Began {
        part,
        what: what.clone(),
        tool,
    });
    let began = Instant::now();
    let done = work()?;
    watcher(Progress::Done {
        what,
        took: began.elapsed(),
    });
    Ok(done)
}
