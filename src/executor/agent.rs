//! The work of one agent: one task at a time, by a native handler or through Python.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::{ActionId, AgentName, HandlerStatus, Timestamp};
use crate::executor::bounds;
use crate::executor::code_folder::Code;
use crate::executor::handler::{self, Context, Handler};
use crate::executor::hosts::{Host, Hosts};
use crate::executor::native::Native;
use crate::executor::protocol::{LogLine, Task, TaskDone, TaskOutcome};

/// Puts a handler's question to the server: method and arguments, status and body.
pub(crate) type Ask = Arc<dyn Fn(String, Map<String, Value>) -> (u16, Value) + Send + Sync>;

pub(crate) struct Worker {
    agent: AgentName,
    ask: Ask,
    native: Native,
}

/// The native handler of a resource type, unless a module of the project has one.
pub(crate) fn native_handler(resource_type: &str, code: &Code) -> Option<&'static dyn Handler> {
    handler::native(resource_type).filter(|_| !code.has_module_of(resource_type))
}

impl Worker {
    pub(crate) fn new(agent: AgentName, ask: Ask) -> Self {
        let native = Native::new(Arc::clone(&ask));
        Self { agent, ask, native }
    }

    /// What is known of the agent's native runs.
    pub(crate) fn native(&self) -> &Native {
        &self.native
    }

    /// Another one in the place of one that hangs.
    pub(crate) fn instead(agent: AgentName, ask: Ask, native: Native) -> Self {
        Self { agent, ask, native }
    }

    /// Runs tasks in Python, all with the same code, and says what came of each; `true`: it was the last one. `at_hand`: the
    /// agent's host, if it has one; afterwards, that which it has now. Gives the tasks that were not begun, since one before them
    /// ended the host.
    pub(crate) fn run(
        &mut self,
        mut tasks: VecDeque<Task>,
        code: &Arc<Code>,
        hosts: &Arc<Hosts>,
        at_hand: &mut Option<Host>,
        reply: impl Fn(TaskDone, bool),
    ) -> VecDeque<Task> {
        // Those that the host has, in its order.
        let mut given = VecDeque::new();
        loop {
            while let Some(task) = tasks.front() {
                match self.give(task, code, hosts, at_hand) {
                    Ok(true) => given.extend(tasks.pop_front()),
                    Ok(false) => break,
                    // Answers keep the order of their tasks.
                    Err(_) if !given.is_empty() => break,
                    Err(refusal) => {
                        let done = done_of(task.action, *refusal);
                        tasks.pop_front();
                        reply(done, tasks.is_empty());
                    }
                }
            }
            let Some(task) = given.pop_front() else {
                return tasks;
            };
            let Some(mut host) = at_hand.take() else {
                return tasks;
            };
            let end = host.python.next_end(&self.ask);
            let has_ended = end.outcome.is_err();
            let mut outcome = match end.outcome {
                Ok(outcome) => {
                    *at_hand = Some(host);
                    outcome
                }
                // Whatever state the host is in, it ends here, and the next task gets a new one.
                Err(error) => {
                    let mut cut_off = refused(&format!(
                        "Failure during executor execution for resource {}: {error}",
                        task.resource_id
                    ));
                    cut_off.logs.splice(0..0, host.python.logged());
                    cut_off
                }
            };
            insert_printed(&mut outcome.logs, end.printed);
            let is_last = given.is_empty() && tasks.is_empty();
            let done = TaskDone {
                finished_us: end.finished.0,
                ..done_of(task.action, outcome)
            };
            reply(done, is_last);
            if has_ended {
                given.append(&mut tasks);
                return given;
            }
        }
    }

    /// Gives a task to the agent's host, which is started if there is none. False: the host takes it when it has answered others.
    ///
    /// # Errors
    /// What comes of a task that no host can run.
    fn give(
        &self,
        task: &Task,
        code: &Arc<Code>,
        hosts: &Arc<Hosts>,
        at_hand: &mut Option<Host>,
    ) -> Result<bool, Box<TaskOutcome>> {
        if !code.has_module_of(&task.resource_type) {
            return Err(refusal(&format!(
                "there is no handler for resources of type {}",
                task.resource_type
            )));
        }
        let is_busy = |host: &Host| host.python.is_busy();
        let host = match at_hand.take() {
            Some(host) if is_busy(&host) => at_hand.insert(host),
            own => {
                let host = hosts.of(&self.agent, code, own).map_err(|error| {
                    refusal(&format!(
                        "cannot start a Python host for resource {}: {error}",
                        task.resource_id
                    ))
                })?;
                at_hand.insert(host)
            }
        };
        if let Some(refused) = host.python.refusal(task) {
            return Err(Box::new(refused));
        }
        host.python.give(task).map_err(|error| {
            refusal(&format!(
                "resource {} cannot be given to its handler: {error}",
                task.resource_id
            ))
        })
    }
}

/// Puts lines that were printed among those that were logged, by their times; the last one stays the last.
fn insert_printed(logs: &mut Vec<LogLine>, printed: Vec<LogLine>) {
    let Some(last) = logs.pop() else {
        return *logs = printed;
    };
    // What was printed is read a moment later.
    logs.extend(printed.into_iter().map(|line| LogLine {
        timestamp_us: line.timestamp_us.min(last.timestamp_us),
        ..line
    }));
    logs.sort_by_key(|line| line.timestamp_us);
    logs.push(last);
}

/// The end of a task, now.
pub(crate) fn done_of(action: ActionId, mut outcome: TaskOutcome) -> TaskDone {
    bounds::bound(&mut outcome, &bounds::RUN);
    TaskDone {
        action,
        finished_us: Timestamp::now().0,
        outcome,
    }
}

fn refusal(message: &str) -> Box<TaskOutcome> {
    Box::new(refused(message))
}

/// A resource that could not be handed to any handler.
pub(crate) fn refused(message: &str) -> TaskOutcome {
    let mut context = Context::default();
    context.error(message);
    context.into_outcome(HandlerStatus::Unavailable)
}
