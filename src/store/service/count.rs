//! How many instances a service has, by version, state and whether they have ended.
//!
//! A list says how many rows it has, and to count a hundred thousand takes longer than to read a page of them. So the numbers
//! are counted once and then kept up with: every change of an instance knows where it was and where it is. It is a cache: a
//! server starts without, and what may have changed in ways that nobody can name is counted anew.
//!
//! What is counted while an instance changes may or may not have the change already. So a change says when it begins
//! ([`Counts::changing`]) and when it has ended, and numbers are kept only if nothing changed from before they were counted
//! until they are known. Those that are read are those of a moment: of changes that have been committed and have not told of
//! it yet, they may lack some.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steward_lsm::Instance;

use super::change::Changed;
use super::instance::{counted, counter};
use crate::domain::EnvironmentId;
use crate::store::macros::read;
use crate::store::{Result, Store};

/// Instances that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// Of the definition.
    pub version: u64,
    pub state: String,
    pub is_deleted: bool,
}

impl Group {
    fn of(instance: &Instance) -> Self {
        Self {
            version: instance.service_entity_version,
            state: instance.state.clone(),
            is_deleted: instance.deleted,
        }
    }
}

/// The numbers of a service.
pub type Numbers = HashMap<Group, i64>;

/// What is known of an environment.
#[derive(Debug, Default)]
struct Known {
    services: HashMap<String, Arc<Numbers>>,
    /// Changes that have begun and not ended.
    n_open: usize,
    /// Changes that have ended.
    n_ended: u64,
}

/// What is known of all environments.
#[derive(Debug, Default)]
pub(in crate::store) struct Counts(Mutex<HashMap<EnvironmentId, Known>>);

impl Counts {
    fn all(&self) -> MutexGuard<'_, HashMap<EnvironmentId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something begins to change instances of the environment. Unless it says what it has done ([`Changing::done`]), anything
    /// may have changed when this is dropped: whether a transaction that failed was committed is not known, and a client that
    /// hangs up drops the rest of its request.
    pub(in crate::store) fn changing(&self, environment: EnvironmentId) -> Changing<'_> {
        self.all().entry(environment).or_default().n_open += 1;
        Changing {
            counts: self,
            environment,
            did: Did::Anything,
        }
    }

    /// The numbers of a service, if they are known; else when that is: the number of changes by which it is seen that there was
    /// none meanwhile, `None` while there is one.
    fn known(
        &self,
        environment: EnvironmentId,
        service: &str,
    ) -> std::result::Result<Arc<Numbers>, Option<u64>> {
        let mut all = self.all();
        let known = all.entry(environment).or_default();
        match known.services.get(service) {
            Some(numbers) => Ok(Arc::clone(numbers)),
            None => Err((known.n_open == 0).then_some(known.n_ended)),
        }
    }

    /// Keeps numbers that were counted since nothing changed any more.
    fn keep(
        &self,
        environment: EnvironmentId,
        service: &str,
        since: Option<u64>,
        numbers: &Arc<Numbers>,
    ) {
        let mut all = self.all();
        let known = all.entry(environment).or_default();
        if known.n_open == 0 && since == Some(known.n_ended) {
            let numbers = Arc::clone(numbers);
            known.services.insert(service.to_owned(), numbers);
        }
    }
}

/// What a change did.
#[derive(Debug)]
enum Did {
    Anything,
    /// The service, where the instance was, and where it is.
    Moved(String, Option<Group>, Option<Group>),
    Nothing,
}

/// A change of instances: see [`Counts::changing`].
#[derive(Debug)]
pub(in crate::store) struct Changing<'a> {
    counts: &'a Counts,
    environment: EnvironmentId,
    did: Did,
}

impl Changing<'_> {
    /// The transaction has ended.
    pub(super) fn done(mut self, result: &Result<Changed>) {
        use crate::store::Error;
        self.did = match result {
            Ok(changed) => {
                let (before, after) = changed.moved();
                let service = changed.instance.service_entity.clone();
                Did::Moved(service, before.map(Group::of), after.map(Group::of))
            }
            // Whether it was committed is not known.
            Err(Error::Query(_) | Error::Lost(_)) => Did::Anything,
            Err(_) => Did::Nothing,
        };
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let mut all = self.counts.all();
        let known = all.entry(self.environment).or_default();
        known.n_open -= 1;
        known.n_ended += 1;
        match std::mem::replace(&mut self.did, Did::Nothing) {
            Did::Nothing => {}
            Did::Anything => known.services.clear(),
            Did::Moved(_, before, after) if before == after => {}
            Did::Moved(service, before, after) => {
                let Some(numbers) = known.services.get_mut(&service) else {
                    return;
                };
                let numbers = Arc::make_mut(numbers);
                for (group, n) in [(before, -1), (after, 1)] {
                    let Some(group) = group else { continue };
                    *numbers.entry(group).or_default() += n;
                }
                numbers.retain(|_, n| *n != 0);
            }
        }
    }
}

impl Store {
    /// How many instances a service has, by group; groups without instances are left out.
    pub async fn service_numbers(
        &self,
        environment: EnvironmentId,
        service: &str,
    ) -> Result<Arc<Numbers>> {
        const SQL: &str = "SELECT entity_version, state, is_deleted, COUNT(*) FROM service_instance \
                           WHERE environment_id = $1 AND entity = $2 GROUP BY is_deleted, entity_version, state";
        let since = match self.counts.known(environment, service) {
            Ok(numbers) => return Ok(numbers),
            Err(since) => since,
        };
        let rows: Vec<(i64, String, bool, i64)> = read!(self.db, pool => {
            let query = sqlx::query_as(SQL).bind(environment.to_string());
            query.bind(crate::store::storable(service).into_owned()).fetch_all(pool).await?
        });
        let numbers = rows.into_iter().map(|(version, state, is_deleted, n)| {
            let group = Group {
                version: counted(version),
                state,
                is_deleted,
            };
            (group, n)
        });
        let numbers = Arc::new(numbers.collect());
        self.counts.keep(environment, service, since, &numbers);
        Ok(numbers)
    }
}

/// Whether a number of a definition's version is within a bound of a search: SQL's comparison, and the number.
pub(super) fn is_within(version: u64, (comparison, bound): &(&str, i64)) -> bool {
    let version = counter(version);
    match comparison.trim() {
        "=" => version == *bound,
        "<>" => version != *bound,
        "<" => version < *bound,
        "<=" => version <= *bound,
        ">" => version > *bound,
        ">=" => version >= *bound,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
