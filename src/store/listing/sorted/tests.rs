//! Pages in the order of agents, values and statuses against the whole lists, cut in memory.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;
use crate::domain::{AgentName, Like};
use crate::store::tests::{check, environment, resource, state, store_version};

const TYPES: [&str; 2] = ["t::A", "t::Bb"];
const AGENTS: [&str; 4] = ["Host-1", "host-1", "host-2", "\u{c4}"];
const VALUES: [&str; 7] = ["a", "B", "b/c", "b=c", "x,y", "%", "\u{e4}\u{c4}"];
const WORDS: [&str; 9] = [
    "HOST", "-1", "nowhere", "b", "%", "\\%", "\u{e4}", "t::a", ",",
];
const STATUSES: [ResourceStatus; 3] = [
    ResourceStatus::Available,
    ResourceStatus::Deployed,
    ResourceStatus::Failed,
];

/// Ids of all types, agents and values.
fn ids() -> Vec<[&'static str; 3]> {
    let mut ids = Vec::new();
    for one in TYPES {
        for agent in AGENTS {
            ids.extend(VALUES.map(|value| [one, agent, value]));
        }
    }
    ids
}

fn stored([resource_type, agent, value]: [&str; 3]) -> StoredResource {
    StoredResource {
        resource_id: ResourceId::new(format!("{resource_type}[{agent},name={value}]")),
        resource_type: resource_type.into(),
        agent: AgentName::new(agent),
        id_value: value.into(),
        ..resource(value, "1", "")
    }
    .with_digest()
}

fn stated(of: &StoredResource, random: &mut StdRng) -> ResourceState {
    let last_status = *STATUSES.choose(random).unwrap();
    ResourceState {
        resource_id: of.resource_id.clone(),
        resource_type: of.resource_type.as_str().into(),
        agent: of.agent.clone(),
        id_value: of.id_value.as_str().into(),
        deployed_hash: (last_status != ResourceStatus::Available).then(|| "h".into()),
        last_status,
        ..state(&of.id_value)
    }
}

fn some(random: &mut StdRng) -> Vec<String> {
    let n_words = [0, 0, 1, 2].choose(random).unwrap();
    let words = WORDS.choose_multiple(random, *n_words);
    words.map(|word| (*word).to_owned()).collect()
}

fn search(random: &mut StdRng) -> Search {
    let statuses = random.random_bool(0.4).then(|| {
        let n_statuses = random.random_range(0..=2);
        STATUSES
            .choose_multiple(random, n_statuses)
            .copied()
            .collect()
    });
    Search {
        types: if random.random_bool(0.8) {
            Vec::new()
        } else {
            some(random)
        },
        agents: some(random),
        values: some(random),
        statuses,
    }
}

fn fits(search: &Search, id: &ResourceId) -> bool {
    let has = |words: &[String], text: &str| {
        words.is_empty() || words.iter().any(|word| Like::part(word).fits(text))
    };
    has(&search.types, id.resource_type())
        && has(&search.agents, id.agent())
        && has(&search.values, id.value())
}

/// Forwards or back from a place in the list, or from what all places of one value come behind; or from its end.
fn span(keys: &[Key], random: &mut StdRng) -> Span {
    let is_last = random.random_bool(0.5);
    let edge = random.random_bool(0.8).then(|| {
        let mut key = keys
            .choose(random)
            .cloned()
            .unwrap_or_else(|| Key::texts(2));
        if random.random_bool(0.3) {
            key.0.truncate(1);
        }
        Edge {
            key,
            is_included: random.random_bool(0.3),
        }
    });
    let (after, before) = if random.random_bool(0.5) {
        (edge, None)
    } else {
        (None, edge)
    };
    Span {
        after,
        before,
        is_last,
        limit: random.random_range(1..20),
    }
}

/// What a span has of a list.
fn cut<T: Clone>(mut rows: Vec<(Key, T)>, span: &Span) -> Vec<(Key, T)> {
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows.retain(|(key, _)| span.has(key));
    span.cut(&mut rows);
    rows
}

async fn check_states(store: &Store, id: EnvironmentId, random: &mut StdRng) {
    let states = store.state_list(id).await.unwrap();
    let counts = store.state_counts(id).await.unwrap();
    for _ in 0..60 {
        let search = search(random);
        let parts = [IdPart::Agent, IdPart::Value].map(StateOrder::Part);
        let order = *[parts[0], parts[1], StateOrder::Status]
            .choose(random)
            .unwrap();
        let wanted = states.iter().filter(|state| {
            let has_status = |all: &Vec<_>| all.contains(&state.status());
            search.statuses.as_ref().is_none_or(has_status) && fits(&search, &state.resource_id)
        });
        let wanted: Vec<_> = wanted
            .map(|state| (order.key(state), state.clone()))
            .collect();
        let keys: Vec<Key> = states.iter().map(|state| order.key(state)).collect();
        let span = span(&keys, random);
        let expected = cut(wanted, &span);
        let page = store
            .state_page_by(id, &search, &counts, order, &span)
            .await
            .unwrap();
        assert_eq!(page, expected, "{order:?} {search:?} {span:?}");
        if span.after.is_some() || span.before.is_some() {
            let count = store.state_count_by(id, &search, &counts, order, &span);
            assert_eq!(
                count.await.unwrap(),
                expected.len() as i64,
                "{order:?} {search:?} {span:?}"
            );
        }
    }
}

