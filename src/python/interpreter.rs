//! Which Python: the one that is named, else one of this machine that fits.
//!
//! The Pythons of this machine are those on the path, `python3` before those that have a version in their names, newer
//! before older. Each is asked who it is, since a file of that name may be a shim that chooses by the working directory.
//! What is named is never replaced by another one, only refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use pep440_rs::{Version, VersionSpecifiers};
use serde::{Deserialize, Serialize};
use steward_compiler::PythonRuntime;

use super::known::KnownInterpreters;

/// Our own package needs it.
const OLDEST: (u32, u32) = (3, 11);
/// The names that a Python is looked for by.
const NAMES: [&str; 6] = [
    "python3",
    "python3.15",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
];
/// Those that are only named when none fits.
const TOO_OLD: [&str; 2] = ["python3.10", "python3.9"];

/// A Python of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// The program itself, behind shims.
    pub path: PathBuf,
    /// The version, such as `3.13.0`.
    pub version: String,
}

/// A Python that somebody named.
#[derive(Debug, Clone)]
pub struct Named {
    pub path: PathBuf,
    /// Where it was named: `--python`, `STEWARD_PYTHON`, `python:` of the configuration.
    pub by: &'static str,
}

/// What something asks of Python: `python_requires` of its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Such as `inmanta-module-std 8.7.5`.
    pub who: String,
    /// The versions that fit, such as `>=3.12`.
    pub versions: String,
}

/// Where Python is looked for.
#[derive(Debug, Clone, Default)]
pub struct Pythons {
    /// Only this one counts.
    pub named: Option<Named>,
    /// Who they are, of those that were asked: a compile must not wait for that again.
    asked: Arc<Mutex<BTreeMap<PathBuf, Option<Interpreter>>>>,
    /// Who they are, of those that earlier commands of this user asked.
    known: Option<KnownInterpreters>,
}

