//! The desired state of one resource, by a version.

use std::borrow::Cow;
use std::collections::HashSet;

use foldhash::fast::RandomState as FastHash;
use serde::Deserialize;

use crate::domain::{AgentName, ResourceId, SharedText, Timestamp};
use crate::store::{Error, ResourceRow, StoredResource};

/// A resource of the version in force, as the scheduler and the executor need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    pub resource_id: ResourceId,
    pub resource_type: SharedText,
    pub agent: AgentName,
    /// The value of the attribute that its id is made of.
    pub id_value: SharedText,
    /// All its attributes, as the text of a JSON object.
    pub attributes: Box<str>,
    /// The digest of the attributes that say what it shall be: two intents with the same hash want
    /// the same.
    pub attribute_hash: SharedText,
    pub requires: Box<[ResourceId]>,
    /// Some attribute is not known yet, so it cannot be deployed.
    pub is_undefined: bool,
    /// Its runs are events for its dependents. Missing in the attributes: false
    /// (docs/reference/deployment.md § 4.5).
    pub send_event: bool,
    /// It runs again on such events. Missing: true.
    pub receive_events: bool,
    pub created: Timestamp,
}

/// The flags among a resource's attributes; what is no boolean counts as missing.
#[derive(Deserialize)]
struct Flags {
    #[serde(default)]
    send_event: serde_json::Value,
    #[serde(default)]
    receive_events: serde_json::Value,
}

impl Flags {
    /// Whether it sends events, and whether it takes them.
    fn of(attributes: &str) -> (bool, bool) {
        let flags = serde_json::from_str::<Self>(attributes).ok();
        let flag = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_bool);
        let sends = flag(flags.as_ref().map(|flags| &flags.send_event));
        let receives = flag(flags.as_ref().map(|flags| &flags.receive_events));
        (sends.unwrap_or(false), receives.unwrap_or(true))
    }
}

impl From<StoredResource> for Intent {
    fn from(resource: StoredResource) -> Self {
        let (send_event, receive_events) = Flags::of(&resource.attributes);
        Self {
            send_event,
            receive_events,
            resource_id: resource.resource_id,
            resource_type: resource.resource_type.into(),
            agent: resource.agent,
            id_value: resource.id_value.into(),
            attributes: resource.attributes.into(),
            attribute_hash: resource.attribute_hash.into(),
            requires: resource.requires.into(),
            is_undefined: resource.is_undefined,
            created: resource.created,
        }
    }
}

/// Makes intents of the rows of a version, whose texts are kept once each: of a million resources most have the type, and
/// many the agent, of another, and each is required by some.
#[derive(Debug, Default)]
pub(super) struct Reading {
    types: HashSet<SharedText, FastHash>,
    agents: HashSet<AgentName, FastHash>,
    ids: HashSet<ResourceId, FastHash>,
}

/// A text of a JSON list, copied only if something in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Reading {
    /// # Errors
    /// The row's requires are no list of texts.
    pub(super) fn intent(&mut self, row: &ResourceRow<'_>) -> Result<Intent, Error> {
        let unreadable = |_| Error::Row {
            table: "desired_resource",
            column: "requires",
            id: row.resource_id.to_owned(),
        };
        let requires: Vec<Text<'_>> = match row.requires {
            "[]" => Vec::new(),
            list => serde_json::from_str(list).map_err(unreadable)?,
        };
        let (send_event, receive_events) = Flags::of(row.attributes);
        Ok(Intent {
            send_event,
            receive_events,
            resource_id: once(&mut self.ids, row.resource_id, ResourceId::new),
            resource_type: once(&mut self.types, row.resource_type, SharedText::from),
            agent: once(&mut self.agents, row.agent, AgentName::new),
            id_value: row.id_value.into(),
            attributes: row.attributes.into(),
            attribute_hash: row.attribute_hash.into(),
            requires: requires
                .iter()
                .map(|id| once(&mut self.ids, &id.0, ResourceId::new))
                .collect(),
            is_undefined: row.is_undefined,
            created: row.created,
        })
    }
}

/// The text of `seen` that is `text`; it is made and remembered if there is none.
fn once<'a, T>(seen: &mut HashSet<T, FastHash>, text: &'a str, new: impl FnOnce(&'a str) -> T) -> T
where
    T: Clone + Eq + std::hash::Hash + std::borrow::Borrow<str>,
{
    if let Some(known) = seen.get(text) {
        return known.clone();
    }
    let new = new(text);
    seen.insert(new.clone());
    new
}
