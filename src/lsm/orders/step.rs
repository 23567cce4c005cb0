//! One look at an order: what can begin begins, what has ended is noted.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use steward_lsm::lifecycle::{Event, Severity};
use steward_lsm::order::{self, Failure, ItemState, Planned, Progress, Step, Turn};
use steward_lsm::{Instance, attributes};
use uuid::Uuid;

use super::begin::edits;
use super::reason::why;
use super::{Due, Key, Known, Looked, NewItem};
use crate::domain::{EnvironmentId, Timestamp};
use crate::lsm::Services;
use crate::store::{self, Catalog, Definition, OrderItem, StoredEvent};

/// Versions of an instance that are looked at since an item began. A lifecycle that needs more goes round in circles.
const MAX_VERSIONS: i64 = 1000;
/// An instance hears of its deployment before the runs of its resources are in the database, so that no crash can lose the news.
/// What a failed run said comes a transaction later: so often it is looked for, with this pause.
const LOOKS: usize = 60;
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a reason.
const MAX_REASON_BYTES: usize = 4096;

/// What items name, and what their instances named until now.
pub(super) async fn plan(
    services: &Services,
    environment: EnvironmentId,
    items: &[NewItem],
) -> store::Result<Vec<Planned>> {
    let catalog = services.store.service_catalog(environment).await?;
    let mut planned = Vec::new();
    for item in items {
        let mut plan = Planned {
            instance: item.instance,
            action: Some(item.action),
            ..Planned::default()
        };
        let instance = services.store.service_fetch(environment, item.instance);
        let instance = instance
            .await?
            .filter(|found| found.service_entity == item.entity);
        // What an instance names is what its own definition says, however old that is.
        let version = instance.as_ref().map(|found| found.service_entity_version);
        if let Some(definition) = catalog.definition(&item.entity, version) {
            let entity = &definition.entity;
            if let Some(given) = item.request["attributes"].as_object() {
                plan.names = order::named(entity, given);
            }
            if let Some(base) = instance.as_ref().and_then(Instance::base) {
                plan.named = order::named(entity, base);
                if let Ok(change) = edits(&item.request)
                    && let Ok(after) = attributes::edit(entity, base, &change)
                {
                    plan.names = order::named(entity, &after);
                }
            }
        }
        planned.push(plan);
    }
    Ok(planned)
}

/// The end of an item whose change came to nothing: its transfer was taken in, and could not be executed. Nothing follows then.
fn not_executed(events: &[StoredEvent], steps: &[Step], item: &OrderItem) -> Option<Ended> {
    let came_to_nothing = |event: &&Event| {
        let is_ours = event.event_correlation_id == item.correlation_id;
        is_ours && (event.ignored_transition || event.severity == Severity::Error)
    };
    let mut newest_first = events.iter().rev().map(|stored| &stored.event);
    let event = newest_first.find(came_to_nothing)?;
    let failed = || Ended::Failed(Failure::ExecutionFailed, event.message.clone());
    steps.is_empty().then(failed)
}

/// Looks at what of an order is due. `known`: what is remembered of it.
pub(super) async fn step(
    services: &Services,
    key: Key,
    due: &Due,
    known: Option<Vec<Known>>,
) -> store::Result<Looked> {
    let (environment, id) = key;
    let mut items = match (due, known) {
        (Due::Instances(_), Some(known)) => known,
        _ => match services.store.order_fetch(environment, id).await? {
            Some(order) if order.completed.is_none() => order.items.iter().map(Known::of).collect(),
            Some(_) | None => return Ok(Looked::Ended(None)),
        },
    };
    let catalog = services.store.service_catalog(environment).await?;
    let look = Look {
        services,
        environment,
        catalog: &catalog,
        order: id,
    };
    // What an item waited for may have ended a moment ago.
    let nothing = Due::Instances(BTreeSet::new());
    let mut has_ended = look.items(&mut items, due).await?;
    while has_ended {
        has_ended = look.items(&mut items, &nothing).await?;
    }
    if look.circles(&mut items).await? {
        while look.items(&mut items, &nothing).await? {}
    }
    let has_ended = items.iter().all(|item| item.state.has_ended());
    if has_ended {
        let now = Timestamp::now();
        services.store.order_complete(environment, id, now).await?;
    }
    Ok(match has_ended {
        true => Looked::Ended(Some(items)),
        false => Looked::Open(items),
    })
}

