//! Which Python the modules of a project ask for: looked at when one of them does not load, since that is then the likely
//! reason, and what Python says of it (a `SyntaxError` in somebody else's file) does not tell.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

use super::Project;
use super::requirements::option;
use crate::world::World;

/// The first module, of `names` and std, that asks for another Python than `version`: in words, with what it asks for.
pub fn unmet(world: &dyn World, names: &[String], version: &str) -> Option<String> {
    let python = Version::from_str(version).ok()?;
    let mut all = names.iter().map(String::as_str).chain(["std"]);
    all.find_map(|name| {
        let versions = asked(world, name)?;
        let specifiers = VersionSpecifiers::from_str(&versions).ok()?;
        // Pre-releases count: `contains` of all would leave them out.
        let is_met = specifiers.iter().all(|one| one.contains(&python));
        (!is_met).then(|| format!("the module {name} needs Python {versions}"))
    })
}

/// What a module's metadata say, where it is in the module path or installed.
fn asked(world: &dyn World, name: &str) -> Option<String> {
    let project = Project::read(world).ok()?;
    let in_path = project.module_path.iter().find_map(|directory| {
        let root = format!("{}/{name}", directory.trim_end_matches('/'));
        let read = |file: &str| world.read_text(&format!("{root}/{file}")).ok();
        let of_toml = read("pyproject.toml").and_then(|text| of_toml(&text));
        of_toml.or_else(|| {
            let versions = option(&read("setup.cfg")?, "options", "python_requires");
            let versions = versions.trim();
            (!versions.is_empty()).then(|| versions.to_owned())
        })
    });
    in_path.or_else(|| {
        let start = format!("inmanta_module_{name}-");
        project
            .installed(world)
            .paths()
            .iter()
            .find_map(|packages| {
                let names = world.list(packages).into_iter();
                let mut infos = names.filter(|info| {
                    info.starts_with(&start) && info.trim_end_matches('/').ends_with(".dist-info")
                });
                let info = infos.next()?;
                let info = info.trim_end_matches('/');
                let metadata = world
                    .read_text(&format!("{packages}/{info}/METADATA"))
                    .ok()?;
                let mut head = metadata.lines().take_while(|line| !line.is_empty());
                head.find_map(|line| line.strip_prefix("Requires-Python: ").map(str::to_owned))
            })
    })
}

/// `requires-python` of a `pyproject.toml`: the only key of this name that there may be.
fn of_toml(text: &str) -> Option<String> {
    let values = text.lines().filter_map(|line| {
        let value = line.trim().strip_prefix("requires-python")?;
        value.trim_start().strip_prefix('=')
    });
    let value = values.map(str::trim).next()?;
    let quoted = value.strip_prefix(['"', '\''])?;
    Some(quoted.split(['"', '\'']).next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemWorld;

    #[test]
    fn what_modules_ask_for_is_found_in_the_module_path_and_where_they_are_installed() {
        let world = MemWorld::default()
            .file("project.yml", "name: p\nmodulepath: libs\n")
            .file("libs/a/setup.cfg", "[options]\npython_requires = >=3.12\n")
            .file(
                "libs/b/pyproject.toml",
                "[project]\nrequires-python = \">=3.13\"\n",
            )
            .file(".env/pyvenv.cfg", "")
            .file(
                ".env/lib/python3.13/site-packages/inmanta_module_std-8.7.5.dist-info/METADATA",
                "Name: x\nRequires-Python: >=3.12\n\nRequires-Python: >=9\n",
            );
        let of = |name: &str, version: &str| unmet(&world, &[name.to_owned()], version);
        assert_eq!(
            of("a", "3.11.7").as_deref(),
            Some("the module a needs Python >=3.12")
        );
        assert_eq!(
            of("b", "3.12.1").as_deref(),
            Some("the module b needs Python >=3.13")
        );
        assert_eq!(
            of("other", "3.11.7").as_deref(),
            Some("the module std needs Python >=3.12")
        );
        assert_eq!(of("b", "3.13.0"), None);
    }
}
