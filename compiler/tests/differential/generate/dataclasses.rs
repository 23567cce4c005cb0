//! Entities paired with dataclasses of Python: types of attributes against annotations of fields, and values that cross.

use super::dataclass_types::{ANY, HEAD, KINDS, Kind, NOT_PRIMITIVE, ODD};
use crate::parts;
use crate::random::Random;
use crate::tree::{Case, Tree, comma, expression, text};

struct Field {
    name: String,
    kind: Option<&'static Kind>,
    model: &'static str,
    /// `None`: the class has no such field.
    annotation: Option<&'static str>,
}

struct Pair {
    name: String,
    fields: Vec<Field>,
}

pub fn dataclasses(random: &mut Random) -> Case {
    // Half of the models are meant to be right: a mistake hides what comes after it.
    let mistakes = if random.chance(50) { 0 } else { 8 };
    let pairs: Vec<Pair> = (0..random.between(1, 2))
        .map(|at| pair(random, at, mistakes))
        .collect();
    let mut python = vec![text(HEAD)];
    let mut model = vec![text("typedef low as int matching self < 3")];
    let mut main = vec![text("import m")];
    for pair in &pairs {
        model.extend(entity(random, pair, mistakes));
        python.extend(class(random, pair, mistakes));
        python.extend(plugins(random, pair));
        main.extend(statements(random, pair));
    }
    let lines = |items: Vec<Tree>| Tree::Items {
        separator: "\n",
        items,
    };
    let mut case = Case::new(lines(main));
    let metadata = "[metadata]\nname = inmanta-module-m\nversion = 1.0.0\nlicense = x\n";
    for (path, tree) in [
        ("libs/m/setup.cfg", text(metadata)),
        ("libs/m/model/_init.cf", lines(model)),
        ("libs/m/inmanta_plugins/m/__init__.py", lines(python)),
    ] {
        case.files.push((path.to_owned(), tree));
    }
    case
}

fn pair(random: &mut Random, at: usize, mistakes: usize) -> Pair {
    let fields = (0..random.between(1, 5)).map(|n| {
        let kind = random.pick(KINDS);
        let mut field = Field {
            name: format!("f{n}"),
            kind: Some(kind),
            model: kind.model,
            annotation: Some(*random.pick(kind.fitting)),
        };
        if random.chance(8) {
            field.annotation = Some(*random.pick(ANY));
        }
        if random.chance(mistakes) {
            let other = random.pick(KINDS);
            field.annotation = match random.below(6) {
                0 => None,
                1 | 2 => Some(*random.pick(other.fitting)),
                _ => Some(*random.pick(ODD)),
            };
        }
        if random.chance(mistakes / 2) {
            field.model = *random.pick(NOT_PRIMITIVE);
            field.kind = None;
        }
        field
    });
    Pair {
        fields: fields.collect(),
        name: format!("D{at}"),
    }
}

fn entity(random: &mut Random, pair: &Pair, mistakes: usize) -> Vec<Tree> {
    let name = &pair.name;
    let mut attributes: Vec<Tree> = Vec::new();
    for field in &pair.fields {
        let constant = field.kind.map(|kind| kind.values[0]);
        let default = match constant.filter(|_| random.chance(15)) {
            Some(constant) => format!(" = {constant}"),
            None => String::new(),
        };
        attributes.push(text(format!("{} {}{default}", field.model, field.name)));
    }
    if random.chance(mistakes) {
        attributes.push(text("string more = \"x\""));
    }
    let mut lines = vec![parts![
        format!("entity {name} extends std::Dataclass:"),
        Tree::Block(attributes),
        "end"
    ]];
    if random.chance(mistakes / 2) {
        lines.push(text(match random.below(4) {
            0 => format!("index {name}({})", pair.fields[0].name),
            1 => format!("{name}.r [0:] -- std::Entity"),
            2 => format!("implementation i{name} for {name}:\nend\nimplement {name} using i{name}"),
            _ => format!("implement {name} using std::none when false"),
        }));
    }
    lines.push(text(format!("implement {name} using std::none")));
    lines
}

