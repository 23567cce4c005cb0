//! Diagrams, schemas and descriptions of the API.

use serde_json::{Value, json};
use steward_lsm::people::{Purpose, dot, mermaid, openapi, schema, svg};

use crate::support::{entity, fixture, object, uplink, vpn};

#[test]
fn a_diagram_has_every_state_and_every_way() {
    for (name, record) in object(fixture("lifecycles.json")) {
        let entity = entity(&json!({"name": name, "lifecycle": record}));
        let lifecycle = &entity.lifecycle;
        let errors = lifecycle
            .transfers
            .iter()
            .filter(|one| one.error.is_some())
            .count();
        let (n, n_states) = (lifecycle.transfers.len() + errors, lifecycle.states.len());
        let n_ended = lifecycle
            .states
            .iter()
            .filter(|state| state.deleted)
            .count();
        assert_eq!(
            mermaid(lifecycle, None).matches(" --> ").count(),
            n + 1 + n_ended
        );
        assert_eq!(dot(lifecycle, None).matches(" -> ").count(), n);
        assert_eq!(dot(lifecycle, None).matches("color=red").count(), errors);
        let picture = svg(lifecycle, None);
        assert_eq!(picture.matches("<rect ").count(), n_states);
        assert_eq!(picture.matches("marker-end").count(), n);
        for state in &lifecycle.states {
            assert!(
                picture.contains(&format!(">{}</text>", state.name)),
                "{}",
                state.name
            );
        }
    }
}

#[test]
fn the_state_where_an_instance_is_stands_out() {
    let entity = uplink("simple");
    let lifecycle = &entity.lifecycle;
    for (drawn, mark) in [
        (svg as fn(&_, Option<&str>) -> String, "font-weight"),
        (mermaid, "font-weight"),
        (dot, "penwidth"),
    ] {
        assert_eq!(drawn(lifecycle, None).matches(mark).count(), 0);
        assert_eq!(drawn(lifecycle, Some("nowhere")).matches(mark).count(), 0);
        let marked = drawn(lifecycle, Some("up"));
        let lines: Vec<&str> = marked.lines().filter(|line| line.contains(mark)).collect();
        assert_eq!(lines.len(), 1, "{marked}");
        let at = lifecycle
            .states
            .iter()
            .position(|state| state.name == "up")
            .unwrap();
        let is_up = [">up<".to_owned(), format!(" s{at} "), "\"up\"".to_owned()];
        assert!(
            is_up.iter().any(|text| lines[0].contains(text)),
            "{}",
            lines[0]
        );
    }
}

#[test]
fn ways_are_named_by_what_triggers_them() {
    let text = dot(&uplink("service").lifecycle, None);
    for line in [
        r#""start" -> "acknowledged" [label="AV"];"#,
        r#""start" -> "rejected" [label="AV error", color=red];"#,
        r#""acknowledged" -> "designed" [label="AcV"];"#,
        r#""designed" -> "creating" [label="S promote"];"#,
        r#""up" -> "update_start" [label="U"];"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// Given: names of states with quotes, brackets and line ends, in diagrams. Answer: they are escaped, and the picture has no element of theirs.
#[test]
fn names_of_states_can_not_leave_their_place() {
    let name = "<script>\"\n[*] --> x\0\u{1b}";
    let record = json!({"name": "s", "lifecycle": {"name": name, "initial_state": name, "states": [{"name": name}]}});
    let entity = entity(&record);
    let picture = svg(&entity.lifecycle, None);
    assert!(!picture.contains("<script"));
    // XML has none, however they are written.
    assert!(!picture.contains(['\0', '\u{1b}']));
    assert_eq!(mermaid(&entity.lifecycle, None).lines().count(), 4);
    assert!(dot(&entity.lifecycle, None).contains(r#"<script>\""#));
}

#[test]
fn a_schema_says_what_can_be_given_and_what_must_be() {
    let made = schema(&vpn(true), Purpose::Create);
    assert_eq!(made["required"], json!(["customer", "sites"]));
    assert_eq!(made["properties"].get("route_target"), None);
    assert_eq!(
        made["properties"]["customer"],
        json!({"type": "string", "pattern": "^(?:^[A-Z]{3}[0-9]{2}$)"})
    );
    let sites = &made["properties"]["sites"];
    assert_eq!(
        (&sites["minItems"], &sites["maxItems"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(sites["items"]["required"], json!(["name", "router"]));
    assert_eq!(
        sites["items"]["properties"]["routing"]["enum"],
        json!(["static", "bgp"])
    );
    let peer = &sites["items"]["properties"]["peers"]["items"]["properties"];
    assert_eq!(peer["address"]["format"], "ipv4");
    assert_eq!(peer["remote_as"]["maximum"], 4_294_967_295_u32);
    let any = schema(&vpn(true), Purpose::Any);
    assert_eq!(any["required"], made["required"]);
    assert_eq!(any["properties"]["route_target"]["readOnly"], true);
    let update = schema(&vpn(true), Purpose::Update);
    let names: Vec<&String> = update["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["note", "tags", "sites", "backups"]);
    let vlan =
        &schema(&vpn(true), Purpose::Read)["properties"]["sites"]["items"]["properties"]["vlan"];
    let number = json!({"type": "integer", "minimum": 1, "exclusiveMaximum": 4095});
    assert_eq!(
        *vlan,
        json!({"anyOf": [number, {"type": "null"}], "default": null, "readOnly": true})
    );
}

#[test]
fn the_api_of_a_service_has_the_calls_that_its_modifiers_allow() {
    let verbs = |is_strict: bool| {
        let made = openapi(&vpn(is_strict));
        let mut found = Vec::new();
        for (path, operations) in made["paths"].as_object().unwrap() {
            let operations = operations.as_object().unwrap().keys();
            found.extend(operations.map(|verb| format!("{verb} {path}")));
        }
        found.sort();
        found
    };
    let one = "/lsm/v1/service_inventory/vpn/{service_id}";
    assert!(verbs(true).contains(&format!("put {one}")));
    assert!(verbs(true).contains(&"patch /lsm/v2/service_inventory/vpn/{service_id}".to_owned()));
    assert!(!verbs(true).contains(&format!("patch {one}")));
    assert!(verbs(false).contains(&format!("patch {one}")));
    let made = openapi(&vpn(true));
    let body = &made["paths"]["/lsm/v1/service_inventory/vpn"]["post"]["requestBody"]["content"]["application/json"]
        ["schema"];
    assert_eq!(
        body["properties"]["attributes"]["required"],
        json!(["customer", "sites"])
    );
    let state: &Value = &made["paths"][format!("{one}/state")]["post"]["requestBody"]["content"]["application/json"]
        ["schema"];
    assert_eq!(
        state["properties"]["target_state"]["enum"],
        json!(["failed", "rollback", "up"])
    );
}
