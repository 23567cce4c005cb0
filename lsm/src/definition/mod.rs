//! The records of the service catalog: what can be ordered, and how what was ordered lives.
//!
//! They are read from and written as JSON exactly as docs/reference/lsm.md § 1.2, § 3.1 and § 5.3 have them. Reading finds
//! wrong types and unknown words; [`ServiceEntity::check`] finds what contradicts the rules for definitions.

mod check;
mod check_lifecycle;
mod lifecycle;
mod read;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use check::join;
pub use lifecycle::{Label, Lifecycle, Operation, SetName, State, Transfer};

/// One version of the definition of a service. Source: docs/reference/lsm.md § 1.2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceEntity {
    /// The name of the service; it is used in URLs.
    pub name: String,
    /// From 0, which is the only one of services whose model keeps no versions.
    pub version: u64,
    /// For people.
    pub description: Option<String>,
    /// What can be given.
    #[serde(flatten)]
    pub fields: Fields,
    /// How instances move between states.
    pub lifecycle: Lifecycle,
    /// The values of the switches of the lifecycle, for instances that have none of their own.
    pub config: BTreeMap<String, bool>,
    /// The name of the attribute that tells instances apart for people.
    pub service_identity: Option<String>,
    /// How user interfaces call that attribute.
    pub service_identity_display_name: Option<String>,
    /// Whether modifiers count at every level (§ 1.4.3), or at the top only (§ 1.4.4).
    pub strict_modifier_enforcement: bool,
    /// The service whose instances own the instances of this one.
    pub owner: Option<String>,
    /// The relation that leads to the owner.
    pub relation_to_owner: Option<String>,
    /// The services that have this one as their owner.
    pub owned_entities: Vec<String>,
}

/// What services and embedded entities have in common.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fields {
    /// Plain values.
    pub attributes: Vec<EntityAttribute>,
    /// Structured parts.
    pub embedded_entities: Vec<EmbeddedEntity>,
    /// Other services that it leads to.
    pub inter_service_relations: Vec<InterServiceRelation>,
    /// Which attributes tell elements of one list apart.
    pub key_attributes: Option<Vec<String>>,
    /// For user interfaces.
    pub entity_annotations: Map<String, Value>,
}

impl Fields {
    /// Names and modifiers of attributes, relations to other services and structured parts, in this order.
    pub(crate) fn modifiers(&self) -> impl Iterator<Item = (&str, Modifier)> {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|one| (one.name.as_str(), one.modifier));
        let relations = self.inter_service_relations.iter();
        let relations = relations.map(|one| (one.name.as_str(), one.modifier));
        let embedded = self.embedded_entities.iter();
        let embedded = embedded.map(|one| (one.name.as_str(), one.modifier));
        attributes.chain(relations).chain(embedded)
    }

    fn remove_descriptions(&mut self) {
        for attribute in &mut self.attributes {
            attribute.description = None;
        }
        for relation in &mut self.inter_service_relations {
            relation.description = None;
        }
        for embedded in &mut self.embedded_entities {
            embedded.description = None;
            embedded.fields.remove_descriptions();
        }
    }
}

/// A plain attribute. Source: docs/reference/lsm.md § 1.3.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EntityAttribute {
    /// Its name.
    pub name: String,
    /// `string`, `int[]?`, ...: the base type.
    #[serde(rename = "type")]
    pub value_type: String,
    /// For people.
    pub description: Option<String>,
    /// Who may set it, and when.
    pub modifier: Modifier,
    /// What is stored where nothing is given, if `default_value_set`.
    pub default_value: Value,
    /// Whether there is a default; it may be null.
    pub default_value_set: bool,
    /// How values are checked beyond their type, with the suffixes of the type.
    pub validation_type: Option<String>,
    /// What that check is given.
    pub validation_parameters: Option<Map<String, Value>>,
    /// For user interfaces.
    pub attribute_annotations: Map<String, Value>,
}

/// A structured part of a service. Source: docs/reference/lsm.md § 1.4.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbeddedEntity {
    /// The name of the relation to it.
    pub name: String,
    /// The name of its entity in the model.
    #[serde(rename = "type")]
    pub entity_type: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Who may add and remove elements, and when.
    pub modifier: Modifier,
    /// How many there must be.
    pub lower_limit: u64,
    /// How many there may be; `None`: any number. One is an object, not a list.
    pub upper_limit: Option<u64>,
    /// What each element has.
    #[serde(flatten)]
    pub fields: Fields,
    /// For user interfaces, of the relation.
    pub attribute_annotations: Map<String, Value>,
}

/// A relation to another service. Source: docs/reference/lsm.md § 1.5.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterServiceRelation {
    /// Its name.
    pub name: String,
    /// The name of the other service.
    pub entity_type: String,
    /// For people.
    pub description: Option<String>,
    /// How many there must be.
    pub lower_limit: u64,
    /// How many there may be; `None`: any number. One is an id, not a list of ids.
    pub upper_limit: Option<u64>,
    /// Who may change it, and when.
    pub modifier: Modifier,
    /// For user interfaces.
    pub attribute_annotations: Map<String, Value>,
}

/// Who may set something, and when. Source: docs/reference/lsm.md § 1.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Modifier {
    /// Compiles only.
    #[serde(rename = "r")]
    ReadOnly,
    /// Clients, when the instance is created.
    #[serde(rename = "rw")]
    AtCreation,
    /// Clients, whenever the state accepts updates.
    #[serde(rename = "rw+")]
    Always,
}

impl Modifier {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "r",
            Self::AtCreation => "rw",
            Self::Always => "rw+",
        }
    }
}

impl ServiceEntity {
    /// A definition from its JSON.
    ///
    /// # Errors
    ///
    /// Every field that is missing, of another type, or holds an unknown word, by path.
    pub fn from_value(record: &Value) -> Result<Self, crate::Problems> {
        read::service_entity(record)
    }

    /// What contradicts the rules for definitions (docs/reference/lsm.md § 1.4.2, § 1.6, § 3.1.2).
    ///
    /// # Errors
    ///
    /// Every contradiction, by path.
    pub fn check(&self) -> Result<(), crate::Problems> {
        check::check(self)
    }

    /// The same without its descriptions, which are for people and mean nothing to instances: a published version may be
    /// described in other words.
    #[must_use]
    pub fn undocumented(&self) -> Self {
        let mut bare = self.clone();
        bare.description = None;
        bare.fields.remove_descriptions();
        bare
    }
}
