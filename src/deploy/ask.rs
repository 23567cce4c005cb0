//! What handlers ask of the server: they have no address and no token of it, their calls of the API come the way that
//! their results do. Source: docs/reference/python.md § 2.8, docs/reference/rest.md § 1.7.

use serde_json::{Map, Value, json};

use super::engine::Reconciler;
use crate::domain::{EnvironmentId, ParameterId, ResourceId, Timestamp, chain};
use crate::executor::bounds::{self, MAX_DISCOVERED, MAX_FACTS};
use crate::store::{self, Discovered, Fact};

/// The largest answer to a handler, in bytes of JSON.
const ANSWER_BYTES: usize = 16 << 20;

/// A fact or a parameter as the API shows it.
pub fn fact_json(environment: EnvironmentId, fact: &Fact) -> Value {
    json!({
        "id": ParameterId::named(environment, &fact.resource_id, &fact.name),
        "name": fact.name,
        "value": fact.value,
        "environment": environment,
        "source": fact.source,
        "updated": fact.updated.to_string(),
        "metadata": fact.metadata,
        "resource_id": fact.resource_id,
        "expires": fact.expires,
    })
}

/// What somebody says to have found; the error is why it is nothing of the kind.
pub fn discovered_input(value: &Value) -> Result<Discovered, String> {
    let id = |name: &str| {
        let text = value[name].as_str().unwrap_or_default();
        let is_id = ResourceId::parse(text).is_some();
        is_id.then(|| text.to_owned()).ok_or_else(|| {
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
            "list_params" => self.list_params().await,
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
        let (name, resource_id) = (text(arguments, "id"), text(arguments, "resource_id"));
        let found = self
            .store
            .fact_fetch(self.environment, &resource_id, &name)
            .await?;
        let now = Timestamp::now();
        let expire = self.facts.times.expire;
        let is_known = |fact: &Fact| !fact.expires || now.since(fact.updated) < expire;
        if let Some(fact) = found.filter(is_known) {
            let parameter = fact_json(self.environment, &fact);
            return Ok((200, json!({"parameter": parameter})));
        }
        if resource_id.is_empty() {
            let message =
                format!("Request or referenced resource does not exist: parameter {name}");
            return Ok((404, json!({"message": message})));
        }
        self.ask_for_facts(&resource_id).await;
        let message = "Agents queried for resource parameter.";
        Ok((503, json!({"message": message})))
    }

    async fn get_facts(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<(u16, Value), store::Error> {
        let resource_id = text(arguments, "rid");
        let facts = self.store.fact_list_of(self.environment, &resource_id);
        Ok((200, json!({"data": self.shown(&facts.await?)})))
    }

    async fn list_params(&self) -> Result<(u16, Value), store::Error> {
        let facts = self.store.fact_list(self.environment).await?;
        let body = json!({
            "parameters": self.shown(&facts),
            "expire": self.facts.times.expire.as_secs(),
            "now": Timestamp::now().to_string(),
        });
        Ok((200, body))
    }

    fn shown(&self, facts: &[Fact]) -> Vec<Value> {
        let facts = facts.iter();
        facts
            .map(|fact| fact_json(self.environment, fact))
            .collect()
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
            let resource_id = text(parameter, "resource_id");
            let flag = parameter.get("expires").and_then(Value::as_bool);
            let fact = Fact {
                expires: flag.unwrap_or(!resource_id.is_empty()),
                name: text(parameter, "id"),
                value: text(parameter, "value"),
                source: text(parameter, "source"),
                metadata: match parameter.get("metadata") {
                    Some(metadata) if metadata.is_object() => metadata.clone(),
                    _ => json!({}),
                },
                updated: Timestamp::now(),
                resource_id,
            };
            if fact.expires && fact.resource_id.is_empty() {
                return Ok((400, json!({"message": "Cannot set expiry for parameters."})));
            }
            let checked = bounds::check_fact(&fact.name, &fact.value);
            let checked = checked.and_then(|()| bounds::check_metadata(&fact.metadata));
            if let Err(message) = checked {
                return Ok((400, json!({"message": message})));
            }
            self.store.fact_set(self.environment, &fact).await?;
            last = fact_json(self.environment, &fact);
            self.recompile_for(&[(fact.resource_id, fact.name)]).await;
        }
        Ok((200, json!({"parameter": last})))
    }
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
