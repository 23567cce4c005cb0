//! Packages of Debian and its relatives: what is installed comes from dpkg's own file, which is read once for all resources
//! until it changes; apt installs and removes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::package::{Found, Wanted};
use super::program::{Done, Program};
use super::{Context, Error};

const STATUS: &str = "/var/lib/dpkg/status";
/// Changes that dpkg has not merged into [`STATUS`] yet: it was interrupted.
const UPDATES: &str = "/var/lib/dpkg/updates";
/// Downloads are waited for, and an installation that is stopped leaves the host half done.
const LIMIT: Duration = Duration::from_secs(3600);
/// What apt says when another one fetches lists or packages, as timers of Debian do each day, and how often and for how long it is
/// tried again.
const LOCKED: &str = "Could not get lock";
const LOCK_PAUSE: Duration = Duration::from_secs(1);
const LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// The lists of packages are fetched for the newest version at most this often.
const LISTS_LAST: Duration = Duration::from_secs(3600);

/// When the file was read, and what it says.
static KNOWN: Mutex<Option<(Stamp, Arc<Packages>)>> = Mutex::new(None);
static LISTS_FETCHED: Mutex<Option<Instant>> = Mutex::new(None);

/// Size, inode and time of the last change: dpkg replaces the file when it changes it.
type Stamp = (u64, u64, i64, i64);
/// By name: the package for each architecture.
type Packages = HashMap<String, Vec<Package>>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    architecture: String,
    /// What dpkg made of it: `installed`, `config-files`, `half-configured`, …
    state: String,
    version: String,
}

/// What is installed under a name, which may end in a colon and an architecture. A plain name means the package for the host's own
/// architecture if there is one, as it does to apt: another one of that name is a different package then.
pub(super) fn installed(context: &Context, name: &str) -> Result<Found, Error> {
    let packages = packages()?;
    let (name, architecture) = match name.split_once(':') {
        Some((name, architecture)) => (name, Some(architecture)),
        None => (name, None),
    };
    // That of dpkg itself.
    let own = packages.get("dpkg").and_then(|dpkg| dpkg.first());
    let own = own.map(|dpkg| dpkg.architecture.as_str());
    let mut found = Found::Nothing;
    for package in packages.get(name).into_iter().flatten() {
        // One for all architectures counts as of that of the host.
        let is_other = |wanted| wanted != package.architecture && package.architecture != "all";
        if architecture.is_some_and(is_other) {
            continue;
        }
        if architecture.is_none() && own.is_some_and(is_other) && has_own(context, name)? {
            continue;
        }
        match package.state.as_str() {
            // Waiting for the triggers of others is a matter of moments.
            "installed" | "triggers-pending" | "triggers-awaited" => {
                return Ok(Found::Installed(package.version.clone()));
            }
            "not-installed" => (),
            "config-files" => found = Found::OnlyConfiguration,
            state => found = Found::Broken(state.to_owned()),
        }
    }
    Ok(found)
}

fn packages() -> Result<Arc<Packages>, Error> {
    let path = Path::new(STATUS);
    let metadata = fs::metadata(path).map_err(Error::io("look at", path))?;
    let stamp = (
        metadata.size(),
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    );
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((when, packages)) = known.as_ref()
        && *when == stamp
    {
        return Ok(Arc::clone(packages));
    }
    let text = fs::read(path).map_err(Error::io("read", path))?;
    let packages = Arc::new(parse(&String::from_utf8_lossy(&text)));
    *known = Some((stamp, Arc::clone(&packages)));
    Ok(packages)
}

/// Paragraphs of `Name: value`, with an empty line between.
fn parse(text: &str) -> Packages {
    let mut packages = Packages::new();
    for paragraph in text.split("\n\n") {
        let (mut name, mut state, mut version, mut architecture) = ("", "", "", "");
        for line in paragraph.lines() {
            match line.split_once(": ") {
                Some(("Package", value)) => name = value,
                // What is wanted, whether it is well, and what there is.
                Some(("Status", value)) => state = value.rsplit(' ').next().unwrap_or(""),
                Some(("Version", value)) => version = value,
                Some(("Architecture", value)) => architecture = value,
                _ => (),
            }
        }
        if !name.is_empty() {
            packages.entry(name.to_owned()).or_default().push(Package {
                architecture: architecture.to_owned(),
                state: state.to_owned(),
                version: version.to_owned(),
            });
        }
    }
    packages
}

