//! `steward.lock`: what was chosen, exactly.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steward_compiler::yaml::{self, LIMITS};

use super::Error;
use super::digest::FolderDigests;
use crate::python::{Interpreter, Need, REFERENCE_VERSION, is_distribution, is_own};

/// The name of the lock, which lies beside `project.yml` and is to be committed with it.
pub const LOCK_FILE: &str = "steward.lock";

const HEAD: &str = "# The exact versions that this project is compiled and deployed with. Written by `steward project update`; commit it.\n";
/// What is written. Format 1 had no `python`, and packages that the reference alone needs.
const FORMAT: u32 = 2;
const FORMATS: std::ops::RangeInclusive<u32> = 1..=FORMAT;

/// Packages whose metadata do not say which Python their code needs: name, version, Python. An index offers them to
/// those that are too old, since it knows no better.
const UNDECLARED: [(&str, &str, &str); 1] = [("inmanta-module-std", "8.5.0", ">=3.12")];

/// Constraints that keep those from being chosen that do not run on this Python, a line each: older ones may.
pub(super) fn constraints_for(interpreter: &Interpreter) -> String {
    let unfit = UNDECLARED.into_iter().filter(|(name, _, python)| {
        let need = Need::new(*name, *python);
        interpreter.unmet(&[need]).is_some()
    });
    unfit
        .map(|(name, version, _)| format!("{name}!={version}\n"))
        .collect()
}

/// The content of `steward.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    format: u32,
    /// Digest of what was asked for.
    pub requirements: String,
    /// The series of Python that it was made with, such as `3.13`: digests of compiled packages are those for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// The packages, sorted by name.
    pub packages: Vec<Package>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Normalized: lower case, hyphens.
    pub name: String,
    pub version: String,
    /// Which Python it asks for, such as `>=3.12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    pub source: Source,
}

/// Who provides a package that comes from nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Steward,
}

/// Where a package comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Source {
    /// Our own distribution in the place of the reference. Whichever program installs it takes its own, so that a lock is
    /// the same on all machines; the version is that of the reference that it stands for.
    Own { provided_by: Provider },
    Repository {
        git: String,
        commit: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subdirectory: Option<String>,
    },
    /// Relative to the project where it is below it.
    Folder {
        folder: PathBuf,
        sha256: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        editable: bool,
    },
    /// An archive of an index, of a folder of wheels, or at a URL of its own.
    Archive {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        sha256: String,
    },
}

/// A package that is installed.
#[derive(Debug, Clone)]
pub struct Present {
    pub name: String,
    pub version: String,
    /// Which Python it asks for.
    pub python: Option<String>,
    /// The commit of a package that comes from git.
    pub commit: Option<String>,
    /// Files of it that are not as they were installed, some of them, below where packages lie.
    pub changed: Vec<String>,
}

impl Lock {
    pub(super) fn new(requirements: String, python: String, packages: Vec<Package>) -> Self {
        let mut lock = Self {
            format: FORMAT,
            requirements,
            python: Some(python),
            packages: Vec::new(),
        };
        lock.set_packages(packages);
        lock
    }

    pub(super) fn set_packages(&mut self, mut packages: Vec<Package>) {
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        self.packages = packages;
    }

    /// Takes over what the metadata of packages have now that they are installed: which Python they ask for, and the version of
    /// one that was built from a folder.
    pub(super) fn complete(&mut self, installed: &[Present]) {
        for package in self.packages.iter_mut().filter(|package| !package.is_own()) {
            let found = installed.iter().find(|found| found.name == package.name);
            package.python = found.and_then(|found| found.python.clone());
            if let Some(found) = found
                && package.version.is_empty()
            {
                package.version.clone_from(&found.version);
            }
        }
    }

    /// What its packages ask of Python.
    pub fn needs(&self) -> Vec<Need> {
        let need = |package: &Package| {
            let versions = package
                .python
                .clone()
                .or_else(|| package.undeclared_python())?;
            Some(Need::new(
                format!("{} {}", package.name, package.version),
                versions,
            ))
        };
        self.packages.iter().filter_map(need).collect()
    }

