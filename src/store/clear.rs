//! Clearing an environment: all that was compiled, deployed and found out goes, the environment stays.
//! Source: docs/reference/deployment.md § 1.2.

use super::macros::{transaction, write};
use super::pieces::{in_pieces, piece_sql};
use super::{Error, Result, Store};
use crate::domain::EnvironmentId;

/// Tables whose rows an environment keeps.
const KEPT: [&str; 3] = ["environment_setting", "protected_setting", "token"];

/// Tables of history that may have many times more rows than an environment has resources and instances.
const HISTORY: [&str; 2] = ["resource_action", "service_instance_log"];
/// Rows of these that one transaction removes. Few in tests, so that these need several.
const AT_ONCE: i64 = if cfg!(test) { 3 } else { 5000 };

impl Store {
    /// Deletes the history of an environment that goes. All at once it is millions of rows, for which every other environment
    /// on SQLite would wait; and nothing depends on it, so that it may be gone when the rest is not.
    pub(super) async fn history_remove(&self, environment: &str) -> Result<()> {
        for table in HISTORY {
            let sql = piece_sql(&self.db, table, "environment_id = $1", AT_ONCE);
            let removed = in_pieces(AT_ONCE, || async {
                Ok(write!(self.db, pool => {
                    sqlx::query(&sql).bind(environment).execute(pool).await?.rows_affected()
                }))
            });
            removed.await?;
        }
        Ok(())
    }

