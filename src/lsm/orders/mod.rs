//! Orders: changes to several instances that a client asks for in one call. Source: docs/reference/lsm.md § 5.10.
//!
//! One task carries all orders on. It knows which instances open orders are about: whatever happens to one of them
//! ([`Queue::touched`]) makes its item due, and what is due is looked at ([`step`]): items that may begin begin, items whose
//! instances have arrived end. It remembers how far the items of open orders are, since an order of a thousand of them is
//! touched thousands of times; all else is read from the store each time, and every change to an instance is known again by its
//! correlation id, so looking twice is harmless, and a restart is nothing but another look at all open orders.

mod begin;
mod reason;
mod step;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
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

/// What of an order is to be looked at.
#[derive(Debug, Clone)]
enum Due {
    /// All of it.
    All,
    /// The items of these instances.
    Instances(BTreeSet<Uuid>),
}

impl Due {
    fn has(&self, instance: Uuid) -> bool {
        match self {
            Self::All => true,
            Self::Instances(instances) => instances.contains(&instance),
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    /// The open orders of each instance.
    orders: HashMap<Key, HashSet<Uuid>>,
    /// Orders that are to be looked at.
    due: HashMap<Key, Due>,
    /// The same in the order in which they became due: one that is touched all the time keeps no other waiting.
    turns: VecDeque<Key>,
}

impl Waiting {
    /// An order is to be looked at: the item of an instance, or all of it.
    fn is_due(&mut self, key: Key, instance: Option<Uuid>) {
        let due = self.due.entry(key).or_insert_with(|| {
            self.turns.push_back(key);
            Due::Instances(BTreeSet::new())
        });
        match (due, instance) {
            (Due::All, _) => {}
            (Due::Instances(instances), Some(instance)) => drop(instances.insert(instance)),
            (due, None) => *due = Due::All,
        }
    }

    fn next(&mut self) -> Option<(Key, Due)> {
        let key = self.turns.pop_front()?;
        Some((key, self.due.remove(&key)?))
    }
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
        waiting.is_due((environment, order), None);
        drop(waiting);
        self.wake.notify_one();
    }

    /// Something happened to an instance: its orders are to be looked at. Nearly always there is none.
    pub(super) fn touched(&self, environment: EnvironmentId, instance: Uuid) {
        let mut waiting = self.lock();
        let Some(orders) = waiting.orders.get(&(environment, instance)) else {
            return;
        };
        for order in orders.clone() {
            waiting.is_due((environment, order), Some(instance));
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Has an order looked at after a while: the item of an instance, or all of it.
    fn later(&self, key: Key, instance: Option<Uuid>, pause: Duration) {
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            queue.lock().is_due(key, instance);
            queue.wake.notify_one();
        });
    }

    fn next(&self) -> Option<(Key, Due)> {
        self.lock().next()
    }

    /// The order has ended, or is gone. `instances`: those that it is about; `None`: nobody knows any more.
    fn forget(&self, (environment, order): Key, instances: Option<&[Known]>) {
        let mut waiting = self.lock();
        let Some(items) = instances else {
            waiting.orders.retain(|(of, _), orders| {
                if *of == environment {
                    orders.remove(&order);
                }
                !orders.is_empty()
            });
            return;
        };
        for item in items {
            let key = (environment, item.instance);
            if let Some(orders) = waiting.orders.get_mut(&key) {
                orders.remove(&order);
                if orders.is_empty() {
                    waiting.orders.remove(&key);
                }
            }
        }
    }
}

/// What is remembered of the items of an open order, in their order.
#[derive(Debug)]
struct Known {
    instance: Uuid,
    state: order::ItemState,
    /// Whether it has been noted that its change begins.
    has_begun: bool,
    dependencies: Vec<Uuid>,
    /// How often it was looked for why it failed.
    n_looks: usize,
}

impl Known {
    fn of(item: &OrderItem) -> Self {
        Self {
            instance: item.instance,
            state: item.state,
            has_begun: item.base_version.is_some(),
            dependencies: item.dependencies.clone(),
            n_looks: 0,
        }
    }
}

/// Starts the task that carries orders on; it ends at shutdown.
pub(super) fn start(services: Services, shutdown: CancellationToken) {
    tokio::spawn(async move {
        let mut known = HashMap::new();
        loop {
            // What becomes due while orders are looked at leaves a permit, so none is missed.
            let woken = services.orders.wake.notified();
            while let Some((key, due)) = services.orders.next() {
                tokio::select! {
                    () = carry_on(&services, key, &due, &mut known) => {}
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

async fn carry_on(services: &Services, key: Key, due: &Due, known: &mut HashMap<Key, Vec<Known>>) {
    match step::step(services, key, due, known.remove(&key)).await {
        Ok(Looked::Open(items)) => drop(known.insert(key, items)),
        Ok(Looked::Ended(items)) => services.orders.forget(key, items.as_deref()),
        Err(error) => {
            let (environment, order) = key;
            tracing::error!(
                environment.id = %environment, order.id = %order, error = chain(&error),
                "cannot carry on the order {order}; it is tried again"
            );
            services.orders.later(key, None, PAUSE);
        }
    }
}

/// What a look at an order came to.
enum Looked {
    /// It goes on.
    Open(Vec<Known>),
    /// There is nothing more to do for it.
    Ended(Option<Vec<Known>>),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: three orders become due; while they wait, the last is touched, and when it is the second's turn, the first again.
    /// Expected: each has its turn before the first has a second one, and what was touched meanwhile is looked at in one turn.
    #[test]
    fn an_order_that_is_touched_all_the_time_keeps_no_other_waiting() {
        let environment = EnvironmentId::generate();
        let key = |number: u128| (environment, Uuid::from_u128(number));
        let mut waiting = Waiting::default();
        let (one, two) = (Uuid::from_u128(7), Uuid::from_u128(8));
        waiting.is_due(key(1), Some(one));
        waiting.is_due(key(3), None);
        waiting.is_due(key(2), Some(one));
        waiting.is_due(key(2), Some(two));
        waiting.is_due(key(3), Some(two));
        let (first, due) = waiting.next().unwrap();
        assert!(first == key(1) && due.has(one) && !due.has(two));
        waiting.is_due(key(1), Some(two));
        let (second, due) = waiting.next().unwrap();
        assert!(second == key(3) && due.has(one) && due.has(two));
        let (third, due) = waiting.next().unwrap();
        assert!(third == key(2) && due.has(one) && due.has(two));
        let (again, due) = waiting.next().unwrap();
        assert!(again == key(1) && !due.has(one) && due.has(two));
        assert!(waiting.next().is_none());
    }
}
