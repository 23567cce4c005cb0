//! Who tells compiles where Python finds modules, when no file says it: the Python that will run, and its earlier answers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steward_compiler::{LocatedPackages, PackageQuestion, PythonPackages, PythonRuntime, locate};

use crate::files::{entries, is_older};
use crate::python::{Pythons, carried, runtime, unpack};

/// Below the cache: answers, by the digest of what they depend on.
const KEPT: &str = "packages";
/// An answer is asked for again when its environment changes; one this old is of an environment that is gone, or it is
/// cheap to ask once more.
const LONGEST_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Modules that one question is about; and no more that are nowhere are kept. Projects have dozens.
const MOST_NAMES: usize = 1000;

/// Answers of earlier compiles of this process, by digest.
pub(in crate::compile) type Answers = Arc<Mutex<BTreeMap<String, LocatedPackages>>>;

/// The Python of compiles.
pub struct Packages {
    source: Source,
    answers: Answers,
    /// See [`PythonPackages::lends_its_own`].
    lends: bool,
}

enum Source {
    /// Of a person who runs commands: the folder of what is kept between them.
    Person { cache: PathBuf, pythons: Pythons },
    /// Of a worker of a server, which has one to run in its sandbox, and keeps nothing on disk.
    Worker(PythonRuntime),
}

impl Packages {
    /// Of a command that a person runs; `cache` is the person's cache of this program.
    pub fn of_person(cache: PathBuf, pythons: Pythons) -> Self {
        Self {
            source: Source::Person { cache, pythons },
            answers: Answers::default(),
            lends: true,
        }
    }

    /// Of an editor, whose text changes all the time: Python is not started for each half of a name.
    pub fn of_editor(cache: PathBuf, pythons: Pythons) -> Self {
        Self {
            lends: false,
            ..Self::of_person(cache, pythons)
        }
    }

    pub(in crate::compile) fn of_worker(runtime: PythonRuntime, answers: Answers) -> Self {
        Self {
            source: Source::Worker(runtime),
            answers,
            lends: false,
        }
    }

    /// The Python of an environment, or the one that runs where there is none.
    fn runtime(&self, environment: Option<&str>) -> Option<PythonRuntime> {
        let own = environment.and_then(|environment| {
            let programs = ["bin/python", "bin/python3"].into_iter();
            let mut programs = programs.map(|program| Path::new(environment).join(program));
            programs.find(|program| program.is_file())
        });
        match (&self.source, own) {
            (Source::Worker(runtime), own) => Some(PythonRuntime {
                interpreter: own.unwrap_or_else(|| runtime.interpreter.clone()),
                ..runtime.clone()
            }),
            (Source::Person { cache, .. }, Some(interpreter)) => Some(PythonRuntime {
                interpreter,
                package: unpack(cache).ok()?,
                files: None,
                launcher: Default::default(),
            }),
            (Source::Person { cache, pythons }, None) => {
                let found = pythons.any().ok()?;
                runtime(found.path, cache).ok()
            }
        }
    }

    fn kept(&self, digest: &str) -> Option<LocatedPackages> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(digest) {
            return Some(answer.clone());
        }
        let Source::Person { cache, .. } = &self.source else {
            return None;
        };
        let text = fs::read(cache.join(KEPT).join(digest)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn keep(&self, digest: &str, answer: &LocatedPackages) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(digest.to_owned(), answer.clone());
        if let Source::Person { cache, .. } = &self.source {
            // Without it the next command asks again.
            let _ = write(&cache.join(KEPT), digest, answer);
        }
    }
}

impl PythonPackages for Packages {
    fn locate(&self, question: PackageQuestion<'_>) -> Option<LocatedPackages> {
        let kept = question.digest.and_then(|digest| self.kept(digest));
        if let Some(kept) = &kept
            && kept.modules.contains_key(question.name)
        {
            return Some(kept.clone());
        }
        let known = kept.unwrap_or_default().modules;
        let (found, missing): (BTreeMap<_, _>, BTreeMap<_, _>) =
            known.into_iter().partition(|(_, folder)| folder.is_some());
        let own = std::iter::once(question.name.to_owned());
        let others = question.others.iter().cloned();
        let mut names: Vec<String> = own.chain(others).chain(found.into_keys()).collect();
        names.truncate(MOST_NAMES);
        let runtime = self.runtime(question.environment)?;
        let mut answer = locate(&runtime, &names).ok()?;
        for (name, nowhere) in missing.into_iter().take(MOST_NAMES) {
            answer.modules.entry(name).or_insert(nowhere);
        }
        if let Some(digest) = question.digest {
            self.keep(digest, &answer);
        }
        Some(answer)
    }

    fn carried(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Person { cache, .. } => Some(carried(&unpack(cache).ok()?)),
            Source::Worker(runtime) => Some(carried(&runtime.package)),
        }
    }

    fn lends_its_own(&self) -> bool {
        self.lends
    }
}

/// Writes an answer as a whole, and removes old ones.
fn write(folder: &Path, digest: &str, answer: &LocatedPackages) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(answer)?)?;
    file.persist(folder.join(digest))?;
    for path in entries(folder) {
        if is_older(&path, LONGEST_KEPT) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The environment of the Python that runs where a project has none of its own: the one that is named, by an option or by
/// `STEWARD_PYTHON`, else the first `python3` on the path, as far as that can be said without starting it.
pub fn outer_environment(pythons: &Pythons) -> Option<PathBuf> {
    let named = pythons.named.as_ref().map(|named| named.path.clone());
    let named = named.unwrap_or_else(|| PathBuf::from("python3"));
    let python = if named.components().count() > 1 {
        named
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(&named));
        places.find(|place| place.is_file())?
    };
    let environment = |python: &Path| Some(python.parent()?.parent()?.to_owned());
    let virtual_environment = environment(&python)?;
    if virtual_environment.join("pyvenv.cfg").is_file() {
        return Some(virtual_environment);
    }
    // The real program has its version in its name, as the folder of its packages has.
    let real = fs::canonicalize(&python).ok()?;
    let packages = Path::new("lib").join(real.file_name()?);
    environment(&real).filter(|environment| environment.join(packages).is_dir())
}
