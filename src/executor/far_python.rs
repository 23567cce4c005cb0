//! Python for handlers on a machine that has nothing of the server: our package is in the binary, code comes as contents, and the
//! interpreter is one of that machine.

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::DataDir;
use crate::executor::protocol::Python;
use crate::files::Files;
use crate::python::{self, Pythons};

/// Where all of it lies: the temporary folder of an executor that came over ssh, or the data of an agent.
#[derive(Debug)]
pub(crate) struct FarPython {
    data: DataDir,
    pythons: Pythons,
}

impl FarPython {
    /// `named`: the interpreter that somebody named, and by what.
    pub(crate) fn new(folder: &Path, named: Option<(PathBuf, &'static str)>) -> Self {
        Self {
            data: DataDir::new(folder),
            pythons: Pythons::new(named),
        }
    }

    pub(crate) fn data(&self) -> &DataDir {
        &self.data
    }

    pub(crate) fn files(&self) -> Files {
        Files::new(self.data.files())
    }

    /// What hosts are started with. `wanted`: the path or name of an interpreter that the model names; empty: any that fits.
    ///
    /// # Errors
    /// No Python of this machine fits, or our package cannot be unpacked.
    pub(crate) fn python(&self, wanted: &Path) -> io::Result<Python> {
        // `python` is what models say when they say nothing: it may be one of long ago, where another one fits.
        let wanted = Some(wanted).filter(|path| path.components().count() > 1);
        let found = match wanted {
            None => self.pythons.any(),
            Some(path) => Pythons::new(Some((path.to_owned(), "the agent's uri"))).any(),
        };
        let interpreter = found.map_err(io::Error::other)?.path;
        Ok(Python {
            interpreter,
            package: python::unpack(&self.data.runtime())?,
            files: Some(self.data.files()),
        })
    }
}