/// The newest version that the lists have.
pub(super) fn newest(context: &mut Context, wanted: &Wanted) -> Result<Option<String>, Error> {
    if wanted.update_cache {
        let is_due = {
            let mut fetched = LISTS_FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = fetched.is_none_or(|when| when.elapsed() > LISTS_LAST);
            if is_due {
                *fetched = Some(Instant::now());
            }
            is_due
        };
        if is_due && let Err(error) = update_lists(context) {
            context.warning(&format!("the lists of packages stay as they are: {error}"));
        }
    }
    Ok(candidate(&policy(context, wanted.name)?))
}

fn policy(context: &Context, name: &str) -> Result<String, Error> {
    let program = Program::asking("apt-cache")?.arguments(["policy", "--", name]);
    Ok(program.run(context)?.stdout)
}

/// Whether the sources have a package of this name for the host's own architecture; otherwise apt names the other one.
fn has_own(context: &Context, name: &str) -> Result<bool, Error> {
    let policy = policy(context, name)?;
    let first = policy
        .lines()
        .next()
        .and_then(|line| line.strip_suffix(':'));
    let is_named = first == Some(name);
    Ok(is_named && candidate(&policy).is_some())
}

/// The version that apt would install.
fn candidate(policy: &str) -> Option<String> {
    let mut lines = policy.lines().map(str::trim);
    let version = lines.find_map(|line| line.strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_owned())
}

/// The versions of the table at the end.
fn versions(policy: &str) -> Vec<&str> {
    let table = policy.lines();
    let table = table.skip_while(|line| line.trim() != "Version table:");
    // Versions are five columns in, or behind a mark; their sources are below them, eight columns in.
    let version = |line| {
        let rest = str::strip_prefix(line, " *** ").or_else(|| line.strip_prefix("     "))?;
        let word = rest.split(' ').next()?;
        (!word.is_empty()).then_some(word)
    };
    table.skip(1).filter_map(version).collect()
}

pub(super) fn install(context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
    recover(context)?;
    let mut known = policy(context, wanted.name)?;
    if !is_available(&known, wanted) && wanted.update_cache {
        update_lists(context)?;
        known = policy(context, wanted.name)?;
    }
    if !is_available(&known, wanted) {
        return Err(missing(&known, wanted));
    }
    let mut arguments = vec!["install"];
    if !wanted.recommends {
        arguments.push("--no-install-recommends");
    }
    let package = match wanted.version {
        Some(version) => {
            arguments.push("--allow-downgrades");
            format!("{}={version}", wanted.name)
        }
        None => wanted.name.to_owned(),
    };
    arguments.extend(["--", &package]);
    apt_get(context, &arguments)
}

pub(super) fn remove(context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
    recover(context)?;
    let verb = if wanted.remove_config {
        "purge"
    } else {
        "remove"
    };
    apt_get(context, &[verb, "--", wanted.name])
}

fn is_available(policy: &str, wanted: &Wanted) -> bool {
    match wanted.version {
        Some(version) => versions(policy).contains(&version),
        None => candidate(policy).is_some(),
    }
}

fn missing(policy: &str, wanted: &Wanted) -> Error {
    let name = wanted.name;
    let versions = versions(policy);
    Error::Failed(match wanted.version {
        Some(version) if !versions.is_empty() => format!(
            "no package source of this host has version {version} of {name}; there is {}",
            versions.join(", ")
        ),
        // Others name it, and it has no version of its own.
        _ if policy.contains("Candidate: ") => format!(
            "no package source of this host has a version of {name}: it may be a virtual package, so choose one of those that \
             provide it (`apt-cache showpkg {name}` names them), or be kept away by the pins of apt"
        ),
        _ => format!(
            "no package source of this host has the package {name}; look at its name, and at the sources of apt"
        ),
    })
}

