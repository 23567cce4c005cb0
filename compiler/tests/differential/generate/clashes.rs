//! Plugins whose names something else has, too: typedefs, entities, implementations, variables, modules, other plugins.

use crate::parts;
use crate::random::Random;
use crate::tree::{Case, Tree, text};

/// Lower case, so that each may be of every kind but an entity; and one of an entity.
const NAMES: &[&str] = &[
    "f", "g", "A", "sub", "string", "print", "list", "m", "number",
];

pub fn clashes(random: &mut Random) -> Case {
    let is_v1 = random.chance(35);
    let name = *random.pick(NAMES);
    let lines = |items: Vec<Tree>| Tree::Items {
        separator: "\n",
        items,
    };
    let python = (0..random.between(1, 2))
        .map(|_| plugin(random, name))
        .collect();
    let mut modules = vec![("m", "_init.cf", Some(python))];
    if random.chance(40) {
        let python = random.chance(60).then(|| vec![plugin(random, name)]);
        modules.push(("sub", "sub.cf", python));
    }
    let mut case = Case::new(lines(main(random, name)));
    let head = "from inmanta.plugins import plugin, deprecated, Context";
    for (module, file, python) in modules {
        let model = lines(definitions(random, name));
        case.files.push((format!("libs/m/model/{file}"), model));
        let Some(python) = python else {
            continue;
        };
        let directory = if is_v1 {
            "plugins"
        } else {
            "inmanta_plugins/m"
        };
        let file = if module == "m" { "__init__" } else { module };
        let python = parts![head, "\n", lines(python)];
        case.files
            .push((format!("libs/m/{directory}/{file}.py"), python));
    }
    if !case
        .files
        .iter()
        .any(|(path, _)| path.ends_with("__init__.py"))
    {
        case.files
            .push(("libs/m/plugins/__init__.py".to_owned(), text("")));
    }
    let metadata = match is_v1 {
        true => ("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x\n"),
        false => (
            "libs/m/setup.cfg",
            "[metadata]\nname = inmanta-module-m\nversion = 1.0.0\nlicense = x\n",
        ),
    };
    case.files.push((metadata.0.to_owned(), text(metadata.1)));
    case
}

fn plugin(random: &mut Random, name: &str) -> Tree {
    let name = match random.chance(80) {
        true => name,
        false => *random.pick(NAMES),
    };
    let decorator = match random.below(12) {
        0 => format!("@plugin(\"{name}\")"),
        1 => "@deprecated\n@plugin".to_owned(),
        2 => "@deprecated()\n@plugin".to_owned(),
        3 => "@deprecated(replaced_by=\"h\")\n@plugin".to_owned(),
        4 => "@plugin\n@deprecated".to_owned(),
        _ => "@plugin".to_owned(),
    };
    let parameters = *random.pick(&[
        "",
        "",
        "x: \"any\" = 1",
        "c: Context",
        "x: int = 1",
        "*, x: str = 'a'",
    ]);
    let result = *random.pick(&["\"any\"", "int", "None", "str"]);
    let body = *random.pick(&["return 1", "return None", "return 'a'"]);
    text(format!(
        "{decorator}\ndef {name}({parameters}) -> {result}:\n    {body}"
    ))
}

/// What a module defines beside its plugins.
fn definitions(random: &mut Random, name: &str) -> Vec<Tree> {
    let mut lines = vec![text("entity E:\nend"), text("implement E using std::none")];
    for _ in 0..random.below(3) {
        let name = match random.chance(80) {
            true => name,
            false => *random.pick(NAMES),
        };
        let line = match random.below(9) {
            0 | 1 => format!("typedef {name} as int matching self > 0"),
            2 | 3 => format!("implementation {name} for E:\nend"),
            4 => format!("entity {name}:\nend\nimplement {name} using std::none"),
            5 => format!("{name} = 1"),
            6 => format!("import std as {name}"),
            7 => format!("x = {name}()"),
            _ => format!("implement E using {name}"),
        };
        lines.push(text(line));
    }
    if random.chance(30) {
        random.shuffle(&mut lines);
    }
    lines
}

fn main(random: &mut Random, name: &str) -> Vec<Tree> {
    let mut lines = vec![text("import m")];
    if random.chance(40) {
        lines.push(text("import m::sub"));
    }
    let mut blocks = 0;
    for at in 0..random.between(1, 4) {
        let name = match random.chance(80) {
            true => name,
            false => *random.pick(NAMES),
        };
        let space = *random.pick(&["m::", "m::", "m::sub::", "", "sub::"]);
        let line = match random.below(12) {
            0..4 => format!("x{at} = {space}{name}()"),
            4 => format!(
                "entity B{at}:\n    {space}{name} a = 1\nend\nimplement B{at} using std::none\nB{at}()"
            ),
            5 => format!("implement m::E using {space}{name}\nm::E()"),
            6 => format!("std::print({space}{name})"),
            7 => format!("typedef u{at} as {space}{name} matching self != 3"),
            8 => format!("x{at} = {space}{name}(3)"),
            9 => format!("{name} = 1"),
            _ => {
                blocks += 1;
                shadow(random, blocks)
            }
        };
        lines.push(text(line));
    }
    lines
}

/// Variables of one name in one another's blocks, also in implementations.
fn shadow(random: &mut Random, at: usize) -> String {
    let inner = match random.below(5) {
        0 => "for v in [1]:\n    std::print(v)\nend".to_owned(),
        1 => "if true:\n    v = 2\nend".to_owned(),
        2 => "for w in [1]:\n    v = w\nend".to_owned(),
        3 => "for v in [1]:\n    for v in [2]:\n        std::print(v)\n    end\nend".to_owned(),
        _ => "w = [v for v in [1]]\nstd::print(w)".to_owned(),
    };
    let outer = *random.pick(&["v = 0", "", "q = 0"]);
    match random.below(3) {
        0 => format!("{outer}\n{inner}"),
        1 => format!(
            "entity S{at}:\n    string v = \"a\"\nend\nimplementation s{at} for S{at}:\n    {}\n    {}\nend\nimplement S{at} using s{at}\nS{at}()",
            outer,
            inner.replace('\n', "\n    ")
        ),
        _ => format!(
            "for {} in [1]:\n    {}\nend",
            random.pick(&["v", "z"]),
            inner.replace('\n', "\n    ")
        ),
    }
}
