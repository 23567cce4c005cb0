//! Paths into attributes: `sites[name=a].vlan`. Source: docs/reference/lsm.md § 6.
//!
//! A path is sections joined by dots. A key enters an object; `relation[k=v][k2=v2]` picks from the list under `relation` the
//! one element with these values. In a wild path `*` stands for any key or value. `.` alone is the null path: the container
//! itself. The Python library `inmanta.util.dict_path` has the same rules; `fixtures/dict_paths.json` holds both to one table.

mod container;
mod parse;

use std::fmt;

use serde_json::{Map, Value};

use container::{
    constructed, list_mut, matches, no_list, no_object, object, object_mut, positions,
};
pub(crate) use container::{kind_of, text_of};
pub(crate) use parse::escaped;

/// The characters that stand for themselves only behind a backslash.
const SPECIAL: [char; 6] = ['\\', '[', ']', '.', '*', '='];

/// A path that means one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(WildPath);

/// A path that may hold wildcards, and so may mean several elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WildPath {
    sections: Vec<Section>,
}

/// One step into a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section {
    /// The value under a key of an object.
    Key(Key),
    /// Elements of the list under a key of an object, picked by values of theirs.
    Keyed {
        /// The key of the list.
        relation: String,
        /// What elements must have.
        pairs: Vec<(Key, Wanted)>,
    },
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// This one.
    Name(String),
    /// `*`
    Any,
}

/// A value that an element must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// This text, or the number or bool that it writes.
    Text(String),
    /// `\0`
    Null,
    /// `*`
    Any,
}

/// Why a path does not lead anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    /// The text is no path.
    Invalid(String),
    /// An object or a list was expected, and something else is there.
    Structure(String),
    /// There is no such element, or there are several.
    Missing(String),
    /// The container is null.
    NullContainer,
    /// The operation makes no sense for this path.
    Unsupported(String),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason)
            | Self::Structure(reason)
            | Self::Missing(reason)
            | Self::Unsupported(reason) => f.write_str(reason),
            Self::NullContainer => f.write_str("nothing can be taken from null"),
        }
    }
}

impl std::error::Error for PathError {}

impl Path {
    /// Reads a path without wildcards.
    ///
    /// # Errors
    ///
    /// [`PathError::Invalid`], also for a wildcard.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let path = WildPath::parse(text)?;
        if path.sections.iter().any(Section::is_wild) {
            let reason = format!("`{text}` has a wildcard (`*`), but has to mean one element");
            return Err(PathError::Invalid(reason));
        }
        Ok(Self(path))
    }

    /// Its steps; none for the null path.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.0.sections
    }

    /// The element.
    ///
    /// # Errors
    ///
    /// There is none, or several.
    pub fn get<'v>(&self, container: &'v Value) -> Result<&'v Value, PathError> {
        if self.sections().is_empty() {
            return object(container).map(|_| container);
        }
        if container.is_null() {
            return Err(PathError::NullContainer);
        }
        // A wrong container on the way is as good as nothing there.
        let found = self.0.get_elements(container).unwrap_or_default();
        match found.as_slice() {
            [one] => Ok(one),
            [] => Err(self.missing("no element")),
            _ => Err(self.missing("several elements")),
        }
    }

    /// Puts a value at this place. With `construct`, what is missing on the way is made.
    ///
    /// # Errors
    ///
    /// The way leads through something that is no container, or to several elements.
    pub fn set(
        &self,
        container: &mut Value,
        value: Value,
        construct: bool,
    ) -> Result<(), PathError> {
        let Some((last, outer)) = self.sections().split_last() else {
            let Value::Object(value) = value else {
                return Err(no_object(&value));
            };
            object_mut(container)?.extend(value);
            return Ok(());
        };
        let parent = self.walk(container, outer, construct)?;
        match last {
            Section::Key(key) => {
                object_mut(parent)?.insert(key.text().to_owned(), value);
            }
            Section::Keyed { relation, pairs } => {
                let items = list_mut(parent, relation, true)?;
                let matching: Vec<usize> = positions(items, pairs);
                // Of several elements none is meant, so a further one is added.
                match matching.as_slice() {
                    [at] => items[*at] = value,
                    _ => items.push(value),
                }
            }
        }
        Ok(())
    }

    /// Removes the element, or all elements that a last keyed section matches. Nothing there: no effect.
    ///
    /// # Errors
    ///
    /// The way leads through something that is no container; the null path.
    pub fn remove(&self, container: &mut Value) -> Result<(), PathError> {
        let Some((last, outer)) = self.sections().split_last() else {
            return Err(PathError::Unsupported("`.` can not be removed".to_owned()));
        };
        let parent = match self.walk(container, outer, false) {
            Err(PathError::Missing(_)) => return Ok(()),
            parent => parent?,
        };
        match last {
            Section::Key(key) => {
                object_mut(parent)?.shift_remove(key.text());
            }
            Section::Keyed { relation, pairs } => {
                if object(parent)?.contains_key(relation) {
                    list_mut(parent, relation, false)?.retain(|item| !matches(item, pairs));
                }
            }
        }
        Ok(())
    }

    /// The element, made with all that is missing on the way.
    ///
    /// # Errors
    ///
    /// The way leads through something that is no container, or to several elements.
    pub fn get_or_construct<'v>(
        &self,
        container: &'v mut Value,
    ) -> Result<&'v mut Value, PathError> {
        if container.is_null() && !self.sections().is_empty() {
            return Err(PathError::NullContainer);
        }
        self.walk(container, self.sections(), true)
    }

    /// Goes through sections; each means exactly one element.
    fn walk<'v>(
        &self,
        container: &'v mut Value,
        sections: &[Section],
        construct: bool,
    ) -> Result<&'v mut Value, PathError> {
        let mut at = container;
        for section in sections {
            at = self.step(at, section, construct)?;
        }
        Ok(at)
    }

    fn step<'v>(
        &self,
        container: &'v mut Value,
        section: &Section,
        construct: bool,
    ) -> Result<&'v mut Value, PathError> {
        match section {
            Section::Key(key) => {
                let map = object_mut(container)?;
                if construct && !map.contains_key(key.text()) {
                    map.insert(key.text().to_owned(), Value::Object(Map::new()));
                }
                let found = map.get_mut(key.text());
                found.ok_or_else(|| self.missing("no element"))
            }
            Section::Keyed { relation, pairs } => {
                if !construct && !object(container)?.contains_key(relation) {
                    return Err(self.missing("no element"));
                }
                let items = list_mut(container, relation, construct)?;
                let at = match positions(items, pairs).as_slice() {
                    [at] => *at,
                    [] if construct => {
                        items.push(constructed(pairs));
                        items.len() - 1
                    }
                    [] => return Err(self.missing("no element")),
                    _ => return Err(self.missing("several elements")),
                };
                Ok(&mut items[at])
            }
        }
    }

    fn missing(&self, what: &str) -> PathError {
        PathError::Missing(format!("`{self}` leads to {what}"))
    }
}