fn class(random: &mut Random, pair: &Pair, mistakes: usize) -> Vec<Tree> {
    let name = &pair.name;
    if random.chance(mistakes / 2) {
        return match random.below(4) {
            0 => vec![text(format!("class {name}: pass"))],
            1 => vec![text(format!("def {name}(): pass"))],
            2 => vec![text(format!(
                "@dataclasses.dataclass\nclass {name}:\n    f0: str"
            ))],
            // Without a class an entity stays as it is.
            _ => Vec::new(),
        };
    }
    let mut fields: Vec<Tree> = pair
        .fields
        .iter()
        .filter_map(|field| Some(text(format!("{}: {}", field.name, field.annotation?))))
        .collect();
    if random.chance(mistakes) {
        fields.push(text("more: str"));
    }
    if random.chance(10) {
        random.shuffle(&mut fields);
    }
    fields.push(text("pass"));
    let options = random.pick(&[
        "frozen=True",
        "frozen=True, kw_only=True",
        "frozen=True, slots=True",
    ]);
    vec![parts![
        format!("@dataclasses.dataclass({options})\nclass {name}:"),
        Tree::Block(fields)
    ]]
}

/// One that takes the dataclass, one that makes one, one that makes a reference to one.
fn plugins(random: &mut Random, pair: &Pair) -> Vec<Tree> {
    let name = &pair.name;
    let annotation = *random.pick(&[
        "{}",
        "{} | None",
        "list[{}]",
        "{} | Reference[{}]",
        "object",
        "dict[str, {}]",
    ]);
    let annotation = annotation.replace("{}", name);
    let show = format!(
        "@plugin\ndef show{name}(d: {annotation}) -> str:\n    return repr(d) if type(d).__name__ in ('{name}', 'list', 'dict') else type(d).__name__"
    );
    let arguments = pair.fields.iter().filter_map(|field| {
        let value = random.pick(field.kind?.python);
        Some(parts![format!("{}=", field.name), *value])
    });
    let make = parts![
        format!("@plugin\ndef make{name}() -> {name}:\n    return {name}("),
        comma(arguments.collect()),
        ")"
    ];
    let reference = format!(
        "@reference('m::Ref{name}')\nclass Ref{name}(Reference[{name}]):\n    def __init__(self) -> None:\n        super().__init__()\n    def resolve(self, logger):\n        raise Exception()\n@plugin\ndef refer{name}() -> Reference[{name}]:\n    return Ref{name}()"
    );
    let mut plugins = vec![text(show), make];
    if random.chance(35) {
        plugins.push(text(reference));
    }
    plugins
}

fn statements(random: &mut Random, pair: &Pair) -> Vec<Tree> {
    let name = &pair.name;
    let mut arguments = Vec::new();
    for field in &pair.fields {
        if let Some(kind) = field.kind {
            // The last of the values may not fit.
            let n_right = kind.values.len().saturating_sub(1).max(1);
            let value = match random.chance(4) {
                true => kind.values[n_right.min(kind.values.len() - 1)],
                false => kind.values[random.below(n_right)],
            };
            arguments.push(parts![format!("{} = ", field.name), expression(value)]);
        }
    }
    let made = parts![format!("m::{name}("), comma(arguments), ")"];
    let made = match random.below(6) {
        0..3 => made,
        3 => text(format!("m::make{name}()")),
        4 => text(format!("m::refer{name}()")),
        _ => return Vec::new(),
    };
    let variable = name.to_lowercase();
    let mut lines = vec![parts![format!("{variable} = "), made]];
    for field in &pair.fields {
        if random.chance(40) {
            lines.push(text(format!("std::print({variable}.{})", field.name)));
        }
    }
    if random.chance(70) {
        let argument = match random.below(6) {
            0 => format!("[{variable}]"),
            1 => format!("{{\"k\": {variable}}}"),
            _ => variable.clone(),
        };
        lines.push(text(format!("std::print(m::show{name}({argument}))")));
    }
    lines
}
