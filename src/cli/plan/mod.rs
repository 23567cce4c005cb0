//! `steward plan`: what a deploy would do, without doing it.
//!
//! Every handler compares the resource that the model describes with what is on its target: that is a dry run, here of the
//! project in this folder, or with `--remote` of a version of a server. What the version in force has and this one has not
//! is no longer managed, and stays as it is. Source: docs/reference/deployment.md § 5.10.

mod hidden;
mod remote;
mod render;

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::deploy::{INTERRUPTED, Interrupts, ProjectArguments, Workbench, compile_done};
use super::show::Show;
use super::{FAILED, Format, PlanArguments, TROUBLE, USAGE, log};
use crate::api::difference;
use crate::domain::{DryRunId, VersionNumber, chain};
use crate::server::Embedded;
use crate::store::DryRunNote;

/// The exit code with `--detailed-exitcode` when a deploy would change something.
const CHANGES: u8 = 2;

/// The attribute of resources that are only compared, and what a difference of such a resource is marked with.
const REPORT_ONLY: &str = "report_only";

/// How often to look whether a dry run is done.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a deploy would do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) version: i64,
    /// What the dry run says of each resource, in the shape of the API, by id.
    pub(super) differences: Vec<Value>,
    /// What the version in force has and this one has not.
    pub(super) unmanaged: Vec<String>,
}

/// How many resources of each kind there are in a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
    pub(super) unmanaged: usize,
    pub(super) unchanged: usize,
    /// They differ, and a deploy says so and leaves them.
    pub(super) reported: usize,
    /// Their handlers do not deal with them now.
    pub(super) skipped: usize,
    /// They wait for a value, or for a resource that does.
    pub(super) undefined: usize,
    /// Their agents are paused.
    pub(super) paused: usize,
    /// They could not be compared.
    pub(super) failed: usize,
}

impl Counts {
    fn is_change(&self) -> bool {
        self.added + self.changed + self.removed + self.unmanaged > 0
    }
}

/// What a plan says of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Added,
    Changed,
    Removed,
    /// It differs, and is only reported.
    Reported,
    Unchanged,
    Skipped,
    Undefined,
    Paused,
    Failed,
}

impl Verdict {
    /// Of a difference in the shape of the API.
    pub(super) fn of(difference: &Value) -> Self {
        let is_failed = difference["attributes"]["handler"]["from_value"] == "FAILED";
        match difference["status"].as_str().unwrap_or_default() {
            _ if is_failed => Self::Failed,
            "added" | "deleted" | "modified" if difference[REPORT_ONLY] == true => Self::Reported,
            "added" => Self::Added,
            "deleted" => Self::Removed,
            "modified" => Self::Changed,
            "undefined" | "skipped_for_undefined" => Self::Undefined,
            "agent_down" => Self::Paused,
            _ if difference["skipped"].is_string() => Self::Skipped,
            _ => Self::Unchanged,
        }
    }
}

impl Plan {
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts {
            unmanaged: self.unmanaged.len(),
            ..Counts::default()
        };
        for difference in &self.differences {
            *match Verdict::of(difference) {
                Verdict::Added => &mut counts.added,
                Verdict::Changed => &mut counts.changed,
                Verdict::Removed => &mut counts.removed,
                Verdict::Reported => &mut counts.reported,
                Verdict::Unchanged => &mut counts.unchanged,
                Verdict::Skipped => &mut counts.skipped,
                Verdict::Undefined => &mut counts.undefined,
                Verdict::Paused => &mut counts.paused,
                Verdict::Failed => &mut counts.failed,
            } += 1;
        }
        counts
    }

    /// For programs: the counts, and what is to be said of each resource that is not as it shall be.
    fn to_json(&self) -> Value {
        let counts = self.counts();
        let shown = self.differences.iter();
        let shown = shown.filter(|found| Verdict::of(found) != Verdict::Unchanged);
        json!({
            "version": self.version,
            "summary": {
                "added": counts.added, "changed": counts.changed, "removed": counts.removed,
                "unmanaged": counts.unmanaged, "unchanged": counts.unchanged, "reported": counts.reported,
                "skipped": counts.skipped, "undefined": counts.undefined, "agent_down": counts.paused, "failed": counts.failed,
            },
            "resources": shown.collect::<Vec<_>>(),
            "unmanaged": self.unmanaged,
        })
    }
}

/// How the command was asked to show the plan.
struct Wanted {
    json: bool,
    detailed_exitcode: bool,
}

pub(super) fn run(arguments: &PlanArguments) -> ExitCode {
    let wanted = Wanted {
        json: arguments.json,
        detailed_exitcode: arguments.detailed_exitcode,
    };
    if arguments.remote {
        let plan = remote::plan(arguments);
        return finish(plan.map(Made::Plan), &wanted);
    }
    if let Some(option) = arguments.server.first_option() {
        let message = format!(
            "{option} is for a version of a server: give --remote, too, or leave it out to plan the project here"
        );
        return finish(Err((message, USAGE)), &wanted);
    }
    finish(make(&arguments.project, arguments.json), &wanted)
}

/// `steward deploy --dry-run`.
pub(super) fn run_dry(project: &ProjectArguments, format: Format) -> ExitCode {
    let wanted = Wanted {
        json: format == Format::Json,
        detailed_exitcode: false,
    };
    finish(make(project, wanted.json), &wanted)
}

/// What a command made.
enum Made {
    Plan(Plan),
    /// There is none, and it was said why.
    Nothing(u8),
}

/// What is wrong with the arguments, or with our world; and the exit code.
pub(super) type Failure = (String, u8);

