//! The packages that a Python of this machine has without any environment of ours.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use pep440_rs::{Version, VersionSpecifiers};

use super::normalized;
use crate::domain::{HandlerPackages, module_of_requirement, name_of_requirement};
use crate::process::{Ended, run_supervised};

/// Prints name and version of all that can be imported.
const LIST: &str = "import importlib.metadata as m\n\
                    for d in m.distributions(): print(d.metadata['Name'], d.version)";

/// How long an interpreter may take to list its packages: there may be thousands, on a slow disk.
const LIMIT: Duration = Duration::from_secs(60);

/// Which of the requirements the packages of an interpreter do not meet. What applies to some machines only, and is not there, is
/// taken for not needed; in which version of what the server has them does not matter. Packages of modules are not looked for: their
/// code comes from the server, and whether they hold more than it only an import shows.
///
/// # Errors
/// The interpreter cannot be asked, or takes more than a minute.
pub fn missing_on_machine(
    interpreter: &Path,
    packages: &HandlerPackages,
) -> io::Result<Vec<String>> {
    missing_within(interpreter, packages, LIMIT)
}

fn missing_within(
    interpreter: &Path,
    packages: &HandlerPackages,
    limit: Duration,
) -> io::Result<Vec<String>> {
    let mut command = Command::new(interpreter);
    command
        .args(["-I", "-c", LIST])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let deadline = Instant::now() + limit;
    let output = match run_supervised(&mut command, || Instant::now() >= deadline)? {
        Ended::Done(output) => output,
        Ended::Stopped => {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "{} did not list its packages within {} s",
                    interpreter.display(),
                    limit.as_secs()
                ),
            ));
        }
    };
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(text.trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let listed = text.lines().filter_map(|line| line.rsplit_once(' '));
    // The first one that is found is the one that is imported.
    let mut installed = BTreeMap::new();
    for (name, version) in listed {
        installed.entry(normalized(name)).or_insert(version);
    }
    let missing = packages.requirements.iter();
    let missing = missing.filter(|requirement| !is_met(requirement, &installed));
    Ok(missing.cloned().collect())
}

fn is_met(requirement: &str, installed: &BTreeMap<String, &str>) -> bool {
    if module_of_requirement(requirement).is_some() {
        return true;
    }
    let (rest, marker) = requirement
        .split_once(';')
        .map_or((requirement, None), |(rest, marker)| (rest, Some(marker)));
    let (name, rest) = rest.split_at(name_of_requirement(rest).len());
    let Some(version) = installed.get(&normalized(name)) else {
        return marker.is_some();
    };
    let rest = rest.trim();
    let versions = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']').map_or("", |(_, versions)| versions),
        None => rest,
    };
    let versions = versions
        .trim()
        .trim_start_matches('(')
        .trim_end_matches(')');
    // From a URL: its name has to do.
    if versions.is_empty() || versions.starts_with('@') {
        return true;
    }
    match (
        VersionSpecifiers::from_str(versions),
        Version::from_str(version),
    ) {
        (Ok(wanted), Ok(version)) => wanted.contains(&version),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its error names it and the limit.
    #[test]
    fn an_interpreter_that_hangs_is_given_up() {
        let home = tempfile::tempdir().unwrap();
        let python = home.path().join("python");
        std::fs::write(&python, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let began = Instant::now();
        let error = missing_within(&python, &HandlerPackages::default(), Duration::from_secs(1));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("python did not list its packages within 1 s"),
            "{error}"
        );
        assert!(began.elapsed().as_secs() < 30);
    }

    #[test]
    fn what_a_machine_has_is_compared_with_what_is_required() {
        let installed = BTreeMap::from([("a-b".to_owned(), "1.5"), ("c".to_owned(), "2.0.1")]);
        for good in [
            "A_b",
            "a.b>=1,<2",
            "a-b (>=1.0)",
            "c[x,y]~=2.0",
            "c @ https://host/c.whl",
            "tomli ; python_version < '3.11'",
            "inmanta-module-net>=1",
            "c>=2 ; python_version > '3'",
        ] {
            assert!(is_met(good, &installed), "{good}");
        }
        for bad in [
            "d",
            "a-b>=2",
            "c[x]<2",
            "c==2.0",
            "c>=3 ; python_version > '3'",
        ] {
            assert!(!is_met(bad, &installed), "{bad}");
        }
    }
}
