//! Orders: creations, updates and deletions of several instances that belong together. Source: docs/reference/lsm.md § 5.10.

use serde_json::Value;
use uuid::Uuid;

use crate::domain::{EnvironmentId, Timestamp};
use crate::store::macros::{read, row, transaction, write};
use crate::store::{Error, Result, Store, document, is_duplicate, parsed, storable};

/// An order, without its items.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub id: Uuid,
    pub description: String,
    pub created: Timestamp,
    pub completed: Option<Timestamp>,
    /// `in_progress`, `success`, `failed` or `partial`.
    pub state: String,
}

/// What an order asks for of one instance, and how far that is.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderItem {
    pub order: Uuid,
    /// From 0, as the order had them.
    pub position: i64,
    pub instance: Uuid,
    pub entity: String,
    /// The item as it was sent.
    pub request: Value,
    /// `acknowledged`, `in_progress`, `completed` or `failed`.
    pub state: String,
    pub failure_type: Option<String>,
    pub reason: Option<String>,
    /// The instances whose items come first.
    pub dependencies: Vec<Uuid>,
    /// The version of the instance when the item began.
    pub begun_version: Option<i64>,
}

row! {
    struct OrderRow {
        id: String,
        description: String,
        created_us: i64,
        completed_us: Option<i64>,
        state: String,
    }
}

impl OrderRow {
    fn into_order(self) -> Result<Order> {
        Ok(Order {
            id: parsed("service_order", "id", &self.id)?,
            description: self.description,
            created: Timestamp(self.created_us),
            completed: self.completed_us.map(Timestamp),
            state: self.state,
        })
    }
}

row! {
    struct ItemRow {
        order_id: String,
        position: i64,
        instance_id: String,
        entity: String,
        request: String,
        state: String,
        failure_type: Option<String>,
        reason: Option<String>,
        dependencies: String,
        begun_version: Option<i64>,
    }
}

const ITEM: &str = "service_order_item";

impl ItemRow {
    fn into_item(self) -> Result<OrderItem> {
        let id = self.order_id.as_str();
        Ok(OrderItem {
            order: parsed(ITEM, "order_id", id)?,
            position: self.position,
            instance: parsed(ITEM, "instance_id", &self.instance_id)?,
            request: document(ITEM, "request", id, &self.request)?,
            dependencies: document(ITEM, "dependencies", id, &self.dependencies)?,
            entity: self.entity,
            state: self.state,
            failure_type: self.failure_type,
            reason: self.reason,
            begun_version: self.begun_version,
        })
    }
}

macro_rules! select_items {
    ($rest:literal) => {
        concat!(
            "SELECT order_id, position, instance_id, entity, request, state, failure_type, reason, dependencies, \
             begun_version FROM service_order_item ",
            $rest
        )
    };
}

impl Store {
    /// # Errors
    /// [`Error::Conflict`]: the id is taken.
    pub async fn order_create(
        &self,
        environment: EnvironmentId,
        order: &Order,
        items: &[OrderItem],
    ) -> Result<()> {
        const ORDER: &str = "INSERT INTO service_order (id, environment_id, description, created_us, completed_us, state) \
                             VALUES ($1, $2, $3, $4, $5, $6)";
        const INSERT: &str = "INSERT INTO service_order_item (order_id, position, environment_id, instance_id, entity, \
                              request, state, dependencies) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let id = order.id.to_string();
        transaction!(self.db, tx => {
            let written = sqlx::query(ORDER)
                .bind(&id)
                .bind(environment.to_string())
                .bind(storable(&order.description))
                .bind(order.created.0)
                .bind(order.completed.map(|completed| completed.0))
                .bind(&order.state)
                .execute(&mut *tx)
                .await;
            match written {
                Err(error) if is_duplicate(&error) => {
                    return Err(Error::Conflict(format!("there is an order with the id {id} already")));
                }
                written => written?,
            };
            for item in items {
                sqlx::query(INSERT)
                    .bind(&id)
                    .bind(item.position)
                    .bind(environment.to_string())
                    .bind(item.instance.to_string())
                    .bind(storable(&item.entity))
                    .bind(item.request.to_string())
                    .bind(&item.state)
                    .bind(serde_json::json!(item.dependencies).to_string())
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// Orders of an environment, the newest first.
    pub async fn order_list(&self, environment: EnvironmentId) -> Result<Vec<Order>> {
        const SQL: &str = "SELECT id, description, created_us, completed_us, state FROM service_order \
                           WHERE environment_id = $1 ORDER BY created_us DESC, id DESC";
        let rows: Vec<OrderRow> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        rows.into_iter().map(OrderRow::into_order).collect()
    }

    pub async fn order_fetch(&self, environment: EnvironmentId, id: Uuid) -> Result<Option<Order>> {
        const SQL: &str = "SELECT id, description, created_us, completed_us, state FROM service_order \
                           WHERE environment_id = $1 AND id = $2";
        let row: Option<OrderRow> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(id.to_string()).fetch_optional(pool).await?
        });
        row.map(OrderRow::into_order).transpose()
    }

    /// The items of an order, as it had them.
    pub async fn order_items(&self, order: Uuid) -> Result<Vec<OrderItem>> {
        let rows: Vec<ItemRow> = read!(self.db, pool => {
            sqlx::query_as(select_items!("WHERE order_id = $1 ORDER BY position"))
                .bind(order.to_string())
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(ItemRow::into_item).collect()
    }

    /// The orders with items that wait for an instance, or are under way on it.
    pub async fn orders_waiting_for(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
    ) -> Result<Vec<Uuid>> {
        const SQL: &str = "SELECT DISTINCT order_id FROM service_order_item WHERE environment_id = $1 \
                           AND instance_id = $2 AND (state = 'acknowledged' OR state = 'in_progress')";
        let rows: Vec<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(instance.to_string())
                .fetch_all(pool)
                .await?
        });
        let ids = rows.iter();
        ids.map(|(id,)| parsed(ITEM, "order_id", id)).collect()
    }

    /// Stores how far an item is, unless it has ended; `false`: it has, or is as far already.
    pub async fn order_item_write(&self, item: &OrderItem, from: &str) -> Result<bool> {
        const SQL: &str = "UPDATE service_order_item SET state = $3, failure_type = $4, reason = $5, begun_version = $6 \
                           WHERE order_id = $1 AND position = $2 AND state = $7";
        let n_rows = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(item.order.to_string())
                .bind(item.position)
                .bind(&item.state)
                .bind(item.failure_type.as_deref())
                .bind(item.reason.as_deref().map(storable))
                .bind(item.begun_version)
                .bind(from)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(n_rows > 0)
    }

    /// Ends an order.
    pub async fn order_end(&self, order: Uuid, state: &str) -> Result<()> {
        const SQL: &str = "UPDATE service_order SET state = $2, completed_us = $3 WHERE id = $1 AND completed_us IS NULL";
        let now = Timestamp::now().0;
        write!(self.db, pool => {
            sqlx::query(SQL).bind(order.to_string()).bind(state).bind(now).execute(pool).await?.rows_affected()
        });
        Ok(())
    }
}
