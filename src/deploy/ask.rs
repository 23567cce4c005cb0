//! What handlers ask of the server: they have no address and no token of it, their calls of the API come the way that
//! their results do. Source: docs/reference/python.md § 2.8, docs/reference/rest.md § 1.7.
//!
//! Those about facts, parameters and discovered resources are answered here, in the order in which they come; files are read
//! beside the loop. All others are requests to the API ([`ApiRequest`]), which answers them beside the loop: it may need the
//! loop for its answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::engine::Reconciler;
use crate::domain::{EnvironmentId, ResourceId, Timestamp, chain};
use crate::executor::bounds::{self, MAX_DISCOVERED, MAX_FACTS};
use crate::executor::link::{EXECUTOR_HERE, executor_of};
use crate::executor::replies::Held;
use crate::facts::{self, FactInput, Known, SetError};
use crate::files::{self, Files};
use crate::store::{self, Discovered};

/// The largest answer to a handler, in bytes of JSON.
const ANSWER_BYTES: usize = 16 << 20;

/// The method of a call that is a request to the API. An executor has no method of the API by this name.
pub(super) const REQUEST: &str = "request";

/// Calls about files of the file store that an executor does not have.
const GET_FILE: &str = "get_file";
const STAT_FILE: &str = "stat_file";

/// Requests of the handlers of an environment that may wait for their answers: each agent has one, and so many at once come from
/// a machine that misbehaves.
const MAX_REQUESTS: usize = 1024;

/// The longest path of a request, with its query.
const MAX_PATH_BYTES: usize = 64 << 10;

/// A request of a handler to the API, as it would come over HTTP.
#[derive(Debug)]
pub struct ApiRequest {
    /// Of the handler: the request may be about this one.
    pub environment: EnvironmentId,
    /// The handler runs on this machine, in a process of ours. Elsewhere, whoever controls the machine may have sent it.
    pub is_from_here: bool,
    /// HTTP method.
    pub verb: String,
    /// With its query.
    pub path: String,
    /// The environment that it says to be about.
    pub named: Option<String>,
    /// Arguments of the body.
    pub body: Map<String, Value>,
    /// For HTTP status and body.
    pub reply: oneshot::Sender<(u16, Value)>,
}

/// To whoever answers the requests of handlers.
pub type ApiRequests = mpsc::UnboundedSender<ApiRequest>;

/// Who waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asker {
    /// A handler in an executor of ours.
    Executor { generation: u64, id: u64 },
    /// A handler of an agent on another machine.
    Agent { connection: u64, id: u64 },
}

impl Asker {
    fn is_here(self) -> bool {
        match self {
            Self::Executor { generation, .. } => executor_of(generation) == EXECUTOR_HERE,
            Self::Agent { .. } => false,
        }
    }
}

/// The requests to the API that are not answered yet.
#[derive(Debug)]
pub(super) struct Requests {
    api: ApiRequests,
    working: JoinSet<(Asker, (u16, Value))>,
}

impl Requests {
    pub(super) fn new(api: ApiRequests) -> Self {
        Self {
            api,
            working: JoinSet::new(),
        }
    }

    /// The next answer; waits for ever, if nobody has asked. Dropping this loses nothing.
    pub(super) async fn next(&mut self) -> Option<(Asker, (u16, Value))> {
        match self.working.join_next().await {
            Some(Ok(answered)) => Some(answered),
            Some(Err(error)) => {
                tracing::error!(%error, "a request of a handler was cut off");
                None
            }
            None => std::future::pending().await,
        }
    }

    fn refusal_if_full(&self) -> Option<(u16, Value)> {
        let message = "too many requests of handlers are worked on; send it again";
        (self.working.len() >= MAX_REQUESTS).then(|| (503, json!({ "message": message })))
    }

    /// Hands a request on; `held` is its part of the room for what executors say. An answer that is known at once is given back.
    fn begin(
        &mut self,
        asker: Asker,
        environment: EnvironmentId,
        arguments: &Map<String, Value>,
        held: Held,
    ) -> Option<(u16, Value)> {
        if let Some(refusal) = self.refusal_if_full() {
            return Some(refusal);
        }
        let (verb, path) = (text(arguments, "verb"), text(arguments, "path"));
        if path.len() > MAX_PATH_BYTES {
            let message = format!("the path is longer than {MAX_PATH_BYTES} bytes");
            return Some((414, json!({ "message": message })));
        }
        let (reply, answer) = oneshot::channel();
        let named = text(arguments, "environment");
        let request = ApiRequest {
            environment,
            is_from_here: asker.is_here(),
            body: match arguments.get("body") {
                Some(Value::Object(body)) if !is_read(&verb) => body.clone(),
                _ => Map::new(),
            },
            verb,
            path,
            named: (!named.is_empty()).then_some(named),
            reply,
        };
        // If nobody is there to answer, the request is dropped, and with it the end that would say so.
        let _ = self.api.send(request);
        self.working.spawn(async move {
            let nobody = || (503, json!({"message": "the server is stopping"}));
            let answer = answer.await.unwrap_or_else(|_| nobody());
            drop(held);
            (asker, answer)
        });
        None
    }

