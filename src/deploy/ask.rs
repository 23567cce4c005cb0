//! What handlers ask of the server: they have no address and no token of it, their calls of the API come the way that
//! their results do. Source: docs/reference/python.md § 2.8, docs/reference/rest.md § 1.7.

use serde_json::{Map, Value, json};

use super::engine::Reconciler;
use crate::domain::{ResourceId, Timestamp, chain};
use crate::executor::bounds::{self, MAX_DISCOVERED, MAX_FACTS};
use crate::facts::{self, FactInput, Known, SetError};
use crate::store::{self, Discovered};

/// The largest answer to a handler, in bytes of JSON.
const ANSWER_BYTES: usize = 16 << 20;

/// A discovered resource that a client reports; the error is why it is none.
pub fn discovered_input(value: &Value) -> Result<Discovered, String> {
    let id = |name: &str| {
        let text = value[name].as_str().unwrap_or_default();
        // As it was sent: an id with a version behind it names something else.
        let is_id = ResourceId::parse(text).is_some();
        is_id.then(|| ResourceId::new(text)).ok_or_else(|| {
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
    /// HTTP status and body, as the API would answer.
    pub(super) async fn handle_api_call(
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
        let answer = answer.unwrap_or_else(|error| {
            tracing::error!(error = chain(&error), "cannot answer a handler");
            (500, json!({"message": "the database failed"}))
        });
        match bounds::json_bytes(&answer.1) {
            0..=ANSWER_BYTES => answer,
            n_bytes => {
                let message = format!(
                    "the answer to {method} takes {n_bytes} bytes, the limit is {ANSWER_BYTES}; ask for less"
                );
                (413, json!({ "message": message }))
            }
        }
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
        let mut last = Value::Null;
        for parameter in parameters {
            let Some(parameter) = parameter.as_object() else {
                return Ok((400, json!({"message": "a parameter is an object"})));
            };
            let input = match FactInput::from_call(parameter) {
                Ok(input) => input,
                Err(message) => return Ok((400, json!({ "message": message }))),
            };
            let set = match facts::set(&self.store, self.environment, input).await {
                Ok(set) => set,
                Err(error) => return refusal(error),
            };
            last = facts::fact_json(self.environment, &set.fact);
            self.on_fact_set(&set).await;
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
