//! Where a model says that its agents run. Source: docs/reference/deployment.md § 8.1.

use std::collections::BTreeMap;

use super::sets::instances_of_kind;
use crate::runtime::Machine;
use crate::types::Value;

/// The URIs of the instances of `std::AgentConfig` that say where an agent is to be started, by its name. `std::Host` makes
/// one for each machine with an address and `remote_agent`. One that is purged, or unknown yet, says nothing.
pub fn agents(machine: &Machine) -> BTreeMap<String, String> {
    let text = |instance, name| match machine.state.read_attribute(instance, name) {
        Ok(Value::Str(id)) => Some(machine.state.heap.str(id).to_owned()),
        _ => None,
    };
    let is = |instance, name| {
        let value = machine.state.read_attribute(instance, name);
        matches!(value, Ok(Value::Bool(true)))
    };
    instances_of_kind(machine, "std::AgentConfig")
        .into_iter()
        .filter(|instance| is(*instance, "autostart") && !is(*instance, "purged"))
        .filter_map(|instance| Some((text(instance, "agentname")?, text(instance, "uri")?)))
        .collect()
}
