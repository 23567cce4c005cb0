//! Projects on disk, compiled as the binary does it: real files, a real Python.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use steward_compiler::{DirWorld, Options, PythonRuntime, PythonSource, Variables, compile};

use crate::declarations::MemoryStore;
use crate::lang::Outcome;

/// A project in a directory of its own, that goes with it.
pub struct Disk {
    directory: tempfile::TempDir,
}

impl Disk {
    pub fn new(files: &[(String, String)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the project");
        for (name, text) in files {
            let path = directory.path().join(name);
            let parent = path.parent().expect("a file is in a directory");
            std::fs::create_dir_all(parent).expect("a directory of the project");
            std::fs::write(&path, text).expect("a file of the project");
        }
        Disk { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Compiles it, with Python at hand. Compiles that keep what its modules declare, and use it, are the same.
    #[track_caller]
    pub fn run(&self, options: &Options, variables: &[(String, String)]) -> Outcome {
        let options = &Options {
            python: python(),
            ..options.clone()
        };
        let before = files(&self.path());
        let outcome = self.run_once(options, variables);
        if options.hosts.is_none() {
            let keeping = MemoryStore::options(options);
            for _ in 0..2 {
                self.restore(&before);
                let other = self.run_once(&keeping, variables);
                assert_eq!(other.printed, outcome.printed);
                let (ours, theirs) = (&other.compiled, &outcome.compiled);
                assert_eq!(ours.diagnostics, theirs.diagnostics);
                assert_eq!(ours.export, theirs.export);
                assert_eq!(ours.files, theirs.files);
                assert_eq!(ours.model, theirs.model);
                assert_eq!(ours.plugin_output, theirs.plugin_output);
            }
        }
        outcome
    }

    /// Takes back what a compile has written.
    fn restore(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        let now = files(&self.path());
        for path in now.keys().filter(|path| !before.contains_key(*path)) {
            std::fs::remove_file(path).expect("it is there");
        }
        let changed = before
            .iter()
            .filter(|(path, content)| now.get(*path) != Some(content));
        for (path, content) in changed {
            std::fs::write(path, content).expect("a file of the project");
        }
    }

    /// Compiles it once, with the Python of the options.
    pub fn run_once(&self, options: &Options, variables: &[(String, String)]) -> Outcome {
        let printed = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&printed);
        let variables: Variables = variables.iter().cloned().collect();
        let world = DirWorld::new(self.path(), variables, move |line| {
            let mut sink = sink.lock().expect("nobody panics while printing");
            sink.push_str(line);
            sink.push('\n');
        });
        let mut compiled = compile(&world, options);
        for diagnostic in &mut compiled.diagnostics {
            diagnostic.message = without_addresses(&diagnostic.message);
        }
        let printed = printed.lock().expect("nobody panics while printing");
        Outcome {
            printed: printed.clone(),
            compiled,
        }
    }
}

/// A text of Python without the addresses of objects, which are others in each process: `<function f at 0x…>`.
fn without_addresses(text: &str) -> String {
    const BEFORE: &str = " at 0x";
    // What our own objects are given in the place of an address is the same in each compile.
    const OURS: [&str; 2] = ["7f000000", "7e000000"];
    let mut parts = text.split(BEFORE);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(BEFORE);
        if OURS.iter().any(|ours| part.starts_with(ours)) {
            kept.push_str(part);
        } else {
            kept.push('…');
            kept.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
        }
    }
    kept
}

/// All files below a folder, links not followed.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let kind = entry.file_type().expect("a kind of file");
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            let content = std::fs::read(entry.path()).expect("a file of the project");
            found.insert(entry.path(), content);
        }
    }
    found
}

/// `STEWARD_PYTHON`, else the `python3` of the path, with our package for it.
pub fn python() -> PythonSource {
    PythonSource::At(python_at(&interpreter()))
}

/// The program behind `STEWARD_PYTHON`, else behind the `python3` of the path, which may be a script that chooses one.
pub fn interpreter() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = std::process::Command::new(named);
        let output = command
            .args(["-I", "-c", "import sys; print(sys.executable)"])
            .output();
        let text = String::from_utf8(output.expect("there is a Python").stdout);
        text.expect("a path").trim_end().into()
    };
    FOUND.get_or_init(find).clone()
}

pub fn python_at(interpreter: &Path) -> PythonRuntime {
    PythonRuntime {
        interpreter: interpreter.to_owned(),
        package: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../python"),
        files: None,
        launcher: Default::default(),
    }
}
