//! The layout of the data directory: each path below it is made here, and nowhere else.
//!
//! ```text
//! lock                      held by the server that runs on the directory
//! steward.db                the database, if it is SQLite
//! digest.key, folder.key    what digests of secrets and names of folders are made with
//! private                   a mark: what older versions let others read is closed
//! mirrors/                  bare repositories of remotes, by URL
//! folders/                  repositories of our own for plain folders, by path
//! checkouts/ENVIRONMENT/    files of commits, by content
//! projects/ENVIRONMENT      a link to the checkout that is compiled, which has the same name for all commits
//! files/                    the file store
//! code/                     Python code of versions as executors import it, by content
//! runtime/                  our Python package, unpacked
//! python/environments/ENVIRONMENT/   virtual environments
//! python/packages/ENVIRONMENT/       caches of pip
//! python/builds/            virtual environments that are being made
//! python/answers/ENVIRONMENT/        what Python code declared and gave in earlier compiles; it can not write there
//! python/scratch/ENVIRONMENT/        what plugins may write to
//! python/validations/ENVIRONMENT/1/  what plugins may write to while an instance is validated
//! ```
//!
//! Code of one environment's repository could name the folders of another if it knew what they are called; so they are
//! called after the environment's id and a key that only the server can read. The sandbox hides these folders anyway: this
//! is for the day on which it does not.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::EnvironmentId;

const KEY_BYTES: usize = 32;
/// Half of a digest, in hexadecimal.
const NAME_CHARACTERS: usize = 32;

const LOCK: &str = "lock";
const DATABASE: &str = "steward.db";
const DIGEST_KEY: &str = "digest.key";
const FOLDER_KEY: &str = "folder.key";
const PRIVATE: &str = "private";
const MIRRORS: &str = "mirrors";
const FOLDERS: &str = "folders";
const CHECKOUTS: &str = "checkouts";
const PROJECTS: &str = "projects";
const FILES: &str = "files";
const CODE: &str = "code";
const RUNTIME: &str = "runtime";
const PYTHON: &str = "python";

