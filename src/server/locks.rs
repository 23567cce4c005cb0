//! The data directory and the database: who may use them, and who may read what is in the directory.
//!
//! It holds checkouts, outputs and the database, so all in it is for the server's user only: what processes of the server make
//! there (see `process::keep_private`), and what older versions left.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;

use super::Error;
use crate::config::{Config, Database};
use crate::domain::DataDir;
use crate::store::Store;

fn fail(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::Data {
        path: path.clone(),
        source,
    }
}

/// What would keep a server with this configuration from starting, as far as it can be known without writing anything:
/// `serve --check` asks this, and the start of a server, too.
///
/// # Errors
/// What does not fit.
pub fn check(config: &Config) -> Result<(), Error> {
    let data = config.data.path();
    match fs::metadata(data) {
        Ok(metadata) if !metadata.is_dir() => {
            return Err(fail(data)(io::ErrorKind::NotADirectory.into()));
        }
        Ok(_) => {
            let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::access(data, all).map_err(|error| fail(data)(error.into()))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_parent(data)?,
        Err(error) => return Err(fail(data)(error)),
    }
    let is_sqlite = config.database == Database::Sqlite;
    let database = is_sqlite.then(|| config.data.database());
    let files = [config.data.lock(), config.data.digest_key()].into_iter();
    for file in files.chain(database) {
        match fs::metadata(&file) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(fail(&file)(io::Error::other("it is no plain file")));
            }
            Ok(_) => rustix::fs::access(&file, Access::READ_OK | Access::WRITE_OK)
                .map_err(|error| fail(&file)(error.into()))?,
            // What is not there will be made.
            Err(_) => {}
        }
    }
    if let Database::Postgres(url) = &config.database {
        Store::check_postgres(url)?;
    }
    Ok(())
}

/// What else would: the database as it is now. Waits for PostgreSQL as the start of a server does.
///
/// # Errors
/// It does not answer, is none, or has a schema that this version of Steward does not know.
pub async fn check_database(config: &Config) -> Result<(), Error> {
    match &config.database {
        Database::Sqlite => Store::probe_sqlite(&config.data.database()).await?,
        Database::Postgres(url) => Store::probe_postgres(url).await?,
    }
    Ok(())
}

/// Whether a directory that is not there can be made.
fn check_parent(data: &Path) -> Result<(), Error> {
    let absolute = std::path::absolute(data).map_err(fail(data))?;
    let parent = absolute.ancestors().skip(1).find(|parent| parent.exists());
    let parent = parent.unwrap_or(Path::new("/"));
    if !parent.is_dir() {
        return Err(fail(parent)(io::ErrorKind::NotADirectory.into()));
    }
    rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| fail(parent)(error.into()))
}

/// Makes it, if it is not there; gives its real path.
pub(super) fn prepare(data: &DataDir) -> Result<DataDir, Error> {
    let path = data.path();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(fail(path))?;
    fs::canonicalize(path).map(DataDir::new).map_err(fail(path))
}

/// One server a data directory. The lock goes with the process, however that ends.
pub(super) fn lock(data: &DataDir) -> Result<File, Error> {
    let path = data.lock();
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(fail(&path))?;
    // One that was just killed may take a moment to be gone.
    for _ in 0..20 {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => return Err(fail(&path)(error.into())),
        }
    }
    Err(Error::Busy(data.path().display().to_string()))
}

/// The lock of a data directory that nobody uses just now.
pub(super) fn try_lock(data: &DataDir) -> Option<File> {
    let file = fs::OpenOptions::new().write(true).open(data.lock()).ok()?;
    let locked = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    locked.is_ok().then_some(file)
}

/// The key that digests of secrets are made with: random, of this data directory, and not in the database. With another one
/// all that has secrets is compiled once more.
pub(super) fn digest_key(data: &DataDir) -> Result<[u8; 32], Error> {
    let path = data.digest_key();
    if let Ok(Ok(key)) = fs::read(&path).map(<[u8; 32]>::try_from) {
        return Ok(key);
    }
    let key: [u8; 32] = rand::random();
    let write = || {
        // For nobody else from its first moment on.
        let fresh = tempfile::NamedTempFile::new_in(data.path())?;
        fs::write(fresh.path(), key)?;
        fresh.persist(&path)?;
        Ok(())
    };
    write().map_err(fail(&path)).map(|()| key)
}

