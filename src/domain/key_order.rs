//! The order of keys in which the reference's database (`jsonb` of PostgreSQL) keeps the dicts that it is given.
//!
//! What comes back from there has it: attributes of resources as handlers get them, attributes of service instances as clients and
//! models get them. Who goes through such a dict, or writes it as text, so gets here what they got there.

use serde_json::{Map, Value};

/// Puts the keys of all dicts in a value in order: shorter ones first, those of one length by their bytes in UTF-8.
pub fn order_keys(value: &mut Value) {
    match value {
        Value::Object(dict) => order_keys_of(dict),
        Value::Array(items) => items.iter_mut().for_each(order_keys),
        _ => {}
    }
}

/// As [`order_keys`], for a dict.
pub fn order_keys_of(dict: &mut Map<String, Value>) {
    if !dict.keys().is_sorted_by_key(|key| rank(key)) {
        let mut entries: Vec<_> = std::mem::take(dict).into_iter().collect();
        entries.sort_unstable_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)));
        dict.extend(entries);
    }
    dict.values_mut().for_each(order_keys);
}

fn rank(key: &str) -> (usize, &str) {
    (key.len(), key)
}
