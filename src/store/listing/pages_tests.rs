//! Pages of lists against the whole lists, cut in memory: random rows, orders, searches and edges.

use std::fmt::Debug;

use crate::domain::{
    CompileId, EnvironmentId, Like, ResourceId, Severity, Timestamp, VersionNumber,
};
use crate::store::macros::{read, write};
use crate::store::tests::{check, environment, resource, state, store_version};
use crate::store::{
    AgentOrder, AgentSearch, CompileSearch, Discovered, DiscoveredOrder, DiscoveredSearch, Edge,
    FactOrder, FactSearch, Key, Notification, NotificationSearch, ParameterOrder, ParameterSearch,
    Part, ResourceState, Result, Span, Store, VersionSearch,
};

/// Numbers without a pattern, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn flag(&mut self) -> Option<bool> {
        [None, Some(false), Some(true)][self.below(3)]
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// Few texts, so that many rows have the same; with all that is special in a pattern, and that languages sort in other ways.
    fn text(&mut self) -> String {
        const PARTS: [&str; 12] = ["a", "B", "b", "ä", "Ä", "_", "%", "!", "\\", "-", "z", "Σ"];
        let n_parts = 1 + self.below(3);
        (0..n_parts).map(|_| self.pick(&PARTS)).collect()
    }

    /// What is looked for; mostly nothing.
    fn words(&mut self) -> Vec<String> {
        const WORDS: [&str; 12] = [
            "a", "B", "ä", "\\_", "\\%", "_", "a%b", "!", "\\\\", "bΣ", "nowhere", "Ä\\",
        ];
        let n_words = [0, 0, 1, 2][self.below(4)];
        (0..n_words).map(|_| self.pick(&WORDS).to_owned()).collect()
    }
}

fn has(words: &[String], text: &str) -> bool {
    words.is_empty() || words.iter().any(|word| Like::part(word).fits(text))
}

fn is(wanted: Option<bool>, actual: bool) -> bool {
    wanted.is_none_or(|wanted| wanted == actual)
}

fn within(bounds: &[(&str, i64)], value: i64) -> bool {
    bounds.iter().all(|(comparison, bound)| match *comparison {
        " < " => value < *bound,
        _ => value >= *bound,
    })
}

/// An edge at a row, at one that is not there, or at the begin of a key.
fn edge(numbers: &mut Numbers, keys: &[Key]) -> Option<Edge> {
    if keys.is_empty() || numbers.below(3) == 0 {
        return None;
    }
    let mut key = keys[numbers.below(keys.len())].clone();
    match numbers.below(4) {
        0 if key.0.len() > 1 => key.0.truncate(1),
        1 => match key.0.last_mut() {
            Some(Part::Text(text)) => text.push('5'),
            Some(Part::Number(number)) => *number += 1,
            _ => {}
        },
        _ => {}
    }
    Some(Edge {
        is_included: numbers.below(2) == 0,
        key,
    })
}

/// Compares pages and counts with `all` rows that are searched for, in any order. `n_all`: rows there are if nothing is searched
/// for.
async fn check_pages<T: Debug>(
    numbers: &mut Numbers,
    all: &[Key],
    n_all: Option<usize>,
    page: impl AsyncFn(Span) -> Result<Vec<(Key, T)>>,
    count: impl AsyncFn(Span) -> Result<i64>,
) {
    let mut all = all.to_vec();
    all.sort();
    for _ in 0..8 {
        let span = Span {
            after: edge(numbers, &all),
            before: edge(numbers, &all),
            is_last: numbers.below(2) == 0,
            limit: [1, 3, 1000][numbers.below(3)],
        };
        let mut expected: Vec<Key> = all.iter().filter(|key| span.has(key)).cloned().collect();
        let n_within = expected.len();
        span.cut(&mut expected);
        let found = page(span.clone()).await.unwrap();
        let found: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, expected, "{span:?}");
        let is_whole = span.after.is_none() && span.before.is_none();
        let n_expected = match n_all.filter(|_| is_whole) {
            Some(n_all) => n_all,
            None => n_within.min(usize::try_from(span.limit).unwrap()),
        };
        let n_found = count(span.clone()).await.unwrap();
        assert_eq!(n_found, n_expected as i64, "{span:?}");
    }
}

