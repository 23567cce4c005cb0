//! Types of attributes, annotations of fields that fit them or do not, and values on both sides.

/// A type of an attribute: its annotations that fit, values in the model, values in Python.
pub struct Kind {
    pub model: &'static str,
    pub fitting: &'static [&'static str],
    pub values: &'static [&'static str],
    pub python: &'static [&'static str],
}

pub const KINDS: &[Kind] = &[
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
pub const NOT_PRIMITIVE: &[&str] = &[
    "std::uuid",
    "std::port",
    "low",
    "low?",
    "std::ipv4_address[]",
    "m::low[]",
];

/// Annotations that fit everything.
pub const ANY: &[&str] = &[
    "object",
    "Any",
    "uuid.UUID",
    "bytes",
    "tuple[str, ...]",
    "Other",
    "Iterable[str]",
];

/// Annotations that fit little or nothing.
pub const ODD: &[&str] = &[
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

pub const HEAD: &str = "\
import collections, collections.abc, dataclasses, numbers, uuid
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from typing import Annotated, Any, ClassVar, List, Literal, Optional, Union
from inmanta.plugins import ModelType, plugin
from inmanta.references import Reference, reference
Alias = str
class Other: pass
";
