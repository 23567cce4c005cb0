//! Ways to say that a repository may have new commits: file events here, webhooks in `api`, polls
//! in the compile loop itself. Each leaves a refresh request in the store and wakes the compile
//! loop, which looks for itself.

pub mod files;
pub mod local;
