//! Where a module is, and which files it has.

use crate::builtin;
use crate::protocol::{PythonFile, PythonModule};
use crate::world::World;

use super::Project;

#[derive(Debug, Clone)]
pub enum ModuleLocation {
    Builtin,
    /// Root directory; Python below `plugins/` (v1).
    V1(String),
    /// Root directory and the directory of the package `inmanta_plugins.<name>`.
    V2 {
        root: String,
        package: String,
        /// The folder of the metadata of the package, if it is installed.
        distribution: Option<String>,
    },
}

#[derive(Debug, Clone)]
pub struct Module {
    pub name: String,
    pub found: ModuleLocation,
    /// One of this name in the module path, which counts less than an installed one.
    pub replaced: Option<ModuleLocation>,
}

impl Module {
    fn of(name: &str, found: ModuleLocation) -> Self {
        Module {
            name: name.to_owned(),
            found,
            replaced: None,
        }
    }
}

/// An installed one counts before one of the module path, and that before one of ours.
/// Source: docs/reference/language.md § 11.4.
pub fn find(world: &dyn World, project: &Project, name: &str) -> Option<Module> {
    let elsewhere = || project.installed(world).module_elsewhere(world, name);
    find_here(world, project, name).or_else(elsewhere)
}

/// One of the project or its environment.
fn find_here(world: &dyn World, project: &Project, name: &str) -> Option<Module> {
    if name == "std" {
        return Some(Module::of(name, ModuleLocation::Builtin));
    }
    let in_path = in_module_path(world, project, name);
    if let Some(installed) = project.installed(world).module(world, name) {
        return Some(match in_path {
            Some(in_path) if is_same(world, &in_path, &installed) => Module {
                found: with_distribution(in_path, installed.found),
                ..Module::of(name, ModuleLocation::Builtin)
            },
            replaced => Module {
                replaced,
                ..installed
            },
        });
    }
    let builtin = || builtin::has_module(name).then_some(ModuleLocation::Builtin);
    let carried = || carried(world, name);
    let found = in_path.or_else(builtin).or_else(carried)?;
    Some(Module::of(name, found))
}

/// One of ours with Python code, where the binary has laid it out.
fn carried(world: &dyn World, name: &str) -> Option<ModuleLocation> {
    if !builtin::CARRIED.contains(&name) {
        return None;
    }
    let root = format!("{}/{name}", world.carried()?);
    Some(ModuleLocation::V2 {
        package: format!("{root}/inmanta_plugins/{name}"),
        root,
        distribution: None,
    })
}

fn in_module_path(world: &dyn World, project: &Project, name: &str) -> Option<ModuleLocation> {
    project.module_path.iter().find_map(|entry| {
        let root = format!("{}/{name}", entry.trim_end_matches('/'));
        let root = root.strip_prefix("./").unwrap_or(&root).to_owned();
        if world.is_file(&format!("{root}/module.yml")) {
            return Some(ModuleLocation::V1(root));
        }
        let is_newer = world.is_file(&format!("{root}/setup.cfg"))
            || world.is_file(&format!("{root}/pyproject.toml"));
        is_newer.then(|| ModuleLocation::V2 {
            package: format!("{root}/inmanta_plugins/{name}"),
            root,
            distribution: None,
        })
    })
}

/// Whether a module was installed from its place in the module path, where it still is.
fn is_same(world: &dyn World, in_path: &ModuleLocation, installed: &Module) -> bool {
    match (in_path, installed.root()) {
        (ModuleLocation::V2 { root, .. }, Some(installed)) => {
            world.real(root) == world.real(installed)
        }
        _ => false,
    }
}

/// The place in the project is shorter to read in messages; versions are those of what is installed.
fn with_distribution(in_path: ModuleLocation, installed: ModuleLocation) -> ModuleLocation {
    match (in_path, installed) {
        (ModuleLocation::V2 { root, package, .. }, ModuleLocation::V2 { distribution, .. }) => {
            ModuleLocation::V2 {
                root,
                package,
                distribution,
            }
        }
        (in_path, _) => in_path,
    }
}

/// The names of all modules that the project can import.
pub fn names(world: &dyn World, project: &Project) -> Vec<String> {
    let ours = ["std", "fs", "exec", "steward"]
        .iter()
        .chain(builtin::CARRIED);
    let mut names: Vec<String> = ours.map(|name| (*name).to_owned()).collect();
    let mut directories = project.module_path.clone();
    directories.extend(project.installed(world).folders());
    for directory in directories {
        let below = world.list(directory.trim_end_matches('/'));
        let modules = below.iter().filter_map(|name| name.strip_suffix('/'));
        names.extend(modules.map(str::to_owned));
    }
    names.retain(|name| find_here(world, project, name).is_some());
    names.sort();
    names.dedup();
    names
}

