//! Watches a repository or folder on this machine.
//!
//! Events are hints: each leaves a refresh request and wakes the compile loop, which looks for
//! itself. Lost or overflowing events are made up for by its poll.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::RecursiveMode;
use tokio_util::sync::CancellationToken;

use crate::domain::{EnvironmentId, WakeHandle, chain};
use crate::git;
use crate::store::Store;

use super::files::{Files, Place};

/// Git renames several files for one commit, editors for one save: wait for the last.
const DEBOUNCE: Duration = Duration::from_millis(15);
const LONGEST_DEBOUNCE: Duration = Duration::from_millis(200);
/// Between two attempts while the database does not work, each of which is a line of the log.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Watches until `shutdown`. A place that cannot be watched is left to the poll, with a warning.
pub async fn watch(
    files: Files,
    path: PathBuf,
    environment: EnvironmentId,
    store: Store,
    compiler: WakeHandle,
    shutdown: CancellationToken,
) {
    // Kept for as long as the loop runs.
    let mut watched = match files.subscribe(places(&path)) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::warn!(environment.id = %environment, %error, "cannot watch {}; it is polled instead", path.display());
            return;
        }
    };
    let events = &mut watched.changes;
    loop {
        tokio::select! {
            // Dropping a receive loses no event.
            event = events.recv() => if event.is_none() { return },
            () = shutdown.cancelled() => return,
        }
        // A file that is written all the time, such as a log, does not put it off for ever.
        let deadline = tokio::time::Instant::now() + LONGEST_DEBOUNCE;
        while tokio::time::Instant::now() < deadline
            && let Ok(Some(())) = tokio::time::timeout(DEBOUNCE, events.recv()).await
        {}
        let message = "Compile triggered by a change of the local repository";
        let mut pause = Duration::from_secs(1);
        while let Err(error) = store.refresh_request(environment, "watch", message).await {
            tracing::error!(environment.id = %environment, error = chain(&error), "cannot note a change; trying again in {pause:?}");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        compiler.wake();
    }
}

/// What to watch: the refs of a repository, or a whole folder.
fn places(path: &Path) -> Vec<Place> {
    if git::is_repository(path).is_none() {
        return vec![(path.to_owned(), RecursiveMode::Recursive)];
    }
    let mut places: Vec<Place> = Vec::new();
    for path in git::local_watch_paths(path) {
        if path.is_dir() {
            places.push((path, RecursiveMode::Recursive));
        } else if let Some(parent) = path.parent() {
            // Git replaces a file by renaming another over it, so the directory is what to watch.
            let place = (parent.to_owned(), RecursiveMode::NonRecursive);
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}
