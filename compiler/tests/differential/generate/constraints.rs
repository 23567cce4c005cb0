//! Typedefs: what their conditions may say, and what a value meets in one.

use crate::random::Random;
use crate::tree::{Case, Tree, comma, expression, text};
use crate::{expr, parts};

/// A base, values of it, values of something else.
const BASES: &[(&str, &[&str], &[&str])] = &[
    ("int", &["1", "2", "0"], &["\"a\"", "1.5"]),
    ("string", &["\"a\"", "\"b\"", "\"\""], &["1", "null"]),
    ("bool", &["true", "false"], &["1"]),
    ("float", &["1.5", "0.0"], &["\"a\""]),
    ("number", &["1", "1.5"], &["\"a\""]),
    ("list", &["[1]", "[]", "[\"a\", 1]"], &["1", "{}"]),
];

pub fn constraints(random: &mut Random) -> Case {
    let mut lines = Vec::new();
    let mut known: Vec<(String, usize)> = Vec::new();
    for at in 0..random.between(1, 2) {
        let base = random.below(BASES.len());
        let name = format!("t{at}");
        let (on, base) = match known.last() {
            Some((other, base)) if random.chance(40) => (other.clone(), *base),
            _ => (BASES[base].0.to_owned(), base),
        };
        let condition = match random.chance(3) {
            true => expression(*random.pick(&["/a/", "/^[a-c]+$/"])),
            false => condition(random, 0),
        };
        lines.push(parts![
            format!("typedef {name} as {on} matching "),
            condition
        ]);
        known.push((name, base));
    }
    if random.chance(25) {
        lines.push(text(*random.pick(&[
            "x = 1",
            "x = [1, \"a\"]",
            "y = \"a\"",
        ])));
    }
    let mut attributes = Vec::new();
    let mut arguments = Vec::new();
    for (name, base) in &known {
        if random.chance(12) {
            continue;
        }
        let suffix = *random.pick(&["", "", "", "?", "[]"]);
        let (_, right, wrong) = BASES[*base];
        let pool = if random.chance(8) { wrong } else { right };
        let value = *random.pick(pool);
        let value = match (suffix, random.chance(5)) {
            (_, true) => "std::get_env(\"STEWARD_NONE\")".to_owned(),
            ("?", _) if random.chance(20) => "null".to_owned(),
            ("[]", _) => format!("[{value}]"),
            _ => value.to_owned(),
        };
        let attribute = format!("a{name}");
        if random.chance(15) {
            attributes.push(text(format!("{name}{suffix} {attribute} = {value}")));
        } else {
            attributes.push(text(format!("{name}{suffix} {attribute}")));
            arguments.push(parts![format!("{attribute} = "), expression(value)]);
        }
    }
    attributes.push(text("string last = \"\""));
    lines.push(parts!["entity A:", Tree::Block(attributes), "end"]);
    lines.push(text("implement A using std::none"));
    if random.chance(90) {
        lines.push(parts!["a = A(", comma(arguments), ")"]);
    }
    Case::new(Tree::Items {
        separator: "\n",
        items: lines,
    })
}

/// Mostly with `self`, as a condition must.
fn condition(random: &mut Random, depth: usize) -> Tree {
    match random.below(20) {
        0..4 if depth < 3 => {
            let operator = *random.pick(&[" and ", " or "]);
            let (left, right) = (condition(random, depth + 1), condition(random, depth + 1));
            expr!["(", left, operator, right, ")"]
        }
        4 if depth < 3 => expr!["not ", condition(random, depth + 1)],
        5 if depth < 3 => expr![
            "(",
            condition(random, depth + 1),
            " ? ",
            condition(random, depth + 1),
            " : ",
            condition(random, depth + 1),
            ")"
        ],
        6 => expr!["(", value(random, depth + 1), " is defined)"],
        7 => expression(*random.pick(&[
            "self is defined",
            "self.y is defined",
            "x is defined",
            "self",
            "3",
            "true",
            "null",
            "std::length(\"a\") == self",
            "std::contains({}, \"a\")",
            "nothing(self)",
            "A[last = self] == 1",
        ])),
        8 | 9 => expr!["self in ", value(random, depth + 1)],
        _ => {
            let operator = *random.pick(&[
                " == ", " != ", " == ", " != ", " < ", " >= ", " in ", " not in ",
            ]);
            let other = value(random, depth + 1);
            match random.chance(75) {
                true => expr!["self", operator, other],
                false => expr![value(random, depth + 1), operator, other],
            }
        }
    }
}

fn value(random: &mut Random, depth: usize) -> Tree {
    match random.below(16) {
        0..3 => expression("self"),
        3..6 => {
            expression(*random.pick(&["1", "2", "\"a\"", "\"b\"", "1.5", "true", "null", "[]"]))
        }
        6 => expression(*random.pick(&[
            "x",
            "y",
            "std::x",
            "self.y",
            "self.y.z",
            "self[0]",
            "self[\"a\"]",
            "x.y",
            "t0::x",
        ])),
        7 if depth < 4 => {
            let items = (0..random.below(3)).map(|_| value(random, depth + 1));
            expr!["[", comma(items.collect()), "]"]
        }
        8 if depth < 4 => expr!["{\"a\": ", value(random, depth + 1), "}"],
        9 if depth < 4 => {
            let (item, list) = (value(random, depth + 1), value(random, depth + 1));
            let guard = match random.chance(50) {
                true => expr![" if ", condition(random, depth + 1)],
                false => expression(""),
            };
            let of = if random.chance(60) {
                expression("a")
            } else {
                item
            };
            expr!["[", of, " for a in [", list, "]", guard, "]"]
        }
        10 if depth < 4 => {
            let operator = *random.pick(&[" + ", " - ", " * "]);
            expr![
                "(",
                value(random, depth + 1),
                operator,
                value(random, depth + 1),
                ")"
            ]
        }
        11 => expression(*random.pick(&[
            "\"{{self}}\"",
            "f\"{self}\"",
            "\"{{x}}\"",
            "f\"{self.y}\"",
            "std::length(\"abc\")",
            "std::upper(self)",
            "int(self)",
            "string(self)",
            "{\"a\": self}[\"a\"]",
            "[self][0]",
        ])),
        12 if depth < 4 => condition(random, depth + 1),
        _ => expression(*random.pick(&["1", "\"a\"", "[1, \"a\"]", "[self]", "{\"a\": 1}"])),
    }
}
