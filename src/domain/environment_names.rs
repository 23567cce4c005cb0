//! What environments are called: logs and messages name them so, beside the id, which means nothing to people.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::{EnvironmentId, printable};

/// One of the process, as its log is, which asks wherever a line is written.
static NAMES: RwLock<BTreeMap<EnvironmentId, String>> = RwLock::new(BTreeMap::new());
/// Characters of a name in a line of the log.
const MAX_NAME: usize = 200;

/// From now on these are the names of all environments: of each its id, the name of its project, and its own.
pub fn set_environment_names(
    environments: impl IntoIterator<Item = (EnvironmentId, String, String)>,
) {
    let shown = |(id, project, name)| (id, printable(&format!("{project}/{name}"), MAX_NAME));
    let names = environments.into_iter().map(shown).collect();
    *NAMES.write().unwrap_or_else(PoisonError::into_inner) = names;
}

/// For messages: `project/name (id)`, or the id alone where no name is known.
pub fn shown_environment(id: EnvironmentId) -> String {
    match environment_name(id) {
        Some(name) => format!("{name} ({id})"),
        None => id.to_string(),
    }
}

/// `project/name`, where it is known.
pub fn environment_name(id: EnvironmentId) -> Option<String> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    names.get(&id).cloned()
}
