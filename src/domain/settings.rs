//! The settings of an environment. Source: docs/reference/deployment.md § 1.5, docs/reference/rest.md § 3.1.

mod older;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{AgentName, AgentPlace, Interval, check_agent_map, read_agent_map};

/// How a setting's value is checked and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    Bool,
    /// A whole number of at least 0.
    Int,
    /// A number above 0.
    PositiveFloat,
    /// Seconds that may be none.
    Pause,
    /// Seconds or a cron expression; stored as text.
    Interval,
    /// A cron expression, or empty for off.
    Cron,
    /// An object from names of agents to the places where they run; see [`super::AgentPlace`].
    AgentMap,
    /// An object from names of agents to texts, with a place for `internal`.
    AutostartMap,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl SettingKind {
    /// The type's name on the wire.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::PositiveFloat | Self::Pause => "positive_float",
            Self::Interval | Self::Cron => "str",
            Self::AgentMap | Self::AutostartMap => "dict",
            Self::Word(_) => "enum",
        }
    }

    /// The values that there are, if they can be listed.
    pub fn allowed_values(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Word(words) => Some(words),
            _ => None,
        }
    }

    fn is_map(self) -> bool {
        matches!(self, Self::AgentMap | Self::AutostartMap)
    }
}

#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    /// The heading under which consoles show it.
    pub section: &'static str,
    pub kind: SettingKind,
    /// JSON text.
    pub default: &'static str,
    pub doc: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    #[error("there is no setting `{0}`{hint}", hint = meant(.0))]
    Unknown(String),
    #[error("`{value}` is no value for the setting `{name}`: {reason}")]
    Value {
        name: String,
        value: String,
        reason: String,
    },
}

/// Which setting a name may be a slip of.
fn meant(name: &str) -> String {
    let known = definitions().map(|definition| definition.name);
    let meant = steward_compiler::closest(name, known);
    meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}

/// Every setting that there is.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    DEFINITIONS.iter().chain(older::DEFINITIONS)
}

