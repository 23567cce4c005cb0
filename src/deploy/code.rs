//! The Python code that a version's handlers are made of.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use steward_compiler::protocol::PythonModule;

use crate::domain::EnvironmentId;
use crate::store::{self, Store};

/// The Python code of a version's handlers, as the version stores it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VersionCode {
    /// That of the environment with the packages that the modules need; without one, the server's.
    pub interpreter: Option<PathBuf>,
    pub modules: Vec<PythonModule>,
}

/// The Python code of the version in force.
#[derive(Default)]
pub(super) struct Code {
    pub(super) key: String,
    pub(super) version: VersionCode,
}

pub(super) async fn code_of(
    store: &Store,
    environment: EnvironmentId,
    version: i64,
) -> Result<Code, store::Error> {
    use sha2::{Digest, Sha256};
    let Some(version) = store.version_fetch(environment, version).await? else {
        return Ok(Code::default());
    };
    let key = hex::encode(Sha256::digest(version.modules.to_string()));
    // Versions of before had the modules alone.
    let version = serde_json::from_value(version.modules.clone()).or_else(|_| {
        serde_json::from_value(version.modules).map(|modules| VersionCode {
            modules,
            ..VersionCode::default()
        })
    });
    let version = version.unwrap_or_default();
    Ok(Code { key, version })
}

/// The virtual environments that versions in force need.
///
/// # Errors
/// The store does not answer.
pub async fn environments_in_use(store: &Store) -> Result<Vec<PathBuf>, store::Error> {
    let mut all = Vec::new();
    for environment in store.environment_list().await? {
        if let Some(version) = environment.active_version {
            let code = code_of(store, environment.id, version).await?;
            let interpreter = code.version.interpreter;
            // `bin/python` below it.
            all.extend(interpreter.and_then(|path| Some(path.parent()?.parent()?.to_owned())));
        }
    }
    Ok(all)
}
