//! What a compile says about a model with mistakes.
//!
//! - `error_recovery`: which other mistakes there are, besides the first one that ended the run.
//! - `double_assignment`: the error of a variable that is set twice, with both places.
//! - `blocked_on`: why a variable has no value, as a chain of who waits for whom.
//! - `describe`: instances and expressions as text.
//! - `template_errors`: errors of the template engine in the words of a model.

pub(in crate::runtime) mod blocked_on;
pub(in crate::runtime) mod describe;
pub(in crate::runtime) mod double_assignment;
pub(in crate::runtime) mod error_recovery;
pub(in crate::runtime) mod template_errors;
