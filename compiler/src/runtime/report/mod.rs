//! What a compile says about its mistakes.

pub(in crate::runtime) mod blocked_on;
pub(in crate::runtime) mod describe;
pub(in crate::runtime) mod double_assignment;
pub(in crate::runtime) mod error_recovery;
pub(in crate::runtime) mod template_errors;
