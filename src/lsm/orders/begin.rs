//! The begin of an item: what is wrong with it, and the change of its instance.

use std::collections::BTreeMap;

use serde_json::Value;
use steward_lsm::lifecycle::{Change, Edit, Request, Trigger};
use steward_lsm::order::{self, Action, Failure, ItemState};
use steward_lsm::{Attributes, Instance, ServiceEntity, attributes};

use super::step::{Ended, Look, describe, invalid};
use crate::lsm::Creation;
use crate::store::{self, Cause, OrderItem};

/// How often an item begins anew because others change its instance at the same moment.
const MAX_ATTEMPTS: usize = 10;

/// The edits of an update.
pub(super) fn edits(request: &Value) -> Result<Vec<Edit>, String> {
    let edits = request["edits"].clone();
    serde_json::from_value(edits).map_err(|error| {
        format!("an update has `edits`, a list of {{edit_id, operation, target, value}}: {error}")
    })
}

/// The switches of an item that are set.
fn switches(request: &Value) -> BTreeMap<String, bool> {
    let config = request["config"].as_object();
    let values = config.into_iter().flatten();
    let values = values.filter_map(|(name, value)| Some((name.clone(), value.as_bool()?)));
    values.collect()
}

/// The attributes that an update gives to an instance; `None`: those that it has.
///
/// # Errors
/// What is wrong with its edits.
fn updated(
    entity: &ServiceEntity,
    instance: &Instance,
    request: &Value,
) -> Result<Option<Attributes>, String> {
    let nothing = Attributes::new();
    let base = instance.base().unwrap_or(&nothing);
    let mut before = base.clone();
    attributes::fill(entity, &mut before);
    let after = attributes::update(entity, base, &Change::Edits(edits(request)?));
    let after = after.map_err(|problems| problems.to_string())?;
    Ok(Some(after).filter(|after| *after != before || instance.deleted))
}

impl Look<'_> {
    /// Begins an item: notes where its instance is, and changes that.
    pub(super) async fn begin(&self, at: usize, item: &mut OrderItem) -> store::Result<Ended> {
        for _ in 0..MAX_ATTEMPTS {
            let found = self
                .services
                .store
                .service_fetch(self.environment, item.instance);
            let found = found.await?;
            if let Some(ended) = self.check(item, found.as_ref()).await? {
                let own = found.filter(|instance| instance.service_entity == item.entity);
                if let Some(instance) = own
                    && let Some(definition) = self.definition(&instance)
                {
                    describe(item, &instance, definition);
                }
                return Ok(ended);
            }
            let version = found.as_ref().map_or(0, |instance| instance.version);
            item.base_version = Some(version);
            item.state = ItemState::InProgress;
            let store = &self.services.store;
            let key = (self.environment, self.order);
            store.order_item_write(key, at, item).await?;
            match self.change(item, version).await {
                Ok(()) => return self.examine_once(item).await,
                Err(store::Error::Conflict(reason)) => {
                    let now = store.service_fetch(self.environment, item.instance).await?;
                    if now.map_or(0, |instance| instance.version) == version {
                        return Ok(invalid(reason));
                    }
                }
                Err(
                    error @ (store::Error::Refused(_)
                    | store::Error::NotFound(_)
                    | store::Error::Denied(_)),
                ) => return Ok(invalid(error.to_string())),
                Err(error) => return Err(error),
            }
        }
        let reason = "others change the instance all the time";
        Ok(Ended::Failed(Failure::Inconclusive, reason.to_owned()))
    }

    /// What can be said before anything changes; `None`: the item may begin. Switches are set here, since they are all that
    /// an update without another effect does; not those of an item of which it is known by then that it can not begin.
    async fn check(
        &self,
        item: &OrderItem,
        found: Option<&Instance>,
    ) -> store::Result<Option<Ended>> {
        let Some(instance) = found else {
            let missing = format!("there is no instance {}", item.instance);
            return Ok((item.action != Action::Create).then(|| invalid(missing)));
        };
        if item.action == Action::Create {
            let taken = format!("there is an instance with the id {} already", item.instance);
            return Ok(Some(invalid(taken)));
        }
        if instance.service_entity != item.entity {
            let other = &instance.service_entity;
            let reason = format!("the instance {} is one of {other}", instance.id);
            return Ok(Some(invalid(reason)));
        }
        let Some(definition) = self.definition(instance) else {
            return Ok(Some(invalid(format!(
                "there is no service {}",
                item.entity
            ))));
        };
        let entity = &definition.entity;
        let mut leaving = entity.lifecycle.leaving(&instance.state);
        let (is_taken, ended) = match item.action {
            Action::Create | Action::Delete => (leaving.any(|one| one.on_delete), None),
            Action::Update => match updated(entity, instance, &item.request) {
                Err(reason) => return Ok(Some(invalid(reason))),
                Ok(None) => (true, Some(Ended::Completed)),
                Ok(Some(after)) => {
                    let known = instance.base().map(|base| order::named(entity, base));
                    let known = known.unwrap_or_default();
                    let mut named = attributes::references(entity, &after);
                    named.retain(|named| !known.contains(&named.id));
                    let store = &self.services.store;
                    let missing = store.relations_missing(self.environment, &named).await?;
                    let is_taken = leaving.any(|one| one.on_update) && missing.is_empty();
                    (is_taken, None)
                }
            },
        };
        // What its state does not take is refused with the change itself.
        if is_taken && let Some(ended) = self.configure(item).await? {
            return Ok(Some(ended));
        }
        Ok(ended)
    }

    /// Sets the switches of an instance that is there.
    async fn configure(&self, item: &OrderItem) -> store::Result<Option<Ended>> {
        let values = switches(&item.request);
        if values.is_empty() {
            return Ok(None);
        }
        let request = Request {
            trigger: Trigger::Configured { values },
            current_version: None,
            correlation_id: item.correlation_id,
        };
        let cause = Cause {
            instance: item.instance,
            entity: Some(item.entity.clone()),
            ..Cause::default()
        };
        match self
            .services
            .change(self.environment, &cause, &request)
            .await
        {
            Ok(_) => Ok(None),
            Err(error @ (store::Error::Refused(_) | store::Error::Conflict(_))) => {
                Ok(Some(invalid(error.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the instance. Doing it again after a crash has no effect, or is found out by the correlation id.
    async fn change(&self, item: &OrderItem, version: u64) -> store::Result<()> {
        let environment = self.environment;
        let trigger = match item.action {
            Action::Create => {
                let attributes = item.request["attributes"].as_object().cloned();
                let creation = Creation {
                    entity: item.entity.clone(),
                    id: Some(item.instance),
                    attributes: attributes.unwrap_or_default(),
                    config: switches(&item.request),
                    correlation_id: Some(item.correlation_id),
                    ..Creation::default()
                };
                return self
                    .services
                    .create(environment, &creation)
                    .await
                    .map(|_| ());
            }
            Action::Update => Trigger::Updated {
                change: Change::Edits(edits(&item.request).map_err(store::Error::Refused)?),
                comment: Some(format!("order {}", self.order)),
            },
            Action::Delete => Trigger::Deleted,
        };
        let cause = Cause {
            instance: item.instance,
            entity: Some(item.entity.clone()),
            update: None,
            checks_relations: item.action == Action::Update,
            is_repeatable: false,
        };
        let request = Request {
            trigger,
            current_version: Some(version),
            correlation_id: item.correlation_id,
        };
        let changed = self.services.change(environment, &cause, &request);
        changed.await.map(|_| ())
    }
}