/// The items, by their instances, that have not begun and wait for themselves by way of others.
fn in_circles(items: &[Known]) -> BTreeSet<Uuid> {
    let waiting = items.iter();
    let waiting = waiting
        .filter(|item| item.state == ItemState::Acknowledged)
        .map(|item| (item.instance, item.dependencies.as_slice()));
    order::in_circles(&waiting.collect())
}

/// What all items of an order have in common.
pub(super) struct Look<'l> {
    pub(super) services: &'l Services,
    pub(super) environment: EnvironmentId,
    catalog: &'l Catalog,
    pub(super) order: Uuid,
}

/// What an item did.
pub(super) enum Ended {
    No,
    Completed,
    Failed(Failure, String),
    /// As `Failed`, and what the resource said that failed is not known yet.
    Unexplained(Failure, String),
}

/// What the instance of an item is like: the label of its state, and what people call it.
pub(super) fn describe(item: &mut OrderItem, instance: &Instance, definition: &Definition) {
    let entity = &definition.entity;
    let state = entity.lifecycle.state(&instance.state);
    let label = state.and_then(|state| state.label);
    item.outcome.label = label.map(|label| label.as_str().to_owned());
    let identity = instance.service_identity_attribute_value.clone();
    item.outcome.identity =
        identity.map(|identity| (identity, entity.service_identity_display_name.clone()));
}

pub(super) fn invalid(reason: impl Into<String>) -> Ended {
    Ended::Failed(Failure::InvalidOrderItem, reason.into())
}

