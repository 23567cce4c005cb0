//! The compiler at its boundary: source text to output, diagnostics and resources.

mod ahead;
#[allow(dead_code, reason = "the differential test uses the rest")]
#[path = "../differential/answer.rs"]
mod answer;
mod check;
mod checklist;
mod declarations;
mod determinism;
#[path = "../differential/deviations.rs"]
mod deviations;
mod deviations_of;
mod diagnostics;
mod disk;
mod guessed_conditions;
mod hosts;
mod inputs;
mod installed;
mod lang;
mod mangled;
mod meaning;
mod modules;
mod names;
mod partial;
mod projects;
mod published;
mod references;
mod remembered;
mod remembered_catching;
mod remembered_kept;
mod rendering;
mod robust;
mod services;
mod sources;
mod surface;
mod template_filters;
mod tiles;
mod undefined;
