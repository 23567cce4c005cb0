//! `steward check`: what is wrong with a project, as far as it can be known without running it.
//!
//! In: a [`World`]. Out: the mistakes of syntax and definitions that a compile finds, and beyond these, what is certain in
//! statements and bodies that may never run (`walk`). Where a statement runs in every compile, such a finding is an error;
//! elsewhere the language accepts it, so it is a warning.

mod walk;

use std::collections::HashSet;

use crate::analysis::{Analysis, analyze, with_machine};
use crate::diagnostics::{Warning, identity, in_order};
use crate::world::World;
use crate::{Compiled, Diagnostic};

/// Checks a project. The result has no model and no resources, only diagnostics.
pub fn check(world: &dyn World) -> Compiled {
    crate::on_deep_stack(|| diagnostics_of(&mut analyze(world), world))
        .unwrap_or_else(|reason| crate::broken(&reason))
}

/// The diagnostics of a project that is read; they are taken out of it.
pub(crate) fn diagnostics_of(analysis: &mut Analysis, world: &dyn World) -> Compiled {
    let mut warnings = std::mem::take(&mut analysis.warnings);
    let mut errors = std::mem::take(&mut analysis.errors);
    let mut doubts = Vec::new();
    if !analysis.has_broken_syntax {
        errors.extend(with_machine(
            &mut analysis.program,
            world,
            &mut warnings,
            |machine| {
                let found = walk::walk(machine);
                doubts = found.doubts;
                found.errors
            },
        ));
    }
    let sources = &analysis.program.sources;
    let errors = in_order(errors, sources);
    let reported: HashSet<_> = errors
        .iter()
        .map(|error| identity(error, sources))
        .collect();
    let mut doubts = in_order(doubts, sources);
    doubts.retain(|doubt| !reported.contains(&identity(doubt, sources)));
    doubts.sort_by_key(|doubt| {
        let span = sources.span(doubt.loc);
        span.map(|span| (span.file, span.start))
    });
    let doubts: Vec<Diagnostic> = doubts
        .into_iter()
        .map(|doubt| doubt.into_doubt(sources))
        .collect();
    let mut compiled = crate::report(sources, errors, distinct(warnings));
    compiled.diagnostics.extend(doubts);
    compiled
}

fn distinct(warnings: Vec<Warning>) -> Vec<Warning> {
    let mut kept: Vec<Warning> = Vec::with_capacity(warnings.len());
    for warning in warnings {
        if !kept.contains(&warning) {
            kept.push(warning);
        }
    }
    kept
}