    /// `None`: the project has none.
    ///
    /// # Errors
    /// It is unreadable, or not written by us.
    pub fn read(project: &Path) -> Result<Option<Self>, Error> {
        let text = match yaml::read_file(&project.join(LOCK_FILE), &LIMITS) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::Other | ErrorKind::InvalidData) => {
                return Err(Error::Project(format!(
                    "{LOCK_FILE} cannot be read: {error}"
                )));
            }
            Err(error) => return Err(Error::io(format!("cannot read {LOCK_FILE}"))(error)),
        };
        Self::parse(&text).map(Some)
    }

    /// # Errors
    /// The text is not one that we write.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lock: Self = yaml::from_str(text, &LIMITS).map_err(|error| {
            Error::Project(format!(
                "{LOCK_FILE}: {error}; `steward project update` writes it anew"
            ))
        })?;
        if !FORMATS.contains(&lock.format) {
            return Err(Error::Project(format!(
                "{LOCK_FILE} has format {}, this program knows those up to {FORMAT}",
                lock.format
            )));
        }
        let mut names = BTreeSet::new();
        match lock.packages.iter().find(|one| !names.insert(&one.name)) {
            Some(package) => Err(Error::Project(format!(
                "{LOCK_FILE} names the package {} twice; `steward project update` writes it anew",
                package.name
            ))),
            None => Ok(lock),
        }
    }

    /// # Errors
    /// It cannot be written; the old one stays then.
    pub fn write(&self, project: &Path) -> Result<(), Error> {
        let failed = || Error::io(format!("cannot write {LOCK_FILE}"));
        let file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(project)
            .map_err(failed())?;
        std::fs::write(file.path(), self.text()).map_err(failed())?;
        file.persist(project.join(LOCK_FILE))
            .map_err(|error| failed()(error.error))?;
        Ok(())
    }

    pub fn text(&self) -> String {
        let body = yaml::to_string(self).unwrap_or_default();
        format!("{HEAD}{body}")
    }

    /// How the sources of packages differ from those in the lock that an environment was installed by, at the same version.
    pub(super) fn other_sources(&self, installed: &Lock) -> Vec<String> {
        let other = |package: &&Package| {
            let was = installed.packages.iter();
            let mut was =
                was.filter(|was| was.name == package.name && was.version == package.version);
            was.any(|was| was.source != package.source)
        };
        let differences = self.packages.iter().filter(other).map(|package| {
            format!(
                "{} was installed from something else than what the lock says",
                package.name
            )
        });
        differences.collect()
    }

    /// How what is installed differs, and the folders that changed.
    ///
    /// # Errors
    /// A folder is unreadable.
    pub fn differences(&self, project: &Path, installed: &[Present]) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        let digests = FolderDigests::default();
        for package in &self.packages {
            let Package { name, version, .. } = package;
            let found = installed.iter().find(|present| present.name == *name);
            match found {
                None => all.push(format!("{name} {version} is not installed")),
                Some(found) if package.is_own() => {
                    if !is_distribution(&found.version) {
                        let now = &found.version;
                        all.push(format!(
                            "{name} is that of an index, in version {now}, and not Steward's: run `steward project install`"
                        ));
                    }
                }
                Some(found) if found.version != *version => all.push(format!(
                    "{name} is installed in version {}, the lock says {version}",
                    found.version
                )),
                Some(found) => {
                    if let Source::Repository { commit, .. } = &package.source
                        && found.commit.as_ref() != Some(commit)
                    {
                        let now = found.commit.as_deref().unwrap_or("no commit");
                        all.push(format!(
                            "{name} is installed from {now}, the lock says {commit}"
                        ));
                    }
                    let changed = found.changed.iter();
                    all.extend(
                        changed.map(|file| {
                            format!("{name} was changed after it was installed: {file}")
                        }),
                    );
                }
            }
            let of = |folder: &Path| digests.of(&project.join(folder), &|| false);
            all.extend(package.folder_difference(of)?);
        }
        Ok(all)
    }
}

impl Package {
    /// Our own distribution in the place of the reference, or what comes with it.
    pub(super) fn own(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: REFERENCE_VERSION.to_owned(),
            python: None,
            source: Source::Own {
                provided_by: Provider::Steward,
            },
        }
    }

    /// Whether it is our own distribution; also in locks that were made before there was one.
    pub fn is_own(&self) -> bool {
        is_own(&self.name)
    }

    /// Which Python it needs though its metadata do not say so.
    fn undeclared_python(&self) -> Option<String> {
        let mut known = UNDECLARED.into_iter();
        let (_, _, python) =
            known.find(|(name, version, _)| *name == self.name && *version == self.version)?;
        Some(python.to_owned())
    }

    /// Why the folder of a package is not what it was.
    pub(super) fn folder_difference(
        &self,
        digest: impl Fn(&Path) -> Result<String, Error>,
    ) -> Result<Option<String>, Error> {
        let Source::Folder {
            folder,
            sha256,
            editable: false,
        } = &self.source
        else {
            return Ok(None);
        };
        let digest = digest(folder)?;
        Ok((digest != *sha256).then(|| {
            format!(
                "the folder {} of {} is not what it was when the lock was written",
                folder.display(),
                self.name
            )
        }))
    }
}

