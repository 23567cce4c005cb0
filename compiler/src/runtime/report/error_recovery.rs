//! After the first mistake: which others are there?
//!
//! What is ready to run has all it needs, so its mistakes are its own. Nothing is declared complete any more, since what
//! failed may have wanted to add to it; so no condition is answered wrongly because of the first mistake. What waits is not
//! reported: it may wait for what failed. Nothing of this is seen from outside: no output, no Python, no warnings.

use crate::diagnostics::{Fail, Failure};
use crate::hir::plugin::{Body, PluginDef};
use crate::runtime::Machine;
use crate::span::{Loc, Span};

/// So many steps are spent on the search.
const MAX_STEPS: u32 = 200_000;
/// So many new steps and elements, since each may be made of thousands: a model that failed need not end.
const MAX_MADE: u64 = 500_000;
/// So many mistakes are enough to be busy with.
const ENOUGH: usize = 100;

impl Machine<'_> {
    /// The first mistake and those that have nothing to do with it.
    pub(in crate::runtime) fn rest(&mut self, first: Fail) -> Vec<Fail> {
        let n_warnings = self.warnings.len();
        self.has_failed = true;
        self.abandon_ahead();
        let mut seen = vec![self.identity(&first)];
        let mut errors = vec![placed(first)];
        let mut found = std::mem::take(&mut self.later_errors);
        let n_made = self.numbers.n_created() + self.n_delivered;
        for _ in 0..MAX_STEPS {
            if self.numbers.n_created() + self.n_delivered > n_made + MAX_MADE {
                break;
            }
            if let Some(step) = self.ready.pop() {
                found.extend(self.step(&step).err());
                found.append(&mut self.later_errors);
            } else if found.is_empty() {
                break;
            }
            for error in found.drain(..) {
                let identity = self.identity(&error);
                if !error.is_consequence() && !seen.iter().any(|known| is_same(known, &identity)) {
                    seen.push(identity);
                    errors.push(placed(error));
                }
            }
            if errors.len() >= ENOUGH {
                break;
            }
        }
        self.warnings.truncate(n_warnings);
        errors
    }

    fn identity(&self, error: &Failure) -> Identity {
        let root = root(error);
        let sources = &self.program.sources;
        let first = root
            .notes
            .first()
            .filter(|_| root.kind == "DoubleSetException");
        Identity {
            kind: root.kind,
            place: sources.span(error.loc),
            message: (error.loc == Loc::NONE).then(|| error.message.clone()),
            other: first.and_then(|(_, loc)| sources.span(*loc)),
        }
    }

    /// Keeps the mistake that comes first, as the result, and remembers the other.
    pub(in crate::runtime) fn first_of(
        &mut self,
        first: Result<(), Fail>,
        second: Result<(), Fail>,
    ) -> Result<(), Fail> {
        match (first, second) {
            (Ok(()), second) => second,
            (first, Ok(())) => first,
            (first, Err(second)) => {
                if self.later_errors.len() < ENOUGH {
                    self.later_errors.push(second);
                }
                first
            }
        }
    }

    /// Whether a call of it can be noticed: by what it prints or writes, or because it takes its time.
    pub(in crate::runtime) fn is_visible_outside(&self, plugin: &PluginDef) -> bool {
        matches!(plugin.body, Body::Python)
            || matches!(
                self.program.text(plugin.name),
                "std::print" | "std::generate_password" | "std::password"
            )
    }
}

/// The reference has no place for what goes wrong between statements; we know one.
fn placed(mut error: Fail) -> Fail {
    let is_between = matches!(error.kind, "NotFoundException" | "OptionalValueException");
    if error.loc == Loc::NONE && is_between {
        error.loc = error.notes.first().map_or(Loc::NONE, |(_, loc)| *loc);
    }
    error
}

/// One statement that fails for each of a thousand instances is one mistake; so is a variable with three values.
struct Identity {
    kind: &'static str,
    place: Option<Span>,
    message: Option<String>,
    other: Option<Span>,
}

fn root(error: &Failure) -> &Failure {
    error.causes.first().map_or(error, root)
}

fn is_same(a: &Identity, b: &Identity) -> bool {
    a.kind == b.kind
        && (a.place == b.place && a.message == b.message || a.other.is_some() && a.other == b.other)
}
