//! Agents that are not on this machine: where each one is, which are connected, and what they bring.

use std::collections::BTreeSet;

use super::handle::{Inspected, RequestError};
use super::{InFlight, Reconciler};
use crate::deploy::ask::{Asker, REQUEST, discovered_input, resource_read};
use crate::domain::{
    ActionId, ActionKind, AgentName, AgentPlace, LogLevel, ResourceId, Timestamp, chain,
};
use crate::executor::bounds;
use crate::executor::external::{AgentMessage, Attached, Outgoing};
use crate::executor::link::{Message, TaskResult};
use crate::executor::protocol::LogLine;
use crate::executor::remote::{AgentHello, Carried, digest_of};
use crate::store::{self, ActionStart, Discovered, Reopened};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// What a connection of an agent needs to go on, when it was taken in.
#[derive(Debug)]
pub struct Admission {
    pub(crate) connection: u64,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
}

/// A call by which handlers write.
struct Write {
    method: &'static str,
    /// The argument that names the resource that it is about.
    subject: &'static str,
    /// The argument with several such calls.
    list: Option<&'static str>,
}

const WRITES: &[Write] = &[
    Write {
        method: "set_param",
        subject: "resource_id",
        list: None,
    },
    Write {
        method: "set_parameters",
        subject: "resource_id",
        list: Some("parameters"),
    },
    Write {
        method: "discovered_resource_create",
        subject: "discovery_resource_id",
        list: None,
    },
    Write {
        method: "discovered_resource_create_batch",
        subject: "discovery_resource_id",
        list: Some("discovered_resources"),
    },
];

/// Resources that one discovery resource of an agent on another machine may have found.
const MAX_FOUND: i64 = 10_000;
/// Bytes of what is known of them.
const MAX_FOUND_BYTES: i64 = 32 << 20;

