use super::*;

/// A small generator of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Whatever comes out of a delivery may be logged.
fn check_harmless(delivery: &Delivery, forge: Forge) {
    let text = match delivery.parse(forge) {
        Ok(Hook { delivery, event }) => {
            if let Event::Push(push) = &event {
                assert!(push.reference.starts_with("refs/"));
                assert_eq!(push.deleted, push.after.is_none());
                assert!(!push.repository.full_name.chars().any(char::is_control));
                assert!(!push.reference.chars().any(char::is_control));
            }
            format!("{delivery:?} {event:?}")
        }
        Err(error) => error.to_string(),
    };
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.len() < 10_000);
    let _ = delivery.verify(forge);
}

/// Input: payloads with bytes changed, cut, doubled at random (docs/reference/security.md § 3.4). Answer: an error or a harmless push, no panic.
#[test]
fn bytes_changed_at_random_never_panic() {
    let mut numbers = Numbers(0x5eed_1234_5678_9abc);
    for name in all_fixtures() {
        let original = Delivery::of(&name);
        for _ in 0..150 {
            let mut delivery = original.clone();
            for _ in 0..=numbers.below(4) {
                let (at, length) = (numbers.below(delivery.body.len()), numbers.below(40));
                let end = (at + length).min(delivery.body.len());
                match numbers.below(5) {
                    0 => delivery.body[at] = numbers.below(256) as u8,
                    1 => delivery.body.truncate(at),
                    2 => drop(delivery.body.drain(at..end)),
                    3 => {
                        let copy = delivery.body[at..end].to_owned();
                        delivery.body.splice(at..at, copy);
                    }
                    _ => delivery.body[at] = b"{}[]\",:\\0-e"[numbers.below(11)],
                }
                if delivery.body.is_empty() {
                    break;
                }
            }
            check_harmless(&delivery, forge_of(&name));
            check_harmless(&delivery, Forge::Forgejo);
        }
    }
}

/// Input: each field of a payload as something else: null, numbers, escapes, 100 KB of text (docs/reference/security.md § 3.5). Answer: an error or a harmless push, no panic.
#[test]
fn any_value_in_place_of_any_other_never_panics() {
    let hostile = serde_json::json!([
        null, true, 0, -1, 1.5e300, 18446744073709551615u64, "", "\n\u{1b}[2J", "refs/heads/\u{202e}x",
        "0".repeat(40), "0".repeat(64), "x".repeat(100_000), [], {}, [[[]]], {"ref": "refs/heads/x"}
    ]);
    for name in [
        "github/push_branch",
        "github/ping",
        "gitea/push_branch",
        "gitea/delete_branch",
    ] {
        let original = Delivery::of(name);
        let payload: serde_json::Value = serde_json::from_slice(&original.body).unwrap();
        let mut paths = Vec::new();
        collect_paths(&payload, "", 3, &mut paths);
        for path in &paths {
            for value in hostile.as_array().unwrap() {
                let mut changed = payload.clone();
                *changed.pointer_mut(path).unwrap() = value.clone();
                let delivery = Delivery {
                    body: changed.to_string().into_bytes(),
                    ..original.clone()
                };
                check_harmless(&delivery, forge_of(name));
            }
        }
    }
}

/// The JSON pointers of all values not deeper than `depth`.
fn collect_paths(value: &serde_json::Value, path: &str, depth: usize, paths: &mut Vec<String>) {
    paths.push(path.to_owned());
    if depth == 0 {
        return;
    }
    if let Some(object) = value.as_object() {
        for (key, child) in object
            .iter()
            .filter(|(key, _)| !key.ends_with("_url") || *key == "clone_url")
        {
            collect_paths(child, &format!("{path}/{key}"), depth - 1, paths);
        }
    }
}
