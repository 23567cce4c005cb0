//! The git worker: a process of its own for each fetch and each checkout of a repository that others serve.
//!
//! # Why a process
//!
//! What a git server sends is read by libgit2, and so are the objects of a mirror after that. It is C code of others, and
//! has no limit of time or memory of its own: of a pack of 258 bytes its indexer makes ever more memory, without end and
//! without calling anything of ours back. Nothing inside of a process can stop that, but a process can be ended. So the
//! server gives no byte of a remote repository to libgit2. It starts `steward git-worker` (`process`), puts it into a
//! sandbox, asks for one thing (`frames`), and kills it at its limits (`workers`).
//!
//! # Why a new one each time
//!
//! A worker is given the credentials of one repository and reads what one remote sends. One that went on to another
//! repository could carry something over: what a remote did to it, or a credential in its memory. So it does one thing and
//! ends. That thing is a fetch, with the checkout of what is new, or a checkout alone.
//!
//! A push would wait for the start of its worker (docs/design.md § 5 has the figures). So one is kept ready: a process that has
//! read nothing of any repository, knows no secret and waits for the sandbox that it is to enter.
//!
//! # What holds it
//!
//! - time: that of the fetch, in the worker itself, which then knows what it waited for; and a little more in the server;
//! - memory: what it may map, by the kernel, and what it and `ssh` take together, by its supervisor;
//! - files: it writes mirrors and the checkouts of its environment; the database, other environments' checkouts and the
//!   secrets of the server cannot be read, but for the key that the repository needs;
//! - number: so many at a time, and one for each mirror, so that repositories that hang hold up no other one's fetch.
//!
//! A worker that is killed leaves what any killed process leaves in a mirror, and the next fetch removes it (`upkeep`).

mod frames;
mod process;
mod workers;

#[doc(hidden)]
pub use frames::read_any_frame;
pub use process::run_worker;
pub use workers::{Fetch, Remote, WorkerLimits, Workers};
