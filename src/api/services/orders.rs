//! Orders: changes to several instances in one call. Source: docs/reference/lsm.md § 5.10.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use steward_lsm::Problems;
use steward_lsm::order::{Action, order_state};
use uuid::Uuid;

use super::keyset::{Around, Bound, Keyset};
use super::sorting;
use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{EnvironmentId, Timestamp};
use crate::lsm::{NewItem, NewOrder};
use crate::store::{Order, OrderItem, OrderSpan};

routes! {
    Get "/lsm/v2/order" Environment "the orders, the newest first" => Query list_orders();
    Post "/lsm/v2/order" Environment "orders changes to several instances" => Body create();
    Get "/lsm/v2/order/<id>" Environment "an order, and how far each of its items is" => Query details(id);
}

/// Items of an order.
const MAX_ITEMS: usize = 1000;
/// Bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// The record of an order. Source: docs/reference/rest.md § 2.11.
fn shape(environment: EnvironmentId, order: &Order) -> Value {
    let items = order.items.iter();
    // It ends when its end is stored, a moment after that of its last item.
    let state = match order.completed {
        Some(_) => order_state(items.clone().map(|item| item.state)),
        None => "in_progress",
    };
    json!({
        "id": order.id,
        "environment": environment,
        "description": order.description,
        "created_at": order.created.to_string(),
        "completed_at": order.completed.map(|time| time.to_string()),
        "status": {"state": state},
        "service_order_items": items.map(|item| item_shape(order, item)).collect::<Vec<_>>(),
    })
}

fn item_shape(order: &Order, item: &OrderItem) -> Value {
    let state_of = |id: &Uuid| {
        let other = order.items.iter().find(|other| other.instance == *id);
        other.map(|other| json!(other.state.as_str()))
    };
    let dependencies = item.dependencies.iter();
    let dependencies: Map<String, Value> = dependencies
        .filter_map(|id| Some((id.to_string(), state_of(id)?)))
        .collect();
    let outcome = &item.outcome;
    let (identity, title) = match &outcome.identity {
        Some((identity, title)) => (Some(identity), title.as_ref()),
        None => (None, None),
    };
    json!({
        "instance_id": item.instance,
        "service_entity": item.entity,
        "action": item.action.as_str(),
        "attributes": item.request["attributes"],
        "edits": item.request["edits"],
        "config": item.request["config"],
        "metadata": item.request["metadata"],
        "status": {
            "state": item.state.as_str(),
            "failure_type": outcome.failure.map(steward_lsm::order::Failure::as_str),
            "reason": outcome.reason,
            "direct_dependencies": dependencies,
            "validation_compile_id": outcome.validation,
            "instance_state_label": outcome.label,
            "service_identity_attribute_value": identity,
            "service_identity_display_name": title,
        },
    })
}

/// An item as a client gives it, or what is wrong with it.
fn item(value: &Value) -> Result<NewItem, Problems> {
    let mut problems = Problems::default();
    for name in ["attributes", "config", "metadata"] {
        if !value[name].is_null() && !value[name].is_object() {
            problems.add(name, "must be an object");
        }
    }
    if !value["edits"].is_null() && !value["edits"].is_array() {
        problems.add("edits", "must be a list");
    }
    let switches = value["config"].as_object().into_iter().flatten();
    for (name, _) in switches.filter(|(_, value)| !value.is_boolean()) {
        let path = format!("config.{name}");
        problems.add(path, "must be true or false: it is a switch");
    }
    let id = value["instance_id"].as_str().and_then(|id| id.parse().ok());
    if id.is_none() {
        problems.add("instance_id", "must be a UUID");
    }
    let entity = value["service_entity"].as_str();
    if entity.is_none() {
        problems.add("service_entity", "must be the name of a service");
    }
    let action = value["action"].as_str().and_then(Action::parse);
    let required = match action {
        Some(Action::Create) => Some("attributes"),
        Some(Action::Update) => Some("edits"),
        Some(Action::Delete) => None,
        None => {
            problems.add("action", "must be create, update or delete");
            None
        }
    };
    if let Some(name) = required.filter(|name| value[*name].is_null()) {
        problems.add(name, "is required");
    }
    // What would be taken and do nothing.
    let other = match action {
        Some(Action::Create) => Some(("edits", "are for updates: a new instance has attributes")),
        Some(Action::Update) => Some(("attributes", "are for new instances: an update has edits")),
        Some(Action::Delete) | None => None,
    };
    let is_given = |given: &Value| {
        given.as_array().is_some_and(|items| !items.is_empty())
            || given.as_object().is_some_and(|items| !items.is_empty())
    };
    if let Some((name, reason)) = other.filter(|(name, _)| is_given(&value[*name])) {
        problems.add(name, reason);
    }
    let (Some(instance), Some(entity), Some(action)) = (id, entity, action) else {
        return Err(problems);
    };
    problems.or(NewItem {
        instance,
        entity: entity.to_owned(),
        action,
        request: json!({
            "attributes": value["attributes"],
            "edits": value["edits"],
            "config": value["config"],
            "metadata": value["metadata"],
        }),
    })
}

