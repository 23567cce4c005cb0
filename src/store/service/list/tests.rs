//! Pages of instances: in order, complete, and read at the place where they begin.

use sqlx::{QueryBuilder, Sqlite};

use super::*;
use crate::store::macros::transaction;
use crate::store::tests::{check, environment};
use crate::store::{Db, Result, Store};

const COLUMNS: [Column; 5] = [
    Column::Created,
    Column::Updated,
    Column::State,
    Column::Id,
    Column::Identity,
];

/// Writes so many instances, of which several have the same time, state and no identity.
async fn write(store: &Store, environment: EnvironmentId, n_instances: i64) -> Result<()> {
    const SQL: &str = "INSERT INTO service_instance (environment_id, id, entity, entity_version, version, \
                       desired_state_version, state, identity, config, metadata, is_deleted, created_us, updated_us) \
                       VALUES ($1, $2, 'link', 0, 1, 1, $3, $4, '{}', '{}', $5, $6, $7)";
    const COUNTED: &str = "INSERT INTO service_count (environment_id, entity, entity_version, state, is_deleted, shard, \
                           n_instances) SELECT environment_id, entity, entity_version, state, is_deleted, 0, COUNT(*) \
                           FROM service_instance GROUP BY environment_id, entity, entity_version, state, is_deleted";
    transaction!(store.db, tx => {
        for number in 0..n_instances {
            let identity = (number % 4 != 0).then(|| format!("site {}", 97 * number % 100));
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(format!("{:08}-0000-4000-8000-000000000000", 37 * number % 100))
                .bind(["up", "creating", "up"][usize::try_from(number % 3).unwrap_or(0)])
                .bind(identity)
                .bind(number % 10 == 9)
                .bind(number / 5)
                .bind(number % 7)
                .execute(&mut *tx)
                .await?;
        }
        sqlx::query(COUNTED).execute(&mut *tx).await?;
    });
    Ok(())
}

fn present() -> InstanceSearch {
    InstanceSearch {
        entity: "link".to_owned(),
        is_deleted: Some(false),
        ..InstanceSearch::default()
    }
}

fn span(column: Column, is_descending: bool, beyond: Option<&Instance>) -> InstanceSpan {
    let place = beyond.map(|row| (Place::of(column, row), Some(row.id.to_string())));
    let (greater, smaller) = if is_descending {
        (None, place)
    } else {
        (place, None)
    };
    InstanceSpan {
        column,
        is_descending,
        greater,
        smaller,
        limit: 7,
    }
}

/// What a row is sorted by.
fn key(column: Column, row: &Instance) -> (i64, String, String) {
    let (number, text) = match Place::of(column, row) {
        Place::Number(number) => (number, String::new()),
        Place::Text(text) => (0, text),
    };
    (number, text, row.id.to_string())
}

/// Given: 60 instances, many of which are equal in what the list is sorted by. Expected: pages of seven, each behind the last
/// row of the one before, have each of them once and in order, up and down; what is before a page is counted right.
#[tokio::test]
async fn pages_behind_one_another_are_the_whole_list_by_each_column() {
    check(|store| async move {
        let here = environment(&store).await;
        write(&store, here, 60).await.unwrap();
        let search = present();
        for column in COLUMNS {
            for is_descending in [false, true] {
                let mut rows: Vec<Instance> = Vec::new();
                loop {
                    let span = span(column, is_descending, rows.last());
                    let page = store.service_page(here, &search, &span).await.unwrap();
                    let n_rest = store.service_count(here, &search, &span).await.unwrap();
                    assert_eq!(n_rest, 54 - i64::try_from(rows.len()).unwrap());
                    if page.is_empty() {
                        break;
                    }
                    rows.extend(page);
                }
                let keys: Vec<_> = rows.iter().map(|row| key(column, row)).collect();
                let mut expected = keys.clone();
                expected.sort();
                expected.dedup();
                if is_descending {
                    expected.reverse();
                }
                assert_eq!(keys, expected, "{column:?}, descending: {is_descending}");
                assert_eq!(rows.len(), 54);
            }
        }
    })
    .await;
}

/// How SQLite goes about a statement.
async fn plan(store: &Store, query: &QueryBuilder<'_, Sqlite>) -> Vec<String> {
    let Db::Sqlite { read, .. } = &store.db else {
        return Vec::new();
    };
    let sql = format!("EXPLAIN QUERY PLAN {}", query.sql());
    let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(&sql).fetch_all(read).await.unwrap();
    rows.into_iter().map(|row| row.3).collect()
}

/// Given: the statements for the first page and for one behind a row, by each column. Expected: no list is sorted, and a later
/// page is read from the row on, and no row before it.
#[tokio::test]
async fn a_page_is_read_where_it_begins_by_each_column() {
    check(|store| async move {
        let here = environment(&store).await;
        write(&store, here, 1).await.unwrap();
        let search = present();
        let all = span(Column::Created, false, None);
        let row = store.service_page(here, &search, &all).await.unwrap();
        let is_sqlite = matches!(store.db, Db::Sqlite { .. });
        for column in COLUMNS {
            for is_descending in [false, true] {
                let first = span(column, is_descending, None);
                let later = span(column, is_descending, row.first());
                let first = plan(&store, &page_query!(here, &search, None, &first, true)).await;
                let count = plan(&store, &count_query!(here, &search, None, &later, true)).await;
                let later = plan(&store, &page_query!(here, &search, None, &later, true)).await;
                for looks in [&first, &later, &count] {
                    let is_sorted = looks.iter().any(|look| look.contains("B-TREE"));
                    assert!(!is_sorted, "{column:?}: {looks:?}");
                    assert_eq!(looks.len(), usize::from(is_sqlite), "{looks:?}");
                }
                for look in later.iter().chain(&count) {
                    let begins_there = look.contains('>') || look.contains('<');
                    assert!(begins_there, "{column:?}: {look}");
                }
            }
        }
    })
    .await;
}