const N_ROWS: usize = 120;
const N_ROUNDS: usize = 40;

/// Runs a statement with these texts in the place of its `?`.
async fn execute(store: &Store, sql: &str, texts: &[&str]) {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let run = async || -> Result<()> {
        write!(store.db, pool => {
            let mut pieces = sql.split('?');
            let mut query = sqlx::QueryBuilder::new(pieces.next().unwrap_or_default());
            for (text, rest) in texts.iter().zip(pieces) {
                query.push_bind(text.clone()).push(rest);
            }
            query.build().execute(pool).await?.rows_affected()
        });
        Ok(())
    };
    run().await.unwrap();
}

fn moment(at: i64) -> Part {
    Part::Moment(Timestamp(at))
}

fn key(parts: &[&str]) -> Key {
    Key(parts.iter().map(|part| Part::text(*part)).collect())
}

/// A fact: resource, name, source, whether it expires, when it was set.
type FactRow = (String, String, &'static str, bool, i64);

async fn facts(store: &Store, id: EnvironmentId, numbers: &mut Numbers) -> Vec<FactRow> {
    let mut all: Vec<FactRow> = Vec::new();
    for n in 0..N_ROWS {
        let resource = if n % 3 == 0 {
            String::new()
        } else {
            numbers.text()
        };
        let name = numbers.text();
        if all.iter().any(|row| row.0 == resource && row.1 == name) {
            continue;
        }
        let source = numbers.pick(&["fact", "user", "plugin"]);
        let (expires, at) = (numbers.below(2) == 0, numbers.below(9) as i64);
        let sql = format!(
            "INSERT INTO fact (environment_id, resource_id, name, value, expires, updated_us, source) \
             VALUES (?, ?, ?, 'v', {expires}, {at}, ?)"
        );
        execute(store, &sql, &[&id.to_string(), &resource, &name, source]).await;
        all.push((resource, name, source, expires, at));
    }
    all
}

#[tokio::test]
async fn pages_of_facts_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(1);
        let (other, id) = (environment(&store).await, environment(&store).await);
        facts(&store, other, &mut numbers).await;
        let all = facts(&store, id, &mut numbers).await;
        for _ in 0..N_ROUNDS {
            let search = FactSearch {
                names: numbers.words(),
                resources: numbers.words(),
                expires: numbers.flag(),
            };
            let order = [FactOrder::Name, FactOrder::Resource][numbers.below(2)];
            let keys: Vec<Key> = all
                .iter()
                .filter(|(resource, name, _, expires, _)| {
                    !resource.is_empty()
                        && has(&search.names, name)
                        && has(&search.resources, resource)
                        && is(search.expires, *expires)
                })
                .map(|(resource, name, ..)| match order {
                    FactOrder::Name => key(&[name, resource]),
                    FactOrder::Resource => key(&[resource, name]),
                })
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.fact_page(id, &search, order, &span).await;
            let count = async |span| store.fact_count(id, &search, order, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

#[tokio::test]
async fn pages_of_parameters_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(2);
        let (other, id) = (environment(&store).await, environment(&store).await);
        facts(&store, other, &mut numbers).await;
        let all = facts(&store, id, &mut numbers).await;
        for _ in 0..N_ROUNDS {
            let search = ParameterSearch {
                names: numbers.words(),
                sources: [vec![], vec!["S".to_owned()]][numbers.below(2)].clone(),
                updated: [vec![], vec![(" >= ", 3), (" < ", 7)]][numbers.below(2)].clone(),
            };
            let orders = [
                ParameterOrder::Name,
                ParameterOrder::Source,
                ParameterOrder::Updated,
            ];
            let order = orders[numbers.below(3)];
            let keys: Vec<Key> = all
                .iter()
                .filter(|(resource, name, source, _, at)| {
                    resource.is_empty()
                        && has(&search.names, name)
                        && has(&search.sources, source)
                        && within(&search.updated, *at)
                })
                .map(|(_, name, source, _, at)| match order {
                    ParameterOrder::Name => key(&[name]),
                    ParameterOrder::Source => key(&[source, name]),
                    ParameterOrder::Updated => Key(vec![moment(*at), Part::text(name)]),
                })
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.parameter_page(id, &search, order, &span).await;
            let count = async |span| store.parameter_count(id, &search, order, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

/// Discovered: type, agent, value, and whether it is managed.
type Found = (String, String, String, bool);

fn id_of((resource_type, agent, value, _): &Found) -> String {
    format!("{resource_type}[{agent},name={value}]")
}

async fn discovered(store: &Store, id: EnvironmentId, numbers: &mut Numbers) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for _ in 0..N_ROWS {
        let resource_type = numbers.pick(&["t::R", "t::R::S", "t::r"]).to_owned();
        let found = (
            resource_type,
            numbers.text(),
            numbers.text(),
            numbers.below(2) == 0,
        );
        if all.iter().any(|one| id_of(one) == id_of(&found)) {
            continue;
        }
        let one = Discovered {
            resource_id: ResourceId::new(id_of(&found)),
            values: serde_json::json!({}),
            discovery_resource_id: ResourceId::new("t::D[a,name=d]"),
            discovered: Timestamp(1),
        };
        store.discovered_set(id, &[one]).await.unwrap();
        all.push(found);
    }
    let managed = all.iter().filter(|found| found.3);
    let states: Vec<ResourceState> = managed
        .map(|found| ResourceState {
            resource_id: ResourceId::new(id_of(found)),
            ..state("x")
        })
        .collect();
    let one = VersionNumber::new(1);
    store
        .version_activate(id, one, &states, &[], &[])
        .await
        .unwrap();
    all
}

#[tokio::test]
async fn pages_of_what_was_discovered_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(3);
        let (other, id) = (environment(&store).await, environment(&store).await);
        discovered(&store, other, &mut numbers).await;
        let all = discovered(&store, id, &mut numbers).await;
        for _ in 0..N_ROUNDS {
            let types: [&[&str]; 3] = [&[], &["R::"], &["r"]];
            let types = types[numbers.below(3)].iter();
            let search = DiscoveredSearch {
                types: types.map(|word| (*word).to_owned()).collect(),
                agents: numbers.words(),
                values: numbers.words(),
                is_managed: numbers.flag(),
            };
            let orders = [
                DiscoveredOrder::Id,
                DiscoveredOrder::Type,
                DiscoveredOrder::Agent,
                DiscoveredOrder::Value,
            ];
            let order = orders[numbers.below(4)];
            let keys: Vec<Key> = all
                .iter()
                .filter(|(resource_type, agent, value, is_managed)| {
                    has(&search.types, resource_type)
                        && has(&search.agents, agent)
                        && has(&search.values, value)
                        && is(search.is_managed, *is_managed)
                })
                .map(|found| match order {
                    DiscoveredOrder::Id => key(&[&id_of(found)]),
                    DiscoveredOrder::Type => key(&[&found.0, &id_of(found)]),
                    DiscoveredOrder::Agent => key(&[&found.1, &id_of(found)]),
                    DiscoveredOrder::Value => key(&[&found.2, &id_of(found)]),
                })
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.discovered_page(id, &search, order, &span).await;
            let count = async |span| store.discovered_count(id, &search, order, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

async fn notifications(
    store: &Store,
    id: EnvironmentId,
    numbers: &mut Numbers,
) -> Vec<Notification> {
    let mut all = Vec::new();
    for _ in 0..N_ROWS {
        let severity = [Severity::Info, Severity::Error][numbers.below(2)];
        let one = Notification {
            created: Timestamp(numbers.below(20) as i64),
            is_read: numbers.below(2) == 0,
            is_cleared: numbers.below(2) == 0,
            ..Notification::new(severity, &numbers.text(), &numbers.text())
        };
        store.notification_create(id, &one).await.unwrap();
        all.push(one);
    }
    all
}

#[tokio::test]
async fn pages_of_notifications_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(4);
        let (other, id) = (environment(&store).await, environment(&store).await);
        notifications(&store, other, &mut numbers).await;
        let all = notifications(&store, id, &mut numbers).await;
        for _ in 0..N_ROUNDS {
            let search = NotificationSearch {
                titles: numbers.words(),
                messages: numbers.words(),
                severities: [vec![], vec!["error".to_owned()]][numbers.below(2)].clone(),
                is_read: numbers.flag(),
                is_cleared: numbers.flag(),
            };
            let keys: Vec<Key> = all
                .iter()
                .filter(|one| {
                    has(&search.titles, &one.title)
                        && has(&search.messages, &one.message)
                        && (search.severities.is_empty() || one.severity == Severity::Error)
                        && is(search.is_read, one.is_read)
                        && is(search.is_cleared, one.is_cleared)
                })
                .map(|one| Key(vec![moment(one.created.0), Part::text(one.id.to_string())]))
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.notification_page(id, &search, &span).await;
            let count = async |span| store.notification_count(id, &search, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

/// A compile: id, when it was asked for, whether it began, ended, and succeeded.
type CompileRow = (String, i64, bool, bool, bool);

async fn compiles(store: &Store, id: EnvironmentId, numbers: &mut Numbers) -> Vec<CompileRow> {
    let mut all = Vec::new();
    for _ in 0..N_ROWS {
        let state = numbers.pick(&[
            "queued", "running", "exported", "compiled", "rejected", "aborted",
        ]);
        let (is_started, is_ended) = (state != "queued", !["queued", "running"].contains(&state));
        let (compile, at) = (CompileId::generate().to_string(), numbers.below(20) as i64);
        let time = |is_there: bool| if is_there { "1" } else { "NULL" };
        let sql = format!(
            "INSERT INTO compile (id, environment_id, requested_us, started_us, completed_us, state, do_export, \
             update_repository, metadata, variables) VALUES (?, ?, {at}, {}, {}, ?, TRUE, TRUE, '{{}}', '{{}}')",
            time(is_started),
            time(is_ended)
        );
        execute(store, &sql, &[&compile, &id.to_string(), state]).await;
        let is_success = ["exported", "compiled"].contains(&state);
        all.push((compile, at, is_started, is_ended, is_success));
    }
    all
}

#[tokio::test]
async fn pages_of_compiles_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(5);
        let (other, id) = (environment(&store).await, environment(&store).await);
        compiles(&store, other, &mut numbers).await;
        let all = compiles(&store, id, &mut numbers).await;
        for _ in 0..N_ROUNDS {
            let search = CompileSearch {
                is_success: numbers.flag(),
                is_started: numbers.flag(),
                is_completed: numbers.flag(),
                requested: [vec![], vec![(" >= ", 3), (" < ", 17)]][numbers.below(2)].clone(),
            };
            let keys: Vec<Key> = all
                .iter()
                .filter(|(_, at, is_started, is_ended, is_success)| {
                    is(search.is_success, *is_success)
                        && is(search.is_started, *is_started)
                        && is(search.is_completed, *is_ended)
                        && within(&search.requested, *at)
                })
                .map(|(compile, at, ..)| Key(vec![moment(*at), Part::text(compile)]))
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.compile_page(id, &search, &span).await;
            let count = async |span| store.compile_count(id, &search, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

/// An agent: its name, and its status.
async fn agents(
    store: &Store,
    id: EnvironmentId,
    numbers: &mut Numbers,
) -> Vec<(String, &'static str)> {
    let mut all: Vec<(String, &'static str)> = Vec::new();
    for _ in 0..N_ROWS {
        let name = numbers.text();
        if all.iter().any(|(one, _)| *one == name) {
            continue;
        }
        let status = numbers.pick(&["paused", "up", "down"]);
        let away = if status == "down" { "1" } else { "NULL" };
        let sql = format!(
            "INSERT INTO agent (environment_id, name, paused, away_us) VALUES (?, ?, {}, {away})",
            status == "paused"
        );
        execute(store, &sql, &[&id.to_string(), &name]).await;
        all.push((name, status));
    }
    all
}

#[tokio::test]
async fn pages_of_agents_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(6);
        let (other, id) = (environment(&store).await, environment(&store).await);
        agents(&store, other, &mut numbers).await;
        let all = agents(&store, id, &mut numbers).await;
        for _ in 0..N_ROUNDS {
            let statuses: [&[&str]; 3] = [&[], &["up"], &["up", "paused", "unknown"]];
            let statuses = statuses[numbers.below(3)].iter();
            let search = AgentSearch {
                names: numbers.words(),
                statuses: statuses.map(|word| (*word).to_owned()).collect(),
            };
            let orders = [AgentOrder::Name, AgentOrder::Paused, AgentOrder::Status];
            let order = orders[numbers.below(3)];
            let keys: Vec<Key> = all
                .iter()
                .filter(|(name, status)| {
                    has(&search.names, name)
                        && (search.statuses.is_empty()
                            || search.statuses.iter().any(|one| one == status))
                })
                .map(|(name, status)| match order {
                    AgentOrder::Name => key(&[name]),
                    AgentOrder::Paused => key(&[&(*status == "paused").to_string(), name]),
                    AgentOrder::Status => key(&[status, name]),
                })
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.agent_page(id, &search, order, &span).await;
            let count = async |span| store.agent_count(id, &search, order, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

#[tokio::test]
async fn pages_of_versions_are_those_of_the_whole_list() {
    check(|store| async move {
        let mut numbers = Numbers(7);
        let (other, id) = (environment(&store).await, environment(&store).await);
        let mut all: Vec<(i64, i64, bool)> = Vec::new();
        for one in [other, id] {
            all.clear();
            for number in (1..N_ROWS as i64).filter(|number| number % 7 != 0) {
                let (at, is_released) = (numbers.below(20) as i64, numbers.below(2) == 0);
                let released = if is_released { "1" } else { "NULL" };
                let sql = format!(
                    "INSERT INTO version (environment_id, number, created_us, released_us, metadata, n_resources) \
                     VALUES (?, {number}, {at}, {released}, '{{}}', 0)"
                );
                execute(&store, &sql, &[&one.to_string()]).await;
                all.push((number, at, is_released));
            }
        }
        for _ in 0..N_ROUNDS {
            let active = [None, Some(50)][numbers.below(2)];
            let statuses: [&[&str]; 4] = [&[], &["candidate"], &["active", "retired"], &["skipped_candidate"]];
            let statuses = statuses[numbers.below(4)].iter();
            let search = VersionSearch {
                numbers: [vec![], vec![(" >= ", 20), (" < ", 90)]][numbers.below(2)].clone(),
                dates: [vec![], vec![(" >= ", 3), (" < ", 17)]][numbers.below(2)].clone(),
                is_released: numbers.flag(),
                statuses: statuses.map(|word| (*word).to_owned()).collect(),
                active: active.map(VersionNumber::new),
            };
            let status = |number: i64, is_released: bool| match active {
                Some(active) if number == active => "active",
                Some(active) if number < active && is_released => "retired",
                Some(active) if number < active => "skipped_candidate",
                _ => "candidate",
            };
            let keys: Vec<Key> = all
                .iter()
                .filter(|(number, at, is_released)| {
                    let status = status(*number, *is_released);
                    within(&search.numbers, *number)
                        && within(&search.dates, *at)
                        && is(search.is_released, *is_released)
                        && (search.statuses.is_empty()
                            || search.statuses.iter().any(|one| one == status))
                })
                .map(|(number, ..)| Key(vec![Part::Number(*number)]))
                .collect();
            let n_all = (!search.is_narrow()).then_some(keys.len());
            let page = async |span| store.version_page(id, &search, &span).await;
            let count = async |span| store.version_count(id, &search, &span).await;
            check_pages(&mut numbers, &keys, n_all, page, count).await;
        }
    })
    .await;
}

/// How many rows there are, counted.
async fn counted(store: &Store, id: EnvironmentId, list: &str) -> i64 {
    let from = match list {
        "fact" => "fact WHERE resource_id <> '' AND".to_owned(),
        "parameter" => "fact WHERE resource_id = '' AND".to_owned(),
        table => format!("{table} WHERE"),
    };
    let sql = format!("SELECT COUNT(*) FROM {from} environment_id = $1");
    let count = async || -> Result<i64> {
        let (n,): (i64,) = read!(store.db, pool => {
            sqlx::query_as(&sql).bind(id.to_string()).fetch_one(pool).await?
        });
        Ok(n)
    };
    count().await.unwrap()
}

async fn check_counts(store: &Store, id: EnvironmentId) {
    const LISTS: [&str; 7] = [
        "fact",
        "parameter",
        "discovered_resource",
        "notification",
        "compile",
        "agent",
        "version",
    ];
    for list in LISTS {
        let kept = store.row_count(id, list).await.unwrap();
        assert_eq!(kept, counted(store, id, list).await, "{list}");
    }
}

#[tokio::test]
async fn how_many_rows_there_are_is_kept_whatever_writes_them() {
    check(|store| async move {
        let mut numbers = Numbers(8);
        let (other, id) = (environment(&store).await, environment(&store).await);
        for one in [other, id] {
            let all = facts(&store, one, &mut numbers).await;
            discovered(&store, one, &mut numbers).await;
            notifications(&store, one, &mut numbers).await;
            compiles(&store, one, &mut numbers).await;
            agents(&store, one, &mut numbers).await;
            let resources = vec![resource("x", "1", "")];
            store_version(&store, one, resources).await;
            check_counts(&store, one).await;
            // What is there is written again, and counts once.
            let known = store.fact_list(one).await.unwrap();
            store.facts_set(one, &known).await.unwrap();
            for (resource, name, ..) in all.iter().step_by(2) {
                let resource = (!resource.is_empty()).then(|| ResourceId::new(resource.as_str()));
                store
                    .fact_delete(one, resource.as_ref(), name)
                    .await
                    .unwrap();
            }
            let of = "UPDATE notification SET is_read = TRUE WHERE environment_id = ?";
            execute(&store, of, &[&one.to_string()]).await;
            store.notification_purge(one, Timestamp(10)).await.unwrap();
            store.agent_purge(one).await.unwrap();
            check_counts(&store, one).await;
        }
        store.row_count_fold(id).await.unwrap();
        store.row_count_fold(id).await.unwrap();
        check_counts(&store, id).await;
        facts(&store, environment(&store).await, &mut numbers).await;
        store.environment_clear(id).await.unwrap();
        check_counts(&store, id).await;
        check_counts(&store, other).await;
        store.environment_delete(other).await.unwrap();
        let (n_left,): (i64,) = read!(store.db, pool => {
            let sql = "SELECT COUNT(*) FROM row_count WHERE environment_id = $1";
            sqlx::query_as(sql).bind(other.to_string()).fetch_one(pool).await.unwrap()
        });
        assert_eq!(n_left, 0);
    })
    .await;
}
