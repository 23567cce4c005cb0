//! Native handlers, on a thread that can be left behind.
//!
//! A handler of ours may hang in the operating system (a file of a server that is gone), where nothing ends it. When the
//! time of a run is over its thread is left to itself, and the agent goes on with another one. The same resource is not
//! run again before its old run has ended, since both would work on the same thing.
//!
//! Most runs find that there is nothing to do, which takes less than it takes to wake a thread. So a thread is given all
//! runs that wait for the agent at once ([`Batch`]), works them off in their order, and says itself what came of each. Whoever
//! gave them to it looks, when the time of one run is over, whether it is still at the same one. Only then the batch is taken
//! from it, and what it did not begin is there for another thread.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
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
/// A thread that has neither ended nor begun something is looked at again after this time.
const LOOK: Duration = Duration::from_millis(20);

/// A run of a native handler.
pub(crate) type Job = (&'static dyn Handler, Task);

/// Threads without work that are kept for whichever agent has some next.
const MAX_SPARE: usize = 64;
static SPARE: Mutex<Vec<Runner>> = Mutex::new(Vec::new());

/// What is known of an agent's native runs.
pub(crate) struct Native {
    ask: Ask,
    /// Resource → the thread of a run that was left behind.
    stuck: HashMap<ResourceId, JoinHandle<()>>,
}

/// Runs of one agent, one after the other.
struct Batch {
    progress: Mutex<Progress>,
    ask: Ask,
    reply: Reply,
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

struct Runner {
    batches: mpsc::Sender<Arc<Batch>>,
    /// The end of each batch.
    ends: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Native {
    /// `ask`: what references in resources ask the server by.
    pub(crate) fn new(ask: Ask) -> Self {
        Self {
            ask,
            stuck: HashMap::new(),
        }
    }

    /// Runs these, and says what came of each. Gives those that were not begun, since one before them hangs.
    pub(crate) fn run(&mut self, jobs: VecDeque<Job>, reply: &Reply) -> VecDeque<Job> {
        self.stuck.retain(|_, thread| !thread.is_finished());
        let mut todo = VecDeque::with_capacity(jobs.len());
        for (handler, task) in jobs {
            match self.why_not(&task) {
                Some(why) => reply(done_of(task.action, refused(&why)), Urgency::Now),
                None => todo.push_back((handler, task)),
            }
        }
        let Some((_, first)) = todo.front() else {
            return todo;
        };
        let limit = first.limit() + GRACE;
        let batch = Arc::new(Batch {
            progress: Mutex::new(Progress {
                todo,
                ..Progress::default()
            }),
            ask: Arc::clone(&self.ask),
            reply: Arc::clone(reply),
        });
        let runner = spare().pop().unwrap_or_else(Runner::start);
        // If the thread is gone its channel is closed, which the wait below finds.
        let _ = runner.batches.send(Arc::clone(&batch));
        self.wait(runner, &batch, limit)
    }

    /// Why a task cannot be run now.
    fn why_not(&self, task: &Task) -> Option<String> {
        if self.stuck.contains_key(&task.resource_id) {
            return Some(format!(
                "an earlier run of {}, which took longer than its limit, still hangs; it is not run again before that ends",
                task.resource_id
            ));
        }
        let stuck = self.stuck.keys().take(3).map(ResourceId::as_str);
        (self.stuck.len() >= MAX_STUCK).then(|| {
            let stuck: Vec<&str> = stuck.collect();
            format!("{MAX_STUCK} runs of this agent hang: {}", stuck.join(", "))
        })
    }

    /// Waits for the end of a batch, or for a run of it that takes longer than its limit. `patience`: before the first look.
    fn wait(&mut self, runner: Runner, batch: &Batch, mut patience: Duration) -> VecDeque<Job> {
        loop {
            match runner.ends.recv_timeout(patience) {
                Ok(()) => {
                    let mut spare = spare();
                    if spare.len() < MAX_SPARE {
                        spare.push(runner);
                    }
                    return VecDeque::new();
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let mut progress = batch.progress();
                    progress.is_taken = true;
                    let begun = progress.current.take().map(|current| current.action);
                    // At least one is answered for, so that this comes to an end.
                    let lost = begun.or_else(|| Some(progress.todo.pop_front()?.1.action));
                    if let Some(action) = lost {
                        let outcome = refused("the thread of the handler is gone");
                        (batch.reply)(done_of(action, outcome), Urgency::Now);
                    }
                    return std::mem::take(&mut progress.todo);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let mut progress = batch.progress();
                    let left = progress.current.as_ref().map(|current| {
                        let limit = current.limit + GRACE;
                        limit.saturating_sub(current.began.elapsed())
                    });
                    match left {
                        None => patience = LOOK,
                        Some(left) if !left.is_zero() => patience = left,
                        Some(_) => return self.leave_behind(runner, &batch.reply, &mut progress),
                    }
                }
            }
        }
    }

    /// Takes a batch from a thread whose run hangs.
    fn leave_behind(
        &mut self,
        runner: Runner,
        reply: &Reply,
        progress: &mut Progress,
    ) -> VecDeque<Job> {
        progress.is_taken = true;
        if let Some(current) = progress.current.take() {
            let message = format!(
                "Failure during executor execution for resource {}: its handler did not end within {} s (setting \
                 `deploy_timeout`) and was left behind",
                current.resource_id,
                current.limit.as_secs_f64()
            );
            reply(done_of(current.action, refused(&message)), Urgency::Now);
            self.stuck.insert(current.resource_id, runner.thread);
        }
        std::mem::take(&mut progress.todo)
    }
}

fn spare() -> MutexGuard<'static, Vec<Runner>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Batch {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works it off; `false`: it was taken away.
    fn work(&self) -> bool {
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
                true => Urgency::Now,
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

impl Runner {
    fn start() -> Self {
        let (batches, todo) = mpsc::channel::<Arc<Batch>>();
        let (end, ends) = mpsc::channel();
        // It ends when nobody has work for it any more.
        let thread = thread::spawn(move || {
            for batch in todo {
                if !batch.work() || end.send(()).is_err() {
                    return;
                }
            }
        });
        Self {
            batches,
            ends,
            thread,
        }
    }
}

#[cfg(test)]
mod tests;
