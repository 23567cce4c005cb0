//! Wake-ups: how one loop tells another that there may be work, without knowing what the other is.
//!
//! The compile service wakes the engine after a release, an engine wakes the compile service when a
//! fact is known. Neither uses the other's code: both meet in the store, and each holds a
//! [`WakeHandle`], which is a function.

use std::fmt;
use std::sync::Arc;

/// Wakes a loop. It carries no data: whoever is woken reads the store, so that being woken twice, or for nothing, does no harm.
#[derive(Clone)]
pub struct WakeHandle(Arc<dyn Fn() + Send + Sync>);

impl WakeHandle {
    /// A handle that calls this function.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// Wakes the loop. It returns at once.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for WakeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WakeHandle")
    }
}
