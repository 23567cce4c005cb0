//! The OpenAPI document of the API, held against the server: each endpoint is asked as the document says. A handler that asks for
//! an argument, or answers with a field, that `src/api/contract/endpoints.txt` does not name is answered with 500 in this build.

use serde_json::{Map, Value, json};

use crate::harness::{request, segment};
use crate::service_world::World;

/// A value that fits a schema of the document.
fn sample(schema: &Value, environment: &str) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("uuid")) => json!(environment),
        (Some("string"), Some("date-time")) => json!("2026-01-01T00:00:00"),
        (Some("string"), _) => schema.get("example").cloned().unwrap_or(json!("link")),
        (Some("integer"), _) => json!(1),
        (Some("boolean"), _) => json!(true),
        (Some("array"), _) => json!([sample(&schema["items"], environment)]),
        (Some("object"), _) => json!({}),
        _ => json!("x"),
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Array(values) => values.first().map(as_text).unwrap_or_default(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An endpoint of the document.
struct Asked<'a> {
    world: &'a World,
    environment: &'a str,
    verb: &'a str,
    path: &'a str,
    operation: &'a Value,
}

impl Asked<'_> {
    /// What there is at the place before the id, or else the environment.
    fn id_below(&self, place: &str) -> Option<String> {
        let url = format!("{}{place}?limit=10", self.world.running.api);
        let (_, body) = request("GET", &url, Some(self.environment), None);
        let lists = body.as_object()?.values();
        let row = lists.filter_map(Value::as_array).flatten().next()?;
        let names = ["id", "jti", "callback_id", "resource_id"];
        let id = names.into_iter().find_map(|name| row[name].as_str())?;
        Some(id.to_owned())
    }

    fn url(&self, keeps: impl Fn(&Value) -> bool) -> String {
        let mut path = String::new();
        for part in self.path.split('/').skip(1) {
            let value = match part {
                "{rid}" => self.id_below("/api/v2/resource"),
                "{rvid}" => self
                    .id_below("/api/v2/resource")
                    .map(|id| format!("{id},v=1")),
                "{id}" if path.contains("service_inventory/link") => {
                    self.id_below("/lsm/v1/service_inventory/link")
                }
                "{id}" | "{jti}" => self.id_below(&path),
                "{version}" | "{from}" | "{to}" => Some("1".to_owned()),
                "{env}" => None,
                "{forge}" => Some("github".to_owned()),
                "{action}" => Some("none".to_owned()),
                _ if part.starts_with('{') => Some("link".to_owned()),
                plain => Some(plain.to_owned()),
            };
            let value = value.unwrap_or_else(|| self.environment.to_owned());
            path = format!("{path}/{}", segment(&value));
        }
        let all = self.operation["parameters"].as_array().unwrap();
        let query = all.iter().filter(|one| one["in"] == "query" && keeps(one));
        let query = query.map(|one| {
            let value = sample(&one["schema"], self.environment);
            let name = one["name"].as_str().unwrap();
            format!("{name}={}", segment(&as_text(&value)))
        });
        let query: Vec<String> = query.collect();
        format!("{}{path}?{}", self.world.running.api, query.join("&"))
    }

    fn body(&self, keeps: impl Fn(&str) -> bool) -> Option<Value> {
        let content = &self.operation["requestBody"]["content"]["application/json"];
        let properties = content["schema"]["properties"].as_object()?.iter();
        let kept = properties.filter(|(name, _)| keeps(name));
        let body: Map<_, _> = kept
            .map(|(name, schema)| (name.clone(), sample(schema, self.environment)))
            .collect();
        Some(body.into())
    }

    fn status(&self, url: &str, body: Option<&Value>) -> u16 {
        let verb = self.verb.to_uppercase();
        let (status, answer) = request(&verb, url, Some(self.environment), body);
        assert_ne!(status, 500, "{verb} {url} {body:?}: {answer}");
        status
    }
}

/// Given: a server with services. Input: each endpoint of the document, with the arguments that it needs, with all, and with each
/// of the others alone. Expected: no answer is an error of the server.
#[test]
fn every_endpoint_takes_and_answers_what_the_document_says() {
    let world = World::new();
    world.create("a", 5);
    let environment = world.running.environment();
    let document = world.running.get_ok("/api/v2/docs?format=openapi");
    let document = &document["data"];
    let order = ["get", "head", "put", "post", "patch", "delete"];
    let mut all: Vec<(&str, &str, &Value)> = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            all.push((verb, path, operation));
        }
    }
    // What deletes the environment comes last.
    all.sort_by_key(|(verb, path, _)| {
        let is_last = path.contains("decommission") || path.contains("v2/environment/");
        let verb = order.iter().position(|one| one == verb);
        (*path == "/api/v1/project/{id}", is_last, verb)
    });
    let mut n_good = 0;
    for (verb, path, operation) in all {
        let asked = Asked {
            world: &world,
            environment: &environment,
            verb,
            path,
            operation,
        };
        let content = &operation["requestBody"]["content"]["application/json"];
        let required = content["schema"]["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|all| all.contains(&json!(name)));
        let needed = asked.status(
            &asked.url(|one| one["required"] == true),
            asked.body(is_required).as_ref(),
        );
        n_good += usize::from(needed < 300);
        asked.status(&asked.url(|_| true), asked.body(|_| true).as_ref());
        for one in operation["parameters"].as_array().unwrap() {
            if one["in"] == "query" && one["required"] == false {
                let is_kept = |other: &Value| other["required"] == true || other == one;
                asked.status(&asked.url(is_kept), None);
            }
        }
    }
    assert!(n_good > 50, "only {n_good} calls of the document did well");
}
