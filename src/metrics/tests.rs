use std::collections::BTreeMap;

use super::{AGENT_COUNT, COMPILE_TIME, RESOURCE_COUNT, measure};
use crate::domain::{AgentName, SUMMARY_STATES, Timestamp, VersionNumber};
use crate::store::tests::{check, environment, resource, state, store_version};

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
        let agents = [AgentName::new("a"), AgentName::new("b")];
        let states = [state("x"), state("y")];
        store
            .version_activate(id, VersionNumber::new(1), &states, &[], &agents)
            .await
            .unwrap();
        store.agent_pause(id, Some(&agents[1]), true).await.unwrap();
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
        assert_eq!(resources.len(), SUMMARY_STATES.len());
        assert_eq!(resources["available"], 2, "{resources:?}");
        assert_eq!(resources.values().sum::<i64>(), 2);
        let agents = of(AGENT_COUNT).await;
        assert_eq!((agents["paused"], agents["up"], agents["down"]), (1, 1, 0));
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
        assert_eq!(left.await.unwrap().len(), SUMMARY_STATES.len());
    })
    .await;
}