/// Those that something follows from. The repair interval is the 600 s, not the newest reference's 86400.
const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "auto_deploy",
        section: "deploy",
        kind: SettingKind::Bool,
        default: "true",
        doc: "Release every stored version at once.",
    },
    Definition {
        name: "autostart_agent_deploy_interval",
        section: "agent",
        kind: SettingKind::Interval,
        default: "\"600\"",
        doc: "Seconds after its last run, or cron expression, at which a resource that is not in its desired state is \
              tried again. 0: never.",
    },
    Definition {
        name: "autostart_agent_repair_interval",
        section: "agent",
        kind: SettingKind::Interval,
        default: "\"600\"",
        doc: "Seconds after its last run, or cron expression, at which any resource is verified again. 0: never.",
    },
    Definition {
        name: "deploy_retry_backoff",
        section: "agent",
        kind: SettingKind::Int,
        default: "5",
        doc: "Seconds until a failed resource is first tried again; doubles with each further failure, up to the deploy \
              interval. 0: always the deploy interval.",
    },
    Definition {
        name: "agent_map",
        section: "agent",
        kind: SettingKind::AgentMap,
        default: "{}",
        doc: "Where agents run, by name: `external:` where somebody runs `steward agent` with that name, \
              `ssh://[user@]host[:port]` on another machine, `local:` on the server's, as all that are not named.",
    },
    Definition {
        name: "reset_deploy_progress_on_start",
        section: "scheduler",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Forget at each start of the server what was deployed: every resource is deployed as if it was new.",
    },
    Definition {
        name: "deploy_timeout",
        section: "agent",
        kind: SettingKind::PositiveFloat,
        default: "3600.0",
        doc: "Seconds that a handler may take for one run of one resource. One that takes longer is ended with all that it \
              started; the resource counts as unavailable and is retried.",
    },
    Definition {
        name: "auto_full_compile",
        section: "compiler",
        kind: SettingKind::Cron,
        default: "\"\"",
        doc: "Cron expression (UTC) at which the model is compiled and exported without being asked. Empty: never.",
    },
    Definition {
        name: "recompile_backoff",
        section: "compiler",
        kind: SettingKind::Pause,
        default: "0.1",
        doc: "Seconds between a finished compile and the next one of this environment.",
    },
    Definition {
        name: "server_compile",
        section: "compiler",
        kind: SettingKind::Bool,
        default: "true",
        doc: "Accept requests to compile on the server.",
    },
    Definition {
        name: "available_versions_to_keep",
        section: "storage",
        kind: SettingKind::Int,
        default: "100",
        doc: "How many versions to keep beside the active one.",
    },
    Definition {
        name: "resource_action_logs_retention",
        section: "storage",
        kind: SettingKind::Int,
        default: "7",
        doc: "Days for which the history of resources is kept.",
    },
    Definition {
        name: "lsm_partial_compile",
        section: "lsm",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Compile and export only the service instances that changed, with those that they belong to.",
    },
    Definition {
        name: "enable_batched_partial_compiles",
        section: "lsm",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Let one partial compile export all service instances that wait for one. If it fails, it is split until the \
              instance that is to blame is alone, and the others are exported.",
    },
    Definition {
        name: "enable_lsm_transfer_optimization",
        section: "lsm",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Compile nothing for a transfer between two states that its lifecycle marks as having the same desired state.",
    },
    Definition {
        name: "enable_lsm_expert_mode",
        section: "lsm",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Accept calls that change service instances past their lifecycle.",
    },
    Definition {
        name: "lsm_parallel_validations",
        section: "lsm",
        kind: SettingKind::Int,
        default: "1",
        doc: "How many service instances are validated at the same time, beside the compile that exports; at least one.",
    },
    Definition {
        name: "autostart_on_start",
        section: "agent",
        kind: SettingKind::Bool,
        default: "true",
        doc: "Take up deploying with the start of the server; otherwise with the first release, request to deploy or change \
              of a setting.",
    },
    Definition {
        name: "environment_metrics_retention",
        section: "storage",
        kind: SettingKind::Int,
        default: "336",
        doc: "Hours for which metrics are kept. 0: for ever.",
    },
    Definition {
        name: "notification_retention",
        section: "storage",
        kind: SettingKind::Int,
        default: "365",
        doc: "Days for which notifications are kept.",
    },
    Definition {
        name: "lsm_order_retention",
        section: "storage",
        kind: SettingKind::Int,
        default: "365",
        doc: "Days for which orders of services are kept after their last item has ended. 0: for ever.",
    },
    Definition {
        name: "lsm_history_retention",
        section: "storage",
        kind: SettingKind::Int,
        default: "365",
        doc: "Days for which events of service instances, records of their versions and instances that have ended are kept. \
              The last ten versions of an instance stay. 0: for ever.",
    },
    Definition {
        name: "redeploy_failed_on_export",
        section: "scheduler",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Try what failed again when a version is released, also where it did not change.",
    },
    Definition {
        name: "protected_environment",
        section: "environment",
        kind: SettingKind::Bool,
        default: "false",
        doc: "Refuse to clear or delete this environment.",
    },
];

/// The stored values of an environment, with defaults behind them.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    stored: BTreeMap<String, Value>,
}

impl Settings {
    /// From the rows of the store. A value that is no longer valid counts as not set: one bad row must not stop an
    /// environment.
    pub fn from_stored(rows: impl IntoIterator<Item = (String, Value)>) -> Self {
        let valid =
            |(name, value): (String, Value)| check(&name, &value).ok().map(|value| (name, value));
        Self {
            stored: rows.into_iter().filter_map(valid).collect(),
        }
    }

    pub fn stored(&self) -> &BTreeMap<String, Value> {
        &self.stored
    }

    /// The effective value; `None` for a name that is not defined.
    pub fn value(&self, name: &str) -> Option<Value> {
        let default = || {
            let definition = definitions().find(|definition| definition.name == name)?;
            Some(serde_json::from_str(definition.default).expect("defaults are JSON"))
        };
        self.stored.get(name).cloned().or_else(default)
    }

