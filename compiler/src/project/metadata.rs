//! What `project.yml` says, and what is wrong with it. Source: docs/reference/language.md § 11.2.

use super::{PrecedenceRule, Project};
use crate::diagnostics::{Fail, closest, fail};
use crate::span::Loc;
use crate::yaml::{self, LIMITS, Mapping, Value};

const FILE: &str = "project.yml";

/// What is read of it, or was by the reference.
const KEYS: &[&str] = &[
    "name",
    "description",
    "author",
    "author_email",
    "license",
    "copyright",
    "modulepath",
    "downloadpath",
    "install_mode",
    "repo",
    "requires",
    "freeze_recursive",
    "freeze_operator",
    "relation_precedence_policy",
    "agent_install_dependency_modules",
    "pip",
    "environment_settings",
];
/// Warnings of keys that are not read: whoever has more of them sees what is wrong.
const MAX_UNREAD: usize = 20;
/// Characters of a key in such a warning.
const MAX_KEY: usize = 100;

/// What the reference takes for a truth value, as text.
pub(super) const BOOLS: &[&str] = &[
    "0", "1", "true", "false", "t", "f", "yes", "no", "y", "n", "on", "off",
];
pub(super) const FREEZE_OPERATORS: &[&str] = &["~=", "==", ">="];

pub(super) fn invalid(reason: impl std::fmt::Display) -> Fail {
    invalid_in(FILE, reason)
}

fn invalid_in(file: &str, reason: impl std::fmt::Display) -> Fail {
    let message = format!("Metadata defined in {file} is invalid:\n  {reason}");
    fail("InvalidMetadata", Loc::NONE, message)
}

/// The map of a file in YAML, with the text for the places of its keys.
pub(super) struct Reader<'a> {
    /// The name of the file, for messages.
    pub file: &'a str,
    pub text: &'a str,
    pub map: &'a Mapping,
}

