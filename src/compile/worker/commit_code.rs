//! The code that a commit has, as one digest, without which nothing is kept of its Python code for other commits.
//!
//! What the modules of a project declare, what their plugins gave, and the processes that have imported them are kept from
//! commit to commit (`compiler/src/python_host`). For that it has to be known what the import depended on. Python modules are
//! read by the worker, so of these it is sure; of everything else Python itself has told it. But the code of a commit runs in
//! that Python and can have it say anything: that a file was never read, in which the code was that is now in the process, or
//! that an answer is the one for ever. Then somebody takes the commit back, and what it said would go on.
//!
//! So nothing is kept from one commit to another that has other code: any file in the repository that Python runs or loads, by
//! the end of its name, wherever it lies and whoever imports it. A file that is called otherwise is data. Code that runs data
//! has them as its code, and is trusted with saying that it has read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use steward_compiler::AnswerStore;

use crate::files::KeptAnswers;

/// Ends of the names of what Python runs or loads, archives of it, and objects that are code when they are read.
const CODE: [&str; 12] = [
    "py", "pyc", "pyo", "pyw", "pyd", "so", "pth", "egg", "whl", "zip", "pickle", "pkl",
];
/// Of a repository with more than that nothing is kept.
const MAX_ENTRIES: usize = 500_000;
const MAX_BYTES: u64 = 256 << 20;

/// The digest; `None`: there is too much of it, or it cannot be read.
pub(super) fn digest(project: &Path) -> Option<String> {
    let mut found = Vec::new();
    collect(project, &mut found)?;
    // In one order on every disk.
    found.sort();
    let mut hasher = Sha256::new();
    let mut left = MAX_BYTES;
    for name in found {
        let path = project.join(&name);
        let content = match fs::read_link(&path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) => {
                let file = steward_compiler::plain_file::open(&path).ok()?;
                let mut content = Vec::new();
                std::io::Read::read_to_end(&mut std::io::Read::take(file, left), &mut content)
                    .ok()?;
                left = left
                    .checked_sub(content.len() as u64)
                    .filter(|left| *left > 0)?;
                content
            }
        };
        steward_compiler::add_part(&mut hasher, name.as_os_str().as_encoded_bytes());
        steward_compiler::add_part(&mut hasher, content);
    }
    Some(hex::encode(hasher.finalize()))
}

/// The names of files and links with code below a folder. Links are not followed: what they lead to is found by itself.
fn collect(project: &Path, found: &mut Vec<PathBuf>) -> Option<()> {
    let mut n_entries = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(project.join(&folder)).ok()? {
            let entry = entry.ok()?;
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                return None;
            }
            let name = folder.join(entry.file_name());
            let kind = entry.file_type().ok()?;
            if kind.is_dir() {
                folders.push(name);
            } else if is_code(&name) || kind.is_symlink() {
                found.push(name);
            }
        }
    }
    Some(())
}

fn is_code(name: &Path) -> bool {
    let end = name.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| CODE.iter().any(|code| code.eq_ignore_ascii_case(end)))
}

/// Answers of the commits that have the same code.
#[derive(Debug)]
struct OfCode {
    store: KeptAnswers,
    code: String,
}

/// The answers in `store` that are those of commits with this code.
pub(super) fn answers(store: KeptAnswers, code: String) -> Arc<dyn AnswerStore> {
    Arc::new(OfCode { store, code })
}

impl OfCode {
    fn name(&self, digest: &str) -> String {
        hex::encode(Sha256::digest(format!("{} {digest}", self.code)))
    }
}

impl AnswerStore for OfCode {
    fn get(&self, digest: &str) -> Option<Vec<u8>> {
        AnswerStore::get(&self.store, &self.name(digest))
    }

    fn put(&self, digest: &str, answer: &[u8]) {
        AnswerStore::put(&self.store, &self.name(digest), answer);
    }

    fn remove(&self, digest: &str) {
        AnswerStore::remove(&self.store, &self.name(digest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_data_by_the_end_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let digest = || digest(dir.path()).unwrap();
        write("main.cf", "import a");
        let mut seen = vec![digest()];
        write("main.cf", "import b");
        write("sites.yml", "a: 1");
        write("libs/a/files/motd", "hello");
        assert_eq!(digest(), seen[0], "models and data may change");
        for (name, text) in [
            ("lib/helper.py", "1"),
            ("lib/helper.py", "2"),
            ("lib/other.py", "2"),
            ("lib/fast.SO", "1"),
            ("setup/x.pth", "1"),
            ("libs/a/plugins/__pycache__/a.cpython-311.pyc", "1"),
        ] {
            write(name, text);
            let now = digest();
            assert!(!seen.contains(&now), "{name}");
            seen.push(now);
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("lib", &link).unwrap();
        assert!(!seen.contains(&digest()), "a link to a folder with code");
        fs::remove_file(&link).unwrap();
        assert_eq!(&digest(), seen.last().unwrap());
        assert_eq!(super::digest(&dir.path().join("gone")), None);
    }

    #[test]
    fn answers_of_commits_with_other_code_are_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let of = |code: &str| answers(KeptAnswers::new(dir.path().to_owned(), 10), code.to_owned());
        of("one").put("ab", b"yes");
        assert_eq!(of("one").get("ab").unwrap(), b"yes");
        assert_eq!(of("other").get("ab"), None);
        of("other").remove("ab");
        assert!(of("one").get("ab").is_some());
        of("one").remove("ab");
        assert_eq!(of("one").get("ab"), None);
    }
}
