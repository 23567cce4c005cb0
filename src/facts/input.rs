//! A value that somebody sets for a fact or a parameter, and the rules for it. They are those of the reference's API, whoever calls
//! it: docs/reference/rest.md § 1.7.

use serde_json::{Map, Value, json};

use crate::domain::{FactSource, ResourceId, Timestamp};
use crate::executor::bounds::{check_fact, check_metadata};
use crate::store::Fact;

/// A fact or a parameter that is to be set, before any rule.
#[derive(Debug, Clone, Default)]
pub struct FactInput {
    pub name: String,
    /// `None`: a parameter.
    pub resource_id: Option<ResourceId>,
    pub value: Option<String>,
    pub source: Option<String>,
    pub metadata: Option<Value>,
    /// `None`: as before, and a new fact expires, a parameter does not.
    pub expires: Option<bool>,
    /// A compile is to follow if the value is another one.
    pub recompile: bool,
}

impl FactInput {
    /// From the arguments of a handler's call of `set_param`.
    ///
    /// # Errors
    /// An argument is of another kind than it has to be; the text names it.
    pub fn from_call(arguments: &Map<String, Value>) -> Result<Self, String> {
        let flag = |name: &str| match arguments.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(format!("Field '{name}' must be true or false")),
        };
        Ok(Self {
            name: text(arguments, "id")?.ok_or_else(|| required("id"))?,
            resource_id: resource_id(text(arguments, "resource_id")?),
            value: text(arguments, "value")?,
            source: text(arguments, "source")?,
            metadata: arguments.get("metadata").cloned(),
            expires: flag("expires")?,
            recompile: flag("recompile")?.unwrap_or(false),
        })
    }

    /// The fact as it is kept.
    ///
    /// # Errors
    /// Which rule it breaks, with the name of the field.
    pub(crate) fn check(self, now: Timestamp) -> Result<Fact, String> {
        let expires = self.expires.unwrap_or(self.resource_id.is_some());
        if expires && self.resource_id.is_none() {
            return Err("Cannot set expiry for parameters.".to_owned());
        }
        let metadata = match self.metadata {
            None | Some(Value::Null) => json!({}),
            Some(metadata) if metadata.is_object() => metadata,
            Some(_) => return Err("Field 'metadata' must be an object".to_owned()),
        };
        check_metadata(&metadata)?;
        let source = self.source.ok_or_else(|| required("source"))?;
        let source = FactSource::parse(&source).ok_or_else(|| {
            let sources = FactSource::words();
            format!("Field 'source' must be one of {sources:?}, got `{source}`")
        })?;
        let value = self.value.ok_or_else(|| required("value"))?;
        check_fact(&self.name, &value)?;
        Ok(Fact {
            resource_id: self.resource_id,
            name: self.name,
            value,
            source,
            metadata,
            expires,
            updated: now,
        })
    }
}

/// An argument that is a text; numbers have their own.
///
/// # Errors
/// It is neither, nor missing.
pub(super) fn text(arguments: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("Field '{name}' must be a text")),
    }
}

/// An empty id is none, as clients send it for parameters.
fn resource_id(text: Option<String>) -> Option<ResourceId> {
    text.filter(|text| !text.is_empty()).map(ResourceId::new)
}

fn required(name: &str) -> String {
    format!("Field '{name}' is required")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a handler's call with these arguments sets, or why nothing.
    fn set(arguments: Value) -> Result<Fact, String> {
        FactInput::from_call(arguments.as_object().unwrap())?.check(Timestamp(5))
    }

    #[test]
    fn a_fact_expires_by_default_and_a_parameter_never_does() {
        let given =
            json!({"id": "size", "value": 5, "source": "fact", "resource_id": "a::B[c,d=e]"});
        let fact = set(given).unwrap();
        assert_eq!((fact.value.as_str(), fact.expires), ("5", true));
        assert_eq!(fact.source, FactSource::Fact);
        assert_eq!(fact.resource_id, Some(ResourceId::new("a::B[c,d=e]")));
        let given = json!({"id": "color", "value": "red", "source": "user", "resource_id": "", "metadata": null});
        let parameter = set(given).unwrap();
        assert_eq!((parameter.resource_id, parameter.expires), (None, false));
        assert_eq!(parameter.metadata, json!({}));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_and_the_field_is_named() {
        let whole = json!({"id": "size", "value": "5", "source": "fact"});
        for (field, wrong, expected) in [
            ("id", json!(null), "Field 'id' is required"),
            ("value", json!(null), "Field 'value' is required"),
            ("value", json!([1]), "Field 'value' must be a text"),
            ("source", json!(null), "Field 'source' is required"),
            ("source", json!("rumour"), "Field 'source' must be one of"),
            ("metadata", json!([]), "Field 'metadata' must be an object"),
            (
                "expires",
                json!("soon"),
                "Field 'expires' must be true or false",
            ),
            ("expires", json!(true), "Cannot set expiry for parameters."),
            ("value", json!("x".repeat(1 << 20)), "the limit is 65536"),
        ] {
            let mut given = whole.clone();
            given[field] = wrong;
            let refused = set(given).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        assert!(set(whole).is_ok());
    }
}
