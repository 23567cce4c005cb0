//! Differences on purpose. Each is described, with its reason, under its name in `docs/deviations.md`.

use crate::answer::{Answer, Found, Outcome};

/// What is known of a difference.
pub struct Seen<'a> {
    /// All sources of the case in one text.
    pub source: &'a str,
    pub reference: &'a Answer,
    pub ours: &'a Answer,
}

/// Its name, and whether it explains a difference.
type Deviation = (&'static str, fn(&Seen) -> bool);

/// The first that explains a difference counts.
pub const DEVIATIONS: &[Deviation] = &[
    ("host-error", host_error),
    ("runaway", runaway),
    ("missing-values", missing_values),
    ("told-once", told_once),
    ("more-errors", more_errors),
    ("empty-agent", empty_agent),
    ("wrong-case", wrong_case),
    ("a-place-more", a_place_more),
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

/// Null for a relation that wants values: the reference forgets what is missing.
fn missing_values(seen: &Seen) -> bool {
    let is_extra =
        |error: &Found| {
            !seen.reference.errors.iter().any(|known| {
                known.place() == error.place() && is_same(&known.message, &error.message)
            })
        };
    let mut extra = seen
        .ours
        .errors
        .iter()
        .filter(|error| is_extra(error))
        .peekable();
    seen.source.contains("null")
        && extra.peek().is_some()
        && extra.all(|error| {
            error.kind == "UnsetException" && error.message.contains(" values but only ")
        })
}

/// But for where the project lies.
fn is_same(theirs: &str, ours: &str) -> bool {
    let start = |text: &str| text.split(" (instantiated").next().map(str::to_owned);
    let end = |text: &str| {
        text.rsplit("attribute ")
            .next()
            .and_then(|text| text.split(' ').next())
            .map(str::to_owned)
    };
    start(theirs) == start(ours) && end(theirs) == end(ours)
}

/// Without those that say nothing new: the same kind, place and text.
fn once(errors: &[Found]) -> Vec<&Found> {
    let mut kept: Vec<&Found> = Vec::new();
    for error in errors {
        if !kept
            .iter()
            .any(|known| known.place() == error.place() && known.message == error.message)
        {
            kept.push(error);
        }
    }
    kept
}

/// The reference repeats an error, word for word.
fn told_once(seen: &Seen) -> bool {
    let theirs = once(&seen.reference.errors);
    let places = |errors: &mut dyn Iterator<Item = &Found>| {
        let mut places: Vec<String> = errors.map(Found::place).collect();
        places.sort();
        places
    };
    theirs.len() < seen.reference.errors.len()
        && seen.ours.outcome == seen.reference.outcome
        && places(&mut theirs.into_iter()) == places(&mut seen.ours.errors.iter())
}

/// After the error that the reference stops at, we report those that do not follow from it.
fn more_errors(seen: &Seen) -> bool {
    let (theirs, ours) = (once(&seen.reference.errors), &seen.ours.errors);
    theirs.len() < ours.len()
        && theirs
            .first()
            .zip(ours.first())
            .is_some_and(|(theirs, ours)| is_placed(theirs, ours))
        && theirs
            .iter()
            .all(|error| ours.iter().any(|known| is_placed(error, known)))
}

/// At one place, or the reference does not say where.
fn is_placed(theirs: &Found, ours: &Found) -> bool {
    theirs.kind == ours.kind && (theirs.line.is_none() || theirs.place() == ours.place())
}

/// A resource without the name of an agent: its id can not be read back.
fn empty_agent(seen: &Seen) -> bool {
    let is_empty = |error: &Found| {
        error.kind == "ResourceException" && error.message.contains("the agent name is empty")
    };
    !seen.ours.errors.is_empty() && seen.ours.errors.iter().all(is_empty)
}

/// The reference does not say where, we do.
fn a_place_more(seen: &Seen) -> bool {
    let (theirs, ours) = (&seen.reference.errors, &seen.ours.errors);
    !theirs.is_empty()
        && theirs.len() == ours.len()
        && theirs
            .iter()
            .zip(ours)
            .all(|(theirs, ours)| is_placed(theirs, ours))
}

/// We say that a name has the wrong case as soon as it is read, the reference when the rest of the definition is right.
fn wrong_case(seen: &Seen) -> bool {
    let is_dedicated = |error: &Found| error.message.contains("must start with a ");
    seen.ours.errors.iter().any(is_dedicated)
        && !seen.reference.errors.iter().any(is_dedicated)
        && seen
            .reference
            .errors
            .iter()
            .all(|error| error.kind == "ParserException")
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
