//! The far end of executors: `steward executor`, a process that brings resources to their desired state.
//!
//! It reads commands as frames on stdin and answers on stdout. One thread an agent works off that agent's tasks in
//! order; agents run side by side. Native handlers run here; Python handlers in a Python host below this process, one an
//! agent and code, started when the first task needs it. At the end of stdin it ends: the server is gone.

mod code;
pub mod handler;
mod python;
mod worker;

use std::collections::HashMap;
use std::io::{self, BufReader, BufWriter};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use steward_compiler::protocol;

use crate::deploy::{ExecutorCommand, ExecutorReply, Task, TaskDone};
use crate::process;
use code::Code;
pub use python::Limits;
use worker::Worker;

/// A Python host without work is kept warm for this long.
const IDLE: Duration = Duration::from_secs(60);

/// Where answers go: whole frames, one at a time.
#[derive(Debug, Clone)]
struct Replies(Arc<Mutex<BufWriter<io::Stdout>>>);

impl Replies {
    fn send(&self, done: TaskDone) {
        let mut writer = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if protocol::write_frame(&mut *writer, &ExecutorReply::Done(done)).is_err() {
            // Nobody listens any more; what we would do now nobody would know of.
            std::process::exit(0);
        }
    }
}

/// The whole life of an executor process.
pub fn run(limits: Limits) -> ExitCode {
    process::die_with_parent();
    let replies = Replies(Arc::new(Mutex::new(BufWriter::new(io::stdout()))));
    let mut reader = BufReader::new(io::stdin());
    let mut agents: HashMap<String, mpsc::Sender<(Task, Arc<Code>)>> = HashMap::new();
    let mut codes: HashMap<String, Arc<Code>> = HashMap::new();
    loop {
        match protocol::read_frame(&mut reader) {
            Ok(Some(ExecutorCommand::Code {
                code,
                modules,
                python,
                environment_id,
            })) => {
                // Kept for as long as we live: the server announces a code once, and may go back to it any time.
                let loaded = Code::new(modules, python, environment_id);
                codes.insert(code, Arc::new(loaded));
            }
            Ok(Some(ExecutorCommand::Run(task))) => {
                let Some(code) = codes.get(&task.code).cloned() else {
                    tracing::error!(code = task.code, "a task for code that was not announced");
                    return ExitCode::FAILURE;
                };
                let queue = agents
                    .entry(task.agent.clone())
                    .or_insert_with(|| start_agent(&task.agent, limits, &replies));
                if queue.send((task, code)).is_err() {
                    tracing::error!("an agent's thread ended");
                    return ExitCode::FAILURE;
                }
            }
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "cannot read the next command");
                return ExitCode::FAILURE;
            }
        }
    }
}

fn start_agent(name: &str, limits: Limits, replies: &Replies) -> mpsc::Sender<(Task, Arc<Code>)> {
    let (sender, receiver) = mpsc::channel::<(Task, Arc<Code>)>();
    let (agent, replies) = (name.to_owned(), replies.clone());
    // The thread ends with the process; a panic in a handler is caught in the worker.
    thread::spawn(move || {
        let mut worker = Worker::new(agent, limits);
        loop {
            let next = if worker.has_host() {
                receiver.recv_timeout(IDLE)
            } else {
                receiver.recv().map_err(Into::into)
            };
            match next {
                Ok((task, code)) => replies.send(worker.run(task, &code)),
                Err(RecvTimeoutError::Timeout) => worker.end_host(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    sender
}
