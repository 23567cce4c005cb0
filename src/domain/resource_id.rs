//! `type[agent,attribute=value]`, parsed once at the edge.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The identity of a resource, without a version. All clones share one text: the schedule of a million resources has each
/// several times. Source: docs/reference/language.md § 12.2.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceId(Arc<str>);

/// A text that is not the id of a resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the id of a resource, which looks like `module::Type[agent,attribute=value]`"
)]
pub struct NotAResourceId(String);

impl ResourceId {
    /// Reads `type[agent,attribute=value]`; a version behind it is dropped. `None` when it is no such text.
    pub fn parse(text: &str) -> Option<Self> {
        let body = match text.rfind("],v=") {
            Some(end) if text[end + 4..].bytes().all(|byte| byte.is_ascii_digit()) => &text[..=end],
            _ => text,
        };
        let id = Self(body.into());
        let (resource_type, rest) = body.split_once('[')?;
        let (agent, rest) = rest.split_once(',')?;
        let (attribute, value) = rest.strip_suffix(']')?.split_once('=')?;
        let whole = [resource_type, agent, attribute, value]
            .iter()
            .all(|part| !part.is_empty());
        (whole && resource_type.contains("::") && !value.contains(']')).then_some(id)
    }

    /// Any text names a resource: there is one of that id or there is none. So it is for what the compiler exported and the
    /// store keeps, and for what somebody looks up; what comes in as new is read by [`ResourceId::parse`].
    pub fn new(text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0.as_ref().to_owned()
    }

    pub fn resource_type(&self) -> &str {
        self.0.split('[').next().unwrap_or_default()
    }

    pub fn agent(&self) -> &str {
        self.inside().split(',').next().unwrap_or_default()
    }

    pub fn attribute(&self) -> &str {
        self.pair().0
    }

    pub fn value(&self) -> &str {
        self.pair().1
    }

    fn inside(&self) -> &str {
        self.0
            .split_once('[')
            .map_or("", |(_, rest)| rest.trim_end_matches(']'))
    }

    fn pair(&self) -> (&str, &str) {
        self.inside()
            .split_once(',')
            .and_then(|(_, pair)| pair.split_once('='))
            .unwrap_or_default()
    }
}

impl FromStr for ResourceId {
    type Err = NotAResourceId;

    fn from_str(text: &str) -> Result<Self, NotAResourceId> {
        // Whoever sends a megabyte does not get it back.
        Self::parse(text).ok_or_else(|| NotAResourceId(text.chars().take(200).collect()))
    }
}

/// So that maps by id are asked with a text. Equality, order and hash are those of the text.
impl Borrow<str> for ResourceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ResourceId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for ResourceId {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for ResourceId {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ResourceId;

    #[test]
    fn an_id_gives_its_parts_and_drops_its_version() {
        let id = ResourceId::parse("fs::File[web1,path=/etc/a=b,c],v=12").expect("an id");
        assert_eq!(id.as_str(), "fs::File[web1,path=/etc/a=b,c]");
        assert_eq!(id.resource_type(), "fs::File");
        assert_eq!(id.agent(), "web1");
        assert_eq!(id.attribute(), "path");
        assert_eq!(id.value(), "/etc/a=b,c");
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in [
            "",
            "x",
            "a::B",
            "a::B[]",
            "a::B[x]",
            "a::B[x,y]",
            "a::B[x,y=",
            "a::B[,y=z]",
            "B[x,y=z]",
            "a::B[x,y=z]]",
        ] {
            assert_eq!(ResourceId::parse(text), None, "{text}");
        }
    }
}