    /// Deletes everything that belongs to an environment but its own row, its settings, what protects them and its tokens. Numbers of
    /// versions go on where they were.
    ///
    /// Every table with something of an environment refers to its row, and the database says which do. (For the largest tables
    /// of PostgreSQL it does not: see migrations 16 and 24.) So what a later migration adds is cleared without being named here. The row
    /// itself stays and is locked: who wants to change it meanwhile, to halt the environment for example, waits and finds it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn environment_clear(&self, id: EnvironmentId) -> Result<()> {
        const SQLITE: &str = "SELECT DISTINCT m.name FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f \
                              WHERE m.type = 'table' AND f.\"table\" = 'environment' ORDER BY m.name";
        const POSTGRES: &str = "SELECT c.relname::TEXT FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid \
                                WHERE f.contype = 'f' AND f.confrelid = 'environment'::regclass \
                                UNION SELECT 'resource_action' UNION SELECT 'desired_resource' \
                                UNION SELECT 'desired_set' UNION SELECT 'resource_state' ORDER BY 1";
        const TAKE: &str = "UPDATE environment SET active_version = NULL WHERE id = $1";
        let text = id.to_string();
        let tables = if self.is_sqlite() { SQLITE } else { POSTGRES };
        self.names.forget(id);
        let _telling = self.remembered.telling(id, None);
        self.history_remove(&text).await?;
        transaction!(self.db, tx => {
            let taken = sqlx::query(TAKE).bind(&text).execute(&mut *tx).await?;
            if taken.rows_affected() == 0 {
                return Err(Error::NotFound(format!("environment {id}")));
            }
            let tables: Vec<(String,)> = sqlx::query_as(tables).fetch_all(&mut *tx).await?;
            for (table,) in tables.iter().filter(|(table,)| !KEPT.contains(&table.as_str())) {
                let delete = format!("DELETE FROM {table} WHERE environment_id = $1");
                sqlx::query(&delete).bind(&text).execute(&mut *tx).await?;
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::AT_ONCE;
    use crate::domain::{AgentName, Severity, Timestamp, VersionNumber};
    use crate::store::macros::{read, write};
    use crate::store::tests::{check, environment, resource, state, store_version};
    use crate::store::{Notification, Result, Store, Token};

    //: deploy 17
    #[tokio::test]
    async fn a_cleared_environment_keeps_its_settings_and_its_numbers_and_nothing_else() {
        check(|store| async move {
            let id = environment(&store).await;
            let other = environment(&store).await;
            for one in [id, other] {
                store_version(&store, one, vec![resource("x", "1", "")]).await;
                let agents = [AgentName::new("a")];
                store
                    .version_activate(one, VersionNumber::new(1), &[state("x")], &[], &agents)
                    .await
                    .unwrap();
                let settings = [("auto_deploy".to_owned(), json!(false))];
                store
                    .settings_protect(one, "project.yml", &settings)
                    .await
                    .unwrap();
                store
                    .setting_set(one, "server_compile", &json!(false))
                    .await
                    .unwrap();
            }
            let token = Token {
                jti: uuid::Uuid::new_v4(),
                environment: id,
                client_types: "api".to_owned(),
                issued: Timestamp(1),
                expires: None,
                revoked: None,
                last_used: None,
            };
            store.token_register(&token).await.unwrap();
            store.environment_halt(id, true).await.unwrap();
            let was = store.environment_fetch(id).await.unwrap().unwrap();
            store.environment_clear(id).await.unwrap();
            let is = store.environment_fetch(id).await.unwrap().unwrap();
            assert_eq!(
                (&is.name, &is.repo_url, &is.variables),
                (&was.name, &was.repo_url, &was.variables)
            );
            assert!(is.halted, "it stays halted");
            assert_eq!(
                (is.last_version, is.active_version),
                (VersionNumber::new(1), None)
            );
            let settings = store.settings_fetch(id).await.unwrap();
            assert!(!settings.auto_deploy() && !settings.server_compile());
            let protected = store.settings_protected(id).await.unwrap();
            assert_eq!(protected["auto_deploy"], "project.yml");
            assert_eq!(store.token_list(id).await.unwrap(), [token]);
            assert!(store.version_keys(id).await.unwrap().is_empty());
            assert!(store.state_list(id).await.unwrap().is_empty());
            assert!(store.agent_list(id).await.unwrap().is_empty());
            assert!(store.compile_list(id, 10).await.unwrap().is_empty());
            assert!(store.state_counts(id).await.unwrap().is_empty());
            let (number, _) = store_version(&store, id, vec![resource("x", "1", "")]).await;
            assert_eq!(number, VersionNumber::new(2), "higher than any before");
            assert_eq!(store.version_keys(other).await.unwrap().len(), 1);
            assert_eq!(store.state_list(other).await.unwrap().len(), 1);
        })
        .await;
    }

    /// Given: two environments with more history than goes at once. Expected: of the one that is cleared, and then deleted, all
    /// goes, and of the other nothing.
    #[tokio::test]
    async fn the_history_of_an_environment_goes_with_it_however_long_it_is() {
        const FILL: &str = "INSERT INTO resource_action (id, environment_id, action, version, resource_id, started_us, \
                            finished_us, messages) VALUES ($1, $2, 'deploy', 1, 'x', 1, 1, '[]')";
        const COUNT: &str = "SELECT COUNT(*) FROM resource_action WHERE environment_id = $1";
        async fn fill(store: &Store, of: &str) -> Result<()> {
            for number in 0..3 * AT_ONCE + 1 {
                let id = format!("{of} {number}");
                write!(store.db, pool => { sqlx::query(FILL).bind(&id).bind(of).execute(pool).await?; });
            }
            Ok(())
        }
        async fn count(store: &Store, of: &str) -> Result<i64> {
            Ok(read!(store.db, pool => sqlx::query_scalar(COUNT).bind(of).fetch_one(pool).await?))
        }
        check(|store| async move {
            let (id, other) = (environment(&store).await, environment(&store).await);
            let (here, there) = (id.to_string(), other.to_string());
            fill(&store, &there).await.unwrap();
            for is_deleted in [false, true] {
                fill(&store, &here).await.unwrap();
                if is_deleted {
                    assert!(store.environment_delete(id).await.unwrap());
                } else {
                    store.environment_clear(id).await.unwrap();
                }
                assert_eq!(count(&store, &here).await.unwrap(), 0);
                assert_eq!(count(&store, &there).await.unwrap(), 3 * AT_ONCE + 1);
            }
        })
        .await;
    }

    //: deploy 139
    #[tokio::test]
    async fn notifications_keep_what_was_marked_until_they_are_old() {
        check(|store| async move {
            let id = environment(&store).await;
            let notification = |title: &str, created: i64| Notification {
                created: Timestamp(created),
                ..Notification::new(Severity::Error, title, "text")
            };
            let (old, new) = (notification("old", 10), notification("new", 20));
            for one in [&old, &new] {
                store.notification_create(id, one).await.unwrap();
            }
            assert!(
                store
                    .notification_mark(id, new.id, true, true)
                    .await
                    .unwrap()
            );
            assert!(
                !store
                    .notification_mark(id, uuid::Uuid::now_v7(), true, true)
                    .await
                    .unwrap()
            );
            let titles = async || {
                let all = store.notification_list(id).await.unwrap().into_iter();
                all.map(|one| one.title).collect::<Vec<_>>()
            };
            assert_eq!(titles().await, ["new", "old"]);
            assert_eq!(
                store.notification_newest(id).await.unwrap().unwrap().title,
                "new"
            );
            assert_eq!(
                store.notification_purge(id, Timestamp(20)).await.unwrap(),
                1
            );
            assert_eq!(titles().await, ["new"]);
            let found = store.notification_fetch(id, new.id).await.unwrap().unwrap();
            assert!(found.is_read && found.is_cleared);
            assert!(
                store
                    .notification_fetch(id, old.id)
                    .await
                    .unwrap()
                    .is_none()
            );
        })
        .await;
    }

    //: deploy 144
    #[tokio::test]
    async fn agents_that_no_stored_version_names_go() {
        check(|store| async move {
            let id = environment(&store).await;
            store_version(&store, id, vec![resource("x", "1", "")]).await;
            let agents = [AgentName::new("a"), AgentName::new("gone")];
            store
                .version_activate(id, VersionNumber::new(1), &[state("x")], &[], &agents)
                .await
                .unwrap();
            assert_eq!(store.agent_purge(id).await.unwrap(), 1);
            let left = store.agent_list(id).await.unwrap();
            assert_eq!(left.len(), 1);
            assert_eq!(left[0].name, AgentName::new("a"));
        })
        .await;
    }
}
