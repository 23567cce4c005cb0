//! The Python code that a version's handlers are made of, and what of it an agent gets: the modules that the types of its
//! resources need. Source: deploy.md 5.1, 5.2; issue 4, 6.
//!
//! A version names the content of each Python file, which is in the file store (`files`): neither a checkout nor a
//! repository is needed to run it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steward_compiler::PythonRuntime;

use crate::domain::EnvironmentId;
use crate::files;
use crate::store::{self, Store};

/// The Python code of a version's handlers, as the version stores it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VersionCode {
    /// That of the environment with the packages that the modules need; without one, the server's.
    pub interpreter: Option<PathBuf>,
    pub modules: Vec<CodeModule>,
    /// The names of the modules that each resource type needs. `None`, as versions of before have it: all of them.
    #[serde(default)]
    pub types: Option<BTreeMap<String, Vec<String>>>,
}

/// The Python code of one module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeModule {
    /// Of the language, `net`.
    pub name: String,
    /// Parents come before children.
    pub files: Vec<CodeFile>,
}

/// One Python file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFile {
    /// Dotted import name, `inmanta_plugins.net.ip`.
    pub module: String,
    /// It is an `__init__.py`.
    pub package: bool,
    #[serde(flatten)]
    pub content: Content,
}

/// Where the text of a Python file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// In the file store, by this name.
    Sha1(String),
    /// In a file, as versions of before had it.
    Path(PathBuf),
}

impl VersionCode {
    /// The contents of the file store that it needs.
    pub fn contents(&self) -> impl Iterator<Item = &str> {
        let files = self.modules.iter().flat_map(|module| &module.files);
        files.filter_map(|file| match &file.content {
            Content::Sha1(name) => Some(name.as_str()),
            Content::Path(_) => None,
        })
    }

    /// From what a version has stored.
    fn read(stored: serde_json::Value) -> Self {
        // Versions of before had the modules alone.
        let code = serde_json::from_value(stored.clone()).or_else(|_| {
            serde_json::from_value(stored).map(|modules| VersionCode {
                modules,
                ..VersionCode::default()
            })
        });
        code.unwrap_or_default()
    }
}

/// The Python code of a version, by agent.
#[derive(Default)]
pub(super) struct Code {
    version: VersionCode,
    agents: HashMap<String, Arc<AgentCode>>,
    /// For an agent that is not known.
    whole: Arc<AgentCode>,
}

/// The Python code of an agent. Agents whose types need the same share it.
#[derive(Debug, Default)]
pub(super) struct AgentCode {
    /// The same for the same code.
    pub(super) key: String,
    pub(super) interpreter: Option<PathBuf>,
    pub(super) modules: Vec<CodeModule>,
}

impl Code {
    fn new(version: VersionCode) -> Self {
        let whole = Arc::new(AgentCode::of(&version, |_| true));
        Self {
            version,
            agents: HashMap::new(),
            whole,
        }
    }

    /// With the agents and the types of all resources of the version.
    pub(super) fn for_agents<'a>(
        mut self,
        resources: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.agents.clear();
        let Some(needed) = &self.version.types else {
            return self;
        };
        let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (agent, resource_type) in resources {
            types.entry(agent).or_default().insert(resource_type);
        }
        let mut known: HashMap<BTreeSet<&str>, Arc<AgentCode>> = HashMap::new();
        for (agent, types) in types {
            let modules = types.iter().filter_map(|name| needed.get(*name)).flatten();
            let modules: BTreeSet<&str> = modules.map(String::as_str).collect();
            let code = known.entry(modules).or_insert_with_key(|modules| {
                Arc::new(AgentCode::of(&self.version, |name| modules.contains(name)))
            });
            self.agents.insert(agent.to_owned(), Arc::clone(code));
        }
        self
    }

    pub(super) fn of(&self, agent: &str) -> &Arc<AgentCode> {
        self.agents.get(agent).unwrap_or(&self.whole)
    }
}

