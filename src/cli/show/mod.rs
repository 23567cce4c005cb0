//! What `steward up` and `steward deploy` report: lines that a person likes to read, or one JSON object a line.

mod json;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Format;
use super::terminal::{Paint, Style, printable, time};
use crate::domain::{Change, ResourceId, ResourceStatus, Timestamp};
use crate::observe::{CompileDone, Event, EventKind, ResourceDone, Summary};

/// Resources that are as bad as before, which are named one by one.
const MAX_REPEATS: usize = 3;

/// How a resource failed the last time, and how often in the same way.
struct Failing {
    status: ResourceStatus,
    message: Option<String>,
    since: Timestamp,
    n_times: u32,
}

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    /// What is said of a model by a command that answers something else.
    Error,
}

pub(super) struct Show {
    format: Format,
    paint: Paint,
    /// Each run is written when it ends; else a round is shown as a tree, by agent.
    is_live: bool,
    /// Runs of the present round, by agent, for the tree.
    round: BTreeMap<String, BTreeMap<ResourceId, ResourceDone>>,
    failing: BTreeMap<ResourceId, Failing>,
    activated: Option<String>,
    last_fetch_failure: Option<String>,
    last_trouble: Option<String>,
    is_verifying_shown: bool,
    /// The version in force, when there is one.
    in_force: bool,
    round_began: Option<std::time::Instant>,
    gone: std::sync::Arc<tokio::sync::Notify>,
}

