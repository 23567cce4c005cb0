//! Everything Steward does with git: fetch a branch into a bare mirror, and lay one commit out as files.
//!
//! In go a [`RepositoryUrl`] (checked once, free of secrets) and a branch name; out comes a [`CommitId`],
//! and from that a read-only folder with the content of the commit. All functions are plain and block:
//! callers run them on blocking threads. A [`Repository`] is only a path and may be shared freely;
//! each call opens the store anew.
//!
//! What this module deliberately does not do: it runs no hook, filter or helper of any repository, reads no
//! git configuration of the user or the system, follows no redirect to another host, never asks on a
//! terminal, and never writes into a repository or folder of the user. Pushing is not here either.
//!
//! What a remote sends is given to libgit2, which is not ours and has no limits of time and memory, in processes of their
//! own only ([`Workers`]): the server asks them, and reads no object of a mirror itself.
//!
//! Start reading at [`Mirror::fetch`], then [`checkout`], then [`Workers`].

mod checkout;
mod echo;
mod error;
pub(crate) mod fuzzing;
mod local;
mod mirror;
mod names;
mod options;
mod repository;
mod rules;
mod snapshot;
mod transport;
mod tree;
mod upkeep;
mod url;
mod worker;

#[cfg(test)]
mod tests;

pub use checkout::{
    CheckoutLimits, checkout, checkout_with, finished_checkout, gc_checkouts, submodules,
};
pub use error::Error;
pub use local::{
    RepositoryKind, WorkTreeHead, data_folders, is_repository, local_watch_paths, work_tree_head,
};
pub use mirror::{FetchOptions, Mirror, check_branch};
pub use options::init;
pub use repository::{CommitId, CommitInfo, Repository, TreeId, commit_info, is_ancestor, tree_id};
pub use rules::{Reach, RepositoryRules};
pub use snapshot::{SnapshotLimits, snapshot, snapshot_with};
pub use transport::{Credentials, GuardedResolver, Login, check_ssh_file};
pub use url::{AddressPolicy, LocalPolicy, RepositoryUrl, UrlError};
#[doc(hidden)]
pub use worker::read_any_frame as read_any_worker_frame;
pub use worker::{Fetch, Remote, WorkerLimits, Workers, run_worker};
