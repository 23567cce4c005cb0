//! Follows an instance through its states.
//!
//! The log of the instance has every version, so no state is missed however fast it passes. On a terminal the last line shows
//! where the instance is and for how long; otherwise there is a line each state, and nothing else.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::table::{shown, time};
use super::{Client, FAILED, Failure, LOOK_EVERY, WatchArguments, name_of, path_of, style_of};
use crate::cli::terminal::{self, Style, printable, write_out};

/// When to end.
#[derive(Debug, Default)]
pub(super) struct Goal {
    /// In this state; `None`: in one where the instance stays.
    until: Option<String>,
    timeout: Option<Duration>,
    /// A change that was asked for with this version has to be done, and not refused.
    changed_in: Option<u64>,
}

impl Goal {
    /// To see a change to its end that was asked for with this version of the instance.
    pub(super) fn of_change(version: u64) -> Self {
        Self {
            changed_in: Some(version),
            ..Self::default()
        }
    }
}

pub(super) fn run(arguments: &WatchArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let (instance, service) = client.instance(&arguments.of)?;
    let goal = Goal {
        until: arguments.until.clone(),
        timeout: arguments.timeout.map(Duration::from_secs),
        changed_in: None,
    };
    if let Some(state) = &goal.until {
        let mut states = service["lifecycle"]["states"]
            .as_array()
            .into_iter()
            .flatten();
        if !states.any(|one| one["name"] == state.as_str()) {
            let message = format!(
                "the lifecycle of {} has no state `{state}`",
                arguments.of.service
            );
            return Err((message, super::USAGE));
        }
    }
    let version = instance["version"].as_u64().unwrap_or_default();
    follow(&client, &service, &instance, version, &goal)
}

