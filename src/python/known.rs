//! Who the Pythons of this machine are, kept between commands: to start one only to ask it takes longer than most compiles, and
//! three times as long where the `python3` of the path is a script that chooses one, as a version manager's shim is.
//!
//! A program itself says the same as long as neither it nor the environment that it is in changes. What a script chooses may
//! depend on much more, so all that version managers go by counts for it: the variables, the working directory, and the files
//! in which versions are named.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use steward_compiler::FileStamp;

use super::Interpreter;
use crate::files::KeptAnswers;

/// Below the user's cache.
const FOLDER: &str = "interpreters";
/// Pythons of a machine, times the projects that choose different ones.
const MAX_COUNT: usize = 64;
/// Of a file in which a version is named. Longer ones are read no further.
const MAX_BYTES: u64 = 1 << 16;
/// In which version managers look for the version to take, in the working directory and above it.
const NAMED_IN: [&str; 5] = [
    ".python-version",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".config/mise/config.toml",
];

/// The answers of one user.
#[derive(Debug, Clone)]
pub(super) struct KnownInterpreters {
    answers: KeptAnswers,
}

#[derive(Serialize, Deserialize)]
struct Known {
    path: PathBuf,
    version: String,
    /// Of the program at `path`, which a script may have chosen.
    stamp: FileStamp,
}

impl KnownInterpreters {
    /// `cache`: the user's cache directory of this program.
    pub(super) fn below(cache: &Path) -> Self {
        Self {
            answers: KeptAnswers::new(cache.join(FOLDER), MAX_COUNT),
        }
    }

    /// Who the interpreter behind `candidate` is, by an earlier answer or by that of `ask`.
    pub(super) fn get_or_ask(
        &self,
        candidate: &Path,
        ask: impl FnOnce(&Path) -> Option<Interpreter>,
    ) -> Option<Interpreter> {
        let Some(digest) = digest(candidate) else {
            return ask(candidate);
        };
        if let Some(known) = self.get(&digest) {
            return Some(known);
        }
        let found = ask(candidate)?;
        // It may have changed while it was asked.
        if let Some(stamp) = FileStamp::of(&found.path)
            && self::digest(candidate).as_ref() == Some(&digest)
        {
            let known = Known {
                path: found.path.clone(),
                version: found.version.clone(),
                stamp,
            };
            // Without it the next command asks again.
            if let Ok(text) = serde_json::to_vec(&known) {
                let _ = self.answers.put(&digest, &text);
            }
        }
        Some(found)
    }

    fn get(&self, digest: &str) -> Option<Interpreter> {
        let known: Known = serde_json::from_slice(&self.answers.get(digest)?).ok()?;
        let is_same = FileStamp::of(&known.path)? == known.stamp;
        is_same.then_some(Interpreter {
            path: known.path,
            version: known.version,
        })
    }
}

/// Of all that the answer of a candidate depends on; `None`: it can not be read.
fn digest(candidate: &Path) -> Option<String> {
    let mut depends = Dependencies(Sha256::new());
    depends.add_path(candidate);
    depends.add_path(&fs::canonicalize(candidate).ok()?);
    depends.add_stamp(candidate);
    if let Some(environment) = candidate.parent().and_then(Path::parent) {
        depends.add_file(&environment.join("pyvenv.cfg"));
    }
    let mut start = [0; 2];
    let mut file = steward_compiler::plain_file::open(candidate).ok()?;
    let is_script = file.read_exact(&mut start).is_ok() && start == *b"#!";
    if is_script {
        depends.add_choice()?;
    }
    Some(hex::encode(depends.0.finalize()))
}

struct Dependencies(Sha256);

impl Dependencies {
    fn add(&mut self, bytes: &[u8]) {
        steward_compiler::add_part(&mut self.0, bytes);
    }

    fn add_path(&mut self, path: &Path) {
        self.add(path.as_os_str().as_bytes());
    }

    fn add_stamp(&mut self, path: &Path) {
        let stamp = FileStamp::of(path);
        self.add(&serde_json::to_vec(&stamp).unwrap_or_default());
    }

