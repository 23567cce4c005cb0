//! Explains why a resource is not deployed: the chain of reasons from it to the root cause.
//!
//! A skipped resource requires one that is skipped, which requires one that failed; one that waits for a value waits for
//! the fact of a resource, whose agent is paused. The chain is found by going from the resource along what it requires, one
//! step a level, and only where the reason leads on; what is good is not entered. The first root that is found is the
//! nearest; others are named, since mending the first may not be enough. Nothing is asked of the engine: the rows say it,
//! so it holds for the embedded mode as for a server, and while the server is busy.

mod reasons;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::domain::{ActionKind, AgentName, EnvironmentId, Interval, ResourceId, VersionNumber};
use crate::executor::clock::ERROR_OF_CLOCK;
use crate::executor::waiting::{Awaited, Waiting};
use crate::store::{Action, Environment, FactAge, ResourceState, Result, Store, StoredResource};
use reasons::{Reason, Since, Surroundings, awaited};

/// Resources that one explanation looks at: beyond them the nearest roots are mostly known. Few in tests.
const MAX_VISITED: usize = if cfg!(test) { 30 } else { 5_000 };

/// Other roots that are named.
const MAX_OTHERS: usize = 10;

/// Log lines of the root's last run that are shown.
const LOG_LINES: usize = 12;

/// Of the runs of a resource the newest may go on, and the one before has ended.
const NEWEST_RUNS: i64 = 2;

/// What is known of one resource on the way.
struct Visited {
    state: ResourceState,
    reason: Reason,
    /// The resource that led here; `None`: the one that is asked about.
    from: Option<ResourceId>,
}

/// The explanation of a resource, as JSON: its `chain`, whose last entry is the root cause, `others`, and `log`. `None`: no
/// version ever had such a resource.
///
/// # Errors
/// The store does not answer.
pub async fn explain(
    store: &Store,
    environment: &Environment,
    resource_id: &ResourceId,
) -> Result<Option<Value>> {
    let version = environment.active_version.unwrap_or_default();
    let mut around = surroundings(store, environment, version).await?;
    let settings = store.settings_fetch(environment.id).await?;
    let intervals = [settings.deploy_interval(), settings.repair_interval()];
    around.has_no_interval = intervals.iter().all(|one| matches!(one, Interval::Never));
    explained(store, environment, resource_id, &around).await
}

/// As [`explain`], where commands deploy and no server: nothing is tried again by itself there, as who gives them knows.
///
/// # Errors
/// The store does not answer.
pub async fn explain_without_server(
    store: &Store,
    environment: &Environment,
    resource_id: &ResourceId,
) -> Result<Option<Value>> {
    let version = environment.active_version.unwrap_or_default();
    let around = surroundings(store, environment, version).await?;
    explained(store, environment, resource_id, &around).await
}

async fn explained(
    store: &Store,
    environment: &Environment,
    resource_id: &ResourceId,
    around: &Surroundings,
) -> Result<Option<Value>> {
    let version = environment.active_version.unwrap_or_default();
    let first = store.state_fetch(environment.id, resource_id).await?;
    let Some(first) = first else {
        return not_released(store, environment.id, resource_id).await;
    };
    let walk = Walk {
        store,
        environment: environment.id,
        version,
        around,
    };
    let found = walk.from(first).await?;
    let (visited, roots) = (&found.visited, &found.roots);
    let (way, circle) = match roots.first() {
        Some(root) => (found.way_to(root), Vec::new()),
        None => found.way_to_circle(resource_id),
    };
    let mut chain = Vec::new();
    for (at, id) in way.iter().enumerate() {
        if let Some(known) = visited.get(id) {
            chain.push(walk.link(known, way.get(at + 1)).await?);
        }
    }
    if let (false, Some(last)) = (circle.is_empty(), chain.last_mut()) {
        last["reason"] = "circle".into();
        last["text"] = reasons::of_circle(&circle).into();
        last["circle"] = json!(circle);
    }
    if let (true, Some(last)) = (found.is_cut, chain.last_mut()) {
        last["text"] = reasons::of_cut(visited.len()).into();
    }
    let Some(root) = way.last() else {
        return Ok(None);
    };
    let run = walk.last_run(root).await?;
    let others = roots.iter().skip(1).take(MAX_OTHERS);
    let others = others.filter_map(|id| visited.get(id)).map(|other| {
        json!({
            "resource_id": other.state.resource_id,
            "reason": other.reason.word(),
            "text": other.reason.sentence(Some(&other.state), None),
        })
    });
    Ok(Some(json!({
        "resource_id": resource_id,
        "version": version,
        "chain": chain,
        "others": others.collect::<Vec<_>>(),
        "n_others": roots.len().saturating_sub(1),
        "log": run.as_ref().map_or_else(Vec::new, log_of),
    })))
}

