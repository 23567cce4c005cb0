//! How long facts are good.

use std::time::Duration;

/// Source: docs/reference/deployment.md § 5.7; the options `fact-expire`, `fact-renew` and `fact-resource-block` of
/// the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactTimes {
    /// A fact older than this counts as unknown, if it may expire.
    pub expire: Duration,
    /// From this age on, the handler is asked again. Less than `expire`.
    pub renew: Duration,
    /// A resource is asked once within this time, however often somebody wants to know.
    pub resource_block: Duration,
}

impl FactTimes {
    /// How often to look for facts that grow old: each is to be asked for again well before it expires.
    pub fn renew_check(&self) -> Duration {
        (self.renew / 2).max(Duration::from_secs(1))
    }
}

impl Default for FactTimes {
    fn default() -> Self {
        let expire = Duration::from_secs(3600);
        Self {
            expire,
            renew: expire / 3,
            resource_block: Duration::from_secs(60),
        }
    }
}
