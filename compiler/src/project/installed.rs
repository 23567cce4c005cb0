//! Modules that are installed as Python packages.
//!
//! What counts is where the Python that will run finds `inmanta_plugins.<name>`, but starting it takes longer than a small
//! compile. Nearly always its files say it: folders of packages, and `.pth` files with more folders. Only where something
//! runs at the start of Python that may find packages in another way (an editable installation by setuptools does) Python
//! is asked, and who asks it keeps the answer by the digest of what it depends on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use md5::{Digest, Md5};

use super::modules::{Module, ModuleLocation, environment, package_file};
use crate::world::{LocatedPackages, PackageQuestion, PythonPackages, World};

/// The package above all modules.
const ROOT: &str = "inmanta_plugins";
/// How the metadata of an installed module are named, before its own name.
const DISTRIBUTION: &str = "inmanta_module_";

/// Where the path of an archive ends, and that of what is in it begins.
const ARCHIVE: &str = ".zip/";

/// Whether a folder is in an archive. Names of files stand in it as they are.
fn is_in_archive(world: &dyn World, folder: &str) -> bool {
    let Some(end) = folder.find(ARCHIVE) else {
        return false;
    };
    let (archive, inside) = folder.split_at(end + ARCHIVE.len() - 1);
    let inside = format!("{}/", inside.trim_start_matches('/'));
    let content = world.read(archive).unwrap_or_default();
    content
        .windows(inside.len())
        .any(|window| window == inside.as_bytes())
}

/// The folders of `PYTHONPATH`, if it is a person who compiles: that person's Python looks there first. A server has its own.
pub(super) fn python_path(world: &dyn World) -> Vec<String> {
    let is_person = world
        .packages()
        .is_some_and(|python| python.lends_its_own());
    let path = world.env("PYTHONPATH").filter(|_| is_person);
    let path = path.unwrap_or_default();
    let folders = path.split(':').filter(|folder| !folder.is_empty());
    folders
        .map(|folder| world.absolute(folder.trim_end_matches('/')))
        .collect()
}

/// The packages of one project, as far as files say where they are. Read once for a compile.
#[derive(Debug, Default)]
pub(super) struct Installed {
    environment: Option<String>,
    /// The folders in which Python looks, in its order.
    path: Vec<String>,
    /// The files do not say all: the digest of those that do say something.
    asks: Option<String>,
    /// For each module the folder of its metadata.
    distributions: BTreeMap<String, String>,
    /// Names of modules in the module path.
    others: Vec<String>,
    /// What Python has answered to this compile.
    located: Mutex<LocatedPackages>,
    /// Python does not answer. That may have taken long, so it is not asked again.
    is_silent: AtomicBool,
}

impl Installed {
    pub(super) fn read(world: &dyn World, module_path: &[String]) -> Self {
        let environment = environment(world).or_else(|| world.outer_environment());
        let mut installed = Self::default();
        if let Some(environment) = &environment {
            installed.read_environment(world, environment);
        }
        if installed.asks.is_some() {
            let entries = module_path.iter().flat_map(|folder| world.list(folder));
            let names = entries.filter_map(|entry| entry.strip_suffix('/').map(str::to_owned));
            installed.others = names.collect();
        }
        installed.environment = environment.map(|environment| world.absolute(&environment));
        installed.look_first_in(python_path(world));
        installed
    }

    /// Folders that Python looks in before those of the environment.
    fn look_first_in(&mut self, folders: Vec<String>) {
        if folders.is_empty() {
            return;
        }
        // Where Python has to be asked, its answer depends on them.
        if let Some(digest) = &self.asks {
            let mut read = Read::default();
            read.add(digest);
            folders.iter().for_each(|folder| read.add(folder));
            self.asks = Some(read.digest());
        }
        self.path.splice(0..0, folders);
    }

