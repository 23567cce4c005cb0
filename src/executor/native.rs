//! Native handlers, on a thread that can be left behind.
//!
//! A handler of ours may hang in the operating system (a file of a server that is gone), where nothing ends it. When the
//! time of a run is over its thread is left to itself, and the agent goes on with another one. The same resource is not
//! run again before its old run has ended, since both would work on the same thing.
//!
//! Most runs find that there is nothing to do, which takes less than it takes to wake a thread. So whoever takes the runs of
//! an agent works them off itself, all that wait at once ([`Batch`]), in their order, and says what came of each. Somebody
//! else looks now and then whether the run that goes on is over its limit ([`Batch::take_if_over`]). Only then the batch is
//! taken from its thread, and what it did not begin is there for another one.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::domain::{ActionId, ResourceId};
use crate::executor::agent::{Ask, done_of, refused};
use crate::executor::agents::Reply;
use crate::executor::handler::{self, Handler};
use crate::executor::outbox::Urgency;
use crate::executor::protocol::{Task, TaskOutcome};

/// A command of a resource is ended at the limit, which takes a moment.
const GRACE: Duration = Duration::from_secs(2);
/// Runs of an agent that hang and were left behind.
const MAX_STUCK: usize = 16;

/// A run of a native handler.
pub(crate) type Job = (&'static dyn Handler, Task);

/// What is known of an agent's native runs, to all who work for it.
#[derive(Clone)]
pub(crate) struct Native {
    ask: Ask,
    /// Resource → the batch of a run that was left behind. The thread of the run has it, too, for as long as it goes on.
    stuck: Arc<Mutex<HashMap<ResourceId, Arc<Batch>>>>,
}

/// Runs of one agent, one after the other.
pub(crate) struct Batch {
    progress: Mutex<Progress>,
    ask: Ask,
    reply: Reply,
    /// Of the last answer.
    last: Urgency,
}

#[derive(Default)]
struct Progress {
    todo: VecDeque<Job>,
    current: Option<Current>,
    /// It was taken from its thread: what that thread still finds out is not said.
    is_taken: bool,
}

/// The run that goes on.
struct Current {
    action: ActionId,
    resource_id: ResourceId,
    limit: Duration,
    began: Instant,
}

impl Native {
    /// `ask`: what references in resources ask the server by.
    pub(crate) fn new(ask: Ask) -> Self {
        Self {
            ask,
            stuck: Arc::default(),
        }
    }

    /// These runs as a batch. Of those that cannot be run now it is said why, and they are not in it. `last`: the urgency of the
    /// last answer.
    pub(crate) fn batch(
        &self,
        jobs: impl IntoIterator<Item = Job>,
        reply: &Reply,
        last: Urgency,
    ) -> Arc<Batch> {
        let mut stuck = self.stuck();
        stuck.retain(|_, batch| Arc::strong_count(batch) > 1);
        let mut todo = VecDeque::new();
        let mut refusals = Vec::new();
        for (handler, task) in jobs {
            match why_not(&task, &stuck) {
                Some(why) => refusals.push(done_of(task.action, refused(&why))),
                None => todo.push_back((handler, task)),
            }
        }
        drop(stuck);
        for refusal in refusals {
            reply(refusal, Urgency::Now);
        }
        Arc::new(Batch {
            progress: Mutex::new(Progress {
                todo,
                ..Progress::default()
            }),
            ask: Arc::clone(&self.ask),
            reply: Arc::clone(reply),
            last,
        })
    }

    /// Takes a batch from its thread if the run that goes on is over its limit, and says so. Gives what was not begun.
    pub(crate) fn take_if_over(&self, batch: &Arc<Batch>) -> Option<VecDeque<Job>> {
        let mut progress = batch.progress();
        let is_over = |current: &Current| current.began.elapsed() >= current.limit + GRACE;
        if !progress.current.as_ref().is_some_and(is_over) {
            return None;
        }
        progress.is_taken = true;
        if let Some(current) = progress.current.take() {
            let message = format!(
                "Failure during executor execution for resource {}: its handler did not end within {} s (setting \
                 `deploy_timeout`) and was left behind",
                current.resource_id,
                current.limit.as_secs_f64()
            );
            self.stuck().insert(current.resource_id, Arc::clone(batch));
            (batch.reply)(done_of(current.action, refused(&message)), Urgency::Now);
        }
        Some(std::mem::take(&mut progress.todo))
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<ResourceId, Arc<Batch>>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a task cannot be run now, beside these that are stuck.
fn why_not(task: &Task, stuck: &HashMap<ResourceId, Arc<Batch>>) -> Option<String> {
    if stuck.contains_key(&task.resource_id) {
        return Some(format!(
            "an earlier run of {}, which took longer than its limit, still hangs; it is not run again before that ends",
            task.resource_id
        ));
    }
    (stuck.len() >= MAX_STUCK).then(|| {
        let some: Vec<&str> = stuck.keys().take(3).map(ResourceId::as_str).collect();
        format!("{MAX_STUCK} runs of this agent hang: {}", some.join(", "))
    })
}

impl Batch {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works it off on this thread; `false`: it was taken away meanwhile, and nobody waits for this thread any more.
    pub(crate) fn work(&self) -> bool {
        loop {
            let (handler, task) = {
                let mut progress = self.progress();
                let Some(job) = progress.todo.pop_front() else {
                    return !progress.is_taken;
                };
                progress.current = Some(Current {
                    action: job.1.action,
                    resource_id: job.1.resource_id.clone(),
                    limit: job.1.limit(),
                    began: Instant::now(),
                });
                job
            };
            let outcome = outcome_of(handler, &task, &self.ask);
            let mut progress = self.progress();
            if progress.is_taken {
                return false;
            }
            progress.current = None;
            let urgency = match progress.todo.is_empty() {
                true => self.last,
                false => Urgency::Soon,
            };
            drop(progress);
            (self.reply)(done_of(task.action, outcome), urgency);
        }
    }
}

fn outcome_of(handler: &dyn Handler, task: &Task, ask: &Ask) -> TaskOutcome {
    let attributes = match serde_json::from_str::<Map<String, Value>>(&task.attributes) {
        Ok(attributes) => attributes,
        Err(error) => {
            return refused(&format!(
                "the resource's attributes are no JSON object: {error}"
            ));
        }
    };
    let run = AssertUnwindSafe(|| handler::run(handler, task, &attributes, ask.as_ref()));
    catch_unwind(run).unwrap_or_else(|_| refused("the handler panicked; this is a bug in Steward"))
}

#[cfg(test)]
pub(in crate::executor) mod tests;
