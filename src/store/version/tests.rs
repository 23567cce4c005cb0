//! Versions against a plain model of them: a map of resources for each number.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{About, DryRunNote, Edge, Key, Search, Span};

/// Which content and set each resource has.
type Model = BTreeMap<String, (String, String)>;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A model that differs in a few resources: changed, added, removed, moved.
fn next(model: &Model, numbers: &mut Numbers) -> Model {
    let mut model = model.clone();
    for _ in 0..numbers.below(4) {
        let name = format!("r{}", numbers.below(12));
        match numbers.below(3) {
            0 => {
                model.remove(&name);
            }
            _ => {
                let set = ["", "s", "t", "u"][numbers.below(4) as usize];
                model.insert(name, (format!("{}", numbers.below(3)), set.to_owned()));
            }
        }
    }
    model
}

fn resources(model: &Model) -> Vec<StoredResource> {
    let all = model.iter();
    all.map(|(name, (value, set))| resource(name, value, set))
        .collect()
}

/// What a version has, in the words of the model.
fn read_back(resources: Vec<StoredResource>) -> Model {
    let all = resources.into_iter();
    all.map(|one| {
        let value = one.attribute_hash.replace("hash-", "");
        (one.id_value, (value, one.set_name))
    })
    .collect()
}

/// Given: dry runs of three versions that have not ended. Expected: they go with their versions, whether one is deleted or too
/// many are there, and none can begin of a version that is gone: nobody could go on with it.
#[tokio::test]
async fn dry_runs_go_with_their_version() {
    check(|store| async move {
        let id = environment(&store).await;
        let number = VersionNumber::new;
        let dry_run = async |of| {
            let note = DryRunNote::default();
            let made = store.dry_run_create(id, number(of), About::All(1), &[], &note);
            made.await
        };
        for value in ["1", "2", "3"] {
            let (of, _) = store_version(&store, id, vec![resource("x", value, "")]).await;
            dry_run(of.get()).await.unwrap();
        }
        let states = [state("x")];
        let activated = store.version_activate(id, number(3), &states, &[], &[]);
        activated.await.unwrap();
        let of_versions = async || {
            let all = store.dry_run_all(id).await.unwrap().into_iter();
            all.map(|one| one.version.get()).collect::<Vec<_>>()
        };
        assert_eq!(of_versions().await, [3, 2, 1]);
        store.version_delete(id, number(2)).await.unwrap();
        assert_eq!(of_versions().await, [3, 1]);
        let late = dry_run(2).await;
        assert!(matches!(late, Err(Error::NotFound(_))), "{late:?}");
        store.version_purge(id, 0, Timestamp(0)).await.unwrap();
        assert_eq!(of_versions().await, [3]);
        assert_eq!(store.dry_run_unfinished(id).await.unwrap().len(), 1);
    })
    .await;
}

/// The differences of two models: name, value before, value after.
fn differences(old: &Model, new: &Model) -> Vec<(String, Option<String>, Option<String>)> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |model: &Model, name: &String| model.get(name).map(|(value, _)| value.clone());
    let all = names.into_iter();
    all.map(|name| (name.clone(), value(old, name), value(new, name)))
        .filter(|(_, old, new)| old != new)
        .collect()
}

#[tokio::test]
async fn agents_are_there_before_a_version_is_released_and_stay_paused() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut one = resource("r1", "1", "");
        one.agent = AgentName::new("leaf1");
        store_version(&store, id, vec![one.clone()]).await;
        let agents = store.agent_list(id).await.unwrap();
        assert_eq!(agents.len(), 1);
        assert_eq!(agents[0].name.as_str(), "leaf1");
        assert!(store.agent_pause(id, None, true).await.unwrap());
        store_version(&store, id, vec![one, resource("r2", "1", "")]).await;
        let agents = store.agent_list(id).await.unwrap();
        assert_eq!(agents.iter().filter(|agent| agent.paused).count(), 1);
        assert_eq!(agents.len(), 2);
    })
    .await;
}

