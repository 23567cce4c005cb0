//! What each kind of statement and expression does.
//!
//! An expression is met twice. *Emitting* it asks which variables it depends on, and creates the
//! tasks that provide those which do not exist yet: a proxy for an attribute, a temporary for a
//! call (`dependencies`). *Evaluating* it, when all of them are ready, reads them again in the same
//! order and computes the value (`eval`). The two walks over the expression have to agree on that
//! order; `reads` counts for the few places where one has to skip a part.
//!
//! - `run`: emits statements, and runs steps.
//! - `control`, `comprehension`, `construct`, `calls`: what loops, conditions, constructors and
//!   plugins do.
//! - `streaming`: elements of lists that are handed on before the list is complete.
//! - `validate`: whether a value has a type, conditions of typedefs included.
//! - `completion`: what must hold when nothing is left to do.
//! - `templates`, `template_view`: Jinja templates over the running model.

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
