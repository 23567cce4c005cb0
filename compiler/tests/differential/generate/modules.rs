//! Models of several files: what is visible where, and in which order files count.

use crate::parts;
use crate::random::Random;
use crate::tree::{Case, Tree, comma, expression, text};

const FILES: &[(&str, &str)] = &[
    ("m", "libs/m/model/_init.cf"),
    ("m::sub", "libs/m/model/sub.cf"),
    ("m::sub::deep", "libs/m/model/sub/deep.cf"),
    ("m::other", "libs/m/model/other/_init.cf"),
    ("k", "libs/k/model/_init.cf"),
    ("k::sub", "libs/k/model/sub/_init.cf"),
];

pub fn modules(random: &mut Random) -> Case {
    let main = file(random, "__config__");
    let mut case = Case::new(main);
    for module in ["m", "k"] {
        // Of both generations.
        let (file, metadata) = match random.chance(50) {
            true => (
                "module.yml",
                format!("name: {module}\nversion: 1.0.0\nlicense: x\n"),
            ),
            false => (
                "setup.cfg",
                format!(
                    "[metadata]\nname = inmanta-module-{module}\nversion = 1.0.0\nlicense = x\n"
                ),
            ),
        };
        case.files
            .push((format!("libs/{module}/{file}"), text(metadata)));
    }
    for (name, path) in FILES {
        // `m/model/sub.cf` or a directory of that name, so that `deep` has a parent.
        if matches!(*name, "m" | "k") || random.chance(85) {
            case.files.push(((*path).to_owned(), file(random, name)));
        }
    }
    case
}

fn file(random: &mut Random, own: &str) -> Tree {
    let mut lines = Vec::new();
    let mut visible: Vec<String> = vec![own.to_owned()];
    for _ in 0..random.between(usize::from(own == "__config__"), 3) {
        let target = random.pick(FILES).0;
        if random.chance(25) {
            let alias = *random.pick(&["a", "b", "m", "sub"]);
            lines.push(text(format!("import {target} as {alias}")));
            visible.push(alias.to_owned());
        } else if random.chance(96) {
            let line = text(format!("import {target}"));
            if !lines.contains(&line) || random.chance(10) {
                lines.push(line);
                visible.push(target.to_owned());
            }
        } else {
            lines.push(text("import missing"));
        }
    }
    if random.chance(80) {
        lines.push(parts![
            "entity A",
            extends(random, &visible),
            ":",
            Tree::Block(vec![text("string n = \"d\"")]),
            "end"
        ]);
        lines.push(text("implement A using std::none"));
    }
    if random.chance(30) {
        lines.push(parts![
            "entity B",
            extends(random, &visible),
            ":",
            Tree::Block(vec![text("int i = 1")]),
            "end"
        ]);
        lines.push(match random.chance(50) {
            true => text("implement B using std::none"),
            false => text("implement B using parents"),
        });
    }
    if random.chance(40) {
        let base = random.pick(&["int", "string"]);
        lines.push(text(format!("typedef t as {base} matching self != 3")));
    }
    if random.chance(35) {
        let entity = entity(random, &visible);
        lines.push(parts![
            format!("implementation im for {entity}:"),
            Tree::Block(
                (0..random.between(1, 2))
                    .map(|_| statement(random, &visible))
                    .collect()
            ),
            "end"
        ]);
        lines.push(text(format!(
            "implement {entity} using {}",
            name(random, &visible, &["im"])
        )));
    }
    if random.chance(30) {
        let (left, right) = (entity(random, &visible), entity(random, &visible));
        let multiplicity = random.pick(&["[0:]", "[0:1]"]);
        lines.push(text(format!("{left}.r {multiplicity} -- {right}.i [0:]")));
    }
    if random.chance(15) {
        lines.push(text(format!("index {}(n)", entity(random, &visible))));
    }
    if random.chance(80) {
        lines.push(parts!["x = ", value(random, &visible, 0)]);
    }
    for _ in 0..random.below(4) {
        lines.push(statement(random, &visible));
    }
    lines.push(text(format!("std::print(\"{own}\")")));
    Tree::Items {
        separator: "\n",
        items: lines,
    }
}

fn extends(random: &mut Random, visible: &[String]) -> Tree {
    match random.chance(30) {
        true => text(format!(" extends {}", entity(random, visible))),
        false => text(""),
    }
}

fn entity(random: &mut Random, visible: &[String]) -> String {
    name(random, visible, &["A", "A", "A", "B"])
}

/// A name, mostly of a namespace that can be seen.
fn name(random: &mut Random, visible: &[String], names: &[&str]) -> String {
    let name = *random.pick(names);
    match random.below(10) {
        0..5 => name.to_owned(),
        5..9 => format!("{}::{name}", random.pick(visible)),
        _ => format!("{}::{name}", random.pick(FILES).0),
    }
}

fn value(random: &mut Random, visible: &[String], depth: usize) -> Tree {
    match random.below(8) {
        0 => expression(*random.pick(&["1", "2", "\"s\"", "null"])),
        1 | 2 => expression(name(random, visible, &["x", "y"])),
        3 | 4 => {
            let mut arguments = Vec::new();
            if random.chance(40) {
                arguments.push(parts![
                    "n = ",
                    expression(*random.pick(&["\"a\"", "\"b\"", "n", "x"]))
                ]);
            }
            crate::expr![entity(random, visible), "(", comma(arguments), ")"]
        }
        5 if depth < 2 => {
            let (first, second) = (
                value(random, visible, depth + 1),
                value(random, visible, depth + 1),
            );
            crate::expr!["[", comma(vec![first, second]), "]"]
        }
        6 => expression(format!("{}[n=\"a\"]", entity(random, visible))),
        _ => expression(format!("{}.n", name(random, visible, &["x", "y", "self"]))),
    }
}

fn statement(random: &mut Random, visible: &[String]) -> Tree {
    match random.below(8) {
        0 | 1 => parts![
            format!("{} = ", random.pick(&["y", "z", "x"])),
            value(random, visible, 0)
        ],
        2 => parts!["std::print(", value(random, visible, 1), ")"],
        3 => parts![
            "if true:",
            Tree::Block(vec![
                parts![
                    format!("{} = ", random.pick(&["y", "x"])),
                    value(random, visible, 1)
                ],
                text("std::print(x)")
            ]),
            "end"
        ],
        4 => parts![
            format!("{}.r = ", name(random, visible, &["x", "y"])),
            value(random, visible, 1)
        ],
        5 => parts![
            format!("{} = ", name(random, visible, &["y"])),
            value(random, visible, 1)
        ],
        6 => text("std::print(\"{{x}}\")"),
        _ => parts![
            "for q in ",
            value(random, visible, 0),
            ":",
            Tree::Block(vec![text("std::print(q)")]),
            "end"
        ],
    }
}
