//! Whether the loaded modules have the versions that are asked for. Source: docs/reference/language.md § 11.5.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

use super::metadata::invalid;
use super::modules::{Module, ModuleLocation};
use crate::diagnostics::{Fail, Warning, fail};
use crate::span::Loc;
use crate::world::World;
use crate::yaml::{self, LIMITS, Value};

/// A constraint on a module, and who has it.
pub(super) struct Requirement {
    text: String,
    module: String,
    versions: VersionSpecifiers,
}

/// What the names of packages with modules begin with.
pub(super) const PACKAGE: &str = "inmanta-module-";

/// All constraints of the project and of the loaded modules. Those on modules that are not loaded only warn.
pub(super) fn check(
    world: &dyn World,
    requires: &[String],
    modules: &[Module],
    warnings: &mut Vec<Warning>,
) -> Result<(), Fail> {
    let mut all = Vec::new();
    for text in requires {
        let parsed =
            parse(text).map_err(|reason| invalid(format!("requires: {text}: {reason}")))?;
        if modules.iter().all(|module| module.name != parsed.module) {
            warnings.push(Warning {
                kind: "InmantaWarning",
                message: format!(
                    "Module {} is present in requires but it is not used by the model.",
                    parsed.module
                ),
                loc: Loc::NONE,
                notes: Vec::new(),
            });
        }
        all.push(parsed);
    }
    let project = world.read_text("requirements.txt").unwrap_or_default();
    all.extend(of_packages(project.lines()));
    for module in modules {
        all.extend(of_module(world, module));
    }
    let mut unmet = Vec::new();
    for requirement in &all {
        let found = modules
            .iter()
            .find(|module| module.name == requirement.module);
        let version = found.and_then(|module| version(world, module));
        let Some(version) = version.and_then(|version| Version::from_str(&version).ok()) else {
            continue;
        };
        // Pre-releases count: `contains` would leave them out.
        if !requirement
            .versions
            .iter()
            .all(|one| one.contains(&version))
        {
            unmet.push(format!(
                "\n\t* requirement {} on module {} not fulfilled, now at version {version}",
                requirement.text, requirement.module
            ));
        }
    }
    unmet.dedup();
    if unmet.is_empty() {
        return Ok(());
    }
    let message = format!(
        "The following requirements were not satisfied:{}",
        unmet.concat()
    );
    Err(fail("CompilerException", Loc::NONE, message).help(
        "install the versions that are asked for in the project's environment or module path",
    ))
}

/// What to do about a module that is asked for, but not there; `None`: nobody asks for it.
pub(super) fn advice(
    world: &dyn World,
    requires: &[String],
    modules: &[Module],
    name: &str,
) -> Option<String> {
    let asks = |all: Vec<Requirement>| all.iter().any(|one| one.module == name);
    let read = |file: &str| world.read_text(file).unwrap_or_default();
    let of_cfg = |text: &str| of_packages(option(text, "options", "install_requires").lines());
    let install = |who: &str| {
        format!("{who} asks for it, but it is not installed: run `steward project install`")
    };
    if asks(of_packages(read("requirements.txt").lines())) {
        return Some(install("requirements.txt"));
    }
    let asking = modules.iter().find(|module| match &module.found {
        ModuleLocation::Builtin => false,
        ModuleLocation::V1(root) => asks(of_packages(
            read(&format!("{root}/requirements.txt")).lines(),
        )),
        ModuleLocation::V2 { root, .. } => asks(of_cfg(&read(&format!("{root}/setup.cfg")))),
    });
    if let Some(module) = asking {
        return Some(install(&format!("the module {}", module.name)));
    }
    let own = requires.iter().filter_map(|text| parse(text).ok());
    let file = if asks(own.collect()) {
        "project.yml"
    } else if asks(of_cfg(&read("setup.cfg"))) {
        "setup.cfg"
    } else {
        return None;
    };
    // Those two say which versions fit.
    let package = package(name);
    Some(format!(
        "{file} asks for it, but it is not installed: add `{package}` to requirements.txt and run `steward project install`"
    ))
}

/// The package of a module.
pub(super) fn package(name: &str) -> String {
    format!("{PACKAGE}{}", name.replace('_', "-"))
}

/// `net ~= 1.2, != 1.3`, with the name of a module or of its package.
pub(super) fn parse(text: &str) -> Result<Requirement, String> {
    let plain = text.split(['#', ';']).next().unwrap_or("").trim();
    let end = plain
        .find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)))
        .unwrap_or(plain.len());
    let (name, rest) = plain.split_at(end);
    if !name.starts_with(char::is_alphanumeric) {
        return Err("a name was expected".to_owned());
    }
    let rest = match rest.trim().strip_prefix('[') {
        Some(extras) => extras.split_once(']').map_or("", |(_, rest)| rest),
        None => rest,
    };
    let rest = rest.trim().trim_start_matches('(').trim_end_matches(')');
    // A place to get it from says nothing of versions.
    let rest = if rest.starts_with('@') { "" } else { rest };
    let versions = VersionSpecifiers::from_str(rest).map_err(|error| error.to_string())?;
    Ok(Requirement {
        text: plain.to_owned(),
        module: name.strip_prefix(PACKAGE).unwrap_or(name).replace('-', "_"),
        versions,
    })
}

