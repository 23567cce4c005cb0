//! The record of the service inventory: one ordered service. Source: docs/reference/lsm.md § 1.7.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Attributes;
use crate::definition::SetName;

/// A moment: microseconds since 1970 in UTC.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub i64);

/// One ordered service. What a server computes on request (deployment progress, who refers to it) is not part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Chosen by the client or the server.
    pub id: Uuid,
    /// The environment that has it.
    pub environment: Uuid,
    /// The name of its service.
    pub service_entity: String,
    /// The version of the definition that it follows.
    pub service_entity_version: u64,
    /// How often it has changed, from 1.
    pub version: u64,
    /// How often its desired state has changed, from 1.
    pub desired_state_version: u64,
    /// The name of its state.
    pub state: String,
    /// What is asked for and not accepted yet.
    pub candidate_attributes: Option<Attributes>,
    /// What is to be deployed.
    pub active_attributes: Option<Attributes>,
    /// What was deployed before the update that is under way.
    pub rollback_attributes: Option<Attributes>,
    /// Its own values for switches of the lifecycle.
    pub config: BTreeMap<String, bool>,
    /// Whether it is in a state where it has ended.
    pub deleted: bool,
    /// When it was made.
    pub created_at: Moment,
    /// When it was last changed, or written to by a compile.
    pub last_updated: Moment,
    /// The value of the attribute that is the identity of its service, as text.
    pub service_identity_attribute_value: Option<String>,
    /// The result of the last deployment of this desired state version, if it is known and transfers are optimized
    /// (docs/reference/lsm.md § 3.9).
    pub known_result: Option<bool>,
    /// Addresses that are told of changes; an older form of callbacks.
    pub callback: Vec<String>,
    /// Anything, for clients.
    pub metadata: BTreeMap<String, String>,
}

impl Instance {
    /// One of the three sets.
    #[must_use]
    pub fn set(&self, name: SetName) -> Option<&Attributes> {
        match name {
            SetName::Candidate => self.candidate_attributes.as_ref(),
            SetName::Active => self.active_attributes.as_ref(),
            SetName::Rollback => self.rollback_attributes.as_ref(),
        }
    }

    /// One of the three sets, to be changed.
    pub fn set_mut(&mut self, name: SetName) -> &mut Option<Attributes> {
        match name {
            SetName::Candidate => &mut self.candidate_attributes,
            SetName::Active => &mut self.active_attributes,
            SetName::Rollback => &mut self.rollback_attributes,
        }
    }

    /// What an update starts from: the candidate, else the active set (docs/reference/lsm.md § 3.5.2).
    #[must_use]
    pub fn base(&self) -> Option<&Attributes> {
        let candidate = self.candidate_attributes.as_ref();
        candidate.or(self.active_attributes.as_ref())
    }

    /// The hint that the record shows: `stable` as soon as a result of this desired state is known, else `auto`.
    #[must_use]
    pub fn transfer_context(&self) -> &'static str {
        if self.known_result.is_some() {
            "stable"
        } else {
            "auto"
        }
    }
}