impl AgentCode {
    fn of(version: &VersionCode, is_needed: impl Fn(&str) -> bool) -> Self {
        use sha2::{Digest, Sha256};
        let modules = version.modules.iter();
        let modules: Vec<CodeModule> = modules
            .filter(|module| is_needed(&module.name))
            .cloned()
            .collect();
        // Agents without Python code have no use for an environment of packages.
        let interpreter = version.interpreter.clone();
        let interpreter = interpreter.filter(|_| !modules.is_empty());
        let text = serde_json::to_vec(&(&interpreter, &modules)).unwrap_or_default();
        Self {
            key: hex::encode(Sha256::digest(text)),
            interpreter,
            modules,
        }
    }
}

pub(super) async fn code_of(
    store: &Store,
    environment: EnvironmentId,
    version: i64,
) -> Result<Code, store::Error> {
    let Some(version) = store.version_fetch(environment, version).await? else {
        return Ok(Code::default());
    };
    Ok(Code::new(VersionCode::read(version.modules)))
}

/// What stored versions need of what is kept beside the store.
#[derive(Debug, Default)]
pub struct Needed {
    /// Virtual environments.
    pub environments: Vec<PathBuf>,
    /// Contents of the file store.
    pub contents: BTreeSet<String>,
}

/// What the code of all stored versions needs.
///
/// # Errors
/// The store does not answer.
pub async fn needed_by_code(store: &Store) -> Result<Needed, store::Error> {
    let mut needed = Needed::default();
    for modules in store.version_modules().await? {
        let code = VersionCode::read(modules);
        needed.contents.extend(code.contents().map(str::to_owned));
        let interpreter = code.interpreter;
        // `bin/python` below it.
        let environment = interpreter.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
        needed.environments.extend(environment);
    }
    Ok(needed)
}

/// Removes what executors laid out of the code of versions, and did not start a host with for `age`, and the bytecode of
/// it. Blocks.
pub fn sweep(data: &Path, age: Duration) {
    let code = data.join("code");
    for folder in files::folders(&code) {
        if files::is_older(&folder, age) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
    let absolute = std::path::absolute(&code).unwrap_or_else(|_| code.clone());
    for runtime in files::folders(&data.join("runtime")) {
        // Python keeps the bytecode of `/a/b.py` in `a` of the cache.
        let cache = runtime
            .join(PythonRuntime::BYTECODE)
            .join(absolute.strip_prefix("/").unwrap_or(&absolute));
        for folder in files::folders(&cache) {
            let is_there = folder
                .file_name()
                .is_some_and(|name| code.join(name).exists());
            if !is_there {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

/// The interpreter that a version's code needs beside the server's.
///
/// # Errors
/// The store does not answer.
pub async fn interpreter_of(
    store: &Store,
    environment: EnvironmentId,
    version: i64,
) -> Result<Option<PathBuf>, store::Error> {
    Ok(code_of(store, environment, version)
        .await?
        .version
        .interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_nothing_uses_goes_with_its_bytecode() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        let cache = data.join("runtime/python-1").join(PythonRuntime::BYTECODE);
        let bytecode = cache.join(data.strip_prefix("/").unwrap()).join("code");
        for name in ["used", "unused"] {
            std::fs::create_dir_all(data.join("code").join(name)).unwrap();
            std::fs::create_dir_all(bytecode.join(name).join("m")).unwrap();
        }
        std::fs::create_dir_all(cache.join("usr/lib")).unwrap();
        sweep(data, Duration::from_secs(60));
        assert_eq!(files::folders(&bytecode).len(), 2);
        std::fs::remove_dir(data.join("code/unused")).unwrap();
        sweep(data, Duration::from_secs(60));
        assert_eq!(files::folders(&bytecode), [bytecode.join("used")]);
        assert!(cache.join("usr/lib").exists());
        sweep(data, Duration::ZERO);
        assert_eq!(files::folders(&bytecode).len(), 0);
    }
}
