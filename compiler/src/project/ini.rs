//! The format of `setup.cfg`, as Python's packaging tools read it: sections, `key = value`, values on several lines.
//! Source: docs/reference/language.md § 11.3.

/// The section whose values all others have, too.
const DEFAULTS: &str = "DEFAULT";
/// How often a value may name another one that names another one.
const MAX_NAMED: usize = 10;

type Values = Vec<(String, String)>;

#[derive(Debug, Default)]
pub struct Ini {
    sections: Vec<(String, Values)>,
}

impl Ini {
    /// Reads a text; an error says what is wrong, and on which line.
    pub fn parse(text: &str) -> Result<Ini, String> {
        let mut ini = Ini::default();
        let mut indent = 0;
        // Whether the line before belongs to a value, so that an indented one goes on with it.
        let mut in_value = false;
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.trim();
            if content.is_empty() {
                if let (true, Some(value)) = (in_value, ini.last()) {
                    value.push('\n');
                }
                continue;
            }
            if content.starts_with(['#', ';']) {
                continue;
            }
            let own_indent = line.len() - line.trim_start().len();
            if own_indent > indent && in_value {
                if let Some(value) = ini.last() {
                    value.push('\n');
                    value.push_str(content);
                }
                continue;
            }
            indent = own_indent;
            in_value = ini
                .add(content)
                .map_err(|reason| format!("line {number}: {reason}"))?;
        }
        Ok(ini)
    }

    /// The value that was read last.
    fn last(&mut self) -> Option<&mut String> {
        let (_, values) = self.sections.last_mut()?;
        values.last_mut().map(|(_, value)| value)
    }

    /// The head of a section, or a key with its value; whether it is the latter.
    fn add(&mut self, content: &str) -> Result<bool, String> {
        if let Some(rest) = content.strip_prefix('[') {
            let (name, _) = rest.rsplit_once(']').ok_or("a section has no end")?;
            if self.sections.iter().any(|(known, _)| known == name) && name != DEFAULTS {
                return Err(format!("the section {name} is there twice"));
            }
            self.sections.push((name.to_owned(), Values::new()));
            return Ok(false);
        }
        let Some((name, values)) = self.sections.last_mut() else {
            return Err("a value is in no section".to_owned());
        };
        let (key, value) = content
            .split_once(['=', ':'])
            .ok_or("a key has no value: `=` was expected")?;
        let key = key.trim().to_lowercase();
        if key.is_empty() {
            return Err("a value has no key".to_owned());
        }
        if values.iter().any(|(known, _)| *known == key) {
            return Err(format!("{key} is given twice in {name}"));
        }
        values.push((key, value.trim().to_owned()));
        Ok(true)
    }

    /// The values of a section, with those that hold everywhere, as they are written; `None`: there is no such section.
    fn section(&self, name: &str) -> Option<Vec<(&str, &str)>> {
        let of = |wanted: &str| {
            let sections = self.sections.iter();
            let wanted: Vec<&Values> = sections
                .filter(|(known, _)| known == wanted)
                .map(|(_, values)| values)
                .collect();
            (!wanted.is_empty()).then_some(wanted)
        };
        let mut all: Vec<(&str, &str)> = Vec::new();
        let own = of(name)?;
        for (key, value) in own
            .into_iter()
            .chain(of(DEFAULTS).unwrap_or_default())
            .flatten()
        {
            if !all.iter().any(|(known, _)| known == key) {
                all.push((key.as_str(), value.trim_end()));
            }
        }
        Some(all)
    }

    /// All values of a section, with `%(name)s` as what it names; an error says what names nothing.
    pub fn values(&self, section: &str) -> Result<Option<Values>, String> {
        let Some(values) = self.section(section) else {
            return Ok(None);
        };
        let filled = values.iter().map(|(key, value)| {
            let filled = fill(value, &values, MAX_NAMED)?;
            Ok(((*key).to_owned(), filled))
        });
        filled.collect::<Result<Values, String>>().map(Some)
    }

    /// One value of a section.
    pub fn value(&self, section: &str, key: &str) -> Result<Option<String>, String> {
        let values = self.section(section).unwrap_or_default();
        let found = values.iter().find(|(known, _)| *known == key);
        found
            .map(|(_, value)| fill(value, &values, MAX_NAMED))
            .transpose()
    }
}

/// `%%` is a percent sign, `%(name)s` the value of another key.
fn fill(value: &str, values: &[(&str, &str)], depth: usize) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        filled.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            filled.push('%');
            rest = after;
            continue;
        }
        let named = after
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(")s"));
        let Some((name, after)) = named else {
            return Err(format!(
                "`%` must be followed by `%` or `(name)s` in `{value}`"
            ));
        };
        let known = values.iter().find(|(key, _)| *key == name.to_lowercase());
        let Some((_, other)) = known else {
            return Err(format!("there is no {name} for `%({name})s`"));
        };
        if depth == 0 {
            return Err(format!("too many values name one another at `%({name})s`"));
        }
        filled.push_str(&fill(other, values, depth - 1)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::Ini;

    #[track_caller]
    fn check(text: &str, key: &str, expected: Result<Option<&str>, &str>) {
        let found = Ini::parse(text).and_then(|ini| ini.value("metadata", key));
        let found = found.as_ref().map(Option::as_deref);
        assert_eq!(found.map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn values_go_on_over_indented_lines() {
        let text = "[metadata]\na = 1\n    2\n  # no\n\n    3\nB: x = y\n";
        check(text, "a", Ok(Some("1\n2\n\n3")));
        check(text, "b", Ok(Some("x = y")));
        check("[DEFAULT]\nc = 1\n[metadata]\n", "c", Ok(Some("1")));
    }

    #[test]
    fn what_is_no_value_is_told_with_its_line() {
        let message = "line 2: a key has no value: `=` was expected";
        check("[metadata]\nname\n", "name", Err(message));
        check(
            "name = x\n",
            "name",
            Err("line 1: a value is in no section"),
        );
        let twice = "line 3: a is given twice in metadata";
        check("[metadata]\na = 1\nA = 2\n", "a", Err(twice));
        let text = "[metadata]\n[other]\n[metadata]\n";
        check(
            text,
            "a",
            Err("line 3: the section metadata is there twice"),
        );
    }

    #[test]
    fn percent_signs_name_other_values() {
        check("[metadata]\na = %(b)s%%\nb = 1\n", "a", Ok(Some("1%")));
        let message = "there is no b for `%(b)s`";
        check("[metadata]\na = %(b)s\n", "a", Err(message));
        let message = "too many values name one another at `%(a)s`";
        check("[metadata]\na = %(a)s\n", "a", Err(message));
        let message = "`%` must be followed by `%` or `(name)s` in `5 %`";
        check("[metadata]\na = 5 %\n", "a", Err(message));
    }
}
