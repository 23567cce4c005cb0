//! The project file, where modules are, and which files a compile consists of.

mod ini;
mod load;
mod metadata;
mod module_metadata;
mod modules;
mod requirements;

pub use load::{Loaded, load};
pub use modules::{Module, environment, find, namespaces};

use crate::diagnostics::{Fail, fail};
use crate::span::Loc;
use crate::world::World;

/// What matters of `project.yml`.
#[derive(Debug, Default)]
pub struct Project {
    pub module_path: Vec<String>,
    /// `type.relation before type.relation`, as written.
    pub precedence: Vec<PrecedenceRule>,
    /// Module constraints as written.
    pub requires: Vec<String>,
    /// Doubts about the file.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct PrecedenceRule {
    pub first: (String, String),
    pub then: (String, String),
}

impl Project {
    pub fn read(world: &dyn World) -> Result<Project, Fail> {
        let text = world.read_text("project.yml").map_err(|error| {
            fail(
                "ProjectNotFoundException",
                Loc::NONE,
                format!("project.yml can not be read: {error}"),
            )
        })?;
        metadata::project(&text)
    }
}

/// Reads a text as each kind of metadata that there is, for fuzzing.
pub fn read_metadata(text: &str) {
    let _ = metadata::project(text);
    let _ = module_metadata::v2("m", "setup.cfg", text);
    let _ = module_metadata::v1("module.yml", text);
    requirements::read_any(text);
}
