//! Facts of resources, and parameters, which are facts of no resource: one set of rules for the API, for what handlers ask and
//! set over their executor, and for what a compile gets. Source: docs/reference/deployment.md § 5.7.
//!
//! Who sets one fills a [`FactInput`], whose rules are in `input`; who reads one asks [`look_up`], [`list`] or [`known`], which
//! agree on when a fact is too old. A fact that the version in force waits for queues a compile ([`queue_compile`]).

mod input;

use std::time::Duration;

use serde_json::{Value, json};

use crate::domain::{EnvironmentId, ParameterId, ResourceId, Timestamp};
use crate::store::{self, CompileRequest, Fact, Store};

pub use input::FactInput;

/// Why a fact or a parameter was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// An argument is wrong.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// A fact that was set.
#[derive(Debug)]
pub struct SetFact {
    pub fact: Fact,
    /// It was not there, or had another value.
    is_new: bool,
    /// Whoever set it wants a compile if it is new.
    recompile: bool,
}

impl SetFact {
    /// Whether a compile is to follow. `is_waited_for`: the version in force could not know it.
    pub fn needs_compile(&self, is_waited_for: bool) -> bool {
        is_waited_for || (self.is_new && self.recompile)
    }
}

/// Checks a fact or a parameter and writes it.
///
/// # Errors
/// It breaks a rule, or the store does not answer.
pub async fn set(
    store: &Store,
    environment: EnvironmentId,
    input: FactInput,
) -> Result<SetFact, SetError> {
    let mut set = set_all(store, environment, vec![input]).await?;
    set.pop()
        .ok_or_else(|| SetError::Refused("there is nothing to set".to_owned()))
}

/// Checks facts and parameters and writes all of them, or none.
///
/// # Errors
/// One breaks a rule, or the store does not answer.
pub async fn set_all(
    store: &Store,
    environment: EnvironmentId,
    mut inputs: Vec<FactInput>,
) -> Result<Vec<SetFact>, SetError> {
    for input in &mut inputs {
        keep_expiry(store, environment, input).await?;
    }
    let now = Timestamp::now();
    let recompile: Vec<bool> = inputs.iter().map(|input| input.recompile).collect();
    let facts = inputs.into_iter().map(|input| input.check(now));
    let facts: Result<Vec<Fact>, String> = facts.collect();
    let facts = facts.map_err(SetError::Refused)?;
    let changed = store.facts_set(environment, &facts).await?;
    let all = facts.into_iter().zip(changed).zip(recompile);
    let set = |((fact, is_new), recompile)| SetFact {
        fact,
        is_new,
        recompile,
    };
    Ok(all.map(set).collect())
}

/// A fact that is there already goes on to expire, or not to, unless whoever sets it anew says which.
async fn keep_expiry(
    store: &Store,
    environment: EnvironmentId,
    input: &mut FactInput,
) -> store::Result<()> {
    if input.expires.is_none() && input.resource_id.is_some() {
        let id = input.resource_id.as_ref();
        let known = store.fact_fetch(environment, id, &input.name).await?;
        input.expires = known.map(|known| known.expires);
    }
    Ok(())
}

/// What is known when somebody asks for one.
#[derive(Debug)]
pub enum Known {
    Yes(Fact),
    /// It is missing or too old: the handler of this resource may report it.
    ByHandler(ResourceId),
    /// A parameter that nobody has set.
    No,
}

/// Finds a fact of a resource, or a parameter for `None`.
///
/// # Errors
/// The store does not answer.
pub async fn look_up(
    store: &Store,
    environment: EnvironmentId,
    resource_id: Option<ResourceId>,
    name: &str,
    expire: Duration,
) -> store::Result<Known> {
    let found = store.fact_fetch(environment, resource_id.as_ref(), name);
    let now = Timestamp::now();
    let is_good = |fact: &Fact| is_known(fact.expires, fact.updated, now, expire);
    Ok(match found.await?.filter(is_good) {
        Some(fact) => Known::Yes(fact),
        None => resource_id.map_or(Known::No, Known::ByHandler),
    })
}

