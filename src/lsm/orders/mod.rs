//! Orders: changes to several instances that a client asks for in one call. Source: docs/reference/lsm.md § 5.10.
//!
//! One task carries all orders on. It knows which instances open orders are about: whatever happens to one of them
//! ([`Queue::touched`]) makes its orders due, and what is due is looked at as a whole ([`step`]): items that may begin begin,
//! items whose instances have arrived end. What an order is like is read from the store each time, and every change to an
//! instance is known again by its correlation id, so looking twice is harmless, and a restart is nothing but another look at
//! all open orders.

mod begin;
mod reason;
mod step;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steward_lsm::order;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Services;
use crate::domain::{EnvironmentId, Timestamp, chain};
use crate::store::{self, ItemOutcome, Order, OrderItem};

/// After so long an order is looked at again that the store did not answer for.
const PAUSE: Duration = Duration::from_secs(1);

/// An order of an environment.
type Key = (EnvironmentId, Uuid);

#[derive(Debug, Default)]
struct Waiting {
    /// The open orders of each instance.
    orders: HashMap<Key, HashSet<Uuid>>,
    /// Orders that are to be looked at.
    due: BTreeSet<Key>,
}

/// The orders that are open, and those that are to be looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    waiting: Arc<Mutex<Waiting>>,
    wake: Arc<Notify>,
}

impl Queue {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an order, and has it looked at.
    fn add(
        &self,
        environment: EnvironmentId,
        order: Uuid,
        instances: impl IntoIterator<Item = Uuid>,
    ) {
        let mut waiting = self.lock();
        for instance in instances {
            let orders = waiting.orders.entry((environment, instance)).or_default();
            orders.insert(order);
        }
        waiting.due.insert((environment, order));
        drop(waiting);
        self.wake.notify_one();
    }

    /// Something happened to an instance: its orders are to be looked at. Nearly always there is none.
    pub(super) fn touched(&self, environment: EnvironmentId, instance: Uuid) {
        let mut waiting = self.lock();
        let Some(orders) = waiting.orders.get(&(environment, instance)) else {
            return;
        };
        let due: Vec<Key> = orders.iter().map(|order| (environment, *order)).collect();
        waiting.due.extend(due);
        drop(waiting);
        self.wake.notify_one();
    }

    fn again(&self, key: Key) {
        self.lock().due.insert(key);
        self.wake.notify_one();
    }

    fn next(&self) -> Option<Key> {
        self.lock().due.pop_first()
    }

    /// The order has ended, or is gone.
    fn forget(&self, (environment, order): Key) {
        self.lock().orders.retain(|(of, _), orders| {
            if *of == environment {
                orders.remove(&order);
            }
            !orders.is_empty()
        });
    }
}

/// Starts the task that carries orders on; it ends at shutdown.
pub(super) fn start(services: Services, shutdown: CancellationToken) {
    tokio::spawn(async move {
        loop {
            // What becomes due while orders are looked at leaves a permit, so none is missed.
            let woken = services.orders.wake.notified();
            while let Some(key) = services.orders.next() {
                tokio::select! {
                    () = carry_on(&services, key) => {}
                    // What has begun is found again at the next start.
                    () = shutdown.cancelled() => return,
                }
            }
            tokio::select! {
                () = woken => {}
                () = shutdown.cancelled() => return,
            }
        }
    });
}

async fn carry_on(services: &Services, key: Key) {
    match step::step(services, key).await {
        Ok(true) => {}
        Ok(false) => services.orders.forget(key),
        Err(error) => {
            let (environment, order) = key;
            tracing::error!(
                environment.id = %environment, order.id = %order, error = chain(&error),
                "cannot carry on the order {order}; it is tried again"
            );
            let queue = services.orders.clone();
            tokio::spawn(async move {
                tokio::time::sleep(PAUSE).await;
                queue.again(key);
            });
        }
    }
}

/// What a client orders.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// `None`: a new one.
    pub id: Option<Uuid>,
    pub description: String,
    pub items: Vec<NewItem>,
}

/// A change to one instance. What is wrong with it shows when it begins.
#[derive(Debug, Clone)]
pub struct NewItem {
    pub instance: Uuid,
    pub entity: String,
    pub action: order::Action,
    /// An object with `attributes`, `edits` and `config`; null where there is none.
    pub request: serde_json::Value,
}

impl Services {
    /// Takes an order. It is carried out from now on, whatever happens to the server.
    ///
    /// # Errors
    /// [`store::Error::Conflict`]: its id is taken.
    pub async fn order(&self, environment: EnvironmentId, new: NewOrder) -> store::Result<Order> {
        let planned = step::plan(self, environment, &new.items).await?;
        let dependencies = order::dependencies(&planned);
        let item = |(item, dependencies): (NewItem, Vec<Uuid>)| OrderItem {
            instance: item.instance,
            entity: item.entity,
            action: item.action,
            request: item.request,
            dependencies,
            correlation_id: Uuid::new_v4(),
            state: order::ItemState::Acknowledged,
            base_version: None,
            outcome: ItemOutcome::default(),
        };
        let order = Order {
            id: new.id.unwrap_or_else(Uuid::now_v7),
            description: new.description,
            created: Timestamp::now(),
            completed: None,
            items: new.items.into_iter().zip(dependencies).map(item).collect(),
        };
        self.store.order_create(environment, &order).await?;
        let instances = order.items.iter().map(|item| item.instance);
        self.orders.add(environment, order.id, instances);
        Ok(order)
    }

    /// Takes up the orders that the last run of the server left.
    pub(super) async fn orders_start(&self, environment: EnvironmentId) -> store::Result<()> {
        for (order, instance) in self.store.orders_open(environment).await? {
            self.orders.add(environment, order, [instance]);
        }
        Ok(())
    }
}
