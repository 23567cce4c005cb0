//! What modules of a person's projects declare, kept in the user's cache between commands.

use std::sync::Arc;

use steward_compiler::AnswerStore;

use crate::files::KeptAnswers;

/// Below the user's cache.
const FOLDER: &str = "declarations";
/// Projects of a person, times the sets of variables of their terminals. Each answer takes some dozens of kilobytes.
const MAX_COUNT: usize = 128;

#[derive(Debug)]
struct Store(KeptAnswers);

/// The store of the user who runs this command.
pub(super) fn declarations() -> Arc<dyn AnswerStore> {
    let folder = super::cache_dir().join(FOLDER);
    Arc::new(Store(KeptAnswers::new(folder, MAX_COUNT)))
}

impl AnswerStore for Store {
    fn get(&self, digest: &str) -> Option<Vec<u8>> {
        self.0.get(digest)
    }

    fn put(&self, digest: &str, answer: &[u8]) {
        if let Err(error) = self.0.put(digest, answer) {
            tracing::debug!(%error, "cannot keep what Python modules declare");
        }
    }

    fn remove(&self, digest: &str) {
        self.0.remove(digest);
    }
}
