//! Every test here runs on SQLite, and on PostgreSQL when `STEWARD_TEST_POSTGRES` names a server.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::domain::{
    ActionId, ActionKind, AgentName, Blocked, Change, EnvironmentId, FactSource, LastRun,
    ProjectId, ResourceId, ResourceStatus, Timestamp, VersionNumber,
};

/// Runs a test on every database there is.
pub(crate) async fn check<F: Future<Output = ()>>(test: impl Fn(Store) -> F) {
    let dir = tempfile::tempdir().unwrap();
    test(
        Store::open_sqlite(&dir.path().join("steward.db"))
            .await
            .unwrap(),
    )
    .await;
    check_on_postgres(async |url| test(Store::open_postgres(&url).await.unwrap()).await).await;
}

/// Runs a test with the URL of a fresh database, if there is a server; the database goes again, however the test ends.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub(in crate::store) async fn check_on_postgres(test: impl AsyncFnOnce(String)) {
    let url = match std::env::var("STEWARD_TEST_POSTGRES") {
        Ok(url) => url,
        Err(_) if std::env::var("CI").is_ok() => {
            panic!("CI must name a PostgreSQL server in STEWARD_TEST_POSTGRES")
        }
        Err(_) => {
            eprintln!("SKIPPED on PostgreSQL: STEWARD_TEST_POSTGRES is not set");
            return;
        }
    };
    let name = format!("steward_{}", uuid::Uuid::new_v4().simple());
    let admin = PgPool::connect(&url).await.unwrap();
    sqlx::query(&format!("CREATE DATABASE {name}"))
        .execute(&admin)
        .await
        .unwrap();
    let base = url.rsplit_once('/').unwrap().0;
    let outcome = AssertUnwindSafe(test(format!("{base}/{name}")))
        .catch_unwind()
        .await;
    sqlx::query(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .execute(&admin)
        .await
        .unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

pub(crate) async fn environment(store: &Store) -> EnvironmentId {
    let project = ProjectId::generate();
    store
        .project_create(project, &format!("p-{project}"))
        .await
        .unwrap();
    let id = EnvironmentId::generate();
    let new = NewEnvironment {
        id,
        project_id: project,
        name: "prod".into(),
        description: String::new(),
        icon: String::new(),
        repo_url: "/repo".into(),
        repo_branch: "main".into(),
        variables: BTreeMap::from([("A".into(), "1".into())]),
    };
    store.environment_create(&new).await.unwrap();
    id
}

pub(crate) fn resource(name: &str, value: &str, set: &str) -> StoredResource {
    StoredResource {
        digest: String::new(),
        resource_id: ResourceId::new(format!("t::R[a,name={name}]")),
        resource_type: "t::R".into(),
        agent: AgentName::new("a"),
        id_attribute: "name".into(),
        id_value: name.into(),
        attributes: json!({"name": name, "value": value}).to_string(),
        attribute_hash: format!("hash-{value}"),
        requires: vec![],
        is_undefined: false,
        set_name: set.into(),
        created: Timestamp(0),
    }
    .with_digest()
}

pub(crate) async fn store_version(
    store: &Store,
    id: EnvironmentId,
    resources: Vec<StoredResource>,
) -> (VersionNumber, SetChange) {
    store_either(store, id, resources, true).await
}

/// A version that nobody has released.
async fn store_unreleased(
    store: &Store,
    id: EnvironmentId,
    resources: Vec<StoredResource>,
) -> VersionNumber {
    store_either(store, id, resources, false).await.0
}

async fn store_either(
    store: &Store,
    id: EnvironmentId,
    resources: Vec<StoredResource>,
    release: bool,
) -> (VersionNumber, SetChange) {
    let request = CompileRequest {
        environment_id: id,
        do_export: true,
        update: true,
        metadata: json!({"type": "test"}),
        variables: BTreeMap::new(),
    };
    let compile = store.compile_request(&request).await.unwrap();
    store.compile_claim(id, Lane::Exports, None).await.unwrap();
    let end = CompileEnd {
        id: compile,
        served: vec![],
        outcome: Outcome::Compiled,
        diagnostics: json!([]),
        commit_id: Some("c".into()),
        tree_id: Some("t".into()),
        inputs_digest: None,
        result_digest: None,
    };
    let new = NewVersion {
        environment_id: id,
        commit_id: Some("c".into()),
        tree_id: Some("t".into()),
        metadata: json!({}),
        modules: json!([]),
        unknowns: json!([]),
        agent_places: Default::default(),
        resources,
        release,
        sent: crate::store::Sent::default(),
    };
    let stored = store.version_store(&new, &end).await.unwrap();
    let compile = store.compile_fetch(compile).await.unwrap().unwrap();
    assert_eq!(compile.version, Some(stored.0));
    stored
}

async fn names(store: &Store, id: EnvironmentId, version: VersionNumber) -> Vec<String> {
    let resources = store.resource_list(id, version).await.unwrap();
    resources
        .into_iter()
        .map(|resource| format!("{}={}", resource.id_value, resource.attribute_hash))
        .collect()
}

#[tokio::test]
async fn a_version_that_changes_one_set_writes_that_set_only() {
    check(|store| async move {
        let id = environment(&store).await;
        let set = |n: usize, value: &str| {
            (0..10)
                .map(|i| resource(&format!("{n}-{i}"), value, &format!("s{n}")))
                .collect::<Vec<_>>()
        };
        let all: Vec<_> = (0..20).flat_map(|n| set(n, "x")).collect();
        let (first, change) = store_version(&store, id, all.clone()).await;
        assert_eq!(
            (first.get(), change),
            (
                1,
                SetChange {
                    n_sets_written: 20,
                    n_resources_written: 200
                }
            )
        );
        let (same, change) = store_version(&store, id, all.clone()).await;
        assert_eq!((same.get(), change), (2, SetChange::default()));
        let mut other = all.clone();
        other[5] = resource("0-5", "y", "s0");
        let (third, change) = store_version(&store, id, other).await;
        assert_eq!(
            (third.get(), change),
            (
                3,
                SetChange {
                    n_sets_written: 1,
                    n_resources_written: 1
                }
            )
        );
        // Each version still reads as it was stored, and a revert writes what it changes.
        assert!(
            names(&store, id, VersionNumber::new(2))
                .await
                .contains(&"0-5=hash-x".to_owned())
        );
        assert!(
            names(&store, id, VersionNumber::new(3))
                .await
                .contains(&"0-5=hash-y".to_owned())
        );
        let (fourth, change) = store_version(&store, id, all).await;
        assert_eq!(
            (fourth.get(), change),
            (
                4,
                SetChange {
                    n_sets_written: 1,
                    n_resources_written: 1
                }
            )
        );
        assert_eq!(
            names(&store, id, VersionNumber::new(4)).await,
            names(&store, id, VersionNumber::new(1)).await
        );
        assert_eq!(names(&store, id, VersionNumber::new(4)).await.len(), 200);
    })
    .await;
}

#[tokio::test]
async fn the_changes_between_two_versions_are_what_a_full_comparison_says() {
    check(|store| async move {
        let id = environment(&store).await;
        let v1 = vec![
            resource("a", "1", ""),
            resource("b", "1", "s"),
            resource("c", "1", "s"),
            resource("d", "1", "t"),
        ];
        let v2 = vec![
            resource("a", "1", ""),
            resource("b", "2", "s"),
            resource("c", "1", "u"),
        ];
        let v3 = vec![
            resource("a", "1", ""),
            resource("b", "2", "s"),
            resource("d", "1", "t"),
            resource("e", "1", ""),
        ];
        for resources in [v1, v2, v3] {
            store_version(&store, id, resources).await;
        }
        for (from, to) in [(1, 2), (2, 3), (1, 3)] {
            let (from, to) = (VersionNumber::new(from), VersionNumber::new(to));
            let all = |resources: Vec<StoredResource>| {
                resources
                    .into_iter()
                    .map(|r| (r.resource_id, r.digest))
                    .collect::<BTreeMap<_, _>>()
            };
            let old = all(store.resource_list(id, from).await.unwrap());
            let new = all(store.resource_list(id, to).await.unwrap());
            let (changed, removed) = store.resource_changes(id, from, to).await.unwrap();
            // The released version 2 did not have it.
            let returned = |id: &ResourceId| (from.get(), to.get()) == (1, 3) && id.value() == "d";
            let expected: Vec<_> = new
                .iter()
                .filter(|(id, digest)| returned(id) || old.get(*id) != Some(*digest))
                .collect();
            let changed: BTreeMap<_, _> = changed
                .into_iter()
                .map(|r| (r.resource_id, r.digest))
                .collect();
            assert_eq!(changed.iter().collect::<Vec<_>>(), expected, "{from} {to}");
            let expected: Vec<_> = old
                .keys()
                .filter(|id| returned(id) || !new.contains_key(*id))
                .cloned()
                .collect();
            assert_eq!(removed, expected, "{from} {to}");
        }
    })
    .await;
}

//: deploy 116, 117, 118
#[tokio::test]
async fn fifteen_equal_requests_are_claimed_at_once_and_others_are_not() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut request = CompileRequest {
            environment_id: id,
            do_export: true,
            update: false,
            metadata: json!({"type": "api"}),
            variables: BTreeMap::new(),
        };
        for n in 0..15 {
            request.update = n == 7;
            store.compile_request(&request).await.unwrap();
        }
        request.variables.insert("X".into(), "1".into());
        store.compile_request(&request).await.unwrap();
        let claimed = store.compile_claim(id, Lane::Exports, None).await.unwrap();
        assert_eq!(claimed.len(), 15);
        let joint = claimed[0].joined_with(&claimed[1..]);
        assert!(joint.update, "one of them asked for an update");
        assert_eq!(
            store
                .compile_requeue_interrupted(id, Lane::Exports)
                .await
                .unwrap(),
            15
        );
        assert_eq!(
            store
                .compile_claim(id, Lane::Exports, None)
                .await
                .unwrap()
                .len(),
            15
        );
        let other = store.compile_claim(id, Lane::Exports, None).await.unwrap();
        assert_eq!(other.len(), 1);
        assert_eq!(other[0].variables.get("X").map(String::as_str), Some("1"));
    })
    .await;
}

