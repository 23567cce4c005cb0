//! Why a value that an error is about is unknown.

use crate::{Diagnostic, Note, Severity};

/// What the warning of a variable that is not set has around its name.
const MISSING: (&str, &str) = ("Environment variable ", " doesn't exist, returning unknown");
/// More of them than this help nobody.
const MAX_VARIABLES: usize = 3;

/// Says with the first error that is about an unknown value which variables are not set: the warnings that say so stand behind
/// all errors.
pub fn name_missing_variables(diagnostics: &mut [Diagnostic]) {
    let missing = diagnostics.iter().filter_map(|warning| {
        let name = warning.message.strip_prefix(MISSING.0)?;
        let name = name.strip_suffix(MISSING.1)?;
        Some(Note {
            message: format!("the variable `{name}` is not set, so this is unknown"),
            location: warning.location.clone(),
        })
    });
    let missing: Vec<Note> = missing.take(MAX_VARIABLES).collect();
    let is_about = |one: &&mut Diagnostic| {
        one.severity == Severity::Error && one.message.to_lowercase().contains("unknown")
    };
    if let Some(first) = diagnostics.iter_mut().find(is_about) {
        first.notes.extend(missing);
    }
}
