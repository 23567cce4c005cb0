//! The resources of the built-in modules.

use super::registry::Special;

pub(super) const BASE: &[&str] = &[
    "send_event",
    "receive_events",
    "references",
    "mutators",
    "report_only",
];
const PURGEABLE: &[&str] = &["purged", "purge_on_delete"];
const MANAGED: &[&str] = &["managed"];

/// Which attributes of an entity are exported.
pub(super) enum Fields {
    These(&'static [&'static [&'static str]]),
    /// All but relations, with what every resource has.
    AllAttributes,
}

pub(super) struct Native {
    pub(super) entity: &'static str,
    pub(super) id_attribute: &'static str,
    pub(super) agent: &'static str,
    pub(super) fields: Fields,
    pub(super) special: Special,
}

/// The resources of the built-in modules.
pub(super) const NATIVE: &[Native] = &[
    Native {
        entity: "std::testing::NullResource",
        id_attribute: "name",
        agent: "agentname",
        fields: Fields::These(&[
            BASE,
            MANAGED,
            PURGEABLE,
            &["name", "agentname", "fail", "value", "int_value"],
        ]),
        special: Special::None,
    },
    Native {
        entity: "std::AgentConfig",
        id_attribute: "agentname",
        agent: "agent",
        fields: Fields::These(&[BASE, PURGEABLE, &["agentname", "uri", "autostart"]]),
        special: Special::Ignored,
    },
    Native {
        entity: "fs::File",
        id_attribute: "path",
        agent: "host.name",
        fields: Fields::These(&[
            BASE,
            PURGEABLE,
            MANAGED,
            &["path", "content", "owner", "group", "mode"],
        ]),
        special: Special::None,
    },
    Native {
        entity: "fs::Directory",
        id_attribute: "path",
        agent: "host.name",
        fields: Fields::These(&[
            BASE,
            PURGEABLE,
            MANAGED,
            &["path", "owner", "group", "mode"],
        ]),
        special: Special::None,
    },
    Native {
        entity: "fs::Symlink",
        id_attribute: "path",
        agent: "host.name",
        fields: Fields::These(&[BASE, PURGEABLE, MANAGED, &["path", "target"]]),
        special: Special::None,
    },
    Native {
        entity: "exec::Run",
        id_attribute: "command",
        agent: "host.name",
        fields: Fields::These(&[
            BASE,
            &[
                "command",
                "creates",
                "cwd",
                "environment",
                "onlyif",
                "unless",
                "path",
                "reload",
                "reload_only",
                "returns",
                "timeout",
                "skip_on_fail",
            ],
        ]),
        special: Special::None,
    },
    of_host("std::File", "path"),
    of_host("std::Directory", "path"),
    of_host("std::Symlink", "target"),
    of_host("std::Package", "name"),
    of_host("std::Service", "name"),
    of_host("steward::File", "path"),
    of_host("steward::Directory", "path"),
    of_host("steward::Symlink", "path"),
    of_host("steward::Command", "command"),
    of_host("steward::Group", "name"),
    of_host("steward::User", "name"),
    of_host("steward::Package", "name"),
    of_host("steward::Unit", "name"),
    of_host("steward::Service", "name"),
    of_host("steward::Checkout", "path"),
    of_host("steward::Archive", "path"),
    of_host("steward::Cron", "name"),
    of_host("steward::HttpObject", "url"),
];

/// A resource of a host, with all that its entity has.
const fn of_host(entity: &'static str, id_attribute: &'static str) -> Native {
    Native {
        entity,
        id_attribute,
        agent: "host.name",
        fields: Fields::AllAttributes,
        special: Special::None,
    }
}