    fn read_environment(&mut self, world: &dyn World, environment: &str) {
        let mut read = Read::default();
        let configuration = world.read_text(&format!("{environment}/pyvenv.cfg"));
        let configuration = configuration.unwrap_or_default();
        read.add(&world.absolute(environment));
        read.add(&configuration);
        // The packages of another environment count, too.
        let mut asks = configuration.lines().any(|line| {
            let option = line.split_once('=');
            option.is_some_and(|(name, value)| {
                name.trim() == "include-system-site-packages" && value.trim() == "true"
            })
        });
        let library = format!("{environment}/lib");
        for python in world.list(&library) {
            let packages = format!("{library}/{python}site-packages");
            self.path.push(packages.clone());
            for entry in world.list(&packages) {
                read.add(&entry);
                if let Some(name) = module_of_metadata(&entry) {
                    let folder = format!("{packages}/{}", entry.trim_end_matches('/'));
                    self.distributions.insert(name, folder);
                }
                if entry.ends_with(".pth") && !entry.starts_with('.') {
                    asks |= self.read_path_file(world, &packages, &entry, &mut read);
                }
            }
        }
        self.asks = asks.then(|| read.digest());
    }

    /// A file of paths, one a line; what a line runs instead only Python knows, which is the answer.
    fn read_path_file(
        &mut self,
        world: &dyn World,
        packages: &str,
        file: &str,
        read: &mut Read,
    ) -> bool {
        let text = world.read_text(&format!("{packages}/{file}"));
        let text = text.unwrap_or_default();
        read.add(&text);
        let mut runs = false;
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.starts_with("import ") && !line.starts_with("import\t") {
                let folder = match line.starts_with('/') {
                    true => line.to_owned(),
                    false => format!("{packages}/{line}"),
                };
                self.path.push(folder.trim_end_matches('/').to_owned());
            } else if !finds_nothing(line) {
                runs = true;
                // The finder of an editable installation lies beside its file.
                let words = line.split([' ', '\t', ',', ';']).skip(1);
                for word in words.take(4).filter(|word| !word.is_empty()) {
                    let finder = world.read_text(&format!("{packages}/{word}.py"));
                    read.add(&finder.unwrap_or_default());
                }
            }
        }
        runs
    }

    /// The module of this name, if it is installed, and a package that is one.
    pub(super) fn module(&self, world: &dyn World, name: &str) -> Option<Module> {
        let module = |folder: String| self.module_at(world, name, folder);
        let asked = world
            .packages()
            .filter(|python| python.is_running() || self.asks.is_some());
        if let Some(python) = asked
            && let Some(located) = self.ask(world, python, name)
        {
            return located.and_then(module);
        }
        let mut folders = self.path.iter().map(|path| format!("{path}/{ROOT}/{name}"));
        folders.find_map(module)
    }

    /// The module of this name beside a Python that runs where the project has no environment, if its files did not say so.
    pub(super) fn module_elsewhere(&self, world: &dyn World, name: &str) -> Option<Module> {
        let python = world.packages()?;
        if environment(world).is_some() || python.is_running() || !python.lends_its_own() {
            return None;
        }
        let question = PackageQuestion {
            environment: None,
            name,
            others: &[],
            digest: None,
        };
        let located = python.locate(question)?;
        let folder = located.modules.get(name).cloned().flatten()?;
        self.module_at(world, name, folder)
    }

    /// The folder of a module's package, as Python says; the outer `None`: it does not answer.
    fn ask(
        &self,
        world: &dyn World,
        python: &dyn PythonPackages,
        name: &str,
    ) -> Option<Option<String>> {
        let mut located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        if !python.is_running()
            && let Some(folder) = known(world, &located, name)
        {
            return Some(Some(folder));
        }
        if !located.modules.contains_key(name) {
            if self.is_silent.load(Ordering::Relaxed) {
                return None;
            }
            let question = PackageQuestion {
                environment: self.environment.as_deref(),
                name,
                others: &self.others,
                digest: self.asks.as_deref(),
            };
            let Some(answer) = python.locate(question) else {
                self.is_silent.store(true, Ordering::Relaxed);
                return None;
            };
            *located = answer;
        }
        let folder = known(world, &located, name);
        Some(folder.or_else(|| located.modules.get(name).cloned().flatten()))
    }

    /// A module in the folder of its package. Its root is that folder, or the folder of the sources that it was installed
    /// from, where they stay and are linked to. Source: docs/reference/language.md § 11.3, discovery.
    fn module_at(&self, world: &dyn World, name: &str, package: String) -> Option<Module> {
        let initial = package_file(world, &package)?;
        let found = |root: String| ModuleLocation::V2 {
            root,
            package: package.clone(),
            distribution: self.distributions.get(name).cloned(),
        };
        let module = |found| {
            Some(Module {
                name: name.to_owned(),
                found,
                replaced: None,
            })
        };
        if world.is_file(&format!("{package}/setup.cfg")) {
            return module(found(package.clone()));
        }
        let real = world.real(&initial);
        let real_package = real.rsplit_once('/').map_or("", |(folder, _)| folder);
        if let Some(sources) = real.rsplitn(4, '/').nth(3) {
            let has = |file: &str| world.is_file(&format!("{sources}/{file}"));
            let is_described = has("setup.cfg") || has("pyproject.toml");
            if is_described && has("model/_init.cf") {
                return module(found(sources.to_owned()));
            }
        }
        // Not built as the reference wants it, but all is there.
        let mut whole = [package.as_str(), real_package].into_iter();
        let whole = whole.find(|folder| world.is_file(&format!("{folder}/model/_init.cf")));
        whole.map(|root| found(root.to_owned())).and_then(module)
    }

    /// Why a package that Python finds is no module; `None`: it finds none.
    pub(super) fn refusal(&self, world: &dyn World, name: &str) -> Option<String> {
        let folders = self.path.iter().map(|path| format!("{path}/{ROOT}/{name}"));
        let located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = located.modules.get(name).cloned().flatten();
        let folder = answer
            .into_iter()
            .chain(folders)
            .find(|folder| world.is_dir(folder) || is_in_archive(world, folder))?;
        if folder.contains(ARCHIVE) {
            return Some(format!(
                "Package {ROOT}.{name} is installed in an archive, {folder}: a module has its files in a folder"
            ));
        }
        if package_file(world, &folder).is_none() {
            return Some(format!(
                "Package {ROOT}.{name} was installed but no __init__.py file could be found."
            ));
        }
        Some(format!(
            "The package at {folder} is no module: it has no setup.cfg and no model. Install a folder in place (`-e ./folder`, not `./folder`), or build it with `inmanta module build`, which puts the model into the package"
        ))
    }

    /// The folders in which packages are, with what packaging tools say of them.
    pub(super) fn paths(&self) -> &[String] {
        &self.path
    }

    /// The folders whose folders may be modules.
    pub(super) fn folders(&self) -> Vec<String> {
        let located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = self.path.iter().map(|path| format!("{path}/{ROOT}"));
        folders.chain(located.path.iter().cloned()).collect()
    }
}

