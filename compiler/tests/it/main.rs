//! The compiler at its boundary: source text to output, diagnostics and resources.

mod check;
mod checklist;
mod determinism;
mod diagnostics;
mod disk;
mod hosts;
mod inputs;
mod lang;
mod mangled;
mod meaning;
mod modules;
mod partial;
mod projects;
mod published;
mod robust;
mod sources;
mod surface;
