//! Differences on purpose. Each is described, with its reason, under its name in `docs/deviations.md`.

use crate::answer::{Answer, Outcome};
use crate::compare::Difference;

/// What is known of a difference.
pub struct Seen<'a> {
    /// All sources of the case in one text.
    pub source: &'a str,
    pub reference: &'a Answer,
    pub ours: &'a Answer,
    pub difference: &'a Difference,
}

/// The name, and whether it explains a difference. The first that does counts.
pub const DEVIATIONS: &[(&str, fn(&Seen) -> bool)] = &[
    ("host-error", host_error),
    ("runaway", runaway),
    ("non-ascii", non_ascii),
    ("f-string-braces", f_string_braces),
];

/// An exception of the reference that is no error of its compiler; ours is an error, or the model compiles.
fn host_error(seen: &Seen) -> bool {
    seen.reference.outcome == Outcome::Crashed
        && matches!(seen.ours.outcome, Outcome::Rejected | Outcome::Accepted)
}

/// A model that the reference never finishes; ours stops it.
fn runaway(seen: &Seen) -> bool {
    seen.reference.outcome == Outcome::Timeout && seen.ours.outcome == Outcome::Rejected
}

/// The reference mangles characters beyond ASCII in strings with escapes.
fn non_ascii(seen: &Seen) -> bool {
    !seen.source.is_ascii()
}

/// An escaped brace before a field.
fn f_string_braces(seen: &Seen) -> bool {
    let fields = seen.source.split("f\"").chain(seen.source.split("f'"));
    fields
        .skip(1)
        .any(|rest| rest.contains("{{") || rest.contains("}}"))
        && seen.reference.outcome == Outcome::Rejected
        && seen
            .reference
            .errors
            .iter()
            .any(|error| error.message.contains("f-string"))
}

/// The name of the deviation that explains a difference.
pub fn explained(seen: &Seen) -> Option<&'static str> {
    DEVIATIONS
        .iter()
        .find(|(_, explains)| explains(seen))
        .map(|(name, _)| *name)
}
