//! One compile, from a commit to a stored version or a report of why not.

mod finish;
mod judgement;
mod stages;

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard, RwLock, watch};

use super::execute::{Ready, execute};
use super::install::Place;
use super::network::Proxy;
use super::redact::SecretVariables;
use super::services::report_ends;
use super::source::Head;
use super::worker::Pool;
use crate::domain::{DataDir, EnvironmentId, Timestamp, VersionNumber};
use crate::git::{CommitId, Reach};
use crate::lsm::Services;
use crate::observe::{Bus, CompileDone, EventKind, RenderedDiagnostic};
use crate::store::{self, Compile, Lane, Store};

use finish::{Finished, end_of, finish};
pub(super) use judgement::{Failure, stored};
use judgement::{Judgement, judge};
pub(super) use stages::{Stages, begin};

/// What one compile needs of its surroundings.
pub(super) struct Context<'a> {
    pub(super) store: &'a Store,
    pub(super) bus: &'a Bus,
    pub(super) pool: &'a Pool,
    pub(super) data: &'a DataDir,
    pub(super) environment: EnvironmentId,
    /// A fact that is older is not known.
    pub(super) fact_expire: Duration,
    pub(super) secrets: &'a SecretVariables,
    /// The catalog and the inventory of services.
    pub(super) services: &'a Services,
    /// The commit whose definitions the catalog has.
    pub(super) accepted: &'a watch::Sender<Option<Head>>,
    /// How often a compile has written attributes into the inventory; held while one does.
    pub(super) n_writes: &'a Mutex<u64>,
    /// Held from what a validation's verdict goes by to when it is written.
    pub(super) verdicts: &'a Mutex<()>,
    /// What was prepared last.
    pub(super) ready: &'a Mutex<Option<Ready>>,
    /// The commit of which everything was compiled last, in the place of a part, if that was rejected.
    pub(super) full_rejected: &'a Mutex<Option<CommitId>>,
    /// The environment has a version already.
    pub(super) has_version: bool,
    pub(super) place: Place,
    /// Held for reading while a compile uses the lasting name of the checkout, for writing while that changes.
    pub(super) link: &'a RwLock<()>,
    /// The proxy over which the compile reaches the hosts that it may reach.
    pub(super) proxy: Option<&'a Proxy>,
    /// What hosts the repository may be at, and what it names.
    pub(super) reach: Reach,
}

impl Context<'_> {
    /// Whether the catalog has the definitions of this commit.
    pub(super) fn is_accepted(&self, head: &Head) -> bool {
        let accepted = self.accepted.borrow();
        accepted
            .as_ref()
            .is_some_and(|known| known.info.id == head.info.id)
    }
}

/// How a compile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A version was stored.
    Stored,
    Compiled,
    Rejected,
    Aborted,
    /// It was for several instances, and one of them is to blame: nothing is written, and each half of them is to be tried alone.
    Split,
}

/// Runs `compile` on the commit `head`; `served` are requests that this run answers too. The end is durable when this
/// returns.
///
/// The stages are: check out, install, compile ([`execute`]), [`judge`], [`finish`], and tell of it.
pub(super) async fn run(
    context: &Context<'_>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    fetched: (Timestamp, Instant),
) -> Result<Verdict, store::Error> {
    let began = Instant::now();
    let commit = head.info.id.to_string();
    let short: String = commit.chars().take(8).collect();
    let started = EventKind::CompileStarted {
        compile: compile.id,
        commit: short.clone(),
        summary: match compile.services.as_ref() {
            Some(services) => format!("{}: {}", services.what_for(), head.info.summary),
            None => head.info.summary.clone(),
        },
    };
    context.bus.emit(context.environment, started);
    let mut stages = Stages {
        context,
        compile,
        position: 0,
        held: Vec::new(),
    };
    let pulled = format!("{short} {}", head.info.summary);
    stages
        .write(
            "Pulling updates",
            "git fetch",
            fetched,
            pulled,
            String::new(),
        )
        .await;
    let ended = match attempt(context, compile, served, head, &mut stages, Extent::Asked).await {
        Err(store::Error::Base(why)) => {
            let ended = export_all(context, compile, served, head, &mut stages, &why);
            ended.await?
        }
        ended => ended?,
    };
    stages.flush().await;
    let Ended {
        finished,
        mut diagnostics,
        n_resources,
        turn,
    } = ended;
    if turn.is_some() {
        let (store, services) = (context.store, context.services);
        report_ends(store, services, context.environment, Lane::Validations).await?;
        drop(turn);
    }
    diagnostics.extend(finished.refusal);
    if finished.verdict == Verdict::Split {
        tracing::warn!(
            environment.id = %context.environment, compile.id = %compile.id,
            "the export of {} requests of services together failed, so each half of them is exported alone: {}",
            served.len() + 1, finished.failure.unwrap_or_default()
        );
        return Ok(finished.verdict);
    }
    let report = CompileDone {
        compile: compile.id,
        commit: short,
        version: finished.version,
        failure: finished.failure,
        diagnostics,
        n_resources,
        duration: began.elapsed(),
    };
    log(context, compile, &commit, &report);
    context
        .bus
        .emit(context.environment, EventKind::CompileDone(report));
    Ok(finished.verdict)
}

/// What of the services a compile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What its request asks for.
    Asked,
    /// Everything, since no partial export can be built on the newest version.
    All,
}