/// The resource that an explanation ends with, if that is being deployed.
pub fn root_that_deploys(explanation: &Value) -> Option<ResourceId> {
    let root = explanation["chain"].as_array()?.last()?;
    let is_deploying = root["reason"] == Reason::Deploying.word();
    let id = root["resource_id"].as_str().filter(|_| is_deploying)?;
    Some(ResourceId::new(id))
}

/// Adds what its run waits for before it can begin, which no row tells.
pub fn add_waiting(explanation: &mut Value, waiting: Waiting) {
    let Waiting { since, awaited } = waiting;
    let chain = explanation["chain"].as_array_mut();
    let Some(root) = chain.and_then(|chain| chain.last_mut()) else {
        return;
    };
    let since_then = since.for_people();
    let (key, text) = match awaited {
        Awaited::Packages => (
            "installing_since",
            format!(
                "is being deployed; since {since_then} its run waits until the packages are installed that its handler requires"
            ),
        ),
        Awaited::Permission => (
            "waiting_since",
            "waits: its run could begin, but meanwhile the environment was halted, or its agent paused; it begins when that goes on"
                .to_owned(),
        ),
        Awaited::Connection(most) => (
            "connecting_since",
            format!(
                "is being deployed; since {since_then} its run waits for a connection to its machine, of which there are {most} at \
                 once (`executor.connections`)"
            ),
        ),
    };
    root[key] = json!(since.to_string());
    root["text"] = text.into();
}

async fn surroundings(
    store: &Store,
    environment: &Environment,
    version: VersionNumber,
) -> Result<Surroundings> {
    let agents = store.agent_still(environment.id).await?;
    let away = agents
        .iter()
        .filter_map(|agent| Some((agent.name.clone(), agent.away_since()?)));
    let away = away.collect();
    let paused = agents.into_iter().filter(|agent| agent.paused);
    let unknowns = store.fact_unknowns(environment.id, version).await?;
    let givers: BTreeSet<&ResourceId> = unknowns.iter().map(|(giver, _)| giver).collect();
    let givers: Vec<&ResourceId> = givers.into_iter().collect();
    let known = store.fact_ages_of(environment.id, &givers).await?;
    let stored = store.version_fetch(environment.id, version).await?;
    // One that was set before had expired when the model was compiled, and has to be set anew.
    let is_new = |fact: &FactAge| {
        let since = stored.as_ref().map(|version| version.created);
        !fact.expires || since.is_none_or(|since| fact.updated >= since)
    };
    let known: BTreeSet<(ResourceId, String)> = known
        .into_iter()
        .filter(is_new)
        .map(|fact| (fact.resource_id, fact.name))
        .collect();
    let is_open = |unknown: &(ResourceId, String)| !known.contains(unknown);
    Ok(Surroundings {
        halted: environment
            .halted
            .then_some(Since(environment.halted_since)),
        paused: paused
            .map(|agent| (agent.name.clone(), Since(agent.paused_since())))
            .collect(),
        away,
        unknowns: unknowns.into_iter().filter(is_open).collect(),
        has_no_interval: false,
    })
}

/// The explanation of a resource that has no state: a version has it that is not in force yet.
async fn not_released(
    store: &Store,
    environment: EnvironmentId,
    resource_id: &ResourceId,
) -> Result<Option<Value>> {
    let Some(newest) = store.resource_newest(environment, resource_id).await? else {
        return Ok(None);
    };
    let since = store
        .resource_since(environment, newest, resource_id)
        .await?;
    let reason = Reason::NotReleased;
    let link = json!({
        "resource_id": resource_id,
        "status": "available",
        "reason": reason.word(),
        "text": reason.sentence(None, None),
        "at": null,
        "version": newest,
        "brought_by": brought_by(store, environment, since).await?,
    });
    Ok(Some(json!({
        "resource_id": resource_id, "version": null, "chain": [link], "others": [], "n_others": 0, "log": [],
    })))
}

