//! Installations that run at the same time are bounded: each is a tree of processes that downloads and builds, and too many at
//! once are all too slow for their limit.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Error;
use super::progress::{Part, Watcher, part};

/// Places for installations, shared by all that install on a server.
#[derive(Debug, Clone)]
pub struct Turns(Arc<Semaphore>);

impl Turns {
    /// So many run at the same time.
    pub fn new(n_places: usize) -> Self {
        Self(Arc::new(Semaphore::new(n_places.max(1))))
    }

    /// Takes a place, in the order of asking. Blocks, on a thread of the runtime for such work; `stop` ends the waiting, of
    /// which the watcher hears if there is any. The time of waiting is none of the installation's.
    ///
    /// # Errors
    /// It was stopped.
    pub(super) fn take(
        &self,
        stop: &CancellationToken,
        watcher: Watcher<'_>,
    ) -> Result<OwnedSemaphorePermit, Error> {
        if let Ok(place) = Arc::clone(&self.0).try_acquire_owned() {
            return Ok(place);
        }
        let what = "waiting until another installation ends";
        let stopped = || Error::Machine(format!("{what} was stopped"));
        part(watcher, Part::Turn, what, "", || {
            Handle::current().block_on(async {
                tokio::select! {
                    place = Arc::clone(&self.0).acquire_owned() => place.map_err(|_| stopped()),
                    () = stop.cancelled() => Err(stopped()),
                }
            })
        })
    }
}
