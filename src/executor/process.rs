//! The far end of executors: `steward executor`, a process that brings resources to their desired state.
//!
//! It reads commands as frames on stdin and answers on stdout. Each agent works off its tasks in order, and all of them side
//! by side (`agents.rs`). Native handlers run here, Python handlers in Python hosts below this process
//! (`hosts.rs`). At the end of stdin it ends, and first stops the hosts that have no work.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use steward_compiler::protocol;

use crate::domain::CodeModule;
use crate::executor::agent::Ask;
use crate::executor::agents::{Agents, Reply};
use crate::executor::bounds;
use crate::executor::code_folder::Code;
use crate::executor::far_codes::{Admitted, Announced, FarCodes, InstallFar};
use crate::executor::far_python::FarPython;
use crate::executor::limits::Limits;
use crate::executor::outbox::{Outbox, Urgency};
use crate::executor::protocol::{
    BEAT, ExecutorCommand, ExecutorReply, Hello, HelloError, Python, READ_BYTES, Task,
};
use crate::process::{self, memory};

/// A handler waits this long for what it asked of the server.
const ANSWER: Duration = Duration::from_secs(60);

/// Bytes of what a handler asks, as JSON. Each agent has one question open at most.
const ASK_BYTES: usize = 4 << 20;

/// An executor that came over ssh hears a beat every few seconds; after this long the connection is cut, whatever the system
/// thinks of it.
const SILENCE: Duration = Duration::from_secs(15);

/// A question of a handler's that is open: who waits for its answer.
type OpenCalls = Arc<Mutex<HashMap<u64, mpsc::Sender<(u16, Value)>>>>;

/// Where answers go: whole frames, one at a time.
#[derive(Debug, Clone)]
struct Replies {
    outbox: Arc<Outbox<File>>,
    open: OpenCalls,
    next: Arc<AtomicU64>,
}

