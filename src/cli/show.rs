//! What `steward up` tells: lines that a person likes to read, or one JSON object a line.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Format;
use crate::domain::{Change, ResourceId, ResourceStatus};
use crate::observe::{CompileDone, Event, EventKind, ResourceDone, Summary};

pub(super) struct Show {
    format: Format,
    is_colored: bool,
    /// Runs of the present round, by agent, for the tree.
    round: BTreeMap<String, BTreeMap<ResourceId, ResourceDone>>,
    activated: Option<String>,
    last_fetch_failure: Option<String>,
    last_trouble: Option<String>,
    is_verifying_shown: bool,
    /// The version in force, when there is one.
    in_force: bool,
    round_began: Option<std::time::Instant>,
    gone: std::sync::Arc<tokio::sync::Notify>,
}

#[derive(Clone, Copy)]
enum Style {
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Cyan,
}

impl Show {
    pub(super) fn new(format: Format) -> Self {
        let is_colored = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            format,
            is_colored,
            round: BTreeMap::new(),
            activated: None,
            last_fetch_failure: None,
            last_trouble: None,
            is_verifying_shown: false,
            in_force: false,
            round_began: None,
            gone: std::sync::Arc::default(),
        }
    }

    pub(super) fn started(&mut self, source: &str, url: &str, data: &Path) {
        match self.format {
            Format::Json => {
                self.json(&json!({"event": "started", "source": source, "api": url, "data": data}))
            }
            Format::Human => {
                let name = self.paint("Steward", Style::Bold);
                self.line(&format!("{name} keeps this host as {source} says"));
                self.line(&self.paint(
                    &format!("        API {url}   state {}", data.display()),
                    Style::Dim,
                ));
            }
        }
    }

    pub(super) fn missed(&mut self, n_events: u64) {
        match self.format {
            Format::Json => self.json(&json!({"event": "missed", "count": n_events})),
            Format::Human => self.line(&format!("… {n_events} events were too fast to be shown")),
        }
    }

    /// Ends when nobody reads any more what is told.
    pub(super) fn reader_gone(&self) -> impl Future<Output = ()> + use<> {
        let gone = std::sync::Arc::clone(&self.gone);
        async move { gone.notified().await }
    }

    /// A round that takes long is told in parts.
    pub(super) fn tick(&mut self) {
        let is_long = self
            .round_began
            .is_some_and(|began| began.elapsed() > Duration::from_secs(2));
        if self.format == Format::Human && is_long {
            self.tree();
            self.round_began = Some(std::time::Instant::now());
        }
    }

    pub(super) fn trouble(&mut self, message: &str) {
        match self.format {
            Format::Json => self.json(&json!({"event": "trouble", "message": message})),
            Format::Human => self.line(&self.paint(&format!("✗ {message}"), Style::Red)),
        }
    }

    pub(super) fn stopping(&mut self) {
        if self.format == Format::Human {
            self.tree();
            self.line(&self.paint("stopped", Style::Dim));
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match self.format {
            Format::Json => self.event_as_json(&event.what),
            Format::Human => self.event_for_people(&event.what),
        }
    }

    fn event_as_json(&mut self, what: &EventKind) {
        let value = match what {
            EventKind::Trouble { message } => json!({"event": "trouble", "message": message}),
            EventKind::FetchFailed { message } => {
                json!({"event": "fetch_failed", "message": message})
            }
            EventKind::UpToDate { commit, version } => {
                json!({"event": "up_to_date", "commit": commit, "version": version})
            }
            EventKind::CompileStarted {
                compile,
                commit,
                summary,
            } => {
                json!({"event": "compile_started", "compile": compile, "commit": commit, "summary": summary})
            }
            EventKind::StageBegan {
                compile,
                name,
                detail,
            } => json!({
                "event": "stage_started", "compile": compile, "name": name, "detail": detail,
            }),
            EventKind::StageDone {
                compile,
                name,
                duration,
                detail,
            } => json!({
                "event": "stage", "compile": compile, "name": name, "seconds": duration.as_secs_f64(), "detail": detail,
            }),
            EventKind::CompileDone(done) => json!({
                "event": "compiled",
                "compile": done.compile,
                "commit": done.commit,
                "success": done.failure.is_none(),
                "version": done.version,
                "failure": done.failure,
                "resources": done.n_resources,
                "seconds": done.duration.as_secs_f64(),
                "diagnostics": done.diagnostics.iter().map(|diagnostic| diagnostic.json.clone()).collect::<Vec<_>>(),
            }),
            EventKind::Activated {
                version,
                n_new,
                n_updated,
                n_removed,
                n_total,
            } => json!({
                "event": "released", "version": version, "new": n_new, "changed": n_updated, "removed": n_removed,
                "total": n_total,
            }),
            EventKind::ResourceDone(done) => json!({
                "event": "resource",
                "resource": done.resource_id,
                "version": done.version,
                "status": done.status,
                "change": done.change,
                "changes": done.changes,
                "reason": done.reason,
                "message": done.message,
                "seconds": done.duration.as_secs_f64(),
            }),
            EventKind::Settled(summary) => json!({
                "event": "summary",
                "version": summary.version,
                "deployed": summary.deployed,
                "failed": summary.failed,
                "skipped": summary.skipped + summary.undefined,
                "unchanged": summary.unchanged,
                "total": summary.total,
                "seconds": summary.duration.as_secs_f64(),
            }),
        };
        self.json(&value);
    }

    fn event_for_people(&mut self, what: &EventKind) {
        match what {
            EventKind::FetchFailed { message } => {
                if self.last_fetch_failure.as_ref() != Some(message) {
                    let mark = self.paint("✗ cannot fetch", Style::Red);
                    self.line(&format!("\n{mark}  {message}"));
                    self.last_fetch_failure = Some(message.clone());
                }
            }
            EventKind::Trouble { message } => {
                if self.last_trouble.as_ref() != Some(message) {
                    self.line(&self.paint(&format!("✗ {message}; trying again"), Style::Red));
                    self.last_trouble = Some(message.clone());
                }
            }
            EventKind::UpToDate { commit, version } => {
                self.last_fetch_failure = None;
                if let Some(version) = version
                    && !std::mem::replace(&mut self.is_verifying_shown, true)
                {
                    self.in_force = true;
                    let commit = self.paint(commit, Style::Cyan);
                    self.line(&format!(
                        "\n{commit} is version {version} already; verifying the host"
                    ));
                    self.activated = Some(String::new());
                }
            }
            EventKind::CompileStarted {
                commit, summary, ..
            } => {
                self.last_fetch_failure = None;
                let commit = self.paint(commit, Style::Cyan);
                self.line(&format!("\n{commit} {summary}"));
            }
            EventKind::StageBegan { detail, .. } => {
                self.line(&self.paint(&format!("  {detail}"), Style::Dim));
            }
            EventKind::StageDone {
                name,
                duration,
                detail,
                ..
            } => {
                let shown = match name.as_str() {
                    "Pulling updates" => "fetched",
                    "Checking out" => "checked out",
                    "Recompiling configuration model" => "compiled",
                    "Storing the version" => "stored",
                    other => other,
                };
                let detail = if name == "Storing the version" {
                    detail.as_str()
                } else {
                    ""
                };
                let duration = self.paint(&time(*duration), Style::Dim);
                self.line(&format!("  {shown:<12} {duration} {detail}").replace("  \n", "\n"));
            }
            EventKind::CompileDone(done) => self.compiled(done),
            EventKind::Activated {
                version,
                n_new,
                n_updated,
                n_removed,
                ..
            } => {
                self.is_verifying_shown = true;
                self.in_force = true;
                self.activated = Some(String::new());
                self.line(&format!(
                    "  version {version}: {n_new} new, {n_updated} changed, {n_removed} removed"
                ));
            }
            EventKind::ResourceDone(done) => {
                self.round_began.get_or_insert_with(std::time::Instant::now);
                let agent = done.resource_id.agent().to_owned();
                let agent = self.round.entry(agent).or_default();
                // A second run in a round (after an event) does not hide what the first one changed.
                let before = agent.get(&done.resource_id);
                if before.is_none_or(|before| {
                    done.change != Change::NoChange
                        || before.change == Change::NoChange
                        || done.status != ResourceStatus::Deployed
                }) {
                    agent.insert(done.resource_id.clone(), done.clone());
                }
            }
            EventKind::Settled(summary) => self.settled(summary),
        }
    }

    fn compiled(&mut self, done: &CompileDone) {
        for diagnostic in &done.diagnostics {
            let text = if self.is_colored {
                &diagnostic.colored
            } else {
                &diagnostic.plain
            };
            self.line("");
            for line in text.trim_end().lines() {
                self.line(&format!("  {line}"));
            }
        }
        if let Some(failure) = &done.failure {
            let mark = self.paint("✗ not compiled:", Style::Red);
            let stays = if self.in_force {
                ". The version in force stays as it is."
            } else {
                ""
            };
            self.line(&format!("\n  {mark} {failure}{stays}"));
        }
    }

    fn settled(&mut self, summary: &Summary) {
        self.round_began = None;
        self.last_trouble = None;
        let is_news = self.tree();
        if self.activated.take().is_some() || is_news {
            self.summary(summary);
        }
    }

    /// Tells of the runs since the last time, by agent; `true` when there was something to tell.
    fn tree(&mut self) -> bool {
        let round = std::mem::take(&mut self.round);
        let mut is_news = false;
        let shown = |done: &ResourceDone| {
            done.change != Change::NoChange || done.status != ResourceStatus::Deployed
        };
        for (agent, resources) in &round {
            let mut resources: Vec<&ResourceDone> =
                resources.values().filter(|done| shown(done)).collect();
            resources.sort_by_cached_key(|done| {
                let id = &done.resource_id;
                (id.resource_type().to_owned(), id.value().to_owned())
            });
            if resources.is_empty() {
                continue;
            }
            is_news = true;
            self.line(&format!("\n  {}", self.paint(agent, Style::Bold)));
            let n_resources = resources.len();
            for (index, done) in resources.into_iter().enumerate() {
                let branch = if index + 1 == n_resources {
                    "└─"
                } else {
                    "├─"
                };
                self.resource(branch, done);
            }
        }
        is_news
    }

    fn resource(&self, branch: &str, done: &ResourceDone) {
        use ResourceStatus::{Deployed, Skipped};
        let (mark, word, style) = match (done.status, done.change) {
            (Deployed, Change::Created) => ("+", "created", Style::Green),
            (Deployed, Change::Updated) if done.resource_id.as_str().starts_with("exec::Run[") => {
                ("▸", "ran", Style::Yellow)
            }
            (Deployed, Change::Updated) if done.reason.starts_with("previous repair") => {
                ("~", "repaired", Style::Yellow)
            }
            (Deployed, Change::Updated) => ("~", "updated", Style::Yellow),
            (Deployed, Change::Purged) => ("-", "purged", Style::Red),
            (Deployed, _) => ("✓", "deployed", Style::Green),
            (Skipped, _) => ("○", "skipped", Style::Yellow),
            (status, _) => ("✗", status.as_str(), Style::Red),
        };
        let id = &done.resource_id;
        let (kind, value) = match id.value() {
            "" => ("", id.as_str()),
            value => (id.resource_type(), value),
        };
        let state = self.paint(&format!("{mark} {word:<9}"), style);
        let attributes: Vec<&str> = done
            .changes
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "purged" && *name != "command")
            .collect();
        let attributes = match (done.change, attributes.is_empty()) {
            (Change::Updated, false) => format!(" ({})", attributes.join(", ")),
            _ => String::new(),
        };
        let duration = self.paint(&time(done.duration), Style::Dim);
        self.line(&format!(
            "  {} {state} {kind} {value}{attributes} {duration}",
            self.paint(branch, Style::Dim)
        ));
        if done.status != ResourceStatus::Deployed
            && let Some(message) = &done.message
        {
            for line in message.lines().take(8) {
                self.line(&format!("       {}", self.paint(line, Style::Red)));
            }
        }
    }

    fn summary(&self, summary: &Summary) {
        let mut parts = Vec::new();
        let mut part = |count: usize, word: &str, style: Style| {
            if count > 0 {
                parts.push(self.paint(&format!("{count} {word}"), style));
            }
        };
        part(summary.deployed, "deployed", Style::Green);
        part(summary.unchanged, "unchanged", Style::Dim);
        part(summary.failed, "failed", Style::Red);
        part(summary.skipped, "skipped", Style::Yellow);
        part(summary.undefined, "waiting for a value", Style::Yellow);
        let verdict = match (summary.is_good(), summary.deployed) {
            (true, 0) => self.paint("✓ nothing to change", Style::Green),
            (true, _) => self.paint("✓ all deployed", Style::Green),
            (false, _) => self.paint("✗ not all deployed", Style::Red),
        };
        let duration = self.paint(&time(summary.duration), Style::Dim);
        let counts = if parts.is_empty() {
            "no resources".to_owned()
        } else {
            parts.join(", ")
        };
        self.line(&format!(
            "\n{verdict}  version {}: {counts} {duration}",
            summary.version
        ));
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if !self.is_colored {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Red => "31",
            Style::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    fn json(&self, value: &Value) {
        self.line(&value.to_string());
    }

    /// A reader that is gone ends the command, as with any other.
    fn line(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        if writeln!(stdout, "{}", text.trim_end())
            .and_then(|()| stdout.flush())
            .is_err()
        {
            self.gone.notify_one();
        }
    }
}

/// `3 ms`, `1.2 s`, `2 min 5 s`.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match duration.as_millis() {
        0..1000 => format!("{} ms", duration.as_millis()),
        1000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
