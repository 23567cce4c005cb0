//! The compiler at its boundary: source text to output, diagnostics and resources.

mod check;
mod diagnostics;
mod lang;
mod mangled;
