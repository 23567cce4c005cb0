//! Repositories and folders on this machine that environments are compiled from, and from whom they are hidden.
//!
//! What an environment is compiled from is its own. Code of one environment (plugins, package builds, the reader of a remote
//! repository) runs as the user of the server, who can read the repositories of all of them; so the sandbox of each environment
//! hides those of the others. A repository is a path in the configuration or the API, and what it keeps elsewhere: the `.git` of
//! a linked work tree and the repository that it belongs to, and those that it borrows
//! objects from.
//!
//! What a repository is made of is taken as it was when its environment began: whoever may write into it, and not into that of
//! another environment, could else make it a part of his own. For the same reason, what is elsewhere counts only if it belongs to the
//! user whom the repository itself belongs to, as with git's `safe.directory`; and what another environment is compiled from does
//! not count if others than that user may write into the repository, who could name it there.
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
    sources: Arc<Mutex<HashMap<EnvironmentId, LocalSource>>>,
}

/// Where one environment is compiled from.
#[derive(Debug)]
struct LocalSource {
    /// As the configuration or the API names it.
    named: PathBuf,
    /// What it is made of, and was since the start of the environment: where the path is a link, and leads to another release
    /// now, the one before is still the environment's.
    folders: Vec<PathBuf>,
    /// What of it cannot be hidden.
    open: Vec<PathBuf>,
    /// Others than its owner may write into it, and so say where it keeps its data.
    is_shared: bool,
    /// There is a link on the way, which may lead elsewhere at any time.
    is_link: bool,
    /// Files that all compiles read.
    needed: Arc<[PathBuf]>,
}

impl LocalSource {
    /// Takes up what it is made of now.
    fn look(&mut self, environment: EnvironmentId) {
        let real = self.named.canonicalize();
        let real = real.unwrap_or_else(|_| self.named.clone());
        let user = owner(&real);
        self.is_shared |= may_others_write(&real);
        for folder in folders(&self.named) {
            if !folder.starts_with(&real) && owner(&folder) != user {
                tracing::warn!(
                    environment.id = %environment, folder = %folder.display(),
                    "the repository of the environment keeps data in a folder of another user, which is not read"
                );
                continue;
            }
            if self.folders.contains(&folder) || self.open.contains(&folder) {
                continue;
            }
            if self.is_shared && !folder.starts_with(&real) {
                tracing::warn!(
                    environment.id = %environment, folder = %folder.display(),
                    "the repository of the environment keeps data elsewhere, and others than its owner may write into it: \
                     where another environment is compiled from, its data is not read"
                );
            }
            if !self.needed.iter().any(|file| file.starts_with(&folder)) {
                self.folders.push(folder);
                continue;
            }
            tracing::warn!(
                environment.id = %environment, folder = %folder.display(),
                "the repository of the environment is a folder with programs that all compiles need: other environments can read it"
            );
            self.open.push(folder);
        }
    }
}

impl LocalSources {
    /// Notes where an environment is compiled from; `None`: from another machine. `needed`: files that all compiles read.
    pub fn set(&self, environment: EnvironmentId, named: Option<&Path>, needed: &[PathBuf]) {
        let Some(named) = named else {
            return self.forget(environment);
        };
        let mut source = LocalSource {
            named: named.to_owned(),
            folders: Vec::new(),
            open: Vec::new(),
            is_shared: false,
            is_link: named.canonicalize().is_ok_and(|real| real != named),
            needed: needed.into(),
        };
        source.look(environment);
        self.locked().insert(environment, source);
    }

    /// After the end of an environment.
    pub fn forget(&self, environment: EnvironmentId) {
        self.locked().remove(&environment);
    }

    /// What an environment is made of.
    pub(super) fn folders_of(&self, environment: EnvironmentId) -> Vec<PathBuf> {
        let all = self.locked();
        let mut folders = own(&all, environment);
        folders.extend(
            all.get(&environment)
                .into_iter()
                .flat_map(|source| source.open.clone()),
        );
        folders
    }

