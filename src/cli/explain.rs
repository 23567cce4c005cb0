//! `steward explain RESOURCE`: why a resource is not deployed, down to the root cause.
//!
//! A server is asked when one is named (by an option, `.inmanta` or a variable); else the state that `steward deploy` keeps
//! is read. Both give the same explanation, and it is shown the same way.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::compile::find_project;
use super::deploy::state_of;
use super::remote::{Remote, RemoteError, names_server, segment};
use super::terminal::{Page, Paint, Style, printable, write_out};
use super::{ExplainArguments, FAILED, TROUBLE, USAGE, log};
use crate::domain::{ResourceId, chain};
use crate::server::read_embedded;

/// Resources that are named when an argument fits several.
const MAX_NAMED: usize = 20;

/// Attributes that are shown of one resource, and characters of each of their values.
const MAX_DIFFERENCES: usize = 8;
const SIDE_CHARS: usize = 60;

/// Resources that are asked for with one filter.
const MAX_ASKED: usize = 1000;

/// Compiles among which the newest one of a commit is looked for: between them are those that services asked for.
const MAX_REPORTS: usize = 100;

/// One side of a difference, on one line.
fn side(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SIDE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What is wrong, and the exit code.
type Failure = (String, u8);

#[expect(clippy::print_stderr, reason = "this is the prompt")]
pub(super) fn run(arguments: &ExplainArguments) -> ExitCode {
    log::quiet();
    let explanation = match find(arguments) {
        Ok(explanation) => explanation,
        Err((message, code)) => {
            eprintln!("steward: {message}");
            return ExitCode::from(code);
        }
    };
    let text = match arguments.json {
        true => format!("{explanation}\n"),
        false => text_of(&cleaned(explanation), Paint::of_stdout()),
    };
    write_out(&text)
}

fn find(arguments: &ExplainArguments) -> Result<Value, Failure> {
    let wrong = |message: String| (message, USAGE);
    let project = find_project(arguments.project.as_deref());
    let folder = project.clone().unwrap_or_else(|_| ".".into());
    let is_local = arguments.local || arguments.data.is_some();
    if !is_local && names_server(&arguments.server, &folder).map_err(wrong)? {
        let remote = Remote::of_only(&arguments.server, &folder).map_err(wrong)?;
        return of_server(&remote.map_err(failed)?, &arguments.resource);
    }
    let project = match (&arguments.data, project) {
        (Some(_), _) => folder,
        (None, Ok(project)) => project,
        // Whoever runs a server may well stand somewhere else.
        (None, Err(message)) => {
            return Err(wrong(format!(
                "{message}; a server is asked with --server-port PORT, or with -e ENVIRONMENT"
            )));
        }
    };
    let state = state_of(&project, arguments.data.as_deref());
    let runtime = super::up::runtime();
    let runtime = runtime.map_err(|error| (format!("cannot start: {error}"), TROUBLE))?;
    runtime.block_on(of_state(&state, &arguments.resource))
}

/// Of the state that `steward deploy` keeps.
async fn of_state(state: &Path, wanted: &str) -> Result<Value, Failure> {
    let trouble = |error: crate::store::Error| (chain(&error), TROUBLE);
    let Some((store, id)) = read_embedded(state).await.map_err(trouble)? else {
        let message = format!(
            "nothing was deployed from here yet ({} is not there): name a server with -e, or run `steward deploy`",
            state.display()
        );
        return Err((message, FAILED));
    };
    let environment = store.environment_fetch(id).await.map_err(trouble)?;
    let Some(environment) = environment else {
        return Err(("the state has no environment".to_owned(), TROUBLE));
    };
    let resource_id = match ResourceId::parse(wanted) {
        Some(resource_id) => resource_id,
        None => {
            let states = store.state_list(id).await.map_err(trouble)?;
            let known = states.into_iter().map(|state| {
                (
                    state.resource_id.to_string(),
                    state.orphaned_after.is_some(),
                )
            });
            ResourceId::new(one_of(known.collect(), wanted)?)
        }
    };
    let found = crate::deploy::explain_without_server(&store, &environment, &resource_id);
    let found = found.await.map_err(trouble)?;
    found.ok_or_else(|| (format!("there is no resource {resource_id}"), FAILED))
}

fn failed(error: RemoteError) -> Failure {
    let code = match &error {
        RemoteError::Refused { .. } | RemoteError::NoEnvironment { .. } => FAILED,
        RemoteError::Unreachable { .. } => TROUBLE,
    };
    (chain(&error), code)
}

/// The explanation, with what keeps the newest commit from being in force. That is no reason of the resource, which is explained
/// as the version in force has it; but it may well be why it is not as somebody expects, or not there at all.
fn of_server(remote: &Remote, wanted: &str) -> Result<Value, Failure> {
    match resource_of_server(remote, wanted) {
        Ok(mut explanation) => {
            // Whoever may read a resource only gets the rest.
            explanation["hold_up"] = hold_up(remote).ok().flatten().into();
            Ok(explanation)
        }
        Err((message, FAILED)) => {
            let hold_up = hold_up(remote).ok().flatten();
            let hold_up =
                hold_up.map_or_else(String::new, |text| format!("\n{}", printable(&text)));
            Err((message + &hold_up, FAILED))
        }
        Err(failure) => Err(failure),
    }
}

/// What keeps the newest commit from being in force, as a sentence; `None`: nothing that the server knows of.
fn hold_up(remote: &Remote) -> Result<Option<String>, RemoteError> {
    let path = format!("/api/v2/environment/{}", segment(&remote.environment));
    let environment = remote.get(&path)?;
    if let Some(failure) = environment["data"]["failure"].as_str() {
        return Ok(Some(format!("nothing newer comes into force: {failure}")));
    }
    if environment["data"]["halted"] == true {
        let text =
            "the environment is halted: nothing newer is compiled or deployed until it is resumed";
        return Ok(Some(text.to_owned()));
    }
    let reports = remote.get(&format!("/api/v2/compilereport?limit={MAX_REPORTS}"))?;
    let mut reports = reports["data"].as_array().into_iter().flatten();
    // Compiles that services ask for are of the commit that the catalog follows: they say nothing of the newest one.
    let is_of_services = |report: &&Value| {
        let kind = report["metadata"]["type"].as_str().unwrap_or_default();
        report["do_export"] != true || kind.starts_with("lsm")
    };
    let newest = reports.find(|report| !is_of_services(report));
    let mut texts: Vec<String> = newest.and_then(held_up_by).into_iter().collect();
    let versions = remote.get("/api/v2/desiredstate?limit=1")?;
    let newest = &versions["data"][0];
    if newest["status"] == "candidate" {
        let version = &newest["version"];
        texts.push(format!(
            "version {version} is stored, but nobody has released it yet (`auto_deploy` is off)"
        ));
    }
    Ok((!texts.is_empty()).then(|| texts.join("; ")))
}

/// How the newest compile keeps a commit from being in force.
fn held_up_by(report: &Value) -> Option<String> {
    let commit = report["commit"].as_str().unwrap_or_default();
    let commit: String = commit.chars().take(8).collect();
    let failure = report["failure"].as_str().unwrap_or_default();
    match report["state"].as_str()? {
        "rejected" => Some(format!(
            "the newest commit {commit} does not compile, so it is not in force: {failure}"
        )),
        "aborted" => Some(format!("the newest compile came to no end: {failure}")),
        "queued" | "running" => {
            Some("a compile is under way; its version may change this".to_owned())
        }
        _ => None,
    }
}

fn resource_of_server(remote: &Remote, wanted: &str) -> Result<Value, Failure> {
    let id = match ResourceId::parse(wanted) {
        Some(resource_id) => resource_id.to_string(),
        None => {
            let mut known = BTreeSet::new();
            let mut is_cut = false;
            for filters in filters_of(wanted) {
                let path = format!("/api/v2/resource?limit={MAX_ASKED}{filters}");
                let found = remote.get(&path).map_err(failed)?;
                let found = found["data"].as_array().cloned().unwrap_or_default();
                is_cut |= found.len() >= MAX_ASKED;
                known.extend(found.iter().filter_map(|found| {
                    let id = found["resource_id"].as_str()?.to_owned();
                    Some((id, found["status"] == "orphaned"))
                }));
            }
            one_of(known.into_iter().collect(), wanted).map_err(|(message, code)| match is_cut {
                true => (format!("of {MAX_ASKED} resources that were looked at, {message}\nName more of the id."), code),
                false => (message, code),
            })?
        }
    };
    let path = format!("/api/v2/resource/{}/explain", segment(&id));
    let mut answer = remote.get(&path).map_err(failed)?;
    Ok(answer["data"].take())
}

/// Filters of lists of resources, each of which passes resources that may have a part of an id in theirs, `TYPE[AGENT,NAME=VALUE]`:
/// the part may be of the type, of the agent or of the value, or go across them, which its brackets, commas and equals signs say,
/// unless these are of the value.
fn filters_of(wanted: &str) -> Vec<String> {
    let filter = |name: &str, part: &str| match part {
        "" => String::new(),
        part => format!("&filter.{name}={}", segment(part)),
    };
    let whole = |name: &str| filter(name, wanted.trim_end_matches(']'));
    let mut all = ["resource_type", "agent", "resource_id_value"]
        .map(whole)
        .to_vec();
    let (before, value) = wanted.split_once('=').unwrap_or((wanted, ""));
    let (kind, agent) = match before.split_once('[') {
        Some((kind, rest)) => (kind, rest.split(',').next().unwrap_or_default()),
        None => ("", before.split_once(',').map_or("", |(agent, _)| agent)),
    };
    let across = [
        filter("resource_type", kind),
        filter("agent", agent),
        filter(
            "resource_id_value",
            value.strip_suffix(']').unwrap_or(value),
        ),
    ];
    if across.iter().any(|filter| !filter.is_empty()) {
        all.push(across.concat());
    }
    all
}

/// The only id that has a text in it, or the only one of these whose value ends with it: `etc/f3` is not `etc/f30`. `known`: ids,
/// and whether the resource is in the version in force no more; such a one is meant only where no other fits.
fn one_of(known: Vec<(String, bool)>, wanted: &str) -> Result<String, Failure> {
    let fitting = known.into_iter().filter(|(id, _)| id.contains(wanted));
    let (gone, here): (Vec<_>, Vec<_>) = fitting.partition(|(_, is_gone)| *is_gone);
    let fitting = if here.is_empty() { gone } else { here };
    let mut found: Vec<String> = fitting.into_iter().map(|(id, _)| id).collect();
    found.sort_unstable();
    let ends = |id: &&String| id.strip_suffix(']').is_some_and(|id| id.ends_with(wanted));
    let mut ending = found.iter().filter(ends);
    if let (Some(only), None) = (ending.next(), ending.next()) {
        return Ok(only.clone());
    }
    match found.len() {
        0 => Err((format!("no resource has `{wanted}` in its id"), FAILED)),
        1 => Ok(found.remove(0)),
        n_found => {
            let shown = found.iter().take(MAX_NAMED).map(|id| format!("\n  {id}"));
            let shown: String = shown.collect();
            let more = match n_found.saturating_sub(MAX_NAMED) {
                0 => String::new(),
                n_more => format!("\n  … and {n_more} more"),
            };
            let message = format!("{n_found} resources have `{wanted}` in their ids:{shown}{more}");
            Err((message, FAILED))
        }
    }
}

/// All texts without characters that steer a terminal.
fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => printable(&text).into(),
        Value::Array(values) => values.into_iter().map(cleaned).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(fields.map(|(name, value)| (name, cleaned(value))).collect())
        }
        other => other,
    }
}

