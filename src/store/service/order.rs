//! Orders: changes to several instances that a client asked for in one call. Source: docs/reference/lsm.md § 5.10.

use std::collections::HashMap;

use serde_json::{Value, json};
use steward_lsm::order::{Action, Failure, ItemState};
use uuid::Uuid;

use super::instance::{counted, counter};
use super::push_beyond;
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::macros::{read, row, transaction, write};
use crate::store::pieces::in_pieces;
use crate::store::{Error, Result, Store, document, is_duplicate, parsed, storable};

const TABLE: &str = "service_order_item";
/// Items of the orders of a page. One with more is a page of its own: an order may have a thousand, and a page a thousand orders.
const MAX_PAGE_ITEMS: i64 = 10_000;
/// Orders that are removed in one transaction.
const PURGED_AT_ONCE: i64 = 100;

/// Changes to several instances.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub id: Uuid,
    pub description: String,
    pub created: Timestamp,
    /// When the last item ended; `None`: it is in progress.
    pub completed: Option<Timestamp>,
    /// As they were given.
    pub items: Vec<OrderItem>,
}

/// A change to one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderItem {
    pub instance: Uuid,
    pub entity: String,
    pub action: Action,
    /// `attributes`, `edits` and `config` as they were given.
    pub request: Value,
    /// The instances of the order whose items have to be completed before.
    pub dependencies: Vec<Uuid>,
    /// What all events of its change have in common.
    pub correlation_id: Uuid,
    pub state: ItemState,
    /// The version that the instance had before, 0: there was none; `None`: the item has not begun.
    pub base_version: Option<u64>,
    pub outcome: ItemOutcome,
}

/// How an item ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemOutcome {
    pub failure: Option<Failure>,
    /// For people.
    pub reason: Option<String>,
    /// The validation that failed.
    pub validation: Option<Uuid>,
    /// How the state of the instance was shown.
    pub label: Option<String>,
    /// The identity of the instance, and what people call it.
    pub identity: Option<(String, Option<String>)>,
}

/// Which part of a list of orders, by the time of their creation.
#[derive(Debug, Clone, Default)]
pub struct OrderSpan {
    /// Orders behind this place.
    pub after: Option<(i64, String)>,
    /// Orders before this place.
    pub before: Option<(i64, String)>,
    /// The newest first.
    pub is_descending: bool,
    pub limit: i64,
}

type OrderColumns = (String, String, i64, Option<i64>);

row! {
    struct ItemRow {
        order_id: String,
        instance_id: String,
        entity: String,
        action: String,
        request: String,
        dependencies: String,
        correlation_id: String,
        state: String,
        base_version: Option<i64>,
        outcome: String,
    }
}

impl ItemOutcome {
    fn to_json(&self) -> Value {
        json!({
            "failure": self.failure.map(Failure::as_str),
            "reason": self.reason,
            "validation": self.validation,
            "label": self.label,
            "identity": self.identity,
        })
    }

    fn of_json(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Self {
            failure: value["failure"].as_str().and_then(Failure::parse),
            reason: text("reason"),
            validation: value["validation"].as_str().and_then(|id| id.parse().ok()),
            label: text("label"),
            identity: serde_json::from_value(value["identity"].clone()).unwrap_or_default(),
        }
    }
}

impl ItemRow {
    fn into_item(self) -> Result<OrderItem> {
        let id = self.instance_id.as_str();
        let unreadable = |column| Error::Row {
            table: TABLE,
            column,
            id: id.to_owned(),
        };
        let outcome: Value = document(TABLE, "outcome", id, &self.outcome)?;
        Ok(OrderItem {
            instance: parsed(TABLE, "instance_id", id)?,
            action: Action::parse(&self.action).ok_or_else(|| unreadable("action"))?,
            request: document(TABLE, "request", id, &self.request)?,
            dependencies: document(TABLE, "dependencies", id, &self.dependencies)?,
            correlation_id: parsed(TABLE, "correlation_id", &self.correlation_id)?,
            state: ItemState::parse(&self.state).ok_or_else(|| unreadable("state"))?,
            base_version: self.base_version.map(counted),
            outcome: ItemOutcome::of_json(&outcome),
            entity: self.entity,
        })
    }
}

fn of_columns((id, description, created, completed): OrderColumns) -> Result<Order> {
    Ok(Order {
        id: parsed("service_order", "id", &id)?,
        description,
        created: Timestamp(created),
        completed: completed.map(Timestamp),
        items: Vec::new(),
    })
}

/// A place among the items of an order, as it is stored.
fn position(at: usize) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// Adds the bounds of a span.
macro_rules! push_span {
    ($query:expr, $span:expr) => {
        for (comparison, place) in [(" > ", &$span.after), (" < ", &$span.before)] {
            if let Some((time, id)) = place {
                push_beyond!(
                    $query,
                    "created_us",
                    comparison,
                    $query.push_bind(*time),
                    id
                );
            }
        }
    };
}

