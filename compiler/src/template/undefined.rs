//! What a template read and did not find: names it in the error, with the line of the template.
//! Source: docs/reference/std.md § 7.

use std::ops::Range;

use crate::diagnostics::closest;

/// Names and attributes that were read in vain during one rendering, each with a similar one that there is.
#[derive(Default)]
pub(crate) struct Missing {
    names: Vec<(String, Option<String>)>,
    attributes: Vec<(String, Option<String>)>,
}

impl Missing {
    pub fn clear(&mut self) {
        self.names.clear();
        self.attributes.clear();
    }

    pub fn forget(&mut self, is_known: impl Fn(&str) -> bool) {
        self.names.retain(|(name, _)| !is_known(name));
    }

    /// `similar`: a name that may be meant. It is asked for once for each name.
    pub fn name(&mut self, name: &str, similar: impl FnOnce() -> Option<String>) {
        if find(&self.names, name).is_none() {
            self.names.push((name.to_owned(), similar()));
        }
    }

    pub fn attribute<'a>(&mut self, name: &str, known: impl FnOnce() -> Vec<&'a str>) {
        note(&mut self.attributes, name, known);
    }

    /// The variable, or the attribute with what it is one of, that a template wants at a place and nobody has. What is
    /// read in the place itself comes before what else is read in its tag.
    pub fn of(&self, template: &str, place: Range<usize>) -> Option<MissingName> {
        let before = &template[..place.start];
        let tag = before
            .rfind("{{")
            .max(before.rfind("{%"))
            .map_or(0, |at| at + 2);
        let own = self.known(template, place.clone());
        own.or_else(|| self.known(template, tag..place.end))
            .or_else(|| self.only(template, place))
    }

    fn known(&self, template: &str, place: Range<usize>) -> Option<MissingName> {
        let paths = paths(template.get(place.clone())?);
        paths
            .iter()
            .find_map(|path| self.in_path(&template[place.start..], path))
            .map(|missing_name| MissingName {
                start: missing_name.start.map(|start| start + place.start),
                ..missing_name
            })
    }

    /// An attribute of a text or the like, or what a variable of the template or a computed key stands for.
    fn only(&self, template: &str, place: Range<usize>) -> Option<MissingName> {
        let is_filter = template[..place.start].trim_end().ends_with('|');
        let text = template.get(place.clone())?;
        if let [path] = paths(text).as_slice()
            && path.ends.len() > 1
            && !is_filter
        {
            return Some(MissingName {
                path: text.get(path.start..*path.ends.last()?)?.to_owned(),
                similar: None,
                start: Some(place.start + path.start),
            });
        }
        match (self.names.as_slice(), self.attributes.as_slice()) {
            ([(name, similar)], []) | ([], [(name, similar)]) => Some(MissingName {
                path: name.clone(),
                similar: similar.clone(),
                start: None,
            }),
            _ => None,
        }
    }

    fn in_path(&self, text: &str, path: &Path) -> Option<MissingName> {
        let missing_name = |end: usize, similar: &Option<String>| {
            Some(MissingName {
                path: text.get(path.start..end)?.to_owned(),
                similar: similar.clone(),
                start: Some(path.start),
            })
        };
        let mut ends = path.ends.iter().copied();
        let mut end = ends.next()?;
        if let Some((_, similar)) = find(&self.names, &text[path.start..end]) {
            return missing_name(end, similar);
        }
        for next in ends {
            let name = text[end..next].trim_matches(|c| !is_word(c));
            end = next;
            if let Some((_, similar)) = find(&self.attributes, name) {
                return missing_name(end, similar);
            }
        }
        None
    }
}

/// What is not there, as the template writes it.
pub(crate) struct MissingName {
    pub path: String,
    pub similar: Option<String>,
    /// The offset in the template at which it is written.
    pub start: Option<usize>,
}

type Unresolved = (String, Option<String>);

fn note<'a>(found: &mut Vec<Unresolved>, name: &str, known: impl FnOnce() -> Vec<&'a str>) {
    if find(found, name).is_none() {
        let similar = closest(name, known()).map(str::to_owned);
        found.push((name.to_owned(), similar));
    }
}

fn find<'f>(found: &'f [Unresolved], name: &str) -> Option<&'f Unresolved> {
    found.iter().find(|(known, _)| known == name)
}

/// Words that are no variables.
const KEYWORDS: &[&str] = &[
    "and",
    "as",
    "block",
    "call",
    "do",
    "elif",
    "else",
    "extends",
    "false",
    "filter",
    "for",
    "from",
    "if",
    "import",
    "in",
    "include",
    "is",
    "macro",
    "none",
    "not",
    "or",
    "recursive",
    "set",
    "true",
    "with",
    "False",
    "None",
    "True",
];

