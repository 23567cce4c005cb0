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

    /// This code, and that of another compile for the types of resources that this one does not have.
    ///
    /// # Errors
    /// The name of a module of which both have code that differs, or the word for what else differs.
    pub fn with(mut self, other: Self) -> Result<Self, String> {
        if other.modules.is_empty() {
            return Ok(self);
        }
        if self.modules.is_empty() && self.interpreter.is_none() {
            return Ok(other);
        }
        if self.interpreter != other.interpreter {
            return Err("of no name: another Python environment".to_owned());
        }
        for module in other.modules {
            match self.modules.iter().find(|known| known.name == module.name) {
                Some(known) if *known != module => return Err(module.name),
                Some(_) => {}
                None => self.modules.push(module),
            }
        }
        // Without a list of types, each has all modules, and so it is from now on.
        if let (Some(types), Some(more)) = (&mut self.types, other.types) {
            for (name, needed) in more {
                types.entry(name).or_insert(needed);
            }
        }
        Ok(self)
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