impl Reconciler {
    /// Works out where agents are, as the model says it unless the settings say otherwise, and notes in the schedule and in the store which of them are out of reach.
    pub(super) async fn place_agents(&mut self) -> Result<(), store::Error> {
        let mut places = self.model_places.clone();
        places.extend(self.settings.agent_map());
        if places.is_empty() && !self.has_places {
            return Ok(());
        }
        self.has_places = !places.is_empty();
        let is_external = |place: &AgentPlace| *place == AgentPlace::External;
        let away: Vec<AgentName> = places
            .iter()
            .filter(|(name, place)| {
                is_external(place) && !self.executor.external.is_connected(name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        self.executor.set_places(places);
        let known: Vec<AgentName> = self
            .schedule
            .agents()
            .map(|(name, _)| name.clone())
            .collect();
        for name in known {
            let is_away = away.binary_search(&name).is_ok();
            self.schedule.set_away(&name, is_away);
        }
        let now = Timestamp::now();
        for agent in self.store.agent_list(self.environment).await? {
            let is_away = away.binary_search(&agent.name).is_ok();
            if is_away != agent.away_since().is_some() {
                let since = is_away.then_some(now);
                self.store
                    .agent_set_away(self.environment, &agent.name, since)
                    .await?;
            }
        }
        Ok(())
    }

    /// What is in memory, with the store brought up to it.
    pub(super) async fn inspect(&mut self) -> Result<Inspected, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        self.flush().await;
        Ok(Inspected {
            version: self.schedule.version(),
            states: self.schedule.states().cloned().collect(),
        })
    }

    /// As [`Self::place_agents`]; if the database does not answer, the next refresh tries again.
    async fn replace_agents(&mut self) {
        if let Err(error) = self.place_agents().await {
            tracing::error!(environment.id = %self.environment, error = chain(&error), "cannot note which agents are connected");
        }
    }

    /// Takes in an agent that has said hello.
    ///
    /// # Errors
    /// Why not, for whoever started it.
    pub(super) async fn attach(
        &mut self,
        hello: &AgentHello,
        commands: mpsc::UnboundedSender<Outgoing>,
    ) -> Result<Admission, String> {
        let strangers = hello
            .names
            .iter()
            .filter(|name| !self.executor.is_external(name));
        let strangers: Vec<AgentName> = strangers.cloned().collect();
        if !strangers.is_empty() {
            return Err(format!(
                "these agents run elsewhere: {}; the setting `agent_map` of the environment has to say `external:` for each",
                listed(&strangers)
            ));
        }
        let Attached {
            connection,
            lost,
            unknown,
        } = self.executor.external.attach(hello, commands)?;
        for result in lost {
            self.on_task_done(result).await;
        }
        for carried in unknown {
            self.take_up(connection, &carried).await;
        }
        self.replace_agents().await;
        tracing::info!(
            environment.id = %self.environment, n_carried = hello.carried.len(),
            "agents are connected: {}", listed(&hello.names)
        );
        Ok(Admission {
            connection,
            messages: self.executor.messages(),
        })
    }

    /// Takes up a run that this process did not start: a server before it did, or it has given the run up. It is of use if the
    /// resource shall still be the same and nothing else is done with it.
    async fn take_up(&mut self, connection: u64, carried: &Carried) {
        if !self.try_take_up(connection, carried).await {
            self.executor.external.discard(connection, carried.action);
        }
    }

    async fn try_take_up(&mut self, connection: u64, carried: &Carried) -> bool {
        let intent = self.schedule.intent(&carried.resource_id);
        let is_same = intent.is_some_and(|intent| {
            intent.agent == carried.agent && digest_of(&intent.attributes) == carried.intent
        });
        let speaks = self
            .executor
            .external
            .may_speak_of(connection, Some(carried.agent.as_str()));
        if !carried.is_deploy || !is_same || !speaks {
            return false;
        }
        let reopened = self
            .store
            .action_reopen(self.environment, carried.action, &carried.resource_id)
            .await;
        let reopened = match reopened {
            // It is written already; only the agent did not hear of it.
            Ok(Reopened::IsFinished) => return false,
            Ok(reopened) => reopened,
            Err(error) => {
                tracing::error!(error = chain(&error), "cannot take up the run of an agent");
                return false;
            }
        };
        let Some(run) = self.schedule.adopt(&carried.resource_id, carried.action) else {
            return false;
        };
        self.begin_round();
        let started = Timestamp::now();
        if reopened == Reopened::IsMissing {
            self.unwritten.starts.push(ActionStart {
                id: run.action,
                action: ActionKind::Deploy,
                version: run.version,
                resource_id: carried.resource_id.clone(),
                started,
            });
        }
        let limit = self.settings.deploy_timeout();
        self.executor.external.adopt(connection, carried, limit);
        self.in_flight.insert(run.action, InFlight { run, started });
        true
    }

    /// What a connection of an agent says.
    pub(super) async fn on_agent(&mut self, connection: u64, message: AgentMessage) {
        match message {
            AgentMessage::Done { number, done } => {
                let external = &mut self.executor.external;
                let Some(mut result) = external.on_done(connection, number, *done) else {
                    return;
                };
                self.keep_own_finds(connection, &mut result).await;
                let action = result.action;
                let is_deploy = self.in_flight.contains_key(&action);
                self.on_task_done(result).await;
                // Deployments are acknowledged when they are in the database.
                if !is_deploy {
                    self.executor.external.written([action].into_iter());
                }
            }
            AgentMessage::Ask {
                id,
                method,
                arguments,
                turn,
            } => {
                if !self.executor.external.asks(connection, id, turn) {
                    return;
                }
                let asker = Asker::Agent { connection, id };
                match self.refusal(connection, &method, &arguments).await {
                    None => self.on_api_call(asker, &method, &arguments, None).await,
                    Some(message) => {
                        self.on_answer(asker, (403, json!({ "message": message })))
                            .await;
                    }
                }
            }
            AgentMessage::Gone { why } => {
                self.executor.external.on_gone(connection);
                tracing::warn!(environment.id = %self.environment, "an agent is not connected any more: {why}");
                self.replace_agents().await;
            }
        }
    }

    /// Why a call of an agent on another machine is refused; `None`: it may make it. Whoever controls that machine speaks of the
    /// resources of its agents that there are, and of nothing else. Source: docs/reference/security.md § 1.
    async fn refusal(
        &self,
        connection: u64,
        method: &str,
        arguments: &Map<String, Value>,
    ) -> Option<String> {
        let external = &self.executor.external;
        let calls = single_calls(method, arguments);
        let is_own = |agent: String| external.may_speak_of(connection, Some(&agent));
        if !calls
            .iter()
            .all(|call| subject(method, call).is_none_or(is_own))
        {
            return Some("an agent on another machine speaks of its own resources only".to_owned());
        }
        // What only reads is not about what there is.
        let about = WRITES.iter().find(|write| write.method == method)?;
        for call in &calls {
            let id = call.get(about.subject).and_then(Value::as_str);
            let id = ResourceId::new(id.unwrap_or_default());
            if self.schedule.intent(&id).is_none() {
                return Some(bounds::reason(format!("there is no resource {id}")));
            }
            if call.get("recompile").and_then(Value::as_bool) == Some(true) {
                return Some("an agent on another machine starts no compiles".to_owned());
            }
        }
        if about.subject == "resource_id" {
            return None;
        }
        let found: Result<Vec<Discovered>, String> = calls
            .iter()
            .map(|call| discovered_input(&Value::Object((*call).clone())))
            .collect();
        // What is wrong with it says whoever takes it.
        let found = found.ok()?;
        match self.refusal_of_found(connection, &found).await {
            Ok(refusal) => refusal,
            Err(error) => {
                tracing::error!(environment.id = %self.environment, error = chain(&error), "cannot see what was found before");
                Some("the database failed".to_owned())
            }
        }
    }

    /// Takes from the result of a run what its handler may not say that it has found, and says so in its log.
    async fn keep_own_finds(&self, connection: u64, result: &mut TaskResult) {
        let outcome = &mut result.outcome;
        if outcome.discovered.is_empty() {
            return;
        }
        let found = outcome.discovered.iter().map(|one| Discovered {
            resource_id: ResourceId::new(one.resource_id.as_str()),
            values: Value::Null,
            discovery_resource_id: result.resource_id.clone(),
            discovered: result.finished,
        });
        let found: Vec<Discovered> = found.collect();
        let refusal = match self.refusal_of_found(connection, &found).await {
            Ok(None) => return,
            Ok(Some(refusal)) => refusal,
            Err(error) => chain(&error),
        };
        outcome.discovered.clear();
        outcome.logs.push(LogLine {
            level: LogLevel::Warning,
            msg: format!("what the run found was not taken: {refusal}"),
            kwargs: Map::new(),
            timestamp_us: result.finished.0,
        });
    }

    /// What others have found is theirs, and nobody finds without end.
    async fn refusal_of_found(
        &self,
        connection: u64,
        found: &[Discovered],
    ) -> Result<Option<String>, store::Error> {
        let finders = self.store.discovered_finders(self.environment, found);
        for finder in finders.await? {
            let agent = agent_of(finder.as_str()).unwrap_or_default();
            if !self.executor.external.may_speak_of(connection, Some(agent)) {
                return Ok(Some(format!(
                    "one of these resources was found by {finder}, which is no resource of this agent"
                )));
            }
        }
        let finders: BTreeSet<&ResourceId> =
            found.iter().map(|one| &one.discovery_resource_id).collect();
        for finder in finders {
            let share = self.store.discovered_share(self.environment, finder);
            let (n_known, n_bytes) = share.await?;
            if n_known > MAX_FOUND || n_bytes > MAX_FOUND_BYTES {
                return Ok(Some(format!(
                    "{finder} has found {n_known} resources, of {} MiB together; the limits are {MAX_FOUND} and {} MiB: delete \
                     those that are not needed",
                    n_bytes >> 20,
                    MAX_FOUND_BYTES >> 20
                )));
            }
        }
        Ok(None)
    }

    /// Gives up runs of agents whose results did not come in time.
    pub(super) async fn give_up_overdue(&mut self) {
        for result in self.executor.external.overdue() {
            self.on_task_done(result).await;
        }
    }

    /// These runs are in the database.
    pub(super) fn acknowledge(&mut self, actions: impl Iterator<Item = ActionId>) {
        self.executor.external.written(actions);
    }
}

/// The parts of a call that are about one resource each: the call itself, or the members of its list.
fn single_calls<'a>(
    method: &str,
    arguments: &'a Map<String, Value>,
) -> Vec<&'a Map<String, Value>> {
    let list = WRITES.iter().find(|write| write.method == method);
    match list.and_then(|write| write.list) {
        Some(list) => {
            let calls = arguments.get(list).and_then(Value::as_array);
            let calls = calls.into_iter().flatten();
            calls.filter_map(Value::as_object).collect()
        }
        None => vec![arguments],
    }
}