/// How many rows of resources, and of sets, no version has.
async fn n_unused(store: &Store) -> [i64; 2] {
    let mut counts = [0; 2];
    for (count, table) in counts.iter_mut().zip(["desired_resource", "desired_set"]) {
        let sql = format!(
            "SELECT COUNT(*) FROM {table} r WHERE to_version < 9223372036854775807 AND NOT EXISTS (SELECT 1 FROM version v \
             WHERE v.environment_id = r.environment_id AND v.number >= r.from_version AND v.number < r.to_version)"
        );
        *count = read_count(store, &sql).await.unwrap();
    }
    counts
}

async fn read_count(store: &Store, sql: &str) -> crate::store::Result<i64> {
    Ok(read!(store.db, pool => sqlx::query_scalar(sql).fetch_one(pool).await?))
}

//: deploy 19
#[tokio::test]
async fn random_versions_read_and_differ_as_a_plain_model_of_them_says() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut numbers = Numbers(7);
        let mut models: BTreeMap<i64, Model> = BTreeMap::new();
        let mut last = Model::new();
        for n in 1..=40 {
            last = next(&last, &mut numbers);
            let (number, _) = store_version(&store, id, resources(&last)).await;
            assert_eq!(number.get(), n);
            models.insert(n, last.clone());
            // Old versions go now and then; the newest one stays, being released.
            if n % 10 == 0 {
                store.version_purge(id, 6, Timestamp(0)).await.unwrap();
                let kept = store.version_keys(id).await.unwrap();
                let kept: Vec<i64> = kept.into_iter().map(|(number, _)| number.get()).collect();
                models.retain(|number, _| kept.contains(number));
            } else if n % 7 == 0 {
                let middle = *models.keys().nth(models.len() / 2).unwrap();
                let deleted = store.version_delete(id, VersionNumber::new(middle));
                if deleted.await.is_ok() {
                    models.remove(&middle);
                }
            }
            assert_eq!(n_unused(&store).await, [0, 0], "after version {n}");
        }
        assert_eq!(models.len(), 7);
        for (&from, old) in &models {
            let number = VersionNumber::new(from);
            let read = store.resource_list(id, number).await.unwrap();
            assert_eq!(&read_back(read), old, "version {from}");
            for (&to, new) in models.range(from + 1..) {
                let found = store
                    .resource_differences(id, number, VersionNumber::new(to))
                    .await
                    .unwrap();
                let value = |one: Option<StoredResource>| {
                    one.map(|one| one.attribute_hash.replace("hash-", ""))
                };
                let found: Vec<_> = found
                    .into_iter()
                    .map(|(old, new)| {
                        let name = old.as_ref().or(new.as_ref()).unwrap().id_value.clone();
                        (name, value(old), value(new))
                    })
                    .collect();
                // Ids are t::R[a,name=r10]: their order is that of the closing bracket.
                let mut expected = differences(old, new);
                expected.sort_by_key(|(name, ..)| format!("{name}]"));
                assert_eq!(found, expected, "{from} to {to}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn pages_of_a_version_are_what_a_full_list_cut_by_hand_has() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut numbers = Numbers(3);
        let mut model: Model = (0..30)
            .map(|n| (format!("r{n}"), ("0".to_owned(), format!("s{}", n % 7))))
            .collect();
        for _ in 0..10 {
            store_version(&store, id, resources(&model)).await;
            model = next(&model, &mut numbers);
        }
        for version in [1, 5, 10] {
            let version = VersionNumber::new(version);
            let all = store.resource_list(id, version).await.unwrap();
            let ids: Vec<String> = all.iter().map(|one| one.resource_id.to_string()).collect();
            let words = Search {
                // An underscore that stands for itself is in none of them.
                values: vec!["R1".into(), "\\_".into()],
                ..Search::default()
            };
            for (search, wanted) in [(Search::default(), ""), (words, "r1")] {
                for (after, before, is_last) in [
                    (None, None, false),
                    (Some(4), None, false),
                    (None, Some(20), true),
                ] {
                    let key = |at: Option<usize>| at.map(|at| Edge::at(Key::of(&ids[at])));
                    let span = Span {
                        after: key(after),
                        before: key(before),
                        is_last,
                        limit: 7,
                    };
                    let inside = ids.iter().filter(|id| {
                        id.contains(&format!("={wanted}")) && span.has(&Key::of(id.as_str()))
                    });
                    let inside: Vec<&String> = inside.collect();
                    let expected = if is_last {
                        &inside[inside.len().saturating_sub(7)..]
                    } else {
                        &inside[..inside.len().min(7)]
                    };
                    let page = store
                        .resource_page(id, version, &search, &span)
                        .await
                        .unwrap();
                    let page: Vec<String> =
                        page.iter().map(|one| one.resource_id.to_string()).collect();
                    assert_eq!(
                        page.iter().collect::<Vec<_>>(),
                        expected,
                        "{version} {span:?}"
                    );
                    let n_rows = store
                        .resource_count(id, version, &search, &span)
                        .await
                        .unwrap();
                    assert_eq!(n_rows, expected.len() as i64);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn one_changed_resource_of_a_large_set_writes_that_resource() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut all: Vec<_> = (0..3000)
            .map(|n| resource(&format!("{n}"), "x", "large"))
            .collect();
        store_version(&store, id, all.clone()).await;
        all[1500] = resource("1500", "y", "large");
        let (_, change) = store_version(&store, id, all).await;
        let expected = SetChange {
            n_sets_written: 1,
            n_resources_written: 1,
        };
        assert_eq!(change, expected);
    })
    .await;
}

//: deploy 29
#[tokio::test]
async fn a_version_is_deleted_unless_it_is_in_force_or_the_newest_released_one() {
    check(|store| async move {
        let id = environment(&store).await;
        for value in ["1", "2", "3"] {
            store_version(&store, id, vec![resource("a", value, "s")]).await;
        }
        let number = VersionNumber::new;
        store
            .version_activate(id, number(2), &[], &[], &[])
            .await
            .unwrap();
        for refused in [2, 3] {
            let error = store.version_delete(id, number(refused)).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{error:?}");
        }
        store.version_delete(id, number(1)).await.unwrap();
        let error = store.version_delete(id, number(1)).await.unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error:?}");
        let history = store
            .resource_history(id, &resource("a", "1", "").resource_id)
            .await
            .unwrap();
        let history: Vec<_> = history.into_iter().map(|one| one.attributes).collect();
        let of = |value: &str| json!({"name": "a", "value": value}).to_string();
        assert_eq!(history, [of("3"), of("2")]);
    })
    .await;
}

/// A partial export: the resources of some sets, and sets that go.
fn partial(id: EnvironmentId, resources: Vec<StoredResource>, removed: &[&str]) -> PartialVersion {
    PartialVersion {
        new: NewVersion {
            environment_id: id,
            commit_id: None,
            tree_id: None,
            metadata: json!({}),
            modules: json!([]),
            unknowns: json!([]),
            agent_places: Default::default(),
            resources,
            release: true,
            sent: crate::store::Sent::default(),
        },
        removed_sets: removed.iter().map(|set| (*set).to_owned()).collect(),
        code: PartialCode::Keep,
    }
}

/// The resource as the compiler's own merge knows it.
fn exported(one: &StoredResource) -> steward_compiler::Resource {
    steward_compiler::Resource {
        id: one.resource_id.to_string(),
        entity_type: one.resource_type.clone(),
        agent: one.agent.to_string(),
        id_attribute: one.id_attribute.clone(),
        id_value: one.id_value.clone(),
        attributes: one.attributes.clone(),
        attribute_hash: one.attribute_hash.clone(),
        requires: one.requires.iter().map(ToString::to_string).collect(),
        undefined: one.is_undefined,
        resource_set: Some(one.set_name.clone()).filter(|set| !set.is_empty()),
    }
}

/// Some resources with dependencies, which may break any of the rules.
fn random_export(numbers: &mut Numbers) -> (Vec<StoredResource>, Vec<&'static str>) {
    let mut sent = BTreeMap::new();
    for _ in 0..1 + numbers.below(4) {
        let n = numbers.below(12);
        // Mostly in the set that its number says, so that many exports are good.
        let set = match numbers.below(8) {
            0 => "",
            1 => ["s0", "s1", "s2"][numbers.below(3) as usize],
            _ => ["", "s0", "s1", "s2"][n as usize % 4],
        };
        let value = if set.is_empty() && numbers.below(4) > 0 {
            0
        } else {
            numbers.below(3)
        };
        let mut one = resource(&format!("r{n}"), &value.to_string(), set);
        let mut requires: Vec<ResourceId> = (0..numbers.below(3))
            .map(|_| resource(&format!("r{}", numbers.below(12)), "", "").resource_id)
            .collect();
        requires.sort_unstable();
        requires.dedup();
        one.requires = requires;
        sent.insert(n, one.with_digest());
    }
    let removed = match numbers.below(6) {
        0 => vec!["s1"],
        1 => vec!["nowhere"],
        _ => Vec::new(),
    };
    (sent.into_values().collect(), removed)
}

/// Whether everything that is required is there.
fn is_closed(resources: &[steward_compiler::Resource]) -> bool {
    let ids: std::collections::BTreeSet<&str> =
        resources.iter().map(|one| one.id.as_str()).collect();
    let mut required = resources.iter().flat_map(|one| &one.requires);
    required.all(|id| ids.contains(id.as_str()))
}

/// Whether no resource requires itself, however far around: all can be taken away, each when all that it requires is.
fn is_acyclic(resources: &[steward_compiler::Resource]) -> bool {
    let mut left: Vec<&steward_compiler::Resource> = resources.iter().collect();
    loop {
        let there: std::collections::BTreeSet<&str> =
            left.iter().map(|one| one.id.as_str()).collect();
        let n_before = left.len();
        left.retain(|one| one.requires.iter().any(|id| there.contains(id.as_str())));
        if left.len() == n_before {
            return left.is_empty();
        }
    }
}

//: deploy 38, 39, 40, 42
#[tokio::test]
async fn partial_versions_are_stored_and_refused_as_the_compilers_merge_of_whole_exports_says() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut numbers = Numbers(11);
        let first: Vec<StoredResource> = (0..8)
            .map(|n| resource(&format!("r{n}"), "0", ["", "s0", "s1", "s2"][n % 4]).with_digest())
            .collect();
        store_version(&store, id, first.clone()).await;
        let mut model: Vec<steward_compiler::Resource> = first.iter().map(exported).collect();
        let (mut last, mut n_stored, mut n_refused) = (VersionNumber::new(1), 0, 0);
        for round in 0..150 {
            let (sent, removed) = random_export(&mut numbers);
            let export = steward_compiler::Export {
                resources: sent.iter().map(exported).collect(),
                removed_sets: removed.iter().map(|set| (*set).to_owned()).collect(),
                ..steward_compiler::Export::default()
            };
            let expected = steward_compiler::merge_partial(&model, &export)
                .ok()
                .filter(|merged| is_closed(merged) && is_acyclic(merged));
            let stored = store
                .version_store_partial(&partial(id, sent, &removed))
                .await;
            match (stored, expected) {
                (Ok((number, _)), Some(mut merged)) => {
                    merged.sort_by(|a, b| a.id.cmp(&b.id));
                    let read = store.resource_list(id, number).await.unwrap();
                    let read: Vec<_> = read.iter().map(exported).collect();
                    assert_eq!(read, merged, "round {round}");
                    let version = store.version_fetch(id, number).await.unwrap().unwrap();
                    assert_eq!(version.n_resources, merged.len() as i64, "round {round}");
                    (model, last, n_stored) = (merged, number, n_stored + 1);
                }
                (Err(Error::Refused(_)), None) => n_refused += 1,
                (stored, expected) => {
                    panic!("round {round}: {stored:?}, the model says {expected:?}")
                }
            }
            // What is refused takes no number, and old versions go, be it the newest one.
            let keys = store.version_keys(id).await.unwrap();
            assert_eq!(keys[0].0, last, "round {round}");
            if round % 50 == 49 {
                store.version_purge(id, 1, Timestamp(0)).await.unwrap();
            }
        }
        assert!(n_stored > 20 && n_refused > 20, "{n_stored} {n_refused}");
    })
    .await;
}

