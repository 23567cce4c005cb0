//! After the first mistake: which others are there?
//!
//! A model with five mistakes should say so at once. But after a mistake the model is not what its
//! author meant, and most of what goes wrong then follows from the first. The rule here: *report
//! only what would be wrong whatever the first mistake had done*.
//!
//! - What is ready to run has all it needs, and values never change. So its mistakes are its own,
//!   and these steps still run.
//! - Nothing is declared complete any more. What failed may have wanted to add to a list; a count
//!   of that list would be wrong, a condition on the count would be answered wrongly, and an
//!   implementation would run that should not. Since all conditions on lists wait for completion,
//!   none of this happens.
//! - What waits is not reported: it may wait for what failed. For the same reason the checks at the
//!   end (`exec/completion.rs`) are not made.
//! - Errors that are marked as consequences ([`Failure::is_consequence`]) are dropped, and of
//!   several with the same kind and place one is kept: a statement that fails for each of a
//!   thousand instances is one mistake.
//!
//! For example, if `x = 1 + "a"` fails, an unrelated `h.port = "eighty"` elsewhere is ready, fails
//! by itself, and is reported. `y = x + 1` waits for `x`, and is not.
//!
//! Nothing of this is seen from outside: no output, no Python, no warnings. Plugins that could be
//! noticed are not called ([`Machine::is_visible_outside`]). And since a model that failed need not
//! end, steps and what they make are limited.

use crate::diagnostics::{Fail, Failure};
use crate::hir::plugin::{Body, PluginDef};
use crate::runtime::{Machine, Report};
use crate::span::{Loc, Span};

/// Steps that are spent on the search at most.
const MAX_STEPS: u32 = 200_000;
/// New steps and elements at most, since one step may make thousands of either.
const MAX_MADE: u64 = 500_000;
/// Bytes of the texts of mistakes that are found, the same ones again among them: a value of ten thousand elements may be shown
/// by as many statements.
const MAX_TEXT: usize = 4 << 20;
/// Mistakes after which the search ends: more help nobody.
const ENOUGH: usize = 100;

impl Report {
    /// Keeps the mistake that comes first, as the result, and remembers the other for the search.
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
}

/// Bytes of all that an error says.
fn text_length(error: &Failure) -> usize {
    let notes = error.notes.iter().map(|(text, _)| text.len());
    let causes = error.causes.iter().map(text_length);
    error.message.len() + notes.sum::<usize>() + causes.sum::<usize>()
}

impl Machine<'_> {
    /// The first mistake, and those that have nothing to do with it. Steps go on from the queue as
    /// it is.
    pub(in crate::runtime) fn rest(&mut self, first: Fail) -> Vec<Fail> {
        let n_warnings = self.report.warnings.len();
        self.report.has_failed = true;
        self.abandon_ahead();
        let mut seen = vec![self.identity(&first)];
        let mut errors = vec![placed(first)];
        let mut found = std::mem::take(&mut self.report.later_errors);
        let n_made = self.scheduler.n_made();
        let mut n_bytes = 0;
        for _ in 0..MAX_STEPS {
            if self.scheduler.n_made() > n_made + MAX_MADE {
                break;
            }
            if let Some(step) = self.scheduler.ready.pop() {
                found.extend(self.step(&step).err());
                found.append(&mut self.report.later_errors);
            } else if found.is_empty() {
                break;
            }
            for error in found.drain(..) {
                n_bytes += text_length(&error);
                let identity = self.identity(&error);
                if !error.is_consequence() && !seen.iter().any(|known| is_same(known, &identity)) {
                    seen.push(identity);
                    errors.push(placed(error));
                }
            }
            if errors.len() >= ENOUGH || n_bytes > MAX_TEXT {
                break;
            }
        }
        self.report.warnings.truncate(n_warnings);
        errors
    }

    /// What makes two errors the same mistake.
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

    /// Whether a call of a plugin can be noticed: by what it prints or writes, or because it takes
    /// its time. All plugins in Python can.
    pub(in crate::runtime) fn is_visible_outside(&self, plugin: &PluginDef) -> bool {
        matches!(plugin.body, Body::Python)
            || matches!(
                self.program.text(plugin.name),
                "std::print" | "std::generate_password" | "std::password"
            )
    }
}

/// Gives an error between statements, for which the reference has no place, the one that we know.
fn placed(mut error: Fail) -> Fail {
    let is_between = matches!(error.kind, "NotFoundException" | "OptionalValueException");
    if error.loc == Loc::NONE && is_between {
        error.loc = error.notes.first().map_or(Loc::NONE, |(_, loc)| *loc);
    }
    error
}

/// What makes two errors the same mistake: the kind and the place; for errors without a place, the
/// message; and for a double assignment also the place of the first value, since a variable with
/// three values is one mistake.
struct Identity {
    kind: &'static str,
    place: Option<Span>,
    message: Option<String>,
    other: Option<Span>,
}

/// The error at the bottom of the causes.
fn root(error: &Failure) -> &Failure {
    error.causes.first().map_or(error, root)
}

fn is_same(a: &Identity, b: &Identity) -> bool {
    a.kind == b.kind
        && (a.place == b.place && a.message == b.message || a.other.is_some() && a.other == b.other)
}
