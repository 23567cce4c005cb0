//! Whether the loaded modules have the versions that the project asks for. Source: language.md 11.5.
//!
//! What can not be understood is not held against a project: packaging tools say more about it than we can.

use std::cmp::Ordering;

use super::modules::{Found, Module};
use crate::diagnostics::{Fail, fail};
use crate::span::Loc;
use crate::world::World;

pub(super) fn check(
    world: &dyn World,
    requires: &[String],
    modules: &[Module],
) -> Result<(), Fail> {
    let mut unmet = Vec::new();
    for requirement in requires {
        let text = requirement.split(['#', ';']).next().unwrap_or("").trim();
        let end = text
            .find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)))
            .unwrap_or(text.len());
        let (name, constraints) = text.split_at(end);
        let name = name
            .strip_prefix("inmanta-module-")
            .unwrap_or(name)
            .replace('-', "_");
        let Some(version) = modules
            .iter()
            .find(|module| module.name == name)
            .and_then(|module| version(world, module))
        else {
            continue;
        };
        let satisfied = constraints
            .split(',')
            .all(|constraint| satisfies(&version, constraint.trim()).unwrap_or(true));
        if !satisfied {
            unmet.push(format!("\n\t* requirement {requirement} on module {name} not fulfilled, now at version {version}"));
        }
    }
    if unmet.is_empty() {
        return Ok(());
    }
    let message = format!(
        "The following requirements were not satisfied:{}",
        unmet.concat()
    );
    Err(fail("CompilerException", Loc::NONE, message))
}

fn version(world: &dyn World, module: &Module) -> Option<String> {
    let root = module.root()?;
    let (file, separator) = match &module.found {
        Found::V1(_) => ("module.yml", ':'),
        Found::V2 { .. } => ("setup.cfg", '='),
        Found::Builtin => return None,
    };
    let text = world.read_text(&format!("{root}/{file}")).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == "version").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    })
}

/// Numbers of the release, and whether it is a pre-release.
fn release(version: &str) -> Option<(Vec<u64>, bool)> {
    let version = version.trim().trim_start_matches('v');
    let end = version
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    let numbers = numbers
        .trim_end_matches('.')
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    let pre = ["a", "b", "rc", "dev", ".dev"]
        .iter()
        .any(|mark| rest.starts_with(mark))
        || version[..end].ends_with('.') && rest.starts_with("dev");
    Some((numbers, pre))
}

fn compare(a: &(Vec<u64>, bool), b: &(Vec<u64>, bool)) -> Ordering {
    let part = |numbers: &[u64], at: usize| numbers.get(at).copied().unwrap_or(0);
    let order = (0..a.0.len().max(b.0.len()))
        .map(|at| part(&a.0, at).cmp(&part(&b.0, at)))
        .find(|order| order.is_ne());
    order.unwrap_or_else(|| b.1.cmp(&a.1))
}

/// `None`: the constraint is of no kind that is known here.
fn satisfies(version: &str, constraint: &str) -> Option<bool> {
    if constraint.is_empty() {
        return Some(true);
    }
    let end = constraint.find(|c: char| !"=<>~!".contains(c))?;
    let (operator, wanted) = constraint.split_at(end);
    let wanted = wanted.trim();
    let found = release(version)?;
    if let Some(prefix) = wanted.strip_suffix(".*") {
        let prefix = release(prefix)?.0;
        let same = (0..prefix.len()).all(|at| found.0.get(at).copied().unwrap_or(0) == prefix[at]);
        return match operator {
            "==" => Some(same),
            "!=" => Some(!same),
            _ => None,
        };
    }
    let wanted = release(wanted)?;
    let order = compare(&found, &wanted);
    Some(match operator {
        "==" | "===" => order.is_eq(),
        "!=" => order.is_ne(),
        ">=" => order.is_ge(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        "<" => order.is_lt(),
        "~=" => {
            let fixed = wanted.0.len().saturating_sub(1);
            order.is_ge()
                && (0..fixed).all(|at| found.0.get(at).copied().unwrap_or(0) == wanted.0[at])
        }
        _ => return None,
    })
}