impl Pythons {
    /// The one that is named here, else by the variable `STEWARD_PYTHON`.
    pub fn new(named: Option<(PathBuf, &'static str)>) -> Self {
        let named = named.map(|(path, by)| Named { path, by });
        let of_variable = || {
            // An empty one names nothing.
            let path = std::env::var_os("STEWARD_PYTHON").filter(|path| !path.is_empty())?;
            let (path, by) = (PathBuf::from(path), "STEWARD_PYTHON");
            Some(Named { path, by })
        };
        Self {
            named: named.or_else(of_variable),
            asked: Arc::default(),
            known: None,
        }
    }

    /// The same, with what earlier commands found out and for later ones; `cache` is the user's cache directory of this
    /// program.
    #[must_use]
    pub fn known_below(self, cache: &Path) -> Self {
        Self {
            known: Some(KnownInterpreters::below(cache)),
            ..self
        }
    }

    /// Who the interpreter at `path` is; `None`: it is none.
    pub fn ask(&self, path: &Path) -> Option<Interpreter> {
        // It may come later.
        if !path.is_file() {
            return None;
        }
        let known = || self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(path) {
            return known.clone();
        }
        let found = match &self.known {
            Some(earlier) => earlier.get_or_ask(path, ask),
            None => ask(path),
        };
        known().insert(path.to_owned(), found.clone());
        found
    }

    /// The first that fits, whatever modules ask for.
    ///
    /// # Errors
    /// There is none.
    pub fn any(&self) -> Result<Interpreter, String> {
        self.choose(&[], &[])
    }

    /// What a compile runs modules with: the interpreter of the project's `own` environment, else the first that fits, and our
    /// package, unpacked to the user's `cache` of this program.
    ///
    /// # Errors
    /// There is none, or the package cannot be unpacked.
    pub fn runtime(&self, own: Option<PathBuf>, cache: &Path) -> Result<PythonRuntime, String> {
        let interpreter = match own {
            Some(own) => own,
            None => self.any()?.path,
        };
        super::runtime(interpreter, cache).map_err(|error| {
            format!(
                "our Python package cannot be unpacked to {}: {error}; name a folder that can be written to with the variable \
                 XDG_CACHE_HOME",
                cache.display()
            )
        })
    }

    /// The first that meets all of `needs` and, if there is one, all of `wishes`, too.
    ///
    /// # Errors
    /// None does; the text says which there are, why they do not do, and how another is named.
    pub fn choose(&self, needs: &[Need], wishes: &[Need]) -> Result<Interpreter, String> {
        if let Some(named) = &self.named {
            let Named { path, by } = named;
            let is_of = format!("{} (named by {by})", path.display());
            let place = located(path);
            let Some(found) = self.ask(&place) else {
                let why = why_none(path, &place);
                return Err(format!(
                    "{is_of} is not a Python that runs here: {why}; {ANOTHER}"
                ));
            };
            return match found.unmet(needs) {
                None => Ok(found),
                Some(unmet) => Err(format!("{is_of} does not do: {unmet}; {ANOTHER}")),
            };
        }
        let mut seen: Vec<Interpreter> = Vec::new();
        let mut second = None;
        for candidate in candidates(&NAMES) {
            let Some(found) = self.ask(&candidate).filter(|found| !seen.contains(found)) else {
                continue;
            };
            seen.push(found.clone());
            if found.unmet(needs).is_some() {
                continue;
            }
            if found.unmet(wishes).is_none() {
                return Ok(found);
            }
            second.get_or_insert(found);
        }
        if let Some(second) = second {
            return Ok(second);
        }
        seen.extend(
            candidates(&TOO_OLD)
                .iter()
                .filter_map(|path| self.ask(path)),
        );
        Err(none_fits(&seen, needs))
    }
}

/// How another Python is taken.
pub const ANOTHER: &str = "name another with --python, the variable STEWARD_PYTHON, or `python:` of a server's configuration";

fn none_fits(seen: &[Interpreter], needs: &[Need]) -> String {
    let Some(first) = seen.first() else {
        return format!("there is no Python on the path: {ANOTHER}");
    };
    let why = first.unmet(needs).unwrap_or_default();
    let all = seen.iter();
    let all: Vec<String> = all
        .map(|python| format!("{} ({})", python.version, python.path.display()))
        .collect();
    format!(
        "{why}; on the path there are: {}. Install one that fits, or {ANOTHER}",
        all.join(", ")
    )
}

impl Interpreter {
    /// Why it does not do, in words.
    pub fn unmet(&self, needs: &[Need]) -> Option<String> {
        let shown = format!(
            "the Python that was taken is {} ({})",
            self.version,
            self.path.display()
        );
        let version = Version::from_str(&self.version).ok()?;
        let release = version.release();
        let (major, minor) = OLDEST;
        if release < &[u64::from(major), u64::from(minor)] {
            return Some(format!(
                "Steward needs Python {major}.{minor} or later, and {shown}"
            ));
        }
        let unmet = needs.iter().find(|need| !need.is_met_by(&version))?;
        Some(format!(
            "{} needs Python {}, and {shown}",
            unmet.who, unmet.versions
        ))
    }

    /// `3.13`: what wheels are made for.
    pub fn series(&self) -> String {
        self.version
            .splitn(3, '.')
            .take(2)
            .collect::<Vec<_>>()
            .join(".")
    }
}

impl Need {
    pub fn new(who: impl Into<String>, versions: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            versions: versions.into(),
        }
    }

    /// What cannot be read asks for nothing: whoever installs it will say so.
    fn is_met_by(&self, version: &Version) -> bool {
        VersionSpecifiers::from_str(&self.versions)
            .map_or(true, |all| all.iter().all(|one| one.contains(version)))
    }
}

fn candidates(names: &[&str]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| {
        directories
            .iter()
            .map(move |directory| directory.join(name))
    });
    all.filter(|candidate| candidate.is_file()).collect()
}

/// A name without a folder is looked up on the path.
fn located(named: &Path) -> PathBuf {
    let is_name = named.components().count() == 1;
    let name = named.to_str().filter(|_| is_name);
    let found = name.and_then(|name| candidates(&[name]).into_iter().next());
    found.unwrap_or_else(|| named.to_owned())
}