/// A resource in set `set` that requires others, all by their names.
fn requiring(name: &str, set: &str, requires: &[&str]) -> StoredResource {
    let mut one = resource(name, "1", set);
    let ids = requires
        .iter()
        .map(|name| resource(name, "", "").resource_id);
    one.requires = ids.collect();
    one.with_digest()
}

//: deploy 38
#[tokio::test]
async fn a_partial_version_closes_no_circle_with_what_is_carried_over() {
    check(|store| async move {
        let id = environment(&store).await;
        // From a shared resource through two other sets, and the shared resources between them, to another shared one.
        let base = vec![
            requiring("begin", "", &["t1"]),
            requiring("t1", "t", &["t2"]),
            requiring("t2", "t", &["between"]),
            requiring("between", "", &["u1"]),
            requiring("u1", "u", &["end"]),
            requiring("end", "", &[]),
            requiring("a", "s", &[]),
        ];
        store_version(&store, id, base).await;
        let good = vec![
            requiring("a", "s", &["begin"]),
            requiring("b", "s", &["a", "end"]),
        ];
        store
            .version_store_partial(&partial(id, good, &[]))
            .await
            .unwrap();
        let bad = vec![
            requiring("a", "s", &["begin"]),
            requiring("end", "", &["a"]),
        ];
        let refused = store
            .version_store_partial(&partial(id, bad, &[]))
            .await
            .unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Error::Refused(_)), "{text}");
        for name in ["a", "begin", "t1", "t2", "between", "u1", "end"] {
            assert!(text.contains(&format!("t::R[a,name={name}]")), "{text}");
        }
    })
    .await;
}

