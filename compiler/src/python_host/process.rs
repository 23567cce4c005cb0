//! The process of a Python host: its pipes, its limit in time, and what it says on its standard error.

use std::io::{BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::PythonRuntime;
use crate::protocol::{self, FromHost, ToHost};

/// Why there is no answer, as an exception.
#[derive(Debug)]
pub struct HostError {
    pub type_name: &'static str,
    pub message: String,
}

impl HostError {
    pub(in crate::python_host) fn ended(message: impl Into<String>) -> Self {
        Self {
            type_name: "ConnectionError",
            message: message.into(),
        }
    }
}

/// What is left to a compile for its Python code.
#[derive(Debug, Clone, Copy)]
pub(in crate::python_host) struct TimeLimit {
    whole: Duration,
    end: Instant,
}

impl TimeLimit {
    pub(in crate::python_host) fn new(whole: Duration) -> Self {
        Self {
            whole,
            end: Instant::now() + whole,
        }
    }
}

/// What Python code wrote to its standard error, and its children to either output. Longer texts are cut.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    n_dropped: usize,
    /// How many sessions have ended, by the marks that they wrote.
    n_ended: u64,
    is_closed: bool,
}

/// Bytes that are kept of the output of one compile.
const OUTPUT_BYTES: usize = 1 << 20;
/// What a host writes to its standard error when a session ends.
const END_MARK: &[u8] = b"\0end of the session\0\n";

impl Output {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text so far, which is forgotten.
    pub fn take(&self) -> String {
        let mut kept = self.kept();
        let mut text = String::from_utf8_lossy(&std::mem::take(&mut kept.bytes)).into_owned();
        if kept.n_dropped > 0 {
            text.push_str(&format!("\n… and {} bytes more\n", kept.n_dropped));
            kept.n_dropped = 0;
        }
        text
    }

    /// Moves the text of one to another.
    pub(in crate::python_host) fn move_to(&self, other: &Output) {
        let (bytes, n_dropped) = {
            let mut kept = self.kept();
            (
                std::mem::take(&mut kept.bytes),
                std::mem::take(&mut kept.n_dropped),
            )
        };
        let mut kept = other.kept();
        kept.bytes.extend_from_slice(&bytes);
        kept.n_dropped += n_dropped;
    }

    fn follow(&self, mut pipe: ChildStderr) {
        let mut chunk = [0; 8192];
        let mut pending = Vec::new();
        loop {
            let n_read = pipe.read(&mut chunk).unwrap_or(0);
            let mut kept = self.kept();
            pending.extend_from_slice(&chunk[..n_read]);
            while let Some(at) = find(&pending, END_MARK) {
                kept.add(&pending[..at]);
                pending.drain(..at + END_MARK.len());
                kept.n_ended += 1;
            }
            // The beginning of a mark may be at the end.
            let held = (1..END_MARK.len())
                .rev()
                .find(|length| pending.ends_with(&END_MARK[..*length]));
            let held = held.filter(|_| n_read > 0).unwrap_or(0);
            let n_kept = pending.len() - held;
            kept.add(&pending[..n_kept]);
            pending.drain(..n_kept);
            kept.is_closed = n_read == 0;
            self.0.1.notify_all();
            if n_read == 0 {
                return;
            }
        }
    }

    /// Whether nothing was written up to the `n`th mark, which is waited for.
    fn is_silent(&self, n_ended: u64) -> bool {
        self.wait(n_ended);
        let kept = self.kept();
        kept.n_ended == n_ended && kept.bytes.is_empty() && kept.n_dropped == 0
    }

    /// Waits until all that was written before the end of so many sessions is here, or the pipe is closed.
    fn wait(&self, n_ended: u64) {
        let limit = Duration::from_millis(200);
        let waits = |kept: &mut Kept| kept.n_ended < n_ended && !kept.is_closed;
        let _ = self.0.1.wait_timeout_while(self.kept(), limit, waits);
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let room = OUTPUT_BYTES.saturating_sub(self.bytes.len());
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.n_dropped += dropped.len();
    }
}

/// Ends the host when the time is over, whatever its code does.
#[derive(Debug)]
struct Watchdog {
    shared: Arc<(Mutex<Watched>, Condvar)>,
}

#[derive(Debug, Default)]
struct Watched {
    end: Option<Instant>,
    is_over: bool,
    is_dropped: bool,
}

/// The process at the other end.
enum Peer {
    Child(Child),
    /// A process that we do not own.
    Attached(UnixStream),
}

impl Peer {
    fn lives(&mut self) -> bool {
        match self {
            Peer::Child(child) => matches!(child.try_wait(), Ok(None)),
            Peer::Attached(_) => true,
        }
    }

