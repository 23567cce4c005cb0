//! `steward export`: compiles the project here and stores the result as a version on a server, which deploys it; or writes
//! it to a file.
//!
//! It is the push mode: the calls are those that the reference's exporter makes. The facts and parameters that the model
//! asks for come from the server, and the Python code of handlers goes there, by content, so that only what the server has
//! not is sent. Source: docs/reference/deployment.md § 6.9, docs/reference/language.md § 12.9.

mod body;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use steward_compiler::yaml::{self, LIMITS};
use steward_compiler::{Inputs, Partial, Variables};

use super::compile::find_project;
use super::deploy::compile_done;
use super::remote::{Remote, RemoteError};
use super::show::Show;
use super::{ExportArguments, FAILED, Format, TROUBLE, USAGE, log};
use crate::compile::{LocalCompile, LocalResult, PROJECT_FILE, project_settings};
use crate::domain::chain;
use crate::files::Files;
use crate::python::Pythons;
use body::{Body, Packages};

/// Names of resource sets to remove, separated by blanks, as the variables of the reference have them.
const REMOVED_SETS: [&str; 2] = ["INMANTA_REMOVED_RESOURCE_SET_ID", "INMANTA_REMOVED_SET_ID"];

/// What is wrong, and the exit code.
type Failure = (String, u8);

#[expect(clippy::print_stderr, reason = "this is the prompt")]
pub(super) fn run(arguments: &ExportArguments) -> ExitCode {
    log::quiet();
    match export(arguments) {
        Ok(code) => code,
        Err((message, code)) => {
            eprintln!("steward: {message}");
            ExitCode::from(code)
        }
    }
}

fn failed(error: RemoteError) -> Failure {
    let code = match &error {
        RemoteError::Refused { .. } | RemoteError::NoEnvironment { .. } => FAILED,
        RemoteError::Unreachable { .. } => TROUBLE,
    };
    (chain(&error), code)
}

fn export(arguments: &ExportArguments) -> Result<ExitCode, Failure> {
    let wrong = |message: String| (message, USAGE);
    let project = find_project(arguments.project.as_deref()).map_err(wrong)?;
    let project = std::path::absolute(&project).unwrap_or(project);
    let removed = removed_sets(arguments).map_err(wrong)?;
    let pythons = Pythons::new(arguments.python.clone().map(|path| (path, "--python")));
    let pythons = pythons.known_below(&super::cache_dir());
    if arguments.python.is_some() {
        pythons.any().map_err(wrong)?;
    }
    // To a file: no server is asked.
    let remote = match &arguments.json {
        Some(_) => None,
        None => Some(Remote::of(&arguments.server, &project).map_err(wrong)?),
    };
    let inputs = match &remote {
        Some(remote) => facts_of(remote).map_err(failed)?,
        None => Inputs::default(),
    };
    let settings = settings_of(&project).map_err(|message| (message, FAILED))?;
    let folder = tempfile::tempdir()
        .map_err(|error| (format!("cannot make a temporary folder: {error}"), TROUBLE))?;
    let files = Files::new(folder.path().to_owned());
    let environment = remote.as_ref();
    let compile = LocalCompile {
        project: project.clone(),
        variables: variables(arguments),
        pythons,
        cache: super::cache_dir(),
        declarations: super::declarations::declarations(),
        environment: environment.and_then(|remote| remote.environment.parse().ok()),
        inputs,
        partial: arguments.partial.then(Partial::default),
        files: files.clone(),
    };
    let mut compiled = compile.run(print_of_model);
    Show::live(Format::Human).diagnostics(&compile_done(&compiled));
    if compiled.export.is_none() {
        return Ok(ExitCode::from(FAILED));
    }
    let required = std::mem::take(&mut compiled.requirements);
    let packages = Packages::of(&project, required).map_err(|error| (chain(&error), FAILED))?;
    for line in &packages.left_out {
        warn(&format!("not asked of the server: {line}"));
    }
    let body = Body::of(compiled, packages, arguments, removed).map_err(wrong)?;
    match (&arguments.json, &remote) {
        (Some(path), _) => write_json(path, &body)?,
        (None, Some(remote)) => {
            protect(remote, &settings).map_err(failed)?;
            push(remote, &body, &files, arguments).map_err(failed)?;
        }
        (None, None) => {}
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stderr, reason = "this is the prompt")]
fn warn(text: &str) {
    eprintln!("steward: {text}");
}