    pub fn auto_deploy(&self) -> bool {
        self.flag("auto_deploy")
    }

    pub fn reset_deploy_progress_on_start(&self) -> bool {
        self.flag("reset_deploy_progress_on_start")
    }

    pub fn server_compile(&self) -> bool {
        self.flag("server_compile")
    }

    pub fn protected(&self) -> bool {
        self.flag("protected_environment")
    }

    pub fn deploy_interval(&self) -> Interval {
        self.interval("autostart_agent_deploy_interval")
    }

    pub fn repair_interval(&self) -> Interval {
        self.interval("autostart_agent_repair_interval")
    }

    pub fn retry_backoff(&self) -> Duration {
        Duration::from_secs(self.number("deploy_retry_backoff") as u64)
    }

    /// How long a handler may take for one run; between a tenth of a second and a week.
    pub fn deploy_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.number("deploy_timeout").clamp(0.1, 604_800.0))
    }

    /// Where agents run that do not run on this machine.
    pub fn agent_map(&self) -> BTreeMap<AgentName, AgentPlace> {
        let map = self.stored.get("agent_map");
        map.map(read_agent_map).unwrap_or_default()
    }

    pub fn recompile_backoff(&self) -> Duration {
        Duration::from_secs_f64(self.number("recompile_backoff").clamp(0.0, 86_400.0))
    }

    /// When to compile without being asked; `Never` when off.
    pub fn auto_full_compile(&self) -> Interval {
        self.interval("auto_full_compile")
    }

    /// Whether compiles for services are of what changed only.
    pub fn lsm_partial_compile(&self) -> bool {
        self.flag("lsm_partial_compile")
    }

    /// Whether partial compiles that wait are made one.
    pub fn batched_partial_compiles(&self) -> bool {
        self.flag("enable_batched_partial_compiles")
    }

    /// Whether transfers with the same desired state are not compiled.
    pub fn lsm_transfer_optimization(&self) -> bool {
        self.flag("enable_lsm_transfer_optimization")
    }

    /// Whether expert calls are taken.
    pub fn lsm_expert_mode(&self) -> bool {
        self.flag("enable_lsm_expert_mode")
    }

    /// How many instances are validated beside an export: from 1 to 64.
    pub fn parallel_validations(&self) -> usize {
        self.number("lsm_parallel_validations").clamp(1.0, 64.0) as usize
    }

    pub fn versions_to_keep(&self) -> usize {
        self.number("available_versions_to_keep") as usize
    }

    pub fn action_retention(&self) -> Duration {
        Duration::from_secs(self.number("resource_action_logs_retention") as u64 * 86_400)
    }

    pub fn autostart_on_start(&self) -> bool {
        self.flag("autostart_on_start")
    }

    pub fn redeploy_failed_on_export(&self) -> bool {
        self.flag("redeploy_failed_on_export")
    }

    pub fn notification_retention(&self) -> Duration {
        Duration::from_secs(self.number("notification_retention") as u64 * 86_400)
    }

    /// How long metrics are kept; `None`: for ever.
    pub fn metrics_retention(&self) -> Option<Duration> {
        let hours = self.number("environment_metrics_retention") as u64;
        (hours > 0).then(|| Duration::from_secs(hours * 3600))
    }

    /// How long orders that have ended are kept; `None`: for ever.
    pub fn order_retention(&self) -> Option<Duration> {
        let days = self.number("lsm_order_retention") as u64;
        (days > 0).then(|| Duration::from_secs(days * 86_400))
    }

    /// How long the history of service instances is kept; `None`: for ever.
    pub fn service_history_retention(&self) -> Option<Duration> {
        let days = self.number("lsm_history_retention") as u64;
        (days > 0).then(|| Duration::from_secs(days * 86_400))
    }

    /// The effective values of all settings, by name.
    pub fn effective(&self) -> BTreeMap<&'static str, Value> {
        let value = |definition: &Definition| {
            (
                definition.name,
                self.value(definition.name).unwrap_or_default(),
            )
        };
        definitions().map(value).collect()
    }

    fn flag(&self, name: &str) -> bool {
        self.value(name)
            .and_then(|value| value.as_bool())
            .unwrap_or_default()
    }

    fn number(&self, name: &str) -> f64 {
        self.value(name)
            .and_then(|value| value.as_f64())
            .unwrap_or_default()
    }

    fn interval(&self, name: &str) -> Interval {
        let value = self.value(name).unwrap_or_default();
        value
            .as_str()
            .and_then(|text| Interval::parse(text).ok())
            .unwrap_or(Interval::Never)
    }
}

