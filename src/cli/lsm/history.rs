//! What happened to an instance, and why it is where it is.

use std::process::ExitCode;

use serde_json::Value;

use super::table::{Cell, plain, shown, table, time};
use super::{Client, DiagnoseArguments, Failure, HistoryArguments, name_of, path_of, style_of};
use crate::cli::terminal::{Paint, Style, printable};

/// Messages of one resource that are shown.
const MAX_MESSAGES: usize = 5;
/// Lines of a trace that are shown.
const MAX_TRACE_LINES: usize = 20;

pub(super) fn diagnose(arguments: &DiagnoseArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let (instance, service) = client.instance(&arguments.of)?;
    let back = arguments.lookbehind;
    let path = format!(
        "{}/diagnose?rejection_lookbehind={back}&failure_lookbehind={back}",
        path_of(&instance)
    );
    let found = client.get(&path)?["data"].take();
    Ok(client.write(&found, |paint| {
        explained(&service, &instance, &found, paint)
    }))
}

fn explained(service: &Value, instance: &Value, found: &Value, paint: Paint) -> String {
    let state = instance["state"].as_str().unwrap_or_default();
    let style = style_of(service, state).unwrap_or(Style::Bold);
    let mut text = format!(
        "{} is {}, version {}\n",
        paint.paint(&name_of(instance), Style::Bold),
        paint.paint(&printable(state), style),
        instance["version"]
    );
    for rejection in found["rejections"].as_array().into_iter().flatten() {
        let what = format!("{} before", paint.paint("rejected", Style::Red));
        text.push_str(&failed_compile(&what, rejection));
    }
    for export in found["exports"].as_array().into_iter().flatten() {
        let what = format!("{} as", paint.paint("not exported", Style::Red));
        text.push_str(&failed_compile(&what, export));
    }
    for resource in found["failures"].as_array().into_iter().flatten() {
        let id = shown(&resource["resource_id"]);
        text.push_str(&format!("{} {id}\n", paint.paint("failed", Style::Red)));
        let failures = resource["failures"].as_array().into_iter().flatten();
        for failure in failures.take(MAX_MESSAGES) {
            let message = shown(&failure["message"]);
            text.push_str(&format!("  {}  {message}\n", time(&failure["time"])));
        }
    }
    let chain = found["waiting"]["chain"].as_array();
    for link in chain.into_iter().flatten().skip(1) {
        let (id, why) = (shown(&link["resource_id"]), shown(&link["text"]));
        let word = paint.paint("waits for", Style::Yellow);
        text.push_str(&format!("{word} {id}\n  {why}\n"));
    }
    let is_empty = |name: &str| found[name].as_array().is_none_or(Vec::is_empty);
    if chain.is_none()
        && ["rejections", "exports", "failures"]
            .into_iter()
            .all(is_empty)
    {
        text.push_str("Nothing was rejected and nothing failed on the way here; `--lookbehind N` looks further back.\n");
    }
    text
}

/// `rejected before version 2 (compile …):`, and the errors of the compile or else what it wrote last.
fn failed_compile(what: &str, failed: &Value) -> String {
    let mut text = format!(
        "{what} version {} (compile {}):\n",
        failed["instance_version"],
        shown(&failed["compile_id"])
    );
    let errors = failed["errors"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for error in errors {
        text.push_str(&compile_error(error));
    }
    if errors.is_empty() {
        let trace = failed["trace"]
            .as_str()
            .unwrap_or("nothing is known about it");
        for line in trace.lines().take(MAX_TRACE_LINES) {
            text.push_str(&format!("  {}\n", printable(line)));
        }
    }
    text
}

/// `  main.cf:12: message`
fn compile_error(error: &Value) -> String {
    let location = &error["location"];
    let place = match (
        location["uri"].as_str(),
        location["range"]["start"]["line"].as_i64(),
    ) {
        // Lines count from 0 there.
        (Some(file), Some(line)) => format!("{}:{}: ", printable(file), line + 1),
        _ => String::new(),
    };
    let message = error["message"].as_str().unwrap_or_default();
    let mut lines = message.lines();
    let mut text = format!("  {place}{}\n", printable(lines.next().unwrap_or_default()));
    let causes = error["causes"].as_array().into_iter().flatten();
    let innermost = causes.filter_map(Value::as_str).next_back();
    let innermost = innermost.map(|cause| format!("caused by {cause}"));
    for line in lines.chain(innermost.iter().flat_map(|cause| cause.lines())) {
        text.push_str(&format!("    {}\n", printable(line)));
    }
    text
}

pub(super) fn events(arguments: &HistoryArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let (instance, _) = client.instance(&arguments.of)?;
    let limit = arguments.limit.get().min(1000);
    let path = format!("{}/events?limit={limit}", path_of(&instance));
    let found = client.get(&path)?["data"].take();
    Ok(client.write(&found, |paint| {
        let events = found.as_array().into_iter().flatten();
        let rows: Vec<Vec<Cell>> = events.map(event).collect();
        table(&["time", "version", "kind", "message"], &rows, paint)
    }))
}

fn event(event: &Value) -> Vec<Cell> {
    let kind = event["event_type"].as_str().unwrap_or_default();
    let style = match event["severity_text"].as_str() {
        Some("ERROR" | "CRITICAL") => Some(Style::Red),
        Some("WARNING") => Some(Style::Yellow),
        Some("DEBUG") => Some(Style::Dim),
        _ => None,
    };
    let (message, _) = plain(event["message"].as_str().unwrap_or_default());
    vec![
        plain(time(&event["timestamp"])),
        plain(event["service_instance_version"].to_string()),
        plain(
            kind.to_lowercase()
                .replace("_transition", "")
                .replace('_', " "),
        ),
        (message, style),
    ]
}

pub(super) fn log(arguments: &HistoryArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let (instance, service) = client.instance(&arguments.of)?;
    let limit = arguments.limit.get().min(1000);
    let path = format!("{}/log?limit={limit}", path_of(&instance));
    let found = client.get(&path)?["data"].take();
    Ok(client.write(&found, |paint| {
        let versions = found.as_array().into_iter().flatten();
        let rows: Vec<Vec<Cell>> = versions
            .map(|version| version_row(&service, version))
            .collect();
        table(&["version", "time", "state", "attributes"], &rows, paint)
    }))
}

fn version_row(service: &Value, version: &Value) -> Vec<Cell> {
    let state = version["state"].as_str().unwrap_or_default();
    let sets = ["candidate", "active", "rollback"];
    let sets = sets
        .into_iter()
        .filter(|set| version[format!("{set}_attributes")].is_object());
    let sets: Vec<&str> = sets.collect();
    vec![
        plain(version["version"].to_string()),
        plain(time(&version["timestamp"])),
        (printable(state), style_of(service, state)),
        plain(sets.join(", ")),
    ]
}
