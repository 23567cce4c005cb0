//! Webhook deliveries, and the request to refresh its repository that every trigger leaves.

use super::macros::{read, transaction, write};
use super::{Result, Store};
use crate::domain::{EnvironmentId, Timestamp};

/// A verified webhook delivery.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub hook_id: String,
    /// The forge's id, the same on a redelivery; else the digest of the body.
    pub delivery_id: String,
    pub environment_id: EnvironmentId,
    pub event: String,
}

/// A row that says that a repository may have changed, and is to be fetched and compared again.
#[derive(Debug, Clone)]
pub struct RefreshRequest {
    pub requested_us: i64,
    /// `webhook`, `poll`, `watch`, `api`, `cron`, `start`.
    pub trigger_kind: String,
    pub message: String,
}

impl Store {
    /// Records a delivery and the refresh request, together. `false`: this delivery is known already, nothing was written.
    pub async fn delivery_record(&self, delivery: &Delivery, message: &str) -> Result<bool> {
        const SQL: &str = "INSERT INTO webhook_delivery (hook_id, delivery_id, environment_id, event, received_us) \
                           VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hook_id, delivery_id) DO NOTHING";
        let now = Timestamp::now().0;
        let environment_id = delivery.environment_id.to_string();
        let is_new = transaction!(self.db, tx => {
            let n_inserted = sqlx::query(SQL)
                .bind(&delivery.hook_id)
                .bind(&delivery.delivery_id)
                .bind(&environment_id)
                .bind(&delivery.event)
                .bind(now)
                .execute(&mut *tx)
                .await?
                .rows_affected();
            if n_inserted > 0 {
                sqlx::query(REQUEST).bind(&environment_id).bind(now).bind("webhook").bind(message).execute(&mut *tx).await?;
            }
            n_inserted > 0
        });
        Ok(is_new)
    }

    /// Writes that this environment's repository may have changed.
    pub async fn refresh_request(
        &self,
        id: EnvironmentId,
        trigger_kind: &str,
        message: &str,
    ) -> Result<()> {
        let now = Timestamp::now().0;
        write!(self.db, pool => {
            sqlx::query(REQUEST).bind(id.to_string()).bind(now).bind(trigger_kind).bind(message).execute(pool).await?.rows_affected()
        });
        Ok(())
    }

    pub async fn refresh_fetch(&self, id: EnvironmentId) -> Result<Option<RefreshRequest>> {
        const SQL: &str = "SELECT requested_us, trigger_kind, message FROM refresh_request WHERE environment_id = $1";
        let row: Option<(i64, String, String)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(id.to_string()).fetch_optional(pool).await?
        });
        Ok(
            row.map(|(requested_us, trigger_kind, message)| RefreshRequest {
                requested_us,
                trigger_kind,
                message,
            }),
        )
    }

    /// Removes the request, unless somebody asked again since `request` was read.
    pub async fn refresh_done(&self, id: EnvironmentId, request: &RefreshRequest) -> Result<()> {
        const SQL: &str =
            "DELETE FROM refresh_request WHERE environment_id = $1 AND requested_us <= $2";
        write!(self.db, pool => sqlx::query(SQL).bind(id.to_string()).bind(request.requested_us).execute(pool).await?.rows_affected());
        Ok(())
    }
}

/// A later request has a later time, whatever the clock does: a refresh clears only the request that it read.
const REQUEST: &str = "INSERT INTO refresh_request (environment_id, requested_us, trigger_kind, message) \
                    VALUES ($1, $2, $3, $4) ON CONFLICT (environment_id) DO UPDATE SET \
                    requested_us = CASE WHEN excluded.requested_us > refresh_request.requested_us \
                    THEN excluded.requested_us ELSE refresh_request.requested_us + 1 END, \
                    trigger_kind = excluded.trigger_kind, message = excluded.message";
