//! Settings of the reference's older generation, and of some of its releases: models, scripts and `project.yml` files set
//! them. They are taken, kept and shown, and nothing follows from them. Source: docs/reference/deployment.md § 1.5, § 8.

use super::{Definition, SettingKind};

/// How agents were told of a new version.
const TRIGGER_METHODS: &[&str] = &["push_incremental_deploy", "push_full_deploy"];

pub(super) const DEFINITIONS: &[Definition] = &[
    older(
        "agent_auth",
        SettingKind::Bool,
        "false",
        "Taken from other releases, without effect: agents on other machines have tokens if the server asks for them.",
    ),
    older(
        "push_on_auto_deploy",
        SettingKind::Bool,
        "true",
        "Taken from older models, without effect: what is released is deployed at once.",
    ),
    older(
        "agent_trigger_method_on_auto_deploy",
        SettingKind::Word(TRIGGER_METHODS),
        "\"push_incremental_deploy\"",
        "Taken from older models, without effect: what is released is deployed as far as it differs.",
    ),
    older(
        "environment_agent_trigger_method",
        SettingKind::Word(TRIGGER_METHODS),
        "\"push_incremental_deploy\"",
        "Taken from older models, without effect: what is released is deployed as far as it differs.",
    ),
    older(
        "autostart_agent_deploy_splay_time",
        SettingKind::Int,
        "10",
        "Taken from older models, without effect: each resource has a timer of its own, so that nothing is to be spread.",
    ),
    older(
        "autostart_agent_repair_splay_time",
        SettingKind::Int,
        "600",
        "Taken from older models, without effect: each resource has a timer of its own, so that nothing is to be spread.",
    ),
    older(
        "autostart_agent_interval",
        SettingKind::Int,
        "600",
        "Taken from older models, without effect: set autostart_agent_deploy_interval and autostart_agent_repair_interval.",
    ),
    older(
        "autostart_splay",
        SettingKind::Int,
        "10",
        "Taken from older models, without effect: each resource has a timer of its own, so that nothing is to be spread.",
    ),
    older(
        "autostart_agent_map",
        SettingKind::AutostartMap,
        "{\"internal\": \"local:\"}",
        "Taken from older models, without effect: std::AgentConfig and the setting agent_map say where agents run.",
    ),
    older(
        "purge_on_delete",
        SettingKind::Bool,
        "false",
        "Taken from older models, without effect: what is no longer in the model stays as it is.",
    ),
];

const fn older(
    name: &'static str,
    kind: SettingKind,
    default: &'static str,
    doc: &'static str,
) -> Definition {
    Definition {
        name,
        section: "older",
        kind,
        default,
        doc,
    }
}
