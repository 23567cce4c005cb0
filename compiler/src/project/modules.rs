//! Where a module is, and which files it has.

use crate::builtin;
use crate::protocol::{PythonFile, PythonModule};
use crate::world::World;

use super::Project;

#[derive(Debug, Clone)]
pub enum Found {
    Builtin,
    /// Root directory; Python below `plugins/` (v1).
    V1(String),
    /// Root directory and the directory of the package `inmanta_plugins.<name>`.
    V2 {
        root: String,
        package: String,
    },
}

#[derive(Debug, Clone)]
pub struct Module {
    pub name: String,
    pub found: Found,
}

pub fn find(world: &dyn World, project: &Project, name: &str) -> Option<Module> {
    let module = |found| {
        Some(Module {
            name: name.to_owned(),
            found,
        })
    };
    if name == "std" {
        return module(Found::Builtin);
    }
    for entry in &project.module_path {
        let root = format!("{}/{name}", entry.trim_end_matches('/'));
        let root = root.strip_prefix("./").unwrap_or(&root).to_owned();
        if world.is_file(&format!("{root}/module.yml")) {
            return module(Found::V1(root));
        }
        if world.is_file(&format!("{root}/setup.cfg"))
            || world.is_file(&format!("{root}/pyproject.toml"))
        {
            let package = format!("{root}/inmanta_plugins/{name}");
            return module(Found::V2 { root, package });
        }
    }
    for packages in site_packages(world) {
        let mut places = vec![packages.clone()];
        // Modules that are installed in place are named by files that add to Python's path.
        for file in world.list(&packages) {
            if file.ends_with(".pth") {
                let text = world
                    .read_text(&format!("{packages}/{file}"))
                    .unwrap_or_default();
                let paths = text.lines().map(str::trim);
                let paths = paths.filter(|path| {
                    !path.is_empty()
                        && !path.starts_with(['#', ' '])
                        && !path.starts_with("import ")
                });
                places.extend(paths.map(str::to_owned));
            }
        }
        for place in places {
            let package = format!("{}/inmanta_plugins/{name}", place.trim_end_matches('/'));
            if world.is_file(&format!("{package}/model/_init.cf")) {
                return module(Found::V2 {
                    root: package.clone(),
                    package,
                });
            }
            if world.is_file(&format!("{package}/__init__.py"))
                && world.is_file(&format!("{place}/model/_init.cf"))
            {
                return module(Found::V2 {
                    root: place,
                    package,
                });
            }
        }
    }
    if builtin::has_module(name) {
        return module(Found::Builtin);
    }
    None
}

/// The names of all modules that the project can import.
pub fn names(world: &dyn World, project: &Project) -> Vec<String> {
    let mut names: Vec<String> = ["std", "fs", "exec"].map(str::to_owned).to_vec();
    let mut directories = project.module_path.clone();
    for packages in site_packages(world) {
        directories.push(format!("{packages}/inmanta_plugins"));
    }
    for directory in directories {
        let below = world.list(directory.trim_end_matches('/'));
        let modules = below.iter().filter_map(|name| name.strip_suffix('/'));
        names.extend(modules.map(str::to_owned));
    }
    names.retain(|name| find(world, project, name).is_some());
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

/// Where the packages of the project's virtual environment lie. Source: language.md 11.3.
pub(super) fn site_packages(world: &dyn World) -> Vec<String> {
    let environment = environment(world);
    let libraries = environment.map(|environment| format!("{environment}/lib"));
    libraries
        .iter()
        .flat_map(|lib| {
            let pythons = world.list(lib).into_iter();
            pythons.map(move |python| format!("{lib}/{python}site-packages"))
        })
        .collect()
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
            Found::Builtin => None,
            Found::V1(root) | Found::V2 { root, .. } => Some(root),
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
            Found::Builtin => return None,
            Found::V1(root) => format!("{root}/plugins"),
            Found::V2 { package, .. } => package.clone(),
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
    if names.iter().any(|name| name == "__init__.py") {
        files.push(PythonFile {
            module: module.to_owned(),
            path: format!("{directory}/__init__.py"),
            package: true,
        });
    }
    for name in &names {
        if let Some(stem) = name.strip_suffix(".py")
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
