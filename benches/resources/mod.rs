//! Resources for benchmarks of the store and of starts, all of them deployed.

use std::collections::BTreeMap;

use serde_json::json;
use steward::domain::{
    AgentName, Blocked, CompileId, EnvironmentId, LastRun, ResourceId, ResourceStatus, Timestamp,
    VersionNumber,
};
use steward::store::{CompileEnd, NewVersion, Outcome, ResourceState, StoredResource};

/// Resources of a set in the shape of services: all but the first require that.
pub const OF_SERVICE: usize = 10;

pub fn resource(n: usize, set: usize, value: usize) -> StoredResource {
    let path = format!("/etc/services/{n:07}/config");
    let id = format!("fs::File[host-{},path={path}]", n % 100);
    let attributes = json!({
        "content": format!("{value} {}", "x".repeat(200)), "managed": true, "mutators": [], "path": path,
        "purged": false, "receive_events": true, "references": [], "report_only": false, "send_event": true,
    });
    let requires = !n.is_multiple_of(OF_SERVICE);
    let before = (n - n % OF_SERVICE) % 100;
    let first = format!(
        "fs::File[host-{before},path=/etc/services/{:07}/config]",
        n - n % OF_SERVICE
    );
    StoredResource {
        digest: String::new(),
        resource_id: ResourceId::new(id),
        resource_type: "fs::File".to_owned(),
        agent: AgentName::new(format!("host-{}", n % 100)),
        id_attribute: "path".to_owned(),
        id_value: path,
        attributes: attributes.to_string(),
        attribute_hash: format!("{n:024}{value:08}"),
        requires: requires
            .then(|| ResourceId::new(first))
            .into_iter()
            .collect(),
        is_undefined: false,
        set_name: format!("service-{set:06}"),
        created: Timestamp(0),
    }
    .with_digest()
}

pub fn state(resource: &StoredResource) -> ResourceState {
    ResourceState {
        resource_id: resource.resource_id.clone(),
        resource_type: resource.resource_type.clone().into(),
        agent: resource.agent.clone(),
        id_value: resource.id_value.clone().into(),
        created: Timestamp(0),
        orphaned_after: None,
        is_undefined: false,
        is_deploying: false,
        blocked: Blocked::NotBlocked,
        intent_hash: resource.attribute_hash.clone().into(),
        deployed_hash: Some(resource.attribute_hash.clone().into()),
        deployed_version: Some(VersionNumber::new(1)),
        last_run: LastRun::Successful,
        last_run_compliant: Some(true),
        last_run_at: Some(Timestamp(1)),
        last_success: Some(Timestamp(1)),
        last_events: Some(Timestamp(1)),
        last_change: None,
        last_status: ResourceStatus::Deployed,
        n_failures: 0,
    }
}

pub fn version(id: EnvironmentId, resources: Vec<StoredResource>) -> NewVersion {
    NewVersion {
        environment_id: id,
        commit_id: None,
        tree_id: None,
        metadata: json!({}),
        modules: json!([]),
        unknowns: json!([]),
        agent_places: BTreeMap::new(),
        resources,
        release: true,
        sent: Default::default(),
    }
}

pub fn end() -> CompileEnd {
    CompileEnd {
        id: CompileId::generate(),
        served: Vec::new(),
        outcome: Outcome::Compiled,
        diagnostics: json!([]),
        commit_id: None,
        tree_id: None,
        inputs_digest: None,
        result_digest: None,
    }
}
