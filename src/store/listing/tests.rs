//! Lists of states against the states themselves.

use std::collections::BTreeMap;

use super::*;
use crate::domain::{Blocked, EnvironmentId, LastRun, ResourceId, VersionNumber};
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{ResourceState, Store};

/// A state of every combination of what the status is derived from.
fn all_states() -> Vec<ResourceState> {
    let mut states = Vec::new();
    for orphaned_after in [None, Some(VersionNumber::new(3))] {
        for is_deploying in [false, true] {
            for is_undefined in [false, true] {
                for blocked in [
                    Blocked::NotBlocked,
                    Blocked::Blocked,
                    Blocked::TemporarilyBlocked,
                ] {
                    for deployed_hash in [None, Some("intent"), Some("other")] {
                        for last_status in [
                            ResourceStatus::Available,
                            ResourceStatus::Deployed,
                            ResourceStatus::Failed,
                        ] {
                            let n = states.len();
                            states.push(ResourceState {
                                resource_id: ResourceId::new(format!(
                                    "t::R[Host-{},name={n:03}]",
                                    n % 3
                                )),
                                agent: crate::domain::AgentName::new(format!("Host-{}", n % 3)),
                                orphaned_after,
                                is_deploying,
                                is_undefined,
                                blocked,
                                intent_hash: "intent".into(),
                                deployed_hash: deployed_hash.map(crate::domain::SharedText::from),
                                last_status,
                                last_run: LastRun::Successful,
                                ..state(&format!("{n:03}"))
                            });
                        }
                    }
                }
            }
        }
    }
    states.sort_by(|a, b| a.resource_id.cmp(&b.resource_id));
    states
}

fn tally(states: &[ResourceState]) -> BTreeMap<ResourceStatus, i64> {
    let mut tally = BTreeMap::new();
    for state in states {
        *tally.entry(state.status()).or_default() += 1;
    }
    tally
}

async fn counts(store: &Store, id: EnvironmentId) -> BTreeMap<ResourceStatus, i64> {
    let mut counts = store.state_counts(id).await.unwrap();
    counts.retain(|_, n| *n != 0);
    counts
}

/// Source: docs/reference/deployment.md § 3.3.
#[tokio::test]
async fn the_database_derives_the_status_that_we_derive_and_counts_it() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut states = all_states();
        let one = VersionNumber::new(1);
        store
            .version_activate(id, one, &states, &[], &[])
            .await
            .unwrap();
        assert_eq!(counts(&store, id).await, tally(&states));
        // Each gets the content of another, and some go.
        let contents = states.clone();
        let n_states = states.len();
        for (n, state) in states.iter_mut().enumerate() {
            *state = ResourceState {
                resource_id: state.resource_id.clone(),
                ..contents[(n * 7 + 3) % n_states].clone()
            };
        }
        let removed: Vec<ResourceId> = states
            .iter()
            .step_by(5)
            .map(|s| s.resource_id.clone())
            .collect();
        store
            .version_activate(id, VersionNumber::new(2), &states, &removed, &[])
            .await
            .unwrap();
        let states = store.state_list(id).await.unwrap();
        let counted = counts(&store, id).await;
        assert_eq!(counted, tally(&states));
        for status in ResourceStatus::words() {
            let status = ResourceStatus::parse(status).unwrap();
            let search = Search {
                statuses: Some(vec![status]),
                ..Search::default()
            };
            let page = store
                .state_page(id, &search, &counted, &Span::first(1000))
                .await
                .unwrap();
            let expected: Vec<_> = states
                .iter()
                .filter(|s| s.status() == status)
                .cloned()
                .collect();
            assert_eq!(page, expected, "{status:?}");
        }
        // A cut while resources are deployed, and the start after it.
        store.action_close_interrupted(None).await.unwrap();
        let states = store.state_list(id).await.unwrap();
        assert!(states.iter().all(|state| !state.is_deploying));
        assert_eq!(counts(&store, id).await, tally(&states));
    })
    .await;
}

