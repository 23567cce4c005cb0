//! Why a resource is not as it shall be: one step of the chain, decided from what is known of the resource and of what
//! stands around it. Pure.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

use crate::domain::{AgentName, Blocked, LastRun, ResourceId, ResourceStatus, Timestamp};
use crate::store::ResourceState;

/// Since when something stands still, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since(pub(super) Option<Timestamp>);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(since) => write!(f, " since {}", since.for_people()),
            None => Ok(()),
        }
    }
}

/// What stands above all resources of an environment, or of an agent.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    pub(super) halted: Option<Since>,
    pub(super) paused: HashMap<AgentName, Since>,
    /// Agents on other machines that are not connected, and since when.
    pub(super) away: HashMap<AgentName, Timestamp>,
    /// The facts that the version in force waits for: resource and name. A parameter has an empty id.
    pub(super) unknowns: Vec<(ResourceId, String)>,
    /// Neither of the environment's intervals has anything tried again.
    pub(super) has_no_interval: bool,
}

impl Surroundings {
    /// Why nothing begins on an agent just now, if that is so.
    pub(super) fn standstill(&self, agent: &AgentName) -> Option<String> {
        if let Some(since) = self.halted {
            return Some(format!("the environment is halted{since}"));
        }
        if let Some(since) = self.paused.get(agent) {
            return Some(format!("its agent {agent} is paused{since}"));
        }
        let since = self.away.get(agent)?.for_people();
        Some(format!("its agent {agent} is not connected since {since}"))
    }
}

/// Why a resource is not as it shall be, as far as can be said of it alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// There is nothing to explain.
    Deployed,
    /// The version in force does not have it any more.
    Orphaned,
    /// It was not in any version that was brought into force.
    NotReleased,
    /// Nothing runs in the environment.
    Halted(Since),
    /// Nothing runs on its agent.
    Paused(Since),
    /// Its agent is on another machine, and has not been connected since then.
    Away(Timestamp),
    /// The same, and it was given the resource before that.
    DeployingAway(Timestamp),
    /// An attribute has no value yet.
    Undefined,
    /// Something that it requires, however far, has no value yet.
    Blocked,
    /// Its handler works.
    Deploying,
    /// It was not tried yet.
    Waiting,
    /// Its handler failed.
    Failed,
    /// Its handler, or the code of it, could not run at all.
    Unavailable,
    /// Something that it requires is not deployed.
    SkippedForDependency,
    /// Its handler skipped it.
    Skipped,
    /// It is only reported, and differs.
    NonCompliant,
}

impl Reason {
    /// Of a resource of the version in force.
    pub(super) fn of(state: &ResourceState, around: &Surroundings) -> Self {
        if state.orphaned_after.is_some() {
            return Self::Orphaned;
        }
        if state.is_undefined {
            return Self::Undefined;
        }
        if state.blocked == Blocked::Blocked {
            return Self::Blocked;
        }
        let away = around.away.get(&state.agent).copied();
        if state.is_deploying {
            return away.map_or(Self::Deploying, Self::DeployingAway);
        }
        let status = state.status();
        if status == ResourceStatus::Deployed {
            return Self::Deployed;
        }
        // What was tried, and what came out, is the reason; but nothing is tried while work stands still.
        let is_tried = state.last_run != LastRun::New && status != ResourceStatus::Available;
        if let Some(since) = around.halted.filter(|_| !is_tried) {
            return Self::Halted(since);
        }
        if let Some(since) = around.paused.get(&state.agent).filter(|_| !is_tried) {
            return Self::Paused(*since);
        }
        if let Some(since) = away.filter(|_| !is_tried) {
            return Self::Away(since);
        }
        match status {
            ResourceStatus::Failed => Self::Failed,
            ResourceStatus::Unavailable => Self::Unavailable,
            ResourceStatus::NonCompliant => Self::NonCompliant,
            ResourceStatus::Skipped if state.blocked == Blocked::TemporarilyBlocked => {
                Self::SkippedForDependency
            }
            ResourceStatus::Skipped => Self::Skipped,
            _ => Self::Waiting,
        }
    }

