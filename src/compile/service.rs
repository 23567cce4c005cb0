//! The loop that keeps an environment's version up with its repository.
//!
//! Who wakes it: webhooks, file events, requests over the API, its own poll timer and cron. A wake-up carries no data:
//! the loop looks at the store and the repository, queues a compile when the head is not judged yet, and works off the
//! queue. Whatever number of pushes came during a compile, the newest commit is compiled once. At shutdown it ends
//! between two steps; a compile that is cut off runs again under the same request.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use super::next::{inputs_digest, needs_compile};
use super::run::{self, Context, blocking};
use super::source::{Head, Source};
use super::worker::Pool;
use crate::deploy::{Engine, chain};
use crate::domain::{EnvironmentId, Interval, Timestamp};
use crate::git::{self, Credentials};
use crate::observe::{Bus, What};
use crate::store::{CompileEnd, CompileRequest, Environment, Outcome, Store};

/// What the compile loop of an environment is started with.
#[derive(Debug, Clone)]
pub struct Options {
    pub environment: EnvironmentId,
    pub store: Store,
    pub bus: Bus,
    pub pool: Pool,
    pub engine: Engine,
    /// Mirrors and checkouts are below it.
    pub data: PathBuf,
    /// How often to look without being told; zero: never.
    pub poll: Duration,
    pub credentials: Credentials,
    /// Held for reading while a compile uses a checkout that no version names yet.
    pub checkouts: Arc<RwLock<()>>,
    pub shutdown: CancellationToken,
}

/// The handle of an environment's compile loop.
#[derive(Debug, Clone)]
pub struct Compiler {
    wake: Arc<Notify>,
}

impl Compiler {
    /// Starts the loop of an environment.
    pub fn start(options: Options) -> (Self, tokio::task::JoinHandle<()>) {
        let wake = Arc::new(Notify::new());
        let compiler = Self {
            wake: Arc::clone(&wake),
        };
        let task = tokio::spawn(async move {
            Loop {
                options,
                wake,
                head: None,
                failing_since: None,
            }
            .run()
            .await
        });
        (compiler, task)
    }

