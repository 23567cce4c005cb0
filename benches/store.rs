//! What versions cost to store and lists to read, however many resources, sets and versions there are; see README.md beside
//! this file.
//!
//! `cargo bench --bench store -- 100000 1000`: so many resources, so many versions. On PostgreSQL, too, with the URL of a
//! server in `STEWARD_TEST_POSTGRES`; `--postgres`: only there. A third number says in how many sets, else it is one, and then
//! sets of ten.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "resources/lists.rs"]
mod beside;
#[path = "resources/mod.rs"]
mod resources;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use resources::{OF_SERVICE, end, resource, state, version};
use steward::domain::{
    ActionId, ActionKind, Change, CompileId, EnvironmentId, ProjectId, ResourceId, ResourceStatus,
    Timestamp, VersionNumber,
};
use steward::store::{
    ActionEnd, ActionFrom, ActionSearch, ActionStart, COUNTED, Edge, IdPart, Key, NewEnvironment,
    PartialCode, PartialVersion, ResourceState, Search, Span, StateOrder, Store, VersionSearch,
};

const ROUNDS: usize = 25;
/// Versions after which lists are measured.
const AFTER: [usize; 4] = [1, 3, 100, 1000];

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let n_resources = numbers.first().copied().unwrap_or(100_000);
    let n_versions = numbers.get(1).copied().unwrap_or(100);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let sets = match numbers.get(2) {
            Some(n_sets) => vec![*n_sets],
            None => vec![1, n_resources / OF_SERVICE],
        };
        let only_postgres = std::env::args().any(|arg| arg == "--postgres");
        for n_sets in sets {
            if !only_postgres {
                let dir = tempfile::tempdir().expect("a folder");
                let store = Store::open_sqlite(&dir.path().join("steward.db"))
                    .await
                    .expect("a database");
                measure("SQLite", &store, n_resources, n_sets, n_versions).await;
                store.close().await;
            }
            let url = std::env::var("STEWARD_TEST_POSTGRES");
            if let Some(url) = url.ok().filter(|url| !url.is_empty()) {
                on_postgres(&url, n_resources, n_sets, n_versions).await;
            }
        }
    });
}

async fn on_postgres(url: &str, n_resources: usize, n_sets: usize, n_versions: usize) {
    let name = format!(
        "steward_{}",
        CompileId::generate().to_string().replace('-', "")
    );
    let admin = sqlx::PgPool::connect(url).await.expect("PostgreSQL");
    let create = format!("CREATE DATABASE {name}");
    sqlx::query(&create)
        .execute(&admin)
        .await
        .expect("a database");
    let base = url.rsplit_once('/').map_or(url, |(base, _)| base);
    let store = Store::open_postgres(&format!("{base}/{name}"))
        .await
        .expect("a database");
    measure("PostgreSQL", &store, n_resources, n_sets, n_versions).await;
    store.close().await;
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    sqlx::query(&drop).execute(&admin).await.expect("it goes");
}

async fn environment(store: &Store) -> EnvironmentId {
    let (project, id) = (ProjectId::generate(), EnvironmentId::generate());
    store
        .project_create(project, "bench")
        .await
        .expect("a project");
    let new = NewEnvironment {
        id,
        project_id: project,
        name: "bench".into(),
        description: String::new(),
        icon: String::new(),
        repo_url: String::new(),
        repo_branch: String::new(),
        variables: BTreeMap::new(),
    };
    store
        .environment_create(&new)
        .await
        .expect("an environment");
    id
}

