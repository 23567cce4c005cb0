//! The attributes of a service as JSON Schema. Source: docs/reference/lsm.md § 5.2.

use serde_json::{Map, Value, json};
use steward_lsm::ServiceEntity;
use steward_lsm::definition::{EntityAttribute, Fields, Modifier};

/// The schema of what a client gives for a new instance.
pub(super) fn of(entity: &ServiceEntity) -> Value {
    let mut schema = fields(&entity.fields);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(entity.name);
    if let Some(description) = &entity.description {
        schema["description"] = json!(description);
    }
    schema
}

fn fields(fields: &Fields) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let mut add = |name: &String, is_required: bool, property: Value| {
        if is_required {
            required.push(name.clone());
        }
        properties.insert(name.clone(), property);
    };
    for one in &fields.attributes {
        let is_optional = one.default_value_set || one.value_type.ends_with('?');
        let is_required = !is_optional && one.modifier != Modifier::ReadOnly;
        add(&one.name, is_required, attribute(one));
    }
    for one in &fields.inter_service_relations {
        let id = json!({"type": "string", "format": "uuid"});
        let mut property = many(id, (one.lower_limit, one.upper_limit));
        describe(&mut property, one.description.as_deref(), one.modifier);
        let is_required = one.lower_limit > 0 && one.modifier != Modifier::ReadOnly;
        add(&one.name, is_required, property);
    }
    for one in &fields.embedded_entities {
        let element = self::fields(&one.fields);
        let mut property = many(element, (one.lower_limit, one.upper_limit));
        describe(&mut property, one.description.as_deref(), one.modifier);
        let is_required = one.lower_limit > 0 && one.modifier != Modifier::ReadOnly;
        add(&one.name, is_required, property);
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// One, which may be missing, or a list of so many.
fn many(one: Value, (lower, upper): (u64, Option<u64>)) -> Value {
    match upper {
        Some(1) if lower == 0 => json!({"anyOf": [one, {"type": "null"}]}),
        Some(1) => one,
        None => json!({"type": "array", "items": one, "minItems": lower}),
        Some(upper) => {
            json!({"type": "array", "items": one, "minItems": lower, "maxItems": upper})
        }
    }
}

fn describe(property: &mut Value, description: Option<&str>, modifier: Modifier) {
    if let Some(description) = description {
        property["description"] = json!(description);
    }
    if modifier == Modifier::ReadOnly {
        property["readOnly"] = json!(true);
    }
}

fn attribute(attribute: &EntityAttribute) -> Value {
    let text = attribute.value_type.as_str();
    let nullable = text.strip_suffix('?');
    let text = nullable.unwrap_or(text);
    let element = text.strip_suffix("[]");
    let mut value = match element.unwrap_or(text) {
        "int" => json!({"type": "integer"}),
        "number" | "float" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        "dict" => json!({"type": "object"}),
        "list" => json!({"type": "array"}),
        _ => json!({"type": "string"}),
    };
    restrict(&mut value, attribute);
    if element.is_some() {
        value = json!({"type": "array", "items": value});
    }
    if nullable.is_some() {
        value = json!({"anyOf": [value, {"type": "null"}]});
    }
    describe(
        &mut value,
        attribute.description.as_deref(),
        attribute.modifier,
    );
    if attribute.default_value_set {
        value["default"] = attribute.default_value.clone();
    }
    value
}

/// What a validation says that a schema can say, too.
fn restrict(value: &mut Value, attribute: &EntityAttribute) {
    let Some(parameters) = &attribute.validation_parameters else {
        return;
    };
    let kind = attribute.validation_type.as_deref().unwrap_or_default();
    if kind.starts_with("enum")
        && let Some(Value::Object(names)) = parameters.get("names")
    {
        value["enum"] = names.values().cloned().collect();
    }
    let same = [
        ("regex", "pattern"),
        ("max_length", "maxLength"),
        ("ge", "minimum"),
        ("gt", "exclusiveMinimum"),
        ("le", "maximum"),
        ("lt", "exclusiveMaximum"),
    ];
    for (ours, theirs) in same {
        if let Some(limit) = parameters.get(ours).filter(|limit| !limit.is_null()) {
            value[theirs] = limit.clone();
        }
    }
}