    /// Tells it that there may be something to do: a look, or a request in the queue.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

struct Loop {
    options: Options,
    wake: Arc<Notify>,
    /// The newest commit that was fetched, and when.
    head: Option<(Head, (Timestamp, Instant))>,
    failing_since: Option<(Instant, u32)>,
}

impl Loop {
    async fn run(&mut self) {
        let shutdown = self.options.shutdown.clone();
        let mut next_cron = None;
        loop {
            // Subscribed before the store is read: what comes meanwhile wakes the next turn.
            let wake = Arc::clone(&self.wake);
            let woken = wake.notified();
            let turn = tokio::select! {
                // Dropping a turn at shutdown loses nothing: requests and looks are rows until they are done.
                turn = self.turn(&mut next_cron) => turn,
                () = shutdown.cancelled() => return,
            };
            if let Err(error) = turn {
                tracing::error!(environment.id = %self.options.environment, error = chain(&error), "the compile loop cannot go on; trying again");
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    () = shutdown.cancelled() => return,
                }
                continue;
            }
            let wait = self.wait(next_cron);
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep(wait) => self.poll().await,
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Until the next poll, earlier after a failure; never longer than to the next cron moment.
    fn wait(&self, next_cron: Option<Timestamp>) -> Duration {
        let poll = if self.options.poll.is_zero() {
            Duration::from_secs(3600)
        } else {
            jittered(self.options.poll)
        };
        let poll = match self.failing_since {
            Some((_, n_failures)) => poll.min(Duration::from_secs(1 << n_failures.min(8))),
            None => poll,
        };
        next_cron.map_or(poll, |due| due.since(Timestamp::now()).min(poll))
            + Duration::from_millis(1)
    }

    async fn poll(&mut self) {
        if self.options.poll.is_zero() && self.failing_since.is_none() {
            return;
        }
        let store = &self.options.store;
        if let Err(error) = store
            .look_request(
                self.options.environment,
                "poll",
                "Compile triggered by a poll",
            )
            .await
        {
            tracing::error!(environment.id = %self.options.environment, error = chain(&error), "cannot note the poll");
        }
    }

    async fn turn(&mut self, next_cron: &mut Option<Timestamp>) -> Result<(), crate::store::Error> {
        let (store, id) = (self.options.store.clone(), self.options.environment);
        let Some(environment) = store.environment_fetch(id).await? else {
            return Ok(());
        };
        let settings = store.settings_fetch(id).await?;
        self.cron(next_cron, &settings.auto_full_compile(), &environment)
            .await?;
        if environment.halted {
            return Ok(());
        }
        self.look(&environment).await?;
        loop {
            let mut claimed = store.compile_claim(id).await?.into_iter();
            let Some(first) = claimed.next() else {
                return Ok(());
            };
            let served: Vec<_> = claimed.collect();
            if first.update || self.head.is_none() {
                self.fetch(&environment).await;
            }
            let Some((head, fetched)) = &self.head else {
                let reason = if environment.repo_url.is_empty() {
                    "no project found and no repository set".to_owned()
                } else {
                    "the repository cannot be fetched".to_owned()
                };
                let end = CompileEnd {
                    id: first.id,
                    served: served.iter().map(|compile| compile.id).collect(),
                    outcome: Outcome::Aborted(reason),
                    diagnostics: json!([]),
                    commit_id: None,
                    tree_id: None,
                    inputs_digest: None,
                    result_digest: None,
                };
                store.compile_finish(&end).await?;
                continue;
            };
            let context = Context {
                store: &store,
                bus: &self.options.bus,
                pool: &self.options.pool,
                data: &self.options.data,
                environment: id,
                release: settings.auto_deploy(),
            };
            let checkouts = Arc::clone(&self.options.checkouts);
            let _in_use = checkouts.read().await;
            if run::run(&context, &first, &served, head, *fetched)
                .await?
                .is_some()
            {
                self.options.engine.wake();
            }
            tokio::time::sleep(
                settings
                    .recompile_backoff()
                    .min(Duration::from_secs(1))
                    .mul_f64(0.1),
            )
            .await;
            // A push that came during this compile is looked at before the next request is taken.
            self.look(&environment).await?;
        }
    }

    /// Queues a compile when its cron moment came.
    async fn cron(
        &mut self,
        next_cron: &mut Option<Timestamp>,
        interval: &Interval,
        environment: &Environment,
    ) -> Result<(), crate::store::Error> {
        let now = Timestamp::now();
        if next_cron.is_some_and(|due| due <= now) && interval.next_cron(now).is_some() {
            self.request(
                environment,
                "schedule",
                "A full compile was triggered by a cron schedule",
            )
            .await?;
        }
        *next_cron = interval.next_cron(now);
        Ok(())
    }

    /// Works off the wish to look at the repository.
    async fn look(&mut self, environment: &Environment) -> Result<(), crate::store::Error> {
        let (store, id) = (self.options.store.clone(), self.options.environment);
        let Some(look) = store.look_fetch(id).await? else {
            return Ok(());
        };
        if environment.repo_url.is_empty() {
            return store.look_done(id, &look).await;
        }
        if !self.fetch(environment).await {
            // The wish stays; the next poll or wake-up tries again.
            return Ok(());
        }
        if let Some((head, _)) = &self.head {
            let commit = head.info.id.to_string();
            let inputs = inputs_digest(&head.info.tree.to_string(), &environment.variables);
            let last = store.compile_last_judged(id).await?;
            let is_start = look.trigger_kind == "start";
            if needs_compile(&commit, &inputs, last.as_ref(), is_start) {
                self.request(environment, &look.trigger_kind, &look.message)
                    .await?;
            } else if let Some(version) = last.map(|last| last.version) {
                let commit = commit.chars().take(8).collect();
                self.options
                    .bus
                    .emit(id, What::UpToDate { commit, version });
            }
        }
        store.look_done(id, &look).await
    }

    async fn request(
        &self,
        environment: &Environment,
        kind: &str,
        message: &str,
    ) -> Result<(), crate::store::Error> {
        let request = CompileRequest {
            environment_id: environment.id,
            do_export: true,
            // The look has fetched already.
            update: kind == "schedule",
            metadata: json!({"type": kind, "message": message}),
            variables: environment.variables.clone(),
        };
        self.options
            .store
            .compile_request(&request)
            .await
            .map(|_| ())
    }

    /// Brings the newest commit here; `false` and an event when that failed.
    async fn fetch(&mut self, environment: &Environment) -> bool {
        let began = (Timestamp::now(), Instant::now());
        let (data, credentials) = (self.options.data.clone(), self.options.credentials.clone());
        let fetched =
            match Source::from_stored(&environment.repo_url, &environment.repo_branch, &data) {
                Ok(source) => blocking(move || source.fetch(&data, &credentials))
                    .await
                    .map_err(|error: git::Error| chain(&error)),
                Err(error) => Err(chain(&error)),
            };
        match fetched {
            Ok(head) => {
                self.head = Some((head, began));
                self.failing_since = None;
                true
            }
            Err(message) => {
                let (since, n_failures) = self.failing_since.unwrap_or((Instant::now(), 0));
                self.failing_since = Some((since, n_failures + 1));
                tracing::error!(environment.id = %self.options.environment, n_failures = n_failures + 1, "cannot fetch the repository: {message}");
                self.options
                    .bus
                    .emit(self.options.environment, What::FetchFailed { message });
                false
            }
        }
    }
}

/// Between 90 and 110 % of it, so that many environments do not ask one remote at once.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(rand::random_range(0.9..1.1))
}
