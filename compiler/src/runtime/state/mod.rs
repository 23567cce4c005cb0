//! What a run knows: variables, instances, scopes, index tables.

pub(in crate::runtime) mod delayed;
pub(in crate::runtime) mod layout;
pub(in crate::runtime) mod lookup;
pub(in crate::runtime) mod model;
pub(in crate::runtime) mod promises;
pub(in crate::runtime) mod resource_ids;
pub(in crate::runtime) mod store;
pub(in crate::runtime) mod var;
pub(in crate::runtime) mod vars;
