//! Native handlers, on a thread that can be left behind.
//!
//! A handler of ours may hang in the operating system (a file of a server that is gone), where nothing ends it. When the
//! time of a run is over its thread is left to itself, and the agent goes on with another one. The same resource is not
//! run again before its old run has ended, since both would work on the same thing.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::domain::ResourceId;
use crate::executor::agent::refused;
use crate::executor::handler::{self, Handler};
use crate::executor::protocol::{Task, TaskOutcome};

/// A command of a resource is ended at the limit, which takes a moment.
const GRACE: Duration = Duration::from_secs(2);
/// Runs of an agent that hang and were left behind.
const MAX_STUCK: usize = 16;

type Job = (&'static dyn Handler, Task, Map<String, Value>);

/// Threads without work that are kept for whichever agent has some next.
const MAX_SPARE: usize = 64;
static SPARE: Mutex<Vec<Runner>> = Mutex::new(Vec::new());

/// What is known of an agent's native runs.
#[derive(Default)]
pub(crate) struct Native {
    /// Resource → the thread of a run that was left behind.
    stuck: HashMap<ResourceId, JoinHandle<()>>,
}

struct Runner {
    jobs: mpsc::Sender<Job>,
    outcomes: mpsc::Receiver<TaskOutcome>,
    thread: JoinHandle<()>,
}

impl Native {
    pub(crate) fn run(
        &mut self,
        handler: &'static dyn Handler,
        task: &Task,
        attributes: Map<String, Value>,
    ) -> TaskOutcome {
        self.stuck.retain(|_, thread| !thread.is_finished());
        if self.stuck.contains_key(&task.resource_id) {
            return refused(&format!(
                "an earlier run of {}, which took longer than its limit, still hangs; it is not run again before that ends",
                task.resource_id
            ));
        }
        if self.stuck.len() >= MAX_STUCK {
            return refused(&format!(
                "{MAX_STUCK} runs of this agent hang: {}",
                self.stuck
                    .keys()
                    .take(3)
                    .map(ResourceId::as_str)
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        }
        let runner = spare().pop().unwrap_or_else(Runner::start);
        if runner
            .jobs
            .send((handler, task.clone(), attributes))
            .is_err()
        {
            return refused("the thread of the handler is gone");
        }
        match runner.outcomes.recv_timeout(task.limit() + GRACE) {
            Ok(outcome) => {
                let mut spare = spare();
                if spare.len() < MAX_SPARE {
                    spare.push(runner);
                }
                outcome
            }
            Err(RecvTimeoutError::Disconnected) => refused("the thread of the handler is gone"),
            Err(RecvTimeoutError::Timeout) => {
                self.stuck.insert(task.resource_id.clone(), runner.thread);
                refused(&format!(
                    "Failure during executor execution for resource {}: its handler did not end within {} s (setting \
                     `deploy_timeout`) and was left behind",
                    task.resource_id,
                    task.limit().as_secs_f64()
                ))
            }
        }
    }
}

fn spare() -> MutexGuard<'static, Vec<Runner>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    fn start() -> Self {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (done, outcomes) = mpsc::channel();
        // It ends when nobody has work for it any more.
        let thread = thread::spawn(move || {
            for (handler, task, attributes) in todo {
                let run = AssertUnwindSafe(|| handler::run(handler, &task, &attributes));
                let outcome = catch_unwind(run)
                    .unwrap_or_else(|_| refused("the handler panicked; this is a bug in Steward"));
                if done.send(outcome).is_err() {
                    return;
                }
            }
        });
        Self {
            jobs,
            outcomes,
            thread,
        }
    }
}

#[cfg(test)]
mod tests;