/// The explanation for people.
fn text_of(explanation: &Value, paint: Paint) -> String {
    let chain = explanation["chain"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut page = Page::new(paint);
    for (index, link) in chain.iter().enumerate() {
        let is_root = index + 1 == chain.len();
        page.link(link, index, is_root);
    }
    page.hold_up(&explanation["hold_up"]);
    page.log(&explanation["log"], chain.last());
    page.others(explanation);
    page.text
}

impl Page {
    fn dim(&mut self, line: &str) {
        let line = self.paint.paint(line, Style::Dim);
        self.line(&line);
    }

    /// One step: the resource, what is with it, since when, and where it came from.
    fn link(&mut self, link: &Value, index: usize, is_root: bool) {
        let id = link["resource_id"].as_str().unwrap_or_default();
        let text = link["text"].as_str().unwrap_or_default();
        let is_good = link["reason"] == "deployed";
        let arrow = if index == 0 { "" } else { "└─ " };
        let indent = " ".repeat(index * 3);
        let style = match (is_good, is_root) {
            (true, _) => Style::Green,
            (false, true) => Style::Red,
            (false, false) => Style::Yellow,
        };
        let outer = " ".repeat(index.saturating_sub(1) * 3);
        let name = self.paint.paint(id, Style::Bold);
        self.line(&format!("{outer}{arrow}{name}"));
        let text = self.paint.paint(text, style);
        self.line(&format!("{indent}   {text}"));
        if let Some(message) = link["message"].as_str().filter(|_| is_root && !is_good) {
            // What a run says that goes on is not known yet.
            if link["reason"] == "deploying" {
                self.dim(&format!("{indent}   the run before this one said:"));
            }
            for line in message.lines().take(8) {
                self.line(&format!("{indent}   {line}"));
            }
        }
        self.differences(&link["attribute_diff"], &indent);
        self.awaited(&link["awaited"], &indent);
        let when = when(link);
        if !when.is_empty() {
            self.dim(&format!("{indent}   {when}"));
        }
        let [brought, removed] = [
            ("in this form since", &link["brought_by"]),
            ("removed by", &link["removed_by"]),
        ]
        .map(|(what, by)| origin(what, by));
        for line in [brought, removed] {
            if !line.is_empty() {
                self.dim(&format!("{indent}   {line}"));
            }
        }
    }

    /// What is otherwise than it shall be, an attribute a line.
    fn differences(&mut self, differences: &Value, indent: &str) {
        let Some(differences) = differences.as_object() else {
            return;
        };
        for (attribute, sides) in differences.iter().take(MAX_DIFFERENCES) {
            let (current, desired) = (side(&sides["current"]), side(&sides["desired"]));
            self.line(&format!(
                "{indent}   {attribute}: is {current}, shall be {desired}"
            ));
        }
        let n_more = differences.len().saturating_sub(MAX_DIFFERENCES);
        if n_more > 0 {
            self.line(&format!("{indent}   … {n_more} more attributes"));
        }
    }

    fn hold_up(&mut self, hold_up: &Value) {
        if let Some(text) = hold_up.as_str() {
            self.line("");
            let text = self.paint.paint(text, Style::Yellow);
            self.line(&text);
        }
    }

    fn awaited(&mut self, awaited: &Value, indent: &str) {
        let names = awaited["attributes"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        if !names.is_empty() {
            self.line(&format!("{indent}   not known: {}", names.join(", ")));
        }
        for fact in awaited["facts"].as_array().into_iter().flatten() {
            let (id, name) = (&fact["resource_id"], &fact["fact"]);
            let asked = match fact["asked"].as_str() {
                Some(asked) => format!("its handler was asked at {} UTC", moment(asked)),
                None => "its handler was not asked yet".to_owned(),
            };
            let asked = match fact["standstill"].as_str() {
                Some(why) => format!("{asked}, and is not asked now: {why}"),
                None => asked,
            };
            let (id, name) = (
                id.as_str().unwrap_or_default(),
                name.as_str().unwrap_or_default(),
            );
            // Nobody is asked for a parameter, which is of no resource: somebody has to set it.
            self.line(&match id {
                "" => {
                    format!("{indent}   the model waits for parameter `{name}`, which is not set")
                }
                id => format!("{indent}   the model waits for fact `{name}` of {id}; {asked}"),
            });
        }
        let has_facts = awaited["facts"]
            .as_array()
            .is_some_and(|facts| !facts.is_empty());
        // Which unknown value went into an attribute, no version knows.
        let others = match has_facts {
            true => {
                "if that is not its value: a variable of the environment has none (the compile's report warns of it)"
            }
            false => {
                "no fact is waited for: a variable of the environment, or a parameter, has no value"
            }
        };
        if !awaited.is_null() {
            self.line(&format!("{indent}   {others}"));
        }
    }

    fn log(&mut self, log: &Value, root: Option<&Value>) {
        let lines = log.as_array().map_or(&[][..], Vec::as_slice);
        let is_good = root.is_some_and(|root| root["reason"] == "deployed");
        if lines.is_empty() || is_good {
            return;
        }
        self.line("");
        let head = match root.is_some_and(|root| root["reason"] == "deploying") {
            true => "last log lines of the run before this one",
            false => "last log lines of the root cause",
        };
        let head = self.paint.paint(head, Style::Bold);
        self.line(&head);
        for line in lines {
            let level = line["level"].as_str().unwrap_or_default();
            let style = match level {
                "CRITICAL" | "ERROR" => Style::Red,
                "WARNING" => Style::Yellow,
                _ => Style::Dim,
            };
            let level = self.paint.paint(&format!("{level:<8}"), style);
            let at = moment(line["timestamp"].as_str().unwrap_or_default());
            let message = line["msg"].as_str().unwrap_or_default();
            let mut parts = message.lines();
            let first = parts.next().unwrap_or_default();
            self.line(&format!("  {at} {level} {first}"));
            for part in parts.take(20) {
                self.line(&format!("                    {part}"));
            }
        }
    }

    fn others(&mut self, explanation: &Value) {
        let n_others = explanation["n_others"].as_u64().unwrap_or_default();
        if n_others == 0 {
            return;
        }
        self.line("");
        let plural = if n_others == 1 { "cause" } else { "causes" };
        self.line(&format!("and {n_others} other {plural}:"));
        for other in explanation["others"].as_array().into_iter().flatten() {
            let id = other["resource_id"].as_str().unwrap_or_default();
            let text = other["text"].as_str().unwrap_or_default();
            self.line(&format!("  {id} {text}"));
        }
    }
}

/// `last run 2026-01-02 10:11:12, version 3, failed 2 times in a row`.
fn when(link: &Value) -> String {
    let Some(at) = link["at"].as_str() else {
        return String::new();
    };
    let version = link["run_version"].as_i64();
    let version = version.map_or_else(String::new, |version| format!(", version {version}"));
    let failures = match link["n_failures"].as_i64() {
        Some(n_failures) if n_failures > 1 => format!(", not good {n_failures} times in a row"),
        _ => String::new(),
    };
    format!("last run {} UTC{version}{failures}", moment(at))
}

/// `in this form since version 3, commit 1a2b3c4d "its message" by A`, where `what` is how that begins.
fn origin(what: &str, by: &Value) -> String {
    let Some(version) = by["version"].as_i64() else {
        return String::new();
    };
    let mut text = format!("{what} version {version}");
    if let Some(commit) = by["commit"].as_str() {
        let commit: String = commit.chars().take(8).collect();
        text += &format!(", commit {commit}");
        if let Some(summary) = by["commit_summary"].as_str() {
            text += &format!(" {}", json!(summary));
        }
        if let Some(author) = by["commit_author"].as_str() {
            text += &format!(" by {author}");
        }
        if by["commit_changed"] == true {
            text += ", and changes that are not committed";
        }
    }
    text
}

/// `2026-01-02T10:11:12.131415` to the second.
fn moment(at: &str) -> String {
    let second = at.split('.').next().unwrap_or(at);
    second.replace('T', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{held_up_by, one_of};

    fn report(state: &str, failure: Option<&str>) -> Value {
        json!({"state": state, "commit": "748a320d407f8c31", "failure": failure})
    }

    #[test]
    fn a_commit_that_does_not_compile_is_named_and_one_that_is_in_force_is_not() {
        let rejected = held_up_by(&report("rejected", Some("the model has 1 error"))).unwrap();
        assert_eq!(
            rejected,
            "the newest commit 748a320d does not compile, so it is not in force: the model has 1 error"
        );
        assert!(held_up_by(&report("running", None)).is_some());
        assert_eq!(held_up_by(&report("exported", None)), None);
    }

    #[test]
    fn what_is_no_longer_in_force_is_meant_only_where_nothing_else_fits() {
        let known = || {
            [("m::F[a,p=/old/x]", true), ("m::F[a,p=/new/x]", false)]
                .map(|(id, is_gone)| (id.to_owned(), is_gone))
                .to_vec()
        };
        assert_eq!(one_of(known(), "/x").unwrap(), "m::F[a,p=/new/x]");
        assert_eq!(one_of(known(), "old").unwrap(), "m::F[a,p=/old/x]");
    }

    #[test]
    fn how_many_more_there_are_is_said_where_not_all_are_named() {
        let known = (0..30)
            .map(|at| (format!("m::F[a,p={at}]"), false))
            .collect();
        let message = one_of(known, "m::F").unwrap_err().0;
        assert!(message.ends_with("\n  … and 10 more"), "{message}");
    }

    #[test]
    fn a_part_at_the_end_of_an_id_goes_before_one_within() {
        let ids = ["m::F[a,p=/etc/f3]", "m::F[a,p=/etc/f30]", "m::F[b,p=/f30]"];
        let found = |wanted: &str| {
            let known = ids.iter().map(|&id| (id.to_owned(), false));
            one_of(known.collect(), wanted)
        };
        assert_eq!(found("etc/f3").unwrap(), ids[0]);
        assert_eq!(found("etc/f30").unwrap(), ids[1]);
        assert_eq!(found("[b").unwrap(), ids[2]);
        assert!(found("f30").unwrap_err().0.starts_with("2 resources"));
        assert!(found("f4").unwrap_err().0.starts_with("no resource"));
    }
}
