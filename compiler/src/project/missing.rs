//! What is told of a module that is not found: where it was looked for, and how it is had.

use super::installed::python_path;
use super::modules::environment;
use super::{Project, requirements};
use crate::shown_url::without_credentials;
use crate::world::World;
use crate::yaml::{self, LIMITS, Value};

/// Where a module was looked for, and where it would be installed from.
pub(super) fn places(world: &dyn World, project: &Project, name: &str) -> String {
    let directories: Vec<String> = project
        .module_path
        .iter()
        .map(|directory| format!("{}/{name}", directory.trim_end_matches('/')))
        .map(
            |folder| match world.is_dir(&folder) && world.list(&folder).is_empty() {
                true => {
                    format!(
                        "{folder} (an empty folder; submodules of git are not fetched by servers)"
                    )
                }
                false => folder,
            },
        )
        .collect();
    let path = match directories.is_empty() {
        true => "the project has no module path".to_owned(),
        false => format!("module path: {}", directories.join(", ")),
    };
    let installed = match (environment(world), world.outer_environment()) {
        (Some(environment), _) => format!("installed in: {environment}"),
        (None, Some(environment)) => {
            format!(
                "installed in: {environment} (the project has no environment, .env, of its own)"
            )
        }
        (None, None) => "the project has no environment (.env)".to_owned(),
    };
    let python_path = match python_path(world) {
        folders if folders.is_empty() => String::new(),
        folders => format!("; PYTHONPATH: {}", folders.join(", ")),
    };
    format!(
        "looked for {name} in: {path}; {installed}{python_path}; packages come from: {}",
        index(world)
    )
}

/// How a module is had that nothing names yet.
pub(super) fn command(name: &str) -> String {
    let package = requirements::package(name);
    format!(
        "add `{package}` to requirements.txt and run `steward project install` (a server installs by itself what requirements.txt of a commit names; for tests: `pip install {package}`); a module of your own is a directory of the module path with a module.yml, setup.cfg or pyproject.toml"
    )
}

/// What `pip` of `project.yml` says. Source: docs/reference/language.md § 11.2.
fn index(world: &dyn World) -> String {
    let text = world.read_text("project.yml").unwrap_or_default();
    let file: Option<Value> = yaml::from_str(&text, &LIMITS).ok();
    let pip = file.as_ref().and_then(|file| file.get("pip"));
    let key = |name: &str| {
        let dashed = name.replace('_', "-");
        pip.and_then(|pip| pip.get(name).or_else(|| pip.get(&dashed)))
    };
    if let Some(url) = key("index_url").and_then(Value::as_str) {
        return without_credentials(url);
    }
    match key("use_system_config").and_then(Value::as_bool) {
        Some(true) => "the index of this machine (pip.use-system-config)".to_owned(),
        _ => "nowhere (project.yml names no pip.index-url)".to_owned(),
    }
}
