//! Databases that older servers wrote are upgraded with what is in them.

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{PgPool, SqlitePool};

use super::{Dialect, migrator};
use crate::domain::EnvironmentId;
use crate::store::tests::check_on_postgres;
use crate::store::{DiscoveredOrder, DiscoveredSearch, Span, Store};

/// The schema as it was after the migration `number`.
fn schema_of(number: i64, dialect: Dialect) -> Migrator {
    let mut old = migrator(dialect);
    old.migrations
        .to_mut()
        .retain(|step| step.version <= number);
    old
}

const OLD_ROWS: &str = "\
    INSERT INTO project (id, name, created_us) VALUES ('p', 'infra', 1); \
    INSERT INTO environment (id, project_id, name, repo_url, repo_branch, created_us) \
    VALUES ('018f0000-0000-7000-8000-000000000001', 'p', 'prod', '/repo', 'main', 1); \
    INSERT INTO repository_look (environment_id, requested_us, trigger_kind, message) \
    VALUES ('018f0000-0000-7000-8000-000000000001', 7, 'webhook', 'a push');";

/// What an old server asked for is asked for still, and can be asked for again.
async fn check_upgraded(store: &Store) {
    let id: EnvironmentId = "018f0000-0000-7000-8000-000000000001".parse().unwrap();
    let request = store.refresh_fetch(id).await.unwrap().unwrap();
    assert_eq!(
        (
            request.requested_us,
            &*request.trigger_kind,
            &*request.message
        ),
        (7, "webhook", "a push")
    );
    store.refresh_request(id, "poll", "again").await.unwrap();
    store.refresh_done(id, &request).await.unwrap();
    let later = store.refresh_fetch(id).await.unwrap().unwrap();
    assert!(later.requested_us > 7);
    store.refresh_done(id, &later).await.unwrap();
    assert!(store.refresh_fetch(id).await.unwrap().is_none());
}

#[tokio::test]
async fn an_sqlite_database_of_an_older_server_keeps_its_refresh_requests() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steward.db");
    let options = SqliteConnectOptions::new().filename(&path);
    let old = SqlitePool::connect_with(options.create_if_missing(true));
    let old = old.await.unwrap();
    schema_of(3, Dialect::Sqlite).run(&old).await.unwrap();
    sqlx::raw_sql(OLD_ROWS).execute(&old).await.unwrap();
    old.close().await;
    check_upgraded(&Store::open_sqlite(&path).await.unwrap()).await;
}

#[tokio::test]
async fn a_postgresql_database_of_an_older_server_keeps_its_refresh_requests() {
    check_on_postgres(async |url| {
        let old = PgPool::connect(&url).await.unwrap();
        schema_of(3, Dialect::Postgres).run(&old).await.unwrap();
        sqlx::raw_sql(OLD_ROWS).execute(&old).await.unwrap();
        old.close().await;
        check_upgraded(&Store::open_postgres(&url).await.unwrap()).await;
    })
    .await;
}

const ROWS_BEFORE_22: &str = "\
    INSERT INTO project (id, name, created_us) VALUES ('p', 'infra', 1); \
    INSERT INTO environment (id, project_id, name, repo_url, repo_branch, created_us) \
    VALUES ('018f0000-0000-7000-8000-000000000001', 'p', 'prod', '/repo', 'main', 1); \
    INSERT INTO fact (environment_id, resource_id, name, value, expires, updated_us) \
    VALUES ('018f0000-0000-7000-8000-000000000001', '', 'a', '', TRUE, 1), \
    ('018f0000-0000-7000-8000-000000000001', 't::R[a,n=1]', 'a', '', TRUE, 1), \
    ('018f0000-0000-7000-8000-000000000001', 't::R[a,n=2]', 'a', '', TRUE, 1); \
    INSERT INTO discovered_resource (environment_id, resource_id, found, discovery_resource_id, discovered_us) \
    VALUES ('018f0000-0000-7000-8000-000000000001', 't::R[b,n=x=1,[2]', '{}', 'd', 1), \
    ('018f0000-0000-7000-8000-000000000001', 't::A::B[a]c,n]=Ä é\n.]', '{}', 'd', 1), \
    ('018f0000-0000-7000-8000-000000000001', 'R[a,n=1]', '{}', 'd', 1), \
    ('018f0000-0000-7000-8000-000000000001', 't::R[a,n=]', '{}', 'd', 1), \
    ('018f0000-0000-7000-8000-000000000001', 't::R[,n=1]', '{}', 'd', 1), \
    ('018f0000-0000-7000-8000-000000000001', 'none', '{}', 'd', 1);";

/// What was discovered is sorted and searched by the parts of its id, as if it was found now, and all rows are counted.
async fn check_lists(store: &Store) {
    let id: EnvironmentId = "018f0000-0000-7000-8000-000000000001".parse().unwrap();
    for (list, n_rows) in [("fact", 2), ("parameter", 1), ("discovered_resource", 6)] {
        assert_eq!(store.row_count(id, list).await.unwrap(), n_rows, "{list}");
    }
    for order in [
        DiscoveredOrder::Type,
        DiscoveredOrder::Agent,
        DiscoveredOrder::Value,
    ] {
        let (search, all) = (DiscoveredSearch::default(), Span::first(100));
        let page = store.discovered_page(id, &search, order, &all);
        let before = page.await.unwrap();
        let ids = before.iter().map(|(_, entry)| &entry.resource_id);
        let found = store.discovered_some(id, ids).await.unwrap();
        store.discovered_set(id, &found).await.unwrap();
        for one in &found {
            store.discovered_delete(id, &one.resource_id).await.unwrap();
        }
        store.discovered_set(id, &found).await.unwrap();
        let page = store.discovered_page(id, &search, order, &all);
        assert_eq!(page.await.unwrap(), before, "{order:?}");
    }
}

#[tokio::test]
async fn lists_of_an_older_sqlite_database_are_those_that_would_be_written_now() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("steward.db");
    let options = SqliteConnectOptions::new().filename(&path);
    let old = SqlitePool::connect_with(options.create_if_missing(true));
    let old = old.await.unwrap();
    schema_of(21, Dialect::Sqlite).run(&old).await.unwrap();
    sqlx::raw_sql(ROWS_BEFORE_22).execute(&old).await.unwrap();
    old.close().await;
    check_lists(&Store::open_sqlite(&path).await.unwrap()).await;
}

#[tokio::test]
async fn lists_of_an_older_postgresql_database_are_those_that_would_be_written_now() {
    check_on_postgres(async |url| {
        let old = PgPool::connect(&url).await.unwrap();
        schema_of(21, Dialect::Postgres).run(&old).await.unwrap();
        sqlx::raw_sql(ROWS_BEFORE_22).execute(&old).await.unwrap();
        old.close().await;
        check_lists(&Store::open_postgres(&url).await.unwrap()).await;
    })
    .await;
}