#[tokio::test]
async fn pages_of_states_are_what_a_full_list_cut_by_hand_has() {
    check(|store| async move {
        let id = environment(&store).await;
        let states = all_states();
        let one = VersionNumber::new(1);
        let agents = [0, 1, 2].map(|n| crate::domain::AgentName::new(format!("Host-{n}")));
        store
            .version_activate(id, one, &states, &[], &agents)
            .await
            .unwrap();
        let counts = store.state_counts(id).await.unwrap();
        let statuses = |of: &[ResourceStatus]| Some(of.to_vec());
        let searches = [
            (None, vec![]),
            (statuses(&[ResourceStatus::Orphaned]), vec![]),
            (
                statuses(&[
                    ResourceStatus::Deployed,
                    ResourceStatus::Failed,
                    ResourceStatus::Deploying,
                ]),
                vec![],
            ),
            (statuses(&[ResourceStatus::Dry]), vec![]),
            (None, vec!["hOST-1".to_owned(), "nowhere".to_owned()]),
            (
                statuses(&[ResourceStatus::Undefined, ResourceStatus::Available]),
                vec!["-2".to_owned()],
            ),
        ];
        for (statuses, agents) in searches {
            let wanted = |state: &&ResourceState| {
                statuses
                    .as_ref()
                    .is_none_or(|all| all.contains(&state.status()))
                    && (agents.is_empty()
                        || agents.iter().any(|agent| {
                            state
                                .agent
                                .as_str()
                                .to_lowercase()
                                .contains(&agent.to_lowercase())
                        }))
            };
            let search = Search {
                statuses: statuses.clone(),
                agents: agents.clone(),
                ..Search::default()
            };
            for at in [0, 50, 100, 215] {
                for is_last in [false, true] {
                    for limit in [1, 10, 300] {
                        let key = Some(Edge {
                            key: Key::of(states[at].resource_id.as_str()),
                            // Rows that stand on the edge, and rows that do not.
                            is_included: limit == 10,
                        });
                        let span = if is_last {
                            Span {
                                before: key,
                                is_last,
                                limit,
                                after: None,
                            }
                        } else {
                            Span {
                                after: key,
                                is_last,
                                limit,
                                before: None,
                            }
                        };
                        let inside = states.iter().filter(|state| {
                            wanted(state) && span.has(&Key::of(state.resource_id.as_str()))
                        });
                        let mut inside: Vec<ResourceState> = inside.cloned().collect();
                        let n_wanted = usize::try_from(limit).unwrap();
                        if is_last {
                            inside.drain(..inside.len().saturating_sub(n_wanted));
                        } else {
                            inside.truncate(n_wanted);
                        }
                        let page = store.state_page(id, &search, &counts, &span).await.unwrap();
                        assert_eq!(page, inside, "{search:?} {span:?}");
                    }
                }
            }
            let n_all = states.iter().filter(wanted).count() as i64;
            let n_found = store
                .state_count(id, &search, &counts, &Span::first(1000))
                .await
                .unwrap();
            assert_eq!(n_found, n_all, "{search:?}");
        }
    })
    .await;
}

/// Which of these are searched for, and where; newest versions have what older ones have not.
async fn check_found(
    store: &Store,
    id: EnvironmentId,
    search: &Search,
    there: &[&str],
    in_version: &[(i64, &[&str])],
) {
    let counts = store.state_counts(id).await.unwrap();
    for is_last in [false, true] {
        let span = Span {
            is_last,
            ..Span::first(1000)
        };
        let page = store.state_page(id, search, &counts, &span).await.unwrap();
        let found: Vec<&str> = page.iter().map(|one| &*one.id_value).collect();
        assert_eq!(found, there, "{search:?}");
        let n_found = store.state_count(id, search, &counts, &span).await.unwrap();
        assert_eq!(n_found, there.len() as i64, "{search:?}");
        for (version, expected) in in_version {
            let number = VersionNumber::new(*version);
            let page = store
                .resource_page(id, number, search, &span)
                .await
                .unwrap();
            let found: Vec<&str> = page.iter().map(|one| &*one.id_value).collect();
            assert_eq!(found, *expected, "{search:?} {version}");
            let n_found = store
                .resource_count(id, number, search, &span)
                .await
                .unwrap();
            assert_eq!(n_found, expected.len() as i64, "{search:?} {version}");
        }
    }
}

#[tokio::test]
async fn a_part_of_a_value_is_found_in_states_and_versions_also_when_it_came_after_a_search() {
    check(|store| async move {
        let id = environment(&store).await;
        let search = Search {
            values: vec!["B".to_owned(), "zz".to_owned()],
            ..Search::default()
        };
        check_found(&store, id, &search, &[], &[(1, &[])]).await;
        let resources = |names: &[&str]| -> Vec<_> {
            names.iter().map(|name| resource(name, "1", "")).collect()
        };
        store_version(&store, id, resources(&["abc", "ac", "cBa"])).await;
        check_found(&store, id, &search, &[], &[(1, &["abc", "cBa"])]).await;
        let states = [state("abc"), state("ac"), state("cBa")];
        let (one, two) = (VersionNumber::new(1), VersionNumber::new(2));
        store
            .version_activate(id, one, &states, &[], &[])
            .await
            .unwrap();
        check_found(
            &store,
            id,
            &search,
            &["abc", "cBa"],
            &[(1, &["abc", "cBa"])],
        )
        .await;
        // Something new, and something that is no more.
        store_version(&store, id, resources(&["ab\u{1f}c", "ac", "b"])).await;
        let versions: [(i64, &[&str]); 2] = [(1, &["abc", "cBa"]), (2, &["ab\u{1f}c", "b"])];
        check_found(&store, id, &search, &["abc", "cBa"], &versions).await;
        let removed = [state("abc").resource_id, state("cBa").resource_id];
        let states = [state("ab\u{1f}c"), state("b")];
        store
            .version_activate(id, two, &states, &removed, &[])
            .await
            .unwrap();
        let all = ["ab\u{1f}c", "abc", "b", "cBa"];
        check_found(&store, id, &search, &all, &versions).await;
        let orphans = Search {
            statuses: Some(vec![ResourceStatus::Orphaned]),
            ..search.clone()
        };
        check_found(&store, id, &orphans, &["abc", "cBa"], &[]).await;
        // A server that starts now reads all of them anew.
        store.names.forget(id);
        check_found(&store, id, &search, &all, &versions).await;
        store.environment_clear(id).await.unwrap();
        check_found(&store, id, &search, &[], &[(2, &[])]).await;
    })
    .await;
}