/// Finishes what an earlier dpkg was stopped in, as it refuses everything else until then. What cannot be finished, such as a
/// package whose script fails, need not be in the way: another version of it, or its removal, is what mends it. And another
/// program may be at work; apt waits for it.
fn recover(context: &mut Context) -> Result<(), Error> {
    let is_half = |package: &Package| {
        matches!(
            package.state.as_str(),
            "unpacked" | "half-configured" | "half-installed"
        )
    };
    let has_updates =
        fs::read_dir(UPDATES).is_ok_and(|mut updates| updates.any(|update| update.is_ok()));
    if has_updates || packages()?.values().flatten().any(is_half) {
        context.warning("dpkg was interrupted: `dpkg --configure -a` finishes its work first");
        let program = Program::changing("dpkg", LIMIT)?.arguments(["--configure", "-a"]);
        if let Err(error) = unattended(program).must_succeed(context) {
            context.warning(&format!("going on all the same: {error}"));
        }
    }
    Ok(())
}

fn update_lists(context: &mut Context) -> Result<(), Error> {
    apt_get(context, &["update"])
}

fn apt_get(context: &mut Context, arguments: &[&str]) -> Result<(), Error> {
    let shown = format!("apt-get {}", arguments.join(" "));
    let deadline = Instant::now() + LOCK_PATIENCE;
    let mut has_waited = false;
    loop {
        context.debug(&format!("running `{shown}`"));
        let done = apt_get_once(context, arguments)?;
        if done.status.success() {
            log_output(context, &done);
            return Ok(());
        }
        let left = context.left().unwrap_or(LOCK_PATIENCE);
        let may_wait = Instant::now() < deadline && left > 2 * LOCK_PAUSE;
        if !(may_wait && done.stderr.contains(LOCKED)) {
            return Err(failure(&done, &shown));
        }
        if !has_waited {
            has_waited = true;
            context.info("another program works with the packages of this host: waiting for it");
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

fn apt_get_once(context: &Context, arguments: &[&str]) -> Result<Done, Error> {
    let program = Program::changing("apt-get", LIMIT)?.arguments([
        "--yes",
        "--quiet",
        // Somebody else may be installing: apt itself waits for the locks of dpkg, and for none of its own.
        "--option",
        "DPkg::Lock::Timeout=120",
        // Changed configuration files stay, without a question.
        "--option",
        "Dpkg::Options::=--force-confdef",
        "--option",
        "Dpkg::Options::=--force-confold",
    ]);
    unattended(program.arguments(arguments.iter().copied())).run(context)
}

/// What apt says, and what can be done about a package that somebody holds back.
fn failure(done: &Done, shown: &str) -> Error {
    let error = done.failure(shown);
    if !done.stderr.contains("Held packages were changed") {
        return error;
    }
    Error::Failed(format!(
        "{error}\nsomebody holds a package of this host back: `apt-mark showhold` names it, `apt-mark unhold` lets it go"
    ))
}

/// Nothing asks a question, and needrestart only lists what should be restarted.
fn unattended(program: Program) -> Program {
    program
        .variable("DEBIAN_FRONTEND", "noninteractive")
        .variable("NEEDRESTART_MODE", "l")
}

fn log_output(context: &mut Context, done: &Done) {
    context.debug(done.shown().trim_start());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dpkgs_file_is_read_paragraph_by_paragraph() {
        let packages = parse(
            "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2.0-1\n\n\
             Package: a\nStatus: deinstall ok config-files\nArchitecture: i386\nVersion: 1.0\n\
             Conffiles:\n /etc/a 0123\nDescription: x\n Package: not a field\n",
        );
        let a = &packages["a"];
        let shown: Vec<[&str; 3]> = a
            .iter()
            .map(|one| [&*one.architecture, &*one.state, &*one.version])
            .collect();
        assert_eq!(
            shown,
            [
                ["amd64", "installed", "1:2.0-1"],
                ["i386", "config-files", "1.0"]
            ]
        );
    }

    #[test]
    fn versions_of_a_policy_are_those_of_its_table() {
        let policy = "tool:\n  Installed: 1.0\n  Candidate: 2.0-1\n  Version table:\n     2.0-1 500\n        500 file:/srv/repo ./ Packages\n \
                      *** 1.0 100\n        100 /var/lib/dpkg/status\n";
        assert_eq!(candidate(policy).as_deref(), Some("2.0-1"));
        assert_eq!(versions(policy), ["2.0-1", "1.0"]);
        assert_eq!(candidate(""), None);
        assert_eq!(candidate("x:\n  Candidate: (none)\n"), None);
    }
}
