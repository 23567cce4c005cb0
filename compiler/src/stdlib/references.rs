//! References that std makes. Source: docs/reference/std.md § 5.7.

use crate::stdlib::strings::from_json;
use crate::stdlib::{Model, NativeDef, Value, external, native};

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!(
            "create_environment_reference",
            "name: string | Reference[string] -> Reference[string]",
            |model, args| {
                let arguments = vec![("name", args.arg(0))];
                let class = "inmanta_plugins.std.EnvironmentReference";
                Ok(model.new_reference("std::Environment", class, arguments))
            }
        ),
        native!(
            "create_int_reference",
            "value: any | Reference -> Reference[int]",
            |model, args| {
                let arguments = vec![("value", args.arg(0))];
                let class = "inmanta_plugins.std.IntReference";
                Ok(model.new_reference("std::IntReference", class, arguments))
            }
        ),
        native!(
            "create_fact_reference",
            "resource: std::Resource, fact_name: string -> Reference[string]",
            |model, args| {
                let resource = match args.arg(0) {
                    Value::Instance(instance) => model.resource_id(instance)?,
                    _ => None,
                };
                let Some(resource) = resource else {
                    return external("Exception", "Facts can only be retreived from resources.");
                };
                // The reference's text of an environment that is not configured.
                let environment = model.environment_id().unwrap_or_else(|| "None".to_owned());
                let resource = model.heap().new_str(&resource);
                let environment = model.heap().new_str(&environment);
                let mocked = mocked_facts(model);
                let arguments = vec![
                    ("environment", environment),
                    ("resource_id", resource),
                    ("fact_name", args.arg(1)),
                    ("mocked_facts", mocked),
                ];
                let class = "inmanta_plugins.std.FactReference";
                Ok(model.new_reference("std::FactReference", class, arguments))
            },
            context = true
        ),
    ]
}

/// All facts of a test, by resource and name; null if there are none, or if they are real ones.
fn mocked_facts(model: &mut dyn Model) -> Value {
    let facts = model.inputs().mocked_facts.clone();
    if facts.is_empty() {
        return Value::Null;
    }
    let by_resource = facts.into_iter().map(|(resource, facts)| {
        let facts = serde_json::Value::Object(facts.into_iter().collect());
        (resource, facts)
    });
    let all = serde_json::Value::Object(by_resource.collect());
    from_json(model, &all)
}