/// What was visited on the way from a resource to the roots.
struct Found {
    visited: HashMap<ResourceId, Visited>,
    /// Nearest first. Empty: all that was visited waits for something that was visited, so some of it is in a circle.
    roots: Vec<ResourceId>,
    /// What each resource that is no root waits for, the first of it.
    waits_for: HashMap<ResourceId, ResourceId>,
    /// The search ended before it came to any root: `roots` are those that it would have gone on with.
    is_cut: bool,
}

impl Found {
    /// The way by which a root was found.
    fn way_to(&self, root: &ResourceId) -> Vec<ResourceId> {
        let next = |id: &ResourceId| self.visited.get(id).and_then(|known| known.from.clone());
        let mut way: Vec<ResourceId> = std::iter::successors(Some(root.clone()), next).collect();
        way.reverse();
        way
    }

    /// The way to the first resource of a circle, and the circle from there on. Versions of before may have one: today such a
    /// version is refused.
    fn way_to_circle(&self, first: &ResourceId) -> (Vec<ResourceId>, Vec<ResourceId>) {
        let mut way = vec![first.clone()];
        while let Some(next) = way.last().and_then(|id| self.waits_for.get(id)) {
            if let Some(entry) = way.iter().position(|known| known == next) {
                let circle = way.split_off(entry);
                way.push(next.clone());
                return (way, circle);
            }
            way.push(next.clone());
        }
        (way, Vec::new())
    }
}

/// The way from a resource to the roots.
struct Walk<'a> {
    store: &'a Store,
    environment: EnvironmentId,
    version: VersionNumber,
    around: &'a Surroundings,
}

