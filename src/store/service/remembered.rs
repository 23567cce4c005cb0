//! What is remembered of instances, so that not all are read for one question.
//!
//! Before each answer only the instances that have changed since the last one are read again. Every change of an instance says
//! so when its transaction has ended ([`Remembered::telling`]), and what may have changed in ways that nobody can name is
//! forgotten. It is a cache: a server starts without.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{used, words};
use crate::domain::EnvironmentId;

/// Things of one kind that are remembered. A model has a handful of services and of paths; when there are more, all are read
/// anew.
const MAX_THINGS: usize = 64;

/// What is remembered of all environments.
#[derive(Debug, Default)]
pub(in crate::store) struct Remembered {
    /// By service and path into its attributes.
    pub(super) values: Things<(String, String), used::Known>,
    /// By service.
    pub(super) words: Things<String, words::Known>,
}

/// Things of one kind, by environment and key.
#[derive(Debug)]
pub(super) struct Things<K, T>(Mutex<ByKey<K, T>>);

type ByKey<K, T> = HashMap<(EnvironmentId, K), Arc<Thing<T>>>;

/// Something that is known of the instances of a service.
#[derive(Debug)]
pub(super) struct Thing<T> {
    /// `None`: not read yet.
    pub(super) known: tokio::sync::Mutex<Option<T>>,
    /// Ids of instances that have changed since they were read.
    changed: Mutex<BTreeSet<String>>,
}

impl<K, T> Default for Things<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Default for Thing<T> {
    fn default() -> Self {
        Self {
            known: tokio::sync::Mutex::default(),
            changed: Mutex::default(),
        }
    }
}

impl<T> Thing<T> {
    pub(super) fn take_changed(&self) -> BTreeSet<String> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *changed)
    }

    fn add_changed(&self, id: String) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.insert(id);
    }
}

impl<K: Eq + Hash, T> Things<K, T> {
    fn all(&self) -> MutexGuard<'_, ByKey<K, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, environment: EnvironmentId, key: K) -> Arc<Thing<T>> {
        let mut all = self.all();
        let key = (environment, key);
        if all.len() >= MAX_THINGS && !all.contains_key(&key) {
            all.clear();
        }
        Arc::clone(all.entry(key).or_default())
    }

    /// An instance may be another one than it was.
    fn changed(&self, environment: EnvironmentId, id: &str) {
        let all = self.all();
        for (_, thing) in all.iter().filter(|((of, _), _)| *of == environment) {
            thing.add_changed(id.to_owned());
        }
    }

    /// Any instance of the environment may be another one than it was.
    fn forget(&self, environment: EnvironmentId) {
        self.all().retain(|(of, _), _| *of != environment);
    }
}

impl Remembered {
    /// Tells of a change when it is dropped, that is when the transaction has ended, in whatever way: whether one that failed
    /// was committed is not known, and a client that hangs up drops the rest of its request. `None`: it is not known yet which
    /// instance it is.
    pub(in crate::store) fn telling(
        &self,
        environment: EnvironmentId,
        instance: Option<uuid::Uuid>,
    ) -> Telling<'_> {
        Telling {
            remembered: self,
            environment,
            what: instance.map_or(Changed::All, Changed::One),
        }
    }
}

/// What a [`Telling`] tells of.
enum Changed {
    Nothing,
    One(uuid::Uuid),
    All,
}

/// Says that instances have changed, when it is dropped: see [`Remembered::telling`].
pub(in crate::store) struct Telling<'a> {
    remembered: &'a Remembered,
    environment: EnvironmentId,
    what: Changed,
}

impl Telling<'_> {
    /// It was this instance.
    pub(in crate::store) fn of(mut self, instance: uuid::Uuid) {
        self.what = Changed::One(instance);
    }

    /// Nothing was changed.
    pub(in crate::store) fn of_nothing(mut self) {
        self.what = Changed::Nothing;
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        let Remembered { values, words } = self.remembered;
        match self.what {
            Changed::Nothing => {}
            Changed::One(instance) => {
                let id = instance.to_string();
                values.changed(self.environment, &id);
                words.changed(self.environment, &id);
            }
            Changed::All => {
                values.forget(self.environment);
                words.forget(self.environment);
            }
        }
    }
}
