//! Orders: changes to several instances in one call. Source: docs/reference/lsm.md § 5.10.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
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
fn item(value: &Value) -> Result<NewItem, String> {
    let id = value["instance_id"].as_str().and_then(|id| id.parse().ok());
    let action = value["action"].as_str().and_then(Action::parse);
    let is_object = |name: &str| value[name].is_null() || value[name].is_object();
    if let Some(name) = ["attributes", "config", "metadata"]
        .into_iter()
        .find(|name| !is_object(name))
    {
        return Err(format!("`{name}` must be an object"));
    }
    if !value["edits"].is_null() && !value["edits"].is_array() {
        return Err("`edits` must be a list".to_owned());
    }
    let switches = value["config"].as_object().into_iter().flatten();
    if let Some((name, _)) = switches.into_iter().find(|(_, value)| !value.is_boolean()) {
        return Err(format!("the switch `{name}` must be true or false"));
    }
    let action = action.ok_or("`action` must be create, update or delete")?;
    let required = match action {
        Action::Create => Some("attributes"),
        Action::Update => Some("edits"),
        Action::Delete => None,
    };
    if let Some(name) = required.filter(|name| value[*name].is_null()) {
        return Err(format!("`{name}` is required"));
    }
    Ok(NewItem {
        instance: id.ok_or("`instance_id` must be a UUID")?,
        entity: value["service_entity"]
            .as_str()
            .ok_or("`service_entity` must be the name of a service")?
            .to_owned(),
        action,
        request: json!({
            "attributes": value["attributes"],
            "edits": value["edits"],
            "config": value["config"],
            "metadata": value["metadata"],
        }),
    })
}

/// All items, or all that is wrong with them.
fn items(args: &Args) -> Result<Vec<NewItem>, ApiError> {
    let given = args.value("service_order_items").and_then(Value::as_array);
    let given = given
        .filter(|items| !items.is_empty() && items.len() <= MAX_ITEMS)
        .ok_or_else(|| {
            ApiError::bad_request(format!(
                "Field 'service_order_items' must be a list of 1 to {MAX_ITEMS} items"
            ))
        })?;
    let (mut items, mut wrong, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (at, value) in given.iter().enumerate() {
        match item(value) {
            Ok(item) if !seen.insert(item.instance) => {
                let id = item.instance;
                wrong.push(format!(
                    "service_order_items[{at}]: another item is about {id}, too"
                ));
            }
            Ok(item) => items.push(item),
            Err(reason) => wrong.push(format!("service_order_items[{at}]: {reason}")),
        }
    }
    if wrong.is_empty() {
        Ok(items)
    } else {
        Err(ApiError::bad_request(wrong.join("; ")))
    }
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let description = args.text("description")?.unwrap_or_default();
    if description.len() > MAX_DESCRIPTION_BYTES {
        let message = format!("Field 'description' has more than {MAX_DESCRIPTION_BYTES} bytes");
        return Err(ApiError::bad_request(message));
    }
    let new = NewOrder {
        id: args.parsed("id")?,
        description,
        items: items(&args)?,
    };
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
    let before = match rows.first() {
        None => 0,
        Some(first) => {
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
            (json!({}), "`action`"),
            (
                json!({"action": "create", "attributes": 3}),
                "`attributes` must be an object",
            ),
            (json!({"action": "create"}), "`attributes` is required"),
            (
                json!({"action": "update", "edits": {}}),
                "`edits` must be a list",
            ),
            (
                json!({"action": "delete", "instance_id": "x"}),
                "`instance_id`",
            ),
            (
                json!({"action": "delete", "instance_id": id}),
                "`service_entity`",
            ),
            (
                json!({"action": "delete", "config": {"a": 1}}),
                "the switch `a`",
            ),
        ];
        for (value, reason) in &wrong {
            assert!(item(value).unwrap_err().contains(reason), "{value}");
        }
        let good = json!({"action": "create", "instance_id": id, "service_entity": "e", "attributes": {}, "edits": null});
        let made = item(&good).unwrap();
        assert_eq!((made.action, made.entity.as_str()), (Action::Create, "e"));
        assert_eq!(order_state([ItemState::Completed]), "success");
    }
}
