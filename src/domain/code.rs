//! The Python code of a version's handlers, as the version stores it. Source: docs/reference/deployment.md § 5.1,
//! § 5.2.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{HandlerPackages, PipOptions};

/// The Python code of a version's handlers, as the version stores it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VersionCode {
    /// That of the environment with the packages that the modules need; without one, the server's.
    pub interpreter: Option<PathBuf>,
    pub modules: Vec<CodeModule>,
    /// The names of the modules that each resource type needs. `None`, as versions of before have it: all of them.
    #[serde(default)]
    pub types: Option<BTreeMap<String, Vec<String>>>,
    /// Where the packages come from that the modules of an export require.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pip: PipOptions,
    /// What versions the packages may have that the modules of an export require.
    #[serde(default, skip_serializing_if = "is_default")]
    pub constraints: BTreeSet<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The Python code of one module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeModule {
    /// The module's name in the language, `net`.
    pub name: String,
    /// Parents come before children.
    pub files: Vec<CodeFile>,
    /// The packages that it needs, if whoever exported it left it to this server to install them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requirements: BTreeSet<String>,
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
    /// It is in the file store, by this name.
    Sha1(String),
    /// It is in a file, as versions stored it before there was a file store.
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

    /// This code together with that of the version before, for a version that is made of both. `may_change`: a module
    /// that both have is this one's; else it must be the same.
    ///
    /// # Errors
    /// Which module differs, and what to do.
    pub fn over(self, base: Self, may_change: bool) -> Result<Self, String> {
        // What a compile of this server needs is in an environment of its own already, and the version does not name it.
        let (mut this, is_installed) = (self, base.interpreter.is_some());
        if is_installed {
            this.forget_packages();
        }
        let changed = this.modules.iter().find(|module| {
            let mut known = base.modules.iter();
            known.any(|known| known.name == module.name && known != *module)
        });
        if let Some(changed) = changed.filter(|_| !may_change) {
            return Err(format!(
                "the code of module {} differs from that of the version before: a partial export may only bring other code \
                 if allow_handler_code_update is set",
                changed.name
            ));
        }
        if !may_change
            && let (Some(own), Some(known)) = (&this.interpreter, &base.interpreter)
            && own != known
        {
            return Err(
                "the Python environment of handlers differs from that of the version before: compile and export all"
                    .to_owned(),
            );
        }
        let requires = |code: &Self| code.modules.iter().any(|one| !one.requirements.is_empty());
        let says_where = |code: &Self| (code.pip.clone(), code.constraints.clone());
        if !may_change
            && requires(&this)
            && requires(&base)
            && says_where(&this) != says_where(&base)
        {
            return Err(format!(
                "where packages of handlers come from, or what constrains them, differs from the version before: {}",
                "a partial export may only change it if allow_handler_code_update is set"
            ));
        }
        // One that requires nothing has no say in where packages come from.
        let (pip, constraints) = says_where(if requires(&this) { &this } else { &base });
        let sent: Vec<&str> = this
            .modules
            .iter()
            .map(|module| module.name.as_str())
            .collect();
        let kept = base.modules.into_iter();
        let kept = kept.filter(|module| !sent.contains(&module.name.as_str()));
        let mut modules: Vec<CodeModule> = kept.collect();
        modules.extend(this.modules);
        modules.sort_by(|a, b| a.name.cmp(&b.name));
        let types = match (base.types, this.types) {
            (Some(mut types), Some(own)) => {
                types.extend(own);
                Some(types)
            }
            // Who does not say it means all of them.
            _ => None,
        };
        Ok(Self {
            interpreter: this.interpreter.or(base.interpreter),
            modules,
            types,
            pip,
            constraints,
        })
    }

    fn forget_packages(&mut self) {
        for module in &mut self.modules {
            module.requirements.clear();
        }
        self.pip = PipOptions::default();
        self.constraints.clear();
    }

    /// The packages that some of its modules require, by their names; `None`: none are to be installed for them.
    pub fn packages(&self, is_needed: impl Fn(&str) -> bool) -> Option<HandlerPackages> {
        let modules = self.modules.iter();
        let modules = modules.filter(|module| is_needed(&module.name));
        let requirements: BTreeSet<String> = modules
            .flat_map(|module| module.requirements.iter().cloned())
            .collect();
        (!requirements.is_empty()).then(|| HandlerPackages {
            requirements,
            constraints: self.constraints.clone(),
            pip: self.pip.clone(),
        })
    }

    /// Reads what a version has stored.
    pub fn read(stored: serde_json::Value) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn code(requirement: &str, index: &str) -> VersionCode {
        let module = CodeModule {
            name: "net".to_owned(),
            files: Vec::new(),
            requirements: BTreeSet::from([requirement.to_owned()]),
        };
        VersionCode {
            modules: vec![module],
            pip: PipOptions {
                index_url: Some(index.to_owned()),
                ..PipOptions::default()
            },
            ..VersionCode::default()
        }
    }

    #[test]
    fn packages_of_a_partial_export_are_those_of_the_version_before_unless_it_may_change_them() {
        let base = || code("a", "https://one");
        let same = base().over(base(), false).unwrap();
        assert_eq!(same.packages(|_| true), base().packages(|_| true));
        let error = code("b", "https://one").over(base(), false).unwrap_err();
        assert!(error.contains("module net differs"), "{error}");
        let error = code("a", "https://two").over(base(), false).unwrap_err();
        assert!(error.contains("packages of handlers"), "{error}");
        let changed = code("b", "https://two").over(base(), true).unwrap();
        assert_eq!(
            changed.packages(|_| true),
            code("b", "https://two").packages(|_| true)
        );
        assert_eq!(changed.packages(|_| false), None);
        // One that sends no code has all of the version before.
        let kept = VersionCode::default().over(base(), true).unwrap();
        assert_eq!(kept.packages(|_| true), base().packages(|_| true));
    }

    #[test]
    fn what_a_compile_of_the_server_has_installed_is_not_installed_again() {
        let mut base = code("a", "https://one");
        base.forget_packages();
        base.interpreter = Some("venv/bin/python".into());
        let merged = code("a", "https://one").over(base.clone(), false).unwrap();
        assert_eq!(merged.interpreter, base.interpreter);
        assert_eq!(merged.packages(|_| true), None);
    }

    #[test]
    fn what_versions_of_before_have_stored_requires_nothing() {
        let stored =
            serde_json::json!({"interpreter": null, "modules": [{"name": "net", "files": []}]});
        let code = VersionCode::read(stored);
        assert_eq!((code.modules.len(), code.packages(|_| true)), (1, None));
    }
}