/// An attempt that has ended, and is written.
struct Ended<'a> {
    finished: Finished,
    diagnostics: Vec<RenderedDiagnostic>,
    n_resources: usize,
    /// Of a validation that succeeded: no other verdict is given until the lifecycle manager has taken note of this one.
    turn: Option<MutexGuard<'a, ()>>,
}

/// Compiles, and writes what comes of it.
///
/// # Errors
/// [`store::Error::Base`]: nothing is written, and everything has to be exported.
async fn attempt<'a>(
    context: &Context<'a>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    stages: &mut Stages<'_>,
    extent: Extent,
) -> Result<Ended<'a>, store::Error> {
    let began = Timestamp::now();
    let mut judgement = match execute(context, compile, head, extent, stages).await {
        Ok(executed) => judge(context, compile, head, executed),
        Err(Failure::Model(done)) => Judgement::of_mistakes(*done),
        Err(failure) => Judgement::failed(failure),
    };
    judgement.explain(context).await?;
    let mut turn = None;
    if compile.is_validation() && judgement.outcome.is_ok() {
        turn = Some(context.verdicts.lock().await);
        let (services, environment) = (context.services, context.environment);
        let conflict = services.reference_conflict(environment, compile, began);
        if let Some(why) = conflict.await? {
            judgement.refuse("ServiceReference", why);
        }
    }
    let end = end_of(context, compile, served, head, &judgement);
    let can_split = extent == Extent::Asked
        && !served.is_empty()
        && compile.services.as_ref().is_some_and(|of| of.is_batch());
    let finished = finish(context, head, stages, (end, can_split), judgement.outcome).await?;
    Ok(Ended {
        finished,
        diagnostics: judgement.diagnostics,
        n_resources: judgement.n_resources,
        turn,
    })
}

/// Does a partial compile as a full one, since the newest version is no base for a part: it was made with other Python code of
/// modules, by a server of before for instance, whose own module `lsm` had other code. Otherwise each order would wait, after
/// an upgrade of the server, until somebody asks for a full compile. What was asked for is a part of what this exports; after
/// it, partial exports have a base again.
async fn export_all<'a>(
    context: &Context<'a>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    stages: &mut Stages<'_>,
    why: &str,
) -> Result<Ended<'a>, store::Error> {
    tracing::warn!(
        environment.id = %context.environment, compile.id = %compile.id,
        "a full compile runs in the place of a partial one: {why}"
    );
    let text = format!("a full compile runs in the place of a partial one: {why}");
    let name = store::EXPORTING_ALL;
    stages.write(name, "", begin(), text, String::new()).await;
    // It may take minutes, in which people may want to know what their orders wait for.
    stages.flush().await;
    let ended = attempt(context, compile, served, head, stages, Extent::All).await?;
    let has_failed = ended.finished.verdict == Verdict::Rejected;
    *context.full_rejected.lock().await = has_failed.then_some(head.info.id);
    Ok(ended)
}

/// Bytes of the diagnostics of one compile in the log; its report has all that are kept.
const LOGGED_BYTES: usize = 256 << 10;

fn log(context: &Context<'_>, compile: &Compile, commit: &str, report: &CompileDone) {
    let services = compile.services.as_ref();
    match &report.failure {
        Some(failure) if services.is_some() => {
            let instances = services.map_or("", |of| of.instances.first().map_or("", |id| id));
            tracing::warn!(
                environment.id = %context.environment, compile.id = %report.compile, commit,
                "the compile for the service instance {instances} failed: {failure}"
            );
            // What a validation says is the diagnosis of its instance alone; a failed export holds up others.
            if compile.is_validation() {
                return;
            }
            let (shown, n_more) = logged(&report.diagnostics);
            for diagnostic in shown {
                tracing::warn!(compile.id = %report.compile, "{}", diagnostic.plain);
            }
            log_left_out(report, n_more);
        }
        None => tracing::info!(
            environment.id = %context.environment, compile.id = %report.compile, commit,
            version = report.version.map(VersionNumber::get),
            "compiled commit {} in {:.1?}", report.commit, report.duration
        ),
        Some(failure) => {
            tracing::error!(
                environment.id = %context.environment, compile.id = %report.compile, commit,
                "commit {} does not compile, the version in force stays: {failure}", report.commit
            );
            let (shown, n_more) = logged(&report.diagnostics);
            for diagnostic in shown {
                if diagnostic.json["severity"] == "warning" {
                    tracing::warn!(compile.id = %report.compile, "{}", diagnostic.plain);
                } else {
                    tracing::error!(compile.id = %report.compile, "{}", diagnostic.plain);
                }
            }
            log_left_out(report, n_more);
        }
    }
}

/// The first diagnostics of a compile, which are logged, and how many more there are.
fn logged(diagnostics: &[RenderedDiagnostic]) -> (&[RenderedDiagnostic], usize) {
    let mut n_bytes = 0;
    let fits = |diagnostic: &&RenderedDiagnostic| {
        n_bytes += diagnostic.plain.len();
        n_bytes <= LOGGED_BYTES
    };
    let n_logged = diagnostics.iter().take_while(fits).count().max(1);
    let (logged, more) = diagnostics.split_at(n_logged.min(diagnostics.len()));
    (logged, more.len())
}

fn log_left_out(report: &CompileDone, n_more: usize) {
    if n_more > 0 {
        tracing::warn!(
            compile.id = %report.compile,
            "the report of the compile has {n_more} more errors and warnings"
        );
    }
}

/// Runs blocking work off the runtime. A panic in it is ours to show.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
