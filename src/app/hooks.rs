//! Webhooks that may be called.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::Hook;

/// The webhooks that the configuration declares. One whose environment cannot run is as unknown as one that is not there.
#[derive(Default)]
pub struct Hooks(BTreeMap<String, OnceLock<Hook>>);

impl Hooks {
    /// All ids that there may ever be while the server runs.
    pub(crate) fn declared(ids: impl Iterator<Item = String>) -> Self {
        Self(ids.map(|id| (id, OnceLock::new())).collect())
    }

    pub fn get(&self, id: &str) -> Option<&Hook> {
        self.0.get(id)?.get()
    }

    pub(crate) fn set(&self, id: &str, hook: Hook) {
        if let Some(place) = self.0.get(id) {
            // It is there already when an environment is taken in for the second time; the file is the same.
            let _ = place.set(hook);
        }
    }
}
