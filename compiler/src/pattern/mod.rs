//! Regular expressions as Python reads them. The parser needs them to find mistakes, values to match.

mod python;
mod syntax;

pub use python::*;
