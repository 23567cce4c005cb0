//! Schemas say the same as the validation of the server: random types and random values, held against both.

use serde_json::{Value, json};
use steward_compiler::validate_json;
use steward_lsm::attributes;
use steward_lsm::people::{Purpose, openapi, schema};

use crate::model::lifecycles::Random;
use crate::support::{entity, object};

/// The words that schemas are made of, by the text of JSON Schema; formats and patterns are judged by the compiler's types.
fn accepts(schema: &Value, value: &Value) -> bool {
    let has_type = |word: &str| match word {
        "string" => value.is_string(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("no type of JSON Schema: {other}"),
    };
    let is = |kind: &str, parameters: Value| {
        let parameters = parameters.as_object();
        !value.is_string() || validate_json(kind, value, parameters) == Some(true)
    };
    let number = |holds: &dyn Fn(f64) -> bool| value.as_f64().is_none_or(holds);
    let length = |holds: &dyn Fn(u64) -> bool| {
        let length = value.as_str().map(|text| text.chars().count() as u64);
        length.is_none_or(holds)
    };
    let words = schema.as_object().unwrap();
    words.iter().all(|(word, said)| {
        let bound = said.as_f64().unwrap_or_default();
        match word.as_str() {
            "type" => has_type(said.as_str().unwrap()),
            "enum" => {
                let mut known = said.as_array().unwrap().iter();
                known.any(|known| {
                    known == value || (known.is_number() && known.as_f64() == value.as_f64())
                })
            }
            "anyOf" => said
                .as_array()
                .unwrap()
                .iter()
                .any(|one| accepts(one, value)),
            "allOf" => said
                .as_array()
                .unwrap()
                .iter()
                .all(|one| accepts(one, value)),
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.into_iter().all(|item| accepts(said, item))
            }
            "minimum" => number(&|number| number >= bound),
            "maximum" => number(&|number| number <= bound),
            "exclusiveMinimum" => number(&|number| number > bound),
            "exclusiveMaximum" => number(&|number| number < bound),
            "multipleOf" => number(&|number| number % bound == 0.0),
            "minLength" => length(&|length| length >= said.as_u64().unwrap()),
            "maxLength" => length(&|length| length <= said.as_u64().unwrap()),
            "pattern" => is("pydantic.constr", json!({"pattern": said})),
            "format" => match said.as_str().unwrap() {
                "ipv4" => is("ipaddress.IPv4Address", Value::Null),
                "ipv6" => is("ipaddress.IPv6Address", Value::Null),
                other => panic!("a format that no type of this test has: {other}"),
            },
            "default" | "description" | "readOnly" => true,
            other => panic!("an unknown word: {other}"),
        }
    })
}

/// A validation that the catalog records, for a type; all that JSON Schema can say.
fn validation(base: &str, random: &mut Random, depth: usize) -> (String, Value) {
    if depth > 0 && random.percent(40) {
        let choice = |random: &mut Random| {
            let (kind, parameters) = validation(base, random, depth - 1);
            json!({"validation_type": kind, "validation_parameters": parameters})
        };
        let n_choices = 1 + random.below(3);
        let choices: Vec<Value> = (0..n_choices).map(|_| choice(random)).collect();
        return ("steward.any_of".to_owned(), json!({"any_of": choices}));
    }
    let mut names = |values: &[Value]| {
        let names: Value = (0..1 + random.below(3)).fold(json!({}), |mut names, at| {
            names[at.to_string()] = random.pick(values).clone();
            names
        });
        json!({"names": names, "value": "__config__::some"})
    };
    if base == "string" {
        let named = names(&[json!("auto"), json!("7"), json!("::1")]);
        let (kind, parameters) = match random.below(6) {
            0 => ("enum", named),
            1 => (
                "pydantic.constr",
                json!({"regex": random.pick(&["^[0-9]+$", "a", "[a-z]+|7", "b$"])}),
            ),
            2 => (
                "pydantic.constr",
                json!({"pattern": "b", "regex": "a", "max_length": 3}),
            ),
            3 => (
                "pydantic.constr",
                json!({"min_length": random.below(3), "max_length": 2 + random.below(3)}),
            ),
            4 => ("ipaddress.IPv4Address", Value::Null),
            _ => ("pydantic.IPvAnyAddress", Value::Null),
        };
        return (kind.to_owned(), parameters);
    }
    let named = names(&[json!(1), json!(3), json!(5)]);
    let low = random.below(5);
    let (kind, parameters) = match random.below(6) {
        0 => ("enum", named),
        1 => (
            "pydantic.conint",
            json!({"gt": low, "le": low + random.below(6)}),
        ),
        2 => (
            "pydantic.conint",
            json!({"ge": low, "lt": null, "multiple_of": 1 + random.below(3)}),
        ),
        3 => (
            "pydantic.confloat",
            json!({"ge": low as f64 - 0.5, "lt": low + 3}),
        ),
        4 => ("pydantic.PositiveInt", Value::Null),
        _ => ("pydantic.NegativeFloat", Value::Null),
    };
    (kind.to_owned(), parameters)
}

