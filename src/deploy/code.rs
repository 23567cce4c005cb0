//! The Python code that a version's handlers are made of, and what of it an agent gets: the modules that the types of its
//! resources need. Source: docs/reference/deployment.md § 5.1, § 5.2.
//!
//! A version names the content of each Python file, which is in the file store (`files`): neither a checkout nor a
//! repository is needed to run it.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::{AgentName, EnvironmentId, VersionCode, VersionNumber};
use crate::executor::agent_code::AgentCode;
use crate::store::{self, Store};

/// The Python code of a version, by agent.
#[derive(Default)]
pub(super) struct Code {
    version: VersionCode,
    agents: HashMap<AgentName, Arc<AgentCode>>,
    /// The code of all types, for an agent that is not known.
    whole: Arc<AgentCode>,
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

    /// Gives each agent the code of its types: these are the agents and types of all resources of
    /// the version.
    pub(super) fn for_agents<'a>(
        mut self,
        resources: impl Iterator<Item = (&'a AgentName, &'a str)>,
    ) -> Self {
        self.agents.clear();
        let Some(needed) = &self.version.types else {
            return self;
        };
        let mut types: HashMap<&AgentName, BTreeSet<&str>> = HashMap::new();
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
            self.agents.insert(agent.clone(), Arc::clone(code));
        }
        self
    }

    pub(super) fn of(&self, agent: &AgentName) -> &Arc<AgentCode> {
        self.agents.get(agent).unwrap_or(&self.whole)
    }
}

pub(super) async fn code_of(
    store: &Store,
    environment: EnvironmentId,
    version: VersionNumber,
) -> Result<Code, store::Error> {
    let Some(version) = store.version_fetch(environment, version).await? else {
        return Ok(Code::default());
    };
    Ok(Code::new(VersionCode::read(version.modules)))
}

/// What stored versions need of what is kept beside the store.
#[derive(Debug, Default)]
pub struct Needed {
    /// Virtual environments of compiles.
    pub environments: Vec<PathBuf>,
    /// The digests of what is in virtual environments of handlers alone.
    pub packages: BTreeSet<String>,
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
        // Who requires packages says of no type which modules it needs: its agents get all of them.
        let packages = code.packages(|_| true);
        needed
            .packages
            .extend(packages.map(|packages| packages.digest()));
        let interpreter = code.interpreter;
        // `bin/python` below it.
        let environment = interpreter.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
        needed.environments.extend(environment);
    }
    Ok(needed)
}
