//! The process of a Python host: its pipes, and its limit in time.

use std::io::{BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::PythonRuntime;
use crate::protocol::{self, FromHost, ToHost};
#[cfg(target_os = "linux")]
use crate::python_host::held_answers::HeldAnswers;
use crate::python_host::output::Output;

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
    /// How the end of the host was told, while answers from before are taken.
    told_end: Option<std::io::Result<Option<FromHost>>>,
    #[cfg(target_os = "linux")]
    turns: Option<crate::python_host::processor_affinity::ProcessorAffinity>,
    /// The pipe of `stdout`, until it is known whether the host holds answers.
    #[cfg(target_os = "linux")]
    pipe: Option<std::os::fd::OwnedFd>,
    #[cfg(target_os = "linux")]
    held: Option<HeldAnswers>,
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
        #[cfg(target_os = "linux")]
        let pipe = std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned().ok();
        #[cfg_attr(
            not(target_os = "linux"),
            expect(unused_mut, reason = "only there it is given more")
        )]
        let mut process = Process::of(
            Peer::Child(child),
            Box::new(stdin),
            Box::new(stdout),
            output,
        );
        #[cfg(target_os = "linux")]
        {
            process.pipe = pipe;
        }
        Ok(process)
    }

    /// A host that runs already, and has its standard error to itself.
    pub(in crate::python_host) fn attach(stream: &UnixStream) -> Result<Process, HostError> {
        let end = || {
            let end = stream.try_clone();
            end.map_err(|error| HostError::ended(format!("the Python host has no end: {error}")))
        };
        let output = Output::default();
        output.close();
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
            told_end: None,
            #[cfg(target_os = "linux")]
            turns: None,
            #[cfg(target_os = "linux")]
            pipe: None,
            #[cfg(target_os = "linux")]
            held: None,
        }
    }

    /// Reads who the host is; an error if we can not work with it.
    pub(in crate::python_host) fn greet(&mut self, interpreter: &str) -> Result<(), HostError> {
        let hello = self.receive()?;
        if let FromHost::Hello {
            reads_calls,
            python,
            pid,
            answers,
            ..
        } = &hello
        {
            self.reads_calls = *reads_calls;
            self.python = (python.clone(), interpreter.to_owned());
            #[cfg(target_os = "linux")]
            {
                let pipe = self.pipe.take();
                let both = answers.zip(pipe);
                self.held = both.and_then(|(file, pipe)| HeldAnswers::of(*pid, file, pipe));
            }
            #[cfg(not(target_os = "linux"))]
            let _ = (pid, answers);
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
    /// their results, which the host may hold. `is_fork`: forks of our child take them.
    pub(in crate::python_host) fn take_turns(&mut self, is_fork: bool) {
        #[cfg(target_os = "linux")]
        {
            if self.held.is_some() {
                // A host that does not listen has ended; the next message tells.
                let _ = self.send(&ToHost::Hold);
            }
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
        let message = match self.told_end.take() {
            Some(end) => end,
            None => self.read(),
        };
        #[cfg(target_os = "linux")]
        if matches!(&message, Ok(None | Some(FromHost::Ended { .. })) | Err(_))
            && let Some(answer) = self.held.as_mut().and_then(HeldAnswers::next)
        {
            self.told_end = Some(message);
            return Ok(answer);
        }
        match message {
            Ok(Some(FromHost::Ended { status })) => {
                Err(HostError::ended(format!("the Python host ended: {status}")))
            }
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(self.end("the Python host ended")),
            Err(error) => Err(self.end(&format!("the Python host can not be understood: {error}"))),
        }
    }

    /// The next message of the pipe, or of the answers that are held if that takes long.
    #[cfg(target_os = "linux")]
    fn read(&mut self) -> std::io::Result<Option<FromHost>> {
        let (stdout, mut held) = (&mut self.stdout, self.held.as_mut());
        let mut read = || {
            loop {
                let waits = held.as_deref_mut().filter(|_| stdout.buffer().is_empty());
                if let Some(answer) = waits.and_then(HeldAnswers::wait) {
                    return Ok(Some(answer));
                }
                let message = protocol::read_answer(stdout)?;
                let is_new = match (&message, held.as_deref_mut()) {
                    (Some(message), Some(held)) => held.is_new(message),
                    _ => true,
                };
                if is_new {
                    return Ok(message);
                }
            }
        };
        match &mut self.turns {
            Some(turns) => turns.wait(read),
            None => read(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read(&mut self) -> std::io::Result<Option<FromHost>> {
        protocol::read_answer(&mut self.stdout)
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
                    "it did not end within the {} s that the compile has, and was stopped; the limit is `compile.timeout` of the \
                     configuration",
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
                    self.output.add_line(&line);
                }
                Ok(_) => {}
                Err(_) => ended = false,
            }
        }
        #[cfg(target_os = "linux")]
        if let Some(held) = &mut self.held {
            held.begin_session();
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
