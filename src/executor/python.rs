//! A Python host for handlers: a process that speaks `steward_compiler::protocol` over a socket.
//!
//! It is a fork of the zygote of its code (`zygote`), or, where that cannot be forked, a process that has imported the
//! modules itself. Each exchange with it has a limit, at which the host is ended; whoever gets an error drops the host.

mod ahead;
mod peer;
mod watchdog;
mod zygote;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value};
use steward_compiler::protocol::{
    self, BrokenModule, Deploy, Deployed, Facts, FromHost, JsonText, ToHost,
};

use crate::domain::{LogLevel, Timestamp, order_keys};
use crate::executor::agent::Ask;
use crate::executor::bounds::{RUN_BYTES, RUN_LINES};
use crate::executor::code_folder::Code;
use crate::executor::output_capture::Output;
use crate::executor::protocol::{LogLine, Task, TaskKind, TaskOutcome};
use ahead::Ahead;
use peer::{Peer, unexpected};
pub(crate) use zygote::Zygote;

/// Characters of what says how many lines were cut.
const MARK_CHARS: usize = 200;
/// What a host keeps for frames that it is given.
const UNWRITTEN_BYTES: usize = 64 << 10;
/// A host that is asked to end has this long for its delete hooks.
const STOP: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct PythonHost {
    peer: Peer,
    output: Output,
    /// Modules that could not be imported.
    broken: Arc<[BrokenModule]>,
    next: u64,
    /// What it was given, and is not answered.
    ahead: Ahead,
    /// When it was given the first of these.
    given: Timestamp,
    /// Frames that were not written yet.
    unwritten: Vec<u8>,
    logged: Logged,
}

/// The end of a task that a host was given.
#[derive(Debug)]
pub(crate) struct End {
    /// What its handler reported; if there is no report, why.
    pub(crate) outcome: io::Result<TaskOutcome>,
    /// What was printed during it.
    pub(crate) printed: Vec<LogLine>,
    pub(crate) finished: Timestamp,
}

/// What a process that has imported the modules of some code is good for.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// Hosts are forked from it.
    Zygote(Arc<Zygote>),
    /// It cannot be forked, for the reason that is given, so it is the host of the agent that it was started for.
    Host(Box<PythonHost>, String),
}

/// Starts a Python process and lets it import the modules of `code`, within `limit`.
///
/// # Errors
/// There is no Python, it does not start, or the import takes too long or ends the process.
pub(crate) fn load(code: &Code, agent: &str, limit: Duration) -> io::Result<Loaded> {
    let why = code.no_python.as_deref();
    let why = why.unwrap_or("no Python of 3.11 or later was found on this machine");
    let missing = || io::Error::other(why);
    let python = code.python.as_ref().ok_or_else(missing)?;
    let (mut peer, printed) = Peer::start(python)?;
    let output = Output::follow(printed, None, agent)?;
    output.begin();
    peer.arm(limit);
    let loaded = import(&mut peer, code, agent);
    let what = "importing the Python modules";
    let loaded = peer.disarm(what, limit, " (`executor.import_timeout`)", loaded);
    let printed = output.end();
    let (broken, no_forks) = loaded.map_err(|error| with_lines(&error, &printed))?;
    let broken: Arc<[BrokenModule]> = code.broken.iter().cloned().chain(broken).collect();
    let Some(reason) = no_forks else {
        return Ok(Loaded::Zygote(Arc::new(Zygote::new(peer, broken))));
    };
    // It cannot tell what one task prints from what the next one prints.
    let one_at_a_time = Ahead::new(1);
    let host = PythonHost::new(peer, output, broken, one_at_a_time);
    Ok(Loaded::Host(Box::new(host), reason))
}

/// An error with what the process printed before it, such as the traceback of a crash.
fn with_lines(error: &io::Error, printed: &[LogLine]) -> io::Error {
    let mut text = error.to_string();
    for line in printed.iter().filter(|line| !is_own_frame(&line.msg)) {
        text.push('\n');
        text.push_str(&line.msg);
    }
    io::Error::other(text)
}

/// Whether a line is of the part of a stack that every handler has below it: our loop.
fn is_own_frame(line: &str) -> bool {
    line.starts_with("printed:   File ") && line.contains("/steward_host/")
}

/// The modules that could not be imported, and why the process cannot be forked, if it cannot.
fn import(
    peer: &mut Peer,
    code: &Code,
    agent: &str,
) -> io::Result<(Vec<BrokenModule>, Option<String>)> {
    match peer.read()? {
        FromHost::Hello {
            protocol: protocol::VERSION,
            ..
        } => {}
        other => return Err(unexpected(&other)),
    }
    peer.write(&ToHost::LoadExecutor {
        modules: code.modules.clone(),
        environment_id: code.environment_id.to_string(),
        agent: agent.to_owned(),
        files: code
            .python
            .as_ref()
            .and_then(|python| Some(python.files.as_ref()?.display().to_string())),
    })?;
    match peer.read()? {
        FromHost::Handlers {
            broken, no_forks, ..
        } => Ok((broken, no_forks)),
        other => Err(unexpected(&other)),
    }
}

