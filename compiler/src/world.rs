//! All the compiler may ask of the outside: files, environment variables, a place to print. Same answers, same result.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use crate::Variables;

/// No file of a project may be larger: 64 MiB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Paths are relative to the project, or absolute (installed modules).
pub trait World: Sync {
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    fn is_file(&self, path: &str) -> bool;
    /// Names in a directory, sorted; directories end in `/`. Empty for what is no directory.
    fn list(&self, path: &str) -> Vec<String>;
    fn env(&self, name: &str) -> Option<String>;
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

    /// A fact of a resource (its id without version), if it is known.
    fn fact(&self, _resource: &str, _name: &str) -> Option<String> {
        None
    }

    fn is_dir(&self, path: &str) -> bool {
        !self.list(path).is_empty()
    }

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

    /// The text of a file as diagnostics name it.
    fn read_reported(&self, file: &str) -> Option<String> {
        self.read_text(file).ok()
    }
}

type Print = Box<dyn FnMut(&str) + Send>;

/// A project on disk.
pub struct DirWorld {
    project_dir: PathBuf,
    env: Variables,
    print: Mutex<Print>,
    environment: Option<String>,
}

impl DirWorld {
    pub fn new(
        project_dir: PathBuf,
        env: Variables,
        print: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        let project_dir = std::path::absolute(&project_dir).unwrap_or(project_dir);
        DirWorld {
            project_dir,
            env,
            print: Mutex::new(Box::new(print)),
            environment: None,
        }
    }

    /// The modules of the project are in the virtual environment at `path`.
    pub fn with_environment(self, path: Option<&Path>) -> Self {
        DirWorld {
            environment: path.map(|path| path.to_string_lossy().into_owned()),
            ..self
        }
    }

    fn resolve(&self, path: &str) -> PathBuf {
        self.project_dir.join(path)
    }
}

impl World for DirWorld {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.resolve(path);
        let meta = std::fs::metadata(&path)?;
        if !meta.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if meta.len() > MAX_FILE_BYTES {
            return Err(io::Error::other("the file is larger than 64 MiB"));
        }
        std::fs::read(path)
    }

    fn is_file(&self, path: &str) -> bool {
        self.resolve(path).is_file()
    }

    fn is_dir(&self, path: &str) -> bool {
        self.resolve(path).is_dir()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.resolve(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some(if entry.path().is_dir() {
                    name + "/"
                } else {
                    name
                })
            })
            .collect();
        names.sort();
        names
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn variables(&self) -> Variables {
        self.env.clone()
    }

    fn environment(&self) -> Option<String> {
        self.environment.clone()
    }

    fn print(&self, line: &str) {
        if let Ok(mut print) = self.print.lock() {
            print(line);
        }
    }

    fn absolute(&self, path: &str) -> String {
        self.resolve(path).to_string_lossy().into_owned()
    }

    fn write(&self, path: &str, content: &str) -> io::Result<()> {
        let beneath = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !beneath {
            return Err(io::Error::other("the file is not below the project"));
        }
        let path = self.resolve(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)
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
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }

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
