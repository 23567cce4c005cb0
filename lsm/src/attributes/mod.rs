//! What may be written into an instance: by clients that create and update it, and by compiles that allocate.
//!
//! Every function gives the complete new set, or all that is wrong with what was given, by path. Source: docs/reference/lsm.md
//! § 1.3 to § 1.6, § 3.5.1, § 3.5.2, § 5.4, § 5.5, § 5.11.

mod check;
mod compare;
mod edit;
mod fill;
mod normal;
mod request;
mod values;
mod write;

use serde_json::Value;
use uuid::Uuid;

use crate::definition::{Fields, ServiceEntity};
use crate::{Attributes, Problems};

pub(crate) use check::element_path;
pub(crate) use fill::{default_of, elements, elements_mut, nothing};
pub(crate) use normal::normalize;
pub use request::{Change, Edit, EditOperation};
pub(crate) use values::ANY_OF;
pub use values::is_valid;
pub use write::write;

/// The attributes of a new instance: what a client gives, with defaults for what is missing.
///
/// # Errors
///
/// Everything that is unknown, missing, of a wrong type or value, or not for clients to set.
pub fn create(entity: &ServiceEntity, given: Attributes) -> Result<Attributes, Problems> {
    let mut problems = Problems::default();
    let mut attributes = given;
    check::unknown(&entity.fields, &attributes, "", &mut problems);
    fill::fill(&entity.fields, &mut attributes);
    normal::normalize(&entity.fields, &mut attributes);
    let is_strict = entity.strict_modifier_enforcement;
    compare::created(&entity.fields, &attributes, is_strict, "", &mut problems);
    check::check(&entity.fields, &attributes, "", &mut problems);
    check_identity(entity, &attributes, &mut problems);
    problems.or(attributes)
}

/// The attributes of an instance after a change by a client. `base`: what it has now ([`crate::Instance::base`]).
///
/// # Errors
///
/// Everything that is unknown, missing, of a wrong type or value, or must not change; a kind of change that is not for this
/// service.
pub fn update(
    entity: &ServiceEntity,
    base: &Attributes,
    change: &Change,
) -> Result<Attributes, Problems> {
    let is_strict = entity.strict_modifier_enforcement;
    let mut problems = Problems::default();
    let mut attributes = match change {
        Change::Merge(_) if is_strict => return Err(not_for("with edits or as a whole", "strict")),
        Change::Edits(_) | Change::Replace { .. } if !is_strict => {
            return Err(not_for("by giving attributes at the top", "no strict"));
        }
        Change::Merge(given) => {
            let mut merged = base.clone();
            merged.extend(given.clone());
            merged
        }
        Change::Edits(edits) => {
            compare::removed(&entity.fields, base, edits, &mut problems);
            edited(&entity.fields, base, edits, &mut problems)
        }
        Change::Replace { attributes, .. } => attributes.clone(),
    };
    let is_ignoring = matches!(
        change,
        Change::Replace {
            ignore_read_only: true,
            ..
        }
    );
    if is_strict {
        fill::keep_read_only(&entity.fields, base, &mut attributes, is_ignoring);
    }
    let mut base = base.clone();
    for set in [&mut base, &mut attributes] {
        fill::fill(&entity.fields, set);
        normal::normalize(&entity.fields, set);
    }
    check::unknown(&entity.fields, &attributes, "", &mut problems);
    if is_strict {
        compare::strict(&entity.fields, &base, &attributes, "", &mut problems);
    } else {
        compare::top(&entity.fields, &base, &attributes, &mut problems);
    }
    check::check(&entity.fields, &attributes, "", &mut problems);
    problems.or(attributes)
}

fn not_for(how: &str, modifiers: &str) -> Problems {
    let reason = format!("a service with {modifiers} modifiers is updated {how}");
    crate::Problem::new("", reason).into()
}

