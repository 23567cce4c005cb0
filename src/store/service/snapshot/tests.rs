//! What a compile is given of the inventory.

use std::collections::BTreeSet;

use steward_compiler::{ServiceAnswer, ServiceInstances, ServicePurpose, ServiceQuestion};

use crate::domain::EnvironmentId;
use crate::store::macros::transaction;
use crate::store::tests::{check, environment};
use crate::store::{Db, Result, Store};

/// Writes rows of instances: service, number, number of the owner, whether it has ended.
async fn write(
    store: &Store,
    environment: EnvironmentId,
    rows: &[(&str, u32, Option<u32>, bool)],
) -> Result<()> {
    const SQL: &str = "INSERT INTO service_instance (environment_id, id, entity, entity_version, version, \
                       desired_state_version, state, owner_id, config, metadata, is_deleted, created_us, updated_us) \
                       VALUES ($1, $2, $3, 0, 1, 1, 'up', $4, '{}', '{}', $5, $6, 0)";
    transaction!(store.db, tx => {
        for (service, number, owner, is_deleted) in rows {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(id(*number))
                .bind(*service)
                .bind(owner.map(id))
                .bind(*is_deleted)
                .bind(i64::from(*number))
                .execute(&mut *tx)
                .await?;
        }
    });
    Ok(())
}

fn id(number: u32) -> String {
    format!("{number:08}-0000-4000-8000-000000000000")
}

fn ids(instances: &ServiceInstances) -> BTreeSet<String> {
    let all = instances.values().flatten();
    all.map(|instance| instance.id.clone()).collect()
}

#[tokio::test]
//: lsm 90
async fn a_partial_compile_is_given_the_trees_of_owners_of_what_it_is_for_and_nothing_else() {
    check(|store| async move {
        let (here, elsewhere) = (environment(&store).await, environment(&store).await);
        let rows = [
            ("site", 1, None, false),
            ("link", 2, Some(1), false),
            ("link", 3, Some(1), true),
            ("port", 4, Some(2), false),
            ("site", 5, None, false),
            ("link", 6, Some(5), false),
            // An owner that is gone, and two that own one another.
            ("link", 7, Some(99), false),
            ("link", 8, Some(9), false),
            ("link", 9, Some(8), false),
        ];
        write(&store, here, &rows).await.unwrap();
        write(&store, elsewhere, &[("link", 10, Some(1), false)])
            .await
            .unwrap();
        for (requested, expected) in [
            (vec![4], vec![1, 2, 3, 4]),
            (vec![3], vec![1, 2, 3, 4]),
            (vec![5, 6], vec![5, 6]),
            (vec![2, 6, 1], vec![1, 2, 3, 4, 5, 6]),
            (vec![7], vec![7]),
            (vec![8], vec![8, 9]),
            (vec![10, 42], vec![]),
        ] {
            let asked = requested.iter().map(|number| id(*number)).collect();
            let input = store.services_input(here, ServicePurpose::Production, Some(asked));
            let input = input.await.unwrap();
            let expected: BTreeSet<String> = expected.into_iter().map(id).collect();
            assert_eq!(ids(&input.instances), expected, "{requested:?}");
            assert!(input.has_more);
        }
        let all = store.services_input(here, ServicePurpose::Production, None);
        let all = all.await.unwrap();
        assert_eq!((ids(&all.instances).len(), all.has_more), (9, false));
        let none = store.services_input(here, ServicePurpose::Definitions, None);
        assert!(none.await.unwrap().instances.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_compile_may_ask_for_an_instance_or_for_all_of_a_service() {
    check(|store| async move {
        let id_of = environment(&store).await;
        assert!(!store.services_any(id_of).await.unwrap());
        let rows = [("site", 1, None, true), ("link", 2, Some(1), true)];
        write(&store, id_of, &rows).await.unwrap();
        assert!(!store.services_any(id_of).await.unwrap(), "all have ended");
        write(&store, id_of, &[("link", 3, Some(1), false)])
            .await
            .unwrap();
        assert!(store.services_any(id_of).await.unwrap());
        for (question, expected) in [
            (ServiceQuestion::Service("link".to_owned()), vec![2, 3]),
            (ServiceQuestion::Service("router".to_owned()), vec![]),
            (ServiceQuestion::Instance(id(1)), vec![1]),
            (ServiceQuestion::Instance("1' OR 1=1".to_owned()), vec![]),
        ] {
            let found = store.services_ask(id_of, question.clone()).await.unwrap();
            let Ok(ServiceAnswer::Instances(found)) = found else {
                panic!("{found:?}")
            };
            let expected: BTreeSet<String> = expected.into_iter().map(id).collect();
            assert_eq!(ids(&found), expected, "{question:?}");
        }
    })
    .await;
}

/// How a database goes about a statement about instances: where it looks at them.
async fn looks(store: &Store, sql: &str, n_parameters: usize) -> Vec<String> {
    let details: Vec<String> = match &store.db {
        Db::Sqlite { read, .. } => {
            let sql = format!("EXPLAIN QUERY PLAN {sql}");
            let mut query = sqlx::query_as(&sql);
            for number in 0..n_parameters {
                query = query.bind(number.to_string());
            }
            let rows: Vec<(i64, i64, i64, String)> = query.fetch_all(read).await.unwrap();
            rows.into_iter().map(|row| row.3).collect()
        }
        Db::Postgres { pool, .. } => {
            let sql = format!("EXPLAIN {sql}");
            let mut query = sqlx::query_scalar(&sql);
            for number in 0..n_parameters {
                query = query.bind(number.to_string());
            }
            query.fetch_all(pool).await.unwrap()
        }
    };
    let of_instances =
        |detail: &String| detail.contains("environment_id") || detail.contains("service_instance");
    details.into_iter().filter(of_instances).collect()
}

/// Given: 30 000 instances, of which PostgreSQL knows, and none has an owner. Expected: to read two of them with their trees
/// of owners, or two that have changed, neither database goes through all.
#[tokio::test]
async fn what_is_read_for_some_instances_is_looked_for_by_their_ids_however_many_others_there_are()
{
    const FILL: &str = "INSERT INTO service_instance (environment_id, id, entity, entity_version, version, \
                        desired_state_version, state, config, metadata, is_deleted, created_us, updated_us) \
                        SELECT $1, 'i' || n, 'site', 0, 1, 1, 'up', '{}', '{}', FALSE, 0, 0 \
                        FROM generate_series(1, 30000) AS n";
    check(|store| async move {
        let is_postgres = match &store.db {
            Db::Sqlite { .. } => false,
            Db::Postgres { pool, .. } => {
                let here = environment(&store).await.to_string();
                let fill = sqlx::query(FILL).bind(here);
                fill.execute(pool).await.unwrap();
                let looked = sqlx::query("ANALYZE service_instance");
                looked.execute(pool).await.unwrap();
                true
            }
        };
        let trees = looks(&store, &super::trees_of(2, is_postgres), 3).await;
        let used = looks(&store, &crate::store::service::used::some_of(2), 4).await;
        let there = crate::store::service::instance::there_of(2);
        let there = looks(&store, &there, 3).await;
        let n_looks = [trees.len(), used.len(), there.len()];
        assert!(
            trees.len() > 3 && n_looks.iter().all(|n| *n > 0),
            "{n_looks:?}"
        );
        for look in trees.iter().chain(&used).chain(&there) {
            let by_one = match is_postgres {
                true => !look.contains("Seq Scan"),
                false => look.contains("AND id=?") || look.contains("AND owner_id=?"),
            };
            assert!(by_one, "all instances are looked at: {look}");
        }
    })
    .await;
}
