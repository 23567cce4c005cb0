//! The URL of a PostgreSQL database, which may hold a password.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use super::{Error, Result, Store};

impl Store {
    /// Whether `url` can be the address of a PostgreSQL database. Connects to nothing.
    ///
    /// # Errors
    /// It is not one.
    pub fn check_postgres(url: &str) -> Result<()> {
        PgConnectOptions::from_str(url)
            .map(|_| ())
            .map_err(|source| Error::Open {
                url: shown(url),
                source,
            })
    }
}

/// For people: host and database, without what may be secret.
pub(super) fn shown(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    place.rsplit('@').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[test]
fn a_password_of_the_database_is_never_shown() {
    for url in [
        "postgres://u:p4ss@host:5432/db",
        "postgres://host:5432/db?user=u&password=p4ss",
        "postgres://u:p@4ss@host:5432/db?sslmode=disable",
    ] {
        assert_eq!(shown(url), "host:5432/db");
    }
    let error = Store::check_postgres("postgres://u:p4ss@host:port/db").unwrap_err();
    assert!(!crate::domain::chain(&error).contains("p4ss"), "{error}");
}
