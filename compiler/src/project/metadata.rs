//! What `project.yml` and a module's `setup.cfg` say, and what is wrong with it. Source: language.md 11.2, 11.3.

use super::{PrecedenceRule, Project};
use crate::diagnostics::{Fail, fail};
use crate::span::Loc;
use crate::yaml::{self, LIMITS, Mapping, Value};

const FILE: &str = "project.yml";

pub(super) fn invalid(reason: impl std::fmt::Display) -> Fail {
    let message = format!("Metadata defined in {FILE} is invalid:\n  {reason}");
    fail("InvalidMetadata", Loc::NONE, message)
}

/// The map of `project.yml`, with the text for the places of its keys.
struct Reader<'a> {
    text: &'a str,
    map: &'a Mapping,
}

/// Reads the text of `project.yml`.
pub(super) fn project(text: &str) -> Result<Project, Fail> {
    let syntax = |error: yaml::Error| {
        let message = format!("Invalid yaml syntax in {FILE}:\n{error}");
        fail("InvalidMetadata", Loc::NONE, message)
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut value: Value = yaml::from_str(text, &LIMITS).map_err(syntax)?;
    value.apply_merge().map_err(|error| syntax(error.into()))?;
    let Some(map) = value.as_mapping() else {
        return Err(invalid("the file is not a map"));
    };
    let reader = Reader { text, map };
    if !map.contains_key("name") {
        return Err(invalid("name: a project needs a name"));
    }
    reader.text_of("name", false)?;
    for key in [
        "description",
        "author",
        "license",
        "copyright",
        "downloadpath",
    ] {
        reader.text_of(key, true)?;
    }
    reader.email()?;
    reader.one_of("freeze_operator", &["~=", "==", ">="])?;
    reader.one_of("install_mode", &["release", "prerelease", "master"])?;
    reader.bool_of(map, "freeze_recursive", false)?;
    let mut warnings = reader.pip()?;
    warnings.extend(reader.repositories()?);
    if let Some(settings) = map.get("environment_settings")
        && !settings.is_mapping()
    {
        return Err(reader.wrong("environment_settings", "a map was expected"));
    }
    let requires = reader.strings("requires")?;
    for requirement in &requires {
        if let Err(reason) = super::requirements::parse(requirement) {
            let reason = format!("`{requirement}` is no requirement: {reason}");
            return Err(reader.wrong("requires", &reason));
        }
    }
    Ok(Project {
        module_path: reader.strings("modulepath")?,
        precedence: reader.policy()?,
        requires,
        warnings,
        ..Project::default()
    })
}

impl Reader<'_> {
    fn wrong(&self, key: &str, reason: &str) -> Fail {
        let top = key.split('.').next().unwrap_or(key);
        let mut lines = (1..).zip(self.text.lines());
        let line = lines.find(|(_, line)| {
            let line = line.trim_start_matches(['"', '\'', '{', ' ']);
            line.strip_prefix(top)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
        });
        match line {
            Some((line, _)) => invalid(format!("{key} (line {line}): {reason}")),
            None => invalid(format!("{key}: {reason}")),
        }
    }

    fn text_of(&self, key: &str, may_be_null: bool) -> Result<(), Fail> {
        match self.map.get(key) {
            None | Some(Value::String(_) | Value::Number(_)) => Ok(()),
            Some(Value::Null) if may_be_null => Ok(()),
            Some(_) => Err(self.wrong(key, "a string was expected")),
        }
    }

    fn email(&self) -> Result<(), Fail> {
        self.text_of("author_email", true)?;
        let Some(text) = self.map.get("author_email").and_then(Value::as_str) else {
            return Ok(());
        };
        let address = text.trim_end_matches('>');
        let address = address.rsplit_once('<').map_or(address, |(_, inner)| inner);
        match address.trim().split_once('@') {
            Some((local, domain)) if !local.is_empty() && domain.contains('.') => Ok(()),
            _ => Err(self.wrong("author_email", "an e-mail address was expected")),
        }
    }

    fn one_of(&self, key: &str, choices: &[&str]) -> Result<(), Fail> {
        match self.map.get(key) {
            None => Ok(()),
            Some(Value::String(text)) if choices.contains(&text.as_str()) => Ok(()),
            Some(_) => Err(self.wrong(key, &format!("must be one of {}", choices.join(", ")))),
        }
    }

    /// What the reference takes for a truth value: also some words and numbers.
    fn bool_of(&self, map: &Mapping, key: &str, may_be_null: bool) -> Result<(), Fail> {
        const WORDS: &[&str] = &[
            "0", "1", "true", "false", "t", "f", "yes", "no", "y", "n", "on", "off",
        ];
        let name = key.rsplit('.').next().unwrap_or(key);
        let value = map.get(name).or_else(|| map.get(name.replace('-', "_")));
        let valid = match value {
            None | Some(Value::Bool(_)) => true,
            Some(Value::Null) => may_be_null,
            Some(Value::Number(number)) => matches!(number.as_i64(), Some(0 | 1)),
            Some(Value::String(text)) => WORDS.contains(&text.to_lowercase().as_str()),
            Some(_) => false,
        };
        if valid {
            return Ok(());
        }
        Err(self.wrong(key, "a truth value was expected"))
    }

    /// A string, or a list of strings; a number counts as its text.
    fn strings(&self, key: &str) -> Result<Vec<String>, Fail> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.wrong(key, "a string was expected")),
        };
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Sequence(items)) => items.iter().map(text).collect(),
            Some(value) => Ok(vec![text(value)?]),
        }
    }

    fn policy(&self) -> Result<Vec<PrecedenceRule>, Fail> {
        let key = "relation_precedence_policy";
        let rules = match self.map.get(key) {
            None => return Ok(Vec::new()),
            Some(Value::Sequence(rules)) => rules,
            Some(_) => return Err(self.wrong(key, "a list was expected")),
        };
        let parsed = rules.iter().map(|rule| {
            let text = rule.as_str();
            text.and_then(precedence_rule).ok_or_else(|| {
                let rule = yaml::to_string(rule).unwrap_or_default();
                let reason = format!(
                    "`{}` is not of the form `<type>.<relation> before <type>.<relation>`",
                    rule.trim()
                );
                self.wrong(key, &reason)
            })
        });
        parsed.collect()
    }

    fn pip(&self) -> Result<Vec<String>, Fail> {
        const KNOWN: &[&str] = &["index-url", "extra-index-url", "pre", "use-system-config"];
        let pip = match self.map.get("pip") {
            None => return Ok(Vec::new()),
            Some(Value::Mapping(pip)) => pip,
            Some(_) => return Err(self.wrong("pip", "a map was expected")),
        };
        let mut warnings = Vec::new();
        for (key, value) in pip {
            let key = key.as_str().unwrap_or_default();
            let name = key.replace('_', "-");
            let valid = match name.as_str() {
                "index-url" => value.is_string() || value.is_null(),
                "extra-index-url" => value
                    .as_sequence()
                    .is_some_and(|urls| urls.iter().all(Value::is_string)),
                _ => true,
            };
            if !valid {
                return Err(self.wrong(&format!("pip.{name}"), "a string was expected"));
            }
            if !KNOWN.contains(&name.as_str()) {
                warnings.push(format!(
                    "Found unexpected configuration value 'pip.{key}' in '{FILE}'"
                ));
            }
        }
        self.bool_of(pip, "pip.pre", true)?;
        self.bool_of(pip, "pip.use-system-config", false)?;
        Ok(warnings)
    }

    fn repositories(&self) -> Result<Vec<String>, Fail> {
        let one = |value: &Value| match value {
            Value::String(_) => Ok(None),
            Value::Mapping(repository) => {
                if !matches!(repository.get("url"), Some(Value::String(_))) {
                    return Err(self.wrong("repo.url", "a string was expected"));
                }
                match repository.get("type").map(Value::as_str) {
                    None | Some(Some("git")) => Ok(None),
                    Some(Some("package")) => Ok(Some("Setting a pip index through the `repo.url` option with type `package` is not supported, and is ignored: set `pip.index-url` instead.".to_owned())),
                    Some(_) => Err(self.wrong("repo.type", "must be one of git, package")),
                }
            }
            _ => Err(self.wrong("repo", "a string or a map was expected")),
        };
        let warnings: Result<Vec<_>, Fail> = match self.map.get("repo") {
            None => return Ok(Vec::new()),
            Some(Value::Sequence(repositories)) => repositories.iter().map(one).collect(),
            Some(repository) => one(repository).map(|warning| vec![warning]),
        };
        Ok(warnings?.into_iter().flatten().collect())
    }
}