    /// The word of the API.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Orphaned => "orphaned",
            Self::NotReleased => "not_released",
            Self::Halted(_) => "environment_halted",
            Self::Paused(_) => "agent_paused",
            Self::Away(_) => "agent_not_connected",
            Self::Undefined => "undefined",
            Self::Blocked => "requires_undefined",
            Self::Deploying | Self::DeployingAway(_) => "deploying",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::SkippedForDependency => "requires_not_deployed",
            Self::Skipped => "skipped",
            Self::NonCompliant => "non_compliant",
        }
    }

    /// Whether a required resource with this reason may be why one with `self` is not deployed.
    pub(super) fn may_be_because_of(&self, required: &Reason) -> bool {
        match self {
            Self::Blocked => matches!(required, Self::Undefined | Self::Blocked),
            // A handler that skips by itself may do so because of what it requires, too.
            Self::SkippedForDependency | Self::Skipped | Self::Waiting => {
                !matches!(required, Self::Deployed)
            }
            _ => false,
        }
    }

    /// Whether the chain goes on with what the resource requires.
    pub(super) fn leads_on(&self) -> bool {
        matches!(
            self,
            Self::Blocked | Self::SkippedForDependency | Self::Skipped | Self::Waiting
        )
    }

    /// What keeps one that was tried from being tried again, as the end of its sentence.
    pub(super) fn hindrance(&self, state: &ResourceState, around: &Surroundings) -> String {
        let was_tried = matches!(
            self,
            Self::Failed
                | Self::Unavailable
                | Self::SkippedForDependency
                | Self::Skipped
                | Self::NonCompliant
        );
        if !was_tried {
            return String::new();
        }
        match around.standstill(&state.agent) {
            Some(why) => format!("; it is not tried again yet: {why}"),
            None if around.has_no_interval => {
                "; it is not tried again by itself: `autostart_agent_deploy_interval` and \
                 `autostart_agent_repair_interval` are 0"
                    .to_owned()
            }
            None => String::new(),
        }
    }

    /// A sentence without its subject, which is the resource. `next`: the resource that the chain goes on with.
    pub(super) fn sentence(
        &self,
        state: Option<&ResourceState>,
        next: Option<&ResourceId>,
    ) -> String {
        let agent = state.map_or("", |state| state.agent.as_str());
        let required = next.map_or_else(String::new, |next| format!(" {next}"));
        match (self, next) {
            (Self::Deployed, _) => "is deployed as it shall be".to_owned(),
            (Self::Orphaned, _) => {
                let last = state.and_then(|state| state.orphaned_after);
                let last = last.map_or_else(String::new, |last| {
                    format!(": version {last} was the last that had it")
                });
                format!("is not in the version in force{last}")
            }
            (Self::NotReleased, _) => "is in no version that was brought into force".to_owned(),
            (Self::Halted(since), _) => format!("waits: the environment is halted{since}"),
            (Self::Paused(since), _) => format!("waits: its agent {agent} is paused{since}"),
            (Self::Away(since), _) => {
                format!(
                    "waits: its agent {agent} is not connected since {}",
                    since.for_people()
                )
            }
            (Self::DeployingAway(since), _) => format!(
                "is being deployed; its agent {agent} is not connected since {}, and brings the result when it is",
                since.for_people()
            ),
            (Self::Undefined, Some(next)) => format!("waits for a value that {next} is to give"),
            (Self::Undefined, None) => "waits for a value that is not known".to_owned(),
            (Self::Blocked, _) => {
                format!("is blocked: it requires{required}, which waits for a value")
            }
            (Self::Deploying, _) => "is being deployed".to_owned(),
            (Self::Waiting, Some(next)) => {
                format!("was not tried yet: {next}, which it requires, comes first")
            }
            (Self::Waiting, None) => format!("waits for its turn on agent {agent}"),
            (Self::Failed, _) => "failed".to_owned(),
            (Self::Unavailable, _) => "could not be deployed".to_owned(),
            (Self::SkippedForDependency | Self::Skipped, Some(next)) => {
                format!("was skipped: it requires {next}, which is not deployed")
            }
            (Self::SkippedForDependency, None) => {
                "was skipped because of something that it requires, which is good by now".to_owned()
            }
            (Self::Skipped, None) => "was skipped by its handler".to_owned(),
            (Self::NonCompliant, _) => "is not as it shall be, and is only reported".to_owned(),
        }
    }
}

/// Why the first resource of a circle is not deployed, without its subject.
pub(super) fn of_circle(circle: &[ResourceId]) -> String {
    let ids = circle.iter().chain(circle.first());
    let ids: Vec<&str> = ids.map(ResourceId::as_str).collect();
    format!(
        "waits for itself, and will never be deployed: {}",
        ids.join(", which requires ")
    )
}

