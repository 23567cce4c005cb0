//! The attributes of a service as JSON Schema. Source: docs/reference/lsm.md § 5.2.

use serde_json::{Map, Value, json};
use steward_compiler::validate_json;

use crate::attributes::{ANY_OF, default_of};
use crate::definition::{
    EmbeddedEntity, EntityAttribute, Fields, InterServiceRelation, Modifier, ServiceEntity,
};

/// What a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is stored: everything.
    Read,
    /// What is stored, and of it only what a client has to give is required: for programs that know no other purposes.
    Any,
    /// What a client gives to create an instance: nothing that is read-only.
    Create,
    /// What a client gives to change one: what may change, and no field is needed.
    Update,
}

/// The attributes of a service as JSON Schema.
#[must_use]
pub fn schema(entity: &ServiceEntity, purpose: Purpose) -> Value {
    let mut schema = of_fields(&entity.fields, purpose);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(
            "$schema".to_owned(),
            json!("https://json-schema.org/draft/2020-12/schema"),
        );
        fields.insert("title".to_owned(), json!(entity.name));
        if let Some(text) = &entity.description {
            fields.insert("description".to_owned(), json!(text));
        }
    }
    schema
}

/// An object with the fields that count.
fn of_fields(fields: &Fields, purpose: Purpose) -> Value {
    let counts = |modifier: Modifier| match purpose {
        Purpose::Read | Purpose::Any => true,
        Purpose::Create => modifier != Modifier::ReadOnly,
        Purpose::Update => modifier == Modifier::Always,
    };
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let mut add = |name: &String, schema: Value, modifier: Modifier, is_needed: bool| {
        properties.insert(name.clone(), schema);
        let is_required = match purpose {
            Purpose::Read => true,
            Purpose::Any => is_needed && modifier != Modifier::ReadOnly,
            Purpose::Create => is_needed,
            Purpose::Update => false,
        };
        if is_required {
            required.push(name.clone());
        }
    };
    for one in fields.attributes.iter().filter(|one| counts(one.modifier)) {
        let is_needed = default_of(one).is_none();
        add(&one.name, of_attribute(one), one.modifier, is_needed);
    }
    for one in fields
        .embedded_entities
        .iter()
        .filter(|one| counts(one.modifier))
    {
        let schema = of_embedded(one, purpose);
        add(&one.name, schema, one.modifier, one.lower_limit > 0);
    }
    for one in fields
        .inter_service_relations
        .iter()
        .filter(|one| counts(one.modifier))
    {
        let schema = of_relation(one);
        add(&one.name, schema, one.modifier, one.lower_limit > 0);
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn of_attribute(attribute: &EntityAttribute) -> Value {
    let mut schema = Map::new();
    let validation = attribute.validation_type.as_deref();
    let parameters = attribute.validation_parameters.as_ref();
    add_type(&mut schema, &attribute.value_type, validation, parameters);
    if attribute.default_value_set {
        schema.insert("default".to_owned(), attribute.default_value.clone());
    }
    described(
        &mut schema,
        attribute.description.as_deref(),
        attribute.modifier,
    );
    Value::Object(schema)
}

fn described(schema: &mut Map<String, Value>, text: Option<&str>, modifier: Modifier) {
    if let Some(text) = text {
        schema.insert("description".to_owned(), json!(text));
    }
    if modifier == Modifier::ReadOnly {
        schema.insert("readOnly".to_owned(), json!(true));
    }
}

/// The suffixes of a type, from the outside; those of its validation are the same.
fn add_type(
    schema: &mut Map<String, Value>,
    name: &str,
    validation: Option<&str>,
    parameters: Option<&Map<String, Value>>,
) {
    if let Some(inner) = name.strip_suffix('?') {
        let validation = validation.map(|kind| kind.strip_suffix('?').unwrap_or(kind));
        let mut items = Map::new();
        add_type(&mut items, inner, validation, parameters);
        schema.insert("anyOf".to_owned(), json!([items, {"type": "null"}]));
    } else if let Some(inner) = name.strip_suffix("[]") {
        let validation = validation.map(|kind| kind.strip_suffix("[]").unwrap_or(kind));
        let mut items = Map::new();
        add_type(&mut items, inner, validation, parameters);
        schema.insert("type".to_owned(), json!("array"));
        schema.insert("items".to_owned(), Value::Object(items));
    } else {
        let word = match name {
            "string" => "string",
            "int" => "integer",
            "number" | "float" => "number",
            "bool" => "boolean",
            "dict" => "object",
            "list" => "array",
            _ => return,
        };
        schema.insert("type".to_owned(), json!(word));
        schema.extend(of_validation(
            name,
            validation.unwrap_or_default(),
            parameters,
        ));
    }
}

/// What a validation says about a value of a plain type, as far as JSON Schema has words for it: nothing that the server would
/// accept is refused. Empty: only the server, or a compile, can tell.
fn of_validation(
    base: &str,
    kind: &str,
    parameters: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    match kind {
        "enum" => of_names(parameters),
        ANY_OF => of_choices(base, parameters),
        _ => of_standard_type(base, kind, parameters),
    }
}

/// The values of an enumeration.
fn of_names(parameters: Option<&Map<String, Value>>) -> Map<String, Value> {
    let names = parameters.and_then(|parameters| parameters.get("names")?.as_object());
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        return Map::new();
    };
    let values: Vec<&Value> = names.values().collect();
    Map::from_iter([("enum".to_owned(), json!(values))])
}

/// Several validations, of which one is enough. If one of them can not be said, none is: a value may pass that one.
fn of_choices(base: &str, parameters: Option<&Map<String, Value>>) -> Map<String, Value> {
    let choices = parameters.and_then(|parameters| parameters.get("any_of")?.as_array());
    let choices = choices.into_iter().flatten().map(|choice| {
        let kind = choice["validation_type"].as_str().unwrap_or_default();
        of_validation(base, kind, choice["validation_parameters"].as_object())
    });
    let choices: Vec<Map<String, Value>> = choices.collect();
    if choices.is_empty() || choices.iter().any(Map::is_empty) {
        return Map::new();
    }
    Map::from_iter([("anyOf".to_owned(), json!(choices))])
}

/// A type of `std::validate_type`.
fn of_standard_type(
    base: &str,
    kind: &str,
    parameters: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    // The server leaves types and parameters that it can not make sense of to compiles.
    if validate_json(kind, &json!(""), parameters).is_none() {
        return Map::new();
    }
    let said = match kind {
        "ipaddress.IPv4Address" => json!({"format": "ipv4"}),
        "ipaddress.IPv6Address" => json!({"format": "ipv6"}),
        "pydantic.IPvAnyAddress" => json!({"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
        "datetime.date" => json!({"format": "date"}),
        "datetime.datetime" => json!({"format": "date-time"}),
        "uuid.UUID" => json!({"format": "uuid"}),
        "pydantic.EmailStr" => json!({"format": "email"}),
        "pydantic.AnyUrl" | "pydantic.AnyHttpUrl" | "pydantic.HttpUrl" => json!({"format": "uri"}),
        "pydantic.PositiveInt" | "pydantic.PositiveFloat" => json!({"exclusiveMinimum": 0}),
        "pydantic.NegativeInt" | "pydantic.NegativeFloat" => json!({"exclusiveMaximum": 0}),
        _ => json!({}),
    };
    let mut schema = match said {
        Value::Object(said) => said,
        _ => Map::new(),
    };
    let parameters = parameters.into_iter().flatten();
    let parameters: Map<String, Value> = parameters
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    match kind {
        "pydantic.constr" => schema.extend(of_text(&parameters)),
        "pydantic.conint" | "pydantic.confloat" | "pydantic.condecimal" => {
            schema.extend(of_bounds(&parameters));
        }
        _ => {}
    }
    let is_integral = [
        "pydantic.conint",
        "pydantic.PositiveInt",
        "pydantic.NegativeInt",
    ];
    if is_integral.contains(&kind) && matches!(base, "number" | "float") {
        schema.insert("type".to_owned(), json!("integer"));
    }
    schema
}

/// Lengths and patterns of a text. They are about what the text is made into, so a text that is changed first is not described.
fn of_text(parameters: &Map<String, Value>) -> Map<String, Value> {
    let rewrites = ["strip_whitespace", "to_lower", "to_upper"];
    if rewrites
        .iter()
        .any(|name| parameters.get(*name) == Some(&Value::Bool(true)))
    {
        return Map::new();
    }
    let mut schema = Map::new();
    for (name, word) in [("min_length", "minLength"), ("max_length", "maxLength")] {
        if let Some(length) = parameters.get(name).and_then(Value::as_u64) {
            schema.insert(word.to_owned(), json!(length));
        }
    }
    let pattern = |name: &str| {
        let pattern = parameters.get(name).and_then(Value::as_str);
        pattern.filter(|pattern| !is_pythons_own(pattern))
    };
    // Python matches from the start.
    let at_start = pattern("regex").map(|pattern| format!("^(?:{pattern})"));
    match (at_start, pattern("pattern")) {
        (Some(one), Some(other)) => {
            schema.insert("pattern".to_owned(), json!(one));
            schema.insert("allOf".to_owned(), json!([{"pattern": other}]));
        }
        (Some(pattern), None) => {
            schema.insert("pattern".to_owned(), json!(pattern));
        }
        (None, Some(pattern)) => {
            schema.insert("pattern".to_owned(), json!(pattern));
        }
        (None, None) => {}
    }
    schema
}

/// Whether a regular expression has what JSON Schema's (those of ECMAScript) do not know: a validator would refuse the schema.
fn is_pythons_own(pattern: &str) -> bool {
    const OWN: [&str; 10] = [
        "(?P", "(?#", "(?(", "(?i", "(?m", "(?s", "(?x", "(?a", r"\A", r"\Z",
    ];
    OWN.iter().any(|own| pattern.contains(own))
}

/// Bounds of a number, and what it is a multiple of.
fn of_bounds(parameters: &Map<String, Value>) -> Map<String, Value> {
    let words = [
        ("gt", "exclusiveMinimum"),
        ("ge", "minimum"),
        ("lt", "exclusiveMaximum"),
        ("le", "maximum"),
        ("multiple_of", "multipleOf"),
    ];
    let mut schema = Map::new();
    for (name, word) in words {
        let bound = parameters.get(name).filter(|bound| bound.is_number());
        // A step that is not positive is none in JSON Schema.
        let is_step = |bound: &&Value| name != "multiple_of" || bound.as_f64() > Some(0.0);
        if let Some(bound) = bound.filter(is_step) {
            schema.insert(word.to_owned(), bound.clone());
        }
    }
    schema
}

/// One, or a list with its bounds.
fn of_limits(one: Value, lower: u64, upper: Option<u64>) -> Map<String, Value> {
    let mut schema = Map::new();
    if upper == Some(1) {
        let choices = if lower == 0 {
            json!([one, {"type": "null"}])
        } else {
            json!([one])
        };
        schema.insert("anyOf".to_owned(), choices);
        return schema;
    }
    schema.insert("type".to_owned(), json!("array"));
    schema.insert("items".to_owned(), one);
    schema.insert("minItems".to_owned(), json!(lower));
    if let Some(upper) = upper {
        schema.insert("maxItems".to_owned(), json!(upper));
    }
    schema
}

fn of_relation(relation: &InterServiceRelation) -> Value {
    let id = json!({"type": "string", "format": "uuid", "description": format!("the id of a {}", relation.entity_type)});
    let mut schema = of_limits(id, relation.lower_limit, relation.upper_limit);
    described(
        &mut schema,
        relation.description.as_deref(),
        relation.modifier,
    );
    Value::Object(schema)
}

/// An element that a client adds is created, whatever is changed around it.
fn of_embedded(embedded: &EmbeddedEntity, purpose: Purpose) -> Value {
    let inner = match purpose {
        Purpose::Read | Purpose::Any => purpose,
        Purpose::Create | Purpose::Update => Purpose::Create,
    };
    let one = of_fields(&embedded.fields, inner);
    let mut schema = of_limits(one, embedded.lower_limit, embedded.upper_limit);
    described(
        &mut schema,
        embedded.description.as_deref(),
        embedded.modifier,
    );
    Value::Object(schema)
}
