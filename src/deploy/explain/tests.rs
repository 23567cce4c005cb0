use super::*;
use crate::domain::{Blocked, FactSource, LastRun, ResourceStatus, Timestamp};
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{Fact, NewVersion};

fn id(name: &str) -> ResourceId {
    ResourceId::new(format!("t::R[a,name={name}]"))
}

/// Resources in force, each with what it requires, as a server of before stored them.
async fn in_force(store: &Store, wanted: &[(&str, &[&str])]) -> Environment {
    let environment = environment(store).await;
    let resources = wanted.iter().map(|(name, requires)| {
        let requires = requires.iter().map(|name| id(name)).collect();
        StoredResource {
            requires,
            ..resource(name, "1", "")
        }
        .with_digest()
    });
    let (version, _) = store_version(store, environment, resources.collect()).await;
    let states: Vec<ResourceState> = wanted.iter().map(|(name, _)| state(name)).collect();
    let activated = store.version_activate(environment, version, &states, &[], &[]);
    activated.await.unwrap();
    store.environment_fetch(environment).await.unwrap().unwrap()
}

/// The reasons of the chain, the text of its end, and the circle.
async fn explained(store: &Store, environment: &Environment, name: &str) -> (Vec<String>, Value) {
    let found = explain(store, environment, &id(name)).await.unwrap();
    let found = found.expect("the resource is known");
    assert_eq!(
        (&found["n_others"], &found["others"]),
        (&json!(0), &json!([]))
    );
    let links = found["chain"].as_array().unwrap();
    let shown = links.iter().map(|link| {
        let id = link["resource_id"].as_str().unwrap();
        format!("{id} {}", link["reason"].as_str().unwrap())
    });
    (shown.collect(), links.last().unwrap().clone())
}

#[tokio::test]
async fn resources_in_a_circle_wait_for_themselves() {
    check(async |store| {
        let resources: &[(&str, &[&str])] = &[
            ("one", &["two"]),
            ("two", &["three"]),
            ("three", &["two"]),
            ("self", &["self"]),
        ];
        let environment = in_force(&store, resources).await;
        let (chain, root) = explained(&store, &environment, "one").await;
        assert_eq!(chain, [
            "t::R[a,name=one] waiting",
            "t::R[a,name=two] circle"
        ]);
        assert_eq!(root["circle"], json!([id("two"), id("three")]));
        assert_eq!(
            root["text"],
            "waits for itself, and will never be deployed: t::R[a,name=two], which requires t::R[a,name=three], which \
             requires t::R[a,name=two]"
        );
        let (chain, _) = explained(&store, &environment, "three").await;
        assert_eq!(chain, ["t::R[a,name=three] circle"]);
        let (chain, root) = explained(&store, &environment, "self").await;
        assert_eq!(chain, ["t::R[a,name=self] circle"]);
        assert_eq!(root["circle"], json!([id("self")]));
    })
    .await;
}

/// Given: a chain that is longer than an explanation goes. Expected: its end is not taken for the root, and who asks for it comes
/// to that.
#[tokio::test]
async fn a_chain_that_is_cut_off_does_not_end_in_a_root() {
    check(async |store| {
        let names: Vec<String> = (0..MAX_VISITED + 10).map(|n| format!("r{n:04}")).collect();
        let next: Vec<Vec<&str>> = (1..=names.len())
            .map(|n| names.get(n).map(String::as_str).into_iter().collect())
            .collect();
        let wanted: Vec<(&str, &[&str])> = names
            .iter()
            .zip(&next)
            .map(|(name, next)| (name.as_str(), next.as_slice()))
            .collect();
        let environment = in_force(&store, &wanted).await;
        let (chain, end) = explained(&store, &environment, "r0000").await;
        assert_eq!(chain.len(), MAX_VISITED);
        assert_eq!(
            end["text"],
            "is not deployed because of something that it requires; that was not looked for any further after 30 resources: ask \
             for this resource to go on"
        );
        let (chain, end) = explained(&store, &environment, "r0029").await;
        assert_eq!(chain.len(), 11);
        assert_eq!(end["text"], "waits for its turn on agent a");
    })
    .await;
}

