//! The compiler at its boundary: source text to output, diagnostics and resources.

mod checklist;
mod disk;
mod lang;
mod mangled;
mod projects;
mod sources;