/// All items; what is wrong with them is noted by its path.
fn items(args: &Args, problems: &mut Problems) -> Vec<NewItem> {
    let given = args.value("service_order_items").and_then(Value::as_array);
    let Some(given) = given.filter(|items| !items.is_empty() && items.len() <= MAX_ITEMS) else {
        let reason = format!("must be a list of 1 to {MAX_ITEMS} items");
        problems.add("service_order_items", reason);
        return Vec::new();
    };
    let (mut items, mut seen) = (Vec::new(), BTreeSet::new());
    for (at, value) in given.iter().enumerate() {
        let path = format!("service_order_items[{at}]");
        match item(value) {
            Ok(item) if !seen.insert(item.instance) => {
                let reason = format!("another item is about {}, too", item.instance);
                problems.add(path, reason);
            }
            Ok(item) => items.push(item),
            Err(wrong) => {
                for problem in wrong.0 {
                    problems.add(format!("{path}.{}", problem.path), problem.reason);
                }
            }
        }
    }
    items
}

/// An order as a client gives it, or all that is wrong with it.
fn order(args: &Args) -> Result<NewOrder, Problems> {
    let mut problems = Problems::default();
    let mut text = |name: &str| match args.value(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            problems.add(name, "must be a text");
            None
        }
    };
    let (id, description) = (text("id"), text("description").unwrap_or_default());
    let id = id.filter(|id| !id.is_empty()).and_then(|id| {
        let parsed = id.parse().ok();
        if parsed.is_none() {
            problems.add("id", "must be a UUID");
        }
        parsed
    });
    if description.len() > MAX_DESCRIPTION_BYTES {
        let reason = format!("has more than {MAX_DESCRIPTION_BYTES} bytes");
        problems.add("description", reason);
    }
    let items = items(args, &mut problems);
    problems.or(NewOrder {
        id,
        description,
        items,
    })
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let new = order(&args).map_err(|problems| ApiError::bad_request(problems.to_string()))?;
    let order = app.services.order(environment, new).await?;
    Ok(Answer::Data(shape(environment, &order)))
}

async fn details(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let unknown = || ApiError::not_found(format!("order {}", id.0));
    let id: Uuid = id.0.parse().map_err(|_| unknown())?;
    let order = app.store.order_fetch(environment, id).await?;
    Ok(Answer::Data(shape(
        environment,
        &order.ok_or_else(unknown)?,
    )))
}

async fn list_orders(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    args.only_filters(&[])?;
    let (column, is_descending) = sorting(&args, "created_at.desc")?;
    if column != "created_at" {
        let message = format!("orders are not sorted by `{column}`; they are by created_at");
        return Err(ApiError::bad_request(message));
    }
    let keyset = Keyset::of(&args, is_descending)?;
    let [start, end] = keyset.bounds(|text| Timestamp::parse(text).map(|time| time.0))?;
    // Without an id a bound is a moment, and all orders of that moment are on its other side.
    let place = |bound: Bound<i64>, any: &str| {
        bound.map(|(time, id)| (time, id.unwrap_or_else(|| any.to_owned())))
    };
    let span = OrderSpan {
        after: place(start, "~"),
        before: place(end, ""),
        is_descending: keyset.reads_descending(),
        limit: keyset.n_read(),
    };
    let rows = keyset.in_order(app.store.order_page(environment, &span).await?);
    let total = app
        .store
        .order_count(environment, &OrderSpan::default())
        .await?;
    // A page back has fewer orders where these have very many items: then they have to be counted.
    let known = keyset.known_before(rows.len());
    let before = match (known.filter(|_| !keyset.is_backwards()), rows.first()) {
        (Some(before), _) => before,
        (None, None) => 0,
        (None, Some(first)) => {
            let here = Some((first.created.0, first.id.to_string()));
            let mut span = OrderSpan::default();
            if is_descending {
                span.after = here;
            } else {
                span.before = here;
            }
            app.store.order_count(environment, &span).await?
        }
    };
    let key = |order: &Order| (order.created.to_string(), order.id.to_string());
    let around = Around { total, before };
    let shape = |order: &Order| shape(environment, order);
    Ok(keyset.answer(&args, "/lsm/v2/order", (&rows, &around), key, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use steward_lsm::order::ItemState;

    #[test]
    fn all_that_is_wrong_with_the_items_of_an_order_is_said_at_once() {
        let id = "0a8d6a1e-0000-4000-8000-000000000001";
        let wrong = [
            (json!({}), "action: must be create, update or delete"),
            (json!({}), "instance_id: must be a UUID"),
            (json!({}), "service_entity: must be"),
            (
                json!({"action": "create", "attributes": 3}),
                "attributes: must be an object",
            ),
            (json!({"action": "create"}), "attributes: is required"),
            (
                json!({"action": "update", "edits": {}}),
                "edits: must be a list",
            ),
            (
                json!({"action": "create", "attributes": {}, "edits": [{}]}),
                "edits: are for updates",
            ),
            (
                json!({"action": "update", "edits": [], "attributes": {"a": 1}}),
                "attributes: are for new instances",
            ),
            (
                json!({"action": "delete", "instance_id": "x"}),
                "instance_id: must be a UUID; service_entity: must be the name of a service",
            ),
            (
                json!({"action": "delete", "instance_id": id}),
                "service_entity: ",
            ),
            (
                json!({"action": "delete", "config": {"a": 1}}),
                "config.a: must be true or false",
            ),
        ];
        for (value, reason) in &wrong {
            assert!(
                item(value).unwrap_err().to_string().contains(reason),
                "{value}"
            );
        }
        let good = json!({"action": "create", "instance_id": id, "service_entity": "e", "attributes": {}, "edits": null});
        let made = item(&good).unwrap();
        assert_eq!((made.action, made.entity.as_str()), (Action::Create, "e"));
        assert_eq!(order_state([ItemState::Completed]), "success");
    }
}
