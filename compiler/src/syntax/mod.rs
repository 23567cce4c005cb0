//! One file at a time: text to tokens to a syntax tree. Never fails; mistakes are kept beside what was understood.

pub mod ast;
mod lexer;
mod parser;
pub mod strings;
pub mod token;

pub use lexer::tokens;
pub use parser::{TokenRole, TokenRoles, parse, parse_builtin, parse_marked};
