//! What a plan does not show: values that are secret, or may be.
//!
//! An attribute is secret when its name says so, or when a reference fills it: what the executor resolves on its target,
//! such as a password of the environment, is in no version, and must not get into a terminal's history either. That it
//! changes is shown. A server hides both before it writes results, so this is for versions that one of an earlier time has
//! compared.

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) use crate::executor::handler::HIDDEN;
use crate::executor::secret_names::is_secret;

/// Replaces the secret values of a difference; `attributes` are those of the resource in its version.
pub(super) fn hide(difference: &mut Value, attributes: &Value) {
    let referenced = filled_by_references(attributes);
    let changes = difference["attributes"].as_object_mut();
    for (name, change) in changes.into_iter().flatten() {
        if !is_secret(name) && !referenced.contains(name) {
            continue;
        }
        for side in [
            "from_value",
            "to_value",
            "from_value_compare",
            "to_value_compare",
        ] {
            let is_there = change
                .get(side)
                .is_some_and(|value| !value.is_null() && value != "");
            if is_there {
                change[side] = HIDDEN.into();
            }
        }
    }
}

/// The attributes that mutators replace when the resource is deployed: each has the path of what it fills among its
/// arguments. Source: docs/reference/language.md § 12.
fn filled_by_references(attributes: &Value) -> BTreeSet<String> {
    let mutators = attributes["mutators"].as_array().into_iter().flatten();
    let arguments = mutators.filter_map(|mutator| mutator["args"].as_array());
    let paths = arguments
        .flatten()
        .filter(|argument| argument["name"] == "destination");
    let paths = paths.filter_map(|argument| argument["value"].as_str());
    paths
        .map(|path| path.split(['.', '[']).next().unwrap_or(path).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_reference_fills_is_hidden_and_what_is_not_there_stays_empty() {
        let change = |from: Value, to: Value| json!({"from_value": from, "to_value": to});
        let mut difference = json!({"attributes": {
            "content": change(json!(null), json!("resolved")), "path": change(json!("a"), json!("b")),
        }});
        let attributes = json!({"mutators": [{"type": "core::Replace", "args": [
            {"type": "resource", "name": "resource"}, {"type": "literal", "name": "destination", "value": "content.a"},
        ]}]});
        hide(&mut difference, &attributes);
        assert_eq!(
            difference["attributes"]["content"],
            change(json!(null), json!(HIDDEN))
        );
        assert_eq!(
            difference["attributes"]["path"],
            change(json!("a"), json!("b"))
        );
    }
}
