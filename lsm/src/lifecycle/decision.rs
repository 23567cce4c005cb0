//! What follows from something that happened.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::lifecycle::Edge;
use crate::{Instance, Moment, Problems};

/// What is to be stored, in one transaction, and what is to be done after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What happens to the stored record.
    pub effect: Effect,
    /// The record as it is to be stored; `None`: unchanged or removed.
    pub instance: Option<Instance>,
    /// What is to be remembered, in order.
    pub events: Vec<Event>,
    /// What comes next. Compiles are asked for in the same transaction; automatic transfers are looked for after it.
    pub next: Vec<Next>,
}

/// What a decision does to the stored record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Unchanged,
    /// It is stored, with the version that it had: no record of the log.
    Stored,
    /// It is stored with its next version, and the log gets a record of it.
    NewVersion,
    /// It is removed.
    Removed,
}

/// Something that is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A compile that decides about a transfer.
    Validate(Validation),
    /// A compile that exports.
    Compile {
        /// Whether the instance is exported, or was: if not, the compile changes nothing of it.
        exports: bool,
        /// What is to be remembered once the compile is queued: its id goes into `id_compile_report`.
        event: Box<Event>,
    },
    /// To call `decide` with [`crate::lifecycle::Trigger::Auto`] after the commit.
    FireAuto {
        /// What that trigger is to say.
        known_result: bool,
    },
}

/// A validation that is to be asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// The remote id of the compile. A validation with this id that is queued or under way is not asked for again.
    pub correlation_id: Uuid,
    /// The transfer that it decides about.
    pub edge: Edge,
    /// What asked for it.
    pub cause: EventType,
    /// The version of the instance.
    pub version: u64,
    /// What is to be remembered once the compile is queued: its id goes into `id_compile_report`.
    pub event: Box<Event>,
}

/// Why something is not done. Nothing is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// An HTTP status: 400, 403, 404 or 409.
    pub status: u16,
    /// What is wrong and what to do.
    pub message: String,
    /// The offending fields, if it is about fields.
    pub problems: Problems,
}

/// Something to remember of an instance. Source: docs/reference/lsm.md § 5.7.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The instance.
    pub service_instance_id: Uuid,
    /// The version before what happened.
    pub service_instance_version: u64,
    /// The desired state version before what happened.
    pub service_desired_state_version: u64,
    /// When it happened.
    pub timestamp: Moment,
    /// What happened, for people.
    pub message: String,
    /// The state before, if it is about a transfer.
    pub source: Option<String>,
    /// The state after.
    pub destination: Option<String>,
    /// What kind of thing happened.
    pub event_type: EventType,
    /// What all events of one trigger have in common.
    pub event_correlation_id: Uuid,
    /// How bad it is.
    pub severity: Severity,
    /// The compile that it is about.
    pub id_compile_report: Option<Uuid>,
    /// Whether the edge to the error state was followed.
    pub is_error_transition: bool,
    /// Whether it had no effect.
    pub ignored_transition: bool,
}

/// What kind of thing happened. Source: docs/reference/lsm.md § 3.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    /// The instance was made.
    CreateTransition,
    /// A transfer by itself.
    AutoTransition,
    /// A client asked for a state.
    ApiSetStateTransition,
    /// A client changed attributes.
    OnUpdateTransition,
    /// A client deleted it.
    OnDeleteTransition,
    /// Its resources were deployed, or failed.
    ResourceTransition,
    /// The same, without a transfer.
    ResourceEvent,
    /// A compile wrote attributes.
    AllocationUpdate,
    /// An expert changed it.
    ForceUpdate,
    /// An expert removed it.
    ForceDelete,
}

/// How bad it is, with the numbers of Python's log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Severity {
    /// 10
    Debug,
    /// 20
    Info,
    /// 30
    Warning,
    /// 40
    Error,
    /// 50
    Critical,
}

impl Severity {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Debug,
        Self::Info,
        Self::Warning,
        Self::Error,
        Self::Critical,
    ];

    /// The number of the level.
    #[must_use]
    pub fn level(self) -> u8 {
        match self {
            Self::Debug => 10,
            Self::Info => 20,
            Self::Warning => 30,
            Self::Error => 40,
            Self::Critical => 50,
        }
    }

    /// The name of the level.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Critical => "CRITICAL",
        }
    }

    /// From the name of a level.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|severity| severity.as_str().eq_ignore_ascii_case(text))
    }
}

impl EventType {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::CreateTransition,
        Self::AutoTransition,
        Self::ApiSetStateTransition,
        Self::OnUpdateTransition,
        Self::OnDeleteTransition,
        Self::ResourceTransition,
        Self::ResourceEvent,
        Self::AllocationUpdate,
        Self::ForceUpdate,
        Self::ForceDelete,
    ];

    /// As it is stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateTransition => "CREATE_TRANSITION",
            Self::AutoTransition => "AUTO_TRANSITION",
            Self::ApiSetStateTransition => "API_SET_STATE_TRANSITION",
            Self::OnUpdateTransition => "ON_UPDATE_TRANSITION",
            Self::OnDeleteTransition => "ON_DELETE_TRANSITION",
            Self::ResourceTransition => "RESOURCE_TRANSITION",
            Self::ResourceEvent => "RESOURCE_EVENT",
            Self::AllocationUpdate => "ALLOCATION_UPDATE",
            Self::ForceUpdate => "FORCE_UPDATE",
            Self::ForceDelete => "FORCE_DELETE",
        }
    }

    /// From its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}
