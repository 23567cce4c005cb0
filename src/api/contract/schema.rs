//! The text as OpenAPI 3.0: <https://spec.openapis.org/oas/v3.0.3>.

use serde_json::{Map, Value, json};

use super::check::page_of;
use super::{AnswerBody, Argument, CONTRACT, Endpoint, Shape, is_of_query};
use crate::api::routes::{Handler, Needs, Route};

/// The names between `<` and `>`.
fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('<')?.strip_suffix('>'))
}

/// The whole document.
pub(in crate::api) fn openapi(routes: impl Iterator<Item = &'static Route>) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = route.path.replace('<', "{").replace('>', "}");
        let verb = route.verb.as_str().to_lowercase();
        paths.entry(path).or_insert_with(|| json!({}))[&verb] = operation(route, &verb);
    }
    let shapes = CONTRACT.shapes.iter();
    let mut schemas: Map<String, Value> = shapes
        .map(|(name, shape)| (name.clone(), schema(shape)))
        .collect();
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "description": "what is wrong",
            "required": ["message"],
            "properties": {"message": {"type": "string"}},
        }),
    );
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Steward",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0"},
            "description": "Objects may get more fields in later versions.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(route: &Route, verb: &str) -> Value {
    let endpoint = Endpoint::of(route);
    let arguments = endpoint.map_or(&[][..], |endpoint| endpoint.arguments.as_slice());
    let is_of_query = match route.handler {
        Handler::Query(_) => true,
        Handler::Body(_) | Handler::Own => is_of_query(route.verb),
    };
    let mut parameters: Vec<Value> = placeholders(route.path).map(of_path).collect();
    if route.needs == Needs::Environment {
        parameters.push(json!({
            "name": "X-Inmanta-tid",
            "in": "header",
            "required": true,
            "description": "the id of the environment, a UUID",
            // Without a format: clients are made that cannot write another type into a header.
            "schema": {"type": "string"},
        }));
    }
    if is_of_query {
        parameters.extend(arguments.iter().map(of_query));
    }
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut operation = json!({
        "operationId": format!("{verb}_{}", words.join("_")).trim_end_matches('_'),
        "summary": route.what,
        "parameters": parameters,
        "responses": responses(endpoint),
    });
    if !is_of_query && !arguments.is_empty() {
        let is_required = arguments.iter().any(|argument| argument.is_required);
        operation["requestBody"] = json!({
            "required": is_required,
            "content": {"application/json": {"schema": body_of(arguments)}},
        });
    }
    if !matches!(route.needs, Needs::Nothing | Needs::Signature) {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}

fn of_path(name: &str) -> Value {
    let mut known = CONTRACT.groups.get("path").into_iter().flatten();
    let known = known.find(|argument| argument.name == name);
    let mut parameter = json!({"name": name, "in": "path", "required": true});
    parameter["schema"] =
        known.map_or_else(|| json!({"type": "string"}), |known| schema(&known.shape));
    if let Some(known) = known {
        parameter["description"] = json!(known.what);
    }
    parameter
}

fn of_query(argument: &Argument) -> Value {
    let mut parameter = json!({
        "name": argument.name,
        "in": "query",
        "required": argument.is_required,
        "description": argument.what,
        "schema": schema(&argument.shape),
    });
    if let Some(default) = &argument.default {
        parameter["schema"]["default"] = default.clone();
    }
    parameter
}

fn body_of(arguments: &[Argument]) -> Value {
    let mut properties = Map::new();
    for argument in arguments {
        let mut property = match schema(&argument.shape) {
            // Nothing may stand beside a reference.
            reference if reference.get("$ref").is_some() => json!({"allOf": [reference]}),
            plain => plain,
        };
        property["description"] = json!(argument.what);
        if let Some(default) = &argument.default {
            property["default"] = default.clone();
        }
        properties.insert(argument.name.clone(), property);
    }
    let required = arguments.iter().filter(|argument| argument.is_required);
    object(
        properties,
        required.map(|argument| argument.name.as_str()).collect(),
    )
}

