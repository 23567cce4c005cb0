//! What a Python host prints: once in the log, and not more than a log can bear.
//!
//! A thread reads the host's error output, where all that handlers print goes, for as long as anybody has it open, so that
//! nobody waits on a full pipe. A line has a limit, and a minute has one; marks say what was cut.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Bytes that are kept of one line.
const LINE_BYTES: usize = 4 << 10;
/// Bytes that are kept of all lines of a minute.
const MINUTE_BYTES: usize = 64 << 10;
const MINUTE: Duration = Duration::from_secs(60);

/// Copies what comes out of `stream` to our own error output, until its end.
pub(crate) fn follow(stream: impl Read + Send + 'static, agent: &str) {
    let mut printed = Printed::new(agent, io::stderr());
    // It ends with the last process that has the stream open.
    std::thread::spawn(move || printed.copy(stream));
}

struct Printed<W> {
    name: String,
    log: W,
    line: Vec<u8>,
    /// Bytes of the current line beyond its limit.
    n_beyond: u64,
    left: usize,
    since: Instant,
    n_lines_cut: u64,
    n_bytes_cut: u64,
}

impl<W: Write> Printed<W> {
    fn new(agent: &str, log: W) -> Self {
        Self {
            name: format!("handlers of {}: ", plain(agent.as_bytes())),
            log,
            line: Vec::new(),
            n_beyond: 0,
            left: MINUTE_BYTES,
            since: Instant::now(),
            n_lines_cut: 0,
            n_bytes_cut: 0,
        }
    }

    fn copy(&mut self, mut stream: impl Read) {
        let mut buffer = [0; 16 << 10];
        while let Ok(n_bytes @ 1..) = stream.read(&mut buffer) {
            self.take(&buffer[..n_bytes]);
        }
        if !self.line.is_empty() {
            self.end_line();
        }
        self.report_cut();
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            let room = LINE_BYTES.saturating_sub(self.line.len()).min(part.len());
            self.line.extend_from_slice(&part[..room]);
            self.n_beyond += (part.len() - room) as u64;
            if lines.peek().is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if self.since.elapsed() >= MINUTE {
            self.report_cut();
            (self.left, self.since) = (MINUTE_BYTES, Instant::now());
        }
        let size = self.line.len() + 1;
        if size <= self.left && self.n_lines_cut == 0 {
            self.left -= size;
            let text = plain(&self.line);
            match self.n_beyond {
                0 => self.say(&text),
                n => self.say(&format!(
                    "{text}… ({n} bytes were cut, the limit is {LINE_BYTES})"
                )),
            }
        } else {
            if self.n_lines_cut == 0 {
                self.say("… more was printed and is cut");
            }
            self.n_lines_cut += 1;
            self.n_bytes_cut += size as u64 + self.n_beyond;
        }
        self.line.clear();
        self.n_beyond = 0;
    }

    fn report_cut(&mut self) {
        if self.n_lines_cut == 0 {
            return;
        }
        let (n_lines, n_bytes) = (self.n_lines_cut, self.n_bytes_cut);
        let limit = MINUTE_BYTES >> 10;
        self.say(&format!(
            "… {n_lines} more lines ({n_bytes} bytes) were cut; the limit is {limit} KiB a minute"
        ));
        (self.n_lines_cut, self.n_bytes_cut) = (0, 0);
    }

    fn say(&mut self, text: &str) {
        let line = format!("{}{text}\n", self.name);
        // A log that cannot be written to is nothing that we could say anywhere else.
        let _ = self.log.write_all(line.as_bytes());
    }
}

/// A text as one line of a log shows it: nothing in it moves the cursor or begins another line.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\r')
        .chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::executor::output_capture::*;

    fn printed(bytes: &[u8]) -> Vec<String> {
        let mut printed = Printed::new("host", Vec::new());
        printed.copy(bytes);
        let log = String::from_utf8(printed.log).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    /// Input: a handler prints 64 MB in one line, and in many (docs/reference/security.md § 4.8). Answer: 4 KiB of the line, 64 KiB a minute, marks.
    #[test]
    fn what_is_printed_is_in_the_log_once_and_cut_with_a_mark() {
        assert_eq!(
            printed(b"one\ntwo"),
            ["handlers of host: one", "handlers of host: two"]
        );
        let long = printed(&vec![b'x'; 64 << 20]);
        assert_eq!(long.len(), 1);
        assert!(
            long[0].ends_with("x… (67104768 bytes were cut, the limit is 4096)"),
            "{}",
            long[0]
        );
        let many = printed(&b"a line of a handler\n".repeat(1 << 20));
        let n_bytes: usize = many.iter().map(String::len).sum();
        assert!(n_bytes < 200 << 10, "{n_bytes}");
        let mark = many.last().unwrap();
        assert!(
            mark.contains(" more lines (") && mark.ends_with("the limit is 64 KiB a minute"),
            "{mark}"
        );
    }

    /// Input: a handler prints terminal escapes and half characters (docs/reference/security.md § 4.8). Answer: they are marks in one line.
    #[test]
    fn what_would_forge_a_line_of_the_log_is_shown_as_a_mark() {
        assert_eq!(
            printed(b"a\x1b[2Kb\rc\xff\r\n"),
            ["handlers of host: a\u{fffd}[2Kb\u{fffd}c\u{fffd}"]
        );
    }
}
