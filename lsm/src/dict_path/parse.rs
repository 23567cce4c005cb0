//! Paths out of text, and back. Source: docs/reference/lsm.md § 6.1.

use std::fmt;

use super::{Key, Path, PathError, SPECIAL, Section, Wanted, WildPath};

impl WildPath {
    /// Reads a path, wildcards allowed.
    ///
    /// # Errors
    ///
    /// [`PathError::Invalid`].
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text == "." {
            return Ok(Self {
                sections: Vec::new(),
            });
        }
        // One leading dot means nothing, and so do dots that follow one another.
        let rest = text.strip_prefix('.').unwrap_or(text);
        let sections = split(rest)
            .into_iter()
            .filter(|section| !section.is_empty());
        // No more are read than tell that there are too many.
        let sections = sections.take(MAX_SECTIONS + 1).map(section);
        let sections = sections.collect::<Result<Vec<_>, _>>()?;
        match sections.len() {
            0 => Err(invalid(text, "has no section")),
            1..=MAX_SECTIONS => Ok(Self { sections }),
            _ => Err(invalid(
                text,
                &format!("has more than {MAX_SECTIONS} sections"),
            )),
        }
    }
}

/// Sections of a path, and selectors of one section. What a path leads to is followed by recursion, and so is what it makes
/// where nothing was.
const MAX_SECTIONS: usize = 100;
/// Letters of a path that a message shows.
const MAX_SHOWN: usize = 200;

fn invalid(text: &str, reason: &str) -> PathError {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    PathError::Invalid(format!("`{shown}{dots}` is no path: it {reason}"))
}

/// The sections of a path. Dots count outside of brackets, where they are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let (mut start, mut depth) = (0, 0_i64);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => depth += 1,
            ']' => depth -= 1,
            '.' if depth <= 0 => {
                sections.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    sections.push(&text[start..]);
    sections
}

fn section(text: &str) -> Result<Section, PathError> {
    let Some(bracket) = unescaped(text, '[') else {
        return Ok(Section::Key(key(text, text)?));
    };
    let relation = match key(&text[..bracket], text)? {
        Key::Name(name) => name,
        Key::Any => return Err(invalid(text, "has a wildcard before a selector")),
    };
    let mut pairs: Vec<(Key, Wanted)> = Vec::new();
    let mut rest = &text[bracket..];
    while !rest.is_empty() {
        let inner = rest.strip_prefix('[').and_then(|inner| {
            let end = unescaped(inner, ']')?;
            let equals = unescaped(inner, '=').filter(|equals| *equals < end)?;
            Some((&inner[..equals], &inner[equals + 1..end], &inner[end + 1..]))
        });
        let Some((name, value, after)) = inner else {
            return Err(invalid(text, "has a selector that is not `[key=value]`"));
        };
        let name = key(name, text)?;
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(invalid(text, "has the same key twice"));
        }
        if pairs.len() == MAX_SECTIONS {
            let reason = format!("has a section with more than {MAX_SECTIONS} selectors");
            return Err(invalid(text, &reason));
        }
        pairs.push((name, wanted(value, text)?));
        rest = after;
    }
    Ok(Section::Keyed { relation, pairs })
}

fn key(text: &str, whole: &str) -> Result<Key, PathError> {
    match text {
        "*" => Ok(Key::Any),
        "" => Err(invalid(whole, "has an empty key")),
        text => plain(text, whole, false).map(Key::Name),
    }
}

fn wanted(text: &str, whole: &str) -> Result<Wanted, PathError> {
    match text {
        "*" => Ok(Wanted::Any),
        "\\0" => Ok(Wanted::Null),
        text => plain(text, whole, true).map(Wanted::Text),
    }
}

/// The text without its backslashes. All special characters must have one, and no others may.
fn plain(text: &str, whole: &str, dots: bool) -> Result<String, PathError> {
    let mut made = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let is_special = SPECIAL.contains(&c) && !(dots && c == '.');
        match (c, is_special) {
            ('\\', _) => match chars.next() {
                Some(escaped) if SPECIAL.contains(&escaped) => made.push(escaped),
                _ => {
                    return Err(invalid(
                        whole,
                        "has a backslash before a character that needs none",
                    ));
                }
            },
            (c, true) => {
                return Err(invalid(
                    whole,
                    &format!("has `{c}` without a backslash before it"),
                ));
            }
            (c, false) => made.push(c),
        }
    }
    Ok(made)
}

/// Where a character stands that no backslash precedes.
fn unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == wanted => return Some(at),
            _ => {}
        }
    }
    None
}

/// A key or value as it is written in a path.
pub(crate) fn escaped(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        if SPECIAL.contains(&c) {
            made.push('\\');
        }
        made.push(c);
    }
    made
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(&escaped(name)),
            Self::Any => f.write_str("*"),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&escaped(text)),
            Self::Null => f.write_str("\\0"),
            Self::Any => f.write_str("*"),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Keyed { relation, pairs } => {
                f.write_str(&escaped(relation))?;
                let mut pairs = pairs.iter();
                pairs.try_for_each(|(key, value)| write!(f, "[{key}={value}]"))
            }
        }
    }
}

impl fmt::Display for WildPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sections.is_empty() {
            return f.write_str(".");
        }
        let texts: Vec<String> = self.sections.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("."))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