/// Why a resource is not deployed with which a search ended that has looked at so many, without its subject.
pub(super) fn of_cut(n_visited: usize) -> String {
    format!(
        "is not deployed because of something that it requires; that was not looked for any further after {n_visited} resources: \
         ask for this resource to go on"
    )
}

/// The names of attributes without a value, of the attributes of a resource.
pub(super) fn undefined_attributes(attributes: &Value) -> Vec<String> {
    const UNDEFINED: &str = "<<undefined>>";
    let has_one = |value: &Value| value.to_string().contains(UNDEFINED);
    let fields = attributes.as_object().into_iter().flatten();
    let undefined = fields.filter(|(_, value)| has_one(value));
    undefined.map(|(name, _)| name.clone()).collect()
}

/// What an undefined resource waits for, as far as it is known.
pub(super) fn awaited(attributes: &Value, around: &Surroundings) -> Value {
    let facts = around.unknowns.iter();
    let facts = facts.map(|(resource, name)| json!({"resource_id": resource, "fact": name}));
    json!({
        "attributes": undefined_attributes(attributes),
        "facts": facts.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ResourceState {
        ResourceState {
            resource_id: ResourceId::new("m::A[one,name=a]"),
            resource_type: "m::A".into(),
            agent: AgentName::new("one"),
            id_value: "a".into(),
            created: Timestamp(0),
            orphaned_after: None,
            is_undefined: false,
            is_deploying: false,
            blocked: Blocked::NotBlocked,
            intent_hash: "1".into(),
            deployed_hash: Some("1".into()),
            deployed_version: None,
            last_run: LastRun::Successful,
            last_run_compliant: Some(true),
            last_run_at: None,
            last_success: None,
            last_events: None,
            last_change: None,
            last_status: ResourceStatus::Deployed,
            n_failures: 0,
        }
    }

    #[test]
    fn what_was_tried_is_the_reason_and_what_stands_still_that_nothing_is_tried() {
        let halted = Surroundings {
            halted: Some(Since(None)),
            ..Surroundings::default()
        };
        let paused = Surroundings {
            paused: HashMap::from([(AgentName::new("one"), Since(Some(Timestamp(0))))]),
            ..Surroundings::default()
        };
        let free = Surroundings::default();
        let failed = ResourceState {
            last_status: ResourceStatus::Failed,
            last_run: LastRun::Failed,
            ..state()
        };
        assert_eq!(Reason::of(&state(), &halted), Reason::Deployed);
        assert_eq!(Reason::of(&failed, &halted), Reason::Failed);
        let changed = ResourceState {
            intent_hash: "2".into(),
            ..failed
        };
        assert_eq!(Reason::of(&changed, &halted), Reason::Halted(Since(None)));
        assert_eq!(
            Reason::of(&changed, &paused),
            Reason::Paused(Since(Some(Timestamp(0))))
        );
        assert_eq!(Reason::of(&changed, &free), Reason::Waiting);
        let skipped = ResourceState {
            last_status: ResourceStatus::Skipped,
            last_run: LastRun::Skipped,
            blocked: Blocked::TemporarilyBlocked,
            ..state()
        };
        assert_eq!(Reason::of(&skipped, &free), Reason::SkippedForDependency);
    }

    #[test]
    fn what_keeps_something_from_being_tried_again_is_said() {
        let mut around = Surroundings::default();
        let end = |around: &Surroundings| Reason::Failed.hindrance(&state(), around);
        assert_eq!(end(&around), "");
        around.has_no_interval = true;
        assert!(end(&around).starts_with("; it is not tried again by itself: "));
        assert_eq!(Reason::Waiting.hindrance(&state(), &around), "");
        around.away.insert(AgentName::new("one"), Timestamp(0));
        assert!(
            end(&around).starts_with(
                "; it is not tried again yet: its agent one is not connected since 1970"
            )
        );
        let since = Since(Some(Timestamp(0)));
        around.paused.insert(AgentName::new("one"), since);
        assert!(
            end(&around)
                .starts_with("; it is not tried again yet: its agent one is paused since 1970")
        );
        around.halted = Some(Since(None));
        assert_eq!(
            end(&around),
            "; it is not tried again yet: the environment is halted"
        );
        assert_eq!(Reason::Halted(Since(None)).hindrance(&state(), &around), "");
    }

    #[test]
    fn attributes_without_a_value_are_named_however_deep_it_is() {
        let attributes = json!({"a": 1, "b": "<<undefined>>", "c": {"d": ["<<undefined>>"]}});
        assert_eq!(undefined_attributes(&attributes), ["b", "c"]);
    }
}
