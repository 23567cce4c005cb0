//! What a plan does not show: values that are secret, or may be.
//!
//! An attribute is secret when its name says so, or when a reference fills it: what the executor resolves on its target,
//! such as a password of the environment, is in no version, and must not get into a terminal's history either. That it
//! changes is shown. Handlers in Python hide both before they answer (`python/steward_host/hidden.py` has the same
//! words), so this is for versions that a server of an earlier time has compared.

use std::collections::BTreeSet;

use serde_json::Value;

pub(super) use crate::executor::handler::HIDDEN;

/// Words of a name that holds a secret; one that has several words is split at `_`, `-` and capital letters.
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "apikey",
];

/// Pairs of words that do so together.
const PAIRS: &[(&str, &str)] = &[
    ("private", "key"),
    ("api", "key"),
    ("access", "key"),
    ("auth", "key"),
    ("ssh", "key"),
];

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

fn is_secret(name: &str) -> bool {
    let words = words(name);
    let has_word = words.iter().any(|word| WORDS.contains(&word.as_str()));
    let mut pairs = words
        .windows(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()));
    has_word || pairs.any(|pair| PAIRS.contains(&pair))
}

/// `dbPassword` and `db_password` are `db` and `password`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in name.chars() {
        let is_boundary = !character.is_alphanumeric() || (character.is_uppercase() && was_small);
        if is_boundary {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        was_small = character.is_lowercase() || character.is_numeric();
    }
    words
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
    use super::*;

    /// The texts in quotes of an assignment of Python, up to the closing bracket of its call.
    fn quoted(source: &str, name: &str) -> Vec<String> {
        let (_, value) = source
            .split_once(&format!("\n{name} = frozenset("))
            .expect("it is assigned");
        let (value, _) = value.split_once("}").expect("it is a set");
        let texts = value.split('"').skip(1).step_by(2);
        texts.map(str::to_owned).collect()
    }

    /// What a plan hides, handlers in Python hide: both have the same words.
    #[test]
    fn python_has_the_same_words() {
        const SOURCE: &str = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/python/steward_host/hidden.py"
        ));
        assert_eq!(quoted(SOURCE, "_WORDS"), WORDS);
        let pairs = PAIRS.iter().flat_map(|(first, second)| [*first, *second]);
        assert_eq!(quoted(SOURCE, "_PAIRS"), pairs.collect::<Vec<_>>());
        assert!(SOURCE.contains(&format!("\nHIDDEN = \"{HIDDEN}\"\n")));
    }
    use serde_json::json;

    #[test]
    fn names_that_hold_secrets_are_known_by_their_words() {
        for name in [
            "password",
            "db_password",
            "dbPassword",
            "api-token",
            "private_key",
            "sshKey",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "content",
            "key",
            "passwords_file_mode_x",
            "tokenizer",
            "path",
            "public_key",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

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