/// Checks a value from outside and gives it in the form that is stored.
///
/// # Errors
/// An unknown name, or a value that the setting does not take.
pub fn check(name: &str, value: &Value) -> Result<Value, SettingError> {
    let definition = definitions().find(|definition| definition.name == name);
    let definition = definition.ok_or_else(|| SettingError::Unknown(name.to_owned()))?;
    let refuse = |reason: &str| SettingError::Value {
        name: name.to_owned(),
        value: value.to_string().trim_matches('"').to_owned(),
        reason: reason.to_owned(),
    };
    if definition.kind.is_map() {
        // Command lines give it as a text.
        let read = value
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        let map = read.unwrap_or_else(|| value.clone());
        let checked = match definition.kind {
            SettingKind::AgentMap => check_agent_map(&map),
            _ => check_autostart_map(&map),
        };
        return match checked {
            Ok(()) => Ok(map),
            Err(why) => Err(refuse(&why)),
        };
    }
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        // `7.0` is the number that `7` is.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        Value::Bool(flag) => flag.to_string(),
        _ => return Err(refuse("a plain value is needed")),
    };
    match definition.kind {
        SettingKind::AgentMap | SettingKind::AutostartMap => Err(refuse("an object is needed")),
        SettingKind::Word(words) if words.contains(&text.as_str()) => Ok(Value::String(text)),
        SettingKind::Word(words) => Err(refuse(&format!("it is one of {}", words.join(", ")))),
        SettingKind::Bool => match text.to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" => Ok(Value::Bool(true)),
            "false" | "0" | "no" | "off" | "f" => Ok(Value::Bool(false)),
            _ => Err(refuse("true or false is needed")),
        },
        SettingKind::Int => match text.parse::<u32>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(refuse("a whole number of at least 0 is needed")),
        },
        SettingKind::PositiveFloat => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number.into()),
            _ => Err(refuse("a number above 0 is needed")),
        },
        SettingKind::Pause => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number.into()),
            _ => Err(refuse("a number of at least 0 is needed")),
        },
        SettingKind::Interval => match Interval::parse(&text) {
            Ok(_) => Ok(Value::String(text)),
            Err(error) => Err(refuse(&error.to_string())),
        },
        // The number 0 is no time, too; the text is no cron expression.
        SettingKind::Cron if text.is_empty() || *value == 0 => Ok("".into()),
        SettingKind::Cron => match Interval::parse(&text) {
            Ok(Interval::Cron(_)) => Ok(Value::String(text)),
            Ok(_) => Err(refuse("a cron expression is needed")),
            Err(error) => Err(refuse(&error.to_string())),
        },
    }
}

