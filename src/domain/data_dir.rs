//! The names of the folders that an environment has in the data directory.
//!
//! Code of one environment's repository could name the folders of another if it knew what they are called; so they are
//! called after the environment's id and a key that only the server can read. The sandbox hides these folders anyway: this
//! is for the day on which it does not.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::EnvironmentId;

/// The name of the key's file below the data directory.
const KEY_FILE: &str = "folder.key";
const KEY_BYTES: usize = 32;
/// Half of a digest, in hexadecimal.
const NAME_CHARACTERS: usize = 32;

/// What the folders of an environment are called, the same at all times. The key is made when it is not there.
///
/// # Errors
/// The key cannot be read or written.
pub fn environment_folder(data: &Path, environment: EnvironmentId) -> io::Result<String> {
    let key = key(data)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(io::Error::other)?;
    mac.update(environment.to_string().as_bytes());
    let mut name = hex::encode(mac.finalize().into_bytes());
    name.truncate(NAME_CHARACTERS);
    Ok(name)
}

fn key(data: &Path) -> io::Result<Vec<u8>> {
    let path = data.join(KEY_FILE);
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
        let name = |dir: &tempfile::TempDir| environment_folder(dir.path(), environment).unwrap();
        assert_eq!(name(&dir), name(&dir));
        assert_ne!(name(&dir), name(&other));
        assert_eq!(name(&dir).len(), NAME_CHARACTERS);
        let mode = fs::metadata(dir.path().join(KEY_FILE)).unwrap();
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        fs::write(dir.path().join(KEY_FILE), "short").unwrap();
        assert!(environment_folder(dir.path(), environment).is_err());
    }
}
