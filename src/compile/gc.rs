//! Garbage collection of what deleted environments leave on disk.
//!
//! Checkouts, the links to them, Python environments, package caches and scratch folders go at
//! once. Mirrors and the recorded commits of folders go when they are old, since another
//! environment may come to follow the same repository, and a fetch of everything takes long.
//! Source: docs/reference/deployment.md § 1.2.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Source;
use super::run::blocking;
use crate::domain::{DataDir, chain};
use crate::files::{entries, folders, is_older, remove_tree};
use crate::git;
use crate::store::{self, Store};

/// Removes what belongs to no environment; how much that was. `age`: when something of a source is old. `in_use`: as for
/// checkouts.
///
/// # Errors
/// The store does not answer.
pub async fn gc_environments(
    store: &Store,
    data: &DataDir,
    in_use: &tokio::sync::RwLock<()>,
    age: Duration,
) -> Result<usize, store::Error> {
    let _alone = in_use.write().await;
    // Before it is asked what there is: an environment that is made meanwhile has nothing among it.
    let listed = data.clone();
    let found = blocking(move || Unneeded::below(&listed, age)).await;
    let environments = store.environment_list().await?;
    let ids = environments.iter().map(|known| known.id);
    let names = ids.flat_map(|id| [id.to_string(), data.folder_name(id)]);
    let names: HashSet<String> = names.collect();
    let sources = environments
        .iter()
        .filter_map(|known| Source::from_stored(&known.repo_url, &known.repo_branch, data).ok());
    let places: HashSet<PathBuf> = sources.map(|source| source.place(data)).collect();
    Ok(blocking(move || found.remove(&names, &places)).await)
}

/// Removes the checkouts that no stored version of any environment names.
pub async fn gc_checkouts(
    store: &Store,
    data: &DataDir,
    in_use: &tokio::sync::RwLock<()>,
) -> Result<usize, store::Error> {
    let _alone = in_use.write().await;
    let trees = store.version_trees().await?;
    let keep: HashSet<_> = trees.iter().filter_map(|tree| tree.parse().ok()).collect();
    let all = data.checkouts();
    let removed = blocking(move || {
        if !all.is_dir() {
            return Ok(0);
        }
        // A version of this program of before kept them all in one folder.
        let mut n_removed = git::gc_checkouts(&all, &keep)?;
        for folder in folders(&all)
            .into_iter()
            .filter(|path| DataDir::may_be_of_environment(path))
        {
            n_removed += git::gc_checkouts(&folder, &keep)?;
        }
        Ok::<_, git::Error>(n_removed)
    })
    .await;
    Ok(removed.unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "cannot remove old checkouts");
        0
    }))
}

/// What Python code leaves in its own temporary folder is let lie this long.
const TEMPORARY: Duration = Duration::from_secs(24 * 3600);

/// Removes what is old of the folders that plugins may write to (their home and place for temporary files), and packages of
/// ours that servers of other versions have unpacked; gives how many entries that were. Blocks.
pub fn gc_python_runtimes(data: &DataDir, age: Duration) -> usize {
    let mut n_removed = 0;
    for home in folders(&data.scratch()) {
        for path in entries(&home) {
            let name = path.file_name().and_then(|name| name.to_str());
            let is_temporary = name.is_some_and(|name| name.starts_with("tmp"));
            let age = if is_temporary {
                age.min(TEMPORARY)
            } else {
                age
            };
            if is_older(&path, age) {
                n_removed += usize::from(remove(&path));
            }
        }
    }
    // One that is in use was touched when the server started, or has been there for longer than its hosts.
    let mut unpacked = folders(&data.runtime());
    unpacked.sort_by_cached_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
    unpacked.pop();
    for path in unpacked {
        if is_older(&path, age) {
            n_removed += usize::from(remove(&path));
        }
    }
    n_removed
}

/// Whether it is gone.
fn remove(path: &Path) -> bool {
    let removed = remove_tree(path);
    if let Err(error) = &removed {
        tracing::warn!(%error, "cannot remove {}, which nothing needs", path.display());
    }
    removed.is_ok()
}

/// What may be left over.
struct Unneeded {
    of_environments: Vec<PathBuf>,
    /// Old ones.
    of_sources: Vec<PathBuf>,
}