impl Replies {
    /// Asks the server on behalf of a handler, and waits: HTTP status and body.
    fn ask(&self, method: String, arguments: Map<String, Value>) -> (u16, Value) {
        let n_bytes = bounds::json_bytes(&arguments);
        if n_bytes > ASK_BYTES {
            let message =
                format!("the arguments of {method} take {n_bytes} bytes, the limit is {ASK_BYTES}");
            return (413, serde_json::json!({ "message": message }));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        locked(&self.open).insert(id, sender);
        let ask = ExecutorReply::Ask {
            id,
            method,
            arguments,
        };
        self.send(&ask, Urgency::Now);
        let answer = receiver.recv_timeout(ANSWER);
        locked(&self.open).remove(&id);
        answer.unwrap_or_else(|_| (503, serde_json::json!({"message": "the server is busy"})))
    }

    fn send(&self, reply: &ExecutorReply, urgency: Urgency) {
        if self.outbox.send(reply, urgency).is_err() {
            // Nobody listens any more; what we would do now nobody would know of.
            std::process::exit(0);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The whole life of an executor process.
/// `carried`: the folder of one that came over ssh, and what installs packages there; it ends when it hears nothing for `SILENCE`.
pub fn run(limits: Limits, carried: Option<(PathBuf, InstallFar)>) -> ExitCode {
    process::die_with_parent();
    memory::claim_nothing();
    let stdout = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(stdout) => File::from(stdout),
        Err(error) => {
            tracing::error!(%error, "cannot write to the server");
            return ExitCode::FAILURE;
        }
    };
    let replies = Replies {
        outbox: Outbox::new(stdout),
        open: OpenCalls::default(),
        next: Arc::default(),
    };
    replies.send(&ExecutorReply::Hello(Hello::ours()), Urgency::Now);
    let alive = replies.clone();
    // On a thread of its own: whoever works is not taken for one that hangs. It ends with the process.
    thread::spawn(move || {
        loop {
            memory::look();
            alive.send(&ExecutorReply::Alive, Urgency::Now);
            thread::sleep(BEAT);
        }
    });
    let mut reader = BufReader::with_capacity(READ_BYTES, io::stdin());
    if let Err(error) = read_hello(&mut reader) {
        tracing::error!(%error, "cannot work for this server");
        return ExitCode::FAILURE;
    }
    let (asking, replying) = (replies.clone(), replies.clone());
    let ask: Ask = Arc::new(move |method, arguments| asking.ask(method, arguments));
    let reply: Reply = Arc::new(move |done, urgency| {
        replying.send(&ExecutorReply::Done(done), urgency);
    });
    let agents = Agents::new(limits, ask, Arc::clone(&reply));
    let mut codes = Codes::new(carried, &agents, reply);
    let heard = Arc::new(Mutex::new(Instant::now()));
    if codes.far.is_some() {
        end_after_silence(Arc::clone(&heard));
    }
    // Tasks that came with others, which are given to their agents together.
    let mut tasks = Vec::new();
    loop {
        if !tasks.is_empty() && !begins_with_frame(reader.buffer()) {
            agents.give(tasks.drain(..));
        }
        let command = protocol::read_frame(&mut reader);
        *locked(&heard) = Instant::now();
        match command {
            Ok(Some(ExecutorCommand::Code {
                code,
                modules,
                python,
                environment_id,
                packages,
            })) => {
                let announced = Announced {
                    modules,
                    environment_id,
                    packages,
                };
                codes.announce(code, python, announced);
            }
            Ok(Some(ExecutorCommand::Run(task))) => match codes.admit(task) {
                Admitted::Ready(task, code) => tasks.push((task, code)),
                Admitted::Taken => {}
                Admitted::Unknown(task) => {
                    tracing::error!(code = task.code, "a task for code that was not announced");
                    return ExitCode::FAILURE;
                }
            },
            Ok(Some(ExecutorCommand::Answer { id, code, body })) => {
                if let Some(waiting) = locked(&replies.open).remove(&id) {
                    let _ = waiting.send((code, body));
                }
            }
            Ok(Some(ExecutorCommand::Content { content })) => {
                if let Some((far, _)) = &codes.far
                    && let Err(error) = far.files().put(&content)
                {
                    // Its module says that it is missing.
                    tracing::error!(%error, "cannot keep a file of a module");
                }
            }
            // Said again, it changes nothing.
            Ok(Some(ExecutorCommand::Hello(_) | ExecutorCommand::Alive)) => {}
            Ok(None) => {
                agents.stop();
                return ExitCode::SUCCESS;
            }
            Err(error) => {
                tracing::error!(%error, "cannot read the next command");
                return ExitCode::FAILURE;
            }
        }
    }
}

/// The code that the server has announced.
struct Codes {
    /// What runs with no more than there is. Kept for as long as we live: the server announces a code once, and may go back to it
    /// any time.
    ready: HashMap<String, Arc<Code>>,
    /// Of an executor that came over ssh: its Python, and what code needs packages there.
    far: Option<(FarPython, FarCodes)>,
}

impl Codes {
    fn new(carried: Option<(PathBuf, InstallFar)>, agents: &Agents, reply: Reply) -> Self {
        let far = carried.map(|(folder, install)| {
            let far = || FarPython::new(&folder, None);
            (far(), FarCodes::new(far(), install, agents.clone(), reply))
        });
        Self {
            ready: HashMap::new(),
            far,
        }
    }

    fn announce(&mut self, code: String, python: Option<Python>, announced: Announced) {
        let (python, no_python) = match &self.far {
            None => (python, None),
            Some((far, codes)) => {
                let wanted = python.map(|python| python.interpreter).unwrap_or_default();
                if announced.packages.is_some() {
                    return codes.announce(code, wanted, announced);
                }
                match own_python(far, &wanted, &announced.modules) {
                    Ok(python) => (python, None),
                    Err(why) => (None, Some(why)),
                }
            }
        };
        let loaded = Code::new(announced.modules, python, announced.environment_id);
        let loaded = loaded.without_python(no_python);
        self.ready.insert(code, Arc::new(loaded));
    }

    fn admit(&self, task: Task) -> Admitted {
        match (self.ready.get(&task.code), &self.far) {
            (Some(code), _) => Admitted::Ready(task, Arc::clone(code)),
            (None, Some((_, codes))) => codes.admit(task),
            (None, None) => Admitted::Unknown(task),
        }
    }
}

/// Whether what was read so far holds a whole frame, or what can be none: then reading it waits for nothing.
fn begins_with_frame(read: &[u8]) -> bool {
    let Some((length, rest)) = read.split_first_chunk() else {
        return false;
    };
    let length = u32::from_be_bytes(*length);
    length > protocol::MAX_FRAME_BYTES || rest.len() >= length as usize
}

/// The Python of this machine, for code that comes from another one; none for code without Python.
///
/// # Errors
/// There is none that fits, or not the one that the model names.
fn own_python(
    far: &FarPython,
    wanted: &Path,
    modules: &[CodeModule],
) -> Result<Option<Python>, String> {
    if modules.is_empty() {
        return Ok(None);
    }
    let python = far.python(wanted).map_err(|error| error.to_string())?;
    Ok(Some(python))
}

/// Ends the process when nothing was heard for too long; then the script that started it cleans up.
fn end_after_silence(heard: Arc<Mutex<Instant>>) {
    thread::spawn(move || {
        loop {
            thread::sleep(BEAT);
            if locked(&heard).elapsed() > SILENCE {
                std::process::exit(0);
            }
        }
    });
}

/// Nothing at all is no error: the server ended before it had work.
fn read_hello(reader: &mut impl Read) -> io::Result<()> {
    match protocol::read_frame(reader)? {
        Some(ExecutorCommand::Hello(hello)) => hello.check_server().map_err(io::Error::other),
        Some(_) => Err(io::Error::other(HelloError::Missing { peer: "server" })),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: bytes of which a frame is a part, or not yet. Expected: what can be read at once is known.
    #[test]
    fn a_frame_that_is_there_is_told_from_one_that_is_still_to_come() {
        let mut frames = Vec::new();
        for text in ["one", "another"] {
            protocol::write_frame(&mut frames, &text).unwrap();
        }
        let first = 4 + 1 + "one".len();
        assert!((0..first).all(|n_read| !begins_with_frame(&frames[..n_read])));
        assert!(begins_with_frame(&frames[..first]));
        assert!(begins_with_frame(&frames));
        assert!(!begins_with_frame(&frames[first..frames.len() - 1]));
        // Its reader says what is wrong with it.
        assert!(begins_with_frame(&[255; 4]));
    }
}
