//! The packages that exported code of handlers asks for, in a virtual environment of their own: on the server for its own
//! executor, and on the machine of an agent for its. Source: docs/reference/deployment.md § 5.4, § 5.11.

use std::time::Instant;

use sha2::{Digest, Sha256};
use steward_compiler::without_credentials;

use super::environment::Wanted;
use super::{Environments, Error, Inspection, Installed, Requirements, Watcher};
use crate::domain::{DataDir, HandlerPackages, chain};
use crate::files::ScratchFolder;
use crate::python::Pythons;

/// Packages of handlers, written down for an installer.
#[derive(Debug)]
pub struct HandlerRequest {
    folder: ScratchFolder,
    digest: String,
    inspection: Inspection,
}

impl HandlerRequest {
    /// # Errors
    /// The disk refuses.
    pub fn write(data: &DataDir, packages: &HandlerPackages) -> Result<Self, Error> {
        let builds = data.builds();
        let failed = || Error::io(format!("cannot make a folder in {}", builds.display()));
        std::fs::create_dir_all(&builds).map_err(failed())?;
        let folder = ScratchFolder::new("packages-", &builds).map_err(failed())?;
        let requirements = Requirements::of_handlers(folder.path(), packages)?;
        Ok(Self {
            folder,
            digest: packages.digest(),
            inspection: Inspection {
                requirements,
                lock: None,
            },
        })
    }

    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }
}

impl Environments {
    /// The environment for packages of handlers: an existing one, or a new one. Blocks.
    ///
    /// # Errors
    /// What went wrong, for people. Nothing half-made is left that would be taken for an environment.
    pub fn ensure_for_handlers(
        &self,
        request: &HandlerRequest,
        pythons: &Pythons,
        watcher: Watcher<'_>,
    ) -> Result<Installed, String> {
        let interpreter = pythons.any()?;
        let path = interpreter.path.to_string_lossy();
        let python = Sha256::digest(format!("{} {path}", interpreter.version));
        // The first part says to `gc_venvs` which packages it is for.
        let key = format!("{}-{}", request.digest, hex::encode(&python[..4]));
        let wanted = Wanted {
            project: request.folder.path(),
            requirements: &request.inspection.requirements,
            interpreter: &interpreter,
            inherits: true,
        };
        let ensured = self.ensure_at(&key, wanted, None, watcher);
        ensured.map_err(|error| without_credentials(&chain(&error)))
    }
}

impl Installed {
    /// The packages, each with its version.
    pub fn packages(&self) -> Vec<String> {
        let packages = self.lock.packages.iter();
        let shown = packages.map(|package| format!("{} {}", package.name, package.version));
        shown.collect()
    }

    /// What was installed since `began`, in a line; `None`: it was there.
    pub fn line(&self, began: Instant) -> Option<String> {
        let tool = Some(&self.tool).filter(|tool| !tool.is_empty())?;
        let seconds = began.elapsed().as_secs_f64();
        let packages = self.packages().join(", ");
        Some(format!("{packages} (by {tool}, in {seconds:.1} s)"))
    }
}
