//! The digests of an installed package's files in its metadata, and whether they still hold. Source: the packaging specification
//! "Recording installed projects".

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use steward_compiler::plain_file;

/// The record of the largest packages has some hundred thousand lines.
const RECORD_BYTES: u64 = 64 << 20;
/// How many files of one package are named at most.
const MAX_NAMED_FILES: usize = 5;

/// Files that are gone, or have another content than `RECORD` of the package's metadata says, as it names them. Bytecode does
/// not count; a package without a record has none.
pub(super) fn changed(metadata: &Path) -> Vec<String> {
    let (Ok(record), Some(packages)) = (
        plain_file::read_text(&metadata.join("RECORD"), RECORD_BYTES),
        metadata.parent(),
    ) else {
        return Vec::new();
    };
    let is_changed = |(file, digest): &(String, &str)| {
        let now = digest_of(&packages.join(file));
        now.map_or(true, |now| URL_SAFE_NO_PAD.encode(now) != *digest)
    };
    let files = record
        .lines()
        .filter_map(entry)
        .filter(|(file, _)| !file.ends_with(".pyc"));
    let changed = files.filter(is_changed).map(|(file, _)| file);
    changed.take(MAX_NAMED_FILES).collect()
}

/// The SHA-256 of a plain file.
fn digest_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut hasher = Sha256::new();
    io::copy(&mut plain_file::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().to_vec())
}

/// A line `FILE,sha256=DIGEST,SIZE`; the name is quoted if it has a comma.
fn entry(line: &str) -> Option<(String, &str)> {
    let mut parts = line.rsplitn(3, ',');
    let (_, digest, file) = (parts.next()?, parts.next()?, parts.next()?);
    let file = match file
        .strip_prefix('"')
        .and_then(|file| file.strip_suffix('"'))
    {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => file.to_owned(),
    };
    Some((file, digest.strip_prefix("sha256=")?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_changed_or_removed_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let metadata = dir.path().join("m-1.dist-info");
        fs::create_dir_all(&metadata).unwrap();
        let line = |name: &str, content: &str| {
            let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
            format!("{name},sha256={digest},{}\n", content.len())
        };
        let record = line("a.py", "a = 1")
            + &line("\"b,\"\"c.py\"", "b = 1")
            + &line("d.pyc", "")
            + "RECORD,,\n";
        fs::write(metadata.join("RECORD"), record).unwrap();
        fs::write(dir.path().join("a.py"), "a = 1").unwrap();
        fs::write(dir.path().join("b,\"c.py"), "b = 1").unwrap();
        assert_eq!(changed(&metadata), [""; 0]);
        fs::write(dir.path().join("a.py"), "a = 2").unwrap();
        fs::remove_file(dir.path().join("b,\"c.py")).unwrap();
        assert_eq!(changed(&metadata), ["a.py", "b,\"c.py"]);
    }
}