/// Given: a version that waits for two facts of a resource; one was set before it, and had expired when the model was compiled,
/// the other one was set since. Expected: the first one is what it waits for.
#[tokio::test]
async fn a_fact_that_had_expired_is_waited_for_and_one_that_came_since_is_not() {
    check(async |store| {
        let environment = environment(&store).await;
        let waits = StoredResource {
            is_undefined: true,
            ..resource("waits", "1", "")
        };
        let awaited = ["old", "new"].map(|name| json!({"resource": id("one"), "parameter": name}));
        let new = NewVersion {
            environment_id: environment,
            commit_id: None,
            tree_id: None,
            metadata: json!({}),
            modules: json!([]),
            unknowns: json!(awaited),
            agent_places: Default::default(),
            resources: vec![resource("one", "1", ""), waits.with_digest()],
            release: true,
            sent: crate::store::Sent::default(),
        };
        let version = store.version_reserve(environment).await.unwrap();
        store.version_store_reserved(version, &new).await.unwrap();
        let undefined = ResourceState {
            is_undefined: true,
            blocked: Blocked::Blocked,
            ..state("waits")
        };
        let states = [state("one"), undefined];
        let activated = store.version_activate(environment, version, &states, &[], &[]);
        activated.await.unwrap();
        for (name, updated) in [("old", Timestamp(5)), ("new", Timestamp::now())] {
            let fact = Fact {
                resource_id: Some(id("one")),
                name: name.to_owned(),
                value: "1".to_owned(),
                source: FactSource::Fact,
                metadata: json!({}),
                expires: true,
                updated,
            };
            store.fact_set(environment, &fact).await.unwrap();
        }
        let environment = store.environment_fetch(environment).await.unwrap().unwrap();
        let found = explain(&store, &environment, &id("waits")).await.unwrap();
        let facts = found.unwrap()["chain"][0]["awaited"]["facts"].clone();
        let names: Vec<&Value> = facts
            .as_array()
            .unwrap()
            .iter()
            .map(|fact| &fact["fact"])
            .collect();
        assert_eq!(names, ["old"]);
    })
    .await;
}

/// What else a resource waits for can be mended: it comes first.
#[tokio::test]
async fn a_resource_that_waits_for_a_circle_and_for_another_one_is_explained_by_the_other() {
    check(async |store| {
        let resources: &[(&str, &[&str])] = &[
            ("one", &["two", "other"]),
            ("two", &["one"]),
            ("other", &[]),
        ];
        let environment = in_force(&store, resources).await;
        let (chain, _) = explained(&store, &environment, "one").await;
        assert_eq!(
            chain,
            ["t::R[a,name=one] waiting", "t::R[a,name=other] waiting"]
        );
    })
    .await;
}

/// Given: a resource that failed, and one that was skipped for it, in an environment that is halted then. Expected: the root of the
/// chain says what failed, and that it is not tried again, and why.
#[tokio::test]
async fn what_failed_says_that_it_is_not_tried_again_while_nothing_runs() {
    check(async |store| {
        let environment = in_force(&store, &[("one", &["two"]), ("two", &[])]).await;
        let tried = |name: &str, last_run, last_status| ResourceState {
            last_run,
            last_status,
            deployed_hash: Some(state(name).intent_hash),
            ..state(name)
        };
        let skipped = ResourceState {
            blocked: Blocked::TemporarilyBlocked,
            ..tried("one", LastRun::Skipped, ResourceStatus::Skipped)
        };
        let failed = tried("two", LastRun::Failed, ResourceStatus::Failed);
        let version = environment.active_version.unwrap();
        let states = [skipped, failed];
        let activated = store.version_activate(environment.id, version, &states, &[], &[]);
        activated.await.unwrap();
        let (_, root) = explained(&store, &environment, "one").await;
        assert_eq!(root["text"], "failed");
        for name in [
            "autostart_agent_deploy_interval",
            "autostart_agent_repair_interval",
        ] {
            let never = json!("0");
            let set = store.setting_set(environment.id, name, &never);
            set.await.unwrap();
        }
        let (_, root) = explained(&store, &environment, "one").await;
        assert_eq!(
            root["text"],
            "failed; it is not tried again by itself: `autostart_agent_deploy_interval` and \
             `autostart_agent_repair_interval` are 0"
        );
        store.environment_halt(environment.id, true).await.unwrap();
        let halted = store
            .environment_fetch(environment.id)
            .await
            .unwrap()
            .unwrap();
        let found = explain(&store, &halted, &id("one")).await.unwrap();
        let texts = found.unwrap()["chain"].clone();
        assert_eq!(
            texts[0]["text"],
            "was skipped: it requires t::R[a,name=two], which is not deployed"
        );
        // Halted twice, it is so since the first time.
        let since = halted.halted_since.unwrap();
        store.environment_halt(environment.id, true).await.unwrap();
        let again = store.environment_fetch(environment.id).await.unwrap();
        assert_eq!(again.unwrap().halted_since, Some(since));
        assert_eq!(
            texts[1]["text"],
            format!(
                "failed; it is not tried again yet: the environment is halted since {}",
                since.for_people()
            )
        );
        let paused_since = || async {
            let agents = store.agent_list(environment.id).await.unwrap();
            agents[0].paused_since()
        };
        let paused = paused_since().await;
        assert!(paused >= Some(since));
        store.agent_pause(environment.id, None, true).await.unwrap();
        assert_eq!(paused_since().await, paused);
        store.environment_halt(environment.id, false).await.unwrap();
        let resumed = store.environment_fetch(environment.id).await.unwrap();
        assert_eq!(resumed.unwrap().halted_since, None);
        assert_eq!(paused_since().await, None);
        store.agent_pause(environment.id, None, true).await.unwrap();
        assert!(paused_since().await > paused);
        store
            .agent_pause(environment.id, None, false)
            .await
            .unwrap();
        assert_eq!(paused_since().await, None);
    })
    .await;
}
