use std::collections::BTreeMap;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    AGENT_COUNT, COMPILE_TIME, RESOURCE_COUNT, SERVICE_COUNT, SERVICE_INSTANCE_COUNT, measure,
};
use crate::domain::{AgentName, SUMMARY_STATES, Timestamp, VersionNumber};
use crate::lsm::{Creation, Services};
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{CatalogChange, Definition};

//: deploy 140, 142
#[tokio::test]
async fn what_is_measured_of_a_minute_is_what_there_is_and_what_was_compiled() {
    check(|store| async move {
        let id = environment(&store).await;
        let before = Timestamp::now();
        store_version(
            &store,
            id,
            vec![resource("x", "1", ""), resource("y", "1", "")],
        )
        .await;
        let agents = ["a", "b", "c", "d"].map(AgentName::new);
        let states = [state("x"), state("y")];
        store
            .version_activate(id, VersionNumber::new(1), &states, &[], &agents)
            .await
            .unwrap();
        store.agent_pause(id, Some(&agents[1]), true).await.unwrap();
        // One that is away, and one that is paused and away.
        for away in [&agents[2], &agents[1]] {
            let since = Some(Timestamp::now());
            store.agent_set_away(id, &[away], since).await.unwrap();
        }
        let now = Timestamp(Timestamp::now().0 + 1);
        measure(&store, before, now).await.unwrap();
        let (from, to) = (now, Timestamp(now.0 + 1));
        let of = async |name: &str| {
            let found = store.metrics_of(id, name, from, to).await.unwrap();
            let values = found.into_iter();
            values
                .map(|one| (one.category, one.total))
                .collect::<BTreeMap<_, _>>()
        };
        let resources = of(RESOURCE_COUNT).await;
        assert_eq!(resources.len(), SUMMARY_STATES.len() + 1);
        assert_eq!(resources["dry"], 0, "{resources:?}");
        assert_eq!(resources["available"], 2, "{resources:?}");
        assert_eq!(resources.values().sum::<i64>(), 2);
        let agents = of(AGENT_COUNT).await;
        assert_eq!((agents["paused"], agents["up"], agents["down"]), (1, 2, 1));
        let compiles = store.metrics_of(id, COMPILE_TIME, from, to).await.unwrap();
        assert_eq!(compiles.len(), 1, "one compile ended");
        assert_eq!(compiles[0].n_values, 1);
        // A minute without a compile has no value, and what is there for a minute stays.
        let later = Timestamp(now.0 + 10);
        measure(&store, now, later).await.unwrap();
        let (from, to) = (later, Timestamp(later.0 + 1));
        let none = store.metrics_of(id, COMPILE_TIME, from, to).await.unwrap();
        assert!(none.is_empty());
        assert!(store.metrics_purge(id, later).await.unwrap() > 0);
        let left = store.metrics_of(id, RESOURCE_COUNT, before, Timestamp(later.0 + 1));
        assert_eq!(left.await.unwrap().len(), SUMMARY_STATES.len() + 1);
    })
    .await;
}

//: lsm 97
/// Given: a service in two versions with instances of both, and an environment without services. Expected: the instances of both
/// are counted under the labels of their states, and nothing is stored where there is no service.
#[tokio::test]
async fn services_and_their_instances_are_counted_where_there_are_services() {
    check(|store| async move {
        let (id, bare) = (environment(&store).await, environment(&store).await);
        let versions = [(0, "info"), (1, "success")].map(|(version, label)| {
            let record = json!({"name": "s", "version": version, "attributes": [], "lifecycle": {
                "name": "l", "initial_state": "start",
                "states": [{"name": "start", "label": label}, {"name": "odd"}],
                "transfers": [{"source": "start", "target": "odd", "api_set_state": true}],
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
        let before = Timestamp::now();
        let put = store.service_catalog_change(id, before, plan, keep);
        put.await.unwrap();
        let services = Services::new(store.clone(), CancellationToken::new());
        for (version, n_instances) in [(0, 1), (1, 2)] {
            for _ in 0..n_instances {
                let creation = Creation {
                    entity: "s".to_owned(),
                    version: Some(version),
                    id: None,
                    attributes: steward_lsm::Attributes::new(),
                    initial_state: None,
                    config: BTreeMap::new(),
                    correlation_id: None,
                };
                services.create(id, &creation).await.unwrap();
            }
        }
        let now = Timestamp(Timestamp::now().0 + 1);
        measure(&store, before, now).await.unwrap();
        let of = async |environment, name: &str| {
            let found = store.metrics_of(environment, name, now, Timestamp(now.0 + 1));
            let values = found.await.unwrap().into_iter();
            values
                .map(|one| (one.category, one.total))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(
            of(id, SERVICE_COUNT).await,
            BTreeMap::from([(String::new(), 1)])
        );
        let counts = of(id, SERVICE_INSTANCE_COUNT).await;
        let counts: Vec<(&str, i64)> = counts
            .iter()
            .map(|(label, n)| (label.as_str(), *n))
            .collect();
        let expected = [
            ("danger", 0),
            ("info", 1),
            ("no_label", 0),
            ("success", 2),
            ("warning", 0),
        ];
        assert_eq!(counts, expected);
        for name in [SERVICE_COUNT, SERVICE_INSTANCE_COUNT] {
            assert!(of(bare, name).await.is_empty(), "{name}");
        }
    })
    .await;
}
