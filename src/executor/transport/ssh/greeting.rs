//! What the other machine prints before anything of ours runs there: at a login, and the marks of our script.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use tokio::sync::oneshot;

/// Bytes that may be printed before a mark.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// What came before a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// This mark came behind it.
    Complete(&'static str),
    TooLong,
    /// It ended without a mark.
    Ended,
}

/// Waits for the script. What the shell there starts at a login may hang, or ask a question that nobody answers.
pub(super) async fn greeted<T>(
    may_send: oneshot::Receiver<T>,
    patience: Duration,
) -> io::Result<T> {
    match tokio::time::timeout(patience, may_send).await {
        Ok(Ok(greeting)) => Ok(greeting),
        Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the other machine ran nothing for {} s: what its shell starts at a login may hang, wait for an answer, or hide \
                 what is printed",
                patience.as_secs()
            ),
        )),
    }
}

/// Skips what is printed before one of `marks`, each of which is a line of its own.
pub(super) async fn find_mark(
    stdout: &mut (impl AsyncBufRead + Unpin),
    marks: &[&'static str],
) -> Greeting {
    let mut n_bytes = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let rest = MAX_BYTES.saturating_sub(n_bytes) as u64;
        if rest == 0 {
            return Greeting::TooLong;
        }
        let mut limited = (&mut *stdout).take(rest);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return Greeting::Ended,
            Ok(n) => n_bytes += n,
        }
        let printed = line.trim_ascii();
        if let Some(mark) = marks.iter().find(|mark| printed == mark.as_bytes()) {
            return Greeting::Complete(mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    /// Given: a machine whose shell hangs before the script runs, or prints without end. Expected: nothing is sent, and the reason
    /// says where to look.
    #[tokio::test]
    async fn a_shell_that_hangs_or_prints_without_end_is_given_up() {
        let (_held, may_send) = oneshot::channel::<()>();
        let hung = greeted(may_send, SHORT).await.unwrap_err();
        assert!(hung.to_string().contains("at a login may hang"), "{hung}");
        let endless = vec![b'x'; 2 * MAX_BYTES];
        let greeting = find_mark(&mut &endless[..], &["send", "send-all"]).await;
        assert_eq!(greeting, Greeting::TooLong);
        let greeting = find_mark(&mut &b"Welcome\nsend-all\n"[..], &["send", "send-all"]).await;
        assert_eq!(greeting, Greeting::Complete("send-all"));
    }
}