/// Reads the text of `project.yml`.
pub(super) fn project(text: &str) -> Result<Project, Fail> {
    let syntax = |error: yaml::Error| {
        let message = format!("Invalid yaml syntax in {FILE}:\n{error}");
        fail("InvalidMetadata", Loc::NONE, message)
    };
    let text = yaml::without_byte_order_mark(text);
    let mut value: Value = yaml::from_str(text, &LIMITS).map_err(syntax)?;
    value.apply_merge().map_err(|error| syntax(error.into()))?;
    let Some(map) = value.as_mapping() else {
        return Err(invalid(
            "the file is not a map: write `name: NAME` on its first line",
        ));
    };
    let reader = Reader {
        file: FILE,
        text,
        map,
    };
    reader.required("name")?;
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
    reader.one_of("freeze_operator", FREEZE_OPERATORS)?;
    reader.one_of("install_mode", &["release", "prerelease", "master"])?;
    reader.bool_of(map, "freeze_recursive", false)?;
    let mut warnings = reader.unread_keys();
    warnings.extend(reader.pip()?);
    warnings.extend(reader.repositories()?);
    reader.environment_settings()?;
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
    pub(super) fn wrong(&self, key: &str, reason: &str) -> Fail {
        let top = key.split('.').next().unwrap_or(key);
        match self.line_of(top) {
            Some(line) => invalid_in(self.file, format!("{key} (line {line}): {reason}")),
            None => invalid_in(self.file, format!("{key}: {reason}")),
        }
    }

    /// The first line that begins with a key.
    fn line_of(&self, key: &str) -> Option<usize> {
        let mut lines = (1..).zip(self.text.lines());
        let line = lines.find(|(_, line)| {
            let line = line.trim_start_matches(['"', '\'', '{', ' ']);
            line.strip_prefix(key)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
        });
        line.map(|(line, _)| line)
    }

    /// Warnings of keys that nobody reads, which the reference says nothing of: most are mistyped. One that begins with `x-` or
    /// `.` is there for its anchor.
    fn unread_keys(&self) -> Vec<String> {
        let of_file = unread(self.map, KEYS, "");
        let repositories: &[Value] = match self.map.get("repo") {
            Some(Value::Sequence(repositories)) => repositories,
            Some(repository) => std::slice::from_ref(repository),
            None => &[],
        };
        let repositories = repositories.iter().filter_map(Value::as_mapping);
        let of_repositories = repositories.flat_map(|map| unread(map, &["url", "type"], "repo."));
        let warnings = of_file.chain(of_repositories).map(|(key, meant)| {
            let line = self.line_of(key.split('.').next().unwrap_or(&key));
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            let meant = meant.map(|meant| format!("; did you mean `{meant}`?"));
            let key: String = key.chars().take(MAX_KEY).collect();
            let meant = meant.unwrap_or_default();
            format!("{}{line}: `{key}` is not read{meant}", self.file)
        });
        warnings.take(MAX_UNREAD).collect()
    }

    /// A key that must be there, with a text.
    pub(super) fn required(&self, key: &str) -> Result<(), Fail> {
        if self.map.contains_key(key) {
            return self.text_of(key, false);
        }
        Err(self.wrong(key, &format!("it is missing: write `{key}: …`")))
    }

    /// The text of a key, where it has one; a number counts as its text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.map.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    pub(super) fn text_of(&self, key: &str, may_be_null: bool) -> Result<(), Fail> {
        match self.map.get(key) {
            None | Some(Value::String(_) | Value::Number(_)) => Ok(()),
            Some(Value::Null) if may_be_null => Ok(()),
            Some(_) => Err(self.wrong(key, "a string was expected")),
        }
    }

    fn email(&self) -> Result<(), Fail> {
        self.text_of("author_email", true)?;
        let Some(text) = self.text("author_email") else {
            return Ok(());
        };
        let address = text.trim_end_matches('>');
        let address = address.rsplit_once('<').map_or(address, |(_, inner)| inner);
        match address.trim().split_once('@') {
            Some((local, domain)) if !local.is_empty() && domain.contains('.') => Ok(()),
            _ => Err(self.wrong("author_email", "an e-mail address was expected")),
        }
    }

    pub(super) fn one_of(&self, key: &str, choices: &[&str]) -> Result<(), Fail> {
        match self.map.get(key) {
            None => Ok(()),
            Some(Value::String(text)) if choices.contains(&text.as_str()) => Ok(()),
            Some(_) => Err(self.wrong(key, &format!("must be one of {}", choices.join(", ")))),
        }
    }

    /// What the reference takes for a truth value: also some words and numbers.
    pub(super) fn bool_of(&self, map: &Mapping, key: &str, may_be_null: bool) -> Result<(), Fail> {
        let name = key.rsplit('.').next().unwrap_or(key);
        let value = map.get(name).or_else(|| map.get(name.replace('-', "_")));
        let valid = match value {
            None | Some(Value::Bool(_)) => true,
            Some(Value::Null) => may_be_null,
            Some(Value::Number(number)) => matches!(number.as_i64(), Some(0 | 1)),
            Some(Value::String(text)) => BOOLS.contains(&text.to_lowercase().as_str()),
            Some(_) => false,
        };
        if valid {
            return Ok(());
        }
        Err(self.wrong(key, "a truth value was expected"))
    }

    /// A string, or a list of strings; a number counts as its text.
    pub(super) fn strings(&self, key: &str) -> Result<Vec<String>, Fail> {
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.wrong(key, "a string was expected")),
        };
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Sequence(items)) => items.iter().map(text).collect(),
            Some(Value::Mapping(_)) => Err(self.wrong(
                key,
                &format!("a string or a list of strings was expected, as in `{key}: [TEXT, TEXT]`"),
            )),
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
        let known = |key: &str| {
            let mut known = KNOWN.iter();
            known.find(|known| **known == key || known.replace('-', "_") == key)
        };
        let pip = match self.map.get("pip") {
            None => return Ok(Vec::new()),
            Some(Value::Mapping(pip)) => pip,
            Some(_) => {
                return Err(self.wrong("pip", "a map was expected, as in `pip: {index-url: URL}`"));
            }
        };
        let mut warnings = Vec::new();
        for (key, value) in pip {
            let key = key_text(key);
            let Some(name) = known(&key) else {
                warnings.push(format!(
                    "Found unexpected configuration value 'pip.{key}' in '{FILE}'"
                ));
                continue;
            };
            // Of two spellings the one with hyphens counts, and nothing is said of the other one.
            if key != *name && pip.contains_key(*name) {
                continue;
            }
            let valid = match *name {
                "index-url" => value.is_string() || value.is_null(),
                "extra-index-url" => value
                    .as_sequence()
                    .is_some_and(|urls| urls.iter().all(Value::is_string)),
                _ => true,
            };
            if !valid {
                let expected = match *name {
                    "index-url" => "a string was expected, as in `index-url: URL`",
                    _ => "a list of strings was expected, as in `extra-index-url: [URL]`",
                };
                return Err(self.wrong(&format!("pip.{name}"), expected));
            }
        }
        self.bool_of(pip, "pip.pre", true)?;
        self.bool_of(pip, "pip.use-system-config", false)?;
        Ok(warnings)
    }

    /// A value, or a map of values, by setting.
    fn environment_settings(&self) -> Result<(), Fail> {
        let key = "environment_settings";
        let is_key = |key: &Value| key.is_string() || key.is_number();
        let is_value = |value: &Value| value.is_string() || value.is_number() || value.is_bool();
        let is_map = |value: &Value| {
            let mut entries = value.as_mapping().into_iter().flatten();
            value.is_mapping() && entries.all(|(key, value)| is_key(key) && is_value(value))
        };
        let settings = match self.map.get(key) {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Mapping(settings)) => settings,
            Some(_) => return Err(self.wrong(key, "a map was expected")),
        };
        let mut settings = settings.iter();
        match settings.find(|(name, value)| !is_key(name) || !(is_value(value) || is_map(value))) {
            None => Ok(()),
            Some((name, _)) => {
                let name = yaml::to_string(name).unwrap_or_default();
                let reason = format!(
                    "`{}`: a text, a number, a truth value or a map of such was expected",
                    name.trim()
                );
                Err(self.wrong(key, &reason))
            }
        }
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
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Sequence(repositories)) => repositories.iter().map(one).collect(),
            Some(repository) => one(repository).map(|warning| vec![warning]),
        };
        Ok(warnings?.into_iter().flatten().collect())
    }
}

/// The keys of a map that are not known, below `path`, each with the known one that it is nearest to.
fn unread<'m>(
    map: &'m Mapping,
    known: &'static [&'static str],
    path: &'static str,
) -> impl Iterator<Item = (String, Option<&'static str>)> + 'm {
    let is_unread = |key: &String| {
        !known.contains(&key.as_str()) && !key.starts_with("x-") && !key.starts_with('.')
    };
    let keys = map.keys().map(key_text).filter(is_unread);
    keys.map(move |key| {
        let meant = closest(&key, known.iter().copied());
        (format!("{path}{key}"), meant)
    })
}

/// A key of a map as Python prints it.
fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        other => yaml::to_string(other).unwrap_or_default().trim().to_owned(),
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
