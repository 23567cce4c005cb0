//! How a template got to an object, for its errors: `v.parts[0]['a']`.

use std::fmt;
use std::sync::Arc;

use crate::types::text::quoted;

/// The way from a top-level name to an object.
#[derive(Debug)]
pub(in crate::template) enum Path {
    /// A name of the template.
    Name(String),
    /// What a filter gave: it has no name.
    Result,
    Attribute(Arc<Path>, String),
    Item(Arc<Path>, usize),
    Key(Arc<Path>, String),
}

impl Path {
    /// Whether it begins with a name of the template.
    pub fn has_name(&self) -> bool {
        match self {
            Path::Name(_) => true,
            Path::Result => false,
            Path::Attribute(parent, _) | Path::Item(parent, _) | Path::Key(parent, _) => {
                parent.has_name()
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Name(name) => f.write_str(name),
            Path::Result => Ok(()),
            Path::Attribute(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{}]", quoted(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_a_template_would() {
        let name = Arc::new(Path::Name("v".to_owned()));
        let parts = Arc::new(Path::Attribute(name, "parts".to_owned()));
        let first = Arc::new(Path::Item(parts, 0));
        let path = Path::Key(first, "it's".to_owned());
        assert_eq!(path.to_string(), r#"v.parts[0]["it's"]"#);
        assert!(path.has_name());
        assert!(!Path::Item(Arc::new(Path::Result), 1).has_name());
    }
}
