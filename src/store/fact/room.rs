//! How many bytes the facts of an environment take together, and whether there is room for more.
//!
//! A compile gets all facts that are known, in one frame. Each resource has its limit, but there may be any number of resources,
//! so that facts of all of them together could keep the environment from compiling. To add them up for each one that is written
//! would take as long as reading all, so they are added up once, and then kept up with.
//!
//! What is known is never less than what there is: what is written counts from the moment it is about to be, and what is deleted
//! counts until the facts are added up anew. That is done when they seem to be too many, at most every [`PAUSE`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::MAX_BYTES_OF_ONE;
use crate::domain::EnvironmentId;
use crate::store::macros::read;
use crate::store::{Result, Store};

/// Bytes of the facts of an environment, with ids, names and metadata. A frame for a compile takes twice that
/// (`docs/reference/security.md` § 1).
pub(super) const MAX_BYTES: i64 = 128 << 20;
/// How long a sum that was too large counts before it is made again.
const PAUSE: Duration = Duration::from_secs(5);

/// What is known of an environment.
#[derive(Debug, Clone, Copy)]
struct Size {
    bytes: i64,
    counted: Instant,
}

#[derive(Debug, Default)]
struct Sizes {
    known: HashMap<EnvironmentId, Size>,
    /// All that was ever added, of any environment: by its growth is seen what was added while something was counted.
    added: i64,
}

/// What is known of all environments.
#[derive(Debug, Default)]
pub(in crate::store) struct FactSizes(Mutex<Sizes>);

impl FactSizes {
    fn all(&self) -> MutexGuard<'_, Sizes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of the facts, unless they have to be added up. `Err` has what was added to all environments before.
    fn known(&self, environment: EnvironmentId, limit: i64) -> std::result::Result<i64, i64> {
        let sizes = self.all();
        match sizes.known.get(&environment) {
            Some(size) if size.bytes <= limit || size.counted.elapsed() < PAUSE => Ok(size.bytes),
            _ => Err(sizes.added),
        }
    }

    /// Keeps what was counted since `added`; what was added meanwhile may or may not be in it.
    fn counted(&self, environment: EnvironmentId, bytes: i64, added: i64) -> i64 {
        let mut sizes = self.all();
        let bytes = bytes + sizes.added - added;
        let counted = Instant::now();
        sizes.known.insert(environment, Size { bytes, counted });
        bytes
    }

    pub(super) fn grew(&self, environment: EnvironmentId, by: i64) {
        let mut sizes = self.all();
        sizes.added += by.max(0);
        if let Some(size) = sizes.known.get_mut(&environment) {
            size.bytes += by;
        }
    }
}

#[cfg(test)]
impl FactSizes {
    /// As if the sum were so old that it may be made again.
    pub(super) fn forget(&self, environment: EnvironmentId) {
        self.all().known.remove(&environment);
    }
}

/// The room for facts that one transaction writes.
#[derive(Debug)]
pub(in crate::store) struct FactRoom {
    sizes: Arc<FactSizes>,
    environment: EnvironmentId,
    left: i64,
    /// What shorter values have freed, once they are committed.
    freed: i64,
}

impl FactRoom {
    /// Takes room for so many bytes more, or fewer. False: there is not as much.
    pub(super) fn take(&mut self, bytes: i64) -> bool {
        if bytes > 0 && bytes > self.left {
            return false;
        }
        self.left -= bytes;
        match bytes > 0 {
            true => self.sizes.grew(self.environment, bytes),
            false => self.freed -= bytes,
        }
        true
    }

    /// The transaction is committed.
    pub(in crate::store) fn committed(self) {
        self.sizes.grew(self.environment, -self.freed);
    }
}

impl Store {
    /// The bytes that the facts of an environment's resources take, with their ids, names and metadata; never fewer than there are. If they
    /// seem to be more than `limit`, they are added up, at most every five seconds.
    pub async fn fact_bytes(&self, environment: EnvironmentId, limit: i64) -> Result<i64> {
        const SQL: &str = "SELECT CAST(COALESCE(SUM(OCTET_LENGTH(resource_id) + OCTET_LENGTH(name) + OCTET_LENGTH(value) + \
                           OCTET_LENGTH(COALESCE(metadata, ''))), 0) AS BIGINT) FROM fact \
                           WHERE environment_id = $1 AND resource_id <> ''";
        let added = match self.fact_sizes.known(environment, limit) {
            Ok(bytes) => return Ok(bytes),
            Err(added) => added,
        };
        let (bytes,): (i64,) = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_one(pool).await?
        });
        Ok(self.fact_sizes.counted(environment, bytes, added))
    }

    /// The room for the facts of a transaction that is about to begin.
    pub(in crate::store) async fn fact_room(&self, environment: EnvironmentId) -> Result<FactRoom> {
        // So near to the limit the sum has to be true.
        let near = MAX_BYTES - MAX_BYTES_OF_ONE;
        let left = MAX_BYTES - self.fact_bytes(environment, near).await?;
        Ok(FactRoom {
            sizes: Arc::clone(&self.fact_sizes),
            environment,
            left,
            freed: 0,
        })
    }
}