    /// Reads a file beside the loop. An answer that is known at once is given back.
    fn begin_file(
        &mut self,
        asker: Asker,
        files: Option<Files>,
        name: String,
        has_content: bool,
    ) -> Option<(u16, Value)> {
        if let Some(refusal) = self.refusal_if_full() {
            return Some(refusal);
        }
        self.working
            .spawn_blocking(move || (asker, file_answer(files, &name, has_content)));
        None
    }
}

/// The answer about a file; `None`: whoever asks has none.
fn file_answer(files: Option<Files>, name: &str, has_content: bool) -> (u16, Value) {
    let unknown = || (404, json!({"message": format!("there is no file {name}")}));
    let Some(files) = files else {
        return unknown();
    };
    if !has_content {
        return match files.has(name) {
            true => (200, Value::Null),
            false => unknown(),
        };
    }
    files.get(name).map_or_else(unknown, |content| {
        (200, json!({"content": STANDARD.encode(content)}))
    })
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "GET" | "HEAD")
}

/// The resource that a request reads, if it is one of those about one resource.
pub(super) fn resource_read(arguments: &Map<String, Value>) -> Option<String> {
    if !is_read(&text(arguments, "verb")) {
        return None;
    }
    let path = text(arguments, "path");
    let of_resource = ["/api/v1/resource/", "/api/v2/resource/"];
    let mut rest = of_resource
        .iter()
        .filter_map(|start| path.strip_prefix(start));
    let id = rest.next()?.split(['/', '?']).next()?;
    let id = percent_encoding::percent_decode_str(id)
        .decode_utf8()
        .ok()?;
    Some(id.into_owned())
}

/// A discovered resource that a client reports; the error is why it is none.
pub fn discovered_input(value: &Value) -> Result<Discovered, String> {
    let id = |name: &str| {
        let text = value[name].as_str().unwrap_or_default();
        // A version behind it is not part of it.
        ResourceId::parse(text).ok_or_else(|| {
            format!(
                "Field '{name}' has to be the id of a resource, got {}",
                value[name]
            )
        })
    };
    if !value["values"].is_object() {
        return Err(format!(
            "Field 'values' has to be an object, got {}",
            value["values"]
        ));
    }
    bounds::check_found(
        value["discovered_resource_id"].as_str().unwrap_or_default(),
        &value["values"],
    )?;
    Ok(Discovered {
        resource_id: id("discovered_resource_id")?,
        discovery_resource_id: id("discovery_resource_id")?,
        values: value["values"].clone(),
        discovered: Timestamp::now(),
    })
}

impl Reconciler {
    /// Answers a call of the API, or sees to it that it will be answered.
    pub(super) async fn on_api_call(
        &mut self,
        asker: Asker,
        method: &str,
        arguments: &Map<String, Value>,
        held: Held,
    ) {
        // It is to see what was done before it.
        self.flush().await;
        let answer = match method {
            REQUEST => self
                .requests
                .begin(asker, self.environment, arguments, held),
            GET_FILE | STAT_FILE => {
                let name = text(arguments, "id");
                let files = self.executor.files();
                let files = files.filter(|_| self.may_have(asker, &name));
                self.requests
                    .begin_file(asker, files, name, method == GET_FILE)
            }
            _ => Some(self.handle_api_call(method, arguments).await),
        };
        if let Some(answer) = answer {
            self.on_answer(asker, answer).await;
        }
    }

    /// Whether an executor may have a content of the file store: on another machine, one that a resource names which it runs
    /// just now.
    fn may_have(&self, asker: Asker, name: &str) -> bool {
        let running = match asker {
            _ if asker.is_here() => return true,
            Asker::Executor { generation, .. } => self.executor.running(generation),
            Asker::Agent { connection, .. } => self.executor.external.running(connection),
        };
        let intents = running.iter().filter_map(|id| self.schedule.intent(id));
        let mut attributes = intents.map(|intent| &intent.attributes);
        files::is_name(name) && attributes.any(|attributes| attributes.contains(name))
    }

    /// Gives a handler its answer.
    pub(super) async fn on_answer(&mut self, asker: Asker, (code, body): (u16, Value)) {
        let answer = match bounds::json_bytes(&body) {
            0..=ANSWER_BYTES => (code, body),
            n_bytes => {
                let message = format!(
                    "the answer takes {n_bytes} bytes, the limit is {ANSWER_BYTES}; ask for less"
                );
                (413, json!({ "message": message }))
            }
        };
        match asker {
            Asker::Executor { generation, id } => {
                self.executor.answer(generation, id, answer).await;
            }
            Asker::Agent { connection, id } => {
                self.executor.external.answer(connection, id, answer);
            }
        }
    }

