//! The Python code of a version's handlers, as the version stores it. Source: docs/reference/deployment.md § 5.1,
//! § 5.2.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
    /// The module's name in the language, `net`.
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
        let changed = self.modules.iter().find(|module| {
            let mut known = base.modules.iter();
            known.any(|known| known.name == module.name && known.files != module.files)
        });
        if let Some(changed) = changed.filter(|_| !may_change) {
            return Err(format!(
                "the code of module {} differs from that of the version before: a partial export may only bring other code \
                 if allow_handler_code_update is set",
                changed.name
            ));
        }
        if !may_change
            && let (Some(own), Some(known)) = (&self.interpreter, &base.interpreter)
            && own != known
        {
            return Err(
                "the Python environment of handlers differs from that of the version before: compile and export all"
                    .to_owned(),
            );
        }
        let sent: Vec<&str> = self
            .modules
            .iter()
            .map(|module| module.name.as_str())
            .collect();
        let kept = base.modules.into_iter();
        let kept = kept.filter(|module| !sent.contains(&module.name.as_str()));
        let mut modules: Vec<CodeModule> = kept.collect();
        modules.extend(self.modules);
        modules.sort_by(|a, b| a.name.cmp(&b.name));
        let types = match (base.types, self.types) {
            (Some(mut types), Some(own)) => {
                types.extend(own);
                Some(types)
            }
            // Who does not say it means all of them.
            _ => None,
        };
        Ok(Self {
            interpreter: self.interpreter.or(base.interpreter),
            modules,
            types,
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
