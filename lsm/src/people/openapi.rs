//! The API of a service, made of its definition, in the words of OpenAPI 3.1. Source: docs/reference/lsm.md § 5.2, § 5.4, § 5.5.

use serde_json::{Value, json};

use super::schema::{Purpose, schema};
use crate::definition::ServiceEntity;

/// The paths of a service: list, create, read, update, delete, set state.
#[must_use]
pub fn openapi(entity: &ServiceEntity) -> Value {
    let name = &entity.name;
    let collection = format!("/lsm/v1/service_inventory/{name}");
    let id = parameter(
        "service_id",
        "path",
        &json!({"type": "string"}),
        "the id, or identity=value",
    );
    let version = parameter(
        "current_version",
        "query",
        &json!({"type": "integer"}),
        "the version that the client has seen",
    );
    let mut paths = json!({
        &collection: {
            "get": operation("list", name, Vec::new(), None),
            "post": operation("create", name, Vec::new(), Some(create_body(entity))),
        },
        format!("{collection}/{{service_id}}"): {
            "get": operation("get", name, vec![id.clone()], None),
            "delete": operation("delete", name, vec![id.clone(), version.clone()], None),
        },
        format!("{collection}/{{service_id}}/state"): {
            "post": operation("set_state", name, vec![id.clone()], Some(state_body(entity))),
        },
    });
    let one = format!("{collection}/{{service_id}}");
    if entity.strict_modifier_enforcement {
        let whole = json!({"type": "object", "required": ["put_id", "current_version", "attributes"], "properties": {
            "put_id": {"type": "string"}, "current_version": {"type": "integer"}, "comment": {"type": "string"},
            "ignore_read_only_attributes": {"type": "boolean", "default": false},
            "attributes": schema(entity, Purpose::Read),
        }});
        paths[&one]["put"] = operation("replace", name, vec![id.clone()], Some(whole));
        let second = one.replace("/v1/", "/v2/");
        paths[second] = json!({"patch": operation("update", name, vec![id], Some(edit_body()))});
    } else {
        let body = json!({"type": "object", "required": ["attributes"], "properties": {
            "attributes": schema(entity, Purpose::Update),
        }});
        paths[&one]["patch"] = operation("update", name, vec![id, version], Some(body));
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": name, "version": entity.version.to_string(), "description": entity.description.as_deref().unwrap_or("")},
        "paths": paths,
        "components": {"schemas": {name: schema(entity, Purpose::Read)}},
    })
}

fn parameter(name: &str, place: &str, schema: &Value, text: &str) -> Value {
    json!({"name": name, "in": place, "required": true, "schema": schema, "description": text})
}

fn operation(verb: &str, name: &str, mut parameters: Vec<Value>, body: Option<Value>) -> Value {
    let uuid = json!({"type": "string", "format": "uuid"});
    parameters.push(parameter(
        "X-Inmanta-tid",
        "header",
        &uuid,
        "the environment",
    ));
    let mut made = json!({
        "operationId": format!("{verb}_{name}"),
        "tags": [name],
        "parameters": parameters,
        "responses": {
            "200": {"description": "accepted"},
            "400": {"description": "fields that are wrong, by path"},
            "404": {"description": "no such environment, service or instance"},
            "409": {"description": "another version than the client has seen, or a state that does not accept it"},
        },
    });
    if let Some(schema) = body {
        made["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    made
}

fn create_body(entity: &ServiceEntity) -> Value {
    let lifecycle = &entity.lifecycle;
    let states: Vec<&String> = std::iter::once(&lifecycle.initial_state)
        .chain(&lifecycle.alternative_initial_states)
        .collect();
    json!({"type": "object", "required": ["attributes"], "properties": {
        "attributes": schema(entity, Purpose::Create),
        "service_instance_id": {"type": "string", "format": "uuid"},
        "service_entity_version": {"type": "integer"},
        "initial_state": {"enum": states},
    }})
}

fn state_body(entity: &ServiceEntity) -> Value {
    let transfers = entity
        .lifecycle
        .transfers
        .iter()
        .filter(|one| one.api_set_state);
    let mut states: Vec<&String> = transfers.map(|one| &one.target).collect();
    states.sort();
    states.dedup();
    json!({"type": "object", "required": ["current_version", "target_state"], "properties": {
        "current_version": {"type": "integer"},
        "target_state": {"type": "string", "enum": states},
        "message": {"type": "string"},
    }})
}

fn edit_body() -> Value {
    let edit = json!({"type": "object", "required": ["edit_id", "operation", "target"], "properties": {
        "edit_id": {"type": "string"},
        "operation": {"enum": ["replace", "remove", "merge", "add"]},
        "target": {"type": "string", "description": "a path into the attributes"},
        "value": {},
    }});
    json!({"type": "object", "required": ["patch_id", "current_version", "edit"], "properties": {
        "patch_id": {"type": "string"},
        "current_version": {"type": "integer"},
        "edit": {"type": "array", "items": edit},
        "comment": {"type": "string"},
    }})
}
