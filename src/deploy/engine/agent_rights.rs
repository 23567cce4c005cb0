//! What an agent on another machine may say: whoever controls that machine speaks of the resources of its agents that there are,
//! within limits, and of nothing else. Source: docs/reference/security.md § 1.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Reconciler;
use crate::deploy::ask::{REQUEST, discovered_input, resource_read};
use crate::domain::{LogLevel, ResourceId, chain};
use crate::executor::bounds;
use crate::executor::link::TaskResult;
use crate::executor::protocol::LogLine;
use crate::store::{self, Discovered};

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
/// Bytes of the facts of an environment up to which agents on other machines may add to them: half of what there may be.
const MAX_FACT_BYTES: i64 = 64 << 20;

impl Reconciler {
    /// Why a call of an agent on another machine is refused; `None`: it may make it. Whoever controls that machine speaks of the
    /// resources of its agents that there are, and of nothing else. Source: docs/reference/security.md § 1.
    pub(super) async fn refusal(
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
            return self.refusal_of_facts().await;
        }
        let found: Result<Vec<Discovered>, String> = calls
            .iter()
            .map(|call| discovered_input(&Value::Object((*call).clone())))
            .collect();
        // What is wrong with it says whoever takes it.
        let found = found.ok()?;
        self.refusal_of_found(connection, &found)
            .await
            .unwrap_or_else(|error| Some(self.without_database(&error)))
    }

    /// Takes from the result of a run what its handler may not say, and says so in its log.
    pub(super) async fn keep_what_it_may_say(&self, connection: u64, result: &mut TaskResult) {
        if !result.outcome.facts.is_empty()
            && let Some(refusal) = self.refusal_of_facts().await
        {
            result.outcome.facts.clear();
            warn(result, format!("facts were not taken: {refusal}"));
        }
        if !result.outcome.discovered.is_empty()
            && let Some(refusal) = self.refusal_of_result(connection, result).await
        {
            result.outcome.discovered.clear();
            let message = format!("what the run found was not taken: {refusal}");
            warn(result, message);
        }
    }

    /// Agents elsewhere leave room for the facts of those here: a compile gets all of them.
    async fn refusal_of_facts(&self) -> Option<String> {
        let bytes = self.store.fact_bytes(self.environment, MAX_FACT_BYTES);
        match bytes.await {
            Ok(bytes) if bytes > MAX_FACT_BYTES => Some(format!(
                "the resources of the environment have facts of {} MiB, and agents on other machines add none beyond {} MiB: \
                 delete some that are not needed",
                bytes >> 20,
                MAX_FACT_BYTES >> 20
            )),
            Ok(_) => None,
            Err(error) => Some(self.without_database(&error)),
        }
    }

    async fn refusal_of_result(&self, connection: u64, result: &TaskResult) -> Option<String> {
        let found = result.outcome.discovered.iter().map(|one| Discovered {
            resource_id: ResourceId::new(one.resource_id.as_str()),
            values: Value::Null,
            discovery_resource_id: result.resource_id.clone(),
            discovered: result.finished,
        });
        let found: Vec<Discovered> = found.collect();
        self.refusal_of_found(connection, &found)
            .await
            .unwrap_or_else(|error| Some(self.without_database(&error)))
    }

    fn without_database(&self, error: &store::Error) -> String {
        tracing::error!(environment.id = %self.environment, error = chain(error), "cannot see what an agent elsewhere said before");
        "the database failed".to_owned()
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
}

/// Adds a warning to the log of a run.
fn warn(result: &mut TaskResult, msg: String) {
    result.outcome.logs.push(LogLine {
        level: LogLevel::Warning,
        msg,
        kwargs: Map::new(),
        timestamp_us: result.finished.0,
    });
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