#[expect(clippy::print_stderr, reason = "this is the prompt")]
fn finish(made: Result<Made, Failure>, wanted: &Wanted) -> ExitCode {
    let plan = match made {
        Ok(Made::Plan(plan)) => plan,
        Ok(Made::Nothing(code)) => return ExitCode::from(code),
        Err((message, code)) => {
            eprintln!("steward: {message}");
            // 2 means something else there.
            return ExitCode::from(if wanted.detailed_exitcode {
                FAILED
            } else {
                code
            });
        }
    };
    let text = match wanted.json {
        true => format!("{}\n", plan.to_json()),
        false => render::text(&plan, super::terminal::Paint::of_stdout()),
    };
    let written = super::terminal::write_out(&text);
    if written != ExitCode::SUCCESS {
        return written;
    }
    let counts = plan.counts();
    ExitCode::from(
        match (
            counts.failed > 0,
            wanted.detailed_exitcode && counts.is_change(),
        ) {
            (true, _) => FAILED,
            (false, true) => CHANGES,
            (false, false) => 0,
        },
    )
}

/// The plan of the project that the arguments name.
fn make(arguments: &ProjectArguments, json: bool) -> Result<Made, Failure> {
    log::quiet();
    crate::process::keep_private();
    let workbench = Workbench::of(arguments).map_err(|message| (message, USAGE))?;
    let runtime =
        super::up::runtime().map_err(|error| (format!("cannot start: {error}"), TROUBLE))?;
    super::handles::raise();
    let made = runtime.block_on(plan(&workbench, json));
    runtime.shutdown_background();
    made.map_err(|error| (chain(error.as_ref()), TROUBLE))
}

type Trouble = Box<dyn std::error::Error>;

async fn plan(workbench: &Workbench, json: bool) -> Result<Made, Trouble> {
    let mut embedded = Embedded::open(&workbench.state, &workbench.settings).await?;
    let mut interrupts = Interrupts::listen()?;
    let made = tokio::select! {
        made = compare(workbench, &mut embedded, json) => made,
        () = interrupts.next() => Ok(Made::Nothing(INTERRUPTED)),
    };
    tokio::select! {
        () = embedded.close() => {}
        () = interrupts.next() => {}
    }
    made
}

/// Compiles the project, stores it as a version that is not released, and lets handlers compare.
async fn compare(
    workbench: &Workbench,
    embedded: &mut Embedded,
    json: bool,
) -> Result<Made, Trouble> {
    // Programs read one object: what is said of the compile goes elsewhere.
    let format = if json { Format::Json } else { Format::Human };
    let began = Instant::now();
    let compiled = workbench.compile(embedded, format).await?;
    let mut done = compile_done(&compiled);
    done.duration = began.elapsed();
    let is_rejected = done.failure.is_some();
    if is_rejected || !json {
        Show::live(format).compile_done(&done);
    }
    let metadata = compiled.metadata("plan", "a plan, which is not deployed");
    let Some(new) = compiled.into_version(embedded.environment, metadata, false) else {
        return Ok(Made::Nothing(FAILED));
    };
    let environment = embedded.environment;
    let in_force = embedded.store.environment_fetch(environment).await?;
    let in_force = in_force.and_then(|environment| environment.active_version);
    let version = embedded.store.version_reserve(environment).await?;
    embedded.store.version_store_reserved(version, &new).await?;
    let python = workbench.python(embedded);
    let engine = embedded.start_engine(python, false);
    let run = engine.dry_run(version, None, DryRunNote::default()).await?;
    let mut plan = Plan {
        version: version.get(),
        differences: results(embedded, version, run).await?,
        unmanaged: unmanaged(embedded, in_force, version).await?,
    };
    let resources = new.resources.iter();
    let attributes: HashMap<&str, &str> = resources
        .map(|found| (found.resource_id.as_str(), found.attributes.as_str()))
        .collect();
    for difference in &mut plan.differences {
        let id = difference["resource_id"].as_str().unwrap_or_default();
        let attributes = attributes.get(id).copied().unwrap_or("{}");
        let attributes = serde_json::from_str(attributes);
        complete(difference, &attributes.unwrap_or(Value::Null));
    }
    Ok(Made::Plan(plan))
}

/// What a dry run found, when it is done.
async fn results(
    embedded: &Embedded,
    version: VersionNumber,
    run: DryRunId,
) -> Result<Vec<Value>, Trouble> {
    let store = &embedded.store;
    loop {
        let known = store.dry_run_list(embedded.environment, version).await?;
        let known = known.into_iter().find(|known| known.id == run);
        if known.is_some_and(|known| known.todo == 0) {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let results = store.dry_run_results(run).await?;
    Ok(results.iter().map(difference).collect())
}

/// What the version in force has and the new one has not.
async fn unmanaged(
    embedded: &Embedded,
    in_force: Option<VersionNumber>,
    version: VersionNumber,
) -> Result<Vec<String>, Trouble> {
    let Some(in_force) = in_force else {
        return Ok(Vec::new());
    };
    let store = &embedded.store;
    let differences = store.resource_differences(embedded.environment, in_force, version);
    let gone = differences
        .await?
        .into_iter()
        .filter_map(|pair| match pair {
            (Some(old), None) => Some(old.resource_id.to_string()),
            _ => None,
        });
    let mut gone: Vec<String> = gone.collect();
    gone.sort_unstable();
    Ok(gone)
}

/// Takes out of a difference what is not shown, and adds what the handlers that compared do not say of the resource, whose
/// attributes in its version these are.
fn complete(difference: &mut Value, attributes: &Value) {
    hidden::hide(difference, attributes);
    if attributes[REPORT_ONLY] == true {
        difference[REPORT_ONLY] = true.into();
    }
}

/// The attributes of a difference, by name.
pub(super) fn attributes(difference: &Value) -> Map<String, Value> {
    let mut attributes = difference["attributes"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    attributes.sort_keys();
    attributes
}
