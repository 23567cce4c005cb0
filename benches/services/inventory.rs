//! Instances that are put into the database of a server that does not run: orders would take minutes.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Database, Server};

/// The columns that differ from instance to instance are the first four.
const INSTANCE: &str = "INSERT INTO service_instance (environment_id, entity, entity_version, version, desired_state_version, \
    state, rollback, config, metadata, known_result, is_deleted, created_us, updated_us, id, identity, active) \
    SELECT environment_id, entity, entity_version, version, desired_state_version, state, rollback, config, metadata, \
    known_result, is_deleted, created_us, updated_us, $2, $3, $4 FROM service_instance WHERE environment_id = $5 AND id = $1";
const LOG: &str = "INSERT INTO service_instance_log (environment_id, instance_id, version, timestamp_us, snapshot) \
    SELECT environment_id, $2, version, timestamp_us, snapshot FROM service_instance_log \
    WHERE environment_id = $3 AND instance_id = $1";

macro_rules! copy {
    ($pool:expr, $template:expr, $n_more:expr) => {{
        let id = $template["id"].as_str().expect("an id");
        let environment = $template["environment"].as_str().expect("an id");
        let mut transaction = $pool.begin().await.expect("a transaction");
        for number in 0..$n_more {
            let mut attributes = $template["active_attributes"].clone();
            attributes["site"] = json!(format!("present{number}"));
            attributes["vlan"] = json!(number + 2);
            let copy = Uuid::now_v7().to_string();
            sqlx::query(INSTANCE)
                .bind(id)
                .bind(&copy)
                .bind(attributes["site"].as_str())
                .bind(attributes.to_string())
                .bind(environment)
                .execute(&mut *transaction)
                .await
                .expect("an instance");
            sqlx::query(LOG)
                .bind(id)
                .bind(&copy)
                .bind(environment)
                .execute(&mut *transaction)
                .await
                .expect("its log");
        }
        transaction.commit().await.expect("a commit");
    }};
}

/// Puts copies of an instance that is up beside it, each with a name and a number of its own.
pub fn multiply(server: &Server, template: &Value, n_more: usize) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        match server.database() {
            Database::Sqlite => {
                let url = format!("sqlite://{}", server.data().join("steward.db").display());
                let pool = sqlx::SqlitePool::connect(&url).await.expect("the database");
                copy!(pool, template, n_more);
                pool.close().await;
            }
            Database::Postgres(url) => {
                // One connection, so that what is set holds: a plan that was made for an empty table would be kept.
                let options = sqlx::postgres::PgPoolOptions::new().max_connections(1);
                let pool = options.connect(url).await.expect("the database");
                let run = async |sql: &str| {
                    let done = sqlx::query(sql).execute(&pool).await;
                    done.expect("a statement");
                };
                run("SET plan_cache_mode = force_custom_plan").await;
                copy!(pool, template, n_more);
                // As the server of the database does within a minute after so many rows.
                run("ANALYZE").await;
                pool.close().await;
            }
        }
    });
}
