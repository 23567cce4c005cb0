//! The life of a git worker: it enters its sandbox, does one thing, answers and ends.

use std::io::{self, BufReader, BufWriter};
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit};
use steward_compiler::protocol::{read_frame_within, write_frame};

use super::frames::{Job, MAX_FRAME_BYTES, Reply, Request, Task};
use crate::git::checkout::checkout;
use crate::git::error::Error;
use crate::git::mirror::Mirror;
use crate::git::repository::{commit_info, tree_id};
use crate::git::url::{AddressPolicy, LocalPolicy, RepositoryUrl};
use crate::process;
use crate::sandbox::{SupervisorLink, enter};

/// The whole life of a worker process. What it is asked comes on standard input, and nothing of it by arguments.
pub fn run_worker() -> ExitCode {
    process::die_with_parent();
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody waits for the answer any more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the git worker ends");
            ExitCode::FAILURE
        }
    }
}

/// Answers the two requests.
fn answer() -> io::Result<()> {
    let mut reader = BufReader::new(io::stdin());
    let mut writer = BufWriter::new(io::stdout());
    let mut next = || read_frame_within::<Request>(&mut reader, MAX_FRAME_BYTES);
    match next()? {
        None => return Ok(()),
        Some(Request::Enter(policy)) => {
            // Taken here, so that the end is closed in what this process starts.
            let link = SupervisorLink::inherited();
            let entered = enter(&policy, link.as_ref()).map_err(|error| error.to_string());
            let is_inside = entered.is_ok();
            write_frame(&mut writer, &Reply::Entered(entered))?;
            if !is_inside {
                return Ok(());
            }
        }
        Some(Request::Work(_)) => {
            return Err(io::Error::other("nothing is done outside of a sandbox"));
        }
    }
    match next()? {
        None => Ok(()),
        Some(Request::Work(job)) => write_frame(&mut writer, &work(*job)),
        Some(Request::Enter(_)) => Err(io::Error::other("it is in a sandbox already")),
    }
}

fn work(job: Job) -> Reply {
    // All that is logged below is of these two.
    let span = tracing::error_span!("git", environment = %job.environment, repository = %job.url);
    let _entered = span.entered();
    match job.task {
        Task::Fetch {
            branch,
            credentials,
            options,
            ahead,
        } => {
            let fetched = mirror(&job.mirrors, &job.url).and_then(|mirror| {
                let commit = mirror.fetch(branch.as_deref(), &credentials.into(), &options)?;
                let info = commit_info(&mirror, commit)?;
                if ahead.known != Some(commit) {
                    // What is wrong with its files is reported to the compile, which asks for them again.
                    let _ = checkout(&mirror, commit, &ahead.dir);
                }
                Ok(info)
            });
            Reply::Fetched(fetched.map_err(judged))
        }
        Task::CheckOut { commit, dir } => {
            let checked_out = mirror(&job.mirrors, &job.url).and_then(|mirror| {
                checkout(&mirror, commit, &dir)?;
                tree_id(&mirror, commit)
            });
            Reply::CheckedOut(checked_out.map_err(judged))
        }
    }
}

/// What went wrong, or that there was no more memory: where libgit2 gets none it often says something else.
fn judged(error: Error) -> Error {
    match is_memory_used_up() {
        Some(true) => Error::OutOfMemory {
            cause: error.to_string(),
        },
        Some(false) | None => error,
    }
}

/// A process whose memory came this close to its limit has asked for more than that.
const NEAR_THE_LIMIT_BYTES: u64 = 16 << 20;

/// Whether this process has ever mapped all the memory that it may. `None`: that is not known.
fn is_memory_used_up() -> Option<bool> {
    let limit = getrlimit(Resource::As).current?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmPeak:"))?;
    let kib: u64 = peak.split_whitespace().next()?.parse().ok()?;
    Some((kib << 10) + NEAR_THE_LIMIT_BYTES > limit)
}

/// The server has judged the address already; here it is read again.
fn mirror(mirrors: &std::path::Path, url: &str) -> Result<Mirror, Error> {
    let policy = AddressPolicy {
        http: true,
        local: LocalPolicy::Anywhere,
    };
    Mirror::open_or_create(mirrors, &RepositoryUrl::parse(url, &policy)?)
}