    /// What code of this environment may not read, sorted: the folders of the others that are not its own.
    pub(super) fn hidden_from(&self, environment: EnvironmentId) -> Vec<PathBuf> {
        let mut all = self.locked();
        for (owner, source) in all.iter_mut().filter(|(_, source)| source.is_link) {
            source.look(*owner);
        }
        let own = own(&all, environment);
        let others = all.iter().filter(|(owner, _)| **owner != environment);
        let mut hidden: Vec<PathBuf> = others
            .flat_map(|(_, source)| &source.folders)
            .filter(|folder| !own.iter().any(|own| folder.starts_with(own)))
            .cloned()
            .collect();
        drop(all);
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<EnvironmentId, LocalSource>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folders that an environment is made of, but for those of another one that somebody may have made a part of it.
fn own(all: &HashMap<EnvironmentId, LocalSource>, environment: EnvironmentId) -> Vec<PathBuf> {
    let Some(source) = all.get(&environment) else {
        return Vec::new();
    };
    let real = source.named.canonicalize();
    let real = real.unwrap_or_else(|_| source.named.clone());
    let others = all.iter().filter(|(other, _)| **other != environment);
    let others: Vec<PathBuf> = others
        .map(|(_, other)| other.named.canonicalize())
        .filter_map(Result::ok)
        .collect();
    let is_own = |folder: &&PathBuf| {
        !source.is_shared
            || folder.starts_with(&real)
            || !others.iter().any(|other| folder.starts_with(other))
    };
    source.folders.iter().filter(is_own).cloned().collect()
}

/// Whether others than its owner may write where a repository says what it is made of. A group whose number is the user's is
/// his own, as many systems make one for each user.
fn may_others_write(repository: &Path) -> bool {
    const PLACES: [&str; 8] = [
        "",
        ".git",
        ".git/objects",
        ".git/objects/info",
        ".git/refs",
        "objects",
        "objects/info",
        "refs",
    ];
    let mut found = PLACES
        .iter()
        .filter_map(|place| repository.join(place).metadata().ok());
    found.any(|metadata| {
        use std::os::unix::fs::MetadataExt;
        let is_of_group = metadata.mode() & 0o020 != 0 && metadata.gid() != metadata.uid();
        is_of_group || metadata.mode() & 0o002 != 0
    })
}

/// The user whom a folder belongs to; `None`: it is not there.
fn owner(folder: &Path) -> Option<u32> {
    let metadata = folder.metadata().ok()?;
    Some(std::os::unix::fs::MetadataExt::uid(&metadata))
}

/// What a source on this machine is made of, without links.
fn folders(source: &Path) -> Vec<PathBuf> {
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

    /// Given: a path that is a link, which leads to another folder later. Expected: both are hidden at once.
    #[test]
    fn what_a_link_leads_to_now_is_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [old, new, link] = ["old", "new", "link"].map(|name| root.join(name));
        std::fs::create_dir(&old).unwrap();
        std::fs::create_dir(&new).unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        let sources = LocalSources::default();
        sources.set(id(), Some(&link), &[]);
        assert_eq!(sources.hidden_from(id()), std::slice::from_ref(&old));
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&new, &link).unwrap();
        assert_eq!(sources.hidden_from(id()), [new, old]);
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
        assert_eq!(folders(&link), [common.clone(), own.clone(), tree.clone()]);
        // It borrows objects, from one that borrows, too; and they may be links.
        let (first, second) = (root.join("first/objects"), root.join("second/objects"));
        for folder in [
            common.join("objects/info"),
            first.join("info"),
            second.clone(),
        ] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let first_list = format!("# where\n{}\n", first.display());
        std::fs::write(common.join("objects/info/alternates"), first_list).unwrap();
        std::fs::write(first.join("info/alternates"), "../../second/objects\n").unwrap();
        let refs = root.join("refs-elsewhere");
        std::fs::rename(common.join("refs"), &refs).unwrap();
        std::os::unix::fs::symlink(&refs, common.join("refs")).unwrap();
        assert_eq!(folders(&link), [first, refs, second, common, own, tree]);
    }

    /// Input: whoever may write into the repository of one environment makes that of another, or of another user, a part of it
    /// (docs/reference/security.md § 3.28). Answer: it is read as it was when its environment began, and without what belongs to
    /// somebody else.
    #[test]
    fn what_is_made_a_part_of_a_repository_later_or_is_of_another_user_is_not_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [mine, theirs, foreign] = ["mine", "theirs", "foreign"].map(|name| root.join(name));
        for repository in [&mine.join(".git"), &theirs, &foreign] {
            for folder in ["objects/info", "refs"] {
                std::fs::create_dir_all(repository.join(folder)).unwrap();
            }
            std::fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }
        let borrow = |from: &Path| {
            let list = mine.join(".git/objects/info/alternates");
            std::fs::write(list, from.join("objects").display().to_string()).unwrap();
        };
        let sources = LocalSources::default();
        let (one, two) = (id(), id());
        sources.set(one, Some(&mine), &[]);
        sources.set(two, Some(&theirs), &[]);
        borrow(&theirs);
        assert_eq!(sources.folders_of(one), [mine.clone(), mine.join(".git")]);
        assert!(sources.hidden_from(one).contains(&theirs));
        // Only root may give a folder away.
        if std::os::unix::fs::chown(foreign.join("objects"), Some(65534), None).is_ok() {
            borrow(&foreign);
            sources.set(one, Some(&mine), &[]);
            assert_eq!(sources.folders_of(one), [mine.clone(), mine.join(".git")]);
        }
        borrow(&theirs);
        sources.set(one, Some(&mine), &[]);
        assert!(sources.folders_of(one).contains(&theirs.join("objects")));
        // Where others may say so, what is another environment's is not taken, even from the start; anything else is.
        let git = mine.join(".git");
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&git, all).unwrap();
        sources.set(one, Some(&mine), &[]);
        assert_eq!(sources.folders_of(one), [mine.clone(), git]);
        assert!(sources.hidden_from(one).contains(&theirs));
        sources.forget(two);
        assert!(sources.folders_of(one).contains(&theirs.join("objects")));
    }
}