impl Store {
    /// Stores a new order.
    ///
    /// # Errors
    /// [`Error::Conflict`]: its id is taken.
    pub async fn order_create(&self, environment: EnvironmentId, order: &Order) -> Result<()> {
        const ORDER: &str = "INSERT INTO service_order (environment_id, id, description, created_us, completed_us) \
                             VALUES ($1, $2, $3, $4, $5)";
        const ITEM: &str = "INSERT INTO service_order_item (environment_id, order_id, position, instance_id, entity, action, \
                            request, dependencies, correlation_id, state, base_version, outcome) \
                            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let taken = |error: sqlx::Error| {
            if is_duplicate(&error) {
                Error::Conflict(format!(
                    "there is an order with the id {} already",
                    order.id
                ))
            } else {
                error.into()
            }
        };
        transaction!(self.db, tx => {
            sqlx::query(ORDER)
                .bind(environment.to_string())
                .bind(order.id.to_string())
                .bind(storable(&order.description))
                .bind(order.created.0)
                .bind(order.completed.map(|time| time.0))
                .execute(&mut *tx)
                .await
                .map_err(taken)?;
            for (position, item) in (0_i64..).zip(&order.items) {
                sqlx::query(ITEM)
                    .bind(environment.to_string())
                    .bind(order.id.to_string())
                    .bind(position)
                    .bind(item.instance.to_string())
                    .bind(storable(&item.entity))
                    .bind(item.action.as_str())
                    .bind(item.request.to_string())
                    .bind(json!(item.dependencies).to_string())
                    .bind(item.correlation_id.to_string())
                    .bind(item.state.as_str())
                    .bind(item.base_version.map(counter))
                    .bind(item.outcome.to_json().to_string())
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// The order with this id.
    pub async fn order_fetch(&self, environment: EnvironmentId, id: Uuid) -> Result<Option<Order>> {
        const SQL: &str = "SELECT id, description, created_us, completed_us FROM service_order \
                           WHERE environment_id = $1 AND id = $2";
        let row: Option<OrderColumns> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(id.to_string()).fetch_optional(pool).await?
        });
        let Some(row) = row else { return Ok(None) };
        let mut orders = vec![of_columns(row)?];
        self.order_items(environment, &mut orders).await?;
        Ok(orders.pop())
    }

    /// Orders as far as the span goes, in its order; fewer if they have very many items, but one if there is one.
    pub async fn order_page(
        &self,
        environment: EnvironmentId,
        span: &OrderSpan,
    ) -> Result<Vec<Order>> {
        const SELECT: &str = "SELECT id, description, created_us, completed_us FROM service_order WHERE environment_id = ";
        let direction = if span.is_descending { " DESC" } else { "" };
        let rows: Vec<OrderColumns> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(SELECT);
            query.push_bind(environment.to_string());
            push_span!(query, span);
            query.push(" ORDER BY created_us").push(direction).push(", id").push(direction);
            query.push(" LIMIT ").push_bind(span.limit);
            query.build_query_as().fetch_all(pool).await?
        });
        let mut orders = rows
            .into_iter()
            .map(of_columns)
            .collect::<Result<Vec<_>>>()?;
        let n_items = self.order_sizes(environment, &orders).await?;
        let mut n_read = 0;
        let fits = |order: &&Order| {
            n_read += n_items.get(&order.id).copied().unwrap_or_default();
            n_read <= MAX_PAGE_ITEMS
        };
        let n_fitting = orders.iter().take_while(fits).count();
        orders.truncate(n_fitting.max(1));
        self.order_items(environment, &mut orders).await?;
        Ok(orders)
    }

    /// How many items these orders have.
    async fn order_sizes(
        &self,
        environment: EnvironmentId,
        orders: &[Order],
    ) -> Result<HashMap<Uuid, i64>> {
        const SELECT: &str =
            "SELECT order_id, COUNT(*) FROM service_order_item WHERE environment_id = ";
        if orders.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<(String, i64)> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(SELECT);
            query.push_bind(environment.to_string()).push(" AND order_id IN (");
            let mut list = query.separated(", ");
            for order in orders {
                list.push_bind(order.id.to_string());
            }
            query.push(") GROUP BY order_id");
            query.build_query_as().fetch_all(pool).await?
        });
        let sizes = rows.into_iter();
        sizes
            .map(|(id, n_items)| Ok((parsed(TABLE, "order_id", &id)?, n_items)))
            .collect()
    }

    /// How many orders are within the span.
    pub async fn order_count(&self, environment: EnvironmentId, span: &OrderSpan) -> Result<i64> {
        const COUNT: &str = "SELECT COUNT(*) FROM service_order WHERE environment_id = ";
        let (count,): (i64,) = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(COUNT);
            query.push_bind(environment.to_string());
            push_span!(query, span);
            query.build_query_as().fetch_one(pool).await?
        });
        Ok(count)
    }

    /// Reads the items of these orders.
    async fn order_items(&self, environment: EnvironmentId, orders: &mut [Order]) -> Result<()> {
        const SELECT: &str = "SELECT order_id, instance_id, entity, action, request, dependencies, correlation_id, state, \
                              base_version, outcome FROM service_order_item WHERE environment_id = ";
        if orders.is_empty() {
            return Ok(());
        }
        let rows: Vec<ItemRow> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(SELECT);
            query.push_bind(environment.to_string()).push(" AND order_id IN (");
            let mut list = query.separated(", ");
            for order in orders.iter() {
                list.push_bind(order.id.to_string());
            }
            query.push(") ORDER BY order_id, position");
            query.build_query_as().fetch_all(pool).await?
        });
        let places = orders.iter().enumerate();
        let places: HashMap<Uuid, usize> = places.map(|(at, order)| (order.id, at)).collect();
        for row in rows {
            let id: Uuid = parsed(TABLE, "order_id", &row.order_id)?;
            if let Some(at) = places.get(&id) {
                orders[*at].items.push(row.into_item()?);
            }
        }
        Ok(())
    }

    /// Orders that are in progress, with the instances that they are about.
    pub async fn orders_open(&self, environment: EnvironmentId) -> Result<Vec<(Uuid, Uuid)>> {
        const SQL: &str = "SELECT o.id, i.instance_id FROM service_order o JOIN service_order_item i \
                           ON i.environment_id = o.environment_id AND i.order_id = o.id \
                           WHERE o.environment_id = $1 AND o.completed_us IS NULL";
        let rows: Vec<(String, String)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        let ids = rows.iter();
        ids.map(|(order, instance)| {
            let order = parsed("service_order", "id", order)?;
            Ok((order, parsed(TABLE, "instance_id", instance)?))
        })
        .collect()
    }

    /// The item at this place of an order.
    pub async fn order_item_fetch(
        &self,
        (environment, order): (EnvironmentId, Uuid),
        at: usize,
    ) -> Result<Option<OrderItem>> {
        const SQL: &str = "SELECT order_id, instance_id, entity, action, request, dependencies, correlation_id, state, \
                           base_version, outcome FROM service_order_item \
                           WHERE environment_id = $1 AND order_id = $2 AND position = $3";
        let row: Option<ItemRow> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(order.to_string())
                .bind(position(at))
                .fetch_optional(pool)
                .await?
        });
        row.map(ItemRow::into_item).transpose()
    }

    /// Stores how far the item at this place is.
    pub async fn order_item_write(
        &self,
        (environment, order): (EnvironmentId, Uuid),
        at: usize,
        item: &OrderItem,
    ) -> Result<()> {
        const SQL: &str = "UPDATE service_order_item SET state = $4, base_version = $5, outcome = $6 \
                           WHERE environment_id = $1 AND order_id = $2 AND position = $3";
        write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(order.to_string())
                .bind(position(at))
                .bind(item.state.as_str())
                .bind(item.base_version.map(counter))
                .bind(item.outcome.to_json().to_string())
                .execute(pool)
                .await?;
        });
        Ok(())
    }

    /// Remembers that all items of an order have ended.
    pub async fn order_complete(
        &self,
        environment: EnvironmentId,
        order: Uuid,
        now: Timestamp,
    ) -> Result<()> {
        const SQL: &str = "UPDATE service_order SET completed_us = $3 \
                           WHERE environment_id = $1 AND id = $2 AND completed_us IS NULL";
        write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(order.to_string())
                .bind(now.0)
                .execute(pool)
                .await?;
        });
        Ok(())
    }

    /// Removes orders that ended before that time; gives how many went. Some at a time, since each may have a thousand items,
    /// and others want to write meanwhile.
    pub async fn order_purge(&self, environment: EnvironmentId, before: Timestamp) -> Result<u64> {
        const SQL: &str = "DELETE FROM service_order WHERE environment_id = $1 AND id IN (SELECT id FROM service_order \
                           WHERE environment_id = $1 AND completed_us < $2 ORDER BY created_us LIMIT $3)";
        in_pieces(PURGED_AT_ONCE, || async {
            Ok(write!(self.db, pool => {
                sqlx::query(SQL)
                    .bind(environment.to_string())
                    .bind(before.0)
                    .bind(PURGED_AT_ONCE)
                    .execute(pool)
                    .await?
                    .rows_affected()
            }))
        })
        .await
    }
}

#[cfg(test)]
mod tests;
