//! What is old goes, and what something may still ask for stays.

use serde_json::json;
use steward_lsm::Attributes;
use steward_lsm::lifecycle::{Request, Trigger};
use steward_lsm::order::{Action, ItemState};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::{EnvironmentId, Timestamp};
use crate::lsm::{Creation, Services};
use crate::store::macros::write;
use crate::store::service::count::tests::define;
use crate::store::tests::{check, environment};
use crate::store::{Cause, EventSearch, EventSpan, Order, OrderItem, Result, Store};

const NOW: i64 = 1_000_000_000;
const LONG_AGO: i64 = 1000;
/// Between the two.
const BEFORE: Timestamp = Timestamp(500_000_000);

struct World {
    store: Store,
    services: Services,
    here: EnvironmentId,
}

impl World {
    async fn new(store: Store) -> Self {
        let here = environment(&store).await;
        define(&store, here).await;
        let services = Services::new(store.clone(), CancellationToken::new());
        Self {
            store,
            services,
            here,
        }
    }

    async fn create(&self) -> Uuid {
        let creation = Creation {
            entity: "link".to_owned(),
            version: Some(1),
            attributes: Attributes::new(),
            ..Creation::default()
        };
        let created = self.services.create(self.here, &creation).await.unwrap();
        created.instance.id
    }

    async fn happens(&self, instance: Uuid, trigger: Trigger) {
        let request = Request {
            trigger,
            current_version: None,
            correlation_id: Uuid::new_v4(),
        };
        let cause = Cause {
            instance,
            ..Cause::default()
        };
        self.services
            .change(self.here, &cause, &request)
            .await
            .unwrap();
    }

    /// Brings an instance to and fro, so often.
    async fn moves(&self, instance: Uuid, n_moves: usize) {
        for target in ["b", "a"].into_iter().cycle().take(n_moves) {
            let target = target.to_owned();
            let message = None;
            self.happens(instance, Trigger::SetState { target, message })
                .await;
        }
    }

    /// All that has happened so far to an instance happened at that time.
    async fn date(&self, instance: Uuid, time: i64) -> Result<()> {
        for sql in [
            "UPDATE service_instance_log SET timestamp_us = $3 WHERE environment_id = $1 AND instance_id = $2",
            "UPDATE service_instance_event SET timestamp_us = $3 WHERE environment_id = $1 AND instance_id = $2",
            "UPDATE service_instance SET updated_us = $3 WHERE environment_id = $1 AND id = $2",
        ] {
            write!(self.store.db, pool => {
                sqlx::query(sql)
                    .bind(self.here.to_string())
                    .bind(instance.to_string())
                    .bind(time)
                    .execute(pool)
                    .await?
                    .rows_affected()
            });
        }
        Ok(())
    }

    async fn purge(&self) -> u64 {
        let purged = self.store.service_history_purge(self.here, BEFORE);
        purged.await.unwrap()
    }

    /// Versions whose records there are.
    async fn versions(&self, instance: Uuid) -> Vec<u64> {
        let log = self
            .store
            .service_log(self.here, instance, (0, i64::MAX), true, 1000);
        log.await.unwrap().iter().map(|one| one.version).collect()
    }

    async fn n_events(&self, instance: Uuid) -> i64 {
        let (search, span) = (EventSearch::default(), EventSpan::default());
        let counted = self
            .store
            .service_event_count(self.here, instance, &search, &span);
        counted.await.unwrap()
    }
}

/// Given: an instance of 31 versions, all but the last four of long ago. Expected: its last ten versions stay, with the
/// transfers that led to them; an instance of few versions keeps all of them, however old.
#[tokio::test]
async fn the_last_versions_of_an_instance_stay() {
    check(|store| async move {
        let world = World::new(store).await;
        let (long, short) = (world.create().await, world.create().await);
        world.moves(long, 26).await;
        world.moves(short, 4).await;
        for one in [long, short] {
            world.date(one, LONG_AGO).await.unwrap();
        }
        world.moves(long, 4).await;
        assert_eq!(world.versions(long).await.len(), 31);
        let n_events = world.n_events(short).await;
        assert!(world.purge().await > 0);
        assert_eq!(
            world.versions(long).await,
            (22..=31).collect::<Vec<_>>(),
            "ten are left"
        );
        let events = world
            .store
            .service_events_of(world.here, long, 1..=31)
            .await
            .unwrap();
        let before: Vec<u64> = events
            .iter()
            .map(|stored| stored.event.service_instance_version)
            .collect();
        assert_eq!(before, (21..=30).collect::<Vec<_>>());
        assert_eq!(world.versions(short).await, [1, 2, 3, 4, 5]);
        assert_eq!(world.n_events(short).await, n_events);
        assert_eq!(world.purge().await, 0, "there is nothing else");
    })
    .await;
}

/// Given: an old instance of many versions that an order in progress is about. Expected: all stays until the order has ended.
#[tokio::test]
async fn what_an_order_in_progress_is_about_stays() {
    check(|store| async move {
        let world = World::new(store).await;
        let instance = world.create().await;
        world.moves(instance, 20).await;
        world.date(instance, LONG_AGO).await.unwrap();
        let item = OrderItem {
            instance,
            entity: "link".to_owned(),
            action: Action::Update,
            request: json!({}),
            dependencies: Vec::new(),
            correlation_id: Uuid::new_v4(),
            state: ItemState::InProgress,
            base_version: Some(3),
            outcome: crate::store::ItemOutcome::default(),
        };
        let order = Order {
            id: Uuid::new_v4(),
            description: String::new(),
            created: Timestamp(LONG_AGO),
            completed: None,
            items: vec![item],
        };
        world.store.order_create(world.here, &order).await.unwrap();
        assert_eq!(world.purge().await, 0);
        assert_eq!(world.versions(instance).await.len(), 21);
        let completed = world
            .store
            .order_complete(world.here, order.id, Timestamp(NOW));
        completed.await.unwrap();
        assert!(world.purge().await > 0);
        assert_eq!(world.versions(instance).await.len(), 10);
    })
    .await;
}

/// Given: instances that have ended long ago and just now, and one that is. Expected: the first is gone with all that was of it,
/// and is not counted any more.
#[tokio::test]
async fn an_instance_that_ended_long_ago_goes_as_a_whole() {
    check(|store| async move {
        let world = World::new(store).await;
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(world.create().await);
        }
        let [old, young, there] = all[..] else {
            panic!("three were made")
        };
        for ended in [old, young] {
            world.happens(ended, Trigger::Deleted).await;
        }
        for one in [old, there] {
            world.date(one, LONG_AGO).await.unwrap();
        }
        let is_there = async |id| {
            let found = world.store.service_fetch(world.here, id).await.unwrap();
            found.is_some()
        };
        assert!(world.purge().await > 0);
        assert!(!is_there(old).await && is_there(young).await && is_there(there).await);
        assert!(world.versions(old).await.is_empty());
        assert_eq!(world.n_events(old).await, 0);
        assert!(world.n_events(there).await > 0, "it is as it was made");
        let numbers = world.store.service_numbers(world.here, "link").await;
        assert_eq!(numbers.unwrap().values().sum::<i64>(), 2);
    })
    .await;
}