/// How package names compare: lower case, and one hyphen for what separates words.
pub fn normalized(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::DISTRIBUTION;

    fn lock() -> Lock {
        let package = |name: &str, source| Package {
            name: name.to_owned(),
            version: "1.0".to_owned(),
            python: (name == "z").then(|| ">=3.12".to_owned()),
            source,
        };
        let archive = Source::Archive {
            url: None,
            sha256: "aa".to_owned(),
        };
        let repository = Source::Repository {
            git: "https://host/x.git".to_owned(),
            commit: "c0ffee".to_owned(),
            subdirectory: None,
        };
        let folder = Source::Folder {
            folder: "libs/x".into(),
            sha256: "bb".to_owned(),
            editable: true,
        };
        let packages = vec![
            package("z", archive),
            package("a", repository),
            package("m", folder),
            Package::own(DISTRIBUTION),
        ];
        Lock::new("sha256:0".to_owned(), "3.13".to_owned(), packages)
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Lock::read(dir.path()).unwrap().is_none());
        lock().write(dir.path()).unwrap();
        assert_eq!(Lock::read(dir.path()).unwrap().unwrap(), lock());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::write(dir.path().join(LOCK_FILE), "packages: 3").unwrap();
        let error = Lock::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("steward project update"), "{error}");
    }

    #[test]
    fn what_differs_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let present = |name: &str, version: &str, commit: Option<&str>| Present {
            name: name.to_owned(),
            version: version.to_owned(),
            python: None,
            commit: commit.map(str::to_owned),
            changed: Vec::new(),
        };
        let good = [
            present("a", "1.0", Some("c0ffee")),
            // Of whichever program.
            present(DISTRIBUTION, "20.1.0+steward.0", None),
            present("m", "1.0", None),
            present("z", "1.0", None),
        ];
        assert!(lock().differences(dir.path(), &good).unwrap().is_empty());
        let mut changed = good.clone();
        changed[2].changed.push("m/__init__.py".to_owned());
        let differences = lock().differences(dir.path(), &changed).unwrap();
        assert_eq!(
            differences,
            ["m was changed after it was installed: m/__init__.py"]
        );
        let bad = [present("a", "1.0", Some("dead")), present("z", "2.0", None)];
        let differences = lock().differences(dir.path(), &bad).unwrap();
        assert_eq!(
            differences,
            [
                "a is installed from dead, the lock says c0ffee",
                "inmanta-core 20.1.0 is not installed",
                "m 1.0 is not installed",
                "z is installed in version 2.0, the lock says 1.0"
            ]
        );
    }

    #[test]
    fn a_lock_of_an_earlier_version_is_read_and_the_reference_in_it_is_ours() {
        let text = "format: 1\nrequirements: sha256:0\npackages:\n- name: inmanta-core\n  version: 20.1.0\n  source:\n    sha256: aa\n- name: z\n  version: '1'\n  source:\n    sha256: bb\n";
        let lock = Lock::parse(text).unwrap();
        assert!(lock.packages[0].is_own() && !lock.packages[1].is_own());
        assert_eq!(lock.needs(), []);
        let error = Lock::parse(&text.replace("format: 1", "format: 3"));
        assert!(error.unwrap_err().to_string().contains("format 3"));
        // What one release of std does not say.
        let std = Package {
            name: "inmanta-module-std".to_owned(),
            version: "8.5.0".to_owned(),
            python: None,
            source: lock.packages[1].source.clone(),
        };
        assert_eq!(std.undeclared_python().as_deref(), Some(">=3.12"));
        let older = "8.4.2".to_owned();
        let older = Package {
            version: older,
            ..std
        };
        assert_eq!(older.undeclared_python(), None);
        // It is not chosen for a Python that is too old; an older one may be.
        let of = |version: &str| {
            constraints_for(&Interpreter {
                path: "/usr/bin/python3".into(),
                version: version.to_owned(),
            })
        };
        assert_eq!(of("3.11.2"), "inmanta-module-std!=8.5.0\n");
        assert_eq!(of("3.12.1"), "");
        // What a lock says of Python.
        let needs = super::tests::lock().needs();
        assert_eq!(needs, [Need::new("z 1.0", ">=3.12")]);
        // No version of ours is in it: it is the same whoever writes it.
        assert!(!super::tests::lock().text().contains("steward."));
    }

    #[test]
    fn names_of_packages_have_one_form() {
        assert_eq!(normalized("Inmanta.module__Net_x"), "inmanta-module-net-x");
    }
}