/// The agent of the resource that a call, or a part of it, is about; `` if it is about something else, which is nobody's.
/// `None`: it may be about anything.
fn subject(method: &str, call: &Map<String, Value>) -> Option<String> {
    let of = |field: &str| {
        let id = call.get(field).and_then(Value::as_str);
        id.and_then(agent_of).unwrap_or_default().to_owned()
    };
    match method {
        // A request to the API has to read one resource.
        REQUEST => {
            let read = resource_read(call).unwrap_or_default();
            Some(agent_of(&read).unwrap_or_default().to_owned())
        }
        // Without a resource, it reads a parameter.
        "get_param" => {
            let id = call.get("resource_id");
            let is_of_resource = id.is_some_and(|id| !id.is_null() && id != "");
            is_of_resource.then(|| of("resource_id"))
        }
        "get_facts" => Some(of("rid")),
        "list_params" => Some(String::new()),
        _ => {
            let mut writes = WRITES.iter();
            let write = writes.find(|write| write.method == method)?;
            Some(of(write.subject))
        }
    }
}

/// Of a resource's id: what is between `[` and the first comma.
fn agent_of(resource_id: &str) -> Option<&str> {
    let (_, rest) = resource_id.split_once('[')?;
    rest.split_once(',').map(|(agent, _)| agent)
}

