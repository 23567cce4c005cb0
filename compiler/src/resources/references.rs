//! What is known of references once they are exported. Source: docs/reference/language.md § 12.11.

use std::collections::BTreeMap;

use crate::diagnostics::Fail;
use crate::hash::Map;
use crate::types::Value;
use crate::types::reference::RefId;

/// A reference in exported form.
#[derive(Clone, Default)]
pub struct ExportedReference {
    pub id: String,
    /// By id: itself, and all references that its arguments need, each as the dict that is exported.
    pub closure: BTreeMap<String, Value>,
}

/// What was made of references so far. Each is made once: making one of Python may have effects that its module counts on.
pub type ReferenceModels = Map<RefId, ExportedReference>;

/// Why a reference has no exported form.
pub enum NoModel {
    Failed(Fail),
    /// The resource is not exported, says its class.
    Ignored,
    /// The field that holds it is Unknown.
    Unknown,
}
