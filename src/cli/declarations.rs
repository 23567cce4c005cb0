//! What modules of a person's projects declare, kept in the user's cache between commands.

use std::sync::Arc;

use steward_compiler::AnswerStore;

use crate::files::KeptAnswers;

/// Below the user's cache.
const FOLDER: &str = "declarations";
/// Projects of a person, times the sets of variables of their terminals. Each answer takes some dozens of kilobytes.
const MAX_COUNT: usize = 128;

/// The store of the user who runs this command.
pub(super) fn declarations() -> Arc<dyn AnswerStore> {
    let folder = super::cache_dir().join(FOLDER);
    Arc::new(KeptAnswers::new(folder, MAX_COUNT))
}