//: deploy 37; lsm 82
#[tokio::test]
async fn a_partial_version_builds_on_the_newest_one_that_is_still_there() {
    check(|store| async move {
        let id = environment(&store).await;
        let none = store.version_store_partial(&partial(id, vec![], &[])).await;
        assert!(matches!(none, Err(Error::Base(_))), "{none:?}");
        store_version(
            &store,
            id,
            vec![resource("a", "1", "s"), resource("b", "1", "t")],
        )
        .await;
        let mut unreleased = partial(id, vec![resource("a", "2", "s")], &[]);
        unreleased.new.release = false;
        let (number, _) = store.version_store_partial(&unreleased).await.unwrap();
        store.version_delete(id, number).await.unwrap();
        let sent = vec![resource("b", "3", "t"), resource("c", "1", "t")];
        let (number, _) = store
            .version_store_partial(&partial(id, sent, &[]))
            .await
            .unwrap();
        let read = read_back(store.resource_list(id, number).await.unwrap());
        let expected = [("a", "1", "s"), ("b", "3", "t"), ("c", "1", "t")];
        let expected = expected
            .map(|(name, value, set)| (name.to_owned(), (value.to_owned(), set.to_owned())));
        assert_eq!(read, Model::from(expected));
    })
    .await;
}

//: deploy 44; lsm 88
#[tokio::test]
async fn two_partial_versions_at_once_both_land() {
    check(|store| async move {
        let id = environment(&store).await;
        store_version(
            &store,
            id,
            vec![resource("a", "1", "s"), resource("b", "1", "t")],
        )
        .await;
        let (mut one, mut other) = (
            partial(id, vec![resource("a", "2", "s")], &[]),
            partial(id, vec![resource("b", "2", "t")], &[]),
        );
        let place = |name: &str| [(name.to_owned(), "external:".to_owned())].into();
        (one.new.agent_places, other.new.agent_places) = (place("x"), place("y"));
        let stored = tokio::join!(
            store.version_store_partial(&one),
            store.version_store_partial(&other)
        );
        let mut numbers = [stored.0.unwrap().0.get(), stored.1.unwrap().0.get()];
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3]);
        let read = read_back(
            store
                .resource_list(id, VersionNumber::new(3))
                .await
                .unwrap(),
        );
        assert!(read.values().all(|(value, _)| value == "2"), "{read:?}");
        // What each says of its agents stays, too.
        let number = VersionNumber::new(3);
        let places = store.version_agent_places(id, number).await.unwrap();
        assert_eq!(places, json!({"x": "external:", "y": "external:"}));
    })
    .await;
}