impl PythonHost {
    fn new(peer: Peer, output: Output, broken: Arc<[BrokenModule]>, ahead: Ahead) -> Self {
        Self {
            peer,
            output,
            broken,
            next: 0,
            ahead,
            given: Timestamp::now(),
            unwritten: Vec::new(),
            logged: Logged::default(),
        }
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.peer.is_alive()
    }

    /// How many tasks it may be given at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.ahead.most()
    }

    /// Whether it has tasks that are not answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.ahead.has_some()
    }

    /// What comes of a task whose module could not be imported; `None`: it could.
    pub(crate) fn refusal(&self, task: &Task) -> Option<TaskOutcome> {
        let module = task.resource_type.split("::").next().unwrap_or_default();
        let broken = self.broken.iter().find(|broken| broken.module == module)?;
        let mut context = crate::executor::handler::Context::default();
        context.error(&format!(
            "agent {} failed to load the following modules: {}: {}\n{}",
            task.agent, broken.module, broken.message, broken.traceback
        ));
        Some(context.into_outcome(crate::domain::HandlerStatus::Unavailable))
    }

    /// Has it run one resource through its handler, after those that it was given before. False: it takes this one when others are
    /// answered.
    ///
    /// # Errors
    /// The attributes of the resource are no JSON object, or larger than a frame may be.
    pub(crate) fn give(&mut self, task: &Task) -> io::Result<bool> {
        let is_ahead = self.ahead.has_some();
        let start = self.unwritten.len();
        let request = request(self.next + 1, task, is_ahead).map_err(|error| {
            io::Error::other(format!("its attributes are no JSON object: {error}"))
        })?;
        if let Err(error) = protocol::write_frame(&mut self.unwritten, &request) {
            self.unwritten.truncate(start);
            return Err(error);
        }
        let n_bytes = self.unwritten.len() - start;
        if !self.ahead.give(self.next + 1, task.limit(), n_bytes) {
            self.unwritten.truncate(start);
            return Ok(false);
        }
        self.next += 1;
        if !is_ahead {
            self.given = Timestamp::now();
            self.output.begin();
        }
        Ok(true)
    }

    /// Waits for the end of the task that was given first. After an error the host is of no use any more; what it was given behind
    /// this one is not begun.
    pub(crate) fn next_end(&mut self, ask: &Ask) -> End {
        let Some(current) = self.ahead.next() else {
            return End::of(Err(io::Error::other(
                "a Python host was given nothing to do",
            )));
        };
        self.logged = Logged::default();
        self.peer.arm(current.limit);
        let answer = self.exchange(current.id, ask);
        let setting = " (setting `deploy_timeout`)";
        let answer = self
            .peer
            .disarm("its handler", current.limit, setting, answer);
        let done = match answer {
            Ok(done) => done,
            Err(error) => {
                let mut printed = self.output.end();
                printed.retain(|line| !is_own_frame(&line.msg));
                return End {
                    printed,
                    ..End::of(Err(error))
                };
            }
        };
        let has_more = self.ahead.has_some();
        let printed = match done.printed || !has_more {
            true => self.output.end(),
            // What was read meanwhile is of those behind it.
            false => Vec::new(),
        };
        if done.printed && has_more {
            self.output.begin();
            // If it cannot be written, the next one says why.
            let _ = self.peer.write(&ToHost::GoOn);
        }
        let finished = Timestamp(done.finished_us);
        // Answers lie for a moment; but modules may have set the clock that the host reads.
        let finished = finished.max(self.given).min(Timestamp::now());
        self.given = finished;
        End {
            printed,
            finished,
            ..End::of(Ok(done.outcome.into()))
        }
    }

    /// What the handler of the last task logged before it was cut off, as far as it was told.
    pub(crate) fn logged(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.logged).into_lines()
    }

    /// The answer to a task.
    fn exchange(&mut self, current: u64, ask: &Ask) -> io::Result<Deployed> {
        if !self.unwritten.is_empty() {
            let written = self.peer.write_frames(&self.unwritten);
            self.unwritten.clear();
            // One large task does not keep its memory for ever.
            self.unwritten.shrink_to(UNWRITTEN_BYTES);
            written?;
        }
        if !self.peer.has_read()
            && let Some(pause) = self.ahead.pause()
        {
            thread::sleep(pause);
        }
        let mut has_asked = false;
        loop {
            match self.peer.read()? {
                FromHost::Deployed(done) if done.id == current => {
                    let took = Duration::from_micros(done.micros);
                    self.ahead.is_answered(took, has_asked);
                    return Ok(done);
                }
                FromHost::Logged { id, lines, mark } if id == current => {
                    self.logged.take(lines, mark);
                }
                // Our host never sends any, nor of a task that is over.
                FromHost::Log { .. } | FromHost::Logged { .. } => {}
                FromHost::Api { method, arguments } => {
                    has_asked = true;
                    let (code, body) = ask(method, arguments);
                    self.peer.write(&ToHost::ApiAnswer { code, body })?;
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Lets the host run its delete hooks and end; one that takes too long for that is ended.
    pub(crate) fn stop(mut self) {
        self.peer.arm(STOP);
        let stopped = self.peer.write(&ToHost::Stop).and_then(|()| {
            while !matches!(self.peer.read()?, FromHost::Bye) {}
            Ok(())
        });
        let stopped = self
            .peer
            .disarm("the end of the Python host", STOP, "", stopped);
        if let Err(error) = stopped {
            tracing::warn!(%error, "a Python host did not end in order");
        }
    }
}

impl End {
    /// Just now, without a word.
    fn of(outcome: io::Result<TaskOutcome>) -> Self {
        Self {
            outcome,
            printed: Vec::new(),
            finished: Timestamp::now(),
        }
    }
}

/// What a handler logged while its task goes on. Its report has all of it, and this is dropped then.
#[derive(Debug, Default)]
struct Logged {
    lines: Vec<LogLine>,
    n_bytes: usize,
    mark: String,
}

impl Logged {
    /// The host has the limits of a run; ours are there for one that does not keep them.
    fn take(&mut self, lines: Vec<protocol::LogLine>, mark: String) {
        for line in lines {
            let n_bytes = line.msg.len() + 80;
            if self.lines.len() >= RUN_LINES || self.n_bytes + n_bytes > RUN_BYTES {
                break;
            }
            self.n_bytes += n_bytes;
            self.lines.push(line.into());
        }
        self.mark = mark.chars().take(MARK_CHARS).collect();
    }

    fn into_lines(mut self) -> Vec<LogLine> {
        if !self.mark.is_empty() {
            self.lines.push(LogLine {
                level: LogLevel::Info,
                msg: self.mark,
                kwargs: Map::new(),
                timestamp_us: Timestamp::now().0,
            });
        }
        self.lines
    }
}

/// What the host is asked to do for a task; `ahead`: while it has others.
///
/// # Errors
/// The attributes are no JSON object.
fn request(id: u64, task: &Task, ahead: bool) -> serde_json::Result<ToHost> {
    let requires = task.requires();
    let resource = resource(task, &requires)?;
    let action_id = task.action.to_string();
    let deploy = |resource, action_id, dependency_changed| {
        ToHost::Deploy(Deploy {
            id,
            resource,
            requires,
            dry_run: task.is_dry_run(),
            reason: task.reason.clone(),
            action_id,
            dependency_changed,
            ahead,
        })
    };
    Ok(match task.kind {
        TaskKind::Deploy {
            dependency_changed, ..
        } => deploy(resource, action_id, dependency_changed),
        TaskKind::DryRun { .. } => deploy(resource, action_id, false),
        TaskKind::CollectFacts => ToHost::Facts(Facts {
            id,
            resource,
            action_id,
            ahead,
        }),
    })
}

/// The attributes of a task, with those that belong to a resource of a version.
fn resource(task: &Task, requires: &BTreeMap<String, String>) -> serde_json::Result<JsonText> {
    let attributes = task.attributes.trim();
    let is_object = attributes.starts_with('{') && attributes.ends_with('}');
    let mut text = match is_object && !attributes[1..].contains('{') {
        // Without dicts there is nothing in it to put into order.
        true => attributes.to_owned(),
        false => {
            let mut resource: Map<String, Value> = serde_json::from_str(attributes)?;
            resource.values_mut().for_each(order_keys);
            serde_json::to_string(&resource)?
        }
    };
    text.pop();
    if text.len() > 1 {
        text.push(',');
    }
    let ids: Vec<&String> = requires.keys().collect();
    let id = format!("{},v={}", task.resource_id, task.version);
    // What comes last counts.
    text.push_str("\"requires\":");
    text.push_str(&serde_json::to_string(&ids)?);
    text.push_str(",\"id\":");
    text.push_str(&serde_json::to_string(&id)?);
    text.push('}');
    JsonText::new(text)
}

#[cfg(test)]
mod tests;
