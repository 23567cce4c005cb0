//! Packages of Fedora and its relatives: what is installed comes from one question to rpm for all resources until its
//! database changes; dnf, or an old yum, installs and removes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::package::{Found, Wanted};
use super::program::{self, Program};
use super::{Context, Error};

/// Where rpm has its database, newer places first.
const DATABASES: &[&str] = &[
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/rpm/rpmdb.sqlite",
    "/var/lib/rpm/Packages.db",
    "/var/lib/rpm/Packages",
];
/// Downloads are waited for, and an installation that is stopped leaves the host half done.
const LIMIT: Duration = Duration::from_secs(3600);
/// `dnf check-update`: there is something newer.
const NEWER_EXIST: i32 = 100;

static KNOWN: Mutex<Option<(Stamp, Arc<Packages>)>> = Mutex::new(None);

/// Of the database and of its log of changes: size, inode and time of the last change.
type Stamp = Vec<(u64, u64, i64, i64)>;
/// By name: epoch, version and release, and the architecture, of each that is installed.
type Packages = HashMap<String, Vec<Package>>;

#[derive(Debug)]
struct Package {
    epoch: String,
    version: String,
    release: String,
    architecture: String,
}

impl Package {
    /// As people write it: the version, with the release if they do, with the epoch if they do.
    fn is(&self, wanted: &str) -> bool {
        let (version, release) = (&self.version, &self.release);
        let wanted = match wanted.split_once(':') {
            Some((epoch, rest)) if epoch == self.epoch => rest,
            Some(_) => return false,
            None => wanted,
        };
        wanted == *version || wanted == format!("{version}-{release}")
    }
}

/// What is installed under a name. A version that is meant is given as the model writes it.
pub(super) fn installed(context: &Context, wanted: &Wanted) -> Result<Found, Error> {
    let packages = packages(context)?;
    let (name, architecture) = match wanted.name.split_once(':') {
        Some((name, architecture)) => (name, Some(architecture)),
        None => (wanted.name, None),
    };
    let all = packages.get(name).into_iter().flatten();
    let all = all.filter(|one| architecture.is_none_or(|wanted| wanted == one.architecture));
    // Of a kernel, for instance, several are installed.
    let mut all: Vec<&Package> = all.collect();
    let Some(last) = all.pop() else {
        return Ok(Found::Nothing);
    };
    let meant = wanted
        .version
        .filter(|version| last.is(version) || all.iter().any(|package| package.is(version)));
    let shown = || format!("{}-{}", last.version, last.release);
    Ok(Found::Installed(meant.map_or_else(shown, str::to_owned)))
}

fn packages(context: &Context) -> Result<Arc<Packages>, Error> {
    let stamp = stamp();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((when, packages)) = known.as_ref()
        && *when == stamp
        && !stamp.is_empty()
    {
        return Ok(Arc::clone(packages));
    }
    let format = "--queryformat=%{NAME}\\t%{EPOCHNUM}\\t%{VERSION}\\t%{RELEASE}\\t%{ARCH}\\n";
    let program = Program::asking("rpm")?.arguments(["--query", "--all", format]);
    let done = program.keep_all().run(context)?;
    if !done.status.success() {
        return Err(done.failure("rpm --query --all"));
    }
    let packages = Arc::new(parse(&done.stdout));
    *known = Some((stamp, Arc::clone(&packages)));
    Ok(packages)
}

fn stamp() -> Stamp {
    let logs = DATABASES.iter().map(|database| format!("{database}-wal"));
    let files = DATABASES.iter().map(|database| (*database).to_owned());
    let found = files.chain(logs).filter_map(|path| fs::metadata(path).ok());
    let stamp = |file: fs::Metadata| (file.size(), file.ino(), file.mtime(), file.mtime_nsec());
    found.map(stamp).collect()
}

fn parse(text: &str) -> Packages {
    let mut packages = Packages::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, epoch, version, release, architecture] = fields[..] else {
            continue;
        };
        packages.entry(name.to_owned()).or_default().push(Package {
            epoch: epoch.to_owned(),
            version: version.to_owned(),
            release: release.to_owned(),
            architecture: architecture.to_owned(),
        });
    }
    packages
}

/// The newest version that the sources have, if it is not the installed one.
pub(super) fn newer(context: &Context, wanted: &Wanted) -> Result<Option<String>, Error> {
    let package = specification(wanted.name);
    let program = Program::asking(manager()?)?;
    let program = program.arguments(["--quiet", "check-update", &package]);
    let done = program.limit(LIMIT).run(context)?;
    match done.status.code() {
        Some(0) => Ok(None),
        Some(NEWER_EXIST) => {
            let name = package.split('.').next().unwrap_or_default();
            let mut lines = done.stdout.lines();
            let line = lines.find(|line| line.starts_with(name));
            let version = line.and_then(|line| line.split_whitespace().nth(1));
            Ok(Some(version.unwrap_or("a newer one").to_owned()))
        }
        _ => Err(done.failure(&format!("{} check-update {package}", manager()?))),
    }
}

pub(super) fn install(
    context: &mut Context,
    wanted: &Wanted,
    is_installed: bool,
) -> Result<(), Error> {
    let package = match wanted.version {
        Some(version) => format!("{}-{version}", wanted.name),
        None => specification(wanted.name),
    };
    let weak = format!("--setopt=install_weak_deps={}", wanted.recommends);
    let verb = if is_installed && wanted.version.is_none() {
        "upgrade"
    } else {
        "install"
    };
    run(context, &["--assumeyes", &weak, verb, &package])?;
    if let (Some(version), true) = (wanted.version, is_installed)
        && installed(context, wanted)? != Found::Installed(version.to_owned())
    {
        // An older one is not installed over a newer one by `install`.
        run(context, &["--assumeyes", &weak, "downgrade", &package])?;
    }
    Ok(())
}

pub(super) fn remove(context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
    let package = specification(wanted.name);
    run(context, &["--assumeyes", "remove", &package])
}

/// dnf writes the architecture behind a dot.
fn specification(name: &str) -> String {
    name.replacen(':', ".", 1)
}

fn manager() -> Result<&'static str, Error> {
    let mut known = ["dnf", "dnf5", "yum"].into_iter();
    known.find(|name| program::has(name)).ok_or_else(|| {
        Error::Failed(
            "this host has neither dnf nor yum: install one, or set `provider`".to_owned(),
        )
    })
}

fn run(context: &mut Context, arguments: &[&str]) -> Result<(), Error> {
    let program = Program::changing(manager()?, LIMIT)?;
    let program = program.arguments(arguments.iter().copied());
    let done = program.must_succeed(context)?;
    context.debug(done.shown().trim_start());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_met_however_it_is_written() {
        let packages = parse("bash\t0\t5.2.26\t1.fc39\tx86_64\nbroken line\n");
        let bash = &packages["bash"][0];
        for wanted in ["5.2.26", "5.2.26-1.fc39", "0:5.2.26-1.fc39"] {
            assert!(bash.is(wanted), "{wanted}");
        }
        for wanted in ["5.2.2", "1:5.2.26", "5.2.26-1"] {
            assert!(!bash.is(wanted), "{wanted}");
        }
        assert_eq!(packages.len(), 1);
    }
}
