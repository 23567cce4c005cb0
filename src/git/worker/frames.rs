//! What the server and a git worker say to each other: first the sandbox, then one job, each with one reply.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::git::error::Error;
use crate::git::mirror::FetchOptions;
use crate::git::repository::{CommitId, CommitInfo, TreeId};
use crate::git::transport::{Credentials, Login};
use crate::sandbox::{SandboxPolicy, SandboxSupport};

/// A job names a few paths and a token; an answer is one commit, or one error.
pub(super) const MAX_FRAME_BYTES: u32 = 1 << 20;

/// What the server asks of a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The first request: enter this sandbox, for good.
    Enter(Box<SandboxPolicy>),
    /// The second and last one.
    Work(Box<Job>),
}

/// What a worker answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Entered(Result<SandboxSupport, String>),
    Fetched(Result<CommitInfo, Error>),
    CheckedOut(Result<TreeId, Error>),
}

/// One thing to do with the mirror of a repository.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// The folder of all mirrors.
    pub(super) mirrors: PathBuf,
    pub(super) url: String,
    /// The environment that it is for, as the log names it.
    pub(super) environment: String,
    pub(super) task: Task,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    Fetch {
        branch: Option<String>,
        credentials: Shown,
        options: Box<FetchOptions>,
        /// What is done with a commit that is new, in the same process.
        ahead: Ahead,
    },
    /// Lays a commit out below this folder.
    CheckOut { commit: CommitId, dir: PathBuf },
}

/// Laying a commit out ahead of the one who will ask for it: mostly that is the next thing, and would start another process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ahead {
    /// The folder of the environment's checkouts.
    pub(super) dir: PathBuf,
    /// The commit that was fetched last, which was laid out then, if it could be.
    pub(super) known: Option<CommitId>,
}

/// Credentials on their way to the worker: this pipe is the only place where they are written as data. Never printed.
#[derive(Serialize, Deserialize)]
pub(super) struct Shown {
    login: Option<(String, String)>,
    ssh_key: Option<PathBuf>,
    known_hosts: Option<PathBuf>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl From<&Credentials> for Shown {
    fn from(credentials: &Credentials) -> Shown {
        let login = credentials.login.as_ref();
        Shown {
            login: login.map(|login| (login.user.clone(), login.token.clone())),
            ssh_key: credentials.ssh_key.clone(),
            known_hosts: credentials.known_hosts.clone(),
        }
    }
}

impl From<Shown> for Credentials {
    fn from(shown: Shown) -> Credentials {
        Credentials {
            login: shown.login.map(|(user, token)| Login { user, token }),
            ssh_key: shown.ssh_key,
            known_hosts: shown.known_hosts,
        }
    }
}

/// For fuzzing: bytes as requests to a git worker and its replies.
pub fn read_any_frame(bytes: &[u8]) {
    let _ = steward_compiler::protocol::decode::<Request>(bytes);
    let _ = steward_compiler::protocol::decode::<Reply>(bytes);
}

#[cfg(test)]
mod tests {
    use std::io;

    use steward_compiler::protocol::{read_frame, write_frame};

    use super::*;

    fn sent(error: Error) -> Error {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &Reply::Fetched(Err(error))).unwrap();
        match read_frame(&mut bytes.as_slice()).unwrap() {
            Some(Reply::Fetched(Err(error))) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_error_is_the_same_behind_the_frame() {
        let missing = Error::CommitMissing {
            commit: "0123456789012345678901234567890123456789".parse().unwrap(),
        };
        let system = Error::io("open the lock", "/a")(io::Error::from_raw_os_error(13));
        let full = Error::io("write", "/a")(io::ErrorKind::StorageFull.into());
        let own = Error::io("write", "/a")(io::Error::other("of ours"));
        for error in [missing, system, own] {
            let shown = crate::domain::chain(&error);
            let is_transient = error.is_transient();
            let behind = sent(error);
            assert_eq!(crate::domain::chain(&behind), shown);
            assert_eq!(behind.is_transient(), is_transient);
        }
        let Error::Io { source, .. } = sent(full) else {
            panic!("it is of another kind");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn credentials_are_the_same_behind_the_frame_and_never_printed() {
        let credentials = Credentials {
            login: Some(Login {
                user: "u".to_owned(),
                token: "canary".to_owned(),
            }),
            ssh_key: Some("/key".into()),
            known_hosts: None,
        };
        let shown = Shown::from(&credentials);
        assert!(!format!("{shown:?}").contains("canary"));
        assert_eq!(Credentials::from(shown), credentials);
    }
}
