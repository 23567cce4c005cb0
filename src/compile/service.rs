//! The loop that keeps an environment's version up with its repository.
//!
//! Who wakes it: webhooks, file events, requests over the API, its own poll timer and cron. A wake-up carries no data:
//! the loop looks at the store and the repository, queues a compile when the head is not judged yet, and works off the
//! queue. Whatever number of pushes came during a compile, the newest commit is compiled once. At shutdown it ends
//! between two steps; a compile that is cut off runs again under the same request.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::{Mutex, Notify, RwLock, watch};
use tokio_util::sync::CancellationToken;

use super::execute::Ready;
use super::failures::Failures;
use super::install::Place;
use super::network::Proxy;
use super::next::{inputs_digest, needs_compile};
use super::notify::notify_failed;
use super::redact::SecretVariables;
use super::repository::Reader;
use super::run::{self, Context, begin};
use super::services::report_ends;
use super::source::{Head, Source};
use super::validations::Validations;
use super::worker::Pool;
use crate::domain::chain;
use crate::domain::{DataDir, EnvironmentId, Interval, Timestamp, WakeHandle};
use crate::git::{CommitId, Credentials, Reach};
use crate::lsm::Services;
use crate::observe::{Bus, EventKind};
use crate::store::{
    Compile, CompileBatches, CompileEnd, CompileRequest, Environment, Lane, Outcome, Store,
};

/// What the compile loop of an environment is started with.
#[derive(Debug, Clone)]
pub struct Options {
    pub environment: EnvironmentId,
    pub store: Store,
    pub bus: Bus,
    pub pool: Pool,
    /// Wakes the engine, which reads from the store which version is released.
    pub engine: WakeHandle,
    /// Mirrors and checkouts are below it.
    pub data: DataDir,
    /// How often to look without being told; zero: never.
    pub poll: Duration,
    pub credentials: Credentials,
    /// Variables that no row holds.
    pub secrets: SecretVariables,
    /// The proxy over which compiles reach the hosts that they may reach.
    pub proxy: Option<Proxy>,
    /// The hosts that the repository may be at.
    pub reach: Reach,
    /// A fact that is older is not known.
    pub fact_expire: Duration,
    /// The catalog and the inventory of services.
    pub services: Services,
    /// Held for reading while a compile uses a checkout that no version names yet.
    pub checkouts: Arc<RwLock<()>>,
    pub shutdown: CancellationToken,
}

/// The handle of an environment's compile loop.
#[derive(Debug, Clone)]
pub struct Compiler {
    lanes: Arc<Lanes>,
}

/// What the two lanes of an environment share: that of compiles which may store a version, and that of validations.
#[derive(Debug)]
pub(super) struct Lanes {
    exports: Arc<Notify>,
    pub(super) validations: Arc<Notify>,
    /// The commit whose definitions of services the catalog has: compiles that services ask for are of this one, also while
    /// the newest commit does not compile.
    pub(super) accepted: watch::Sender<Option<Head>>,
    /// Held for reading while a compile uses the lasting name of the checkout, for writing while that changes.
    pub(super) link: RwLock<()>,
    /// How often a compile has written attributes into the inventory; held while one does.
    n_writes: Mutex<u64>,
    /// Held from what a validation's verdict goes by to when it is written.
    verdicts: Mutex<()>,
    /// What was prepared last.
    ready: Mutex<Option<Ready>>,
    /// The commit of which everything was compiled last, in the place of a part, if that was rejected.
    full_rejected: Mutex<Option<CommitId>>,
    /// Why the repository could not be fetched the last time, and since when that is so.
    fetch_failure: std::sync::Mutex<Option<(Timestamp, String)>>,
}

impl Lanes {
    pub(super) fn wake(&self) {
        self.exports.notify_one();
        self.validations.notify_one();
    }
}

