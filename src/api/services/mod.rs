//! Services over HTTP: the catalog, the inventory, orders and callbacks. Source: docs/reference/lsm.md § 5.

pub(in crate::api) mod callbacks;
pub(in crate::api) mod catalog;
pub(in crate::api) mod diagnosis;
pub(in crate::api) mod documents;
pub(in crate::api) mod experts;
pub(in crate::api) mod history;
pub(in crate::api) mod inventory;
mod keyset;
pub(in crate::api) mod modify;
pub(in crate::api) mod orders;
mod record;

use std::collections::BTreeMap;

use serde_json::Value;
use steward_lsm::{Attributes, Instance};
use uuid::Uuid;

use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::app::App;
use crate::domain::{EnvironmentId, shown_environment};

fn no_instance(id: &str) -> ApiError {
    ApiError::not_found(format!("service instance {id}"))
}

/// The instance that a path names, by its id or, as `identity=value`, by its service identity.
async fn find(
    app: &App,
    environment: EnvironmentId,
    entity: &str,
    id: &Segment,
) -> Result<Instance, ApiError> {
    let store = &app.store;
    let found = match (id.0.parse::<Uuid>(), id.0.split_once('=')) {
        (Ok(id), _) => store.service_fetch(environment, id).await?,
        (Err(_), Some((attribute, value))) => {
            let catalog = store.service_catalog(environment).await?;
            let definition = catalog.definition(entity, None);
            let identity = definition.and_then(|of| of.entity.service_identity.as_deref());
            if identity != Some(attribute) {
                let message = format!("`{attribute}` is not the service identity of {entity}");
                return Err(ApiError::bad_request(message));
            }
            let found = store.service_fetch_by_identity(environment, entity, value);
            found.await?
        }
        (Err(_), None) => None,
    };
    let found = found.filter(|instance| instance.service_entity == entity);
    found.ok_or_else(|| no_instance(&id.0))
}

/// Refuses a version that is not the instance's.
fn assert_version(args: &Args, instance: &Instance) -> Result<(), ApiError> {
    match args.parsed::<u64>("current_version")? {
        Some(version) if version != instance.version => Err(ApiError::conflict(format!(
            "the instance {} of {} has version {}, not {version}, in the environment {}",
            instance.id,
            instance.service_entity,
            instance.version,
            shown_environment(instance.environment.into())
        ))),
        _ => Ok(()),
    }
}

/// The id of an instance in a path.
fn instance_id(id: &Segment) -> Result<Uuid, ApiError> {
    id.0.parse().map_err(|_| no_instance(&id.0))
}

/// An argument that is an object.
fn object(args: &Args, name: &str) -> Result<Option<Attributes>, ApiError> {
    match args.value(name) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object.clone())),
        Some(_) => Err(ApiError::bad_request(format!(
            "Field '{name}' must be an object"
        ))),
    }
}

/// As [`object`], and it has to be there.
fn required_object(args: &Args, name: &str) -> Result<Attributes, ApiError> {
    let required = || ApiError::bad_request(format!("Field '{name}' is required"));
    object(args, name)?.ok_or_else(required)
}

/// An argument that is a map of switches.
fn switches(args: &Args, name: &str) -> Result<BTreeMap<String, bool>, ApiError> {
    let switch = |(name, value): (String, Value)| match value {
        Value::Bool(value) => Ok((name, value)),
        _ => Err(ApiError::bad_request(format!(
            "the switch '{name}' must be true or false"
        ))),
    };
    required_object(args, name)?
        .into_iter()
        .map(switch)
        .collect()
}

/// Values of one filter that become conditions of their own; SQLite takes 1000 in a row, of all filters together.
const MAX_CONDITIONS: usize = 100;

/// The values of a filter, each of which becomes a condition.
fn conditions(args: &Args, name: &str) -> Result<Vec<String>, ApiError> {
    let texts = args.filter(name)?.into_iter();
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    if texts.len() > MAX_CONDITIONS {
        let message = format!("the filter `{name}` may have {MAX_CONDITIONS} values");
        return Err(ApiError::bad_request(message));
    }
    Ok(texts)
}

/// Bounds of a range filter, `ge:3`: SQL's comparison and what is compared with.
fn bounds<T>(
    args: &Args,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<(&'static str, T)>, ApiError> {
    let bound = |text: &String| {
        // A moment has colons of its own, and may come without an operator.
        let split = text.split_once(':');
        let known = split.and_then(|(operator, value)| {
            let comparison = match operator {
                "lt" => " < ",
                "le" => " <= ",
                "gt" => " > ",
                "ge" => " >= ",
                _ => return None,
            };
            Some((comparison, value))
        });
        let (comparison, value) = known.unwrap_or((" = ", text));
        Some((comparison, parse(value)?))
    };
    let texts = conditions(args, name)?;
    let found = texts.iter().map(|text| {
        bound(text).ok_or_else(|| {
            ApiError::bad_request(format!(
                "`{text}` is no range for the filter `{name}`: it is written as `ge:VALUE`, with lt, le, gt or ge"
            ))
        })
    });
    found.collect()
}

/// The column and the direction of `sort=<column>.<asc|desc>`: whether it goes down.
fn sorting(args: &Args, default: &str) -> Result<(String, bool), ApiError> {
    let text = args.text("sort")?.filter(|text| !text.is_empty());
    let text = text.unwrap_or_else(|| default.to_owned());
    let wrong = || {
        ApiError::bad_request(format!(
            "`{text}` is no order: it is written as COLUMN.asc or COLUMN.desc"
        ))
    };
    let (column, direction) = text.rsplit_once('.').ok_or_else(wrong)?;
    match direction.to_ascii_lowercase().as_str() {
        "asc" => Ok((column.to_owned(), false)),
        "desc" => Ok((column.to_owned(), true)),
        _ => Err(wrong()),
    }
}
