//! The work of one agent: one task at a time, by a native handler or through Python.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::{ActionId, AgentName, HandlerStatus, Timestamp};
use crate::executor::agents::Reply;
use crate::executor::bounds;
use crate::executor::code_folder::Code;
use crate::executor::handler::{self, Context, Handler};
use crate::executor::hosts::{Host, Hosts};
use crate::executor::native::{Job, Native};
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
        Self {
            agent,
            native: Native::new(Arc::clone(&ask)),
            ask,
        }
    }

    /// Runs tasks of native handlers, and says what came of each. Gives those that were not begun.
    pub(crate) fn run_native(&mut self, jobs: VecDeque<Job>, reply: &Reply) -> VecDeque<Job> {
        self.native.run(jobs, reply)
    }

    /// Runs a task in Python. `host` is the agent's, if it is at hand; afterwards, that which it has now.
    pub(crate) fn run(
        &mut self,
        task: Task,
        code: &Arc<Code>,
        hosts: &Arc<Hosts>,
        host: &mut Option<Host>,
    ) -> TaskDone {
        let outcome = match serde_json::from_str::<Map<String, Value>>(&task.attributes) {
            Err(error) => refused(&format!(
                "the resource's attributes are no JSON object: {error}"
            )),
            Ok(attributes) => self.run_in_python(&task, attributes, code, hosts, host),
        };
        done_of(task.action, outcome)
    }

    fn run_in_python(
        &mut self,
        task: &Task,
        attributes: Map<String, Value>,
        code: &Arc<Code>,
        hosts: &Arc<Hosts>,
        at_hand: &mut Option<Host>,
    ) -> TaskOutcome {
        if !code.has_module_of(&task.resource_type) {
            return refused(&format!(
                "there is no handler for resources of type {}",
                task.resource_type
            ));
        }
        let mut host = match hosts.of(&self.agent, code, at_hand.take()) {
            Ok(host) => host,
            Err(error) => {
                return refused(&format!(
                    "cannot start a Python host for resource {}: {error}",
                    task.resource_id
                ));
            }
        };
        let outcome = host.python.deploy(task, attributes, &self.ask);
        let printed = host.python.printed();
        let mut outcome = match outcome {
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
        insert_printed(&mut outcome.logs, printed);
        outcome
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

/// A resource that could not be handed to any handler.
pub(crate) fn refused(message: &str) -> TaskOutcome {
    let mut context = Context::default();
    context.error(message);
    context.into_outcome(HandlerStatus::Unavailable)
}
