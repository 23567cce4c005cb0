//! The plan of a version that a server has.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Failure, LOOK_EVERY, Plan, Verdict, complete};
use crate::cli::compile::find_project;
use crate::cli::remote::{Remote, RemoteError, segment};
use crate::cli::{FAILED, PlanArguments, TROUBLE, USAGE};
use crate::domain::chain;

/// How long nothing is said of a dry run that goes on.
const SILENCE: Duration = Duration::from_secs(10);

/// Asks a server for a dry run of its newest version, or of the one that is named, and waits for it.
pub(super) fn plan(arguments: &PlanArguments) -> Result<Plan, Failure> {
    // `.inmanta` is in the project, but what a server does can be asked from anywhere.
    let project = find_project(arguments.project.project.as_deref());
    let project = project.unwrap_or_else(|_| ".".into());
    let remote = Remote::of(&arguments.server, &project).map_err(|message| (message, USAGE))?;
    let version = match arguments.version {
        Some(version) => version,
        None => newest(&remote).map_err(failure)?.ok_or_else(|| {
            let message = "the environment has no version yet".to_owned();
            (message, FAILED)
        })?,
    };
    dry_run(&remote, version).map_err(failure)
}

fn failure(error: RemoteError) -> Failure {
    let code = match &error {
        RemoteError::Refused { .. } | RemoteError::NoEnvironment { .. } => FAILED,
        RemoteError::Unreachable { .. } => TROUBLE,
    };
    (chain(&error), code)
}

fn newest(remote: &Remote) -> Result<Option<i64>, RemoteError> {
    let versions = remote.get("/api/v2/desiredstate?limit=1")?;
    Ok(versions["data"][0]["version"].as_i64())
}

fn dry_run(remote: &Remote, version: i64) -> Result<Plan, RemoteError> {
    let path = format!("/api/v2/dryrun/{version}");
    let started = remote.call("POST", &path, None)?;
    let run = started["data"].as_str().unwrap_or_default().to_owned();
    let path = format!("{path}/{run}");
    let mut spoken_at = Instant::now();
    let mut report = loop {
        let report = remote.get(&path)?;
        let summary = &report["data"]["summary"];
        if summary["todo"] == 0 {
            break report;
        }
        if spoken_at.elapsed() > SILENCE {
            say_progress(version, summary);
            spoken_at = Instant::now();
        }
        std::thread::sleep(LOOK_EVERY * 5);
    };
    let mut differences = match report["data"]["diff"].take() {
        Value::Array(differences) => differences,
        _ => Vec::new(),
    };
    for difference in &mut differences {
        let verdict = Verdict::of(difference);
        if !matches!(
            verdict,
            Verdict::Added | Verdict::Changed | Verdict::Removed
        ) {
            continue;
        }
        let id = segment(difference["resource_id"].as_str().unwrap_or_default());
        let resource = remote.get(&format!("/api/v2/desiredstate/{version}/resource/{id}"))?;
        complete(difference, &resource["data"]["attributes"]);
    }
    Ok(Plan {
        version,
        differences,
        unmanaged: unmanaged(remote, version)?,
    })
}

/// A deployment that is under way goes before, and handlers may be slow.
#[expect(clippy::print_stderr, reason = "this is the prompt")]
fn say_progress(version: i64, summary: &Value) {
    eprintln!(
        "the dry run of version {version} goes on: {} of {} resources are still to be compared",
        summary["todo"], summary["total"]
    );
}

/// What the version in force has and this one has not.
fn unmanaged(remote: &Remote, version: i64) -> Result<Vec<String>, RemoteError> {
    let active = remote.get("/api/v2/desiredstate?limit=1&filter.status=active")?;
    let Some(active) = active["data"][0]["version"]
        .as_i64()
        .filter(|active| *active < version)
    else {
        return Ok(Vec::new());
    };
    let found = remote.get(&format!("/api/v2/desiredstate/diff/{active}/{version}"))?;
    let found = found["data"].as_array().into_iter().flatten();
    let gone = found.filter(|found| found["status"] == "deleted");
    Ok(gone
        .filter_map(|found| found["resource_id"].as_str().map(str::to_owned))
        .collect())
}
