//! States and the transfers between them, as the catalog has them. Source: docs/reference/lsm.md § 3.1.1.

use serde::Serialize;
use serde_json::{Map, Value};

/// All that can happen to an instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lifecycle {
    /// Its name.
    pub name: String,
    /// The state of a new instance.
    pub initial_state: String,
    /// Other states that a new instance may ask for.
    pub alternative_initial_states: Vec<String>,
    /// All states.
    pub states: Vec<State>,
    /// All ways between them.
    pub transfers: Vec<Transfer>,
}

/// How the instances that are in it are treated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// How it is shown.
    pub label: Option<Label>,
    /// Whether the active set is part of the desired state.
    pub export_resources: bool,
    /// The set that counts when the instance itself is validated; `None`: it is left out.
    pub validate_self: Option<SetName>,
    /// The set that counts when another instance is validated; `None`: it is left out.
    pub validate_others: Option<SetName>,
    /// Whether the model is to remove the resources.
    pub purge_resources: bool,
    /// Whether an instance has ended when it is here.
    pub deleted: bool,
    /// Anything, for the model.
    pub values: Map<String, Value>,
    /// What a validation compares with, to find what was added and removed.
    pub previous_attr_set_on_validate: Option<SetName>,
    /// What an export compares with.
    pub previous_attr_set_on_export: Option<SetName>,
    /// For user interfaces.
    pub annotations: Map<String, Value>,
}

/// A way from one state to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Transfer {
    /// Where it begins.
    pub source: String,
    /// Where it ends.
    pub target: String,
    /// Where it ends when the validation or the deployment failed.
    pub error: Option<String>,
    /// It is followed as soon as an instance is in the source.
    pub auto: bool,
    /// A compile decides between target and error.
    pub validate: bool,
    /// Clients may ask for it.
    pub api_set_state: bool,
    /// It is followed when clients change attributes.
    pub on_update: bool,
    /// It is followed when clients delete the instance.
    pub on_delete: bool,
    /// It is followed when the resources are deployed, or failed.
    pub resource_based: bool,
    /// The switch without which it is not followed by itself.
    pub config_name: Option<String>,
    /// For people.
    pub description: String,
    /// What happens to the attribute sets on the way to the target.
    pub target_operation: Option<Operation>,
    /// What happens to the attribute sets on the way to the error state.
    pub error_operation: Option<Operation>,
    /// The model makes the same of the target as of the source.
    pub target_same_desired_state: bool,
    /// The model makes the same of the error state as of the source.
    pub error_same_desired_state: bool,
    /// For user interfaces.
    pub annotations: Map<String, Value>,
}

/// One of the three sets of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SetName {
    /// What is asked for and not accepted yet.
    Candidate,
    /// What is to be deployed.
    Active,
    /// What was deployed before the update that is under way.
    Rollback,
}

/// How a state is shown. Source: docs/reference/lsm.md § 2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Stable and good.
    Success,
    /// Normal.
    Info,
    /// Somebody should look.
    Warning,
    /// A serious problem.
    Danger,
}

/// What a transfer does to the attribute sets. Source: docs/reference/lsm.md § 3.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Operation {
    /// The candidate is deployed: it becomes active, and the active set is kept for a rollback.
    #[serde(rename = "promote")]
    Promote,
    /// What was deployed before is deployed again.
    #[serde(rename = "rollback")]
    Rollback,
    /// The candidate is dropped.
    #[serde(rename = "clear candidate")]
    ClearCandidate,
    /// The active set is dropped.
    #[serde(rename = "clear active")]
    ClearActive,
    /// The rollback set is dropped.
    #[serde(rename = "clear rollback")]
    ClearRollback,
}

impl Lifecycle {
    /// The state of this name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.iter().find(|state| state.name == name)
    }

    /// The label under which an instance in this state is counted; [`Label::NONE`] for a state without one.
    #[must_use]
    pub fn label_of(&self, state: &str) -> &'static str {
        let label = self.state(state).and_then(|state| state.label);
        label.map_or(Label::NONE, Label::as_str)
    }

    /// The ways out of a state.
    pub fn leaving<'l>(&'l self, state: &'l str) -> impl Iterator<Item = &'l Transfer> {
        let transfers = self.transfers.iter();
        transfers.filter(move |transfer| transfer.source == state)
    }
}

impl SetName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Candidate, Self::Active, Self::Rollback];

    /// As models write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Active => "active",
            Self::Rollback => "rollback",
        }
    }

    /// From `candidate` or `candidate_attributes`; the API takes both.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_suffix("_attributes").unwrap_or(text);
        Self::ALL.into_iter().find(|set| set.as_str() == name)
    }
}

impl Label {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Success, Self::Info, Self::Warning, Self::Danger];
    /// What is counted in the place of a label where a state has none.
    pub const NONE: &'static str = "no_label";

    /// As models write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Danger => "danger",
        }
    }

    /// From its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.as_str() == text)
    }
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Promote,
        Self::Rollback,
        Self::ClearCandidate,
        Self::ClearActive,
        Self::ClearRollback,
    ];

    /// As models write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::Rollback => "rollback",
            Self::ClearCandidate => "clear candidate",
            Self::ClearActive => "clear active",
            Self::ClearRollback => "clear rollback",
        }
    }

    /// From its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}