impl Compiler {
    /// Starts the loops of an environment.
    pub fn start(options: Options) -> (Self, tokio::task::JoinHandle<()>) {
        let lanes = Arc::new(Lanes {
            exports: Arc::default(),
            validations: Arc::default(),
            accepted: watch::Sender::new(None),
            link: RwLock::new(()),
            n_writes: Mutex::new(0),
            verdicts: Mutex::new(()),
            ready: Mutex::new(None),
            full_rejected: Mutex::new(None),
            fetch_failure: std::sync::Mutex::default(),
        });
        let compiler = Self {
            lanes: Arc::clone(&lanes),
        };
        let id = options.environment;
        let begin = (options, lanes);
        let task = tokio::spawn(async move {
            let exports = ever(id, || {
                let (options, lanes) = begin.clone();
                async move { CompileLoop::new(options, lanes).run().await }
            });
            let validations = ever(id, || {
                let (options, lanes) = begin.clone();
                async move { Validations::new(options, lanes).run().await }
            });
            tokio::join!(exports, validations);
        });
        (compiler, task)
    }

    /// Tells it that there may be something to do: a request to look at the repository, or one to compile in the queue.
    pub fn wake(&self) {
        self.lanes.wake();
    }

    /// Why the repository cannot be fetched, and since when; `None`: it could, the last time.
    pub fn fetch_failure(&self) -> Option<(Timestamp, String)> {
        let failure = self.lanes.fetch_failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs a loop to its end. A panic is a bug of ours; the environment must not be dead for it. All state is read anew.
async fn ever<F: Future<Output = ()>>(environment: EnvironmentId, life: impl Fn() -> F) {
    while std::panic::AssertUnwindSafe(life())
        .catch_unwind()
        .await
        .is_err()
    {
        tracing::error!(environment.id = %environment, "the compile loop panicked; it starts again");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

impl Options {
    /// What a compile of a lane needs.
    pub(super) async fn context<'a>(
        &'a self,
        lanes: &'a Lanes,
        place: Place,
    ) -> Result<Context<'a>, crate::store::Error> {
        let newest = self.store.version_newest_compiled(self.environment).await?;
        Ok(Context {
            store: &self.store,
            bus: &self.bus,
            pool: &self.pool,
            data: &self.data,
            environment: self.environment,
            fact_expire: self.fact_expire,
            secrets: &self.secrets,
            services: &self.services,
            accepted: &lanes.accepted,
            n_writes: &lanes.n_writes,
            verdicts: &lanes.verdicts,
            ready: &lanes.ready,
            full_rejected: &lanes.full_rejected,
            has_version: newest.is_some(),
            place,
            link: &lanes.link,
            proxy: self.proxy.as_ref(),
            reach: self.reach,
        })
    }
}

struct CompileLoop {
    options: Options,
    lanes: Arc<Lanes>,
    /// The newest commit that was fetched, and when.
    head: Option<(Head, (Timestamp, Instant))>,
    failures: Failures,
    /// Compiles may be marked running that nobody runs: after a start, and after an error between the two.
    may_be_interrupted: bool,
    /// Changes when the database has been away: what was written last may be gone.
    returns: watch::Receiver<u64>,
    batches: CompileBatches,
    last_compile: Option<Instant>,
    /// When the next partial compile is due if others wait that it can be made one with.
    next_partial: Option<Instant>,
    next_cron: Option<Timestamp>,
}

/// Between two attempts while the database does not work, each of which is a line of the log: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// While validations wait, the pause between two exports of service instances is this many times as long as the first of them
/// took, so that exports take about a tenth of the time, on slow machines and fast ones.
const BATCH_PAUSES: u32 = 8;
/// The longest such pause: an instance waits no longer for others.
const MAX_BATCH_PAUSE: Duration = Duration::from_secs(2);
/// How often it is looked whether any wait still.
const BATCH_LOOK: Duration = Duration::from_millis(20);

/// A compile that was begun this often without an end is given up, if it is also old.
pub(super) const MAX_ATTEMPTS: i64 = 10;
/// A compile that was asked for so long ago, and was begun that often. A server that dies all the time, and not by this compile,
/// is well again by then; before, an order that was taken would end as one whose model is wrong.
const MAX_ATTEMPTS_AGE: Duration = Duration::from_secs(600);

/// Whether a claimed compile ends its server, or its machine, each time, as far as one can tell.
pub(super) fn is_given_up(compile: &Compile) -> bool {
    compile.attempts > MAX_ATTEMPTS && Timestamp::now().since(compile.requested) > MAX_ATTEMPTS_AGE
}

impl CompileLoop {
    fn new(options: Options, lanes: Arc<Lanes>) -> Self {
        let returns = options.store.database_returns();
        Self {
            options,
            lanes,
            head: None,
            failures: Failures::default(),
            may_be_interrupted: true,
            returns,
            batches: CompileBatches::default(),
            last_compile: None,
            next_partial: None,
            next_cron: None,
        }
    }

    async fn run(&mut self) {
        let shutdown = self.options.shutdown.clone();
        let mut pause = FIRST_PAUSE;
        loop {
            // A wake-up during the turn is kept and wakes the next one.
            let wake = Arc::clone(&self.lanes.exports);
            let turn = tokio::select! {
                // Dropping a turn at shutdown loses nothing: requests are rows until they are done.
                turn = self.turn() => turn,
                () = shutdown.cancelled() => return,
            };
            if turn.is_ok() {
                pause = FIRST_PAUSE;
            }
            let wait = match turn {
                Ok(true) => continue,
                Ok(false) => self.wait(),
                Err(error) => {
                    self.may_be_interrupted = true;
                    let message = format!("the compile loop cannot go on: {}", chain(&error));
                    self.options
                        .bus
                        .emit(self.options.environment, EventKind::Trouble { message });
                    tracing::error!(environment.id = %self.options.environment, error = chain(&error), "the compile loop cannot go on; trying again in {pause:?}");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = shutdown.cancelled() => return,
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            tokio::select! {
                () = wake.notified() => {}
                Ok(()) = self.returns.changed() => self.may_be_interrupted = true,
                () = tokio::time::sleep(wait) => self.poll().await,
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Until the next poll, earlier after a failure; never longer than to the next cron moment.
    fn wait(&self) -> Duration {
        let poll = if self.options.poll.is_zero() {
            Duration::from_secs(3600)
        } else {
            jittered(self.options.poll)
        };
        let poll = self.failures.pause().map_or(poll, |pause| poll.min(pause));
        let cron = self
            .next_cron
            .map_or(poll, |due| due.since(Timestamp::now()));
        cron.min(poll) + Duration::from_millis(1)
    }

    async fn poll(&mut self) {
        if self.options.poll.is_zero() && self.failures.pause().is_none() {
            return;
        }
        let store = &self.options.store;
        if let Err(error) = store
            .refresh_request(
                self.options.environment,
                "poll",
                "Compile triggered by a poll",
            )
            .await
        {
            tracing::error!(environment.id = %self.options.environment, error = chain(&error), "cannot note the poll");
        }
    }

    /// Looks if asked to, and does one compile if one is due: `true`, and there may be more to do.
    async fn turn(&mut self) -> Result<bool, crate::store::Error> {
        let (store, id) = (self.options.store.clone(), self.options.environment);
        if self.may_be_interrupted {
            let n_compiles = store.compile_requeue_interrupted(id, Lane::Exports).await?;
            if n_compiles > 0 {
                tracing::warn!(environment.id = %id, n_compiles, "compiles were cut off; they run again");
            }
            self.report_ends().await?;
            self.may_be_interrupted = false;
        }
        // Read anew each time: a halt or a setting counts for the very next compile.
        let Some(environment) = store.environment_fetch(id).await? else {
            return Ok(false);
        };
        let settings = store.settings_fetch(id).await?;
        self.cron(&settings.auto_full_compile(), &environment)
            .await?;
        if environment.halted {
            return Ok(false);
        }
        self.refresh(&environment).await?;
        self.accept_stored(&environment).await?;
        if let Some(last) = self.last_compile.take() {
            let pause = settings.recompile_backoff().saturating_sub(last.elapsed());
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
                // What was read before the pause may hold no more.
                return Ok(true);
            }
        }
        let is_batching = settings.batched_partial_compiles();
        if is_batching && self.more_is_coming().await? {
            tokio::time::sleep(BATCH_LOOK).await;
            return Ok(true);
        }
        let batches = is_batching.then_some(&self.batches);
        let claimed = store.compile_claim(id, Lane::Exports, batches).await?;
        let Some((first, served)) = claimed.split_first() else {
            return Ok(false);
        };
        let first = first.joined_with(served);
        self.may_be_interrupted = true;
        let began = Instant::now();
        match self.compile(&environment, &first, served).await? {
            run::Verdict::Split => {
                store.compile_split(&claimed).await?;
                self.batches.split(&claimed);
            }
            _ => self.batches.forget(&claimed),
        }
        self.report_ends().await?;
        self.may_be_interrupted = false;
        // A pause keeps bursts of requests from compiling all again and again; a partial compile is small.
        let is_partial = first.services.is_some_and(|services| services.is_partial);
        self.last_compile = (!is_partial).then(Instant::now);
        let pause = MAX_BATCH_PAUSE.min(began.elapsed() * BATCH_PAUSES);
        self.next_partial = is_partial.then(|| Instant::now() + pause);
        Ok(true)
    }

    /// Whether an export of service instances waits for others that it can be made one with. While validations queue up, that is
    /// under load, each of them ends in an export a moment later: made one by one, these would cost as much as the validations.
    /// So there is a pause between two exports then, which is less than what the orders in the queue wait anyway; an order that
    /// comes alone waits for nothing.
    async fn more_is_coming(&self) -> Result<bool, crate::store::Error> {
        if self.next_partial.is_none_or(|due| Instant::now() >= due) {
            return Ok(false);
        }
        let options = &self.options;
        options
            .store
            .compile_validations_wait(options.environment)
            .await
    }

    /// Runs a claimed compile to its end, which is durable then.
    async fn compile(
        &mut self,
        environment: &Environment,
        first: &Compile,
        served: &[Compile],
    ) -> Result<run::Verdict, crate::store::Error> {
        let accepted = first.services.as_ref().and_then(|_| {
            let accepted = self.lanes.accepted.borrow().clone();
            accepted.map(|head| (head, begin()))
        });
        let failure = if is_given_up(first) {
            Some(given_up())
        } else if accepted.is_some() {
            None
        } else if environment.repo_url.is_empty() {
            Some("no project found and no repository set".to_owned())
        } else if first.update || self.head.is_none() {
            self.fetch(environment).await.err()
        } else {
            None
        };
        let (Some((head, fetched)), None) = (accepted.as_ref().or(self.head.as_ref()), &failure)
        else {
            let store = &self.options.store;
            let why = failure.unwrap_or_default();
            let end = aborted(first, served, why.clone());
            store.compile_finish(&end).await?;
            let all = std::iter::once(first).chain(served);
            let is_fetch = self.failures.n_fetches > 0;
            notify_failed(store, all, is_fetch.then_some(&why)).await?;
            return Ok(run::Verdict::Aborted);
        };
        let checkouts = Arc::clone(&self.options.checkouts);
        let _in_use = checkouts.read().await;
        let context = self.options.context(&self.lanes, Place::Export).await?;
        let verdict = run::run(&context, first, served, head, *fetched).await?;
        if verdict != run::Verdict::Split {
            let all = std::iter::once(first).chain(served);
            notify_failed(&self.options.store, all, None).await?;
        }
        if verdict == run::Verdict::Stored {
            if first.services.is_none() {
                *self.lanes.full_rejected.lock().await = None;
                self.lanes.accepted.send_replace(Some(head.clone()));
            }
            self.options.engine.wake();
        }
        self.failures.compiled(verdict);
        Ok(verdict)
    }

    /// Has the lifecycle manager take note of what has ended, and looks for what it asks for then.
    async fn report_ends(&self) -> Result<(), crate::store::Error> {
        let options = &self.options;
        let (store, services) = (&options.store, &options.services);
        if report_ends(store, services, options.environment, Lane::Exports).await? > 0 {
            self.lanes.wake();
        }
        Ok(())
    }

    /// After a start: the commit whose definitions the catalog has is that of the newest version.
    async fn accept_stored(&self, environment: &Environment) -> Result<(), crate::store::Error> {
        if self.lanes.accepted.borrow().is_some() || environment.repo_url.is_empty() {
            return Ok(());
        }
        let options = &self.options;
        let newest = options
            .store
            .version_newest_compiled(environment.id)
            .await?;
        let (url, branch) = (&environment.repo_url, &environment.repo_branch);
        let source = Source::from_stored(url, branch, &options.data).ok();
        if let Some(head) = newest
            .zip(source)
            .and_then(|(version, source)| Head::of_version(source, &version))
        {
            self.lanes.accepted.send_replace(Some(head));
            self.lanes.wake();
        }
        Ok(())
    }

    /// Queues a compile when its cron moment came.
    async fn cron(
        &mut self,
        interval: &Interval,
        environment: &Environment,
    ) -> Result<(), crate::store::Error> {
        let now = Timestamp::now();
        if self.next_cron.is_some_and(|due| due <= now) && interval.cron_expression().is_some() {
            self.request(
                environment,
                "schedule",
                "A full compile was triggered by a cron schedule",
            )
            .await?;
        }
        self.next_cron = interval.next_cron(now);
        Ok(())
    }

    /// Works off the request to look at the repository.
    async fn refresh(&mut self, environment: &Environment) -> Result<(), crate::store::Error> {
        let (store, id) = (self.options.store.clone(), self.options.environment);
        let Some(request) = store.refresh_fetch(id).await? else {
            return Ok(());
        };
        if environment.repo_url.is_empty() {
            return store.refresh_done(id, &request).await;
        }
        if self.fetch(environment).await.is_err() {
            // The request stays; the next poll or wake-up tries again.
            return Ok(());
        }
        if let Some((head, _)) = &self.head {
            let commit = head.info.id.to_string();
            let secrets = self.options.secrets.digest();
            let tree = head.info.tree.to_string();
            let inputs = inputs_digest(&tree, &environment.variables, secrets.as_deref());
            let last = store.compile_last_judged(id).await?;
            let is_start = request.trigger_kind == "start";
            if needs_compile(&commit, &inputs, last.as_ref(), is_start) {
                self.request(environment, &request.trigger_kind, &request.message)
                    .await?;
            } else if let Some(version) = last.map(|last| last.version) {
                let commit = commit.chars().take(8).collect();
                self.options
                    .bus
                    .emit(id, EventKind::UpToDate { commit, version });
            }
        }
        store.refresh_done(id, &request).await
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
            // The refresh has fetched already.
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

    fn set_fetch_failure(&self, message: Option<&str>) {
        let failure = self.lanes.fetch_failure.lock();
        let mut failure = failure.unwrap_or_else(PoisonError::into_inner);
        *failure = message.map(|message| {
            let since = failure
                .take()
                .map_or_else(Timestamp::now, |(since, _)| since);
            (since, message.to_owned())
        });
    }

    /// Brings the newest commit here. When that fails it gives the reason, which it has told already.
    async fn fetch(&mut self, environment: &Environment) -> Result<(), String> {
        let began = (Timestamp::now(), Instant::now());
        let options = &self.options;
        let reader = Reader {
            data: &options.data,
            environment: options.environment,
            pool: &options.pool,
        };
        let (url, branch) = (&environment.repo_url, &environment.repo_branch);
        let fetched = match Source::from_stored(url, branch, &options.data) {
            Ok(source) => {
                let known = self.head.as_ref().map(|(head, _)| head.info.id);
                let fetched = reader.fetch(&source, &options.credentials, options.reach, known);
                fetched.await.map_err(|error| chain(&error))
            }
            Err(error) => Err(chain(&error)),
        };
        match fetched {
            Ok(head) => {
                self.head = Some((head, began));
                if self.failures.n_fetches > 0 {
                    let id = self.options.environment;
                    tracing::info!(environment.id = %id, "the repository can be fetched again");
                }
                self.failures.n_fetches = 0;
                self.set_fetch_failure(None);
                Ok(())
            }
            Err(message) => {
                self.failures.n_fetches += 1;
                self.set_fetch_failure(Some(&message));
                let (id, n_failures) = (self.options.environment, self.failures.n_fetches);
                tracing::error!(environment.id = %id, n_failures, "cannot fetch the repository: {message}");
                self.options.bus.emit(
                    id,
                    EventKind::FetchFailed {
                        message: message.clone(),
                    },
                );
                Err(message)
            }
        }
    }
}

/// Why a compile that ends its worker each time is not tried again.
pub(super) fn given_up() -> String {
    format!("given up: it was begun more than {MAX_ATTEMPTS} times and never ended")
}

/// The end of a compile that could not begin.
pub(super) fn aborted(first: &Compile, served: &[Compile], reason: String) -> CompileEnd {
    CompileEnd {
        id: first.id,
        served: served.iter().map(|compile| compile.id).collect(),
        outcome: Outcome::Aborted(reason),
        diagnostics: json!([]),
        commit_id: None,
        tree_id: None,
        inputs_digest: None,
        result_digest: None,
    }
}

/// Between 90 and 110 % of it, so that many environments do not ask one remote at once.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(rand::random_range(0.9..1.1))
}
