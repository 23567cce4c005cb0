//! Tokens of environments that can be listed and revoked. Source: docs/reference/rest.md § 1.13.

use std::time::Duration;

use super::macros::{read, row, write};
use super::{Result, Store};
use crate::domain::{EnvironmentId, Timestamp};

/// How exactly it is noted when a token was used last: a write for each request would cost more than the request.
const USE_EVERY: Duration = Duration::from_secs(60);

/// A token that was made, without its text, which nobody keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub jti: uuid::Uuid,
    pub environment: EnvironmentId,
    /// `api,agent,compiler`, as the token says it.
    pub client_types: String,
    pub issued: Timestamp,
    pub expires: Option<Timestamp>,
    pub revoked: Option<Timestamp>,
    pub last_used: Option<Timestamp>,
}

row! {
    pub(super) struct Row {
        pub(super) jti: String,
        pub(super) environment_id: String,
        pub(super) client_types: String,
        pub(super) issued_us: i64,
        pub(super) expires_us: Option<i64>,
        pub(super) revoked_us: Option<i64>,
        pub(super) last_used_us: Option<i64>,
    }
}

impl Row {
    /// `None`: an id of it is none, which no write of ours leaves.
    fn into_token(self) -> Option<Token> {
        Some(Token {
            jti: self.jti.parse().ok()?,
            environment: self.environment_id.parse().ok()?,
            client_types: self.client_types,
            issued: Timestamp(self.issued_us),
            expires: self.expires_us.map(Timestamp),
            revoked: self.revoked_us.map(Timestamp),
            last_used: self.last_used_us.map(Timestamp),
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT jti, environment_id, client_types, issued_us, expires_us, revoked_us, last_used_us FROM token ",
            $rest
        )
    };
}

impl Store {
    /// Notes a token that was made, so that it is known when it is shown.
    pub async fn token_register(&self, token: &Token) -> Result<()> {
        const SQL: &str = "INSERT INTO token (jti, environment_id, client_types, issued_us, expires_us) \
                           VALUES ($1, $2, $3, $4, $5)";
        write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(token.jti.to_string())
                .bind(token.environment.to_string())
                .bind(&token.client_types)
                .bind(token.issued.0)
                .bind(token.expires.map(|moment| moment.0))
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(())
    }

    /// The tokens of an environment that can be revoked, the newest first, with those that were.
    pub async fn token_list(&self, environment: EnvironmentId) -> Result<Vec<Token>> {
        const SQL: &str = select!("WHERE environment_id = $1 ORDER BY issued_us DESC, jti");
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        Ok(rows.into_iter().filter_map(Row::into_token).collect())
    }

    /// Revokes a token, once and for all; whether the environment has it.
    pub async fn token_revoke(&self, environment: EnvironmentId, jti: uuid::Uuid) -> Result<bool> {
        const SQL: &str = "UPDATE token SET revoked_us = COALESCE(revoked_us, $3) WHERE environment_id = $1 AND jti = $2";
        let n_revoked = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(jti.to_string())
                .bind(Timestamp::now().0)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(n_revoked > 0)
    }

    /// Forgets the tokens that were revoked or have expired before this; gives how many.
    pub async fn token_purge(&self, environment: EnvironmentId, before: Timestamp) -> Result<u64> {
        const SQL: &str =
            "DELETE FROM token WHERE environment_id = $1 AND (revoked_us < $2 OR expires_us < $2)";
        let n_purged = write!(self.db, pool => {
            sqlx::query(SQL).bind(environment.to_string()).bind(before.0).execute(pool).await?.rows_affected()
        });
        Ok(n_purged)
    }

    /// A token that is shown now; `None`: nobody made it, or its environment is gone. Notes the use, to the minute.
    pub async fn token_use(&self, jti: uuid::Uuid) -> Result<Option<Token>> {
        const USED: &str = "UPDATE token SET last_used_us = $2 WHERE jti = $1";
        const SQL: &str = select!("WHERE jti = $1");
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(jti.to_string()).fetch_optional(pool).await?
        });
        let token = row.and_then(Row::into_token);
        let now = Timestamp::now();
        let is_new = |last: Timestamp| now.since(last) >= USE_EVERY;
        if token
            .as_ref()
            .is_some_and(|token| token.revoked.is_none() && token.last_used.is_none_or(is_new))
        {
            write!(self.db, pool => {
                sqlx::query(USED).bind(jti.to_string()).bind(now.0).execute(pool).await?.rows_affected()
            });
        }
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{check, environment};

    #[tokio::test]
    async fn a_token_is_listed_used_and_revoked_in_its_environment_only() {
        check(|store| async move {
            let (id, other) = (environment(&store).await, environment(&store).await);
            let jti = uuid::Uuid::new_v4();
            let made = Token {
                jti,
                environment: id,
                client_types: "api".to_owned(),
                issued: Timestamp(7),
                expires: Some(Timestamp(9)),
                revoked: None,
                last_used: None,
            };
            store.token_register(&made).await.unwrap();
            let listed = store.token_list(id).await.unwrap();
            assert_eq!(listed, std::slice::from_ref(&made));
            assert!(store.token_list(other).await.unwrap().is_empty());
            assert_eq!(store.token_use(jti).await.unwrap(), Some(made));
            let used = store.token_list(id).await.unwrap()[0].last_used;
            assert!(used.is_some());
            store.token_use(jti).await.unwrap();
            assert_eq!(store.token_list(id).await.unwrap()[0].last_used, used);
            assert!(!store.token_revoke(other, jti).await.unwrap());
            assert!(store.token_revoke(id, jti).await.unwrap());
            let revoked = store.token_use(jti).await.unwrap().unwrap().revoked;
            assert!(revoked.is_some());
            assert!(
                store.token_revoke(id, jti).await.unwrap(),
                "twice is no error"
            );
            let again = store.token_use(jti).await.unwrap().unwrap().revoked;
            assert_eq!(again, revoked);
            assert_eq!(store.token_use(uuid::Uuid::new_v4()).await.unwrap(), None);
            assert_eq!(store.token_purge(id, Timestamp(9)).await.unwrap(), 0);
            assert_eq!(store.token_purge(other, Timestamp(10)).await.unwrap(), 0);
            assert_eq!(store.token_purge(id, Timestamp(10)).await.unwrap(), 1);
            assert_eq!(store.token_use(jti).await.unwrap(), None);
        })
        .await;
    }
}
