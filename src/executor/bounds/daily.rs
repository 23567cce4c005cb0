//! The limit of a resource and day: one that fails every few seconds does not fill the disk.

use std::collections::HashMap;

use super::{RUN, Share};
use crate::domain::{ResourceId, Timestamp};

/// What the runs of one resource may write in a day (UTC). With the retention of seven days, 56 MiB a resource at most.
const DAY_BYTES: usize = 8 << 20;
const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// A run of a resource that has used up its day.
const SPENT: Share = Share {
    lines: 10,
    line_bytes: 1 << 10,
    bytes: 4 << 10,
    value_bytes: 256,
    limit: "10 lines and 4 KiB a run for the rest of this day (UTC), since this resource has written 8 MiB in it",
};

/// What resources have written today. Counts from nothing again after a restart of the server.
#[derive(Debug, Default)]
pub(crate) struct Daily {
    day: i64,
    used: HashMap<ResourceId, usize>,
}

impl Daily {
    /// What the run of a resource that ends at `now` may leave behind.
    pub(crate) fn share(&mut self, resource_id: &ResourceId, now: Timestamp) -> &'static Share {
        let day = now.0.div_euclid(DAY_US);
        if day != self.day {
            self.day = day;
            self.used.clear();
        }
        match self.used.get(resource_id) {
            Some(used) if *used >= DAY_BYTES => &SPENT,
            _ => &RUN,
        }
    }

    /// A run has left so much behind.
    pub(crate) fn add(&mut self, resource_id: &ResourceId, n_bytes: usize) {
        match self.used.get_mut(resource_id) {
            Some(used) => *used = used.saturating_add(n_bytes),
            None => {
                self.used.insert(resource_id.clone(), n_bytes);
            }
        }
    }
}
