//! The compiler at its boundary: source text to output, diagnostics and resources.

mod disk;
mod lang;
mod mangled;