/// The requirements on modules among requirements on Python packages.
fn of_packages<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Requirement> {
    lines
        .map(str::trim)
        .filter(|line| line.starts_with(PACKAGE))
        // What pip would not understand is pip's to say.
        .filter_map(|line| parse(line).ok())
        .collect()
}

fn of_module(world: &dyn World, module: &Module) -> Vec<Requirement> {
    let Some(root) = module.root() else {
        return Vec::new();
    };
    let read = |file: &str| {
        world
            .read_text(&format!("{root}/{file}"))
            .unwrap_or_default()
    };
    match &module.found {
        ModuleLocation::Builtin => Vec::new(),
        ModuleLocation::V1(_) => {
            let yaml: Value = yaml::from_str(&read("module.yml"), &LIMITS).unwrap_or_default();
            let own = match yaml.get("requires") {
                Some(Value::String(text)) => vec![text.clone()],
                Some(Value::Sequence(items)) => items
                    .iter()
                    .filter_map(|item| Some(item.as_str()?.to_owned()))
                    .collect(),
                _ => Vec::new(),
            };
            let mut all: Vec<Requirement> =
                own.iter().filter_map(|text| parse(text).ok()).collect();
            all.extend(of_packages(read("requirements.txt").lines()));
            all
        }
        ModuleLocation::V2 { distribution, .. } => {
            let file = format!("{root}/setup.cfg");
            let text = match distribution {
                Some(metadata) if !world.is_file(&file) => required(world, metadata),
                _ => option(&read("setup.cfg"), "options", "install_requires"),
            };
            of_packages(text.lines())
        }
    }
}

/// The value of a key in a section of a `setup.cfg`; more lines follow indented.
pub(super) fn option(text: &str, section: &str, key: &str) -> String {
    let mut in_section = false;
    let mut value: Option<String> = None;
    for line in text.lines() {
        let is_more = line.starts_with([' ', '\t']);
        match &mut value {
            Some(value) if is_more => {
                value.push('\n');
                value.push_str(line.trim());
                continue;
            }
            Some(_) => break,
            None => {}
        }
        if let Some(name) = line.strip_prefix('[') {
            in_section = name.trim_end().trim_end_matches(']') == section;
        } else if in_section
            && let Some((name, first)) = line.split_once(['=', ':'])
            && name.trim() == key
        {
            value = Some(first.trim().to_owned());
        }
    }
    value.unwrap_or_default()
}

/// What the metadata of an installed package ask for, one a line. Source: the packaging specification "Core metadata".
fn required(world: &dyn World, metadata: &str) -> String {
    let text = world.read_text(&format!("{metadata}/METADATA"));
    let text = text.unwrap_or_default();
    // The description follows behind an empty line.
    let head = text.lines().take_while(|line| !line.is_empty());
    let required = head.filter_map(|line| line.strip_prefix("Requires-Dist:"));
    required.map(|line| format!("{}\n", line.trim())).collect()
}

/// The version of an installed package, in the name of the folder of its metadata: `inmanta_module_net-1.2.0.dist-info`.
fn version_of_metadata(folder: &str) -> Option<String> {
    let stem = folder.strip_suffix(".dist-info")?;
    let (_, version) = stem.rsplit_once('-')?;
    Some(version.to_owned())
}

fn version(world: &dyn World, module: &Module) -> Option<String> {
    let root = module.root()?;
    let read = |file: &str| world.read_text(&format!("{root}/{file}")).ok();
    let text = match &module.found {
        ModuleLocation::Builtin => return None,
        ModuleLocation::V1(_) => {
            let yaml: Value = yaml::from_str(&read("module.yml")?, &LIMITS).ok()?;
            match yaml.get("version")? {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return None,
            }
        }
        ModuleLocation::V2 {
            distribution: Some(metadata),
            ..
        } => version_of_metadata(metadata)?,
        ModuleLocation::V2 { .. } => {
            let file = read("setup.cfg")?;
            let tag = option(&file, "egg_info", "tag_build");
            let version = option(&file, "metadata", "version");
            match tag.trim_start_matches('.') {
                "" => version,
                tag => format!("{version}.{tag}"),
            }
        }
    };
    (!text.is_empty()).then_some(text)
}

/// For fuzzing: as a list of requirements, and as a `setup.cfg`.
pub(super) fn read_any(text: &str) {
    let of_cfg = option(text, "options", "install_requires");
    for line in text.lines().chain(of_cfg.lines()) {
        let _ = parse(line);
    }
    let _ = of_packages(text.lines());
    let _ = Version::from_str(&option(text, "metadata", "version"));
}
