//! Numbers that are kept up with are those that counting gives.

use std::collections::BTreeMap;

use serde_json::json;
use steward_lsm::Attributes;
use steward_lsm::lifecycle::{Request, Trigger};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::{EnvironmentId, Timestamp};
use crate::lsm::{Creation, Services};
use crate::store::tests::{check, environment};
use crate::store::{
    CatalogChange, Cause, Column, Definition, InstanceSearch, InstanceSpan, Result, Store,
};

/// Two versions of a service whose instances go to and fro, and end.
pub(in crate::store::service) async fn define(store: &Store, environment: EnvironmentId) {
    let versions = [0, 1].map(|version| {
        let record = json!({"name": "link", "version": version, "attributes": [], "lifecycle": {
            "name": "l", "initial_state": "a",
            "states": [{"name": "a"}, {"name": "b"}, {"name": "gone", "deleted": true}],
            "transfers": [
                {"source": "a", "target": "b", "api_set_state": true},
                {"source": "b", "target": "a", "api_set_state": true},
                {"source": "a", "target": "gone", "on_delete": true},
            ],
        }});
        Definition::of_record(record, BTreeMap::new(), version == 1, true).unwrap()
    });
    let plan = |_: &_| {
        Ok(CatalogChange {
            put: versions.to_vec(),
            ..CatalogChange::default()
        })
    };
    let keep = |_: &_, _: &_, _: &_| Ok(None);
    let put = store.service_catalog_change(environment, Timestamp::now(), plan, keep);
    put.await.unwrap();
}

const EVERYTHING: InstanceSpan = InstanceSpan {
    column: Column::Id,
    is_descending: false,
    greater: None,
    smaller: None,
    limit: i64::MAX,
};

/// All searches by group, each with a word that every id has, so that the database counts.
async fn compare(store: &Store, environment: EnvironmentId) -> Result<()> {
    let versions = [vec![], vec![(" = ", 1)], vec![(" >= ", 0), (" < ", 1)]];
    for is_deleted in [None, Some(true), Some(false)] {
        for states in [vec![], vec!["a"], vec!["b", "gone"]] {
            for versions in versions.clone() {
                let search = InstanceSearch {
                    entity: "link".to_owned(),
                    is_deleted,
                    states: states.iter().map(|state| (*state).to_owned()).collect(),
                    versions,
                    ..InstanceSearch::default()
                };
                let counting = InstanceSearch {
                    words: vec!["-".to_owned()],
                    ..search.clone()
                };
                let kept = store.service_count(environment, &search, &EVERYTHING);
                let counted = store.service_count(environment, &counting, &EVERYTHING);
                assert_eq!(kept.await?, counted.await?, "{search:?}");
            }
        }
    }
    Ok(())
}

/// Given: instances of two versions that are made, moved and ended, some in vain. Expected: after each step, whatever is asked for
/// is as many as the database counts; and an environment that is cleared has none.
#[tokio::test]
async fn numbers_follow_what_happens_to_instances() {
    check(|store| async move {
        let here = environment(&store).await;
        define(&store, here).await;
        let services = Services::new(store.clone(), CancellationToken::new());
        let mut ids: Vec<Uuid> = Vec::new();
        for step in 0..60_usize {
            let chosen = ids.get(step * 7 % ids.len().max(1)).copied();
            if let Some(instance) = chosen.filter(|_| step % 3 > 0) {
                let target = if step % 2 == 0 { "a" } else { "b" };
                let trigger = match step % 5 {
                    0 => Trigger::Deleted,
                    _ => Trigger::SetState {
                        target: target.to_owned(),
                        message: None,
                    },
                };
                let request = Request {
                    trigger,
                    current_version: None,
                    correlation_id: Uuid::new_v4(),
                };
                let cause = Cause {
                    instance,
                    ..Cause::default()
                };
                // Some are where they shall go already, or have ended.
                let _ = services.change(here, &cause, &request).await;
            } else {
                let creation = Creation {
                    entity: "link".to_owned(),
                    version: Some(step as u64 % 2),
                    attributes: Attributes::new(),
                    ..Creation::default()
                };
                let created = services.create(here, &creation).await.unwrap();
                ids.push(created.instance.id);
                let again = Creation {
                    id: Some(created.instance.id),
                    ..creation
                };
                services.create(here, &again).await.unwrap_err();
            }
            compare(&store, here).await.unwrap();
        }
        let kept = store.service_numbers(here, "link").await.unwrap();
        assert!(kept.len() > 4, "{kept:?}");
        store.environment_clear(here).await.unwrap();
        assert!(
            store
                .service_numbers(here, "link")
                .await
                .unwrap()
                .is_empty()
        );
    })
    .await;
}

/// Given: numbers of instances that all have moved on. Expected: the rows that say nothing go, and the others stay.
#[tokio::test]
async fn rows_that_count_nothing_are_removed() {
    check(|store| async move {
        let here = environment(&store).await;
        define(&store, here).await;
        let services = Services::new(store.clone(), CancellationToken::new());
        let creation = Creation {
            entity: "link".to_owned(),
            version: Some(1),
            attributes: Attributes::new(),
            ..Creation::default()
        };
        let created = services.create(here, &creation).await.unwrap();
        let request = Request {
            trigger: Trigger::SetState {
                target: "b".to_owned(),
                message: None,
            },
            current_version: None,
            correlation_id: Uuid::new_v4(),
        };
        let cause = Cause {
            instance: created.instance.id,
            ..Cause::default()
        };
        services.change(here, &cause, &request).await.unwrap();
        let numbers = store.service_numbers(here, "link").await.unwrap();
        assert_eq!(numbers.len(), 1);
        assert_eq!(store.service_count_purge(here).await.unwrap(), 1);
        let left = store.service_numbers(here, "link").await.unwrap();
        assert_eq!(left, numbers);
    })
    .await;
}
