//! What a compile says about a model with mistakes.
//!
//! - `error_recovery`: which other mistakes there are, besides the first one that ended the run.
//! - `double_assignment`: the error of a variable that is set twice, with both places.
//! - `blocked_on`: why a variable has no value, as a chain of who waits for whom.
//! - `describe`: instances and expressions as text.
//! - `template_errors`: errors of the template engine in the words of a model.

pub(in crate::runtime) mod blocked_on;
pub(in crate::runtime) mod describe;
pub(in crate::runtime) mod double_assignment;
pub(in crate::runtime) mod error_recovery;
pub(in crate::runtime) mod template_errors;

use std::sync::atomic::{AtomicU32, Ordering};

use indexmap::IndexSet;

use crate::UnknownParameter;
use crate::breadcrumb::Breadcrumb;
use crate::diagnostics::{Fail, Warning};
use crate::hash::{BuildHasher, Set};
use crate::span::Loc;

/// What the compile tells its user, apart from the mistake that ends it.
pub struct Report {
    /// Where the number of the place goes that the machine is at.
    place: &'static AtomicU32,
    /// Warnings, in the order in which they came up.
    pub warnings: Vec<Warning>,
    /// Parameters that the model asked for and that are not known yet, each once.
    pub unknown_parameters: IndexSet<UnknownParameter, BuildHasher>,
    /// What Python code wrote to the service inventory, in order.
    pub service_writes: Vec<serde_json::Value>,
    /// The definitions of services, as Python sent them.
    pub service_definitions: Option<serde_json::Value>,
    /// Plugins whose deprecation was told.
    pub(in crate::runtime) deprecated_seen: Set<u32>,
    /// Mistakes that were met after the first one of the same block.
    later_errors: Vec<Fail>,
    /// A mistake was met: nothing must be seen from outside any more.
    pub(in crate::runtime) has_failed: bool,
}

impl Report {
    /// `breadcrumb`: the file that tells where in the model a process was that was killed.
    pub fn new(breadcrumb: Option<&Breadcrumb>) -> Report {
        Report {
            place: Breadcrumb::target(breadcrumb),
            warnings: Vec::new(),
            unknown_parameters: IndexSet::default(),
            service_writes: Vec::new(),
            service_definitions: None,
            deprecated_seen: Set::default(),
            later_errors: Vec::new(),
            has_failed: false,
        }
    }

    /// The machine is at this place of the model now, should its process be killed.
    #[inline]
    pub fn leave_place(&self, loc: Loc) {
        self.place.store(loc.0, Ordering::Relaxed);
    }
}
