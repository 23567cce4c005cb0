//! How bytes reach a remote: http and https through `ureq`, ssh through the system's `ssh`.
//!
//! libgit2 knows one transport of ours, [`SCHEME`], and never sees the address of the remote; so none of its
//! own network code runs, and none of its messages can repeat an address. What a fetch needs travels in a
//! [`Session`] that is put into a thread-local for the time of the fetch, because libgit2 gives the factory of
//! a transport nothing else. A transport that fails leaves the typed [`Error`] in the session.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::Error;
use super::mirror::FetchOptions;
use super::url::{Address, RepositoryUrl};
use crate::domain::{plain_cause, printable};

mod http;
mod ssh;

pub use http::GuardedResolver;
pub use ssh::check_ssh_file;

/// The scheme libgit2 finds our transport by. No user can name it: [`RepositoryUrl::parse`] refuses it.
pub(super) const SCHEME: &str = "steward-git";

/// The list of refs is held in memory whole; this is about a million of them.
const REFS_MAX_BYTES: u64 = 64 << 20;

/// What a remote may be shown. Goes to the host of the repository's own URL and nowhere else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The login for http and https.
    pub login: Option<Login>,
    /// The private key for ssh, and no other. `None` takes the keys in the home of the user.
    pub ssh_key: Option<PathBuf>,
    /// The hosts that are trusted with ssh, instead of those in the home of the user and in
    /// `/etc/ssh`.
    pub known_hosts: Option<PathBuf>,
}

/// User name and token (or password) for http. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub token: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// One fetch: where from, with what, how long, and why it failed.
pub(super) struct Session {
    pub(super) url: String,
    address: Address,
    credentials: Credentials,
    pub(super) options: FetchOptions,
    deadline: Instant,
    failure: Mutex<Option<Error>>,
    n_received: AtomicU64,
    /// How many bytes of `n_received` had come when the last object was complete.
    n_complete: AtomicU64,
    n_objects: AtomicUsize,
}

impl Session {
    pub(super) fn new(
        url: &RepositoryUrl,
        credentials: &Credentials,
        options: &FetchOptions,
        deadline: Instant,
    ) -> Arc<Session> {
        Arc::new(Session {
            url: url.as_str().to_owned(),
            address: url.address.clone(),
            credentials: credentials.clone(),
            options: options.clone(),
            deadline,
            failure: Mutex::new(None),
            n_received: AtomicU64::new(0),
            n_complete: AtomicU64::new(0),
            n_objects: AtomicUsize::new(0),
        })
    }

    /// Takes note of bytes that came. It fails when the object that they are of has become too
    /// large: libgit2 tells of objects that are complete only.
    fn received(&self, n_bytes: usize) -> io::Result<()> {
        let before = self.n_received.fetch_add(n_bytes as u64, Ordering::Relaxed);
        let of_object = before + n_bytes as u64 - self.n_complete.load(Ordering::Relaxed);
        let limit = self.options.object_bytes;
        if of_object <= limit {
            return Ok(());
        }
        self.fail(Error::TooLarge {
            url: self.url.clone(),
            limit: format!("{} MiB for one object", limit >> 20),
        });
        Err(io::Error::other("an object is too large"))
    }

    /// Takes note that so many objects of the pack are complete.
    pub(super) fn objects_are_complete(&self, n_objects: usize) {
        if self.n_objects.swap(n_objects, Ordering::Relaxed) != n_objects {
            let n_received = self.n_received.load(Ordering::Relaxed);
            self.n_complete.store(n_received, Ordering::Relaxed);
        }
    }

    /// Time left, or `None` once the deadline has passed.
    pub(super) fn remaining(&self) -> Option<Duration> {
        self.deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// Remembers why the fetch fails; the first reason is kept.
    pub(super) fn fail(&self, error: Error) {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(super) fn timed_out(&self) -> Error {
        Error::TimedOut {
            url: self.url.clone(),
            limit: self.options.time,
        }
    }

    /// The other side was silent for too long, or the time for the whole fetch is over.
    fn too_slow(&self) -> Error {
        match self.remaining() {
            Some(_) => Error::TimedOut {
                url: self.url.clone(),
                limit: self.options.silence,
            },
            None => self.timed_out(),
        }
    }

    fn too_large(&self, n_bytes: u64) -> Error {
        Error::TooLarge {
            url: self.url.clone(),
            limit: format!("{} MiB", n_bytes >> 20),
        }
    }

    fn unreachable(&self, cause: &str) -> Error {
        Error::Unreachable {
            url: self.url.clone(),
            cause: printable(&plain_cause(cause), 300),
        }
    }

    fn private_host(&self, address: std::net::IpAddr) -> Error {
        Error::PrivateHost {
            url: self.url.clone(),
            address: address.to_string(),
        }
    }

    fn authentication(&self, cause: &str) -> Error {
        Error::Authentication {
            url: self.url.clone(),
            cause: printable(cause, 300),
        }
    }

    fn not_a_repository(&self, cause: &str) -> Error {
        Error::NotARepository {
            url: self.url.clone(),
            cause: printable(cause, 300),
        }
    }
}

/// Looks for a format of ids that we do not read in what a server says first. libgit2 would only see nonsense.
fn check_format(session: &Session, first_bytes: &[u8]) -> io::Result<()> {
    const SHA256: &[u8] = b"object-format=sha256";
    if first_bytes
        .windows(SHA256.len())
        .any(|window| window == SHA256)
    {
        let feature = "SHA-256 object ids".to_owned();
        session.fail(Error::UnsupportedFormat {
            url: session.url.clone(),
            feature,
        });
        return Err(io::Error::other("the format of ids is not supported"));
    }
    Ok(())
}

thread_local! {
    static SESSION: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// Runs `body` with `session` as the one that transports made on this thread belong to.
pub(super) fn with_session<T>(session: &Arc<Session>, body: impl FnOnce() -> T) -> T {
    struct Reset(Option<Arc<Session>>);
    impl Drop for Reset {
        fn drop(&mut self) {
            SESSION.set(self.0.take());
        }
    }
    let _reset = Reset(SESSION.replace(Some(session.clone())));
    body()
}

/// The factory that libgit2 calls for each remote of our [`SCHEME`].
pub(super) fn create(remote: &git2::Remote<'_>) -> Result<git2::transport::Transport, git2::Error> {
    let session = SESSION
        .with_borrow(Clone::clone)
        .ok_or_else(|| git2::Error::from_str("no fetch is going on in this thread"))?;
    match &session.address {
        Address::Http { .. } => http::create(remote, session),
        Address::Ssh { .. } => ssh::create(remote, session),
        Address::Local(_) => Err(git2::Error::from_str(
            "a local repository needs no transport",
        )),
    }
}