impl Walk<'_> {
    /// Visits what may be the reason, level by level.
    async fn from(&self, first: ResourceState) -> Result<Found> {
        let mut visited = HashMap::new();
        let mut waits_for = HashMap::new();
        let mut roots = Vec::new();
        let reason = Reason::of(&first, self.around);
        let mut level = vec![first.resource_id.clone()];
        visited.insert(
            first.resource_id.clone(),
            Visited {
                state: first,
                reason,
                from: None,
            },
        );
        while !level.is_empty() && visited.len() < MAX_VISITED {
            let wanted = self.causes_of(&level, &visited).await?;
            let ids: Vec<ResourceId> = wanted.values().flatten().cloned().collect();
            let states = self.store.state_some(self.environment, &ids).await?;
            let states: HashMap<&ResourceId, &ResourceState> = states
                .iter()
                .map(|state| (&state.resource_id, state))
                .collect();
            let mut next = Vec::new();
            for id in level {
                let mut leads_on = false;
                for cause in wanted.get(&id).into_iter().flatten() {
                    let Some(state) = states.get(cause) else {
                        continue;
                    };
                    let reason = Reason::of(state, self.around);
                    let is_cause = visited
                        .get(&id)
                        .is_some_and(|from| is_cause(&from.reason, &reason));
                    if !is_cause {
                        continue;
                    }
                    leads_on = true;
                    waits_for.entry(id.clone()).or_insert_with(|| cause.clone());
                    if visited.contains_key(cause) {
                        continue;
                    }
                    let from = Some(id.clone());
                    let state = (*state).clone();
                    visited.insert(
                        cause.clone(),
                        Visited {
                            state,
                            reason,
                            from,
                        },
                    );
                    next.push(cause.clone());
                }
                if !leads_on {
                    roots.push(id);
                }
            }
            level = next;
        }
        // What is left where the search was cut off: only what waits for nothing is a root.
        let waits = |id: &ResourceId| {
            let known = visited.get(id);
            known.is_some_and(|known| known.reason.leads_on() || known.reason == Reason::Undefined)
        };
        let (open, ended): (Vec<ResourceId>, Vec<ResourceId>) = level.into_iter().partition(waits);
        roots.extend(ended);
        let is_cut = roots.is_empty() && !open.is_empty();
        if is_cut {
            roots = open;
        }
        Ok(Found {
            visited,
            roots,
            waits_for,
            is_cut,
        })
    }

    /// What each resource of a level may be not deployed because of: what it requires, or the resources whose facts it
    /// may wait for.
    async fn causes_of(
        &self,
        level: &[ResourceId],
        visited: &HashMap<ResourceId, Visited>,
    ) -> Result<BTreeMap<ResourceId, Vec<ResourceId>>> {
        let reason_of = |id: &ResourceId| visited.get(id).map(|known| &known.reason);
        let leading: Vec<ResourceId> = level
            .iter()
            .filter(|id| reason_of(id).is_some_and(Reason::leads_on))
            .cloned()
            .collect();
        let requires = self
            .store
            .resource_requires(self.environment, self.version, &leading);
        let mut causes: BTreeMap<ResourceId, Vec<ResourceId>> =
            requires.await?.into_iter().collect();
        for id in level {
            if reason_of(id) == Some(&Reason::Undefined) {
                let facts = self.around.unknowns.iter();
                let givers: BTreeSet<ResourceId> = facts.map(|(giver, _)| giver.clone()).collect();
                causes.insert(
                    id.clone(),
                    givers.into_iter().filter(|giver| giver != id).collect(),
                );
            }
        }
        Ok(causes)
    }

    /// One step of the chain, with when it was so and which version and commit brought the resource.
    async fn link(&self, known: &Visited, next: Option<&ResourceId>) -> Result<Value> {
        let state = &known.state;
        let version = state.orphaned_after.unwrap_or(self.version);
        let resource = self
            .store
            .resource_fetch(self.environment, version, &state.resource_id)
            .await?;
        let since = self
            .store
            .resource_since(self.environment, version, &state.resource_id)
            .await?;
        let runs = self.newest_runs(&state.resource_id).await?;
        let run = runs.iter().find(|run| run.finished.is_some());
        let mut text = known.reason.sentence(Some(state), next);
        if next.is_none() {
            text += &known.reason.hindrance(state, self.around);
        }
        let open = runs.first().filter(|run| run.finished.is_none());
        let open = open.filter(|_| known.reason == Reason::Deploying);
        if let Some(open) = open {
            text += &format!(" since {}", open.started.for_people());
        }
        let mut busy_with = None;
        if known.reason == Reason::Waiting && next.is_none() {
            let running = self.store.action_open_on(self.environment, &state.agent);
            busy_with = running.await?;
        }
        if let Some((running, started)) = &busy_with {
            text += &format!(", which deploys {running} since {}", started.for_people());
        }
        let mut link = json!({
            "resource_id": state.resource_id,
            "status": state.status(),
            "reason": known.reason.word(),
            "text": text,
            "at": state.last_run_at.map(|at| at.to_string()),
            "version": version,
            "brought_by": brought_by(self.store, self.environment, since).await?,
            "n_failures": state.n_failures,
        });
        if let Some(open) = open {
            link["deploying_since"] = json!(open.started.to_string());
        }
        if let Some((running, started)) = busy_with {
            link["busy_with"] = json!({"resource_id": running, "since": started.to_string()});
        }
        if let Some(last) = state.orphaned_after {
            link["removed_by"] = self.removed_by(last).await?;
        }
        if let Some(run) = run {
            link["run_version"] = json!(run.version);
            link["message"] = message_of(run);
            if known.reason == Reason::NonCompliant {
                link["attribute_diff"] = run.changes.clone();
            }
        }
        if known.reason == Reason::Undefined {
            link["awaited"] = self.awaited(resource).await?;
        }
        Ok(link)
    }

    /// What an undefined resource waits for, and when the handlers were asked for it.
    async fn awaited(&self, resource: Option<StoredResource>) -> Result<Value> {
        let attributes = resource
            .and_then(|resource| serde_json::from_str(&resource.attributes).ok())
            .unwrap_or(Value::Null);
        let mut awaited = awaited(&attributes, self.around);
        for fact in awaited["facts"].as_array_mut().into_iter().flatten() {
            let giver = ResourceId::new(fact["resource_id"].as_str().unwrap_or_default());
            let kind = ActionKind::CollectFacts;
            let asked = self.store.action_of_kind(self.environment, &giver, kind, 1);
            let asked = asked.await?;
            fact["asked"] = json!(asked.first().map(|asked| asked.started.to_string()));
            let agent = AgentName::new(giver.agent());
            fact["standstill"] = json!(self.around.standstill(&agent));
        }
        Ok(awaited)
    }

    /// The version that no longer had a resource, and its commit: the first that was released after `last`, which had it. Null
    /// where housekeeping has removed `last`, and maybe others after it.
    async fn removed_by(&self, last: VersionNumber) -> Result<Value> {
        let versions = self.store.version_keys(self.environment).await?;
        if !versions.iter().any(|(number, _)| *number == last) {
            return Ok(Value::Null);
        }
        let later = versions
            .into_iter()
            .filter(|(number, is_released)| *is_released && *number > last);
        let first = later.map(|(number, _)| number).min();
        brought_by(self.store, self.environment, first).await
    }

    /// The last deployment of a resource that has ended.
    async fn last_run(&self, id: &ResourceId) -> Result<Option<Action>> {
        let runs = self.newest_runs(id).await?;
        Ok(runs.into_iter().find(|run| run.finished.is_some()))
    }

    /// The newest deployments of a resource, the newest first.
    async fn newest_runs(&self, id: &ResourceId) -> Result<Vec<Action>> {
        let kind = ActionKind::Deploy;
        self.store
            .action_of_kind(self.environment, id, kind, NEWEST_RUNS)
            .await
    }
}