fn value(random: &mut Random, depth: usize) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!("auto"),
        json!("7"),
        json!("::1"),
        json!("10.0.0.1"),
        json!("ab"),
        json!("xb"),
        json!(""),
        json!("abab"),
        json!({}),
        json!(0),
        json!(1),
        json!(3),
        json!(5),
        json!(-2),
        json!(2.0),
        json!(2.5),
    ];
    if depth > 0 && random.percent(40) {
        return (0..random.below(3))
            .map(|_| value(random, depth - 1))
            .collect();
    }
    random.pick(&values).clone()
}

/// Given: 2000 random types with enumerations, patterns, lengths, bounds, addresses and choices among them, nullable and in
/// lists, and 20 random values for each. Expected: the schemas of all purposes, and that in the description of the API, accept
/// exactly what the server does.
#[test]
fn schemas_accept_what_the_server_accepts_and_nothing_else() {
    let mut random = Random(4);
    let (mut n_accepted, mut n_refused, mut n_choices) = (0, 0, 0);
    for _ in 0..2000 {
        let base = *random.pick(&["string", "int", "number", "float"]);
        let suffix = *random.pick(&["", "?", "[]", "[]?", "?[]"]);
        let (kind, parameters) = validation(base, &mut random, 2);
        let entity = entity(&json!({"name": "s", "attributes": [{
            "name": "x", "modifier": "rw+", "type": format!("{base}{suffix}"),
            "validation_type": format!("{kind}{suffix}"), "validation_parameters": parameters,
        }], "lifecycle": {"name": "l", "initial_state": "a", "states": [{"name": "a"}]}}));
        let mut schemas: Vec<Value> = [
            Purpose::Read,
            Purpose::Any,
            Purpose::Create,
            Purpose::Update,
        ]
        .map(|purpose| schema(&entity, purpose)["properties"]["x"].clone())
        .to_vec();
        schemas.push(openapi(&entity)["components"]["schemas"]["s"]["properties"]["x"].clone());
        assert!(schemas.iter().all(|one| *one == schemas[0]), "{schemas:?}");
        n_choices += usize::from(kind == "steward.any_of");
        for _ in 0..20 {
            let value = value(&mut random, 2);
            let verdict = attributes::create(&entity, object(json!({"x": value})));
            assert_eq!(
                accepts(&schemas[0], &value),
                verdict.is_ok(),
                "{value} for {kind} {parameters} of {base}{suffix}: {verdict:?}, {}",
                schemas[0]
            );
            match verdict {
                Ok(_) => n_accepted += 1,
                Err(_) => n_refused += 1,
            }
        }
    }
    assert!(
        n_accepted > 2000 && n_refused > 2000 && n_choices > 200,
        "{n_accepted} {n_refused} {n_choices}"
    );
}

/// Given: a choice of which one is a type that only compiles know, parameters that make no sense, a text that is changed before
/// it is looked at, a pattern of Python's own. Expected: the schema says nothing, since it can not say what is accepted.
#[test]
fn what_json_schema_can_not_say_is_left_to_the_server() {
    let choice = |kind: &str| json!({"validation_type": kind, "validation_parameters": null});
    let said = |kind: &str, parameters: Value| {
        let entity = entity(&json!({"name": "s", "attributes": [{
            "name": "x", "modifier": "rw+", "type": "string", "validation_type": kind, "validation_parameters": parameters,
        }], "lifecycle": {"name": "l", "initial_state": "a", "states": [{"name": "a"}]}}));
        schema(&entity, Purpose::Create)["properties"]["x"].clone()
    };
    let nothing = json!({"type": "string"});
    let choices = [choice("ipaddress.IPv4Address"), choice("mine.Own")];
    assert_eq!(said("steward.any_of", json!({"any_of": choices})), nothing);
    assert_eq!(
        said("pydantic.constr", json!({"max_length": 3, "colour": "red"})),
        nothing
    );
    assert_eq!(
        said(
            "pydantic.constr",
            json!({"max_length": 3, "strip_whitespace": true})
        ),
        nothing
    );
    assert_eq!(
        said("pydantic.constr", json!({"regex": r"(?i)a\Z"})),
        nothing
    );
    assert_eq!(said("enum", json!({"names": {}})), nothing);
    let choices = json!([
        {"validation_type": "enum", "validation_parameters": {"names": {"auto": "auto"}}},
        {"validation_type": "pydantic.constr", "validation_parameters": {"regex": "^[0-9]+$"}},
    ]);
    assert_eq!(
        said("steward.any_of", json!({"any_of": choices})),
        json!({"type": "string", "anyOf": [{"enum": ["auto"]}, {"pattern": "^(?:^[0-9]+$)"}]})
    );
}
