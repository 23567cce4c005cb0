//! Entities paired with dataclasses of Python: types of attributes against annotations of fields, and values that cross.

use crate::parts;
use crate::random::Random;
use crate::tree::{Case, Tree, comma, expression, text};

/// A type of an attribute: its annotations that fit, values in the model, values in Python.
struct Kind {
    model: &'static str,
    fitting: &'static [&'static str],
    values: &'static [&'static str],
    python: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        model: "string",
        fitting: &[
            "str",
            "'str'",
            "str | Reference[str]",
            "Alias",
            "Annotated[str, ModelType['std::uuid']]",
        ],
        values: &[
            "\"a\"",
            "\"b\"",
            "std::get_env(\"STEWARD_TEXT\")",
            "std::get_env(\"STEWARD_NONE\")",
            "1",
        ],
        python: &["'a'", "'b'", "None", "1"],
    },
    Kind {
        model: "int",
        fitting: &[
            "int",
            "Annotated[int, ModelType['std::port']]",
            "int | Reference[int]",
        ],
        values: &["1", "2", "int(std::get_env(\"STEWARD_NONE\"))", "1.5"],
        python: &["1", "2", "True", "1.5"],
    },
    Kind {
        model: "float",
        fitting: &["float"],
        values: &["1.5", "1", "2.0"],
        python: &["1.5", "2.0", "1"],
    },
    Kind {
        model: "bool",
        fitting: &["bool"],
        values: &["true", "false"],
        python: &["True", "False", "1"],
    },
    Kind {
        model: "number",
        fitting: &["int", "float", "numbers.Number"],
        values: &["1", "1.5"],
        python: &["1", "1.5"],
    },
    Kind {
        model: "list",
        fitting: &[
            "list[str]",
            "list[int]",
            "Sequence[str]",
            "Sequence[object]",
            "list[Any]",
            "list[int | None]",
            "list[list[str]]",
            "list[float | str]",
            "list[Reference[str]]",
            "list[str | Reference[str]]",
        ],
        values: &[
            "[\"a\"]",
            "[1, 2]",
            "[]",
            "[std::get_env(\"STEWARD_NONE\"), \"a\"]",
            "[\"a\", 1]",
        ],
        python: &["['a']", "[1]", "[]", "('a',)"],
    },
    Kind {
        model: "dict",
        fitting: &[
            "dict[str, int]",
            "Mapping[str, str]",
            "dict",
            "Mapping",
            "dict[str, object]",
            "dict[str, list[int]]",
            "dict[str, int | None]",
        ],
        values: &[
            "{\"a\": 1}",
            "{}",
            "{\"k\": \"v\"}",
            "{\"a\": std::get_env(\"STEWARD_NONE\")}",
            "{\"a\": [1]}",
        ],
        python: &["{'a': 1}", "{}", "{1: 2}"],
    },
    Kind {
        model: "string[]",
        fitting: &[
            "list[str]",
            "Sequence[str]",
            "list['str']",
            "list[object]",
            "list[str | Reference[str]]",
        ],
        values: &[
            "[\"a\"]",
            "[]",
            "[\"a\", std::get_env(\"STEWARD_NONE\")]",
            "\"a\"",
        ],
        python: &["['a']", "[]", "[None]"],
    },
    Kind {
        model: "int[]",
        fitting: &["list[int]", "Sequence[int]", "list[Any]"],
        values: &["[1]", "[]", "[\"a\"]"],
        python: &["[1]", "[]", "['a']"],
    },
    Kind {
        model: "number[]",
        fitting: &["list[int]", "list[float]", "Sequence[numbers.Number]"],
        values: &["[1, 1.5]", "[]"],
        python: &["[1]", "[1.5]"],
    },
    Kind {
        model: "string?",
        fitting: &[
            "str | None",
            "Optional[str]",
            "None | str",
            "object | None",
            "Union[str, None]",
        ],
        values: &["null", "\"a\""],
        python: &["None", "'a'"],
    },
    Kind {
        model: "int?",
        fitting: &["int | None", "Optional[int]", "Any | None"],
        values: &["null", "1"],
        python: &["None", "1"],
    },
    Kind {
        model: "list?",
        fitting: &[
            "list[str] | None",
            "Sequence[int] | None",
            "Optional[list[Any]]",
        ],
        values: &["null", "[\"a\"]", "[]"],
        python: &["None", "['a']"],
    },
    Kind {
        model: "dict?",
        fitting: &[
            "dict[str, int] | None",
            "Mapping[str, int] | None",
            "dict | None",
        ],
        values: &["null", "{\"a\": 1}"],
        python: &["None", "{'a': 1}"],
    },
    Kind {
        model: "string[]?",
        fitting: &["list[str] | None", "Optional[Sequence[str]]"],
        values: &["null", "[\"a\"]"],
        python: &["None", "['a']"],
    },
    Kind {
        model: "number?",
        fitting: &["int | None", "float | None"],
        values: &["null", "1", "1.5"],
        python: &["None", "1.5"],
    },
];

/// Types of the model without a counterpart in Python.
const NOT_PRIMITIVE: &[&str] = &[
    "std::uuid",
    "std::port",
    "low",
    "low?",
    "std::ipv4_address[]",
    "m::low[]",
];

/// Annotations that fit everything.
const ANY: &[&str] = &[
    "object",
    "Any",
    "uuid.UUID",
    "bytes",
    "tuple[str, ...]",
    "Other",
    "Iterable[str]",
];

/// Annotations that fit little or nothing.
const ODD: &[&str] = &[
    "list",
    "List",
    "Sequence",
    "dict",
    "set[str]",
    "None",
    "int | str",
    "int | float",
    "float | int | None",
    "Reference[str]",
    "Reference[int] | str",
    "str | Reference[str] | None",
    "object | Reference[str]",
    "dict[int, str]",
    "collections.abc.MutableMapping[str, int]",
    "list[dict[str, str]]",
    "list[list]",
    "dict[str, dict[str, int]]",
    "list[None]",
    "list[set[str]]",
    "MutableSequence[str]",
    "list | None",
    "str",
    "int",
    "float",
    "bool",
    "list[str]",
    "dict[str, int]",
    "str | None",
    "Literal['a', 'b']",
    "tuple",
    "ClassVar[str]",
];

const HEAD: &str = "\
import collections, collections.abc, dataclasses, numbers, uuid
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from typing import Annotated, Any, ClassVar, List, Literal, Optional, Union
from inmanta.plugins import ModelType, plugin
from inmanta.references import Reference, reference
Alias = str
class Other: pass
";

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
