//! What a run knows: variables, instances, index tables, promises.
//!
//! - `var`, `vars`: a variable in 8 bytes, and all of them with what tiles need to know of each.
//! - `delayed`: variables that get their values bit by bit, or none: relations and list literals.
//! - `store`: giving a value to a variable, with inverses and multiplicities.
//! - `promises`: what an `if` or `for` keeps open until it is decided.
//! - `lookup`: instances by the values of an index, and lookups that wait for one.
//! - `layout`: what a new instance of each entity begins with.
//! - `model`, `resource_ids`: the model as native plugins, the export and Python see it.

pub(in crate::runtime) mod delayed;
pub(in crate::runtime) mod layout;
pub(in crate::runtime) mod lookup;
pub(in crate::runtime) mod model;
pub(in crate::runtime) mod promises;
pub(in crate::runtime) mod resource_ids;
pub(in crate::runtime) mod store;
pub(in crate::runtime) mod var;
pub(in crate::runtime) mod vars;