/// The map of the older generation names texts, and where its server's own agent runs.
fn check_autostart_map(value: &Value) -> Result<(), String> {
    let Value::Object(map) = value else {
        return Err("an object from names of agents to places is needed".to_owned());
    };
    if map.values().any(|place| !place.is_string()) {
        return Err("each agent has a text, such as `local:`".to_owned());
    }
    if !map.contains_key("internal") {
        return Err("the agent `internal` has to be there".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Interval, Settings, check, definitions};
    use crate::domain::Timestamp;
    use serde_json::json;

    #[test]
    fn every_default_passes_its_own_check() {
        for definition in definitions() {
            let default = serde_json::from_str(definition.default).expect(definition.name);
            check(definition.name, &default).expect(definition.name);
        }
    }

    #[test]
    fn a_slip_in_the_name_of_a_setting_is_understood() {
        let refused = |name: &str| check(name, &json!(1)).unwrap_err().to_string();
        assert_eq!(
            refused("autostart_agent_repair_intervall"),
            "there is no setting `autostart_agent_repair_intervall`; did you mean `autostart_agent_repair_interval`?"
        );
        assert_eq!(refused("colour"), "there is no setting `colour`");
    }

    #[test]
    fn a_bad_stored_value_counts_as_not_set() {
        let rows = [
            ("auto_deploy".to_owned(), json!("maybe")),
            ("gone".to_owned(), json!(1)),
        ];
        let settings = Settings::from_stored(rows);
        assert!(settings.auto_deploy());
        assert!(settings.stored().is_empty());
    }

    /// Given: a cron expression with a year that is over. Expected: it is due no more, and the default does not come back.
    #[test]
    fn a_cron_expression_that_is_past_stays_what_it_is() {
        let rows = [(
            "autostart_agent_repair_interval".to_owned(),
            json!("0 3 * * * 2020-2024"),
        )];
        let settings = Settings::from_stored(rows);
        assert_eq!(settings.stored().len(), 1);
        let interval = settings.repair_interval();
        assert_eq!(interval.every(), None);
        assert!(interval.next_cron(Timestamp::now()).is_none());
    }

    #[test]
    fn numbers_and_texts_are_both_taken_as_intervals() {
        let stored = check("autostart_agent_repair_interval", &json!(30)).expect("seconds");
        let settings =
            Settings::from_stored([("autostart_agent_repair_interval".to_owned(), stored)]);
        assert!(
            matches!(settings.repair_interval(), Interval::Every(seconds) if seconds.as_secs() == 30)
        );
        assert!(check("autostart_agent_repair_interval", &json!("sometimes")).is_err());
        assert!(check("auto_deploy", &json!("maybe")).is_err());
        assert!(check("no_such", &json!(1)).is_err());
    }

    #[test]
    fn no_pause_and_no_time_are_said_with_0() {
        for none in [json!(0), json!("0"), json!(0.0)] {
            assert_eq!(check("recompile_backoff", &none).unwrap(), 0.0, "{none}");
        }
        assert!(check("recompile_backoff", &json!(-1)).is_err());
        assert!(check("deploy_timeout", &json!(0)).is_err());
        assert_eq!(check("auto_full_compile", &json!(0)).unwrap(), "");
        assert!(check("auto_full_compile", &json!("0")).is_err());
        assert!(check("auto_full_compile", &json!(1)).is_err());
    }

    #[test]
    fn settings_of_the_older_generation_are_taken_in_their_types() {
        let good = [
            ("agent_auth", json!("true"), json!(true)),
            ("purge_on_delete", json!(false), json!(false)),
            ("autostart_splay", json!("5"), json!(5)),
            (
                "agent_trigger_method_on_auto_deploy",
                json!("push_full_deploy"),
                json!("push_full_deploy"),
            ),
            (
                "autostart_agent_map",
                json!("{\"internal\": \"local:\", \"x\": \"ssh://root@x?retries=3\"}"),
                json!({"internal": "local:", "x": "ssh://root@x?retries=3"}),
            ),
        ];
        for (name, given, stored) in good {
            assert_eq!(check(name, &given).unwrap(), stored, "{name}");
        }
        let bad = [
            ("agent_auth", json!("perhaps")),
            ("push_on_auto_deploy", json!({})),
            ("environment_agent_trigger_method", json!("shout")),
            ("autostart_agent_repair_splay_time", json!("soon")),
            ("autostart_agent_map", json!({"x": "local:"})),
            ("autostart_agent_map", json!({"internal": 1})),
            ("autostart_agent_map", json!(["internal"])),
        ];
        for (name, given) in bad {
            assert!(check(name, &given).is_err(), "{name}: {given}");
        }
    }
}
