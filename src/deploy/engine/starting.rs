//! What may run is handed to the executor; what is no deployment waits for its turn in the same queues.

use std::sync::Arc;

use super::{Comparing, InFlight, QueuedTask, Reconciler, services};
use crate::deploy::schedule::{Priority, Run, Start};
use crate::domain::{ActionId, ActionKind, Timestamp};
use crate::executor::protocol::{Task, TaskKind};
use crate::store::ActionStart;

impl Reconciler {
    /// How long a handler may take for one run that begins now.
    pub(in crate::deploy) fn limit_ms(&self) -> u64 {
        u64::try_from(self.settings.deploy_timeout().as_millis()).unwrap_or(u64::MAX)
    }

    /// Hands out all that may run.
    pub(super) async fn start_ready_runs(&mut self) {
        // What runs here is over at once, so that something else may be ready by then.
        while self.start_some().await {}
    }

    /// Hands out what may run now; `true`: some of it has ended already.
    async fn start_some(&mut self) -> bool {
        let mut has_ended = false;
        let most = self
            .fresh
            .room(|action| self.in_flight.contains_key(action));
        for start in self.schedule.take(most) {
            match start {
                Start::Deploy(run) => has_ended |= self.start_deploy(run).await,
                Start::Task(action) => self.start_task(action).await,
            }
        }
        self.executor.hurry(&self.schedule.take_hurried());
        self.executor.flush().await;
        has_ended
    }

    /// `true`: it has ended already.
    async fn start_deploy(&mut self, run: Run) -> bool {
        self.begin_round();
        let started = Timestamp::now();
        self.unwritten.starts.push(ActionStart {
            id: run.action,
            action: ActionKind::Deploy,
            version: run.version,
            resource_id: run.intent.resource_id.clone(),
            started,
        });
        if run.intent.resource_type == services::LIFECYCLE_TRANSFER {
            self.report(run, started);
            return true;
        }
        let code = Arc::clone(self.code.of(&run.intent.agent));
        let task = Task {
            action: run.action,
            kind: TaskKind::Deploy {
                requires: run.requires.clone(),
                dependency_changed: run.dependency_changed,
            },
            code: code.key.clone(),
            agent: run.intent.agent.clone(),
            resource_id: run.intent.resource_id.clone(),
            resource_type: run.intent.resource_type.to_string(),
            version: run.version,
            attributes: run.intent.attributes.to_string(),
            reason: run.reason.clone(),
            limit_ms: self.limit_ms(),
        };
        self.fresh.note(run.action);
        self.in_flight
            .insert(run.action, InFlight::new(run, started));
        self.executor.run(task, &code).await;
        false
    }

    /// Lets a task that is no deployment wait for its turn in the queue of its agent.
    pub(in crate::deploy) fn queue_task(&mut self, queued: QueuedTask, priority: Priority) {
        let task = &queued.task;
        self.schedule.add_task(task.action, &task.agent, priority);
        self.queued_tasks.insert(task.action, queued);
    }

    async fn start_task(&mut self, action: ActionId) {
        let Some(QueuedTask { task, code, place }) = self.queued_tasks.remove(&action) else {
            self.schedule.task_finished(action);
            return;
        };
        if matches!(task.kind, TaskKind::CollectFacts) {
            self.facts.on_started(&task.resource_id);
            self.unwritten.starts.push(ActionStart {
                id: action,
                action: ActionKind::CollectFacts,
                version: task.version,
                resource_id: task.resource_id.clone(),
                started: Timestamp::now(),
            });
        }
        if task.is_dry_run() {
            let comparing = Comparing {
                version: task.version,
                started: Timestamp::now(),
            };
            self.comparing.insert(action, comparing);
        }
        match place {
            None => self.executor.run(task, &code).await,
            Some(place) => self.executor.run_at(place, task, &code).await,
        }
    }
}