#[expect(clippy::print_stdout, reason = "this is what the model prints")]
fn print_of_model(line: &str) {
    println!("{line}");
}

/// The option `config.export` as a variable, which comes before those of files.
const EXPORT_OPTION: &str = "INMANTA_CONFIG_EXPORT";

fn variables(arguments: &ExportArguments) -> Variables {
    let mut variables: Variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    variables.extend(arguments.variables.iter().cloned());
    if let Some(name) = &arguments.export_plugin {
        variables.insert(EXPORT_OPTION.to_owned(), name.clone());
    }
    variables
}

/// The settings of the environment that `project.yml` decides.
fn settings_of(project: &Path) -> Result<Map<String, Value>, String> {
    let path = project.join(PROJECT_FILE);
    let text = yaml::read_file(&path, &LIMITS)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    project_settings(&text)
}

/// Sets them on the server, where only the next export changes them. Those that are not there any more are free again.
fn protect(remote: &Remote, settings: &Map<String, Value>) -> Result<(), RemoteError> {
    let body = json!({"settings": settings, "protected_by": "project_yml"});
    let path = "/api/v2/protected_environment_settings";
    match remote.call("POST", path, Some(&body)) {
        // A server that does not know them has none.
        Err(RemoteError::Refused { status: 404, .. }) if settings.is_empty() => Ok(()),
        other => other.map(|_| ()),
    }
}

/// The sets that the command is to remove, of options and variables.
fn removed_sets(arguments: &ExportArguments) -> Result<BTreeSet<String>, String> {
    if !arguments.partial && !arguments.delete_resource_set.is_empty() {
        let message = "--delete-resource-set is for partial exports: a full one removes what it does not have. Add --partial";
        return Err(message.to_owned());
    }
    if !arguments.partial {
        return Ok(BTreeSet::new());
    }
    let mut removed: BTreeSet<String> = arguments.delete_resource_set.iter().cloned().collect();
    for names in REMOVED_SETS
        .iter()
        .filter_map(|name| std::env::var(name).ok())
    {
        removed.extend(names.split_whitespace().map(str::to_owned));
    }
    Ok(removed)
}

fn write_json(path: &Path, body: &Body) -> Result<(), Failure> {
    std::fs::write(path, steward_compiler::export_json(&body.export))
        .map_err(|error| (format!("cannot write {}: {error}", path.display()), TROUBLE))
}

/// The facts and parameters that the server knows, but for those that are too old.
fn facts_of(remote: &Remote) -> Result<Inputs, RemoteError> {
    let body = json!({"query": {}});
    let list = remote.call("POST", "/api/v1/parameter", Some(&body))?;
    let seconds = list["expire"].as_i64().unwrap_or(i64::MAX);
    let now = moment(&list["now"]);
    let mut inputs = Inputs::default();
    let facts = inputs.facts.get_or_insert_default();
    for fact in list["parameters"].as_array().into_iter().flatten() {
        let age = moment(&fact["updated"])
            .zip(now)
            .map(|(updated, now)| now - updated);
        let is_old = age.is_some_and(|age| age.num_seconds() >= seconds);
        if fact["expires"] == true && is_old {
            continue;
        }
        let name = fact["name"].as_str().unwrap_or_default().to_owned();
        let of = match fact["resource_id"].as_str().unwrap_or_default() {
            "" => &mut inputs.parameters,
            id => facts.entry(id.to_owned()).or_default(),
        };
        of.insert(name, fact["value"].clone());
    }
    Ok(inputs)
}

fn moment(value: &Value) -> Option<chrono::NaiveDateTime> {
    let text = value.as_str()?.trim_end_matches('Z');
    chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()
}

