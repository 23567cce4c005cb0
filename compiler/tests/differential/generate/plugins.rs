//! Random calls of the plugins of std.

use super::schema::{PLAIN, Type};
use super::{Generator, Scope};
use crate::tree::{Tree, comma, expression};
use crate::{expr, parts};

/// Result, name, parameters. Upper case parameters are pools of their own (`pool`).
const PLUGINS: &[(Type, &str, &[&str])] = &[
    (Type::Text, "replace", &["text", "text", "text"]),
    (Type::Text, "upper", &["text"]),
    (Type::Text, "lower", &["text"]),
    (Type::Text, "capitalize", &["text"]),
    (Type::Text, "limit", &["text", "int"]),
    (Type::Int, "length", &["text"]),
    (Type::Texts, "split", &["text", "SEPARATOR"]),
    (Type::Text, "hostname", &["text"]),
    (Type::Text, "unique_file", &["text", "text", "text"]),
    (Type::Text, "format", &["FORMAT", "any", "any"]),
    (Type::Bool, "is_base64_encoded", &["text"]),
    (Type::Dict, "json_loads", &["JSON"]),
    (Type::Text, "json_dumps", &["any"]),
    (Type::Int, "count", &["list"]),
    (Type::Int, "len", &["list"]),
    (Type::Int, "at", &["ints", "SMALL"]),
    (Type::Text, "at", &["texts", "SMALL"]),
    (Type::Ints, "flatten", &["NESTED"]),
    (Type::Bool, "unique", &["list"]),
    (Type::Ints, "sequence", &["SMALL", "int"]),
    (Type::Text, "dict_get", &["dict", "text"]),
    (Type::Bool, "contains", &["dict", "text"]),
    (Type::Texts, "dict_keys", &["dict"]),
    (Type::Int, "inlineif", &["bool", "int", "int"]),
    (Type::Text, "inlineif", &["bool", "text", "text"]),
    (Type::Bool, "invert", &["bool"]),
    (Type::Bool, "isset", &["any"]),
    (Type::Bool, "is_unknown", &["any"]),
    (Type::Int, "prefixlen", &["ADDRESS"]),
    (Type::Text, "netmask", &["ADDRESS"]),
    (Type::Text, "network_address", &["ADDRESS"]),
    (Type::Text, "ip_address_from_interface", &["ADDRESS"]),
    (Type::Text, "prefixlength_to_netmask", &["PREFIX"]),
    (Type::Text, "ipindex", &["NETWORK", "PREFIX", "bool"]),
    (Type::Text, "add_to_ip", &["IP", "int"]),
    (Type::Text, "get_env", &["VARIABLE", "text"]),
    (Type::Int, "get_env_int", &["VARIABLE", "int"]),
    (Type::Bool, "validate_type", &["VALIDATED", "text"]),
    (
        Type::Bool,
        "validate_type",
        &["CONSTRAINED", "text", "CONSTRAINT"],
    ),
    (Type::Bool, "validate_type", &["NUMERIC", "int", "BOUNDS"]),
];

