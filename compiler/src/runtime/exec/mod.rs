//! How statements and expressions run.

pub(in crate::runtime) mod calls;
pub(in crate::runtime) mod completion;
pub(in crate::runtime) mod comprehension;
pub(in crate::runtime) mod construct;
pub(in crate::runtime) mod control;
pub(in crate::runtime) mod dependencies;
pub(in crate::runtime) mod eval;
pub(in crate::runtime) mod reads;
pub(in crate::runtime) mod run;
pub(in crate::runtime) mod streaming;
pub(in crate::runtime) mod template_view;
pub(in crate::runtime) mod templates;
pub(in crate::runtime) mod validate;
