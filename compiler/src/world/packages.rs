//! What only Python knows of the packages that are installed for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a module of the language is, if it is installed.
#[derive(Debug, Clone, Copy)]
pub struct PackageQuestion<'a> {
    /// The environment of the project, whose Python is asked; `None`: the one that runs where there is none.
    pub environment: Option<&'a str>,
    /// The name of the module, `net`.
    pub name: &'a str,
    /// The names of modules that will be asked for, too, as far as one can see.
    pub others: &'a [String],
    /// Stands for all files that the answer depends on, as far as they are known: the same digest, the same answer. `None`:
    /// it must not be kept.
    pub digest: Option<&'a str>,
}

/// The answer, with more than was asked: one question is enough for most projects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedPackages {
    /// The folders whose folders are modules: the path of the package `inmanta_plugins`.
    pub path: Vec<String>,
    /// The folder of each module's package. `None`: there is none. Whether a folder is a package
    /// that counts, its files say.
    pub modules: BTreeMap<String, Option<String>>,
}

/// A Python that can be asked. Source: checklist, modules.
pub trait PythonPackages: Send + Sync {
    /// `None`: it can not be asked, or does not answer.
    fn locate(&self, question: PackageQuestion<'_>) -> Option<LocatedPackages>;

    /// The folder with the modules of ours that have Python code; it is there when this returns.
    fn carried(&self) -> Option<PathBuf> {
        None
    }

    /// It runs already and answers at once, and its path is its own: no file says more than it.
    fn is_running(&self) -> bool {
        false
    }

    /// A project without an environment may take modules from where this Python has its packages.
    fn lends_its_own(&self) -> bool {
        false
    }
}
