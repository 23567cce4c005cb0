//! What a build may not leave behind: links to what only the server may read. Whoever reads the environment for the
//! project, as a compile does that looks for models and files of its modules, would follow them with the server's rights.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Error;

/// Files and folders of an environment.
const MAX_ENTRIES: usize = 1_000_000;

/// Looks at all links below `environment`: one that leads to a hidden place outside of it is an error, one that leads
/// nowhere yet, and may lead anywhere later, is removed.
pub(super) fn check(environment: &Path, hidden: &[PathBuf]) -> Result<(), Error> {
    let failed = || Error::io(format!("cannot read {}", environment.display()));
    let root = fs::canonicalize(environment).map_err(failed())?;
    let mut open = vec![root.clone()];
    let mut n_entries = 0;
    while let Some(folder) = open.pop() {
        // What cannot be listed may still be opened by name, so it is an error.
        let failed = || {
            Error::io(format!(
                "a build left a folder that cannot be read: {}",
                folder.display()
            ))
        };
        for entry in fs::read_dir(&folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                return Err(Error::Project(format!(
                    "a build left more than {MAX_ENTRIES} files"
                )));
            }
            let kind = fs::symlink_metadata(&path).map_err(failed())?.file_type();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                check_link(&path, &root, hidden)?;
            }
        }
    }
    Ok(())
}

fn check_link(path: &Path, root: &Path, hidden: &[PathBuf]) -> Result<(), Error> {
    match fs::canonicalize(path) {
        Ok(target) => {
            // What is in /proc depends on who looks.
            let is_hidden = target.starts_with("/proc")
                || hidden.iter().any(|hidden| target.starts_with(hidden));
            if !is_hidden || target.starts_with(root) {
                return Ok(());
            }
            Err(Error::Project(format!(
                "a build left a link to what only the server may read: {}",
                path.strip_prefix(root).unwrap_or(path).display()
            )))
        }
        Err(error) if !leads_nowhere(&error) => Err(Error::Project(format!(
            "a build left a link that cannot be followed: {}: {error}",
            path.strip_prefix(root).unwrap_or(path).display()
        ))),
        Err(_) => {
            let failed = || Error::io(format!("cannot read {}", path.display()));
            let target = fs::read_link(path).map_err(failed())?;
            let stays = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if target.components().all(stays) {
                return Ok(());
            }
            fs::remove_file(path).map_err(failed())
        }
    }
}

/// Whether a link that cannot be followed leads to nothing: there is nothing, a circle, or what our user may not enter.
fn leads_nowhere(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let known = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS];
    Errno::from_io_error(error).is_some_and(|error| known.contains(&error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_to_hidden_places_are_found_and_those_to_nowhere_removed() {
        let dir = tempfile::tempdir().unwrap();
        let data = fs::canonicalize(dir.path()).unwrap();
        let environment = data.join("environments/one");
        fs::create_dir_all(environment.join("lib/x")).unwrap();
        fs::write(data.join("database"), "").unwrap();
        let link = |target: &str, name: &str| symlink(target, environment.join(name)).unwrap();
        let hidden = [data.clone()];
        link("lib", "lib64");
        link("/bin/sh", "shell");
        link("nowhere", "lib/dangling");
        link("../../../later", "lib/later");
        link("/nowhere/at/all", "far");
        check(&environment, &hidden).unwrap();
        let is_there = |name: &str| environment.join(name).symlink_metadata().is_ok();
        assert!(is_there("lib64") && is_there("shell") && is_there("lib/dangling"));
        assert!(!is_there("lib/later") && !is_there("far"));
        link("../../../..", "lib/x/up");
        let error = check(&environment, &hidden).unwrap_err().to_string();
        assert!(error.ends_with("lib/x/up"), "{error}");
        fs::remove_file(environment.join("lib/x/up")).unwrap();
        link("/proc/self/environ", "variables");
        assert!(check(&environment, &hidden).is_err());
        fs::remove_file(environment.join("variables")).unwrap();
        link("../../database", "database");
        assert!(check(&environment, &hidden).is_err());
        fs::remove_file(environment.join("database")).unwrap();
        check(&environment, &hidden).unwrap();
        // Below a path that is longer than any that can be followed at once: what is there can still be opened, step by step.
        let mut folder = fs::File::open(&environment).unwrap();
        let name = "d".repeat(200);
        for _ in 0..25 {
            use rustix::fs::{Mode, OFlags, mkdirat, openat};
            mkdirat(&folder, &name, Mode::RWXU).unwrap();
            folder = openat(&folder, &name, OFlags::RDONLY, Mode::empty())
                .unwrap()
                .into();
        }
        rustix::fs::symlinkat(data.join("database"), &folder, "L").unwrap();
        assert!(check(&environment, &hidden).is_err());
    }
}