/// A variable with what is read of it.
struct Path {
    start: usize,
    /// Where the variable and each of the attributes end.
    ends: Vec<usize>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_end(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// The variables that an expression reads without asking first whether they are there.
fn paths(text: &str) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut at = 0;
    let mut before = ' ';
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let is_start = is_word(c) && !c.is_ascii_digit();
        if !is_start {
            at += match c {
                '"' | '\'' => quoted_end(rest, c),
                c if c.is_ascii_digit() => word_end(rest),
                c => c.len_utf8(),
            };
            if !c.is_whitespace() {
                before = c;
            }
            continue;
        }
        let end = word_end(rest);
        let word = &rest[..end];
        let is_filter = matches!(before, '|' | '.');
        let after = rest[end..].trim_start();
        let is_keyword_argument = after.starts_with('=') && !after.starts_with("==");
        let is_test = before == 'i';
        if KEYWORDS.contains(&word) {
            // `not` stays behind `is`.
            before = match word {
                "is" => 'i',
                "not" => before,
                _ => ' ',
            };
            at += end;
            continue;
        }
        let mut path = Path {
            start: at,
            ends: vec![at + end],
        };
        at += end;
        while let Some(length) = attribute_end(&text[at..]) {
            at += length;
            path.ends.push(at);
        }
        before = 'a';
        let is_ours = word.starts_with("__");
        if !is_filter && !is_test && !is_keyword_argument && !is_ours && !is_asked(&text[at..]) {
            paths.push(path);
        }
    }
    paths
}

/// `.name`, `["name"]`.
fn attribute_end(text: &str) -> Option<usize> {
    if let Some(name) = text.strip_prefix('.') {
        return Some(1 + word_end(name)).filter(|end| *end > 1);
    }
    let inner = text.strip_prefix('[')?;
    let quote = inner.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let end = quoted_end(inner, quote);
    inner[end..].starts_with(']').then_some(end + 2)
}

fn quoted_end(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |end| end + 2)
}

/// Whether what comes next allows for nothing: `| default(…)`, `is defined`.
fn is_asked(after: &str) -> bool {
    let after = after.trim_start();
    if let Some(filter) = after.strip_prefix('|') {
        let filter = filter.trim_start();
        return matches!(&filter[..word_end(filter)], "default" | "d");
    }
    let mut words = after.split_whitespace();
    words.next() == Some("is")
        && words
            .find(|word| *word != "not")
            .is_some_and(|word| matches!(&word[..word_end(word)], "defined" | "undefined"))
}

#[cfg(test)]
mod tests {
    use crate::template::undefined::*;

    #[track_caller]
    fn missing_name(tag: &str, expected: Option<&str>) {
        let mut missing = Missing::default();
        for name in ["a", "b"] {
            missing.name(name, || None);
        }
        missing.attribute("x", Vec::new);
        let template = format!("{{{{ a }}}}{{{{ {tag}");
        // `[` begins the place.
        let start = template
            .find('[')
            .filter(|_| tag.starts_with('[') || tag.contains(" ["));
        let start = start.unwrap_or(template.len() - tag.len());
        let found = missing.of(&template, start..template.len());
        let found = found.map(|missing_name| missing_name.path);
        assert_eq!(found.as_deref(), expected, "{tag}");
    }

    #[test]
    fn what_is_missing_is_found_in_its_expression() {
        missing_name(" a ", Some("a"));
        missing_name("b.x.y", Some("b"));
        missing_name("c.d.x.y", Some("c.d.x"));
        missing_name("c['x'].y", Some("c['x']"));
        missing_name("c | f(a=1, b)", Some("b"));
        missing_name("a | default(1) + c.x", Some("c.x"));
        missing_name("a is not defined and b", Some("b"));
        missing_name("c is a or 'a' == b", Some("b"));
        missing_name("c.upperr()", Some("c.upperr"));
        missing_name("b + [c]", Some("b"));
        missing_name("c + d", None);
        missing_name("\"a", None);
    }

    #[test]
    fn what_stands_for_the_only_missing_one_is_named() {
        let mut missing = Missing::default();
        missing.name("hostnme", || Some("hostname".to_owned()));
        let template = "{% set d = 1 %}{{ d }}";
        let at = template.rfind('d').expect("it is there");
        let missing_name = missing.of(template, at..at + 1).expect("one is missing");
        assert_eq!(missing_name.path, "hostnme");
        assert_eq!(missing_name.similar.as_deref(), Some("hostname"));
    }
}