//: deploy 41; lsm 82
#[tokio::test]
async fn a_base_whose_sets_require_each_other_takes_no_partial_version() {
    check(|store| async move {
        let id = environment(&store).await;
        let mut b = resource("b", "1", "t");
        b.requires = vec![resource("a", "1", "s").resource_id];
        store_version(&store, id, vec![resource("a", "1", "s"), b]).await;
        let sent = partial(id, vec![resource("c", "1", "u")], &[]);
        let refused = store.version_store_partial(&sent).await.unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("t::R[a,name=b] requires t::R[a,name=a]"),
            "{refused}"
        );
    })
    .await;
}

//: deploy 31
#[tokio::test]
async fn states_go_when_no_stored_version_has_their_resource_and_not_before() {
    check(|store| async move {
        let id = environment(&store).await;
        // More than are removed at once.
        let names: Vec<String> = (0..1200).map(|n| format!("r{n}")).collect();
        let in_force = |count: usize| {
            let resources = names[..count].iter().map(|name| resource(name, "1", ""));
            resources.collect::<Vec<_>>()
        };
        let (all, left) = (in_force(1200), in_force(1));
        let states: Vec<_> = names.iter().map(|name| state(name)).collect();
        store_version(&store, id, all).await;
        store
            .version_activate(id, VersionNumber::new(1), &states, &[], &[])
            .await
            .unwrap();
        store_version(&store, id, left.clone()).await;
        let removed: Vec<ResourceId> = states[1..]
            .iter()
            .map(|one| one.resource_id.clone())
            .collect();
        store
            .version_activate(id, VersionNumber::new(2), &[], &removed, &[])
            .await
            .unwrap();
        // A version that is kept has them.
        store.version_purge(id, 1, Timestamp(0)).await.unwrap();
        assert_eq!(store.orphan_purge(id).await.unwrap(), 0);
        // One of them comes back, in a version that is not in force yet.
        let mut back = left;
        back.push(resource("r7", "2", ""));
        store_version(&store, id, back).await;
        store.version_purge(id, 0, Timestamp(0)).await.unwrap();
        assert_eq!(store.orphan_purge(id).await.unwrap(), 1198);
        assert_eq!(store.orphan_purge(id).await.unwrap(), 0);
        let left = store.state_list(id).await.unwrap();
        let left: Vec<&str> = left.iter().map(|one| one.resource_id.value()).collect();
        assert_eq!(left, ["r0", "r7"]);
        let counts = store.state_counts(id).await.unwrap();
        let there: Vec<i64> = counts.values().copied().filter(|n| *n > 0).collect();
        assert_eq!(there, [1, 1]);
    })
    .await;
}

