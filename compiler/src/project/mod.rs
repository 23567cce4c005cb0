//! The project file, where modules are, and which files a compile consists of.

mod load;
mod modules;
mod requirements;

pub use load::{Loaded, load};
pub use modules::{Module, find, namespaces};

use crate::diagnostics::{Fail, fail};
use crate::span::Loc;
use crate::world::World;

/// What matters of `project.yml`.
#[derive(Debug, Default)]
pub struct Project {
    pub module_path: Vec<String>,
    /// `type.relation before type.relation`, as written.
    pub precedence: Vec<PrecedenceRule>,
    /// Module constraints as written.
    pub requires: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct PrecedenceRule {
    pub first: (String, String),
    pub then: (String, String),
}

fn invalid(reason: impl std::fmt::Display) -> Fail {
    fail(
        "InvalidMetadata",
        Loc::NONE,
        format!("Metadata defined in project.yml is invalid:\n  {reason}"),
    )
}

impl Project {
    pub fn read(world: &dyn World) -> Result<Project, Fail> {
        let text = world.read_text("project.yml").map_err(|error| {
            fail(
                "ProjectNotFoundException",
                Loc::NONE,
                format!("project.yml can not be read: {error}"),
            )
        })?;
        let value: serde_yaml::Value = serde_yaml::from_str(&text).map_err(invalid)?;
        let Some(map) = value.as_mapping() else {
            return Err(invalid("the file is not a map"));
        };
        if !matches!(
            map.get("name"),
            Some(serde_yaml::Value::String(_) | serde_yaml::Value::Number(_))
        ) {
            return Err(invalid("name: a project needs a name"));
        }
        if let Some(operator) = map.get("freeze_operator")
            && !matches!(operator.as_str(), Some("~=" | "==" | ">="))
        {
            return Err(invalid("freeze_operator: must be one of ~=, ==, >="));
        }
        let mut precedence = Vec::new();
        for rule in strings(map, "relation_precedence_policy")? {
            let parsed = precedence_rule(&rule);
            precedence.push(parsed.ok_or_else(|| {
                invalid(format!("relation_precedence_policy: `{rule}` is not of the form `<type>.<relation> before <type>.<relation>`"))
            })?);
        }
        Ok(Project {
            module_path: strings(map, "modulepath")?,
            precedence,
            requires: strings(map, "requires")?,
        })
    }
}

/// A string, or a list of strings.
fn strings(map: &serde_yaml::Mapping, key: &str) -> Result<Vec<String>, Fail> {
    let text = |value: &serde_yaml::Value| match value {
        serde_yaml::Value::String(text) => Ok(text.clone()),
        serde_yaml::Value::Number(number) => Ok(number.to_string()),
        _ => Err(invalid(format!("{key}: a string was expected"))),
    };
    match map.get(key) {
        None | Some(serde_yaml::Value::Null) => Ok(Vec::new()),
        Some(serde_yaml::Value::Sequence(items)) => items.iter().map(text).collect(),
        Some(value) => Ok(vec![text(value)?]),
    }
}

fn precedence_rule(text: &str) -> Option<PrecedenceRule> {
    let side = |word: &str| {
        let (entity, relation) = word.rsplit_once('.')?;
        let valid = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_alphanumeric() || "_:-".contains(c))
        };
        (valid(entity) && valid(relation)).then(|| (entity.to_owned(), relation.to_owned()))
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [first, "before", then] => Some(PrecedenceRule {
            first: side(first)?,
            then: side(then)?,
        }),
        _ => None,
    }
}
