//! Where log lines go: to stderr, as much as `STEWARD_LOG` asks for.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Begins the log of a server: `info`, with colours only on a terminal and without times under
/// systemd, which adds its own.
pub(super) fn server() {
    let is_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter("info"))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    if is_journal {
        builder.without_time().init()
    } else {
        builder.init()
    }
}

/// Begins the log of a command for people, whose own output tells what happens, but not why a
/// request to its API failed.
pub(super) fn quiet() {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter("off,steward::api=error"))
        .with_writer(std::io::stderr);
    builder
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Of a child process: its stderr is the server's.
pub(super) fn child() {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter("warn"))
        .with_writer(std::io::stderr);
    builder.with_target(false).with_ansi(false).init();
}

fn filter(default: &str) -> EnvFilter {
    // What strangers send to the port is no error of ours.
    let quiet = format!("{default},warp=off,hyper=off,hyper_util=off");
    EnvFilter::builder().parse_lossy(std::env::var("STEWARD_LOG").unwrap_or(quiet))
}