/// A fact that may expire and is older than `expire` is not known any more.
pub fn is_known(expires: bool, updated: Timestamp, now: Timestamp, expire: Duration) -> bool {
    !expires || now.since(updated) < expire
}

/// All parameters, and the facts that are not too old: what a compile gets.
///
/// # Errors
/// The store does not answer.
pub async fn known(
    store: &Store,
    environment: EnvironmentId,
    expire: Duration,
) -> store::Result<Vec<Fact>> {
    let now = Timestamp::now();
    let mut facts = store.fact_list(environment).await?;
    facts.retain(|fact| is_known(fact.expires, fact.updated, now, expire));
    Ok(facts)
}

/// Facts and parameters as a compile gets them.
pub fn inputs(known: Vec<Fact>) -> steward_compiler::Inputs {
    let mut inputs = steward_compiler::Inputs::default();
    let facts = inputs.facts.get_or_insert_default();
    for fact in known {
        let of = match fact.resource_id {
            None => &mut inputs.parameters,
            Some(id) => facts.entry(id.into_string()).or_default(),
        };
        of.insert(fact.name, fact.value.into());
    }
    inputs
}

/// Facts and parameters, old ones too, whose metadata have all entries of `query`; as `list_params` answers.
///
/// # Errors
/// `query` is no object, or the store does not answer.
pub async fn list(
    store: &Store,
    environment: EnvironmentId,
    query: Option<&Value>,
    expire: Duration,
) -> Result<Value, SetError> {
    let nothing = serde_json::Map::new();
    let query = match query {
        None | Some(Value::Null) => &nothing,
        Some(Value::Object(query)) => query,
        Some(_) => {
            let message = "Field 'query' must be an object";
            return Err(SetError::Refused(message.to_owned()));
        }
    };
    let is_meant = |fact: &&Fact| {
        query
            .iter()
            .all(|(key, value)| fact.metadata[key] == *value)
    };
    let mut facts = store.fact_list(environment).await?;
    facts.sort_by(|a, b| (&a.name, &a.resource_id).cmp(&(&b.name, &b.resource_id)));
    let shown = facts.iter().filter(is_meant);
    let shown: Vec<Value> = shown.map(|fact| fact_json(environment, fact)).collect();
    Ok(json!({
        "parameters": shown,
        "expire": expire.as_secs(),
        "now": Timestamp::now().to_string(),
    }))
}

/// A fact or a parameter as the API shows it.
pub fn fact_json(environment: EnvironmentId, fact: &Fact) -> Value {
    let resource_id = fact.resource_id.as_ref().map_or("", ResourceId::as_str);
    json!({
        "id": ParameterId::named(environment, resource_id, &fact.name),
        "name": fact.name,
        "value": fact.value,
        "environment": environment,
        "source": fact.source,
        "updated": fact.updated.to_string(),
        "metadata": fact.metadata,
        "resource_id": resource_id,
        "expires": fact.expires,
    })
}

/// A parameter as version 2 of the API shows it: without what only facts have.
pub fn parameter_json(environment: EnvironmentId, parameter: &Fact) -> Value {
    let mut shape = fact_json(environment, parameter);
    if let Some(shape) = shape.as_object_mut() {
        shape.remove("resource_id");
        shape.remove("expires");
    }
    shape
}

/// Why a compile follows when somebody sets or deletes a fact or a parameter.
pub fn message_of(name: &str) -> String {
    format!("Recompile model because the parameter or fact {name} was updated")
}

/// Queues a compile because of facts, as the setting `server_compile` allows. `message`: why, for its label. The caller wakes
/// the environment.
///
/// # Errors
/// The store does not answer.
pub async fn queue_compile(
    store: &Store,
    environment: EnvironmentId,
    message: &str,
) -> store::Result<()> {
    let Some(record) = store.environment_fetch(environment).await? else {
        return Ok(());
    };
    if !store.settings_fetch(environment).await?.server_compile() {
        return Ok(());
    }
    let request = CompileRequest {
        environment_id: environment,
        do_export: true,
        update: false,
        metadata: json!({"type": "param", "message": message}),
        variables: record.variables,
    };
    store.compile_request(&request).await.map(|_| ())
}
