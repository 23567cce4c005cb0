//! Projects on disk, compiled as the binary does it: real files, a real Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use steward_compiler::{DirWorld, Options, PythonRuntime, PythonSource, Variables, compile};

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

    /// Compiles it, with Python at hand.
    pub fn run(&self, options: &Options, variables: &[(String, String)]) -> Outcome {
        let printed = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&printed);
        let variables: Variables = variables.iter().cloned().collect();
        let world = DirWorld::new(self.path(), variables, move |line| {
            let mut sink = sink.lock().expect("nobody panics while printing");
            sink.push_str(line);
            sink.push('\n');
        });
        let options = Options {
            python: python(),
            ..options.clone()
        };
        let compiled = compile(&world, &options);
        let printed = printed.lock().expect("nobody panics while printing");
        Outcome {
            printed: printed.clone(),
            compiled,
        }
    }
}

/// `STEWARD_PYTHON`, else the `python3` of the path, with our package for it.
pub fn python() -> PythonSource {
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    PythonSource::At(PythonRuntime {
        interpreter: interpreter.into(),
        package: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../python"),
        files: None,
        launcher: Default::default(),
    })
}