/// The first few names.
fn listed(names: &[AgentName]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<&str> = names.iter().take(SHOWN).map(AgentName::as_str).collect();
    let more = format!("and {} more", names.len().saturating_sub(SHOWN));
    if names.len() > SHOWN {
        text.push(&more);
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(method: &str, call: Value) -> Vec<Option<String>> {
        let Value::Object(call) = call else {
            panic!("it is an object");
        };
        let calls = single_calls(method, &call);
        calls.iter().map(|call| subject(method, call)).collect()
    }

    #[test]
    fn a_call_names_all_agents_that_it_is_about() {
        let own = |agent: &str| Some(agent.to_owned());
        let call = json!({"parameters": [
            {"id": "a", "resource_id": "m::R[one,name=x]"},
            {"id": "b", "resource_id": "m::R[two,name=x]"},
            {"id": "c", "resource_id": "no resource"},
            {"id": "d"},
            {"id": "e", "resource_id": null},
            {"id": "f", "resource_id": 3},
        ]});
        let nobody = || own("");
        let all = [
            own("one"),
            own("two"),
            nobody(),
            nobody(),
            nobody(),
            nobody(),
        ];
        assert_eq!(subjects("set_parameters", call), all);
        let id = "m::R[one,name=x]";
        for (method, call, agent) in [
            ("set_param", json!({"id": "a"}), nobody()),
            (
                "set_param",
                json!({"id": "a", "resource_id": id}),
                own("one"),
            ),
            (
                "discovered_resource_create",
                json!({"discovery_resource_id": id}),
                own("one"),
            ),
            (
                "discovered_resource_create",
                json!({"resource_id": id}),
                nobody(),
            ),
            ("get_param", json!({"id": "a"}), None),
            ("get_param", json!({"id": "a", "resource_id": 3}), nobody()),
            (
                "get_param",
                json!({"id": "a", "resource_id": id}),
                own("one"),
            ),
            ("get_facts", json!({"rid": id}), own("one")),
            ("get_facts", json!({}), nobody()),
            ("list_params", json!({"query": {}}), nobody()),
        ] {
            assert_eq!(subjects(method, call.clone()), [agent], "{method} {call}");
        }
    }

    #[test]
    fn a_request_to_the_api_is_about_the_resource_that_it_reads() {
        let agent = |verb: &str, path: &str| {
            let call = Map::from_iter([
                ("verb".to_owned(), json!(verb)),
                ("path".to_owned(), json!(path)),
            ]);
            subject(REQUEST, &call).unwrap_or_default()
        };
        let own = "/api/v2/resource/m%3A%3AR%5Bone%2Cname%3Dx%5D%2Cv%3D1/events?a=b";
        assert_eq!(agent("GET", own), "one");
        // What writes, and what is about something else, is about nobody's resource, whatever its path names.
        for (verb, path) in [
            ("PUT", own),
            ("GET", "/api/v1/environment_settings/x"),
            ("GET", "/api/v1/parameter/[one,name=x]"),
            ("GET", "/api/v2/resource/x/[one,name=x]"),
            ("GET", "/api/v2/resource?filter=[one,name=x]"),
        ] {
            assert_eq!(agent(verb, path), "", "{verb} {path}");
        }
    }
}
