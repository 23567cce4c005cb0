//! Rules for definitions. Source: docs/reference/lsm.md § 1.4.2, § 1.6, § 4.5.

use std::collections::BTreeSet;

use super::{EmbeddedEntity, Fields, Modifier, ServiceEntity, check_lifecycle};
use crate::Problems;

/// The types that an identity may have.
const IDENTITY_TYPES: [&str; 2] = ["string", "int"];

pub(super) fn check(entity: &ServiceEntity) -> Result<(), Problems> {
    let mut problems = Problems::default();
    name(entity, &mut problems);
    names(&entity.fields, "", &mut problems);
    if entity.strict_modifier_enforcement {
        for embedded in &entity.fields.embedded_entities {
            check_embedded(embedded, "", &mut problems);
        }
    }
    identity(entity, &mut problems);
    owner(entity, &mut problems);
    check_lifecycle::check(entity, &mut problems);
    problems.or(())
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The name of a service is a part of URLs, of resource sets and of what people read.
fn name(entity: &ServiceEntity, problems: &mut Problems) {
    const MOST_BYTES: usize = 256;
    let name = &entity.name;
    if name.len() > MOST_BYTES {
        problems.add("name", format!("has more than {MOST_BYTES} bytes"));
    } else if let Some(bad) = name.chars().find(|c| c.is_control() || *c == '/') {
        problems.add(
            "name",
            format!("has the character {bad:?}, which no name of a service can have"),
        );
    } else if name.trim().is_empty() || name == "." || name == ".." {
        // Clients take the last two out of URLs.
        problems.add(
            "name",
            format!("is {name:?}, which no service can be called"),
        );
    }
}

/// Names are used once at each level, and limits have an order.
fn names(fields: &Fields, path: &str, problems: &mut Problems) {
    let attributes = fields.attributes.iter().map(|one| &one.name);
    let embedded = fields.embedded_entities.iter().map(|one| &one.name);
    let relations = fields.inter_service_relations.iter().map(|one| &one.name);
    let mut seen = BTreeSet::new();
    for name in attributes.chain(embedded).chain(relations) {
        if !seen.insert(name) {
            problems.add(join(path, name), "is there twice");
        }
    }
    for relation in &fields.inter_service_relations {
        limits(
            &join(path, &relation.name),
            relation.lower_limit,
            relation.upper_limit,
            problems,
        );
    }
    for embedded in &fields.embedded_entities {
        let path = join(path, &embedded.name);
        limits(&path, embedded.lower_limit, embedded.upper_limit, problems);
        names(&embedded.fields, &path, problems);
    }
}

fn limits(path: &str, lower: u64, upper: Option<u64>, problems: &mut Problems) {
    if upper.is_some_and(|upper| upper < lower) {
        problems.add(path, "has an upper_limit below its lower_limit");
    }
}

/// With strict modifiers, elements of lists have keys, keys never change, and below `r` all is `r`.
fn check_embedded(embedded: &EmbeddedEntity, above: &str, problems: &mut Problems) {
    let path = join(above, &embedded.name);
    let keys = embedded
        .fields
        .key_attributes
        .as_deref()
        .unwrap_or_default();
    if keys.is_empty() && embedded.upper_limit != Some(1) {
        problems.add(
            &path,
            "has no key_attributes, which tell the elements of its list apart",
        );
    }
    for key in keys {
        let mut attributes = embedded.fields.attributes.iter();
        match attributes.find(|one| one.name == *key) {
            None => problems.add(
                &path,
                format!("has the key attribute {key}, which it does not have"),
            ),
            // Below a relation that only compiles write, they write the keys, too.
            Some(one)
                if one.modifier != Modifier::AtCreation
                    && embedded.modifier != Modifier::ReadOnly =>
            {
                let reason = format!(
                    "has the modifier {}, but a key attribute must be rw: it tells elements apart, so it never changes",
                    one.modifier.as_str()
                );
                problems.add(join(&path, key), reason);
            }
            Some(_) => {}
        }
    }
    if embedded.modifier == Modifier::ReadOnly {
        check_read_only(&embedded.fields, &path, problems);
    }
    for inner in &embedded.fields.embedded_entities {
        check_embedded(inner, &path, problems);
    }
}

fn check_read_only(fields: &Fields, path: &str, problems: &mut Problems) {
    for (name, modifier) in fields.modifiers() {
        if modifier != Modifier::ReadOnly {
            let reason = format!(
                "has the modifier {}, but must be r: it is below a relation that is r",
                modifier.as_str()
            );
            problems.add(join(path, name), reason);
        }
    }
}

fn identity(entity: &ServiceEntity, problems: &mut Problems) {
    let Some(name) = &entity.service_identity else {
        return;
    };
    let found = entity
        .fields
        .attributes
        .iter()
        .find(|one| one.name == *name);
    let is_right = found.is_some_and(|one| {
        one.modifier == Modifier::AtCreation && IDENTITY_TYPES.contains(&one.value_type.as_str())
    });
    if !is_right {
        let reason = format!(
            "is {name}, which must be an attribute of the type string or int, not null, with the modifier rw"
        );
        problems.add("service_identity", reason);
    }
}

fn owner(entity: &ServiceEntity, problems: &mut Problems) {
    let (owner, relation) = match (&entity.owner, &entity.relation_to_owner) {
        (Some(owner), Some(relation)) => (owner, relation),
        (None, None) => return,
        _ => {
            problems.add(
                "relation_to_owner",
                "and owner are given together, or neither of them",
            );
            return;
        }
    };
    let mut relations = entity.fields.inter_service_relations.iter();
    let leads_there = |one: &&super::InterServiceRelation| {
        one.name == *relation && one.upper_limit == Some(1) && one.entity_type == *owner
    };
    if !relations.any(|one| leads_there(&one)) {
        let reason = format!("is {relation}, which is no relation to one {owner}, the owner");
        problems.add("relation_to_owner", reason);
    }
}