/// The folder of a module, by an earlier answer of Python. A folder that came to the path since needs no other question.
fn known(world: &dyn World, located: &LocatedPackages, name: &str) -> Option<String> {
    let is_package = |folder: &String| package_file(world, folder).is_some();
    let answer = located.modules.get(name).cloned().flatten();
    let answer = answer.filter(is_package);
    answer.or_else(|| {
        let folders = located.path.iter().map(|path| format!("{path}/{name}"));
        folders.into_iter().find(is_package)
    })
}

/// Lines that run at the start of every Python of some tools, and have nothing to do with where packages are.
fn finds_nothing(line: &str) -> bool {
    line == "import _virtualenv" || line.starts_with("import os; var = 'SETUPTOOLS_USE_DISTUTILS'")
}

/// The module whose metadata lie in a folder of this name: `inmanta_module_net-1.2.0.dist-info/`.
fn module_of_metadata(entry: &str) -> Option<String> {
    let stem = entry.strip_suffix(".dist-info/")?;
    let (name, _) = stem.split_once('-')?;
    let name = name.to_lowercase().replace('.', "_");
    name.strip_prefix(DISTRIBUTION).map(str::to_owned)
}

/// What was read, for a digest.
#[derive(Default)]
struct Read(Md5);

impl Read {
    fn add(&mut self, text: &str) {
        crate::hash::add_part(&mut self.0, text);
    }

    fn digest(self) -> String {
        let digest: [u8; 16] = self.0.finalize().into();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