fn object(properties: Map<String, Value>, required: Vec<&str>) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn responses(endpoint: Option<&Endpoint>) -> Value {
    let mut responses = Map::new();
    for answer in endpoint.into_iter().flat_map(|endpoint| &endpoint.answers) {
        let entry = responses
            .entry(answer.status.to_string())
            .or_insert_with(|| json!({"description": "it is done"}));
        let json = "application/json";
        let (media, schema) = match &answer.body {
            AnswerBody::Nothing => continue,
            AnswerBody::Data(shape) => {
                let data = Map::from_iter([("data".to_owned(), schema(shape))]);
                (json, object(data, vec!["data"]))
            }
            AnswerBody::Page(row) => (json, schema(&page_of(row))),
            AnswerBody::Whole(shape) => (json, schema(shape)),
            AnswerBody::Document(media) if media == json => (json, json!({"type": "object"})),
            AnswerBody::Document(media) => (media.as_str(), json!({"type": "string"})),
        };
        entry["description"] = json!("what was asked for");
        entry["content"][media] = json!({"schema": schema});
    }
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "`message` says what is wrong",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }),
    );
    responses.into()
}

fn schema(shape: &Shape) -> Value {
    match shape {
        Shape::Any => json!({}),
        Shape::Null => json!({"nullable": true}),
        Shape::Text => json!({"type": "string"}),
        Shape::Whole => json!({"type": "integer"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Moment => json!({"type": "string", "format": "date-time"}),
        Shape::Id => json!({"type": "string", "format": "uuid"}),
        Shape::Range => json!({"type": "string", "pattern": "^(lt|le|gt|ge):", "example": "ge:1"}),
        Shape::Object => json!({"type": "object"}),
        Shape::Words(words) => json!({"type": "string", "enum": words}),
        Shape::Named(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        Shape::Maybe(inner) => maybe(schema(inner)),
        Shape::List(inner) => json!({"type": "array", "items": schema(inner)}),
        Shape::Map(inner) => json!({"type": "object", "additionalProperties": schema(inner)}),
        Shape::Fields(fields) => {
            let properties = fields
                .iter()
                .map(|field| (field.name.clone(), schema(&field.shape)));
            let required = fields.iter().filter(|field| field.is_required);
            object(
                properties.collect(),
                required.map(|field| field.name.as_str()).collect(),
            )
        }
        Shape::All(parts) => json!({"allOf": parts.iter().map(schema).collect::<Vec<_>>()}),
    }
}

/// The same, or null.
fn maybe(mut schema: Value) -> Value {
    if schema.get("$ref").is_some() {
        return json!({"nullable": true, "allOf": [schema]});
    }
    schema["nullable"] = json!(true);
    // A list of words is all that there may be.
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::openapi;
    use crate::api::routes::TABLE;
    use serde_json::{Value, json};

    fn document() -> Value {
        openapi(TABLE.iter().copied().flatten())
    }

    #[test]
    fn every_route_is_an_operation_with_its_parameters() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let n_operations: usize = paths
            .values()
            .map(|path| path.as_object().unwrap().len())
            .sum();
        assert_eq!(n_operations, TABLE.iter().copied().flatten().count());
        let fact = &paths["/api/v2/resource/{rid}/facts/{id}"]["get"];
        let names: Vec<&str> = fact["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["rid", "id", "X-Inmanta-tid"]);
        assert_eq!(paths["/api/v2/health"]["get"]["security"], Value::Null);
    }

    #[test]
    fn every_name_of_a_path_is_known_and_every_operation_has_its_own_name() {
        let document = document();
        let mut ids = Vec::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for operation in operations.as_object().unwrap().values() {
                ids.push(operation["operationId"].as_str().unwrap().to_owned());
                for parameter in operation["parameters"].as_array().unwrap() {
                    let what = parameter["description"].as_str();
                    assert!(what.is_some(), "{path}: {parameter}");
                }
            }
        }
        let n_ids = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), n_ids);
    }

    #[test]
    fn arguments_are_parameters_or_fields_of_the_body() {
        let document = document();
        let paths = &document["paths"];
        let list = paths["/api/v2/environment"]["get"]["parameters"].as_array();
        let details = json!({
            "name": "details", "in": "query", "required": false, "description": "with description and icon",
            "schema": {"type": "boolean", "default": false},
        });
        assert_eq!(list.unwrap(), &[details]);
        let body = &paths["/api/v2/project"]["put"]["requestBody"];
        assert_eq!(body["required"], true);
        let schema = &body["content"]["application/json"]["schema"];
        assert_eq!(schema["required"], json!(["name"]));
        assert_eq!(schema["properties"]["project_id"]["format"], "uuid");
        let answer = &paths["/api/v2/project"]["put"]["responses"]["200"];
        let data = &answer["content"]["application/json"]["schema"]["properties"]["data"];
        assert_eq!(data["$ref"], "#/components/schemas/Project");
    }
}