async fn measure(kind: &str, store: &Store, n_resources: usize, n_sets: usize, n_versions: usize) {
    println!("\n{kind}: {n_resources} resources in {n_sets} sets");
    let id = environment(store).await;
    let of_set = n_resources / n_sets;
    let all = (0..n_resources)
        .map(|n| resource(n, n / of_set, 0))
        .collect();
    let mut new = version(id, all);
    let began = Instant::now();
    store
        .version_store(&new, &end())
        .await
        .expect("it is stored");
    let took = began.elapsed();
    let each = took.as_secs_f64() * 1e6 / n_resources as f64;
    println!(
        "  first version                {:>9.1} ms, {each:.1} us a resource",
        ms(took)
    );
    let mut states: Vec<ResourceState> = new.resources.iter().map(state).collect();
    // As the engine has them.
    states.sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
    let began = Instant::now();
    store
        .version_activate(id, VersionNumber::new(1), &states, &[], &[])
        .await
        .expect("it is put in force");
    println!(
        "  put in force                 {:>9.1} ms",
        ms(began.elapsed())
    );
    actions(store, id, &states).await;
    let mut number = 1;
    for until in AFTER.into_iter().filter(|until| *until <= n_versions) {
        while number < until {
            number += 1;
            let changed = (number * 7919) % n_resources;
            new.resources[changed] = resource(changed, changed / of_set, number);
            if n_sets > 1 && number != until {
                // As a compile of one service does it.
                let first = changed - changed % of_set;
                let sent = new.resources[first..first + of_set].to_vec();
                let partial = PartialVersion {
                    new: version(id, sent),
                    removed_sets: Vec::new(),
                    code: PartialCode::Keep,
                };
                let began = Instant::now();
                store
                    .version_store_partial(&partial)
                    .await
                    .expect("it is stored");
                if number + 1 == until {
                    println!(
                        "  partial version {number:<6}       {:>9.1} ms",
                        ms(began.elapsed())
                    );
                }
            } else if number == until || until == 3 {
                let began = Instant::now();
                store
                    .version_store(&new, &end())
                    .await
                    .expect("it is stored");
                println!(
                    "  full version {number:<6}, one changed {:>6.1} ms",
                    ms(began.elapsed())
                );
            } else {
                number = until - 1;
            }
        }
        lists(store, id, &states, number).await;
    }
    println!("  beside resources:");
    beside::fill(store, id, &states).await;
    beside::measure(store, id).await;
}

/// A history with ten runs for each of a thousand resources.
async fn actions(store: &Store, id: EnvironmentId, states: &[ResourceState]) {
    for round in 0..10 {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for (n, state) in states.iter().take(1000).enumerate() {
            let action = ActionId::generate();
            let moment = Timestamp((round * 1000 + n) as i64 * 1000);
            starts.push(ActionStart {
                id: action,
                action: ActionKind::Deploy,
                version: VersionNumber::new(1),
                resource_id: state.resource_id.clone(),
                started: moment,
            });
            ends.push(ActionEnd {
                id: action,
                finished: moment,
                status: ResourceStatus::Deployed,
                change: Change::NoChange,
                changes: "{}".into(),
                messages: "[]".into(),
                state: Some(state.clone()),
                facts: Vec::new(),
                discovered: Vec::new(),
                resource_id: state.resource_id.clone(),
            });
        }
        let began = Instant::now();
        store
            .action_write(id, &starts, &ends)
            .await
            .expect("written");
        if round == 9 {
            println!(
                "  results of 1000 runs         {:>9.1} ms",
                ms(began.elapsed())
            );
        }
    }
}

