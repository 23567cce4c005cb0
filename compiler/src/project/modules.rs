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
    for environment in [".env", ".venv", "venv"] {
        for python in world.list(&format!("{environment}/lib")) {
            let package = format!("{environment}/lib/{python}site-packages/inmanta_plugins/{name}");
            if world.is_file(&format!("{package}/model/_init.cf")) {
                return module(Found::V2 {
                    root: package.clone(),
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
    for environment in [".env", ".venv", "venv"] {
        for python in world.list(&format!("{environment}/lib")) {
            directories.push(format!(
                "{environment}/lib/{python}site-packages/inmanta_plugins"
            ));
        }
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
        let candidates = if below.is_empty() {
            vec![format!("{root}/model/_init.cf")]
        } else {
            vec![
                format!("{root}/model/{below}/_init.cf"),
                format!("{root}/model/{below}.cf"),
            ]
        };
        for path in candidates {
            if world.is_file(&path) {
                return world.read_text(&path).map(|text| Some((path, text)));
            }
        }
        Ok(None)
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