/// Writes each state from this version on, until the goal is reached. The exit code says whether the last state is good.
pub(super) fn follow(
    client: &Client,
    service: &Value,
    instance: &Value,
    from: u64,
    goal: &Goal,
) -> Result<ExitCode, Failure> {
    let path = path_of(instance);
    let begin = Instant::now();
    let mut page = View::new(client, service, name_of(instance));
    let mut next = from.max(1);
    loop {
        let log = client.get(&format!(
            "{path}/log?sort=version.asc&limit=100&filter.version=ge:{next}"
        ))?;
        let versions = log["data"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        for version in versions {
            page.state(version);
            next = version["version"].as_u64().unwrap_or(next) + 1;
            if goal
                .until
                .as_deref()
                .is_some_and(|until| version["state"] == until)
            {
                page.end();
                return Ok(ExitCode::SUCCESS);
            }
        }
        let now = client.get(&path)?["data"].take();
        let is_there = now["version"]
            .as_u64()
            .is_some_and(|version| version < next);
        if is_there && goal.until.is_none() && is_resting(service, &now) {
            page.end();
            let refusal = goal
                .changed_in
                .map(|version| refusal(client, &path, version));
            return match refusal.transpose()?.flatten() {
                Some(refusal) => Err((refusal, FAILED)),
                None => Ok(verdict(service, &now)),
            };
        }
        if is_there && goal.until.is_some() && now["deleted"] == true {
            page.end();
            return Ok(ExitCode::from(FAILED));
        }
        if goal
            .timeout
            .is_some_and(|timeout| begin.elapsed() > timeout)
        {
            page.end();
            let state = shown(&now["state"]);
            return Err((format!("{} is still {state}", name_of(instance)), FAILED));
        }
        if is_there
            && page.is_due_to_ask()
            && let Some(why) = hindrance(client, &path, &now)?
        {
            page.end();
            let state = shown(&now["state"]);
            return Err((
                format!("{} stays in the state {state}: {why}", name_of(instance)),
                FAILED,
            ));
        }
        page.wait();
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Whether nothing leads an instance out of its state but somebody who asks for it, or a deployment that fails later.
fn is_resting(service: &Value, instance: &Value) -> bool {
    let (state, lifecycle) = (&instance["state"], &service["lifecycle"]);
    let mut states = lifecycle["states"].as_array().into_iter().flatten();
    let found = states.find(|one| one["name"] == *state);
    if found.is_some_and(|found| found["deleted"] == true) {
        return true;
    }
    // In a bad state the deployment is tried again, and may succeed one day: nobody waits for that.
    let is_bad =
        found.is_some_and(|found| found["label"] == "danger" || found["label"] == "warning");
    let leads_on = |transfer: &Value| {
        let switch = transfer["config_name"].as_str();
        let is_on = switch.is_none_or(|name| {
            let own = instance["config"][name].as_bool();
            own.or(service["config"][name].as_bool()).unwrap_or(true)
        });
        let is_by_itself = transfer["auto"] == true && is_on;
        let is_by_success = transfer["resource_based"] == true && transfer["target"] != *state;
        transfer["source"] == *state && (is_by_itself || (is_by_success && !is_bad))
    };
    let mut transfers = lifecycle["transfers"].as_array().into_iter().flatten();
    !transfers.any(leads_on)
}

/// Why a change is not done although the instance may be as well as before: the first edge to an error state that it followed
/// since this version.
fn refusal(client: &Client, path: &str, since: u64) -> Result<Option<String>, Failure> {
    let events = client.get(&format!("{path}/events?limit=100"))?;
    let mut events = events["data"].as_array().into_iter().flatten();
    let refused = events.rfind(|event| {
        event["is_error_transition"] == true
            && event["ignored_transition"] != true
            && event["service_instance_version"]
                .as_u64()
                .is_some_and(|version| version >= since)
    });
    Ok(refused.map(|event| {
        let message = printable(event["message"].as_str().unwrap_or_default());
        format!("the change did not succeed: {message}; `steward lsm diagnose` says why")
    }))
}

/// Why nothing leads an instance out of its state before somebody mends the model: its export failed, or says of no resource that
/// it is deployed. One that waits for another compile is not among these: that has neither errors nor a version.
fn hindrance(client: &Client, path: &str, now: &Value) -> Result<Option<String>, Failure> {
    let diagnosis = client.get(&format!(
        "{path}/diagnose?rejection_lookbehind=1&failure_lookbehind=1"
    ))?;
    let mut exports = diagnosis["data"]["exports"]
        .as_array()
        .into_iter()
        .flatten();
    let found = exports.find(|one| {
        let has_errors = one["errors"]
            .as_array()
            .is_some_and(|errors| !errors.is_empty());
        one["instance_version"] == now["version"] && (has_errors || !one["model_version"].is_null())
    });
    Ok(found.map(|one| {
        let messages = one["errors"].as_array().into_iter().flatten();
        let messages: Vec<&str> = messages
            .filter_map(|error| error["message"].as_str())
            .collect();
        match messages[..] {
            [] => printable(one["trace"].as_str().unwrap_or_default()),
            _ => printable(&messages.join("; ")),
        }
    }))
}

fn verdict(service: &Value, instance: &Value) -> ExitCode {
    let state = instance["state"].as_str().unwrap_or_default();
    match style_of(service, state) {
        Some(Style::Red | Style::Yellow) => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// What is shown of an instance, and has been written so far.
struct View<'c> {
    client: &'c Client,
    service: &'c Value,
    name: String,
    is_live: bool,
    /// The state where the instance is, and since when, as far as was seen.
    current: Option<(String, Instant)>,
    /// When the server was asked last what keeps it there.
    asked: Instant,
    n_looks: usize,
}

/// An instance that stays so long in a state may have a reason for it that the server knows.
const ASK_EVERY: Duration = Duration::from_secs(3);

const SPINNER: [&str; 4] = ["|", "/", "-", "\\"];

impl<'c> View<'c> {
    fn new(client: &'c Client, service: &'c Value, name: String) -> Self {
        Self {
            client,
            service,
            name,
            is_live: std::io::stdout().is_terminal() && !client.is_json,
            current: None,
            asked: Instant::now(),
            n_looks: 0,
        }
    }

    /// A line for a state.
    fn state(&mut self, version: &Value) {
        let state = version["state"].as_str().unwrap_or_default();
        if self.client.is_json {
            let line = json!({"version": version["version"], "state": state, "timestamp": version["timestamp"]});
            write_out(&format!("{line}\n"));
            return;
        }
        self.clear();
        let paint = self.client.paint;
        let shown = printable(state);
        let colored = match style_of(self.service, state) {
            Some(style) => paint.paint(&shown, style),
            None => shown,
        };
        let time = time(&version["timestamp"]);
        let time = paint.paint(time.get(11..19).unwrap_or_default(), Style::Dim);
        write_out(&format!(
            "{time}  {} {:>3}  {colored}\n",
            self.name,
            version["version"].as_u64().unwrap_or_default()
        ));
        self.current = Some((state.to_owned(), Instant::now()));
        self.asked = Instant::now();
    }

    /// Whether it has been where it is for long since the server was asked why.
    fn is_due_to_ask(&mut self) -> bool {
        let is_due = self.asked.elapsed() >= ASK_EVERY;
        if is_due {
            self.asked = Instant::now();
        }
        is_due
    }

    /// On a terminal: where it is, and for how long.
    fn wait(&mut self) {
        let Some((state, since)) = self.current.as_ref().filter(|_| self.is_live) else {
            return;
        };
        let mark = SPINNER[self.n_looks % SPINNER.len()];
        let text = format!(
            "{mark} {} for {}",
            printable(state),
            terminal::time(since.elapsed())
        );
        self.n_looks += 1;
        write_out(&format!(
            "\r\x1b[K{}",
            self.client.paint.paint(&text, Style::Dim)
        ));
    }

    /// Takes away the line that shows where it is.
    fn clear(&self) {
        if self.is_live {
            write_out("\r\x1b[K");
        }
    }

    fn end(&self) {
        self.clear();
    }
}
