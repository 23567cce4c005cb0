//! What a compile says of its mistakes, within limits: Python code of a repository may raise an error of any size, and warn
//! without end, and each word of it is held by the server, logged and stored.

use std::borrow::Cow;

use steward_compiler::{Diagnostic, Note, Severity};

use super::frames::Reported;
use crate::domain::without_middle;

/// Diagnostics of a compile; errors go before warnings.
const MAX_DIAGNOSTICS: usize = 1000;
/// Bytes of all of them, in all their forms.
const TOTAL_BYTES: usize = 4 << 20;
/// Bytes of one text of a diagnostic.
const TEXT_BYTES: usize = 16 << 10;
/// Bytes of all texts of a diagnostic, those of its causes included.
const DIAGNOSTIC_BYTES: usize = 64 << 10;
/// Bytes of a diagnostic as it is shown: with lines of the source, which may be long.
const SHOWN_BYTES: usize = 256 << 10;

/// What is reported of the diagnostics, in their order, and how many of them are left out.
pub(super) fn bounded(
    diagnostics: &[Diagnostic],
    report: impl Fn(&Diagnostic) -> Reported,
) -> Vec<Reported> {
    let mut kept = Vec::new();
    let mut n_left = TOTAL_BYTES;
    let mut left_out = |wanted: Severity| {
        let mut n_left_out = 0;
        let of_severity = diagnostics.iter().enumerate();
        for (at, diagnostic) in of_severity.filter(|(_, one)| one.severity == wanted) {
            if kept.len() == MAX_DIAGNOSTICS || n_left == 0 {
                n_left_out += 1;
                continue;
            }
            let reported = shown_within(report(&shortened(diagnostic)));
            n_left = n_left.saturating_sub(n_bytes(&reported));
            kept.push((at, reported));
        }
        n_left_out
    };
    let (n_errors, n_warnings) = (left_out(Severity::Error), left_out(Severity::Warning));
    kept.sort_by_key(|(at, _)| *at);
    let mut kept: Vec<Reported> = kept.into_iter().map(|(_, reported)| reported).collect();
    if n_errors + n_warnings > 0 {
        let message =
            format!("{n_errors} more errors and {n_warnings} more warnings are left out here");
        kept.push(Reported::warning("LeftOut", message));
    }
    kept
}

fn n_bytes(reported: &Reported) -> usize {
    reported.json.len() + reported.plain.len() + reported.colored.len()
}

/// A diagnostic whose texts are not longer than they may be.
fn shortened(diagnostic: &Diagnostic) -> Cow<'_, Diagnostic> {
    if length(diagnostic) <= TEXT_BYTES {
        return Cow::Borrowed(diagnostic);
    }
    let mut n_left = DIAGNOSTIC_BYTES;
    Cow::Owned(cut(diagnostic, &mut n_left))
}

fn length(diagnostic: &Diagnostic) -> usize {
    let notes = diagnostic.notes.iter().map(|note| note.message.len() + 1);
    let optional = [&diagnostic.help, &diagnostic.raised];
    let optional = optional.into_iter().flatten().map(String::len);
    let causes = diagnostic.causes.iter().map(|cause| length(cause) + 1);
    let values = diagnostic.values.iter().flat_map(|both| both.iter());
    let values = values.map(|value| value.to_string().len());
    let own = diagnostic.kind.len() + diagnostic.message.len();
    own + notes
        .chain(optional)
        .chain(causes)
        .chain(values)
        .sum::<usize>()
}

/// A copy with texts of at most so many bytes, which are taken from what is left; what comes when there is nothing left is left
/// out.
fn cut(diagnostic: &Diagnostic, n_left: &mut usize) -> Diagnostic {
    let mut text = |text: &String| {
        let limit = TEXT_BYTES.min(*n_left);
        *n_left = n_left.saturating_sub(text.len().max(1));
        without_middle(text, limit).into_owned()
    };
    let (kind, message) = (text(&diagnostic.kind), text(&diagnostic.message));
    let help = diagnostic.help.as_ref().map(&mut text);
    let raised = diagnostic.raised.as_ref().map(&mut text);
    let mut notes = Vec::new();
    for note in &diagnostic.notes {
        if *n_left > 0 {
            let limit = TEXT_BYTES.min(*n_left);
            *n_left = n_left.saturating_sub(note.message.len().max(1));
            notes.push(Note {
                message: without_middle(&note.message, limit).into_owned(),
                location: note.location.clone(),
            });
        }
    }
    let mut causes = Vec::new();
    for cause in &diagnostic.causes {
        if *n_left > 0 {
            causes.push(cut(cause, n_left));
        }
    }
    Diagnostic {
        severity: diagnostic.severity,
        kind,
        message,
        location: diagnostic.location.clone(),
        notes,
        help,
        raised,
        // Half a value is none; the message shows both of them.
        values: None,
        causes,
    }
}