    fn stop(&mut self) {
        let _ = match self {
            Peer::Child(child) => child.kill(),
            Peer::Attached(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Watchdog {
    fn start(child: Arc<Mutex<Peer>>) -> Self {
        let shared = Arc::new((Mutex::new(Watched::default()), Condvar::new()));
        let watched = Arc::clone(&shared);
        std::thread::spawn(move || watch(&watched, &child));
        Self { shared }
    }

    fn state(&self) -> MutexGuard<'_, Watched> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, end: Option<Instant>) {
        self.state().end = end;
        self.shared.1.notify_all();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.state().is_dropped = true;
        self.shared.1.notify_all();
    }
}

fn watch(shared: &(Mutex<Watched>, Condvar), peer: &Mutex<Peer>) {
    let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.is_dropped {
        let left = state
            .end
            .map(|end| end.saturating_duration_since(Instant::now()));
        match left {
            None => {
                state = shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            Some(Duration::ZERO) => {
                state.is_over = true;
                state.end = None;
                let mut peer = peer.lock().unwrap_or_else(PoisonError::into_inner);
                peer.stop();
            }
            Some(left) => {
                let woken = shared.1.wait_timeout(state, left);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

pub(in crate::python_host) struct Process {
    peer: Arc<Mutex<Peer>>,
    stdin: Option<BufWriter<Box<dyn Write + Send>>>,
    stdout: BufReader<Box<dyn Read + Send>>,
    watchdog: Watchdog,
    limit: Option<TimeLimit>,
    pub(in crate::python_host) output: Output,
    /// Sessions that this process has had to their end.
    n_ended: u64,
    /// It takes calls in frames of their own.
    reads_calls: bool,
    /// Its version, and what it was started as; empty before it says so.
    python: (String, String),
    #[cfg(target_os = "linux")]
    turns: Option<crate::python_host::processor_affinity::ProcessorAffinity>,
}

impl Process {
    pub(in crate::python_host) fn start(runtime: &PythonRuntime) -> Result<Process, HostError> {
        let interpreter = runtime.interpreter.display();
        let mut child = runtime
            .command("compile")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                HostError::ended(format!("{interpreter} can not be started: {error}"))
            })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(HostError::ended("the Python host has no pipes"));
        };
        let output = Output::default();
        let followed = output.clone();
        std::thread::spawn(move || followed.follow(stderr));
        Ok(Process::of(
            Peer::Child(child),
            Box::new(stdin),
            Box::new(stdout),
            output,
        ))
    }

    /// A host that runs already, and has its standard error to itself.
    pub(in crate::python_host) fn attach(stream: &UnixStream) -> Result<Process, HostError> {
        let end = || {
            let end = stream.try_clone();
            end.map_err(|error| HostError::ended(format!("the Python host has no end: {error}")))
        };
        let output = Output::default();
        output.kept().is_closed = true;
        Ok(Process::of(
            Peer::Attached(end()?),
            Box::new(end()?),
            Box::new(end()?),
            output,
        ))
    }

    fn of(
        peer: Peer,
        stdin: Box<dyn Write + Send>,
        stdout: Box<dyn Read + Send>,
        output: Output,
    ) -> Process {
        let peer = Arc::new(Mutex::new(peer));
        Process {
            watchdog: Watchdog::start(Arc::clone(&peer)),
            peer,
            stdin: Some(BufWriter::new(stdin)),
            stdout: BufReader::new(stdout),
            limit: None,
            output,
            n_ended: 0,
            reads_calls: false,
            python: Default::default(),
            #[cfg(target_os = "linux")]
            turns: None,
        }
    }

    /// Reads who the host is; an error if we can not work with it.
    pub(in crate::python_host) fn greet(&mut self, interpreter: &str) -> Result<(), HostError> {
        let hello = self.receive()?;
        if let FromHost::Hello {
            reads_calls,
            python,
            ..
        } = &hello
        {
            self.reads_calls = *reads_calls;
            self.python = (python.clone(), interpreter.to_owned());
        }
        check_hello(hello, interpreter)
    }

    pub(in crate::python_host) fn python(&self) -> (&str, &str) {
        (&self.python.0, &self.python.1)
    }

    /// Sets the limit for the next answers; `None`: there is none.
    pub(in crate::python_host) fn limit(&mut self, limit: Option<TimeLimit>) {
        self.limit = limit;
        self.watchdog.set(limit.map(|limit| limit.end));
    }

    /// The id of the process, if it is our child.
    pub(in crate::python_host) fn id(&self) -> Option<u32> {
        match &*self.peer.lock().unwrap_or_else(PoisonError::into_inner) {
            Peer::Child(child) => Some(child.id()),
            Peer::Attached(_) => None,
        }
    }

    pub(in crate::python_host) fn is_alive(&self) -> bool {
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        peer.lives()
    }

    /// Ends it, whatever it is doing.
    pub(in crate::python_host) fn abandon(self) {
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        peer.stop();
    }

    /// Begins to keep both processes on one processor: there are calls from now on, and we wait for
    /// their results. `is_fork`: forks of our child take them.
    pub(in crate::python_host) fn take_turns(&mut self, is_fork: bool) {
        #[cfg(target_os = "linux")]
        {
            let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
            self.turns = match &*peer {
                Peer::Child(child) => {
                    crate::python_host::processor_affinity::ProcessorAffinity::of(
                        child.id(),
                        is_fork,
                    )
                }
                Peer::Attached(_) => None,
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = is_fork;
    }

    pub(in crate::python_host) fn receive(&mut self) -> Result<FromHost, HostError> {
        let stdout = &mut self.stdout;
        #[cfg(target_os = "linux")]
        let message = match &mut self.turns {
            Some(turns) => turns.wait(|| protocol::read_answer(stdout)),
            None => protocol::read_answer(stdout),
        };
        #[cfg(not(target_os = "linux"))]
        let message = protocol::read_answer(stdout);
        match message {
            Ok(Some(FromHost::Ended { status })) => {
                Err(HostError::ended(format!("the Python host ended: {status}")))
            }
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(self.end("the Python host ended")),
            Err(error) => Err(self.end(&format!("the Python host can not be understood: {error}"))),
        }
    }

    pub(in crate::python_host) fn send(&mut self, message: &ToHost) -> Result<(), HostError> {
        self.write(|stdin| protocol::write_frame(stdin, message))
    }

    /// Sends a frame that is written already.
    pub(in crate::python_host) fn send_body(&mut self, body: &[u8]) -> Result<(), HostError> {
        self.write(|stdin| protocol::write_body(stdin, body))
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<Box<dyn Write + Send>>) -> std::io::Result<()>,
    ) -> Result<(), HostError> {
        let Some(stdin) = &mut self.stdin else {
            return Err(self.end("the Python host ended"));
        };
        #[cfg(target_os = "linux")]
        if let Some(turns) = &mut self.turns {
            turns.wake();
        }
        write(stdin).map_err(|error| self.end(&format!("the Python host does not listen: {error}")))
    }

    pub(in crate::python_host) fn reads_calls(&self) -> bool {
        self.reads_calls
    }

    /// What the end of a pipe means.
    fn end(&self, text: &str) -> HostError {
        match self.limit {
            Some(limit) if self.watchdog.state().is_over => HostError {
                type_name: "TimeoutError",
                message: format!(
                    "it did not end within the {} s that the compile has, and was stopped",
                    limit.whole.as_secs_f64()
                ),
            },
            _ => HostError::ended(text),
        }
    }

    /// After a mark: whether nothing was written since the start.
    pub(in crate::python_host) fn was_silent(&mut self) -> bool {
        self.n_ended += 1;
        self.output.is_silent(self.n_ended)
    }

    /// Lets a session end; whether the process may have another one.
    pub(in crate::python_host) fn end_session(&mut self) -> bool {
        self.limit(Some(TimeLimit::new(Duration::from_secs(2))));
        let mut ended = self.send(&ToHost::Stop).is_ok();
        while ended {
            match self.receive() {
                Ok(FromHost::Bye) => break,
                Ok(FromHost::Printed { line }) => {
                    let mut kept = self.output.kept();
                    kept.add(line.as_bytes());
                    kept.add(b"\n");
                }
                Ok(_) => {}
                Err(_) => ended = false,
            }
        }
        self.limit(None);
        self.n_ended += 1;
        self.output.wait(self.n_ended);
        ended && self.is_alive()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A host whose pipe is closed ends by itself; one that does not is ended.
        drop(self.stdin.take());
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        let Peer::Child(child) = &mut *peer else {
            return;
        };
        for _ in 0..50 {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Whether the first message of a host is that of one that we can work with.
pub(in crate::python_host) fn check_hello(
    message: FromHost,
    interpreter: &str,
) -> Result<(), HostError> {
    match message {
        FromHost::Hello {
            protocol: protocol::VERSION,
            python,
            ..
        } if is_recent(&python) => Ok(()),
        FromHost::Hello { python, .. } if !is_recent(&python) => Err(HostError::ended(format!(
            "{interpreter} is Python {python}, but 3.11 or later is needed"
        ))),
        FromHost::Hello { protocol, .. } => Err(HostError::ended(format!(
            "the Python host speaks version {protocol} of the protocol, not {}",
            protocol::VERSION
        ))),
        other => Err(HostError::ended(format!(
            "the Python host began with {other:?}"
        ))),
    }
}

/// Whether a version of Python is one that our package runs on.
fn is_recent(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(3), Some(11))
}