impl Unneeded {
    fn below(data: &DataDir, age: Duration) -> Self {
        let below = |folders: &[PathBuf]| -> Vec<PathBuf> {
            folders.iter().flat_map(|folder| entries(folder)).collect()
        };
        let of_environments = below(&data.by_environment()).into_iter();
        let of_environments = of_environments.filter(|path| DataDir::may_be_of_environment(path));
        let of_sources = below(&data.by_source()).into_iter();
        Self {
            of_environments: of_environments.collect(),
            of_sources: of_sources.filter(|path| is_older(path, age)).collect(),
        }
    }

    fn remove(self, names: &HashSet<String>, places: &HashSet<PathBuf>) -> usize {
        let of_none = self.of_environments.into_iter();
        let is_known = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| names.contains(name))
        };
        let of_none = of_none.filter(|path| !is_known(path));
        // The lock file of a source has its name, too.
        let is_of_none = |path: &PathBuf| !places.contains(&path.with_extension(""));
        let unused = self.of_sources.into_iter().filter(is_of_none);
        of_none.chain(unused).filter(|path| remove(path)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EnvironmentId, ProjectId};
    use crate::store::NewEnvironment;

    #[test]
    fn what_plugins_leave_in_their_home_goes_and_so_do_packages_of_other_servers() {
        let dir = tempfile::tempdir().unwrap();
        let data = &DataDir::new(dir.path());
        let home = data.scratch().join("one");
        let all = ["tmpabc", "older", ".cache", "../two/tmpx"];
        for name in all {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("/nowhere", home.join("tmplink")).unwrap();
        for name in ["python-1", "python-2"] {
            fs::create_dir_all(data.runtime().join(name)).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        gc_python_runtimes(data, Duration::from_secs(60));
        assert_eq!(entries(&home).len(), 4);
        assert_eq!(entries(&data.runtime()).len(), 2);
        gc_python_runtimes(data, Duration::ZERO);
        assert_eq!(entries(&home).len(), 0);
        assert_eq!(entries(&data.scratch().join("two")).len(), 0);
        assert_eq!(entries(&data.runtime()), [data.runtime().join("python-2")]);
    }

    #[tokio::test]
    async fn what_deleted_environments_leave_goes_and_what_others_have_stays() {
        let dir = tempfile::tempdir().unwrap();
        let data = &DataDir::new(dir.path());
        let store = Store::open_sqlite(&data.database()).await.unwrap();
        let project = ProjectId::generate();
        store.project_create(project, "p").await.unwrap();
        let (kept, deleted) = (EnvironmentId::generate(), EnvironmentId::generate());
        for (id, name) in [(kept, "kept"), (deleted, "deleted")] {
            let new = NewEnvironment {
                id,
                project_id: project,
                name: name.to_owned(),
                description: String::new(),
                icon: String::new(),
                variables: Default::default(),
                repo_url: format!("https://example.org/{name}.git"),
                repo_branch: String::new(),
            };
            store.environment_create(&new).await.unwrap();
            let by_environment = data.by_environment().into_iter();
            for folder in by_environment.filter(|folder| *folder != data.projects()) {
                fs::create_dir_all(folder.join(data.folder_name(id)).join("one")).unwrap();
            }
            fs::create_dir_all(data.projects()).unwrap();
            let link = data.projects().join(data.folder_name(id));
            std::os::unix::fs::symlink(data.checkouts(), link).unwrap();
            let source = Source::from_stored(&new.repo_url, &new.repo_branch, data).unwrap();
            let place = source.place(data);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.with_extension("lock"), "").unwrap();
        }
        fs::create_dir_all(data.checkouts().join("of nobody")).unwrap();
        let in_use = tokio::sync::RwLock::new(());
        let forget = |age| gc_environments(&store, data, &in_use, age);
        assert_eq!(forget(Duration::ZERO).await.unwrap(), 0);
        store.environment_delete(deleted).await.unwrap();
        assert_eq!(forget(Duration::from_secs(3600)).await.unwrap(), 7);
        for folder in data.by_environment() {
            let is_there = |id| fs::symlink_metadata(folder.join(data.folder_name(id))).is_ok();
            assert!(is_there(kept) && !is_there(deleted), "{folder:?}");
        }
        assert_eq!(entries(&data.mirrors()).len(), 4);
        assert_eq!(forget(Duration::ZERO).await.unwrap(), 2);
        assert_eq!(entries(&data.mirrors()).len(), 2);
        assert!(data.checkouts().join("of nobody").exists());
    }
}
