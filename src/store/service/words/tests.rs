//! A search by words finds what looking at every instance finds, whatever happens to instances between two searches.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::Uuid;

use crate::domain::EnvironmentId;
use crate::store::macros::transaction;
use crate::store::service::{Column, InstanceSearch, InstanceSpan};
use crate::store::tests::{check, environment};
use crate::store::{Result, Store};

const WORDS: &[&[&str]] = &[
    &["site"],
    &["SITE 1"],
    &["00000007"],
    &["nowhere"],
    &["%"],
    &["_"],
    &["\u{e9}"],
    &[""],
    &["nowhere", "b"],
    &["7-0000-4000", "\u{1f}"],
];

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number << 96)
}

/// What happens to an instance: its identity from then on, and whether it ends; `None`: it is removed.
#[derive(Debug, Clone)]
struct Step {
    number: u128,
    now: Option<(Option<String>, bool)>,
}

fn step(random: &mut StdRng) -> Step {
    const NAMES: [&str; 6] = ["site", "Site", "b", "%", "_", "\u{e9}"];
    let name = NAMES[random.random_range(0..NAMES.len())];
    let identity = random
        .random_bool(0.8)
        .then(|| format!("{name} {}", random.random_range(0..20)));
    let now = (identity, random.random_bool(0.1));
    Step {
        number: random.random_range(0..12),
        now: random.random_bool(0.9).then_some(now),
    }
}

async fn write(store: &Store, environment: EnvironmentId, step: &Step) -> Result<()> {
    const DELETE: &str = "DELETE FROM service_instance WHERE environment_id = $1 AND id = $2";
    const INSERT: &str = "INSERT INTO service_instance (environment_id, id, entity, entity_version, version, \
                          desired_state_version, state, identity, config, metadata, is_deleted, created_us, updated_us) \
                          VALUES ($1, $2, $3, 0, 1, 1, 'up', $4, '{}', '{}', $5, 0, 0)";
    let _telling = store.remembered.telling(environment, Some(id(step.number)));
    // Every third is of another service, of which the same is found nothing.
    let entity = if step.number.is_multiple_of(3) {
        "port"
    } else {
        "link"
    };
    transaction!(store.db, tx => {
        sqlx::query(DELETE)
            .bind(environment.to_string())
            .bind(id(step.number).to_string())
            .execute(&mut *tx)
            .await?;
        if let Some((identity, is_deleted)) = &step.now {
            sqlx::query(INSERT)
                .bind(environment.to_string())
                .bind(id(step.number).to_string())
                .bind(entity)
                // Two of one name are refused.
                .bind(identity.as_ref().map(|identity| format!("{identity} {}", step.number)))
                .bind(is_deleted)
                .execute(&mut *tx)
                .await?;
        }
    });
    Ok(())
}

/// The ids that a search finds, on the first page, and how many it counts.
async fn find(
    store: &Store,
    environment: EnvironmentId,
    search: &InstanceSearch,
) -> (Vec<Uuid>, i64) {
    let span = InstanceSpan {
        column: Column::Id,
        is_descending: false,
        greater: None,
        smaller: None,
        limit: 100,
    };
    let page = store
        .service_page(environment, search, &span)
        .await
        .unwrap();
    let n_found = store
        .service_count(environment, search, &span)
        .await
        .unwrap();
    (page.iter().map(|found| found.id).collect(), n_found)
}

fn search(words: &[&str], is_deleted: Option<bool>) -> InstanceSearch {
    InstanceSearch {
        entity: "link".to_owned(),
        is_deleted,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        ..InstanceSearch::default()
    }
}

async fn follows(store: &Store, environment: EnvironmentId, steps: &[Step]) {
    for (n, step) in steps.iter().enumerate() {
        write(store, environment, step).await.unwrap();
        for words in WORDS.iter().skip(n % 3).step_by(2) {
            let (found, n_found) = find(store, environment, &search(words, Some(false))).await;
            // Where ended ones are asked for, too, the database looks at each.
            let (mut all, _) = find(store, environment, &search(words, None)).await;
            let ended = InstanceSearch {
                is_deleted: Some(true),
                ..search(&[], None)
            };
            let (ended, _) = find(store, environment, &ended).await;
            all.retain(|id| !ended.contains(id));
            assert_eq!(found, all, "{words:?} after {:?}", &steps[..=n]);
            assert_eq!(n_found, all.len() as i64);
        }
    }
}

/// Given: random instances that come, change their identity, end and go. Expected: after each step a search by words finds
/// what a look at every row finds, on both databases.
#[tokio::test]
async fn a_search_by_words_finds_what_a_look_at_each_instance_finds() {
    check(|store| async move {
        for seed in 0..12 {
            let mut random = StdRng::seed_from_u64(seed);
            let n_steps = random.random_range(1..25);
            let steps: Vec<Step> = (0..n_steps).map(|_| step(&mut random)).collect();
            let here = environment(&store).await;
            follows(&store, here, &steps).await;
        }
    })
    .await;
}

/// Expected: what is no longer true does not pile up without end.
#[test]
fn entries_that_are_no_longer_true_are_dropped_in_the_end() {
    let mut known = super::Known::default();
    for round in 0..=super::MAX_STALE {
        known
            .set(&id(1).to_string(), Some(&format!("name {round}")))
            .unwrap();
        assert!(!known.is_worn());
    }
    known.set(&id(1).to_string(), Some("the last")).unwrap();
    known.set(&id(1).to_string(), Some("again")).unwrap();
    assert!(known.is_worn());
}