//: deploy 20
#[tokio::test]
async fn a_version_from_outside_needs_a_number_that_was_reserved_and_is_not_behind() {
    check(|store| async move {
        let id = environment(&store).await;
        let new = partial(id, vec![resource("a", "1", "s")], &[]).new;
        let number = VersionNumber::new;
        for unknown in [-1, 0, 1] {
            let refused = store.version_store_reserved(number(unknown), &new).await;
            assert!(
                matches!(refused, Err(Error::Refused(_))),
                "{unknown} {refused:?}"
            );
        }
        let (first, second) = (
            store.version_reserve(id).await.unwrap(),
            store.version_reserve(id).await.unwrap(),
        );
        store.version_store_reserved(second, &new).await.unwrap();
        for late in [first, second] {
            let refused = store.version_store_reserved(late, &new).await;
            assert!(
                matches!(refused, Err(Error::Conflict(_))),
                "{late} {refused:?}"
            );
        }
    })
    .await;
}

/// Source: docs/reference/deployment.md § 2.10.
//: deploy 36
#[tokio::test]
async fn what_a_released_version_between_did_not_have_was_removed_and_is_new() {
    check(|store| async move {
        let id = environment(&store).await;
        let number = VersionNumber::new;
        let (a, b) = (resource("a", "1", "s"), resource("b", "1", "s"));
        store_version(&store, id, vec![a.clone(), b.clone()]).await;
        let mut draft = partial(id, vec![b.clone()], &[]).new;
        draft.release = false;
        let two = store.version_reserve(id).await.unwrap();
        store.version_store_reserved(two, &draft).await.unwrap();
        store_version(&store, id, vec![a.clone(), b.clone()]).await;
        let changes = store
            .resource_changes(id, number(1), number(3))
            .await
            .unwrap();
        assert_eq!(changes, (vec![], vec![]), "nobody saw the draft");
        store_version(&store, id, vec![b.clone()]).await;
        store_version(&store, id, vec![a.clone(), b]).await;
        let (changed, removed) = store
            .resource_changes(id, number(1), number(5))
            .await
            .unwrap();
        let changed: Vec<_> = changed.into_iter().map(|one| one.resource_id).collect();
        assert_eq!(
            (&changed, &removed),
            (&vec![a.resource_id.clone()], &vec![a.resource_id.clone()])
        );
        // In force, it is no orphan.
        let state = crate::store::tests::state("a");
        store
            .version_activate(id, number(5), std::slice::from_ref(&state), &removed, &[])
            .await
            .unwrap();
        let read = store.state_fetch(id, &a.resource_id).await.unwrap();
        assert_eq!(read, Some(state));
    })
    .await;
}

/// Given: version 1 is in force, 2 and 3 were released since. Expected: an engine may be about to put 2 in force, so it cannot be
/// deleted, nor does retention take it, until 3 is in force.
#[tokio::test]
async fn a_version_that_comes_into_force_is_not_deleted() {
    check(|store| async move {
        let id = environment(&store).await;
        let number = VersionNumber::new;
        for value in ["1", "2", "3"] {
            store_version(&store, id, vec![resource("x", value, "")]).await;
        }
        let activate = async |to| {
            let states = [state("x")];
            let activated = store.version_activate(id, number(to), &states, &[], &[]);
            activated.await.unwrap();
        };
        let numbers = async || store.version_keys(id).await.unwrap().len();
        activate(1).await;
        let refused = store.version_delete(id, number(2)).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
        store.version_purge(id, 0, Timestamp(0)).await.unwrap();
        assert_eq!(numbers().await, 3);
        activate(3).await;
        store.version_delete(id, number(2)).await.unwrap();
        store.version_purge(id, 0, Timestamp(0)).await.unwrap();
        assert_eq!(numbers().await, 1);
    })
    .await;
}
