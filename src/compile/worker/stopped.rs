//! Notices that a worker was stopped (SIGSTOP), long before the time limit of its compile.
//!
//! A process that is stopped neither works nor ends; a compile may take ten minutes, and whoever pushed would wait for all of
//! them without a word. The kernel says of each process whether it is stopped, so nobody has to send a sign of life, and a
//! model that computes without a pause is not taken for one that hangs.
//!
//! ```text
//! server ── steward supervise ── compile worker ── Python host ── fork of it ── what a plugin starts
//!           └──────────────────────── looked at ──────────────────────────┘
//! ```
//!
//! What a plugin starts is its own affair. Hosts are stopped by the worker itself between two compiles, and go on when one
//! begins; so they are looked at only while something is compiled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::process::descendants::children;
use crate::process::is_stopped;

/// How often processes are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// One that is stopped for this long is given up. A person with a debugger stops it, too; but a push is not to wait for that.
const PATIENCE: Duration = Duration::from_secs(5);

/// What of a worker is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The worker, and the process above it.
    Worker,
    /// Its Python hosts and their forks, too.
    WithHosts,
}

/// Waits until a process of the worker below `supervisor` has been stopped for a while, and says which.
pub(super) async fn stopped(supervisor: u32, which: Which) -> String {
    let mut since: HashMap<u32, Instant> = HashMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = Instant::now();
        let found = family(supervisor, which);
        since.retain(|process, _| found.iter().any(|(id, _)| id == process));
        for (process, role) in found {
            if !is_stopped(process) {
                since.remove(&process);
            } else if now - *since.entry(process).or_insert(now) >= PATIENCE {
                return format!(
                    "process {process} ({role}) was stopped (SIGSTOP) for {} s and was ended with all below it",
                    PATIENCE.as_secs()
                );
            }
        }
    }
}

/// The processes to look at, with what each of them is.
fn family(supervisor: u32, which: Which) -> Vec<(u32, &'static str)> {
    let depths: &[&'static str] = match which {
        Which::Worker => &["the compile worker"],
        Which::WithHosts => &["the compile worker", "its Python host", "its Python host"],
    };
    let mut found = vec![(supervisor, "the supervisor of the compile worker")];
    let mut above = vec![supervisor];
    for role in depths {
        let parents = above.iter().filter_map(|id| i32::try_from(*id).ok());
        let below = parents.flat_map(children);
        above = below.filter_map(|id| u32::try_from(id).ok()).collect();
        found.extend(above.iter().map(|id| (*id, *role)));
    }
    found
}