    /// HTTP status and body, as the API would answer.
    async fn handle_api_call(
        &mut self,
        method: &str,
        arguments: &Map<String, Value>,
    ) -> (u16, Value) {
        let answer = match method {
            "get_param" => self.get_param(arguments).await,
            "get_facts" => self.get_facts(arguments).await,
            "list_params" => self.list_params(arguments).await,
            "set_param" => self.set_params(&[Value::Object(arguments.clone())]).await,
            "set_parameters" => match arguments.get("parameters").and_then(Value::as_array) {
                Some(parameters) => self.set_params(parameters).await,
                None => Ok((400, json!({"message": "Field 'parameters' is required"}))),
            },
            "discovered_resource_create" => {
                self.set_discovered(&[Value::Object(arguments.clone())])
                    .await
            }
            "discovered_resource_create_batch" => {
                let found = arguments.get("discovered_resources");
                let found = found.and_then(Value::as_array).map(Vec::as_slice);
                self.set_discovered(found.unwrap_or_default()).await
            }
            _ => Ok((
                404,
                json!({"message": format!("handlers cannot call {method}")}),
            )),
        };
        answer.unwrap_or_else(|error| {
            tracing::error!(error = chain(&error), "cannot answer a handler");
            (500, json!({"message": "the database failed"}))
        })
    }

    async fn get_param(
        &mut self,
        arguments: &Map<String, Value>,
    ) -> Result<(u16, Value), store::Error> {
        let (name, resource_id) = (text(arguments, "id"), resource_id(arguments, "resource_id"));
        let (store, expire) = (&self.store, self.facts.times.expire);
        let known = facts::look_up(store, self.environment, resource_id, &name, expire);
        Ok(match known.await? {
            Known::Yes(fact) => {
                let parameter = facts::fact_json(self.environment, &fact);
                (200, json!({"parameter": parameter}))
            }
            Known::ByHandler(resource_id) => {
                self.ask_for_facts(&resource_id);
                let message = "Agents queried for resource parameter.";
                (503, json!({"message": message}))
            }
            Known::No => {
                let message =
                    format!("Request or referenced resource does not exist: parameter {name}");
                (404, json!({"message": message}))
            }
        })
    }

    async fn get_facts(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<(u16, Value), store::Error> {
        let resource_id = resource_id(arguments, "rid");
        let found = self
            .store
            .fact_list_of(self.environment, resource_id.as_ref())
            .await?;
        let shown = found.iter();
        let shown: Vec<Value> = shown
            .map(|fact| facts::fact_json(self.environment, fact))
            .collect();
        Ok((200, json!({ "data": shown })))
    }

    async fn list_params(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<(u16, Value), store::Error> {
        let (query, expire) = (arguments.get("query"), self.facts.times.expire);
        match facts::list(&self.store, self.environment, query, expire).await {
            Ok(body) => Ok((200, body)),
            Err(error) => refusal(error),
        }
    }

    async fn set_discovered(&self, found: &[Value]) -> Result<(u16, Value), store::Error> {
        if found.len() > MAX_DISCOVERED {
            return Ok(too_many("discovered resources", MAX_DISCOVERED));
        }
        let found: Result<Vec<_>, String> = found.iter().map(discovered_input).collect();
        match found {
            Ok(found) => {
                self.store.discovered_set(self.environment, &found).await?;
                Ok((200, json!({})))
            }
            Err(message) => Ok((400, json!({"message": message}))),
        }
    }

    async fn set_params(&mut self, parameters: &[Value]) -> Result<(u16, Value), store::Error> {
        if parameters.len() > MAX_FACTS {
            return Ok(too_many("parameters", MAX_FACTS));
        }
        let input = |parameter: &Value| {
            let parameter = parameter.as_object();
            let parameter = parameter.ok_or_else(|| "a parameter is an object".to_owned())?;
            FactInput::from_call(parameter)
        };
        let inputs: Result<Vec<FactInput>, String> = parameters.iter().map(input).collect();
        let inputs = match inputs {
            Ok(inputs) => inputs,
            Err(message) => return Ok((400, json!({ "message": message }))),
        };
        let set = match facts::set_all(&self.store, self.environment, inputs).await {
            Ok(set) => set,
            Err(error) => return refusal(error),
        };
        let last = set
            .last()
            .map(|set| facts::fact_json(self.environment, &set.fact));
        for set in &set {
            self.on_fact_set(set).await;
        }
        Ok((200, json!({"parameter": last})))
    }
}

/// The answer to a call that breaks a rule; what is our fault stays an error.
fn refusal(error: SetError) -> Result<(u16, Value), store::Error> {
    match error {
        SetError::Refused(message) => Ok((400, json!({ "message": message }))),
        // There are too many already.
        SetError::Store(store::Error::Conflict(message)) => {
            Ok((409, json!({ "message": message })))
        }
        SetError::Store(error) => Err(error),
    }
}

/// `None`: it is empty, as for a parameter.
fn resource_id(arguments: &Map<String, Value>, name: &str) -> Option<ResourceId> {
    let text = text(arguments, name);
    (!text.is_empty()).then(|| ResourceId::new(text))
}

fn text(arguments: &Map<String, Value>, name: &str) -> String {
    match arguments.get(name) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

fn too_many(what: &str, limit: usize) -> (u16, Value) {
    let message = format!("too many {what} in one call; the limit is {limit}");
    (400, json!({ "message": message }))
}
