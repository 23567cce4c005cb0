//! What can happen to an instance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Attributes;
use crate::attributes::{Change, Edit};
use crate::definition::{Operation, SetName};
use crate::lifecycle::EventType;

/// Something that happened to an instance, and who says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What happened.
    pub trigger: Trigger,
    /// The version that the caller has seen; another one by now is a refusal. `None`: whichever.
    pub current_version: Option<u64>,
    /// What all events have in common that come of it. A new id; not used by [`Trigger::Auto`], whose id is made of the
    /// instance and its version, so that a restart asks for no validation twice.
    pub correlation_id: Uuid,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Trigger {
    /// The instance is where it is: after each transfer, after a change of a switch, and at the start of a server.
    Auto {
        /// Whether a result of the deployment that is known may count as arriving now, as
        /// [`crate::lifecycle::Next::FireAuto`] says. It is used up by the transfer that it makes, so `true` does no harm.
        known_result: bool,
    },
    /// A client changes attributes.
    Updated {
        /// How.
        change: Change,
        /// Why, for people.
        comment: Option<String>,
    },
    /// A client deletes it.
    Deleted,
    /// A client asks for another state.
    SetState {
        /// The state that it wishes for.
        target: String,
        /// Why, for people.
        message: Option<String>,
    },
    /// A validation has ended. Give the correlation id of the validation with the request.
    Validated {
        /// The transfer that was validated.
        edge: Edge,
        /// What asked for the validation.
        cause: EventType,
        /// The version of the instance when it was asked for.
        version: u64,
        /// Whether the model compiled.
        succeeded: bool,
        /// The compile.
        compile: Uuid,
    },
    /// Its resources are deployed, or one failed.
    Reported {
        /// The desired state version that was deployed.
        next_version: u64,
        /// Whether all are deployed.
        succeeded: bool,
    },
    /// Its resources wait for a value that is not known: nothing will be reported until it is.
    Stuck {
        /// The desired state version that is to be deployed.
        next_version: u64,
        /// The resources that wait, by their ids.
        resources: Vec<String>,
    },
    /// A compile has values for read-only attributes.
    Wrote {
        /// Which set they are written into. A candidate set that is not there is first made of the active one.
        set: SetName,
        /// What is written.
        edits: Vec<Edit>,
    },
    /// A client sets switches of the lifecycle.
    Configured {
        /// By name.
        values: BTreeMap<String, bool>,
    },
    /// A client keeps something with the instance.
    Annotated {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
    },
    /// An expert puts the instance into a state.
    ForceState {
        /// Any state of the lifecycle.
        target: String,
        /// What happens to the attribute sets.
        operation: Option<Operation>,
        /// Why, for people.
        message: String,
    },
    /// An expert changes attributes, whatever the lifecycle and the modifiers say.
    ForceAttributes {
        /// Which set; one that is not there starts empty.
        set: SetName,
        /// How.
        edits: Vec<Edit>,
        /// Why, for people.
        comment: Option<String>,
    },
    /// An expert has the record removed.
    ForceDeleted {
        /// Why, for people.
        message: String,
    },
}

/// A way that an instance may go, named so that it can be stored beside a compile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Where the transfer begins.
    pub source: String,
    /// Where it ends.
    pub target: String,
    /// Where it ends after a failure.
    pub error: Option<String>,
}

/// What a new instance is made of, its attributes checked and complete.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInstance {
    /// Its id, not in use yet.
    pub id: Uuid,
    /// The environment that it is for.
    pub environment: Uuid,
    /// All attributes.
    pub attributes: Attributes,
    /// The state that it asks for; `None`: the initial one.
    pub initial_state: Option<String>,
    /// Its own values for switches of the lifecycle.
    pub config: BTreeMap<String, bool>,
    /// What its first events have in common: a new id.
    pub correlation_id: Uuid,
}

/// What an instance is to be under another version of the definition. Source: docs/reference/lsm.md § 1.8.
#[derive(Debug, Clone, PartialEq)]
pub struct Migration {
    /// A state of the other version's lifecycle.
    pub state: String,
    /// The new candidate.
    pub candidate: Option<Attributes>,
    /// The new active set.
    pub active: Option<Attributes>,
    /// The new rollback set.
    pub rollback: Option<Attributes>,
}

/// What of an environment counts here. Source: docs/reference/lsm.md Appendix A.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// `enable_lsm_transfer_optimization`: edges that keep the desired state start no compile.
    pub transfer_optimization: bool,
    /// `enable_lsm_expert_mode`: calls that go around the lifecycle are allowed.
    pub expert_mode: bool,
    /// The name of the environment, for messages.
    pub environment_name: String,
}
