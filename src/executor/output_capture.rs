//! What a Python host prints: once in the log of the server, and in that of the task that it was running.
//!
//! A thread reads the host's output, where all that handlers and their children print goes, for as long as anybody has it
//! open, so that nobody waits on a full pipe. A line has a limit, and so have a minute in the log and a run in its own; marks
//! say what was cut.
//!
//! What was printed before a handler was done is in the pipe by the time that its host says so. So whoever ends a task reads
//! what is there, and no mark in the stream is needed to tell one task's lines from the next one's. A host that goes on with the
//! next task by itself has to know whether there is anything to read, or was: so before something is read, another number is
//! written into a file that the host has, too (`python/steward_host/boundary.py`).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::Map;

use crate::domain::{LogLevel, Timestamp};
use crate::executor::protocol::LogLine;

/// Bytes that are kept of one line.
const LINE_BYTES: usize = 4 << 10;
/// Bytes that are kept of all lines of a minute.
const MINUTE_BYTES: usize = 64 << 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Lines and bytes that are kept of what is printed during one task: enough for a usage text or a traceback. Who has more to
/// say has a logger.
const RUN_LINES: usize = 100;
const RUN_BYTES: usize = 16 << 10;
/// What is read at the end of a task, at most: a child of a handler may print for ever.
const LAST_BYTES: usize = 1 << 20;

/// The output of one host.
#[derive(Debug)]
pub(crate) struct Output(Arc<Stream>);

#[derive(Debug)]
struct Stream {
    /// Reading it does not wait.
    pipe: OwnedFd,
    /// Where it is noted that something is read.
    reads: Option<File>,
    printed: Mutex<Printed<io::Stderr>>,
}

impl Output {
    /// Copies what comes out of `pipe` to our own error output, until its end. `reads`: where the host looks whether something was
    /// read.
    ///
    /// # Errors
    /// It cannot be read without waiting.
    pub(crate) fn follow(pipe: OwnedFd, reads: Option<File>, agent: &str) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let stream = Arc::new(Stream {
            pipe,
            reads,
            printed: Mutex::new(Printed::new(agent, io::stderr())),
        });
        let followed = Arc::clone(&stream);
        // It ends with the last process that has the pipe open.
        std::thread::spawn(move || followed.follow());
        Ok(Self(stream))
    }

    /// A task begins: what is printed from now on is its.
    pub(crate) fn begin(&self) {
        let mut printed = self.0.printed();
        self.0.read_available(&mut printed);
        printed.run = Some(RunLines::default());
    }

    /// The task is done; gives what was printed meanwhile.
    pub(crate) fn end(&self) -> Vec<LogLine> {
        let mut printed = self.0.printed();
        self.0.read_available(&mut printed);
        if !printed.line.is_empty() {
            printed.end_line();
        }
        printed.run.take().map(RunLines::done).unwrap_or_default()
    }
}

impl Stream {
    fn printed(&self) -> MutexGuard<'_, Printed<io::Stderr>> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self) {
        loop {
            let mut pipes = [PollFd::new(&self.pipe, PollFlags::IN)];
            match poll(&mut pipes, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            let is_end = !pipes[0].revents().contains(PollFlags::IN);
            let mut printed = self.printed();
            if is_end || self.read_some(&mut printed).is_none() {
                return printed.end();
            }
        }
    }

    fn read_available(&self, printed: &mut Printed<io::Stderr>) {
        let mut n_read = 0;
        while n_read < LAST_BYTES
            && let Some(n_bytes @ 1..) = self.read_some(printed)
        {
            n_read += n_bytes;
        }
    }

    /// Reads what is there, if anything is; `None`: nothing will come any more.
    fn read_some(&self, printed: &mut Printed<io::Stderr>) -> Option<usize> {
        if rustix::io::ioctl_fionread(&self.pipe).ok()? == 0 {
            // Nothing may be read that was not noted before.
            return Some(0);
        }
        if let Some(reads) = &self.reads {
            printed.n_reads += 1;
            reads.write_all_at(&printed.n_reads.to_ne_bytes(), 0).ok()?;
        }
        let mut buffer = [0; 16 << 10];
        match rustix::io::read(&self.pipe, &mut buffer) {
            Ok(0) => None,
            Ok(n_bytes) => {
                printed.take(&buffer[..n_bytes]);
                Some(n_bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Some(0),
            Err(_) => None,
        }
    }
}

/// What is printed during a task.
#[derive(Debug, Default)]
struct RunLines {
    lines: Vec<LogLine>,
    n_bytes: usize,
    n_cut: usize,
}

impl RunLines {
    fn add(&mut self, line: &[u8]) {
        // First of all, since millions may come.
        if self.n_cut > 0 || self.lines.len() >= RUN_LINES || self.n_bytes + line.len() > RUN_BYTES
        {
            self.n_cut += 1;
            return;
        }
        self.n_bytes += line.len();
        let text = format!("printed: {}", plain(line));
        self.lines.push(printed_line(text));
    }

    fn done(mut self) -> Vec<LogLine> {
        if self.n_cut > 0 {
            let limit = RUN_BYTES >> 10;
            self.lines.push(printed_line(format!(
                "… {} more printed lines were cut; the limit is {RUN_LINES} lines and {limit} KiB a run",
                self.n_cut
            )));
        }
        self.lines
    }
}

fn printed_line(msg: String) -> LogLine {
    LogLine {
        level: LogLevel::Info,
        msg,
        kwargs: Map::new(),
        timestamp_us: Timestamp::now().0,
    }
}

#[derive(Debug)]
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
    /// What is printed belongs to a task, too.
    run: Option<RunLines>,
    /// How often something was read.
    n_reads: u64,
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
            run: None,
            n_reads: 0,
        }
    }

    /// Nothing will come any more.
    fn end(&mut self) {
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
        if let Some(run) = &mut self.run {
            run.add(&self.line);
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
        printed.take(bytes);
        printed.end();
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
