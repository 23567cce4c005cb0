//! What of a version's Python code an agent gets: the modules that the types of its resources need.
//! Source: docs/reference/deployment.md § 5.2.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::domain::{CodeModule, HandlerPackages, VersionCode};
use crate::executor::handler;

/// The Python code of an agent. Agents whose types need the same share it.
#[derive(Debug, Default)]
pub(crate) struct AgentCode {
    /// The same for the same code.
    pub(crate) key: String,
    pub(crate) interpreter: Option<PathBuf>,
    pub(crate) modules: Vec<CodeModule>,
    /// What is to be installed before any of it runs on this machine.
    packages: Option<HandlerPackages>,
    /// The same on another machine.
    packages_elsewhere: Option<HandlerPackages>,
}

impl AgentCode {
    /// The code of those modules that are needed, by their names.
    pub(crate) fn of(version: &VersionCode, is_needed: impl Fn(&str) -> bool) -> Self {
        let packages = version.packages(&is_needed);
        let packages_elsewhere = version.packages_elsewhere(&is_needed);
        let modules = version.modules.iter();
        let modules: Vec<CodeModule> = modules
            .filter(|module| is_needed(&module.name))
            .cloned()
            .collect();
        // Agents without Python code have no use for an environment of packages.
        let interpreter = version.interpreter.clone();
        let interpreter = interpreter.filter(|_| !modules.is_empty());
        let wanted = [&packages, &packages_elsewhere];
        let wanted = wanted.map(|packages| packages.as_ref().map(HandlerPackages::digest));
        let text = serde_json::to_vec(&(&interpreter, &modules, wanted)).unwrap_or_default();
        Self {
            key: hex::encode(Sha256::digest(text)),
            interpreter,
            modules,
            packages,
            packages_elsewhere,
        }
    }

    /// The packages that a run of a resource type has to wait for; native handlers need none.
    pub(crate) fn packages_for(&self, resource_type: &str) -> Option<&HandlerPackages> {
        let packages = self.packages.as_ref();
        packages.filter(|_| self.has_module_of(resource_type))
    }

    /// The same on another machine.
    pub(crate) fn packages_elsewhere_for(&self, resource_type: &str) -> Option<&HandlerPackages> {
        let packages = self.packages_elsewhere.as_ref();
        packages.filter(|_| self.has_module_of(resource_type))
    }

    /// What this code is called together with its packages: handlers that need none run with the same code without them.
    pub(crate) fn key_with_packages(&self) -> String {
        format!("{} with packages", self.key)
    }

    /// Whether the handler of a resource type is a part of this program.
    pub(crate) fn is_native(&self, resource_type: &str) -> bool {
        handler::native(resource_type).is_some() && !self.has_module_of(resource_type)
    }

    /// Whether handlers of a resource type are Python code of a module.
    fn has_module_of(&self, resource_type: &str) -> bool {
        let module = resource_type.split("::").next().unwrap_or_default();
        self.modules.iter().any(|known| known.name == module)
    }
}