impl Show {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            paint: Paint::of_stdout(),
            is_live: false,
            round: BTreeMap::new(),
            failing: BTreeMap::new(),
            activated: None,
            last_fetch_failure: None,
            last_trouble: None,
            is_verifying_shown: false,
            in_force: false,
            round_began: None,
            gone: std::sync::Arc::default(),
        }
    }

    /// Of a command that ends when all is done: each run is shown when it ends.
    pub(super) fn live(format: Format) -> Self {
        Self {
            is_live: true,
            ..Self::new(format)
        }
    }

    pub(super) fn started(&mut self, source: &str, url: &str, data: &Path) {
        match self.format {
            Format::Json => {
                self.json(&json!({"event": "started", "source": source, "api": url, "data": data}))
            }
            Format::Human => {
                let name = self.paint.paint("Steward", Style::Bold);
                self.line(&format!("{name} keeps this host as {source} says"));
                self.line(&self.paint.paint(
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
            Format::Human => self.line(&self.paint.paint(&format!("✗ {message}"), Style::Red)),
        }
    }

    /// Somebody ended the command before it was done.
    pub(super) fn interrupted(&mut self, what: &str) {
        match self.format {
            Format::Json => self.json(&json!({"event": "interrupted", "message": what})),
            Format::Human => self.line(
                &self
                    .paint
                    .paint(&format!("\ninterrupted: {what}"), Style::Yellow),
            ),
        }
    }

    /// A compile of this command has ended.
    pub(super) fn compile_done(&mut self, done: &CompileDone) {
        if self.format == Format::Json {
            self.event_as_json(&EventKind::CompileDone(done.clone()));
            return;
        }
        self.compiled(done, Stream::Error);
        if done.failure.is_none() {
            let n_resources = done.n_resources;
            let plural = if n_resources == 1 { "" } else { "s" };
            let of = match done.commit.as_str() {
                "" => String::new(),
                commit => format!(" of {}", self.paint.paint(commit, Style::Cyan)),
            };
            let duration = self.paint.paint(&time(done.duration), Style::Dim);
            self.line(&format!(
                "compiled {n_resources} resource{plural}{of} {duration}"
            ));
        }
    }

    /// What a compile of this command says of the model, and that it has mistakes if it has.
    pub(super) fn diagnostics(&mut self, done: &CompileDone) {
        self.compiled(done, Stream::Error);
    }

    /// A handler has found what the model waits for.
    pub(super) fn fact_known(&mut self) {
        if self.format == Format::Human {
            self.line("\na fact that the model waits for is known now");
        }
    }

    /// What to ask when something is not deployed.
    pub(super) fn hint_to_explain(&mut self) {
        if self.format == Format::Human {
            self.line("`steward explain RESOURCE` says why a resource is not deployed");
        }
    }

    /// The first fetch and compile may take long, and are told of when they are done.
    pub(super) fn still_beginning(&mut self) {
        if self.format == Format::Human {
            let text = "        still fetching or compiling; what came of it follows";
            self.line(&self.paint.paint(text, Style::Dim));
        }
    }

    /// What to ask of a server that goes on, when something is not deployed.
    pub(super) fn hint_to_explain_there(&mut self, port: u16) {
        if self.format == Format::Human {
            self.line(&format!(
                "`steward explain RESOURCE --server-port {port}` says why a resource is not deployed"
            ));
        }
    }

    pub(super) fn stopping(&mut self) {
        if self.format == Format::Human {
            self.tree();
            self.line(&self.paint.paint("stopped", Style::Dim));
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match self.format {
            Format::Json => self.event_as_json(&event.what),
            Format::Human => self.event_for_people(&event.what),
        }
    }

    fn long_run(&mut self, resource_id: &ResourceId, took: Duration, n_others: usize) {
        let others = match n_others {
            0 => String::new(),
            n => format!(", and {n} others"),
        };
        let id = printable(resource_id.as_str());
        let text = format!("  … {id} has not ended for {} s{others}", took.as_secs());
        self.line(&self.paint.paint(&text, Style::Yellow));
    }

    fn event_for_people(&mut self, what: &EventKind) {
        match what {
            EventKind::FetchFailed { message } => {
                if self.last_fetch_failure.as_ref() != Some(message) {
                    let mark = self.paint.paint("✗ cannot fetch", Style::Red);
                    self.line(&format!("\n{mark}  {}", printable(message)));
                    self.last_fetch_failure = Some(message.clone());
                }
            }
            EventKind::Trouble { message } => {
                if self.last_trouble.as_ref() != Some(message) {
                    self.line(&self.paint.paint(
                        &format!("✗ {}; trying again", printable(message)),
                        Style::Red,
                    ));
                    self.last_trouble = Some(message.clone());
                }
            }
            EventKind::UpToDate { commit, version } => {
                self.last_fetch_failure = None;
                if let Some(version) = version
                    && !std::mem::replace(&mut self.is_verifying_shown, true)
                {
                    self.in_force = true;
                    let commit = self.paint.paint(commit, Style::Cyan);
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
                let commit = self.paint.paint(commit, Style::Cyan);
                self.line(&format!("\n{commit} {}", printable(summary)));
            }
            EventKind::StageBegan { detail, .. } => {
                self.line(&self.paint.paint(&format!("  {detail}"), Style::Dim));
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
                let duration = self.paint.paint(&time(*duration), Style::Dim);
                self.line(&format!("  {shown:<12} {duration} {detail}").replace("  \n", "\n"));
            }
            EventKind::CompileDone(done) => self.compiled(done, Stream::Out),
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
            EventKind::ResourceDone(done) if self.is_live => self.resource(None, done),
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
            EventKind::LongRun {
                resource_id,
                took,
                n_others,
            } => self.long_run(resource_id, *took, *n_others),
            EventKind::Settled(summary) => self.settled(summary),
        }
    }

    fn compiled(&self, done: &CompileDone, to: Stream) {
        let paint = match to {
            Stream::Out => self.paint,
            Stream::Error => Paint::of_stderr(),
        };
        for diagnostic in &done.diagnostics {
            let text = if paint.is_colored() {
                &diagnostic.colored
            } else {
                &diagnostic.plain
            };
            self.line_to(to, "");
            for line in text.trim_end().lines() {
                self.line_to(to, &format!("  {line}"));
            }
        }
        if let Some(failure) = &done.failure {
            let mark = paint.paint("✗ not compiled:", Style::Red);
            let stays = if self.in_force {
                ". The version in force stays as it is."
            } else {
                ""
            };
            self.line_to(to, &format!("\n  {mark} {}{stays}", printable(failure)));
        }
    }

    fn settled(&mut self, summary: &Summary) {
        self.round_began = None;
        self.last_trouble = None;
        let is_news = self.tree();
        if self.activated.take().is_some() || is_news || self.is_live {
            self.summary(summary);
        }
    }

    /// Tells of the runs since the last time, by agent; `true` when there was something to tell.
    fn tree(&mut self) -> bool {
        let round = std::mem::take(&mut self.round);
        let (mut is_news, mut repeats) = (false, Vec::new());
        let shown = |done: &ResourceDone| {
            done.change != Change::NoChange || done.status != ResourceStatus::Deployed
        };
        for (agent, resources) in &round {
            let (again, mut resources): (Vec<&ResourceDone>, Vec<&ResourceDone>) =
                resources.values().partition(|done| self.repeats(done));
            repeats.extend(again);
            resources.retain(|done| shown(done));
            resources.sort_by_cached_key(|done| {
                let id = &done.resource_id;
                (id.resource_type().to_owned(), id.value().to_owned())
            });
            if resources.is_empty() {
                continue;
            }
            is_news = true;
            let agent = self.paint.paint(&printable(agent), Style::Bold);
            self.line(&format!("\n  {agent}"));
            let n_resources = resources.len();
            for (index, done) in resources.into_iter().enumerate() {
                let branch = if index + 1 == n_resources {
                    "└─"
                } else {
                    "├─"
                };
                self.resource(Some(branch), done);
            }
        }
        self.repeated(&repeats);
        is_news
    }

    /// Whether a resource is as bad as it was, in the same words; takes note of how it is.
    fn repeats(&mut self, done: &ResourceDone) -> bool {
        if done.status == ResourceStatus::Deployed {
            self.failing.remove(&done.resource_id);
            return false;
        }
        if let Some(before) = self.failing.get_mut(&done.resource_id)
            && (before.status, &before.message) == (done.status, &done.message)
        {
            before.n_times += 1;
            return true;
        }
        let failing = Failing {
            status: done.status,
            message: done.message.clone(),
            since: Timestamp::now(),
            n_times: 1,
        };
        self.failing.insert(done.resource_id.clone(), failing);
        false
    }

    /// A line for each of the first of what is as bad as before: why was shown already.
    fn repeated(&self, repeats: &[&ResourceDone]) {
        let known = repeats
            .iter()
            .filter_map(|done| Some((*done, self.failing.get(&done.resource_id)?)));
        // Less and less often: 2, 4, 8, … times.
        let shown: Vec<(&ResourceDone, &Failing)> = known
            .filter(|(_, failing)| failing.n_times.is_power_of_two())
            .collect();
        for (done, failing) in shown.iter().take(MAX_REPEATS) {
            let word = match done.status {
                ResourceStatus::Failed => "failing",
                other => other.as_str(),
            };
            let text = format!(
                "  ✗ {} is still {word} since {}, {} times",
                printable(done.resource_id.as_str()),
                failing.since.for_people(),
                failing.n_times
            );
            self.line(&self.paint.paint(&text, Style::Red));
        }
        let n_more = shown.len().saturating_sub(MAX_REPEATS);
        if n_more > 0 {
            let text = format!("  … and {n_more} more are as before");
            self.line(&self.paint.paint(&text, Style::Red));
        }
    }

    /// One run: as a leaf of an agent's tree, or by itself, with its whole id.
    fn resource(&self, branch: Option<&str>, done: &ResourceDone) {
        use ResourceStatus::{Deployed, NonCompliant, Skipped};
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
            (Deployed, _) if branch.is_none() => ("✓", "unchanged", Style::Dim),
            (Deployed, _) => ("✓", "deployed", Style::Green),
            (Skipped, _) => ("○", "skipped", Style::Yellow),
            (NonCompliant, _) => ("≠", "differs", Style::Yellow),
            (status, _) => ("✗", status.as_str(), Style::Red),
        };
        let id = &done.resource_id;
        let name = match (branch, id.value()) {
            (None, _) | (_, "") => id.to_string(),
            (Some(_), value) => format!("{} {value}", id.resource_type()),
        };
        let name = printable(&name);
        let state = self.paint.paint(&format!("{mark} {word:<9}"), style);
        let attributes: Vec<&str> = done
            .changes
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "purged" && *name != "command")
            .collect();
        let are_shown = done.change == Change::Updated || done.status == NonCompliant;
        let attributes = match are_shown && !attributes.is_empty() {
            true => format!(" ({})", attributes.join(", ")),
            false => String::new(),
        };
        let duration = self.paint.paint(&time(done.duration), Style::Dim);
        let branch = branch.map(|branch| self.paint.paint(branch, Style::Dim) + " ");
        let branch = branch.unwrap_or_default();
        self.line(&format!("  {branch}{state} {name}{attributes} {duration}"));
        if done.status != ResourceStatus::Deployed
            && let Some(message) = &done.message
        {
            for line in printable(message).lines().take(8) {
                self.line(&format!("       {}", self.paint.paint(line, Style::Red)));
            }
        }
    }

    fn summary(&self, summary: &Summary) {
        let mut parts = Vec::new();
        let mut part = |count: usize, word: &str, style: Style| {
            if count > 0 {
                parts.push(self.paint.paint(&format!("{count} {word}"), style));
            }
        };
        part(summary.deployed, "deployed", Style::Green);
        part(summary.unchanged, "unchanged", Style::Dim);
        part(summary.failed, "failed", Style::Red);
        part(summary.reported, "only reported", Style::Yellow);
        part(summary.skipped, "skipped", Style::Yellow);
        part(summary.undefined, "waiting for a value", Style::Yellow);
        let verdict = match (summary.is_good(), summary.deployed) {
            (true, 0) => self.paint.paint("✓ nothing to change", Style::Green),
            (true, _) => self.paint.paint("✓ all deployed", Style::Green),
            (false, _) => self.paint.paint("✗ not all deployed", Style::Red),
        };
        let duration = self.paint.paint(&time(summary.duration), Style::Dim);
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

    fn json(&self, value: &Value) {
        self.line(&value.to_string());
    }

    fn line_to(&self, stream: Stream, text: &str) {
        match stream {
            Stream::Out => self.line(text),
            // Whoever does not read it does not want it.
            Stream::Error => {
                let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: ResourceStatus, message: &str) -> ResourceDone {
        ResourceDone {
            resource_id: ResourceId::new("fs::File[a,path=/x]"),
            version: Default::default(),
            status,
            change: Change::NoChange,
            changes: BTreeMap::new(),
            reason: String::new(),
            message: Some(message.to_owned()),
            duration: Duration::ZERO,
        }
    }

    /// Runs of a resource, one after the other: one that fails as it did is short, until it fails
    /// otherwise or is deployed.
    #[test]
    fn the_same_failure_is_short_the_second_time() {
        use ResourceStatus::{Deployed, Failed};
        let mut show = Show::new(Format::Human);
        let runs = [
            (Failed, "no folder", false),
            (Failed, "no folder", true),
            (Failed, "no folder", true),
            (Failed, "no room", false),
            (Deployed, "", false),
            (Failed, "no room", false),
        ];
        for (status, message, is_repeat) in runs {
            assert_eq!(show.repeats(&run(status, message)), is_repeat, "{message}");
        }
        show.repeats(&run(Failed, "no room"));
        let known = show.failing.values().next().unwrap();
        assert_eq!(known.n_times, 2);
    }
}