/// Pages of current states, as the API asks for them, and then of versions.
async fn lists(store: &Store, id: EnvironmentId, states: &[ResourceState], number: usize) {
    println!("  after version {number}:");
    let number = VersionNumber::new(number as i64);
    let middle = states[states.len() / 2].resource_id.to_string();
    let first = Span::first(101);
    let deep = Span {
        after: Some(Edge::at(Key::of(&middle))),
        ..first.clone()
    };
    let any = Search::default();
    let failed = Search {
        statuses: Some(vec![ResourceStatus::Failed]),
        ..any.clone()
    };
    let host = Search {
        agents: vec!["HOST-42".into()],
        ..any.clone()
    };
    let rare = Search {
        values: vec!["no such thing".into()],
        ..any.clone()
    };
    // What an answer of the API asks of the store.
    let resources = async |search: &Search, span: &Span| {
        let counts = store.state_counts(id).await.expect("counts");
        let page = store
            .state_page(id, search, &counts, span)
            .await
            .expect("a page");
        let total = Span::first(COUNTED);
        store
            .state_count(id, search, &counts, &total)
            .await
            .expect("a count");
        let wanted: Vec<(&ResourceId, VersionNumber)> = page
            .iter()
            .map(|state| (&state.resource_id, number))
            .collect();
        store
            .resource_requires_in(id, &wanted)
            .await
            .expect("requires");
    };
    report("resources, first page", async || {
        resources(&any, &first).await
    })
    .await;
    report("resources, from the middle", async || {
        resources(&any, &deep).await
    })
    .await;
    report("resources, failed", async || {
        resources(&failed, &first).await
    })
    .await;
    report("resources, of an agent", async || {
        resources(&host, &first).await
    })
    .await;
    report("resources, found nowhere", async || {
        resources(&rare, &first).await
    })
    .await;
    let parts = [IdPart::Agent, IdPart::Value].map(StateOrder::Part);
    let orders = [
        ("agent", parts[0]),
        ("value", parts[1]),
        ("status", StateOrder::Status),
    ];
    for (name, order) in orders {
        let key = order.key(&states[states.len() / 2]);
        let deep = Span {
            after: Some(Edge::at(key)),
            ..first.clone()
        };
        for (what, search, span) in [
            ("first page", &any, &first),
            ("from the middle", &any, &deep),
            ("of an agent", &host, &first),
            ("failed", &failed, &first),
        ] {
            report(&format!("resources by {name}, {what}"), async || {
                let counts = store.state_counts(id).await.expect("counts");
                let page = store.state_page_by(id, search, &counts, order, span).await;
                page.expect("a page");
            })
            .await;
        }
    }
    lists_of_versions(store, id, number, &middle).await;
}

/// Pages of stored versions, of the history, and the difference between two versions.
async fn lists_of_versions(store: &Store, id: EnvironmentId, number: VersionNumber, middle: &str) {
    let any = Search::default();
    let first = Span::first(101);
    let deep = Span {
        after: Some(Edge::at(Key::of(middle))),
        ..first.clone()
    };
    report("resources of the version, first page", async || {
        store
            .resource_page(id, number, &any, &first)
            .await
            .expect("a page");
    })
    .await;
    report("resources of the version, from the middle", async || {
        store
            .resource_page(id, number, &any, &deep)
            .await
            .expect("a page");
        let before = Span {
            before: Some(Edge::at(Key::of(middle))),
            ..Span::first(COUNTED)
        };
        store
            .resource_count(id, number, &any, &before)
            .await
            .expect("a count");
    })
    .await;
    for (name, part) in [("agent", IdPart::Agent), ("value", IdPart::Value)] {
        report(&format!("resources of the version by {name}"), async || {
            let page = store.resource_page_by(id, number, &any, part, &first).await;
            page.expect("a page");
        })
        .await;
    }
    report("resources of version 1, first page", async || {
        let one = VersionNumber::new(1);
        store
            .resource_page(id, one, &any, &first)
            .await
            .expect("a page");
    })
    .await;
    report("versions", async || {
        let last = Span {
            is_last: true,
            ..first.clone()
        };
        let search = VersionSearch::default();
        let page = store.version_page(id, &search, &last).await;
        page.expect("versions");
        let all = Span::first(COUNTED);
        let n_versions = store.version_count(id, &search, &all).await;
        n_versions.expect("a count");
    })
    .await;
    report("actions, newest 100", async || {
        let plan = store.action_plan(id, ActionSearch::default()).await;
        let plan = plan.expect("a plan");
        store
            .action_search(id, &plan, ActionFrom::Newest, 100)
            .await
            .expect("actions");
    })
    .await;
    report("difference to the version before", async || {
        let before = number.previous();
        store
            .resource_differences(id, before, number)
            .await
            .expect("differences");
    })
    .await;
}

async fn report(what: &str, mut work: impl AsyncFnMut()) {
    let mut samples = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        work().await;
        samples.push(began.elapsed());
        if samples.iter().sum::<Duration>() > Duration::from_secs(5) {
            break;
        }
    }
    samples.sort_unstable();
    println!(
        "    {what:<44} median {:>7.2} ms   max {:>7.2}",
        ms(samples[samples.len() / 2]),
        ms(samples[samples.len() - 1])
    );
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