impl WildPath {
    /// All elements that are meant, in the order of the container.
    ///
    /// # Errors
    ///
    /// The way leads through something that is no container.
    pub fn get_elements<'v>(&self, container: &'v Value) -> Result<Vec<&'v Value>, PathError> {
        if self.sections.is_empty() {
            object(container)?;
        } else if container.is_null() {
            return Err(PathError::NullContainer);
        }
        let mut found = vec![container];
        for section in &self.sections {
            let mut inner = Vec::new();
            for container in found {
                inner.extend(
                    section
                        .elements(container)?
                        .into_iter()
                        .map(|(_, value)| value),
                );
            }
            found = inner;
        }
        Ok(found)
    }

    /// A path without wildcards for each element that is meant.
    ///
    /// # Errors
    ///
    /// The way leads through something that is no container; a wildcard is the key of a selector.
    pub fn resolve(&self, container: &Value) -> Result<Vec<Path>, PathError> {
        if self.sections.is_empty() {
            object(container)?;
        } else if container.is_null() {
            return Err(PathError::NullContainer);
        }
        let mut found = vec![(Vec::new(), container)];
        for section in &self.sections {
            section.can_be_resolved()?;
            let mut longer = Vec::new();
            for (path, container) in found {
                if container.is_null() {
                    return Err(PathError::NullContainer);
                }
                for (step, value) in section.elements(container)? {
                    let mut sections = path.clone();
                    sections.push(step);
                    longer.push((sections, value));
                }
            }
            found = longer;
        }
        let paths = found
            .into_iter()
            .map(|(sections, _)| Path(Self { sections }));
        Ok(paths.collect())
    }
}

impl Section {
    /// The key that the section begins with; empty for `*`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Key(key) => key.text(),
            Self::Keyed { relation, .. } => relation,
        }
    }

    fn is_wild(&self) -> bool {
        match self {
            Self::Key(key) => *key == Key::Any,
            Self::Keyed { pairs, .. } => {
                let mut pairs = pairs.iter();
                pairs.any(|(key, value)| *key == Key::Any || *value == Wanted::Any)
            }
        }
    }

    fn can_be_resolved(&self) -> Result<(), PathError> {
        match self {
            Self::Keyed { pairs, .. } if pairs.iter().any(|(key, _)| *key == Key::Any) => {
                let reason = "a path with `*` as the key of a selector can not be resolved";
                Err(PathError::Unsupported(reason.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The elements that are meant, each with the step without wildcards that leads to it.
    fn elements<'v>(&self, container: &'v Value) -> Result<Vec<(Self, &'v Value)>, PathError> {
        let map = object(container)?;
        match self {
            Self::Key(Key::Any) => {
                let step = |key: &String| Self::Key(Key::Name(key.clone()));
                Ok(map.iter().map(|(key, value)| (step(key), value)).collect())
            }
            Self::Key(Key::Name(name)) => {
                let found = map.get(name);
                Ok(found
                    .map(|value| (self.clone(), value))
                    .into_iter()
                    .collect())
            }
            Self::Keyed { relation, pairs } => {
                let items = match map.get(relation) {
                    None => return Ok(Vec::new()),
                    Some(Value::Array(items)) => items,
                    Some(other) => return Err(no_list(relation, other)),
                };
                let found = items.iter().filter(|item| matches(item, pairs));
                Ok(found
                    .map(|item| (step_to(relation, pairs, item), item))
                    .collect())
            }
        }
    }
}

/// The keyed section with the values of an element in place of wildcards.
fn step_to(relation: &str, pairs: &[(Key, Wanted)], item: &Value) -> Section {
    let concrete = |(key, wanted): &(Key, Wanted)| {
        let value = match item.get(key.text()) {
            _ if *key == Key::Any => wanted.clone(),
            None | Some(Value::Null) => Wanted::Null,
            Some(value) => Wanted::Text(text_of(value)),
        };
        (key.clone(), value)
    };
    Section::Keyed {
        relation: relation.to_owned(),
        pairs: pairs.iter().map(concrete).collect(),
    }
}

impl Key {
    fn text(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Any => "",
        }
    }
}