fn precedence_rule(text: &str) -> Option<PrecedenceRule> {
    let side = |word: &str| {
        let (entity, relation) = word.split_once('.')?;
        let valid = !entity.is_empty() && !relation.is_empty() && !relation.contains('.');
        valid.then(|| (entity.to_owned(), relation.to_owned()))
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

/// What is wrong with the `setup.cfg` of a module of the second generation; `Ok`: nothing.
pub(super) fn module(name: &str, text: &str) -> Result<(), String> {
    let mut section = "";
    let mut values: Vec<(String, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) || line.starts_with([' ', '\t']) {
            continue;
        }
        if let Some(title) = content.strip_prefix('[') {
            let Some((title, _)) = title.split_once(']') else {
                return Err(format!("line {number}: a section has no end"));
            };
            section = title;
        } else if section.is_empty() {
            return Err(format!("line {number}: a value is in no section"));
        } else if section == "metadata"
            && let Some((key, value)) = content.split_once(['=', ':'])
        {
            let key = key.trim().to_lowercase();
            if values.iter().any(|(known, _)| *known == key) {
                return Err(format!("line {number}: {key} is given twice"));
            }
            values.push((key, value.trim().to_owned()));
        }
    }
    let value = |key: &str| {
        let found = values.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    };
    let required = |key: &str| value(key).ok_or_else(|| format!("[metadata] has no {key}"));
    let distribution = required("name")?;
    let version = required("version")?;
    required("license")?;
    let Some(short) = distribution.strip_prefix("inmanta-module-") else {
        return Err(format!(
            "the name {distribution} does not start with inmanta-module-"
        ));
    };
    if short.contains('_') {
        return Err(format!(
            "the name {distribution} may have no underscores, use hyphens"
        ));
    }
    if short.replace('-', "_") != name {
        return Err(format!(
            "the module is called {distribution}, and stands in the place of {name}"
        ));
    }
    let numbers = version.strip_prefix('v').unwrap_or(version).split('.');
    if numbers
        .clone()
        .any(|number| number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(format!(
            "{version} is no version: numbers and dots were expected"
        ));
    }
    for (key, choices) in [
        ("freeze_operator", &["~=", "==", ">="][..]),
        (
            "deprecated",
            &["true", "false", "yes", "no", "on", "off", "1", "0", ""],
        ),
        (
            "freeze_recursive",
            &["true", "false", "yes", "no", "on", "off", "1", "0"],
        ),
    ] {
        if let Some(value) = value(key)
            && !choices.contains(&value.to_lowercase().as_str())
        {
            return Err(format!("{key} may not be {value}"));
        }
    }
    Ok(())
}

/// `deprecated: true` in a `module.yml`. Source: language.md 11.4.
pub(super) fn is_deprecated_v1(text: &str) -> bool {
    let known = yaml::from_str::<Mapping>(text, &LIMITS);
    known.is_ok_and(|map| map.get("deprecated").and_then(Value::as_bool) == Some(true))
}

/// Whether the `setup.cfg` of a module says that it is deprecated.
pub(super) fn is_deprecated(text: &str) -> bool {
    text.lines().any(|line| {
        let assigned = line
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()));
        assigned.is_some_and(|(key, value)| {
            key == "deprecated"
                && ["true", "yes", "on", "1"].contains(&value.to_lowercase().as_str())
        })
    })
}
