//! The attributes of a service as JSON Schema. Source: docs/reference/lsm.md § 5.2.

use serde_json::{Map, Value, json};

use crate::attributes::default_of;
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
        add_validation(schema, validation.unwrap_or_default(), parameters);
    }
}

fn add_validation(
    schema: &mut Map<String, Value>,
    kind: &str,
    parameters: Option<&Map<String, Value>>,
) {
    let format = match kind {
        "enum" => {
            let names = parameters.and_then(|parameters| parameters.get("names")?.as_object());
            let values: Vec<&Value> = names.into_iter().flat_map(Map::values).collect();
            schema.insert("enum".to_owned(), json!(values));
            return;
        }
        "ipaddress.IPv4Address" => Some("ipv4"),
        "ipaddress.IPv6Address" => Some("ipv6"),
        "datetime.date" => Some("date"),
        "datetime.datetime" => Some("date-time"),
        "uuid.UUID" => Some("uuid"),
        "pydantic.EmailStr" => Some("email"),
        "pydantic.AnyUrl" | "pydantic.AnyHttpUrl" | "pydantic.HttpUrl" => Some("uri"),
        _ => None,
    };
    if let Some(format) = format {
        schema.insert("format".to_owned(), json!(format));
    }
    for (name, value) in parameters
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
    {
        let (word, value) = match (name.as_str(), value.as_str()) {
            // Python matches from the start.
            ("regex", Some(pattern)) => ("pattern", json!(format!("^(?:{pattern})"))),
            ("pattern", Some(_)) => ("pattern", value.clone()),
            ("gt", _) => ("exclusiveMinimum", value.clone()),
            ("ge", _) => ("minimum", value.clone()),
            ("lt", _) => ("exclusiveMaximum", value.clone()),
            ("le", _) => ("maximum", value.clone()),
            ("multiple_of", _) => ("multipleOf", value.clone()),
            ("min_length", _) => ("minLength", value.clone()),
            ("max_length", _) => ("maxLength", value.clone()),
            _ => continue,
        };
        schema.insert(word.to_owned(), value);
    }
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