/// A diagnostic whose excerpts of the source are not longer than they may be.
fn shown_within(mut reported: Reported) -> Reported {
    if reported.plain.len() > SHOWN_BYTES || reported.colored.len() > SHOWN_BYTES {
        reported.plain = without_middle(&reported.plain, TEXT_BYTES).into_owned();
        // A colour that is cut would go on.
        reported.colored = reported.plain.clone();
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(severity: Severity, message: String) -> Diagnostic {
        Diagnostic {
            severity,
            kind: "ExternalException".to_owned(),
            message,
            location: None,
            notes: Vec::new(),
            help: None,
            raised: None,
            values: None,
            causes: Vec::new(),
        }
    }

    fn report(diagnostic: &Diagnostic) -> Reported {
        Reported {
            is_error: diagnostic.severity == Severity::Error,
            json: diagnostic.to_json().to_string(),
            plain: format!("{diagnostic:?}"),
            colored: format!("{diagnostic:?}"),
        }
    }

    /// Input: 100 000 warnings of a plugin, and a few errors behind them (docs/reference/security.md § 4.22). Answer: the errors and the first of the warnings are told, and how many are left out.
    #[test]
    fn of_too_many_diagnostics_the_errors_and_the_first_are_told() {
        let warning = |n: usize| diagnostic(Severity::Warning, format!("w{n}"));
        let mut all: Vec<Diagnostic> = (0..100_000).map(warning).collect();
        all.push(diagnostic(Severity::Error, "wrong".to_owned()));
        let reported = bounded(&all, report);
        assert_eq!(reported.len(), MAX_DIAGNOSTICS + 1);
        assert!(reported[0].plain.contains("w0"), "{}", reported[0].plain);
        assert!(reported[MAX_DIAGNOSTICS - 1].is_error);
        assert_eq!(
            reported[MAX_DIAGNOSTICS].plain,
            "0 more errors and 99001 more warnings are left out here"
        );
    }

    #[test]
    fn few_diagnostics_are_told_as_they_are() {
        let all = [
            diagnostic(Severity::Warning, "one".to_owned()),
            diagnostic(Severity::Error, "two".to_owned()),
        ];
        let reported = bounded(&all, report);
        let wanted: Vec<String> = all.iter().map(|one| report(one).plain).collect();
        let reported: Vec<String> = reported.into_iter().map(|one| one.plain).collect();
        assert_eq!(reported, wanted);
    }

    /// Input: errors whose messages, notes and causes have 20 MB each (docs/reference/security.md § 4.22). Answer: the begin and the end of each text, and all together have some MiB.
    #[test]
    fn errors_without_end_are_cut_with_a_mark() {
        let long = || format!("begin{}end", "x".repeat(20 << 20));
        let mut one = diagnostic(Severity::Error, long());
        one.causes = vec![diagnostic(Severity::Error, long()); 2];
        one.notes = vec![
            Note {
                message: long(),
                location: None,
            };
            2
        ];
        let reported = bounded(std::slice::from_ref(&one), report);
        let text = &reported[0].plain;
        assert!(
            n_bytes(&reported[0]) < 4 * DIAGNOSTIC_BYTES,
            "{}",
            n_bytes(&reported[0])
        );
        assert!(text.contains("begin") && text.contains("end"), "{text}");
        assert!(text.contains("bytes were left out here"), "{text}");
        let many = vec![diagnostic(Severity::Error, "y".repeat(TEXT_BYTES)); 2000];
        let reported = bounded(&many, report);
        let all: usize = reported.iter().map(n_bytes).sum();
        assert!(all < TOTAL_BYTES + SHOWN_BYTES, "{all}");
        assert!(reported.last().unwrap().plain.contains("more errors"));
    }
}
