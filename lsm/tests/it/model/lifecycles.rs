//! Random numbers, and random lifecycles that the checks of definitions accept.

use serde_json::{Value, json};

/// Numbers that look random and are the same for the same seed (the generator of SplitMix).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }
}

const SETS: [Option<&str>; 4] = [None, Some("candidate"), Some("active"), Some("rollback")];
const OPERATIONS: [Option<&str>; 8] = [
    None,
    None,
    None,
    Some("promote"),
    Some("rollback"),
    Some("clear candidate"),
    Some("clear active"),
    Some("clear rollback"),
];

/// A lifecycle of a few states, the last of which ends an instance.
pub fn lifecycle(random: &mut Random) -> Value {
    let n = 3 + random.below(6);
    let states: Vec<Value> = (0..n)
        .map(|at| {
            let is_last = at + 1 == n;
            json!({
                "name": format!("s{at}"), "deleted": is_last,
                "export_resources": !is_last && random.percent(60),
                "purge_resources": !is_last && random.percent(15),
                "validate_self": random.pick(&SETS), "validate_others": random.pick(&SETS),
            })
        })
        .collect();
    let mut transfers = Vec::new();
    for source in 0..n - 1 {
        // An automatic transfer without validation goes ahead only, so none leads in a circle.
        match random.below(4) {
            0 => transfers.push(transfer(
                random,
                &states,
                source,
                source + 1,
                json!({"auto": true}),
            )),
            1 | 2 => {
                let also = random.percent(20);
                let flags = json!({"auto": true, "validate": true, "api_set_state": also});
                transfers.push(transfer(random, &states, source, 0, flags));
            }
            _ => {}
        }
        for (trigger, chance) in [("resource_based", 70), ("on_update", 50), ("on_delete", 50)] {
            if random.percent(chance) {
                transfers.push(transfer(random, &states, source, 0, json!({trigger: true})));
            }
        }
        for _ in 0..random.below(3) {
            let validates = random.percent(50);
            let flags = json!({"api_set_state": true, "validate": validates});
            let made = transfer(random, &states, source, 0, flags);
            let is_new = |known: &Value| {
                ["source", "target"]
                    .iter()
                    .any(|name| known[name] != made[name])
                    || known["api_set_state"] != true
            };
            if transfers.iter().all(is_new) {
                transfers.push(made);
            }
        }
    }
    json!({"name": "random", "initial_state": "s0", "states": states, "transfers": transfers})
}

fn transfer(
    random: &mut Random,
    states: &[Value],
    source: usize,
    least: usize,
    flags: Value,
) -> Value {
    let target = least + random.below(states.len() - least);
    let error = random.below(states.len());
    let needs_error =
        flags["validate"] == true || (flags["resource_based"] == true && random.percent(80));
    let same = |random: &mut Random, end: usize| {
        let is_like = |name: &str| states[source][name] == states[end][name];
        is_like("export_resources") && is_like("purge_resources") && random.percent(50)
    };
    let mut made = json!({
        "source": states[source]["name"], "target": states[target]["name"],
        "target_operation": random.pick(&OPERATIONS), "target_same_desired_state": same(random, target),
    });
    let fields = made.as_object_mut().unwrap();
    if needs_error {
        fields.insert("error".to_owned(), states[error]["name"].clone());
        fields.insert(
            "error_operation".to_owned(),
            json!(random.pick(&OPERATIONS)),
        );
        fields.insert(
            "error_same_desired_state".to_owned(),
            json!(same(random, error)),
        );
    }
    if flags["auto"] == true && random.percent(30) {
        fields.insert("config_name".to_owned(), json!(random.pick(&["c0", "c1"])));
    }
    fields.extend(flags.as_object().unwrap().clone());
    made
}