/// Sends what the server has not, then the version, and releases it if that was asked for.
fn push(
    remote: &Remote,
    body: &Body,
    files: &Files,
    arguments: &ExportArguments,
) -> Result<(), RemoteError> {
    let n_uploaded = upload(remote, body, files)?;
    let n_resources = body.export.resources.len();
    let version = if arguments.partial {
        let stored = remote.call("PUT", "/api/v2/version/partial", Some(&body.partial()))?;
        stored["data"].as_i64().unwrap_or_default()
    } else {
        let reserved = remote.call("POST", "/api/v2/reserve_version", Some(&json!({})))?;
        let version = reserved["data"].as_i64().unwrap_or_default();
        remote.call("PUT", "/api/v1/version", Some(&body.full(version)))?;
        version
    };
    let plural = if n_resources == 1 { "" } else { "s" };
    let sent = match n_uploaded {
        0 => String::new(),
        1 => ", 1 file uploaded".to_owned(),
        n_files => format!(", {n_files} files uploaded"),
    };
    line(&format!(
        "version {version} is stored: {n_resources} resource{plural}{sent}"
    ));
    if arguments.deploy {
        release(remote, version, arguments.full)?;
        line(&format!("version {version} is released"));
    } else {
        line(match is_released_by_itself(remote) {
            true => "it comes into force by itself: the setting `auto_deploy` is on",
            false => "it is not released: -d does that, too",
        });
    }
    Ok(())
}

/// Whether a version comes into force without a release. Who may store a version may not be allowed to read settings: then the
/// default counts.
fn is_released_by_itself(remote: &Remote) -> bool {
    let setting = remote.get("/api/v2/environment_settings/auto_deploy");
    setting.map_or(true, |found| {
        found["data"]["settings"]["auto_deploy"] != false
    })
}

#[expect(clippy::print_stdout, reason = "this is the prompt")]
fn line(text: &str) {
    println!("{text}");
    // A reader that is gone needs no text.
    let _ = std::io::stdout().flush();
}

/// Uploads the contents that the server has not; gives how many these were.
fn upload(remote: &Remote, body: &Body, files: &Files) -> Result<usize, RemoteError> {
    let names: Vec<&str> = body.contents.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(0);
    }
    let answer = remote.call("POST", "/api/v1/file", Some(&json!({"files": names})))?;
    let missing = answer["files"].as_array().into_iter().flatten();
    let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
    for name in &missing {
        // Of what is not here, the server says that it is missing when the version names it.
        let content = files.get(name).unwrap_or_default();
        let body = json!({"content": STANDARD.encode(content)});
        remote.call("PUT", &format!("/api/v1/file/{name}"), Some(&body))?;
    }
    Ok(missing.len())
}

/// Releases a version; one that the server released by itself, since `auto_deploy` is on, is good, too.
fn release(remote: &Remote, version: i64, full: bool) -> Result<(), RemoteError> {
    let method = match full {
        true => "push_full_deploy",
        false => "push_incremental_deploy",
    };
    let body = json!({"push": true, "agent_trigger_method": method});
    match remote.call("POST", &format!("/api/v1/version/{version}"), Some(&body)) {
        Ok(_) | Err(RemoteError::Refused { status: 409, .. }) => {}
        Err(error) => return Err(error),
    }
    if full {
        let body = json!({"agent_trigger_method": method});
        remote.call("POST", "/api/v1/deploy", Some(&body))?;
    }
    Ok(())
}

/// What is said of the version: why it was made, on which machine, and from which commit.
fn metadata_of(compiled: &LocalResult, given: Option<&str>) -> Map<String, Value> {
    let user = std::env::var("USER").unwrap_or_else(|_| "user".to_owned());
    let message = format!("Manual compile on the CLI by {user}");
    let mut metadata = compiled.metadata("manual", &message);
    metadata.insert("cli-user".to_owned(), user.into());
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        metadata.insert("hostname".to_owned(), name.trim().into());
    }
    match given.map(|given| (given, serde_json::from_str::<Value>(given))) {
        Some((_, Ok(Value::Object(given)))) => metadata.extend(given),
        // What is no JSON object is the message.
        Some((given, _)) => {
            metadata.insert("message".to_owned(), given.into());
        }
        None => {}
    }
    metadata
}
