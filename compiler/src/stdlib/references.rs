//! References that std makes. Source: std-module.md 5.7.

use crate::stdlib::{NativeDef, Value, external, native};

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
                let arguments = vec![
                    ("environment", environment),
                    ("resource_id", resource),
                    ("fact_name", args.arg(1)),
                    ("mocked_facts", Value::Null),
                ];
                let class = "inmanta_plugins.std.FactReference";
                Ok(model.new_reference("std::FactReference", class, arguments))
            },
            context = true
        ),
    ]
}
