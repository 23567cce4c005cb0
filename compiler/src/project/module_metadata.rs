//! What `module.yml` or `setup.cfg` say of a module, and what is wrong with it.
//! Source: docs/reference/language.md § 11.3, § 11.4.

use std::str::FromStr;

use pep440_rs::Version;

use super::ini::Ini;
use super::metadata::{BOOLS, FREEZE_OPERATORS, Reader};
use super::requirements;
use crate::diagnostics::Fail;
use crate::yaml::{self, LIMITS, Mapping, Value};

/// What matters of a module's metadata.
#[derive(Debug, Default)]
pub(super) struct ModuleMetadata {
    /// What the module calls itself, which may be another name than that of its place.
    pub name: String,
    pub is_deprecated: bool,
}

/// What is wrong.
#[derive(Debug)]
pub(super) enum Wrong {
    Metadata(String),
    /// The module is another one than its place says.
    Place(String),
}

/// Reads the text of a `module.yml`; `Err`: what is wrong with it.
pub(super) fn v1(file: &str, text: &str) -> Result<ModuleMetadata, Wrong> {
    let text = yaml::without_byte_order_mark(text);
    let wrong = |reason: String| {
        Wrong::Metadata(format!(
            "Metadata defined in {file} is invalid:\n  {reason}"
        ))
    };
    let mut value: Value =
        yaml::from_str(text, &LIMITS).map_err(|error| wrong(error.to_string()))?;
    value
        .apply_merge()
        .map_err(|error| wrong(error.to_string()))?;
    let map = value
        .as_mapping()
        .ok_or_else(|| wrong("the file is not a map".to_owned()))?;
    let reader = Reader { file, text, map };
    check_v1(&reader, map).map_err(|error| Wrong::Metadata(error.message.clone()))?;
    let is_deprecated = match map.get("deprecated") {
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_i64() == Some(1),
        Some(Value::String(text)) => is_true(text),
        _ => false,
    };
    Ok(ModuleMetadata {
        name: reader.text("name").unwrap_or_default(),
        is_deprecated,
    })
}

fn check_v1(reader: &Reader, map: &Mapping) -> Result<(), Fail> {
    for key in ["name", "version", "license"] {
        reader.required(key)?;
    }
    reader.text_of("description", true)?;
    for key in ["version", "compiler_version"] {
        reader.text_of(key, false)?;
        if let Some(text) = reader.text(key)
            && Version::from_str(text.trim()).is_err()
        {
            return Err(reader.wrong(key, &format!("{text} is no version")));
        }
    }
    for requirement in reader.strings("requires")? {
        if let Err(reason) = requirements::parse(&requirement) {
            let reason = format!("`{requirement}` is no requirement: {reason}");
            return Err(reader.wrong("requires", &reason));
        }
    }
    reader.one_of("freeze_operator", FREEZE_OPERATORS)?;
    reader.bool_of(map, "freeze_recursive", false)?;
    reader.bool_of(map, "deprecated", true)
}

fn is_true(text: &str) -> bool {
    let text = text.to_lowercase();
    ["1", "true", "t", "yes", "y", "on"].contains(&text.as_str())
}

/// Reads the text of the `setup.cfg` of the module of a name; `Err`: what is wrong with it.
pub(super) fn v2(name: &str, file: &str, text: &str) -> Result<ModuleMetadata, Wrong> {
    let wrong = |reason: String| {
        Wrong::Metadata(format!(
            "Metadata defined in {file} is invalid:\n  {reason}"
        ))
    };
    let (distribution, metadata) = read_v2(text).map_err(wrong)?;
    let short = distribution
        .strip_prefix(requirements::PACKAGE)
        .unwrap_or_default();
    if short.replace('-', "_") != name {
        return Err(Wrong::Place(format!(
            "the module is called {distribution}, and stands in the place of {name}"
        )));
    }
    Ok(metadata)
}

fn read_v2(text: &str) -> Result<(String, ModuleMetadata), String> {
    let ini = Ini::parse(text)?;
    let values = ini.values("metadata")?;
    let values = values.ok_or("there is no section [metadata]")?;
    ini.value("options", "install_requires")?;
    let value = |key: &str| {
        let found = values.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str())
    };
    let required = |key: &str| value(key).ok_or_else(|| format!("[metadata] has no {key}"));
    let distribution = required("name")?;
    let version = required("version")?;
    required("license")?;
    let Some(short) = distribution.strip_prefix(requirements::PACKAGE) else {
        return Err(format!(
            "the name {distribution} does not start with {}",
            requirements::PACKAGE
        ));
    };
    if short.contains('_') {
        return Err(format!(
            "the name {distribution} may have no underscores, use hyphens"
        ));
    }
    check_version(version.trim())?;
    for (key, choices) in [
        ("freeze_operator", FREEZE_OPERATORS),
        ("deprecated", BOOLS),
        ("freeze_recursive", BOOLS),
        ("four_digit_version", BOOLS),
    ] {
        if let Some(value) = value(key)
            && !choices.contains(&value.to_lowercase().as_str())
        {
            return Err(format!("{key} may not be `{value}`"));
        }
    }
    let is_deprecated = value("deprecated").is_some_and(is_true);
    let metadata = ModuleMetadata {
        name: short.replace('-', "_"),
        is_deprecated,
    };
    Ok((distribution.to_owned(), metadata))
}

/// An error unless a version consists of nothing but its numbers: what comes after them is for the build to say.
fn check_version(text: &str) -> Result<(), String> {
    let version = Version::from_str(text)
        .map_err(|_| format!("{text} is no version: numbers and dots were expected"))?;
    if version.any_prerelease() || version.is_post() || version.is_local() {
        return Err(format!(
            "the version {text} may have nothing after its numbers: give the rest as version_tag"
        ));
    }
    Ok(())
}
