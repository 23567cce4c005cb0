//! Attributes that somebody gives in a file or on the command line, and where in the file something is that is wrong.
//!
//! The one reader of YAML, which reads JSON, too, does not say where a value stands. So the lines are found afterwards: the
//! keys of the value that was read, in their order, are looked for in the text, each behind the one before. A key is found
//! only where one can stand: at the begin of a line, behind a dash, or behind a bracket or a comma.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use steward_compiler::yaml::{self, LIMITS};
use steward_lsm::{Attributes, Problems};

use super::{Failure, GivenArguments, USAGE};

/// Attributes, and what is needed to say where they stand.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) attributes: Attributes,
    /// Paths into attributes, and what is to be there.
    pub(super) parts: Vec<(String, Value)>,
    /// The name of the file; empty: there is none.
    file: String,
    lines: BTreeMap<String, usize>,
}

impl Given {
    /// Reads what the arguments name.
    pub(super) fn read(arguments: &GivenArguments) -> Result<Self, Failure> {
        let wrong = |message: String| (message, USAGE);
        let mut given = match &arguments.file {
            None => Self::default(),
            Some(path) => {
                let file = path.display().to_string();
                let text = if file == "-" {
                    let mut text = String::new();
                    let limit = LIMITS.bytes as u64 + 1;
                    let mut input = std::io::stdin().lock().take(limit);
                    input.read_to_string(&mut text).map(|_| text)
                } else {
                    yaml::read_file(path, &LIMITS)
                };
                let text = text.map_err(|error| wrong(format!("cannot read {file}: {error}")))?;
                Self::of_text(&file, &text).map_err(wrong)?
            }
        };
        for (name, text) in &arguments.set {
            let value = yaml::from_str::<Value>(text, &LIMITS);
            let value = value.map_err(|error| wrong(format!("--set {name}: {error}")))?;
            if is_path(name) {
                given.parts.push((name.clone(), value));
                continue;
            }
            given
                .lines
                .retain(|path, _| path.split(['.', '[']).next() != Some(name.as_str()));
            given.attributes.insert(name.clone(), value);
        }
        if arguments.file.is_none() && arguments.set.is_empty() {
            let message = "give attributes: with `-f FILE` (YAML or JSON), or `--set NAME=VALUE`";
            return Err(wrong(message.to_owned()));
        }
        Ok(given)
    }

    fn of_text(file: &str, text: &str) -> Result<Self, String> {
        let value = yaml::from_str::<yaml::Value>(text, &LIMITS);
        let value = value.map_err(|error| format!("{file}: {error}"))?;
        let mut lines = Lines {
            text,
            at: 0,
            found: BTreeMap::new(),
        };
        lines.walk(&value, "");
        let attributes: Value =
            serde_json::to_value(&value).map_err(|error| format!("{file}: {error}"))?;
        match attributes {
            Value::Object(attributes) => Ok(Self {
                attributes,
                parts: Vec::new(),
                file: file.to_owned(),
                lines: lines.found,
            }),
            Value::Null => Err(format!("{file}: it has no attributes")),
            _ => Err(format!("{file}: attributes are written as `name: value`")),
        }
    }

    /// All that is wrong, a line each: `FILE:LINE: attribute: reason`.
    pub(super) fn explain(&self, problems: &Problems) -> String {
        let mut found: Vec<(usize, String)> = Vec::new();
        for problem in &problems.0 {
            let line = self.line(&problem.path);
            let place = match (self.file.as_str(), line) {
                ("", _) => String::new(),
                (file, None) => format!("{file}: "),
                (file, Some(line)) => format!("{file}:{line}: "),
            };
            found.push((line.unwrap_or(usize::MAX), format!("{place}{problem}")));
        }
        found.sort();
        let lines: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }

    /// The line of a path, or of the innermost part of it that is in the file.
    fn line(&self, path: &str) -> Option<usize> {
        let mut path = self.by_number(path);
        loop {
            if let Some(line) = self.lines.get(&path) {
                return Some(*line);
            }
            let end = path.rfind(['.', '['])?;
            path.truncate(end);
        }
    }

    /// A path whose elements are named by their numbers, where it names them by their keys: `sites[name=a]` is `sites[0]` if
    /// that is the name of the first one.
    fn by_number(&self, path: &str) -> String {
        let (mut out, mut value) = (String::new(), Value::Object(self.attributes.clone()));
        for part in path.split_inclusive(']') {
            let Some((names, selector)) = part.split_once('[') else {
                out.push_str(part);
                break;
            };
            out.push_str(names);
            for name in names.split('.').filter(|name| !name.is_empty()) {
                value = value.get_mut(name).map_or(Value::Null, Value::take);
            }
            let selector = selector.trim_end_matches(']');
            let number: Option<usize> = match selector.split_once('=') {
                None => selector.parse().ok(),
                Some((key, wanted)) => {
                    let mut items = value.as_array().into_iter().flatten();
                    items.position(|item| match &item[key] {
                        Value::String(text) => text == wanted,
                        other => serde_json::from_str::<Value>(wanted)
                            .is_ok_and(|wanted| *other == wanted),
                    })
                }
            };
            let Some(number) = number else { break };
            value = value.get_mut(number).map_or(Value::Null, Value::take);
            out.push_str(&format!("[{number}]"));
        }
        out
    }
}