/// A complete set as an expert or a migration gives it: whoever may set what does not count, types and arities do.
///
/// # Errors
///
/// Everything that is unknown, missing, or of a wrong type or value.
pub fn complete(entity: &ServiceEntity, given: Attributes) -> Result<Attributes, Problems> {
    let mut problems = Problems::default();
    let mut attributes = given;
    check::unknown(&entity.fields, &attributes, "", &mut problems);
    fill::fill(&entity.fields, &mut attributes);
    normal::normalize(&entity.fields, &mut attributes);
    check::check(&entity.fields, &attributes, "", &mut problems);
    check_identity(entity, &attributes, &mut problems);
    problems.or(attributes)
}

/// Bytes of the value that people know an instance by. It is part of an index, whose rows are small.
const MAX_IDENTITY_BYTES: usize = 1000;

/// An identity never changes, so it is looked at where an instance gets it.
fn check_identity(entity: &ServiceEntity, attributes: &Attributes, problems: &mut Problems) {
    let length = identity(entity, attributes).map_or(0, |text| text.len());
    if let Some(name) = entity.service_identity.as_ref()
        && length > MAX_IDENTITY_BYTES
    {
        let reason = format!(
            "has {length} bytes: what instances are known by has at most {MAX_IDENTITY_BYTES}"
        );
        problems.add(name, reason);
    }
}

/// What is wrong with a set that is stored, of an instance that stays what it is.
#[must_use]
pub fn problems(entity: &ServiceEntity, stored: &Attributes) -> Problems {
    let mut problems = Problems::default();
    check::check(&entity.fields, stored, "", &mut problems);
    problems
}

/// A set with edits applied, and nothing checked but the edits themselves.
///
/// # Errors
///
/// Every edit that can not be done.
pub fn edit(
    entity: &ServiceEntity,
    base: &Attributes,
    edits: &[Edit],
) -> Result<Attributes, Problems> {
    let mut problems = Problems::default();
    let attributes = edited(&entity.fields, base, edits, &mut problems);
    problems.or(attributes)
}

fn edited(
    fields: &Fields,
    base: &Attributes,
    edits: &[Edit],
    problems: &mut Problems,
) -> Attributes {
    let mut set = Value::Object(base.clone());
    edit::apply(fields, &mut set, edits, problems);
    for (name, value) in set.as_object().into_iter().flatten() {
        if is_deeper(value, MAX_DEPTH) {
            let reason = format!("is nested more than {MAX_DEPTH} levels deep");
            problems.add(crate::dict_path::escaped(name), reason);
        }
    }
    match set {
        Value::Object(mut attributes) => {
            normal::normalize(fields, &mut attributes);
            attributes
        }
        // No edit can replace the whole set by something else.
        _ => Attributes::new(),
    }
}

/// Levels that the value of an attribute has at most: whoever reads a stored record follows it by recursion, as compiles do.
/// (A value that is given as a whole is within the same limit, that of the body of a request; paths of edits add to it.)
const MAX_DEPTH: usize = 100;

/// Whether a value has more levels than this. It goes no deeper than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let inner = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(inner),
        Value::Object(fields) => fields.values().any(inner),
        _ => false,
    }
}

/// Fills in what is missing: defaults, and nothing where there may be nothing (docs/reference/lsm.md § 1.3.4).
pub fn fill(entity: &ServiceEntity, attributes: &mut Attributes) {
    fill::fill(&entity.fields, attributes);
}

/// The value by which people know an instance, as text; `None`: its service has no identity.
#[must_use]
pub fn identity(entity: &ServiceEntity, attributes: &Attributes) -> Option<String> {
    let value = attributes.get(entity.service_identity.as_ref()?)?;
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Another instance that a set leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where in the set.
    pub path: String,
    /// The service that the other instance must be of.
    pub service_entity: String,
    /// The other instance.
    pub id: Uuid,
}

/// All instances that a set leads to, in embedded entities, too. They must exist, be of the service and not have ended; only
/// the inventory knows.
#[must_use]
pub fn references(entity: &ServiceEntity, attributes: &Attributes) -> Vec<Reference> {
    let mut found = Vec::new();
    check::references(&entity.fields, attributes, "", &mut found);
    found
}