/// Takes from others what older versions let them read. What lies deep is looked at once, beside the start. Who gave a
/// directory with other things in it keeps these, and the directory, as they are.
pub(super) fn mend(data: &DataDir) {
    let is_own = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| DataDir::OLD_ENTRIES.contains(&name))
    };
    let (own, foreign): (Vec<PathBuf>, Vec<PathBuf>) =
        entries(data.path()).into_iter().partition(is_own);
    if foreign.is_empty() {
        close(data.path());
    }
    let folders: Vec<PathBuf> = own.into_iter().filter(|entry| close(entry)).collect();
    let marker = data.private_mark();
    if marker.exists() {
        return;
    }
    tokio::task::spawn_blocking(move || {
        close_below(folders);
        if let Err(error) = File::create(&marker) {
            tracing::warn!(%error, "cannot note that the data directory is private");
        }
    });
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn close_below(mut folders: Vec<PathBuf>) {
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder) {
            if close(&entry) {
                folders.push(entry);
            }
        }
    }
}

/// Takes all rights of others from a file or folder; whether it is a folder. A symlink has none of its own, and what has a
/// second name may be somebody else's, too.
fn close(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    let is_ours = metadata.is_dir() || (metadata.is_file() && metadata.nlink() == 1);
    if is_ours && metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o7700;
        // Whoever ran the server before may have been another user; then it cannot be mended, and is not needed.
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    }
    metadata.is_dir()
}

/// How long the start of a server waits for the database.
const PATIENCE: Duration = Duration::from_secs(30);

/// One server a database. The one before may be about to end, as in a restart on another machine.
pub(super) async fn hold_database(store: &Store) -> Result<(), Error> {
    for n_tries in 0..PATIENCE.as_secs() {
        if store.acquire_single_server_lock().await? {
            return Ok(());
        }
        if n_tries == 0 {
            tracing::info!(
                "another server uses the database; it is waited for up to {PATIENCE:?}, as one that was just stopped"
            );
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(Error::DatabaseBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    /// Input: a data directory of an older version, with files of mode 0644 (docs/reference/security.md § 4.19). Answer: others lose their rights; links and what they lead to stay as they are.
    #[tokio::test]
    async fn what_older_versions_left_open_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let outside = dir.path().join("outside");
        fs::create_dir_all(data.join("python/bin")).unwrap();
        for (path, mode) in [
            (outside.clone(), 0o644),
            (data.join("steward.db"), 0o644),
            (data.join("python/bin/tool"), 0o755),
        ] {
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, data.join("python/link")).unwrap();
        fs::hard_link(&outside, data.join("python/hard")).unwrap();
        let layout = DataDir::new(&data);
        mend(&layout);
        for _ in 0..1000 {
            if layout.private_mark().exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(mode(&data), 0o700);
        assert_eq!(mode(&data.join("steward.db")), 0o600);
        assert_eq!(mode(&data.join("python/bin/tool")), 0o700);
        assert_eq!(mode(&outside), 0o644);
    }

    #[tokio::test]
    async fn a_directory_that_holds_other_things_too_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        let other = data.join("other");
        for path in [&other, &data.join("steward.db")] {
            fs::write(path, "x").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(data, fs::Permissions::from_mode(0o755)).unwrap();
        mend(&DataDir::new(data));
        assert_eq!((mode(data), mode(&other)), (0o755, 0o644));
        assert_eq!(mode(&data.join("steward.db")), 0o600);
    }

    #[test]
    fn the_key_of_digests_stays_the_same_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::new(dir.path());
        let key = digest_key(&data).unwrap();
        assert_eq!(digest_key(&data).unwrap(), key);
        assert_eq!(mode(&data.digest_key()), 0o600);
        fs::write(data.digest_key(), "short").unwrap();
        assert_ne!(digest_key(&data).unwrap(), key);
    }
}