/// A version and its commit, as a link has them; of the resource of a link it is the first with the content that it has now.
async fn brought_by(
    store: &Store,
    environment: EnvironmentId,
    since: Option<VersionNumber>,
) -> Result<Value> {
    let Some(since) = since else {
        return Ok(Value::Null);
    };
    // The first one may be removed by now.
    let Some(version) = store.version_fetch(environment, since).await? else {
        return Ok(json!({"version": since}));
    };
    // What was compiled elsewhere and exported to the server has its commit among what the exporter says of it.
    let commit = match &version.commit_id {
        Some(commit) => json!(commit),
        None => version.metadata["commit"].clone(),
    };
    Ok(json!({
        "version": since,
        "date": version.created.to_string(),
        "commit": commit,
        "commit_summary": version.metadata["commit_summary"],
        "commit_author": version.metadata["commit_author"],
        "commit_changed": version.metadata["commit_changed"],
    }))
}

/// Whether one resource may be why another is not deployed; a resource that waits for a value waits for who gives it.
fn is_cause(reason: &Reason, of: &Reason) -> bool {
    match reason {
        Reason::Undefined => !matches!(of, Reason::Deployed),
        other => other.may_be_because_of(of),
    }
}

/// The line of a run that says most: the last error, else the last warning.
fn message_of(run: &Action) -> Value {
    let lines: Vec<&Value> = run.messages.as_array().into_iter().flatten().collect();
    let last = |levels: &[&str]| {
        let is_meant = |line: &&&Value| {
            let is_of_clock = !line["kwargs"][ERROR_OF_CLOCK].is_null();
            !is_of_clock && levels.iter().any(|level| line["level"] == *level)
        };
        lines
            .iter()
            .rev()
            .find(is_meant)
            .map(|line| line["msg"].clone())
    };
    last(&["CRITICAL", "ERROR"])
        .or_else(|| last(&["WARNING"]))
        .unwrap_or(Value::Null)
}

/// The last lines of a run's log, those for developers left out, as the API has log lines.
fn log_of(run: &Action) -> Vec<Value> {
    let lines = run.messages.as_array().into_iter().flatten();
    let lines = lines.filter(|line| line["level"] != "DEBUG" && line["level"] != "TRACE");
    let lines: Vec<Value> = lines
        .map(|line| {
            let at = line["timestamp_us"].as_i64().unwrap_or_default();
            json!({
                "level": line["level"],
                "msg": line["msg"],
                "traceback": line["kwargs"]["traceback"],
                "timestamp": crate::domain::Timestamp(at).to_string(),
            })
        })
        .collect();
    let first = lines.len().saturating_sub(LOG_LINES);
    lines.into_iter().skip(first).collect()
}

#[cfg(test)]
mod tests;