/// The directory that a server keeps everything in that is not in a PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// What versions without the mark [`DataDir::private_mark`] have made in the directory.
    pub const OLD_ENTRIES: &[&str] = &[
        CHECKOUTS,
        CODE,
        DIGEST_KEY,
        FILES,
        FOLDERS,
        LOCK,
        MIRRORS,
        PROJECTS,
        PYTHON,
        RUNTIME,
        DATABASE,
        "steward.db-shm",
        "steward.db-wal",
    ];

    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// By its path without links, if that can be known.
    pub fn real(&self) -> Self {
        Self(fs::canonicalize(&self.0).unwrap_or_else(|_| self.0.clone()))
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    pub fn database(&self) -> PathBuf {
        self.0.join(DATABASE)
    }

    pub fn digest_key(&self) -> PathBuf {
        self.0.join(DIGEST_KEY)
    }

    /// There when all that older versions left open to others is closed.
    pub fn private_mark(&self) -> PathBuf {
        self.0.join(PRIVATE)
    }

    /// Of remote repositories.
    pub fn mirrors(&self) -> PathBuf {
        self.0.join(MIRRORS)
    }

    /// The repositories of plain folders.
    pub fn folder_repositories(&self) -> PathBuf {
        self.0.join(FOLDERS)
    }

    /// Of all environments, each in a folder of its own.
    pub fn checkouts(&self) -> PathBuf {
        self.0.join(CHECKOUTS)
    }

    /// What an environment's repositories hold is none of the others' business: its plugins can read this, and not theirs.
    pub fn checkouts_of(&self, environment: EnvironmentId) -> PathBuf {
        self.checkouts().join(self.folder_name(environment))
    }

    /// Links to checkouts, one an environment.
    pub fn projects(&self) -> PathBuf {
        self.0.join(PROJECTS)
    }

    /// The file store.
    pub fn files(&self) -> PathBuf {
        self.0.join(FILES)
    }

    /// What executors have laid out of the code of versions.
    pub fn code(&self) -> PathBuf {
        self.0.join(CODE)
    }

    /// The same for an executor, which is told where the file store is and nothing else.
    pub fn code_beside(file_store: &Path) -> PathBuf {
        file_store.with_file_name(CODE)
    }

    /// Our Python packages, one for each version of this program that ran.
    pub fn runtime(&self) -> PathBuf {
        self.0.join(RUNTIME)
    }

    /// The folders that plugins may write to, one an environment.
    pub fn scratch(&self) -> PathBuf {
        self.0.join(PYTHON).join("scratch")
    }

    pub fn scratch_of(&self, environment: EnvironmentId) -> PathBuf {
        self.scratch().join(self.folder_name(environment))
    }

    /// What plugins may write to while they validate, in a folder for each of our environments.
    pub fn validations(&self) -> PathBuf {
        self.0.join(PYTHON).join("validations")
    }

    /// What the plugins of the validation with this number may write to. Validations have folders of their own, since one
    /// that ends empties its folder.
    pub fn validation_of(&self, environment: EnvironmentId, number: usize) -> PathBuf {
        let folder = self.validations().join(self.folder_name(environment));
        folder.join(number.to_string())
    }

    /// What Python code declared and gave in earlier compiles, in a folder for each environment.
    pub fn answers(&self) -> PathBuf {
        self.0.join(PYTHON).join("answers")
    }

    pub fn answers_of(&self, environment: EnvironmentId) -> PathBuf {
        self.answers().join(self.folder_name(environment))
    }

    /// Virtual environments, in a folder for each of our environments.
    pub fn venvs(&self) -> PathBuf {
        self.0.join(PYTHON).join("environments")
    }

    /// The caches of pip, one for each of our environments.
    pub fn package_caches(&self) -> PathBuf {
        self.0.join(PYTHON).join("packages")
    }

    /// Virtual environments that are being made.
    pub fn builds(&self) -> PathBuf {
        self.0.join(PYTHON).join("builds")
    }

    /// Folders with an entry for each environment, by [`DataDir::folder_name`]; those of older servers by its id.
    pub fn by_environment(&self) -> [PathBuf; 7] {
        [
            self.checkouts(),
            self.projects(),
            self.answers(),
            self.scratch(),
            self.validations(),
            self.venvs(),
            self.package_caches(),
        ]
    }

    /// Folders with an entry for each source, and a lock file beside it.
    pub fn by_source(&self) -> [PathBuf; 2] {
        [self.mirrors(), self.folder_repositories()]
    }

    /// What the folders of an environment are called, the same at all times.
    pub fn folder_name(&self, environment: EnvironmentId) -> String {
        self.keyed_name(environment).unwrap_or_else(|error| {
            tracing::error!(%error, "the folders of environments have names that can be guessed: there is no key for better ones");
            environment.to_string()
        })
    }

    /// The key is made when it is not there; the error is that it cannot be read or written.
    fn keyed_name(&self, environment: EnvironmentId) -> io::Result<String> {
        let key = key(&self.0)?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(io::Error::other)?;
        mac.update(environment.to_string().as_bytes());
        let mut name = hex::encode(mac.finalize().into_bytes());
        name.truncate(NAME_CHARACTERS);
        Ok(name)
    }

    /// Whether a path may be that of an environment's folder, by its name.
    pub fn may_be_of_environment(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            let is_digest =
                name.len() == NAME_CHARACTERS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_digest || name.parse::<EnvironmentId>().is_ok()
        })
    }
}

fn key(data: &Path) -> io::Result<Vec<u8>> {
    let path = data.join(FOLDER_KEY);
    let read = || -> io::Result<Vec<u8>> {
        let key = fs::read(&path)?;
        if key.len() == KEY_BYTES {
            return Ok(key);
        }
        let message = format!(
            "{} is no key: remove it, and a new one is made",
            path.display()
        );
        Err(io::Error::other(message))
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        known => return known,
    }
    fs::create_dir_all(data)?;
    let mut file = tempfile::Builder::new().prefix(".key-").tempfile_in(data)?;
    file.write_all(&rand::random::<[u8; KEY_BYTES]>())?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(&path) {
        Ok(_) => read(),
        // Somebody else was faster.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read(),
        Err(error) => Err(error.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_keep_their_names_and_nobody_without_the_key_knows_them() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let environment = EnvironmentId::generate();
        let name =
            |dir: &tempfile::TempDir| DataDir::new(dir.path()).keyed_name(environment).unwrap();
        assert_eq!(name(&dir), name(&dir));
        assert_ne!(name(&dir), name(&other));
        assert_eq!(name(&dir).len(), NAME_CHARACTERS);
        let mode = fs::metadata(dir.path().join(FOLDER_KEY)).unwrap();
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        fs::write(dir.path().join(FOLDER_KEY), "short").unwrap();
        assert!(DataDir::new(dir.path()).keyed_name(environment).is_err());
    }
}