    fn add_file(&mut self, path: &Path) {
        let mut bytes = Vec::new();
        let is_read = steward_compiler::plain_file::open(path)
            .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes))
            .is_ok();
        self.add(&[u8::from(is_read)]);
        self.add(&bytes);
    }

    /// What a script goes by that chooses a Python.
    fn add_choice(&mut self) -> Option<()> {
        let mut variables: Vec<_> = std::env::vars_os().collect();
        variables.retain(|(name, _)| !name.to_str().is_some_and(steward_compiler::is_of_shell));
        variables.sort_unstable();
        for (name, value) in &variables {
            self.add(name.as_bytes());
            self.add(value.as_bytes());
        }
        let here = std::env::current_dir().ok()?;
        self.add_path(&here);
        let variable = |wanted: &str| {
            let mut found = variables
                .iter()
                .filter(|(name, _)| name == OsStr::new(wanted));
            found.next().map(|(_, value)| PathBuf::from(value))
        };
        let home = variable("HOME");
        let start = variable("PYENV_DIR").unwrap_or(here);
        for folder in start.ancestors().chain(home.as_deref()) {
            for name in NAMED_IN {
                self.add_file(&folder.join(name));
            }
        }
        let root = variable("PYENV_ROOT").or_else(|| home.map(|home| home.join(".pyenv")));
        if let Some(root) = root {
            self.add_file(&root.join("version"));
            // `3.13` means the newest that is installed.
            self.add_stamp(&root.join("versions"));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A file that may be run.
    fn program(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    struct Machine {
        folder: tempfile::TempDir,
        known: KnownInterpreters,
        n_asked: Cell<usize>,
    }

    impl Machine {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self {
                known: KnownInterpreters::below(&folder.path().join("cache")),
                n_asked: Cell::new(0),
                folder,
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// How often a candidate that answers with the program `chosen` had to be asked for this.
        #[track_caller]
        fn n_asked(&self, candidate: &Path, chosen: &Path) -> usize {
            let before = self.n_asked.get();
            let found = self.known.get_or_ask(candidate, |_| {
                self.n_asked.set(self.n_asked.get() + 1);
                let (path, version) = (chosen.to_owned(), "3.13.0".to_owned());
                Some(Interpreter { path, version })
            });
            assert_eq!(found.unwrap().path, chosen);
            self.n_asked.get() - before
        }
    }

    #[test]
    fn an_interpreter_is_asked_once_until_it_or_its_environment_changes() {
        let machine = Machine::new();
        let python = machine.path("venv/bin/python");
        program(&python, "\x7fELF one");
        assert_eq!(machine.n_asked(&python, &python), 1);
        assert_eq!(machine.n_asked(&python, &python), 0);
        program(&python, "\x7fELF another");
        assert_eq!(machine.n_asked(&python, &python), 1);
        fs::write(machine.path("venv/pyvenv.cfg"), "home = /usr").unwrap();
        assert_eq!(machine.n_asked(&python, &python), 1);
        assert_eq!(machine.n_asked(&python, &python), 0);
    }

    #[test]
    fn a_script_is_asked_again_when_what_it_chose_is_another_program() {
        let machine = Machine::new();
        let (shim, python) = (
            machine.path("shims/python3"),
            machine.path("3.13/bin/python"),
        );
        program(&shim, "#!/bin/sh\n");
        program(&python, "\x7fELF one");
        assert_eq!(machine.n_asked(&shim, &python), 1);
        assert_eq!(machine.n_asked(&shim, &python), 0);
        program(&python, "\x7fELF another");
        assert_eq!(machine.n_asked(&shim, &python), 1);
        fs::remove_file(&python).unwrap();
        assert_eq!(machine.n_asked(&shim, &machine.path("3.13")), 1);
    }

    #[test]
    fn a_damaged_answer_is_asked_for_again() {
        let machine = Machine::new();
        let python = machine.path("bin/python");
        program(&python, "\x7fELF");
        assert_eq!(machine.n_asked(&python, &python), 1);
        for entry in fs::read_dir(machine.path("cache/interpreters")).unwrap() {
            fs::write(entry.unwrap().path(), "{}").unwrap();
        }
        assert_eq!(machine.n_asked(&python, &python), 1);
    }
}
