//! Several mistakes of one run: which count, and which is told first.

use super::{Fail, Failure};
use crate::Location;
use crate::span::{Sources, Span};

/// More errors than this help nobody.
pub const MAX_ERRORS: usize = 1000;

/// The first mistake that was met stays first: it is the one at which the language says that the compile ends. The others
/// follow by importance and place (docs/reference/language.md § 9.1). Consequences and repetitions are left out.
pub fn in_order(found: Vec<Fail>, sources: &Sources) -> Vec<Fail> {
    let mut kept: Vec<Fail> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for error in found {
        if !error.is_consequence() && seen.insert(identity(&error, sources)) {
            kept.push(error);
        }
    }
    if kept.len() > 2 {
        kept[1..].sort_by_cached_key(|error| {
            let line = sources.span(error.loc).map(|span| {
                let file = &sources.files[span.file.0 as usize];
                (file.name.clone(), file.line(span.start))
            });
            (error.importance(), line)
        });
    }
    kept.truncate(MAX_ERRORS);
    kept
}

/// The same place may have several numbers.
type Identity = (&'static str, Option<Span>, Option<Location>, String);

pub fn identity(error: &Failure, sources: &Sources) -> Identity {
    let span = sources.span(error.loc);
    let message = without_addresses(&error.message);
    (error.kind, span, error.place.clone(), message)
}

/// Two unknown values are written with addresses of their own, and what is said of them is the same.
fn without_addresses(message: &str) -> String {
    let mut parts = message.split(" at 0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
    }
    text
}