fn pool(name: &str) -> &'static [&'static str] {
    match name {
        "SEPARATOR" => &["\",\"", "\"b\"", "\"\"", "\".\"", "\" \""],
        "FORMAT" => &[
            "\"{} {}\"",
            "\"{1}-{0!r}\"",
            "\"{0:>5}\"",
            "\"{}\"",
            "\"{0[0]}\"",
            "\"{2}\"",
            "\"{{}}{}{}\"",
            "\"{0:03d}\"",
            "\"x\"",
            "\"{:.2f}{}\"",
        ],
        "JSON" => &[
            "\"{}\"",
            "'{\"a\": 1, \"b\": [1, [2.0]], \"c\": null}'",
            "'{\"a\": {\"b\": true}}'",
            "\"1\"",
            "\"{\"",
            "'[1, 2]'",
            "'{\"a\": 1e3}'",
        ],
        "SMALL" => &["0", "1", "-1", "2", "4", "-3"],
        "NESTED" => &[
            "[std::sequence(2), std::sequence(1, 5)]",
            "std::json_loads(\"[[1, 2], [], [3]]\")",
            "[1]",
            "[]",
        ],
        "ADDRESS" => &[
            "\"10.0.0.1/24\"",
            "\"10.1.2.3\"",
            "\"::1/64\"",
            "\"2001:DB8::1/33\"",
            "\"1.2.3.4/255.255.0.0\"",
            "\"x\"",
            "\"10.0.0.300\"",
            "\"fe80::1%eth0/64\"",
            "\"10.0.0.0/8\"",
            "\"010.0.0.1\"",
        ],
        "NETWORK" => &[
            "\"10.0.0.0/24\"",
            "\"10.0.0.0/30\"",
            "\"2001:db8::/64\"",
            "\"10.0.0.1\"",
            "\"10.0.0.1/24\"",
            "\"10.0.0.0/0\"",
        ],
        "IP" => &[
            "\"10.0.0.255\"",
            "\"::ffff\"",
            "\"255.255.255.255\"",
            "\"0.0.0.0\"",
            "\"x\"",
        ],
        "PREFIX" => &["0", "8", "20", "32", "33", "-1", "5"],
        "VARIABLE" => &["\"STEWARD_TEXT\"", "\"STEWARD_NUMBER\"", "\"NOT_THERE\""],
        "VALIDATED" => &[
            "\"pydantic.EmailStr\"",
            "\"ipaddress.IPv4Address\"",
            "\"datetime.date\"",
            "\"uuid.UUID\"",
            "\"pydantic.AnyUrl\"",
            "\"pydantic.IPvAnyNetwork\"",
            "\"x.y\"",
            "\"datetime.time\"",
        ],
        "CONSTRAINED" => &["\"pydantic.constr\""],
        "CONSTRAINT" => &[
            "{\"min_length\": 1}",
            "{\"max_length\": 2}",
            "{\"regex\": \"a.*\"}",
            "{\"pattern\": \"b$\", \"strict\": true}",
            "{\"strip_whitespace\": true, \"min_length\": 1}",
        ],
        "NUMERIC" => &["\"pydantic.conint\"", "\"pydantic.confloat\""],
        _ => &[
            "{\"gt\": 0}",
            "{\"ge\": 1, \"lt\": 10}",
            "{\"multiple_of\": 2}",
            "{\"le\": 5}",
        ],
    }
}

impl Generator<'_> {
    pub fn plugin(&mut self, of: &Type, scope: &Scope, depth: usize) -> Option<Tree> {
        let fitting: Vec<&(Type, &str, &[&str])> = PLUGINS
            .iter()
            .filter(|(result, _, _)| result == of)
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let (_, name, parameters) = **self.random.pick(&fitting);
        let mut arguments: Vec<Tree> = parameters
            .iter()
            .map(|parameter| self.plugin_argument(parameter, scope, depth))
            .collect();
        if self.mistake() {
            match self.random.below(3) {
                0 => arguments.push(self.literal(&Type::Int)),
                1 => drop(arguments.pop()),
                _ => arguments.push(parts!["other = ", expression("1")]),
            }
        }
        Some(expr![format!("std::{name}("), comma(arguments), ")"])
    }

    fn plugin_argument(&mut self, parameter: &str, scope: &Scope, depth: usize) -> Tree {
        let of = match parameter {
            "text" => Type::Text,
            "int" => Type::Int,
            "bool" => Type::Bool,
            "ints" => Type::Ints,
            "texts" => Type::Texts,
            "dict" => Type::Dict,
            "list" if !self.schema.entities.is_empty() && self.random.chance(40) => {
                Type::Instances(self.random.below(self.schema.entities.len()))
            }
            "list" => self.random.pick(&[Type::Ints, Type::Texts]).clone(),
            "any" => self.random.pick(PLAIN).clone(),
            pooled => return expression(*self.random.pick(pool(pooled))),
        };
        self.value(&of, scope, depth + 1)
    }
}
