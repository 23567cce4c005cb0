//! The compiler at its boundary: source text to output, diagnostics and resources.

mod diagnostics;
mod lang;
mod mangled;
