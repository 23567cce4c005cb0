//! Answers that take long to find, kept on disk between commands by the digest of all that they depend on.
//!
//! Whoever keeps an answer makes the digest, so a kept answer is either that of the same question or not found. A file that is
//! damaged is not found either: it begins with the digest of what follows. Nothing here fails: without a kept answer the
//! question is asked again.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::{entries, make_private, touch};

/// A longer answer is not kept, and a longer file is none of ours. The calls of the largest compile take 40 MiB.
const MAX_BYTES: usize = 64 << 20;
/// Of SHA-256.
const DIGEST_BYTES: usize = 32;
/// A writer that was killed leaves its file behind; after this time nobody writes it any more.
const ABANDONED: std::time::Duration = std::time::Duration::from_secs(3600);

/// A folder of answers, each in a file that only its owner may read.
#[derive(Debug, Clone)]
pub struct KeptAnswers {
    folder: PathBuf,
    /// The answer that was used longest ago goes first.
    max_count: usize,
}

impl KeptAnswers {
    /// The folder is made when the first answer comes.
    pub fn new(folder: PathBuf, max_count: usize) -> Self {
        Self { folder, max_count }
    }

    /// The answer to the question of this digest (a name of lower-case hexadecimal digits); `None`: there is none that can be
    /// used.
    pub fn get(&self, digest: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(digest);
        let file = steward_compiler::plain_file::open(&path).ok()?;
        let mut bytes = Vec::new();
        let limit = (DIGEST_BYTES + MAX_BYTES) as u64;
        file.take(limit + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > limit || bytes.len() < DIGEST_BYTES {
            return None;
        }
        let answer = bytes.split_off(DIGEST_BYTES);
        if Sha256::digest(&answer)[..] != bytes[..] {
            return None;
        }
        // It is in use, so it does not go first.
        let _ = touch(&path);
        Some(answer)
    }

    /// Keeps an answer, in the place of an earlier one.
    ///
    /// # Errors
    /// It is too long, or the disk refuses.
    pub fn put(&self, digest: &str, answer: &[u8]) -> io::Result<()> {
        if answer.len() > MAX_BYTES {
            return Err(io::Error::other("the answer is too long to be kept"));
        }
        make_private(&self.folder)?;
        // Its mode is 0600. Who reads sees the whole file or none.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&Sha256::digest(answer))?;
        file.write_all(answer)?;
        file.persist(self.folder.join(digest))?;
        self.remove_oldest();
        Ok(())
    }

    /// Forgets an answer that turned out to be wrong.
    pub fn remove(&self, digest: &str) {
        let _ = fs::remove_file(self.folder.join(digest));
    }

    fn remove_oldest(&self) {
        let used = |path: &Path| {
            let metadata = fs::metadata(path).and_then(|metadata| metadata.modified());
            metadata.unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let is_temporary = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(b".")
        };
        let (temporary, mut kept): (Vec<_>, Vec<_>) = entries(&self.folder)
            .into_iter()
            .partition(|path| is_temporary(path));
        kept.sort_by_cached_key(|path| std::cmp::Reverse(used(path)));
        let old = kept.into_iter().skip(self.max_count);
        let abandoned = temporary
            .into_iter()
            .filter(|path| super::is_older(path, ABANDONED));
        for path in old.chain(abandoned) {
            // Another command may have been faster.
            let _ = fs::remove_file(path);
        }
    }
}

/// What Python code of projects declared and gave, kept between compiles.
impl steward_compiler::AnswerStore for KeptAnswers {
    fn get(&self, digest: &str) -> Option<Vec<u8>> {
        KeptAnswers::get(self, digest)
    }

    fn put(&self, digest: &str, answer: &[u8]) {
        if let Err(error) = KeptAnswers::put(self, digest, answer) {
            tracing::debug!(%error, "cannot keep what Python modules declare");
        }
    }

    fn remove(&self, digest: &str) {
        KeptAnswers::remove(self, digest);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn answers(max_count: usize) -> (tempfile::TempDir, KeptAnswers) {
        let folder = tempfile::tempdir().unwrap();
        let answers = KeptAnswers::new(folder.path().join("a/b"), max_count);
        (folder, answers)
    }

    #[test]
    fn an_answer_is_found_again_and_only_its_owner_may_read_it() {
        let (_folder, answers) = answers(10);
        assert_eq!(answers.get("ab"), None);
        answers.put("ab", b"yes").unwrap();
        answers.put("ab", b"no").unwrap();
        answers.put("cd", b"").unwrap();
        assert_eq!(answers.get("ab").unwrap(), b"no");
        assert_eq!(answers.get("cd").unwrap(), b"");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&answers.folder), 0o700);
        assert_eq!(mode(&answers.folder.join("ab")), 0o600);
        answers.remove("ab");
        assert_eq!(answers.get("ab"), None);
    }

    #[test]
    fn a_damaged_file_is_no_answer() {
        let (_folder, answers) = answers(10);
        answers.put("ab", b"a long answer").unwrap();
        let path = answers.folder.join("ab");
        let good = fs::read(&path).unwrap();
        let mut changed = good.clone();
        *changed.last_mut().unwrap() ^= 1;
        for damaged in [&good[..good.len() - 1], &good[..10], b"", &changed] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(answers.get("ab"), None);
        }
        fs::write(&path, good).unwrap();
        assert_eq!(answers.get("ab").unwrap(), b"a long answer");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(answers.get("ab"), None);
    }

    /// Given: as many calls as a compile keeps (a million places of 24 bytes, and 38 MiB of results), and more than that.
    #[test]
    fn the_calls_of_a_large_compile_are_kept_and_what_is_longer_is_refused() {
        let (_folder, answers) = answers(2);
        let calls = vec![7; (24 << 20) + (38 << 20) + (1 << 20)];
        answers.put("aa", &calls).unwrap();
        assert!(answers.get("aa").unwrap() == calls);
        let error = answers.put("aa", &vec![7; MAX_BYTES + 1]).unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
        assert!(answers.get("aa").is_some(), "what was there stays");
    }

    #[test]
    fn the_answers_used_longest_ago_go_first() {
        let (_folder, answers) = answers(2);
        let age = |name: &str, seconds| {
            let file = fs::File::open(answers.folder.join(name)).unwrap();
            let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(then).unwrap();
        };
        answers.put("aa", b"1").unwrap();
        answers.put("bb", b"2").unwrap();
        age("aa", 100);
        age("bb", 200);
        assert!(answers.get("aa").is_some(), "which is a use of it");
        answers.put("cc", b"3").unwrap();
        assert_eq!(answers.get("bb"), None);
        assert!(answers.get("aa").is_some() && answers.get("cc").is_some());
    }
}
