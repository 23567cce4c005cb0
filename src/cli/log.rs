//! Where log lines go: to stderr, as much as `STEWARD_LOG` asks for.

use std::fmt::{self, Write};
use std::io::{self, IsTerminal};

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{FormatFields, MakeWriter, SubscriberBuilder};

use crate::domain::{environment_name, is_unprintable};

/// Begins the log of a server: `info`, with colours only on a terminal. The journal of systemd adds the times itself, and gets
/// the severity of each line.
pub(super) fn server() {
    let builder = subscriber()
        .with_env_filter(filter("info"))
        .with_target(false)
        .fmt_fields(fields())
        .with_ansi(std::io::stderr().is_terminal());
    if is_journal() {
        builder.without_time().with_writer(Journal).init()
    } else {
        builder.with_writer(std::io::stderr).init()
    }
}

/// A line that cannot be written is dropped. Otherwise it would be said on stderr as well, where the same happens: a panic of
/// whatever wrote it, be that the loop of an environment.
fn subscriber() -> SubscriberBuilder {
    tracing_subscriber::fmt().log_internal_errors(false)
}

/// Whether stderr leads to the journal of systemd: `JOURNAL_STREAM` names its device and inode, and is inherited by programs
/// whose stderr is something else.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(std::io::stderr())
        .is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Stderr, each line with its severity in front as the journal reads it (`man sd-daemon`).
struct Journal;

impl<'a> MakeWriter<'a> for Journal {
    type Writer = JournalEvent;

    fn make_writer(&'a self) -> JournalEvent {
        JournalEvent { severity: 6 }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> JournalEvent {
        let severity = match *metadata.level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        JournalEvent { severity }
    }
}

/// One event, which is written at once.
struct JournalEvent {
    severity: u8,
}

impl io::Write for JournalEvent {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut lines = Vec::with_capacity(event.len() + 16);
        for line in event.split_inclusive(|byte| *byte == b'\n') {
            write!(lines, "<{}>", self.severity)?;
            lines.extend_from_slice(line);
        }
        io::stderr().lock().write_all(&lines)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins the log of a command for people, whose own output tells what happens, but not why a
/// request to its API failed.
pub(super) fn quiet() {
    let builder = subscriber()
        .with_env_filter(filter("off,steward::api=error"))
        .with_writer(std::io::stderr);
    builder
        .with_target(false)
        .fmt_fields(fields())
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Of a child process: its stderr is the server's.
pub(super) fn child() {
    let builder = subscriber()
        .with_env_filter(filter("warn"))
        .with_writer(std::io::stderr);
    builder
        .with_target(false)
        .fmt_fields(fields())
        .with_ansi(false)
        .init();
}

fn filter(default: &str) -> EnvFilter {
    // What strangers send to the port is no error of ours.
    let quiet = format!("{default},warp=off,hyper=off,hyper_util=off");
    EnvFilter::builder().parse_lossy(std::env::var("STEWARD_LOG").unwrap_or(quiet))
}

/// `message name=value …`; where an environment is meant, its name stands before its id. What strangers have said is in many of them: it must neither steer a terminal nor look like lines
/// of the log itself.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(|writer, field, value| match field.name() {
        "message" => write!(Harmless(writer), "{value:?}"),
        "environment.id" => {
            let id = format!("{value:?}");
            if let Some(name) = id.parse().ok().and_then(environment_name) {
                write!(Harmless(&mut *writer), "environment={name} ")?;
            }
            write!(Harmless(writer), "environment.id={id}")
        }
        name => write!(Harmless(writer), "{name}={value:?}"),
    })
    .delimited(" ")
}

/// Writes `?` for what cannot be seen, and moves lines behind the first one to the right.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '\n' => self.0.write_str("\n    ")?,
                '\t' => self.0.write_char(c)?,
                c if is_unprintable(c) => self.0.write_char('?')?,
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_has_no_control_characters_and_no_line_that_begins_on_the_left() {
        let mut written = String::new();
        write!(
            Harmless(&mut written),
            "a\0b\u{1b}[31m\tc\r\n2026 INFO d\u{202e}"
        )
        .unwrap();
        assert_eq!(written, "a?b?[31m\tc?\n    2026 INFO d?");
    }
}
