//! What `project.yml` may say besides what a compile needs. Source: language.md 11.2.

use serde_yaml::{Mapping, Value};

use crate::diagnostics::Fail;

use super::invalid;

/// An error for a key whose value the reference would not take. Unknown keys do not matter.
pub(super) fn check(map: &Mapping) -> Result<(), Fail> {
    for key in [
        "description",
        "author",
        "license",
        "copyright",
        "downloadpath",
    ] {
        match map.get(key) {
            None | Some(Value::Null | Value::String(_) | Value::Number(_)) => {}
            Some(_) => return Err(invalid(format!("{key}: Input should be a valid string"))),
        }
    }
    one_of(map, "freeze_operator", &["~=", "==", ">="])?;
    one_of(map, "install_mode", &["release", "prerelease", "master"])?;
    if let Some(email) = map.get("author_email").filter(|email| !email.is_null())
        && !email.as_str().is_some_and(is_email)
    {
        return Err(invalid("author_email: value is not a valid email address"));
    }
    for key in [
        "freeze_recursive",
        "strict_deps_check",
        "agent_install_dependency_modules",
    ] {
        if let Some(value) = map.get(key)
            && !value.is_bool()
        {
            return Err(invalid(format!("{key}: Input should be a valid boolean")));
        }
    }
    match map.get("pip") {
        None | Some(Value::Null | Value::Mapping(_)) => {}
        Some(_) => return Err(invalid("pip: Input should be a valid dictionary")),
    }
    check_repositories(map.get("repo"))
}

fn one_of(map: &Mapping, key: &str, allowed: &[&str]) -> Result<(), Fail> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(text)) if allowed.contains(&text.as_str()) => Ok(()),
        Some(_) => Err(invalid(format!(
            "{key}: must be one of {}",
            allowed.join(", ")
        ))),
    }
}

fn is_email(text: &str) -> bool {
    // A display name is fine: `Fred <fred@example.com>`.
    let address = match text.split_once('<') {
        Some((_, rest)) => rest.trim_end().trim_end_matches('>'),
        None => text.trim(),
    };
    address.split_once('@').is_some_and(|(name, domain)| {
        !name.is_empty() && !domain.is_empty() && !address.contains(char::is_whitespace)
    })
}

fn check_repositories(repositories: Option<&Value>) -> Result<(), Fail> {
    let all: Vec<&Value> = match repositories {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Sequence(items)) => items.iter().collect(),
        Some(one) => vec![one],
    };
    for (at, repository) in all.into_iter().enumerate() {
        let (url, kind) = match repository {
            Value::String(url) => (Some(url.as_str()), None),
            Value::Mapping(map) => (map.get("url").and_then(Value::as_str), map.get("type")),
            _ => (None, None),
        };
        let Some(url) = url else {
            return Err(invalid(format!("repo.{at}: a url is missing")));
        };
        if !matches!(
            kind.map(Value::as_str),
            None | Some(Some("git" | "package"))
        ) {
            return Err(invalid(format!(
                "repo.{at}.type: Input should be 'git' or 'package'"
            )));
        }
        if url.matches("{}").count() > 1 {
            return Err(invalid(format!(
                "repo.{at}.url: {{}} is replaced by the name of a module, once"
            )));
        }
    }
    Ok(())
}
