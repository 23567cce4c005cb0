//! All the compiler may ask of the outside: files, environment variables, a place to print. Same answers, same result.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use crate::Variables;

mod disk;
mod packages;
mod roots;

pub use disk::DirWorld;
pub(crate) use disk::read_plain;
pub use packages::{LocatedPackages, PackageQuestion, PythonPackages};

/// All that a compile may ask of the outside. Paths are relative to the project, or absolute
/// (installed modules).
pub trait World: Sync {
    /// The content of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Whether it is a plain file that can be read.
    fn is_file(&self, path: &str) -> bool;
    /// Names in a directory, sorted; directories end in `/`. Empty for what is no directory.
    fn list(&self, path: &str) -> Vec<String>;
    /// An environment variable.
    fn env(&self, name: &str) -> Option<String>;
    /// All environment variables.
    fn variables(&self) -> Variables;
    /// A line of `std::print`, without its line feed.
    fn print(&self, line: &str);
    /// The absolute path of a file of the project.
    fn absolute(&self, path: &str) -> String;
    /// Writes a file of the project (`std::generate_password` remembers what it made up).
    fn write(&self, path: &str, content: &str) -> io::Result<()>;

    /// The virtual environment that holds the project's modules, if it lies outside of the project.
    fn environment(&self) -> Option<String> {
        None
    }

    /// The environment of the Python that runs where the project has none of its own, if its files can be read.
    fn outer_environment(&self) -> Option<String> {
        None
    }

    /// Who knows where packages are when their files do not say it.
    fn packages(&self) -> Option<&dyn PythonPackages> {
        None
    }

    /// The folder with the modules of ours that have Python code: newer modules, each in a folder of its name.
    fn carried(&self) -> Option<String> {
        None
    }

    /// The absolute path of a file without any link in it; what can not be found stays as it is.
    fn real(&self, path: &str) -> String {
        if path.starts_with('/') {
            path.to_owned()
        } else {
            self.absolute(path)
        }
    }

    /// A fact of a resource (its id without version), if it is known.
    fn fact(&self, _resource: &str, _name: &str) -> Option<String> {
        None
    }

    /// Whether it is a folder with something in it.
    fn is_dir(&self, path: &str) -> bool {
        !self.list(path).is_empty()
    }

    /// The text of a file, with line feeds only. An error names the line that is not UTF-8.
    fn read_text(&self, path: &str) -> io::Result<String> {
        let text = String::from_utf8(self.read(path)?).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            io::Error::other(format!("line {line} of the file is not UTF-8"))
        })?;
        Ok(if text.contains('\r') {
            text.replace("\r\n", "\n").replace('\r', "\n")
        } else {
            text
        })
    }

    /// Whether a program is there; it may be a link to one outside of the project, which is not read, but run.
    fn is_program(&self, path: &str) -> bool {
        self.is_file(path)
    }

    /// Whether a path leads out of where the world may look, so that nothing is found there.
    fn is_outside(&self, _path: &str) -> bool {
        false
    }

    /// The text of a file as diagnostics name it.
    fn read_reported(&self, file: &str) -> Option<String> {
        self.read_text(file).ok()
    }
}

/// A project in memory, for tests and tools.
#[derive(Default)]
pub struct MemWorld {
    files: BTreeMap<String, String>,
    env: Variables,
    printed: Mutex<String>,
}

impl MemWorld {
    /// The same with a file more.
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }

    /// The same with an environment variable more.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// What was printed so far.
    pub fn printed(&self) -> String {
        self.printed
            .lock()
            .map(|text| text.clone())
            .unwrap_or_default()
    }
}

impl World for MemWorld {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.files.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn list(&self, path: &str) -> Vec<String> {
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("{}/", path.trim_end_matches('/'))
        };
        let below = self
            .files
            .keys()
            .filter_map(|file| file.strip_prefix(&prefix));
        let mut names: Vec<String> = below
            .map(|rest| match rest.split_once('/') {
                Some((directory, _)) => format!("{directory}/"),
                None => rest.to_owned(),
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn variables(&self) -> Variables {
        self.env.clone()
    }

    fn print(&self, line: &str) {
        if let Ok(mut printed) = self.printed.lock() {
            printed.push_str(line);
            printed.push('\n');
        }
    }

    fn absolute(&self, path: &str) -> String {
        format!("/{path}")
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
