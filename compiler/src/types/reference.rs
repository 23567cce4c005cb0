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
    /// Made by a plugin that only computes, of a class whose references are nothing but their arguments
    /// (`python/steward_host/plain_references.py`): another one with the same arguments does as well.
    Plain {
        /// The object that the Python host keeps; `None`: it is known from an earlier compile, and Python makes one if it needs it.
        object: Option<u32>,
        text: Option<Box<str>>,
        repr: Option<Box<str>>,
        arguments: Vec<(Box<str>, Value)>,
    },
}

impl Origin {
    /// The arguments of a reference of a Python class, in order, if it is known by them.
    pub fn class_arguments(&self) -> Option<&[(Box<str>, Value)]> {
        match self {
            Origin::Native(_) => None,
            Origin::Python { arguments, .. } => arguments.as_deref(),
            Origin::Plain { arguments, .. } => Some(arguments),
        }
    }
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
                (of_a, of_b) => match (of_a.class_arguments(), of_b.class_arguments()) {
                    (Some(of_a), Some(of_b)) => {
                        let (a, b) = (self.reference(a), self.reference(b));
                        a.class == b.class && a.kind == b.kind && self.equal_arguments(of_a, of_b)
                    }
                    _ => false,
                },
            }
    }

    fn equal_arguments(&self, a: &[(Box<str>, Value)], b: &[(Box<str>, Value)]) -> bool {
        a.len() == b.len()
            && a.iter().all(|(name, value)| {
                let other = b.iter().find(|(other, _)| other == name);
                other.is_some_and(|(_, other)| self.equal(*value, *other))
            })
    }

    pub fn knows_reference(&self, id: RefId) -> bool {
        id.index() < self.references.len()
    }

    /// One value each: native references of one kind with the same arguments, those of a class that are nothing but their
    /// arguments, and a Python object.
    pub fn new_reference(&mut self, reference: Reference) -> Value {
        let key = match &reference.origin {
            Origin::Native(arguments) => {
                let arguments = arguments.iter().map(|(name, value)| (*name, *value));
                self.reference_key(reference.kind.to_string(), arguments)
            }
            Origin::Python { object, .. } => format!("\0{object}"),
            Origin::Plain { arguments, .. } => {
                let start = format!(
                    "\0\0{}\0{}\0{}",
                    reference.kind, reference.class, reference.of.0
                );
                let arguments = arguments.iter().map(|(name, value)| (&**name, *value));
                self.reference_key(start, arguments)
            }
        };
        let next = RefId(self.references.len() as u32);
        let id = *self.known_references.entry(key.into()).or_insert(next);
        if id == next {
            self.references.push(reference);
        }
        Value::Reference(id)
    }

    fn reference_key<'n>(
        &self,
        mut key: String,
        arguments: impl Iterator<Item = (&'n str, Value)>,
    ) -> String {
        for (name, value) in arguments {
            let value = match value {
                // Its own text may be that of others, too.
                Value::Reference(id) => format!("#{}", id.0),
                value => self.repr(value, &InstanceNumbers),
            };
            key.push_str(&format!("\0{name}={value}"));
        }
        key
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
            }
            | Origin::Plain {
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
            }
            | Origin::Plain {
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