/// What follows `above::` in an import, sorted; without `above` the names of all modules.
pub fn namespaces(world: &dyn World, project: &Project, above: &str) -> Vec<String> {
    let mut parts = above.split("::");
    let Some(module) = parts.next().filter(|name| !name.is_empty()) else {
        return names(world, project);
    };
    let Some(root) =
        find(world, project, module).and_then(|module| Some(module.root()?.to_owned()))
    else {
        return Vec::new();
    };
    let below: Vec<&str> = parts.collect();
    let directory = [&[root.as_str(), "model"], below.as_slice()]
        .concat()
        .join("/");
    let mut found: Vec<String> = world
        .list(&directory)
        .iter()
        .filter_map(|name| match name.strip_suffix('/') {
            Some(name) => world
                .is_file(&format!("{directory}/{name}/_init.cf"))
                .then(|| name.to_owned()),
            None => name.strip_suffix(".cf").map(str::to_owned),
        })
        .filter(|name| name != "_init")
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The project's virtual environment, if it has one.
pub fn environment(world: &dyn World) -> Option<String> {
    let mut known = [".env", ".venv", "venv"].into_iter();
    let mut own = || {
        known.find(|directory| {
            world.is_file(&format!("{directory}/pyvenv.cfg"))
                || world.is_dir(&format!("{directory}/lib"))
        })
    };
    world.environment().or_else(|| own().map(str::to_owned))
}

impl Module {
    pub fn root(&self) -> Option<&str> {
        match &self.found {
            ModuleLocation::Builtin => None,
            ModuleLocation::V1(root) | ModuleLocation::V2 { root, .. } => Some(root),
        }
    }

    /// The source of a namespace of this module: reported name and text. `Ok(None)`: there is none.
    pub fn source(
        &self,
        world: &dyn World,
        namespace: &str,
    ) -> std::io::Result<Option<(String, String)>> {
        let mut parts = namespace.split("::");
        parts.next();
        let below: Vec<&str> = parts.collect();
        let below = below.join("/");
        let Some(root) = self.root() else {
            return Ok(
                builtin::source(namespace).map(|(file, text)| (file.to_owned(), text.to_owned()))
            );
        };
        // A directory counts before a file of its name, also when it has no `_init.cf`.
        let directory = format!("{root}/model/{below}");
        let path = if below.is_empty() || world.is_dir(&directory) {
            format!("{}/_init.cf", directory.trim_end_matches('/'))
        } else {
            format!("{directory}.cf")
        };
        if !world.is_file(&path) {
            return Ok(None);
        }
        world.read_text(&path).map(|text| Some((path, text)))
    }

    /// Its Python files, if it has any.
    pub fn python(&self, world: &dyn World) -> Option<PythonModule> {
        let root = self.root()?;
        let directory = match &self.found {
            ModuleLocation::Builtin => return None,
            ModuleLocation::V1(root) => format!("{root}/plugins"),
            ModuleLocation::V2 { package, .. } => package.clone(),
        };
        let mut files = Vec::new();
        let installed = directory == root;
        python_files(
            world,
            &directory,
            &format!("inmanta_plugins.{}", self.name),
            installed,
            0,
            &mut files,
        );
        let any = files.iter().any(|file| {
            world
                .read(&file.path)
                .is_ok_and(|text| !text.trim_ascii().is_empty())
        });
        for file in &mut files {
            file.path = world.absolute(&file.path);
        }
        any.then(|| PythonModule {
            name: self.name.clone(),
            root: world.absolute(root),
            files,
        })
    }
}

/// What makes a folder a package of Python: the source, or what was compiled of it where modules are published without sources
/// (`inmanta module build --byte-code`).
const PACKAGE_FILES: [&str; 2] = ["__init__.py", "__init__.pyc"];

/// The path of the file that makes a folder a package.
pub(super) fn package_file(world: &dyn World, folder: &str) -> Option<String> {
    let files = PACKAGE_FILES.map(|name| format!("{folder}/{name}"));
    files.into_iter().find(|file| world.is_file(file))
}

fn python_files(
    world: &dyn World,
    directory: &str,
    module: &str,
    skip_data: bool,
    depth: u32,
    files: &mut Vec<PythonFile>,
) {
    if depth > 20 {
        return;
    }
    let names = world.list(directory);
    let mut initial = PACKAGE_FILES.into_iter();
    if let Some(file) = initial.find(|file| names.iter().any(|name| name == file)) {
        files.push(PythonFile {
            module: module.to_owned(),
            path: format!("{directory}/{file}"),
            package: true,
        });
    }
    for name in &names {
        // Of a source and what was compiled of it Python takes the source. `x.cpython-313.pyc` is nothing that it imports.
        let compiled = name.strip_suffix(".pyc");
        let compiled =
            compiled.filter(|stem| !stem.contains('.') && !names.contains(&format!("{stem}.py")));
        if let Some(stem) = name.strip_suffix(".py").or(compiled)
            && stem != "__init__"
        {
            files.push(PythonFile {
                module: format!("{module}.{stem}"),
                path: format!("{directory}/{name}"),
                package: false,
            });
        }
    }
    for name in &names {
        if let Some(sub) = name.strip_suffix('/') {
            let data = skip_data && matches!(sub, "model" | "files" | "templates");
            if sub != "__pycache__" && !data && !sub.starts_with('.') {
                python_files(
                    world,
                    &format!("{directory}/{sub}"),
                    &format!("{module}.{sub}"),
                    false,
                    depth + 1,
                    files,
                );
            }
        }
    }
}
