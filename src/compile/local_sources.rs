//! Repositories and folders on this machine that environments are compiled from, and from whom they are hidden.
//!
//! What an environment is compiled from is its own. Code of one environment (plugins, package builds, the reader of a remote
//! repository) runs as the user of the server, who can read the repositories of all of them; so the sandbox of each environment
//! hides those of the others. A repository is a path in the configuration or the API, and what it keeps elsewhere: the `.git` of
//! a linked work tree and the repository that it shares objects with.
//!
//! What is not hidden, since hiding it would break what it protects: what an environment has in common with another one, or has
//! the other one inside of its own; and folders that hold a program which every compile needs, like the interpreter.
//!
//! Source: docs/security.md; docs/reference/security.md § 4.1.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::EnvironmentId;
use crate::git;

/// The local sources of all environments. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct LocalSources {
    folders: Arc<Mutex<HashMap<EnvironmentId, Vec<PathBuf>>>>,
}

impl LocalSources {
    /// Notes where an environment is compiled from; `None`: from another machine. `needed`: files that all compiles read.
    pub fn set(&self, environment: EnvironmentId, source: Option<&Path>, needed: &[PathBuf]) {
        let (kept, refused): (Vec<_>, Vec<_>) = source
            .map(folders)
            .unwrap_or_default()
            .into_iter()
            .partition(|folder| !needed.iter().any(|file| file.starts_with(folder)));
        for folder in &refused {
            tracing::warn!(
                environment.id = %environment, folder = %folder.display(),
                "the repository of the environment is a folder with programs that all compiles need: other environments can read it"
            );
        }
        match kept.is_empty() {
            true => self.locked().remove(&environment),
            false => self.locked().insert(environment, kept),
        };
    }

    /// After the end of an environment.
    pub fn forget(&self, environment: EnvironmentId) {
        self.locked().remove(&environment);
    }

    /// What code of this environment may not read, sorted: the folders of the others that are not its own.
    pub(super) fn hidden_from(&self, environment: EnvironmentId) -> Vec<PathBuf> {
        let all = self.locked();
        let own = all.get(&environment).map_or(&[][..], Vec::as_slice);
        let others = all.iter().filter(|(owner, _)| **owner != environment);
        let mut hidden: Vec<PathBuf> = others
            .flat_map(|(_, folders)| folders)
            .filter(|folder| !own.iter().any(|own| folder.starts_with(own)))
            .cloned()
            .collect();
        drop(all);
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<EnvironmentId, Vec<PathBuf>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a source on this machine is made of, without links.
pub(super) fn folders(source: &Path) -> Vec<PathBuf> {
    let real = source.canonicalize();
    let mut all = git::data_folders(source);
    all.push(real.unwrap_or_else(|_| source.to_owned()));
    all.sort_unstable();
    all.dedup();
    all
}

/// Programs that compiles start, each as it is called and without links: ours, `interpreters`, and where programs are looked for.
pub fn needed_programs<'a>(interpreters: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let searched = env::var_os("PATH").unwrap_or_default();
    let called = interpreters
        .map(Path::to_owned)
        .chain(env::current_exe())
        .chain(env::split_paths(&searched).filter(|folder| folder.is_absolute()));
    called
        .flat_map(|path| [path.canonicalize().ok(), Some(path)])
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> EnvironmentId {
        EnvironmentId::generate()
    }

    /// Given: environments with repositories of their own, in common, inside of one another, and elsewhere.
    /// Expected: each is kept from what only others have.
    #[test]
    fn what_only_others_have_is_hidden() {
        let sources = LocalSources::default();
        let [alone, twin, same, whole, part, remote] = [(); 6].map(|()| id());
        for (environment, path) in [
            (alone, "/srv/alone"),
            (twin, "/srv/twin"),
            (same, "/srv/twin"),
            (whole, "/srv/mono"),
            (part, "/srv/mono/part"),
        ] {
            sources.set(environment, Some(Path::new(path)), &[]);
        }
        sources.set(remote, None, &[]);
        let hidden = |environment| {
            let hidden = sources.hidden_from(environment);
            hidden
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let all = "/srv/alone /srv/mono /srv/mono/part /srv/twin";
        assert_eq!(hidden(remote), all);
        assert_eq!(hidden(id()), all);
        assert_eq!(hidden(alone), "/srv/mono /srv/mono/part /srv/twin");
        assert_eq!(hidden(twin), "/srv/alone /srv/mono /srv/mono/part");
        assert_eq!(hidden(whole), "/srv/alone /srv/twin");
        assert_eq!(hidden(part), "/srv/alone /srv/mono /srv/twin");
        sources.set(alone, None, &[]);
        sources.forget(whole);
        assert_eq!(hidden(remote), "/srv/mono/part /srv/twin");
    }

    /// Given: a repository that everything is in. Expected: it is not hidden.
    #[test]
    fn a_folder_with_what_all_need_is_not_hidden() {
        let sources = LocalSources::default();
        let needed = needed_programs([Path::new("/opt/python/bin/python3")].into_iter());
        assert!(needed.contains(&env::current_exe().unwrap()));
        for path in ["/", "/opt", "/opt/python/bin"] {
            sources.set(id(), Some(Path::new(path)), &needed);
        }
        assert!(sources.hidden_from(id()).is_empty());
        sources.set(id(), Some(Path::new("/opt/models")), &needed);
        assert_eq!(sources.hidden_from(id()), [Path::new("/opt/models")]);
    }

    /// Given: a linked work tree behind a link. Expected: it, its own git folder and the one that it shares, without links.
    #[test]
    fn a_linked_work_tree_is_in_three_places() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let common = root.join("shared.git");
        let own = common.join("worktrees/tree");
        let tree = root.join("tree");
        for folder in [&common.join("objects"), &common.join("refs"), &own, &tree] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for (file, text) in [
            (common.join("HEAD"), "ref: refs/heads/main\n".to_owned()),
            (own.join("HEAD"), "ref: refs/heads/tree\n".to_owned()),
            (own.join("commondir"), "../..\n".to_owned()),
            (tree.join(".git"), format!("gitdir: {}\n", own.display())),
        ] {
            std::fs::write(file, text).unwrap();
        }
        let link = root.join("link");
        std::os::unix::fs::symlink(&tree, &link).unwrap();
        assert_eq!(folders(&link), [common, own, tree]);
    }
}
