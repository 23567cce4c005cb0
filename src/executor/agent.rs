//! The work of one agent: one task at a time, by a native handler or through Python.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::domain::{AgentName, HandlerStatus, Timestamp};
use crate::executor::bounds;
use crate::executor::code_folder::Code;
use crate::executor::handler::{self, Context};
use crate::executor::native::Native;
use crate::executor::protocol::{Task, TaskDone, TaskOutcome};
use crate::executor::python::{Limits, PythonHost};

/// Puts a handler's question to the server: method and arguments, status and body.
pub(crate) type Ask = Box<dyn Fn(String, Map<String, Value>) -> (u16, Value) + Send>;

pub(crate) struct Worker {
    agent: AgentName,
    limits: Limits,
    ask: Ask,
    native: Native,
    host: Option<(Arc<Code>, PythonHost)>,
}

impl Worker {
    pub(crate) fn new(agent: AgentName, limits: Limits, ask: Ask) -> Self {
        Self {
            agent,
            limits,
            ask,
            native: Native::default(),
            host: None,
        }
    }

    pub(crate) fn has_host(&self) -> bool {
        self.host.is_some()
    }

    /// Ends the Python host, if there is one; what its handlers cached is let go of in order.
    pub(crate) fn end_host(&mut self) {
        if let Some((_, host)) = self.host.take() {
            host.stop();
        }
    }

    pub(crate) fn run(&mut self, task: Task, code: &Arc<Code>) -> TaskDone {
        let mut outcome = match serde_json::from_str::<Map<String, Value>>(&task.attributes) {
            Err(error) => refused(&format!(
                "the resource's attributes are no JSON object: {error}"
            )),
            Ok(attributes) => match handler::native(&task.resource_type) {
                Some(native) if !code.has_module_of(&task.resource_type) => {
                    self.native.run(native, &task, attributes)
                }
                _ => self.run_in_python(&task, attributes, code),
            },
        };
        bounds::bound(&mut outcome, &bounds::RUN);
        let finished_us = Timestamp::now().0;
        TaskDone {
            action: task.action,
            finished_us,
            outcome,
        }
    }

    fn run_in_python(
        &mut self,
        task: &Task,
        attributes: Map<String, Value>,
        code: &Arc<Code>,
    ) -> TaskOutcome {
        if !code.has_module_of(&task.resource_type) {
            return refused(&format!(
                "there is no handler for resources of type {}",
                task.resource_type
            ));
        }
        let is_fit = |(loaded, _): &(Arc<Code>, _)| {
            // Of the same content, and its files are still there for what it has not imported yet.
            loaded.key == code.key && (Arc::ptr_eq(loaded, code) || loaded.is_on_disk())
        };
        // One that died while it was at rest is no fault of this resource.
        let is_alive = self.host.as_mut().is_some_and(|(_, host)| host.is_alive());
        if !is_alive || !self.host.as_ref().is_some_and(is_fit) {
            self.end_host();
            let again = code.again().map(Arc::new);
            let code = again.as_ref().unwrap_or(code);
            match PythonHost::start(code, self.agent.as_str(), self.limits) {
                Ok(host) => self.host = Some((Arc::clone(code), host)),
                Err(error) => {
                    return refused(&format!(
                        "cannot start a Python host for resource {}: {error}",
                        task.resource_id
                    ));
                }
            }
        }
        let Some((_, host)) = &mut self.host else {
            return refused("the Python host is gone");
        };
        match host.deploy(task, attributes, &self.ask) {
            Ok(outcome) => outcome,
            Err(error) => {
                // Whatever state it is in, the next task starts a new one.
                self.host = None;
                refused(&format!(
                    "Failure during executor execution for resource {}: {error}",
                    task.resource_id
                ))
            }
        }
    }
}

/// A resource that could not be handed to any handler.
pub(crate) fn refused(message: &str) -> TaskOutcome {
    let mut context = Context::default();
    context.error(message);
    context.into_outcome(HandlerStatus::Unavailable)
}