async fn check_version(
    store: &Store,
    id: EnvironmentId,
    number: i64,
    all: &[StoredResource],
    random: &mut StdRng,
) {
    for _ in 0..30 {
        let search = Search {
            statuses: None,
            ..search(random)
        };
        let part = *[IdPart::Agent, IdPart::Value].choose(random).unwrap();
        let keyed = |row: &StoredResource| (key(part, &row.resource_id), row.resource_id.clone());
        let wanted = all
            .iter()
            .filter(|row| fits(&search, &row.resource_id))
            .map(keyed);
        let keys: Vec<Key> = all.iter().map(|row| keyed(row).0).collect();
        let span = span(&keys, random);
        let expected = cut(wanted.collect(), &span);
        let number = VersionNumber::new(number);
        let page = store
            .resource_page_by(id, number, &search, part, &span)
            .await
            .unwrap();
        let page: Vec<_> = page
            .into_iter()
            .map(|(key, row)| (key, row.resource_id))
            .collect();
        assert_eq!(page, expected, "{part:?} {search:?} {span:?}");
    }
}

/// Given: two versions, of which the second has ids that came after the first search, and no longer some others; states of the
/// first, and then of both. Expected: each page is what the whole list, sorted and cut in memory, has there.
#[tokio::test]
async fn pages_in_another_order_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut random = StdRng::seed_from_u64(14);
        for _ in 0..3 {
            let id = environment(&store).await;
            let (mut first, mut second) = (Vec::new(), Vec::new());
            for one in ids() {
                if random.random_bool(0.6) {
                    first.push(stored(one));
                }
                if random.random_bool(0.7) {
                    second.push(stored(one));
                }
            }
            store_version(&store, id, first.clone()).await;
            let states: Vec<_> = first.iter().map(|row| stated(row, &mut random)).collect();
            let (one, two) = (VersionNumber::new(1), VersionNumber::new(2));
            store
                .version_activate(id, one, &states, &[], &[])
                .await
                .unwrap();
            check_states(&store, id, &mut random).await;
            check_version(&store, id, 1, &first, &mut random).await;
            store_version(&store, id, second.clone()).await;
            let states: Vec<_> = second.iter().map(|row| stated(row, &mut random)).collect();
            let gone: Vec<_> = states
                .iter()
                .take(3)
                .map(|state| state.resource_id.clone())
                .collect();
            store
                .version_activate(id, two, &states, &gone, &[])
                .await
                .unwrap();
            check_states(&store, id, &mut random).await;
            check_version(&store, id, 1, &first, &mut random).await;
            check_version(&store, id, 2, &second, &mut random).await;
        }
    })
    .await;
}

/// Expected: what is found by more words than are taken out is found on the way, with the same answer.
#[test]
fn a_walk_finds_the_same_whether_or_not_what_it_finds_is_taken_out() {
    use super::super::names::Making;
    let mut all: Vec<String> = ids()
        .into_iter()
        .map(|one| stored(one).resource_id.to_string())
        .collect();
    all.sort_unstable();
    let mut making = Making::default();
    all.iter().for_each(|id| making.push(id));
    let names = Arc::new(making.finish());
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..500 {
        let search = Search {
            statuses: None,
            ..search(&mut random)
        };
        let part = *[IdPart::Agent, IdPart::Value].choose(&mut random).unwrap();
        let is_last = random.random_bool(0.5);
        let span = Span {
            is_last,
            ..Span::first(1000)
        };
        let take = |is_taken_out: bool| {
            let mut walk = Walk::of(Arc::clone(&names), part, &search, &span);
            if !is_taken_out && walk.few.take().is_some() {
                walk.left = 0..names.len();
            }
            let empty = Walk::of(Arc::default(), part, &search, &span);
            SortedIds {
                walks: [walk, empty],
                is_last,
            }
            .take(1000)
        };
        let found = take(true);
        assert_eq!(found, take(false), "{search:?}");
        let n_fitting = all
            .iter()
            .filter(|id| fits(&search, &ResourceId::new(*id)))
            .count();
        assert_eq!(found.len(), n_fitting, "{search:?}");
    }
}
