//! References: values that only the executor computes. Source: docs/reference/language.md § 12.11.

use super::value::{Heap, Value};
use super::{TypeId, index};
use crate::types::InstId;
use crate::types::text::Instances;

index! { RefId }

/// A reference as the model knows it.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The name it is registered under, `std::Environment`.
    pub kind: Box<str>,
    /// Its Python class, `inmanta_plugins.std.EnvironmentReference`.
    pub class: Box<str>,
    /// What it stands for: T of `Reference[T]`.
    pub of: TypeId,
    pub origin: Origin,
}

#[derive(Clone, Debug)]
pub enum Origin {
    /// Made by a native plugin: its arguments in order.
    Native(Vec<(&'static str, Value)>),
    /// An object that the Python host keeps; its texts, where its class says how it is written.
    Python {
        object: u32,
        /// The first object that this one equals, maybe itself. Equal ones may differ in what they hide.
        equal: u32,
        text: Option<Box<str>>,
        repr: Option<Box<str>>,
        /// Its arguments in order, if its exported form is made of them alone.
        arguments: Option<Vec<(Box<str>, Value)>>,
    },
}

/// Instances in the keys of references: by number.
struct InstanceNumbers;

impl Instances for InstanceNumbers {
    fn instance_text(&self, id: InstId) -> String {
        format!("instance {}", id.0)
    }

    fn instance_handle(&self, id: InstId) -> String {
        self.instance_text(id)
    }
}

impl Heap {
    pub fn reference(&self, id: RefId) -> &Reference {
        &self.references[id.index()]
    }

    /// Says what a reference stands for.
    pub fn set_reference_type(&mut self, id: RefId, of: TypeId) {
        self.references[id.index()].of = of;
    }

    pub fn has_references(&self) -> bool {
        !self.references.is_empty()
    }

    /// Whether two references are equal, as Python compares them.
    pub(super) fn equal_references(&self, a: RefId, b: RefId) -> bool {
        a == b
            || match (&self.reference(a).origin, &self.reference(b).origin) {
                (Origin::Python { equal: a, .. }, Origin::Python { equal: b, .. }) => a == b,
                _ => false,
            }
    }

    pub fn knows_reference(&self, id: RefId) -> bool {
        id.index() < self.references.len()
    }

    /// One value each: native references of one kind with equal arguments, and a Python object.
    pub fn new_reference(&mut self, reference: Reference) -> Value {
        let key = match &reference.origin {
            Origin::Native(arguments) => {
                let mut key = reference.kind.to_string();
                for (name, value) in arguments {
                    key.push_str(&format!("\0{name}={}", self.repr(*value, &InstanceNumbers)));
                }
                key
            }
            Origin::Python { object, .. } => format!("\0{object}"),
        };
        let next = RefId(self.references.len() as u32);
        let id = *self.known_references.entry(key.into()).or_insert(next);
        if id == next {
            self.references.push(reference);
        }
        Value::Reference(id)
    }

    /// Whether a value is a reference, or a list or dict that holds one.
    pub fn holds_reference(&self, value: Value) -> bool {
        if self.references.is_empty() {
            return false;
        }
        match value {
            Value::Reference(_) => true,
            Value::List(id) => self.list(id).iter().any(|item| self.holds_reference(*item)),
            Value::Dict(id) => {
                let mut entries = self.dict(id).entries.iter();
                entries.any(|(_, item)| self.holds_reference(*item))
            }
            _ => false,
        }
    }

    /// The reference as Python writes an object whose class does not say how; the number takes the
    /// place of the address.
    pub(super) fn reference_repr(&self, id: RefId) -> String {
        let reference = self.reference(id);
        match &reference.origin {
            Origin::Python {
                repr: Some(repr), ..
            } => repr.to_string(),
            _ => format!("<{} object at 0x7f{:010x}>", reference.class, id.0),
        }
    }

    pub(super) fn reference_text(&self, id: RefId) -> String {
        let reference = self.reference(id);
        match &reference.origin {
            Origin::Python {
                text: Some(text), ..
            } => text.to_string(),
            Origin::Native(arguments) if &*reference.kind == "std::FactReference" => {
                let argument = |name: &str| match arguments.iter().find(|(known, _)| *known == name)
                {
                    Some((_, Value::Str(id))) => self.str(*id),
                    _ => "",
                };
                format!(
                    "FactReference[resource_id={},fact_name={}]",
                    argument("resource_id"),
                    argument("fact_name")
                )
            }
            _ => self.reference_repr(id),
        }
    }

    /// The name of its class alone.
    pub(super) fn reference_class(&self, id: RefId) -> &str {
        let class = &self.reference(id).class;
        class.rsplit('.').next().unwrap_or(class)
    }
}