#[tokio::test]
async fn a_redelivered_webhook_is_recorded_once() {
    check(|store| async move {
        let id = environment(&store).await;
        let delivery = Delivery {
            hook_id: "h".into(),
            delivery_id: "d".into(),
            environment_id: id,
            event: "push".into(),
        };
        assert!(store.delivery_record(&delivery, "push").await.unwrap());
        let look = store.refresh_fetch(id).await.unwrap().unwrap();
        assert!(!store.delivery_record(&delivery, "push").await.unwrap());
        store.refresh_done(id, &look).await.unwrap();
        assert!(store.refresh_fetch(id).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_wish_to_look_that_comes_during_a_look_is_not_lost() {
    check(|store| async move {
        let id = environment(&store).await;
        store.refresh_request(id, "api", "first").await.unwrap();
        let look = store.refresh_fetch(id).await.unwrap().unwrap();
        store.refresh_request(id, "api", "second").await.unwrap();
        store.refresh_done(id, &look).await.unwrap();
        assert_eq!(
            store.refresh_fetch(id).await.unwrap().unwrap().message,
            "second"
        );
    })
    .await;
}

pub(crate) fn state(name: &str) -> ResourceState {
    ResourceState {
        resource_id: ResourceId::new(format!("t::R[a,name={name}]")),
        resource_type: "t::R".into(),
        agent: AgentName::new("a"),
        id_value: name.into(),
        created: Timestamp(1),
        orphaned_after: None,
        is_undefined: false,
        is_deploying: false,
        blocked: Blocked::NotBlocked,
        intent_hash: "h".into(),
        deployed_hash: None,
        deployed_version: None,
        last_run: LastRun::New,
        last_run_compliant: None,
        last_run_at: None,
        last_success: None,
        last_events: None,
        last_change: None,
        last_status: ResourceStatus::Available,
        n_failures: 0,
    }
}

/// Given: agents of which one is paused, one is away, others were, and one that no version named yet. Expected: the first two are
/// those that stand still.
#[tokio::test]
async fn agents_that_stand_still_are_found_among_all() {
    check(|store| async move {
        let id = environment(&store).await;
        let names: Vec<AgentName> = (0..700)
            .map(|n| AgentName::new(format!("a{n:03}")))
            .collect();
        store
            .version_activate(id, VersionNumber::new(1), &[], &[], &names)
            .await
            .unwrap();
        let unknown = AgentName::new("unknown");
        let most: Vec<&AgentName> = names[1..].iter().chain([&unknown]).collect();
        let since = Some(Timestamp(7));
        store.agent_set_away(id, &most, since).await.unwrap();
        store.agent_set_away(id, &most[1..], None).await.unwrap();
        assert!(store.agent_pause(id, Some(&names[9]), true).await.unwrap());
        let still = store.agent_still(id).await.unwrap();
        let found: Vec<_> = still
            .iter()
            .map(|agent| (agent.name.as_str(), agent.paused, agent.away_since()))
            .collect();
        assert_eq!(found, [("a001", false, since), ("a009", true, None)]);
    })
    .await;
}

#[tokio::test]
async fn a_run_opens_an_action_and_its_end_closes_it_with_the_state() {
    check(|store| async move {
        let id = environment(&store).await;
        store
            .version_activate(
                id,
                VersionNumber::new(1),
                &[state("x"), state("y")],
                &[],
                &[AgentName::new("a")],
            )
            .await
            .unwrap();
        let action = ActionId::generate();
        let start = ActionStart {
            id: action,
            action: ActionKind::Deploy,
            version: VersionNumber::new(1),
            resource_id: state("x").resource_id,
            started: Timestamp(5),
        };
        store.action_write(id, &[start], &[]).await.unwrap();
        assert_eq!(
            store
                .state_fetch(id, &state("x").resource_id)
                .await
                .unwrap()
                .unwrap()
                .status(),
            ResourceStatus::Deploying
        );
        let after = ResourceState {
            deployed_hash: Some("h".into()),
            last_run: LastRun::Successful,
            last_run_compliant: Some(true),
            last_status: ResourceStatus::Deployed,
            ..state("x")
        };
        let end = ActionEnd {
            id: action,
            finished: Timestamp(9),
            status: ResourceStatus::Deployed,
            change: Change::Created,
            changes: "{}".into(),
            messages: "[]".into(),
            state: Some(after.clone()),
            facts: vec![("f".into(), "1".into(), true)],
            discovered: vec![],
            resource_id: after.resource_id.clone(),
        };
        store
            .action_write(id, &[], &[end.clone(), end])
            .await
            .unwrap();
        assert_eq!(
            store
                .state_fetch(id, &after.resource_id)
                .await
                .unwrap()
                .unwrap(),
            after
        );
        let history = store
            .action_list(id, Some(&after.resource_id), 10)
            .await
            .unwrap();
        assert_eq!(history.len(), 1);
        assert_eq!(history[0].change, Some(Change::Created));
        let found = async |agent: &str, from: super::ActionFrom| {
            let search = super::ActionSearch {
                agent: Some(agent.into()),
                ..Default::default()
            };
            let plan = store.action_plan(id, search).await.unwrap();
            store.action_search(id, &plan, from, 10).await.unwrap()
        };
        let (agent, newest) = (after.agent.as_str(), super::ActionFrom::Newest);
        let all = found(agent, newest).await;
        assert_eq!(all.len(), 1);
        assert!(found("%", newest).await.is_empty() && found("other", newest).await.is_empty());
        assert!(found(agent, newest.behind(&all[0])).await.is_empty());
        assert_eq!(store.action_close_interrupted(None).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_was_running_at_a_crash_is_closed_and_no_longer_deploying() {
    check(|store| async move {
        let id = environment(&store).await;
        store
            .version_activate(id, VersionNumber::new(1), &[state("x")], &[], &[])
            .await
            .unwrap();
        let start = ActionStart {
            id: ActionId::generate(),
            action: ActionKind::Deploy,
            version: VersionNumber::new(1),
            resource_id: state("x").resource_id,
            started: Timestamp(5),
        };
        store.action_write(id, &[start], &[]).await.unwrap();
        let close = async |of| store.action_close_interrupted(of).await.unwrap();
        assert_eq!(close(Some(EnvironmentId::generate())).await, 0);
        assert_eq!(close(Some(id)).await, 1);
        assert_eq!(close(None).await, 0);
        let counts = store.state_counts(id).await.unwrap();
        assert_eq!(counts.values().sum::<i64>(), 1, "{counts:?}");
        let after = store
            .state_fetch(id, &state("x").resource_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (after.is_deploying, after.last_run),
            (false, LastRun::Failed)
        );
        // It may have changed something.
        assert_eq!(after.last_change, Some(Timestamp(5)));
    })
    .await;
}

//: deploy 30
#[tokio::test]
async fn retention_keeps_the_newest_and_drops_content_that_nobody_has() {
    check(|store| async move {
        let id = environment(&store).await;
        for n in 1..=5 {
            store_version(
                &store,
                id,
                vec![resource("a", &n.to_string(), ""), resource("b", "1", "s")],
            )
            .await;
        }
        assert_eq!(store.version_purge(id, 2, Timestamp(0)).await.unwrap(), 2);
        let left: Vec<i64> = store
            .version_list(id, 10)
            .await
            .unwrap()
            .iter()
            .map(|version| version.number.get())
            .collect();
        assert_eq!(left, [5, 4, 3]);
        assert_eq!(
            names(&store, id, VersionNumber::new(3)).await,
            ["a=hash-3", "b=hash-1"]
        );
        assert_eq!(
            store
                .resource_history(id, &ResourceId::new("t::R[a,name=a]"))
                .await
                .unwrap()
                .len(),
            3
        );
    })
    .await;
}

#[tokio::test]
async fn all_that_versions_need_is_shown_whatever_environment_has_it() {
    check(|store| async move {
        for value in ["x", "y"] {
            let id = environment(&store).await;
            store_version(&store, id, vec![resource("one", value, "")]).await;
        }
        assert_eq!(store.version_modules().await.unwrap(), [json!([])]);
        let mut seen = BTreeSet::new();
        let see = |attributes: &str| seen.extend([attributes.to_owned()]);
        store.resource_attributes(see).await.unwrap();
        let expected = ["x", "y"].map(|value| resource("one", value, "").attributes);
        assert_eq!(seen, BTreeSet::from(expected));
    })
    .await;
}

#[tokio::test]
async fn a_history_has_what_was_in_a_version_that_was_released() {
    check(|store| async move {
        let id = environment(&store).await;
        let one = |value: &str| vec![resource("a", value, "s")];
        let history = || async {
            let all = store.resource_history(id, &one("")[0].resource_id).await;
            let all = all.unwrap().into_iter().map(|one| one.attributes);
            all.collect::<Vec<_>>()
        };
        let of = |values: &[&str]| {
            let contents = values
                .iter()
                .map(|value| resource("a", value, "s").attributes);
            contents.collect::<Vec<_>>()
        };
        let number = store_unreleased(&store, id, one("1")).await;
        assert_eq!(history().await, of(&[]));
        store.version_release(id, number).await.unwrap();
        assert_eq!(history().await, of(&["1"]));
        store_unreleased(&store, id, one("2")).await;
        store_version(&store, id, one("3")).await;
        assert_eq!(history().await, of(&["3", "1"]));
        // The content of a version that was not released, and stays in one that was.
        let stays = store_unreleased(&store, id, one("4")).await;
        let next = store_unreleased(&store, id, one("4")).await;
        assert!(stays < next);
        store.version_release(id, next).await.unwrap();
        assert_eq!(history().await, of(&["4", "3", "1"]));
        // One that comes back is what the resource has now.
        store_version(&store, id, one("1")).await;
        assert_eq!(history().await, of(&["1", "4", "3", "1"]));
        // It was away, or another one in a version that was not released.
        store_version(&store, id, Vec::new()).await;
        store_unreleased(&store, id, one("5")).await;
        store_version(&store, id, one("1")).await;
        assert_eq!(history().await, of(&["1", "4", "3", "1"]));
    })
    .await;
}

#[tokio::test]
async fn what_resources_of_many_versions_require_is_one_question() {
    check(|store| async move {
        let id = environment(&store).await;
        let of = |names: [&str; 2]| {
            let ids = names.map(|name| resource(name, "1", "").resource_id);
            let mut needs = resource("a", "1", "");
            needs.requires = vec![ids[1].clone()];
            vec![needs.with_digest(), resource(names[1], "1", "")]
        };
        let (first, _) = store_version(&store, id, of(["a", "b"])).await;
        let (second, _) = store_version(&store, id, of(["a", "c"])).await;
        let [a, b, c] = ["a", "b", "c"].map(|name| resource(name, "1", "").resource_id);
        let wanted = [(&a, first), (&c, second), (&b, second)];
        let found = store.resource_requires_in(id, &wanted).await.unwrap();
        assert_eq!(found.get(&a), Some(&vec![b.clone()]));
        assert_eq!(found.get(&c), Some(&vec![]));
        assert_eq!(found.get(&b), None);
        let found = store.resource_requires_in(id, &[(&a, second)]).await;
        assert_eq!(found.unwrap().get(&a), Some(&vec![c]));
        assert!(
            store
                .resource_requires_in(id, &[])
                .await
                .unwrap()
                .is_empty()
        );
    })
    .await;
}

//: deploy 25
#[tokio::test]
async fn releasing_twice_or_backwards_is_a_conflict() {
    check(|store| async move {
        let id = environment(&store).await;
        store_version(&store, id, vec![resource("a", "1", "")]).await;
        assert!(matches!(
            store.version_release(id, VersionNumber::new(1)).await,
            Err(Error::Conflict(_))
        ));
        assert!(matches!(
            store.version_release(id, VersionNumber::new(9)).await,
            Err(Error::NotFound(_))
        ));
    })
    .await;
}

#[tokio::test]
async fn deleting_an_environment_leaves_nothing_of_it() {
    check(|store| async move {
        let id = environment(&store).await;
        store_version(&store, id, vec![resource("a", "1", "")]).await;
        store
            .setting_set(id, "auto_deploy", &json!(false))
            .await
            .unwrap();
        assert!(!store.settings_fetch(id).await.unwrap().auto_deploy());
        assert!(store.environment_delete(id).await.unwrap());
        assert!(store.environment_fetch(id).await.unwrap().is_none());
        assert!(store.version_list(id, 10).await.unwrap().is_empty());
        assert!(!store.environment_delete(id).await.unwrap());
    })
    .await;
}

/// Given: an environment that is deleted while others write something of it. Expected: they hear that it is no more, and not that
/// the database failed.
#[tokio::test]
async fn what_belongs_to_nothing_any_more_is_not_found() {
    check(|store| async move {
        let gone = EnvironmentId::generate();
        let set = store.setting_set(gone, "auto_deploy", &json!(false)).await;
        assert!(matches!(set, Err(Error::NotFound(_))), "{set:?}");
    })
    .await;
}

/// Given: an environment that is cleared again and again while others halt it, change it and set something. Expected: it is never
/// away for them, and what they did is done, whichever came first.
#[tokio::test]
async fn an_environment_that_is_cleared_is_there_all_the_time() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut named = store.environment_fetch(id).await.unwrap().unwrap();
        for round in 0..30 {
            let halts = round % 2 == 0;
            named.description = format!("round {round}");
            let value = json!(round);
            let done = tokio::join!(
                store.environment_clear(id),
                store.environment_clear(id),
                store.environment_halt(id, halts),
                store.environment_update(&named),
                store.setting_set(id, "recompile_backoff", &value),
                store.version_reserve(id),
            );
            done.0.unwrap();
            done.1.unwrap();
            done.2.unwrap();
            done.3.unwrap();
            done.4.unwrap();
            assert_eq!(done.5.unwrap(), VersionNumber::new(round + 1));
            let now = store.environment_fetch(id).await.unwrap().unwrap();
            assert_eq!((now.halted, &now.description), (halts, &named.description));
        }
    })
    .await;
}

#[tokio::test]
async fn texts_with_nul_are_stored_on_every_database() {
    check(|store| async move {
        let id = environment(&store).await;
        store
            .version_activate(id, VersionNumber::new(1), &[state("x")], &[], &[])
            .await
            .unwrap();
        let action = ActionId::generate();
        let resource_id = state("x").resource_id;
        let started = Timestamp(5);
        let start = ActionStart {
            id: action,
            action: ActionKind::Deploy,
            version: VersionNumber::new(1),
            resource_id: resource_id.clone(),
            started,
        };
        let end = ActionEnd {
            id: action,
            finished: Timestamp(9),
            status: ResourceStatus::Deployed,
            change: Change::NoChange,
            changes: "{}".into(),
            messages: "[]".into(),
            state: None,
            facts: vec![("a\0b".into(), "c\0d".into(), true)],
            discovered: vec![],
            resource_id,
        };
        store.action_write(id, &[start], &[end]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_removed_resource_is_orphaned_after_the_version_that_was_in_force() {
    check(|store| async move {
        let id = environment(&store).await;
        store
            .version_activate(id, VersionNumber::new(1), &[state("x")], &[], &[])
            .await
            .unwrap();
        let removed = [state("x").resource_id];
        store
            .version_activate(id, VersionNumber::new(5), &[], &removed, &[])
            .await
            .unwrap();
        assert_eq!(
            store
                .state_fetch(id, &removed[0])
                .await
                .unwrap()
                .unwrap()
                .orphaned_after,
            Some(VersionNumber::new(1))
        );
    })
    .await;
}

/// Given: connections that are on their way back into their pools. Expected: they are closed with it, so that the write-ahead log
/// is merged and gone (on a slow machine it stayed).
#[tokio::test]
async fn connections_on_their_way_back_are_closed_with_their_pool() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(&dir.path().join("steward.db"))
            .await
            .unwrap();
        let Db::Sqlite { read, write, .. } = &store.db else {
            unreachable!()
        };
        drop(read.acquire().await.unwrap());
        drop(write.acquire().await.unwrap());
        // Their way back begins, and they are asked whether they still work.
        tokio::task::yield_now().await;
        store.close().await;
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

/// Input: the disk is full in a transaction (docs/reference/security.md § 3.33). Answer: an error, nothing half written, and it goes on.
#[tokio::test]
async fn a_full_disk_stops_writes_with_an_error_and_they_go_on_when_there_is_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(&dir.path().join("steward.db"))
        .await
        .unwrap();
    let id = environment(&store).await;
    let Db::Sqlite { write, .. } = &store.db else {
        unreachable!()
    };
    // The database may not grow: SQLite then fails as it does on a full disk.
    let (n_pages,): (i64,) = sqlx::query_as("PRAGMA page_count")
        .fetch_one(write)
        .await
        .unwrap();
    sqlx::query(&format!("PRAGMA max_page_count = {n_pages}"))
        .execute(write)
        .await
        .unwrap();
    let many: Vec<ResourceState> = (0..2000).map(|n| state(&format!("r{n}"))).collect();
    let full = store
        .version_activate(id, VersionNumber::new(1), &many, &[], &[])
        .await
        .unwrap_err();
    assert!(crate::domain::chain(&full).contains("full"), "{full:?}");
    // The API says so, with when to come again.
    assert!(full.outage().is_some_and(|text| text.contains("full")));
    // The connection that hit the limit is gone, and with it the limit.
    store
        .version_activate(id, VersionNumber::new(1), &many, &[], &[])
        .await
        .unwrap();
    assert_eq!(store.state_list(id).await.unwrap().len(), 2000);
}

#[tokio::test]
async fn a_task_that_is_ended_in_a_transaction_leaves_the_next_one_in_peace() {
    check(|store| async move {
        for polls in 0..40 {
            let id = environment(&store).await;
            let mut ended = Box::pin(store.environment_delete(id));
            for _ in 0..polls {
                if futures_util::poll!(&mut ended).is_ready() {
                    break;
                }
                // Time for the connection's own thread.
                tokio::time::sleep(std::time::Duration::from_micros(200)).await;
            }
            drop(ended);
            store.environment_delete(id).await.unwrap();
            assert!(store.environment_fetch(id).await.unwrap().is_none());
        }
    })
    .await;
}

/// Input: a handler that tells a fact with a new name in each run (docs/reference/security.md § 4.8). Answer: a resource has 5000 facts at most.
#[tokio::test]
async fn a_resource_has_only_so_many_facts_and_known_ones_still_change() {
    check(|store| async move {
        let id = environment(&store).await;
        let fact = |name: &str, value: &str| Fact {
            resource_id: Some(ResourceId::new("a::B[c,d=e]")),
            name: name.into(),
            value: value.into(),
            source: FactSource::Fact,
            metadata: json!({}),
            expires: true,
            updated: Timestamp::now(),
        };
        let facts = (0..6000)
            .map(|n| (format!("f{n}"), "v".to_owned(), true))
            .collect();
        let start = ActionStart {
            id: ActionId::generate(),
            action: ActionKind::Deploy,
            version: VersionNumber::new(1),
            resource_id: ResourceId::new("a::B[c,d=e]"),
            started: Timestamp::now(),
        };
        let end = ActionEnd {
            id: start.id,
            finished: Timestamp::now(),
            status: ResourceStatus::Deployed,
            change: Change::NoChange,
            changes: "{}".into(),
            messages: "[]".into(),
            state: None,
            facts,
            discovered: Vec::new(),
            resource_id: ResourceId::new("a::B[c,d=e]"),
        };
        store.action_write(id, &[start], &[end]).await.unwrap();
        assert_eq!(store.fact_list(id).await.unwrap().len(), 5000);
        assert!(store.fact_set(id, &fact("f0", "new")).await.unwrap());
        let refused = store.fact_set(id, &fact("another", "v")).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused:?}");
    })
    .await;
}

/// Whoever tries again for ever, as compile loops do after a failure of the database, would be held up by one text.
#[tokio::test]
async fn a_text_that_a_database_cannot_hold_is_refused_and_is_no_failure_of_the_database() {
    check(|store| async move {
        match store.project_create(ProjectId::generate(), "a\0b").await {
            Err(Error::Refused(message)) => assert!(message.contains("NUL"), "{message}"),
            // SQLite can.
            Ok(project) => assert!(store.project_delete(project.id).await.unwrap()),
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}