impl Look<'_> {
    /// Looks at the items that are due, and at those whose turn it is; whether one of them ended.
    async fn items(&self, items: &mut [Known], due: &Due) -> store::Result<bool> {
        let states = items.iter().map(|item| (item.instance, item.state));
        let mut states: HashMap<Uuid, ItemState> = states.collect();
        let mut has_ended = false;
        for (at, known) in items.iter_mut().enumerate() {
            let turn = match known.has_begun {
                _ if known.state.has_ended() => continue,
                true if !due.has(known.instance) => continue,
                true => None,
                false => match order::turn(&known.dependencies, |id| states.get(&id).copied()) {
                    Turn::Waits => continue,
                    turn => Some(turn),
                },
            };
            let key = (self.environment, self.order);
            let Some(mut item) = self.services.store.order_item_fetch(key, at).await? else {
                continue;
            };
            let ended = match turn {
                None => self.examine(at, &mut item).await?,
                Some(Turn::Skipped(failed)) => {
                    let reason =
                        format!("the item of the instance {failed} failed, on which it depends");
                    Ended::Failed(Failure::ExecutionSkipped, reason)
                }
                Some(_) => self.begin(at, &mut item).await?,
            };
            known.has_begun = item.base_version.is_some();
            known.state = item.state;
            if matches!(ended, Ended::Unexplained(..)) && known.n_looks < LOOKS {
                known.n_looks += 1;
                let orders = &self.services.orders;
                orders.later(key, Some(known.instance), PAUSE);
                continue;
            }
            has_ended |= self.note((at, known), item, ended).await?;
            states.insert(known.instance, known.state);
        }
        Ok(has_ended)
    }

    /// Ends items that wait for one another in a circle: nothing is under way that could let one of them begin. What waits for
    /// them without being in a circle is skipped then, as after any other failure. Whether there were some.
    async fn circles(&self, items: &mut [Known]) -> store::Result<bool> {
        let mut states = items.iter().map(|item| item.state);
        if states.any(|state| state == ItemState::InProgress) {
            return Ok(false);
        }
        let circles = in_circles(items);
        let mut has_ended = false;
        for (at, known) in items.iter_mut().enumerate() {
            if !circles.contains(&known.instance) {
                continue;
            }
            let key = (self.environment, self.order);
            if let Some(item) = self.services.store.order_item_fetch(key, at).await? {
                let reason = "it waits for items of the order that wait for it";
                has_ended |= self.note((at, known), item, invalid(reason)).await?;
            }
        }
        Ok(has_ended)
    }

    /// Looks where the instance of an item is whose change was asked for. Was it lost in a crash, then it is asked for now.
    async fn examine(&self, at: usize, item: &mut OrderItem) -> store::Result<Ended> {
        let events = self.events(item).await?;
        let is_ours =
            |stored: &StoredEvent| stored.event.event_correlation_id == item.correlation_id;
        let has_begun = events
            .iter()
            .any(|stored| is_ours(stored) && stored.event.destination.is_some());
        if has_begun {
            self.examine_once(item).await
        } else {
            self.begin(at, item).await
        }
    }

    async fn events(&self, item: &OrderItem) -> store::Result<Vec<StoredEvent>> {
        let base = item.base_version.unwrap_or_default();
        let last = u64::try_from(i64::MAX).unwrap_or(u64::MAX);
        let store = &self.services.store;
        store
            .service_events_of(self.environment, item.instance, base..=last)
            .await
    }

    pub(super) async fn examine_once(&self, item: &mut OrderItem) -> store::Result<Ended> {
        let store = &self.services.store;
        let instance = store.service_fetch(self.environment, item.instance).await?;
        let definition = match &instance {
            Some(instance) => self.definition(instance),
            None => self
                .catalog
                .definition(&item.entity, None)
                .map(|one| &**one),
        };
        let Some(definition) = definition else {
            return Ok(invalid(format!("there is no service {}", item.entity)));
        };
        let events = self.events(item).await?;
        let steps = self.steps(item, &events).await?;
        let entity = &definition.entity;
        // Of an update they were read when it began; others have none.
        let edits = edits(&item.request).unwrap_or_default();
        let (action, now) = (item.action, instance.as_ref());
        let progress = order::progress(entity, action, &edits, now, &steps);
        if let Some(instance) = &instance {
            describe(item, instance, definition);
        }
        match progress {
            Progress::Running => Ok(not_executed(&events, &steps, item).unwrap_or(Ended::No)),
            Progress::Completed => Ok(Ended::Completed),
            Progress::Failed(failure, reason) => {
                let store = &self.services.store;
                let found = why(store, self.environment, (item, failure), &events).await?;
                item.outcome.validation = found.validation;
                Ok(match found.message {
                    Some(text) => Ended::Failed(failure, format!("{reason}: {text}")),
                    None if failure == Failure::ExecutionFailed => {
                        Ended::Unexplained(failure, reason)
                    }
                    None => Ended::Failed(failure, reason),
                })
            }
        }
    }

    /// The transfers of the instance since the item began.
    async fn steps(&self, item: &OrderItem, events: &[StoredEvent]) -> store::Result<Vec<Step>> {
        let base = item.base_version.unwrap_or_default();
        let after = i64::try_from(base).unwrap_or(i64::MAX);
        let range = (after, i64::MAX);
        let store = &self.services.store;
        let log = store.service_log(self.environment, item.instance, range, true, MAX_VERSIONS);
        let events: Vec<&Event> = events.iter().map(|stored| &stored.event).collect();
        Ok(order::steps(log.await?, &events, item.correlation_id))
    }

    pub(super) fn definition(&self, instance: &Instance) -> Option<&Definition> {
        let version = Some(instance.service_entity_version);
        let found = self.catalog.definition(&instance.service_entity, version);
        found.map(|found| &**found)
    }

    /// Stores how far an item is now; whether it has ended.
    async fn note(
        &self,
        (at, known): (usize, &mut Known),
        mut item: OrderItem,
        ended: Ended,
    ) -> store::Result<bool> {
        match ended {
            Ended::No => return Ok(false),
            Ended::Completed => item.state = ItemState::Completed,
            Ended::Failed(failure, reason) | Ended::Unexplained(failure, reason) => {
                item.state = ItemState::Failed;
                let end = reason.floor_char_boundary(MAX_REASON_BYTES);
                item.outcome.failure = Some(failure);
                item.outcome.reason = Some(reason[..end].to_owned());
            }
        }
        let store = &self.services.store;
        let key = (self.environment, self.order);
        store.order_item_write(key, at, &item).await?;
        known.state = item.state;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: two items that wait for each other, one that waits for them, one that waits for that, and one for nobody.
    /// Expected: only the first two are in a circle; the others are skipped once these have failed.
    #[test]
    fn only_items_that_wait_for_themselves_are_in_a_circle() {
        let id = |number: u128| Uuid::from_u128(number);
        let item = |number: u128, waits_for: &[u128]| Known {
            instance: id(number),
            state: ItemState::Acknowledged,
            has_begun: false,
            dependencies: waits_for.iter().copied().map(id).collect(),
            n_looks: 0,
        };
        let items = [
            item(1, &[2]),
            item(2, &[1]),
            item(3, &[1, 2]),
            item(4, &[3]),
            item(5, &[]),
        ];
        assert_eq!(in_circles(&items), BTreeSet::from([id(1), id(2)]));
    }
}