/// Why nobody could say who `named`, found at `place`, is.
fn why_none(named: &Path, place: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    match std::fs::metadata(place) {
        Err(_) if named.components().count() == 1 => {
            "there is no program of this name on the path".to_owned()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            "there is no such file".to_owned()
        }
        Err(error) => format!("it cannot be looked at: {error}"),
        Ok(metadata) if metadata.is_dir() => "it is a folder, not a program".to_owned(),
        Ok(metadata) if !metadata.is_file() => "it is not a file".to_owned(),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => {
            "nobody may execute it (`chmod +x` permits it)".to_owned()
        }
        Ok(_) => match asking(place).output() {
            Err(error) => format!("it cannot be started: {error}"),
            Ok(output) if !output.status.success() => {
                let text = String::from_utf8_lossy(&output.stderr);
                let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
                let last = last.map_or(String::new(), |last| {
                    format!(" ({})", last.chars().take(200).collect::<String>())
                });
                format!(
                    "asked for its version, it ended with {}{last}",
                    output.status
                )
            }
            Ok(_) => "asked for its version, it answered as no Python does".to_owned(),
        },
    }
}

/// Who the interpreter behind `candidate` is: a shim of a version manager would choose by our working directory.
fn ask(candidate: &Path) -> Option<Interpreter> {
    let output = asking(candidate).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (version, path) = text.trim_end().split_once('\n')?;
    (output.status.success() && !path.is_empty()).then(|| Interpreter {
        path: PathBuf::from(path),
        version: version.to_owned(),
    })
}

/// The command that has it say its version and where it is.
fn asking(candidate: &Path) -> Command {
    const ASK: &str =
        "import sys; print('.'.join(map(str, sys.version_info[:3]))); print(sys.executable)";
    let mut command = Command::new(candidate);
    command.args(["-I", "-c", ASK]).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(version: &str) -> Interpreter {
        Interpreter {
            path: "/opt/python".into(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn what_modules_ask_for_is_compared_and_told() {
        let needs = [
            Need::new("a 1", ">=3.9"),
            Need::new("std 8", ">=3.12,<4"),
            Need::new("odd", "not a version"),
        ];
        assert_eq!(python("3.12.1").unmet(&needs), None);
        assert_eq!(
            python("3.11.7").unmet(&needs).unwrap(),
            "std 8 needs Python >=3.12,<4, and the Python that was taken is 3.11.7 (/opt/python)"
        );
        let old = python("3.10.13").unmet(&[]).unwrap();
        assert!(
            old.starts_with("Steward needs Python 3.11 or later"),
            "{old}"
        );
        assert_eq!(python("3.13.0").series(), "3.13");
    }

    #[test]
    fn a_python_that_is_named_is_refused_and_not_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let old = "#!/bin/sh\necho 3.9.18\necho /opt/old\n";
        let broken = "#!/bin/sh\necho no library >&2\nexit 127\n";
        let cases = [
            (
                PathBuf::from("/nonexistent/python"),
                "there is no such file",
            ),
            ("nosuchpython".into(), "no program of this name on the path"),
            (folder.path().to_owned(), "it is a folder"),
            (
                program("plain", "", 0o644),
                "nobody may execute it (`chmod +x` permits it)",
            ),
            (program("garbled", "\u{1}", 0o755), "it cannot be started: "),
            (
                program("broken", broken, 0o755),
                "it ended with exit status: 127 (no library)",
            ),
            (
                program("mute", "#!/bin/sh\n", 0o755),
                "answered as no Python does",
            ),
            (
                program("old", old, 0o755),
                "needs Python 3.11 or later, and the Python that was taken is 3.9.18 (/opt/old)",
            ),
        ];
        for (path, why) in cases {
            let shown = format!("{} (named by --python) ", path.display());
            let pythons = Pythons {
                named: Some(Named {
                    path,
                    by: "--python",
                }),
                ..Pythons::default()
            };
            let error = pythons.any().unwrap_err();
            assert!(error.starts_with(&shown), "{error}");
            assert!(error.contains(why) && error.ends_with(ANOTHER), "{error}");
        }
    }
}
