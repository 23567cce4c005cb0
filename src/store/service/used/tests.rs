//! What is remembered of values that are taken follows what happens to instances.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::Pool;

use crate::domain::EnvironmentId;
use crate::store::macros::transaction;
use crate::store::tests::{check, environment};
use crate::store::{Result, Store};

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Writes an instance of `link` with these sets, in place of what there is of that number, and tells of it.
async fn write(
    store: &Store,
    environment: EnvironmentId,
    number: u128,
    sets: [Option<Value>; 3],
    is_deleted: bool,
) -> Result<()> {
    const DELETE: &str = "DELETE FROM service_instance WHERE environment_id = $1 AND id = $2";
    const INSERT: &str = "INSERT INTO service_instance (environment_id, id, entity, entity_version, version, \
                          desired_state_version, state, candidate, active, rollback, config, metadata, is_deleted, \
                          created_us, updated_us) \
                          VALUES ($1, $2, 'link', 0, 1, 1, 'up', $3, $4, $5, '{}', '{}', $6, 0, 0)";
    let [candidate, active, rollback] = sets.map(|set| set.map(|set| set.to_string()));
    let _telling = store.remembered.telling(environment, Some(id(number)));
    transaction!(store.db, tx => {
        sqlx::query(DELETE)
            .bind(environment.to_string())
            .bind(id(number).to_string())
            .execute(&mut *tx)
            .await?;
        sqlx::query(INSERT)
            .bind(environment.to_string())
            .bind(id(number).to_string())
            .bind(candidate)
            .bind(active)
            .bind(rollback)
            .bind(is_deleted)
            .execute(&mut *tx)
            .await?;
    });
    Ok(())
}

async fn values(store: &Store, environment: EnvironmentId, without: &[u128]) -> Vec<Value> {
    let without: BTreeSet<String> = without
        .iter()
        .map(|number| id(*number).to_string())
        .collect();
    let found = store.services_values(environment, "link", "ports[name=*].vlan", &without);
    found.await.unwrap().unwrap()
}

fn ports(vlans: &[Value]) -> Option<Value> {
    let ports = vlans.iter().enumerate();
    let ports: Vec<Value> = ports
        .map(|(n, vlan)| json!({"name": n.to_string(), "vlan": vlan}))
        .collect();
    Some(json!({"ports": ports}))
}

#[tokio::test]
async fn values_that_are_taken_follow_each_change_of_an_instance() {
    check(|store| async move {
        let (here, elsewhere) = (environment(&store).await, environment(&store).await);
        let first = [ports(&[json!(1), Value::Null]), ports(&[json!(2)]), None];
        write(&store, here, 1, first, false).await.unwrap();
        write(&store, here, 2, [None, None, ports(&[json!(3)])], false)
            .await
            .unwrap();
        write(
            &store,
            elsewhere,
            1,
            [ports(&[json!(9)]), None, None],
            false,
        )
        .await
        .unwrap();
        assert_eq!(values(&store, here, &[]).await, [1, 2, 3]);
        assert_eq!(
            values(&store, here, &[1]).await,
            [3],
            "the compile knows it"
        );
        assert_eq!(values(&store, elsewhere, &[]).await, [9]);

        // Changed, ended, and new.
        write(&store, here, 1, [None, ports(&[json!(5)]), None], false)
            .await
            .unwrap();
        write(&store, here, 2, [None, None, ports(&[json!(3)])], true)
            .await
            .unwrap();
        write(&store, here, 3, [ports(&[json!(7)]), None, None], false)
            .await
            .unwrap();
        assert_eq!(values(&store, here, &[]).await, [5, 7]);
        assert_eq!(values(&store, elsewhere, &[]).await, [9]);

        // The database is the truth, whatever is remembered.
        drop(store.remembered.telling(here, None));
        assert_eq!(values(&store, here, &[]).await, [5, 7]);
        assert!(store.environment_delete(here).await.unwrap());
        assert_eq!(values(&store, here, &[]).await, Vec::<Value>::new());
    })
    .await;
}

#[tokio::test]
async fn a_free_number_is_none_of_those_that_are_taken_whatever_happens_to_instances() {
    check(|store| async move {
        let here = environment(&store).await;
        let free = async |without: &[u128], taken: &[i64], upper: i64| {
            let without = without.iter().map(|number| id(*number).to_string());
            let without: BTreeSet<String> = without.collect();
            let (lower, draw) = (1, 0);
            let pool = Pool {
                without: &without,
                taken,
                lower,
                upper,
                draw,
            };
            let found = store.services_free_number(here, "link", "ports[name=*].vlan", pool);
            found.await.unwrap().unwrap()
        };
        assert_eq!(free(&[], &[], 3).await, Some(1));
        // The same number in two sets is one number; a text and a fraction are none.
        let sets = [ports(&[json!(1)]), ports(&[json!(1), json!("2")]), None];
        write(&store, here, 1, sets, false).await.unwrap();
        write(
            &store,
            here,
            2,
            [None, ports(&[json!(3), json!(2.5)]), None],
            false,
        )
        .await
        .unwrap();
        assert_eq!(free(&[], &[], 3).await, Some(2));
        assert_eq!(free(&[], &[2], 3).await, None, "the compile has taken it");
        assert_eq!(
            free(&[1], &[2], 3).await,
            Some(1),
            "and given this one back"
        );
        assert_eq!(
            free(&[], &[], 3).await,
            Some(2),
            "as a question changes nothing"
        );
        // Changed, and ended.
        write(&store, here, 1, [None, ports(&[json!(2)]), None], false)
            .await
            .unwrap();
        assert_eq!(free(&[], &[], 3).await, Some(1));
        write(&store, here, 1, [None, ports(&[json!(1)]), None], false)
            .await
            .unwrap();
        write(&store, here, 2, [None, ports(&[json!(2)]), None], true)
            .await
            .unwrap();
        assert_eq!(free(&[], &[], 2).await, Some(2));
        // The database is the truth, whatever is remembered.
        drop(store.remembered.telling(here, None));
        assert_eq!(free(&[], &[], 2).await, Some(2));
        assert_eq!(free(&[], &[], 1).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_path_that_is_none_or_does_not_fit_has_no_values_but_a_reason() {
    check(|store| async move {
        let here = environment(&store).await;
        write(
            &store,
            here,
            1,
            [Some(json!({"ports": 3})), None, None],
            false,
        )
        .await
        .unwrap();
        for path in ["ports[", "ports[name=*].vlan"] {
            let none = BTreeSet::new();
            let found = store.services_values(here, "link", path, &none);
            let reason = found.await.unwrap().unwrap_err();
            assert!(!reason.is_empty(), "{path}");
        }
        // And when it fits, there are.
        write(&store, here, 1, [ports(&[json!(4)]), None, None], false)
            .await
            .unwrap();
        assert_eq!(values(&store, here, &[]).await, [4]);
    })
    .await;
}
