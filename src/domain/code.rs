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
    /// What agents on other machines install, which do not have the environment of `interpreter`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub elsewhere: PackagesElsewhere,
}

/// The packages of an environment that a compile of this server has made, for machines that have to install them themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackagesElsewhere {
    /// What each module requires; those that require nothing are not here.
    pub modules: BTreeMap<String, BTreeSet<String>>,
    /// The versions that are installed here.
    pub constraints: BTreeSet<String>,
    pub pip: PipOptions,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Modules that each server and agent brings itself: their code does not travel.
pub const OWN_MODULES: [&str; 2] = ["std", "lsm"];

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

impl CodeModule {
    /// It comes without files, and requires the package that has them. (Without both it has no Python code.)
    pub fn is_package(&self) -> bool {
        self.files.is_empty() && !self.requirements.is_empty()
    }
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
        // What a compile of this server needs is in an environment of its own already; other machines install it.
        let (mut this, is_installed) = (self, base.interpreter.is_some());
        if is_installed {
            this.leave_packages_to_others();
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
        let sent: Vec<String> = this
            .modules
            .iter()
            .map(|module| module.name.clone())
            .collect();
        let kept = base.modules.into_iter();
        let kept = kept.filter(|module| !sent.contains(&module.name));
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
            elsewhere: this.elsewhere.over(base.elsewhere, &sent),
            modules,
            types,
            pip,
            constraints,
        })
    }

    /// What its modules require is for machines only that do not have the environment of a compile.
    fn leave_packages_to_others(&mut self) {
        let mut left = PackagesElsewhere {
            modules: BTreeMap::new(),
            constraints: std::mem::take(&mut self.constraints),
            pip: std::mem::take(&mut self.pip),
        };
        for module in &mut self.modules {
            let requirements = std::mem::take(&mut module.requirements);
            if !requirements.is_empty() {
                left.modules.insert(module.name.clone(), requirements);
            }
        }
        if self.elsewhere.modules.is_empty() {
            self.elsewhere = left;
        }
    }

    /// As [`VersionCode::packages`], on a machine that does not have the environment of `interpreter`.
    pub fn packages_elsewhere(&self, is_needed: impl Fn(&str) -> bool) -> Option<HandlerPackages> {
        let here = self.packages(&is_needed);
        let PackagesElsewhere {
            modules,
            constraints,
            pip,
        } = &self.elsewhere;
        let needed = modules.iter().filter(|(name, _)| is_needed(name));
        let requirements: BTreeSet<String> = needed
            .flat_map(|(_, requirements)| requirements.iter().cloned())
            .collect();
        let there = (!requirements.is_empty()).then(|| HandlerPackages {
            requirements,
            constraints: constraints.clone(),
            pip: pip.clone(),
        });
        here.or(there)
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

impl PackagesElsewhere {
    /// These together with those of the version before, without what that had for the modules that are `sent` now.
    fn over(self, mut base: Self, sent: &[String]) -> Self {
        base.modules.retain(|name, _| !sent.contains(name));
        if self.modules.is_empty() {
            return base;
        }
        // Where packages come from is said by whoever requires some now. The versions are those of now, and for packages that
        // have none now those of before.
        let mut modules = base.modules;
        modules.extend(self.modules);
        let name = |pin: &str| pin.split("==").next().unwrap_or_default().to_owned();
        let pinned: BTreeSet<String> = self.constraints.iter().map(|pin| name(pin)).collect();
        let mut constraints = self.constraints;
        let before = base.constraints.into_iter();
        constraints.extend(before.filter(|pin| !pinned.contains(&name(pin))));
        Self {
            modules,
            constraints,
            pip: self.pip,
        }
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
        base.leave_packages_to_others();
        base.interpreter = Some("venv/bin/python".into());
        let merged = code("a", "https://one").over(base.clone(), false).unwrap();
        assert_eq!(merged.interpreter, base.interpreter);
        assert_eq!(merged.packages(|_| true), None);
        // Other machines do not have that environment.
        let there = code("a", "https://one").packages(|_| true);
        assert!(there.is_some() && merged.packages_elsewhere(|name| name == "net") == there);
        assert_eq!(merged.packages_elsewhere(|name| name == "other"), None);
    }

    #[test]
    fn other_machines_install_what_the_newest_export_of_each_module_requires() {
        let compiled = |module: &str, requirement: &str, version: &str| {
            let mut code = code(requirement, "https://one");
            code.modules[0].name = module.to_owned();
            code.constraints = BTreeSet::from([format!("{requirement}=={version}")]);
            code.leave_packages_to_others();
            code.interpreter = Some("venv/bin/python".into());
            code
        };
        let requirements = |code: &VersionCode| {
            let packages = code.packages_elsewhere(|_| true);
            packages.map(|packages| Vec::from_iter(packages.requirements))
        };
        let base = || compiled("net", "a", "1");
        let both = compiled("disk", "b", "2").over(base(), true).unwrap();
        assert_eq!(requirements(&both).unwrap(), ["a", "b"]);
        assert_eq!(Vec::from_iter(both.elsewhere.constraints), ["a==1", "b==2"]);
        let newer = compiled("net", "a", "3").over(base(), true).unwrap();
        assert_eq!(Vec::from_iter(newer.elsewhere.constraints), ["a==3"]);
        // A module that requires nothing any more.
        let mut none = base();
        none.elsewhere = PackagesElsewhere::default();
        assert_eq!(requirements(&none.over(base(), true).unwrap()), None);
        assert_eq!(
            requirements(&VersionCode::default().over(base(), true).unwrap()).unwrap(),
            ["a"]
        );
    }

    #[test]
    fn what_versions_of_before_have_stored_requires_nothing() {
        let stored =
            serde_json::json!({"interpreter": null, "modules": [{"name": "net", "files": []}]});
        let code = VersionCode::read(stored);
        assert_eq!((code.modules.len(), code.packages(|_| true)), (1, None));
    }
}