/// `NAME=VALUE`; a name may be a path, whose selectors (`[key=value]`) have signs of their own.
pub(super) fn setting(text: &str) -> Result<(String, String), String> {
    let mut is_selector = false;
    let sign = text.char_indices().find(|(_, character)| {
        match character {
            '[' => is_selector = true,
            ']' => is_selector = false,
            _ => {}
        }
        *character == '=' && !is_selector
    });
    match sign {
        Some((at, _)) if at > 0 => Ok((text[..at].to_owned(), text[at + 1..].to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Whether a name leads into an attribute. Names of attributes have no such characters.
fn is_path(name: &str) -> bool {
    name.contains(['.', '['])
}

/// Finds the lines of keys.
struct Lines<'t> {
    text: &'t str,
    /// Where in the text what was found last ends.
    at: usize,
    found: BTreeMap<String, usize>,
}

impl Lines<'_> {
    fn walk(&mut self, value: &yaml::Value, path: &str) {
        match value {
            yaml::Value::Mapping(mapping) => {
                for (key, value) in mapping {
                    let Some(name) = key.as_str() else { continue };
                    let inner = match path {
                        "" => name.to_owned(),
                        path => format!("{path}.{name}"),
                    };
                    self.find(name, &inner);
                    self.walk(value, &inner);
                }
            }
            yaml::Value::Sequence(items) => {
                for (at, item) in items.iter().enumerate() {
                    let inner = format!("{path}[{at}]");
                    let before = self.found.len();
                    self.walk(item, &inner);
                    // An element stands where its first key does.
                    let first = item
                        .as_mapping()
                        .and_then(|mapping| mapping.keys().next()?.as_str());
                    let line = first.and_then(|key| self.found.get(&format!("{inner}.{key}")));
                    if let Some(line) = line.copied().filter(|_| self.found.len() > before) {
                        self.found.insert(inner, line);
                    }
                }
            }
            yaml::Value::String(_) => self.skip_block(),
            _ => {}
        }
    }

    /// Goes behind a text of several lines (`|`, `>`), whose lines may look like keys: they are indented more than their key.
    fn skip_block(&mut self) {
        let rest = &self.text[self.at..];
        let head = rest.lines().next().unwrap_or_default();
        let head = head.trim_start_matches(['"', '\'', ' ', ':']);
        if !head.starts_with(['|', '>']) {
            return;
        }
        let begin = self.text[..self.at].rfind('\n').map_or(0, |end| end + 1);
        let indent = |line: &str| line.len() - line.trim_start().len();
        let own = indent(&self.text[begin..self.at]);
        let mut lines = rest.split_inclusive('\n');
        self.at += lines.next().map_or(0, str::len);
        for line in lines {
            if !line.trim().is_empty() && indent(line) <= own {
                return;
            }
            self.at += line.len();
        }
    }

    /// Looks for a key behind what was found last.
    fn find(&mut self, name: &str, path: &str) {
        let mut from = self.at;
        while let Some(at) = self.text[from..].find(name).map(|at| from + at) {
            let end = at + name.len();
            let behind = self.text[end..]
                .trim_start_matches(['"', '\''])
                .trim_start_matches(' ');
            let begin = self.text[..at].trim_end_matches(['"', '\'', ' ', '\t']);
            let may_stand = begin.is_empty() || begin.ends_with(['\n', '\r', '-', '{', ',', '[']);
            if behind.starts_with(':') && may_stand {
                let line = self.text[..at].matches('\n').count() + 1;
                self.found.insert(path.to_owned(), line);
                self.at = end;
                return;
            }
            from = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# site: not this one
site: ams1
note: |
  mbps: not this one
  vlan: nor this
mbps: fast
peers:
  - name: a
    as: 1
  - {name: b, \"as\": two}
";

    #[test]
    fn every_attribute_is_found_in_its_line() {
        let given = Given::of_text("a.yaml", TEXT).unwrap();
        for (path, line) in [
            ("site", 2),
            ("note", 3),
            ("mbps", 6),
            ("peers", 7),
            ("peers[0]", 8),
            ("peers[0].as", 9),
            ("peers[1].as", 10),
            ("peers[name=b].as", 10),
            ("peers[name=a].as", 9),
            ("peers[name=c].as", 7),
        ] {
            assert_eq!(given.line(path), Some(line), "{path}");
        }
        assert_eq!(given.line("other"), None);
        let json = "{\n  \"site\": \"x\",\n  \"mbps\":\n 3}";
        let given = Given::of_text("a.json", json).unwrap();
        assert_eq!((given.line("site"), given.line("mbps")), (Some(2), Some(3)));
    }

    #[test]
    fn what_is_wrong_is_said_in_the_order_of_the_file() {
        let given = Given::of_text("a.yaml", TEXT).unwrap();
        let mut problems = Problems::default();
        problems.add("vlan", "is missing");
        problems.add("mbps", "must be int");
        problems.add("site", "is too short");
        assert_eq!(
            given.explain(&problems),
            "a.yaml:2: site: is too short\na.yaml:6: mbps: must be int\na.yaml: vlan: is missing"
        );
    }

    #[test]
    fn a_name_ends_at_the_first_sign_that_is_in_no_selector() {
        for (text, name, value) in [
            ("mbps=3", "mbps", "3"),
            ("note=a=b", "note", "a=b"),
            ("note=[a=b]", "note", "[a=b]"),
            (
                "sites[name=a][as=1].mbps=x=y",
                "sites[name=a][as=1].mbps",
                "x=y",
            ),
            ("site=", "site", ""),
        ] {
            let expected = (name.to_owned(), value.to_owned());
            assert_eq!(setting(text), Ok(expected), "{text}");
        }
        for text in ["mbps", "=3", "sites[name=a]", ""] {
            assert!(setting(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_that_has_no_attributes_says_so() {
        for (text, reason) in [
            ("", "it has no attributes"),
            ("- a", "attributes are written as `name: value`"),
            ("a: [", "f:"),
        ] {
            let error = Given::of_text("f", text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
