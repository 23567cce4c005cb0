//! Which files a compile consists of, in which order. Source: docs/reference/language.md § 3.2.

use std::collections::HashMap;
use std::io;

use super::module_metadata::{self, Wrong};
use super::modules::{ModuleLocation, package_file};
use super::{Module, Project, find};
use crate::diagnostics::{Fail, Warning, closest, fail};
use crate::intern::Interner;
use crate::span::{FileId, Loc, Sources};
use crate::syntax::{self, ast};
use crate::world::World;

/// The largest number of files of one compile.
const MAX_FILES: usize = 20_000;

pub struct SourceModule {
    /// `__config__`, `m`, `m::a`.
    pub namespace: String,
    pub file: FileId,
    pub ast: ast::Ast,
    /// Of std itself: it does not import itself.
    pub is_std: bool,
}

#[derive(Default)]
pub struct Loaded {
    /// The files, in the order in which their definitions and statements are processed.
    pub sources: Vec<SourceModule>,
    /// The modules, in the order in which they were first loaded.
    pub modules: Vec<Module>,
    /// What could not be loaded, in the order in which it was met.
    pub errors: Vec<Fail>,
    /// Some file has mistakes of syntax: what it defines is not known.
    pub has_broken_syntax: bool,
}

struct Loader<'a> {
    world: &'a dyn World,
    project: &'a Project,
    sources: &'a mut Sources,
    names: &'a mut Interner,
    warnings: &'a mut Vec<Warning>,
    modules: Vec<Module>,
    errors: Vec<Fail>,
    has_broken_syntax: bool,
    /// Loaded files of each module.
    files: Vec<Vec<SourceModule>>,
    loaded: HashMap<String, ()>,
    stack: Vec<(String, Loc)>,
    n_files: usize,
}

pub fn load(
    world: &dyn World,
    project: &Project,
    sources: &mut Sources,
    names: &mut Interner,
    warnings: &mut Vec<Warning>,
) -> Result<Loaded, Fail> {
    let mut loader = Loader {
        world,
        project,
        sources,
        names,
        warnings,
        modules: Vec::new(),
        errors: Vec::new(),
        has_broken_syntax: false,
        files: Vec::new(),
        loaded: HashMap::new(),
        stack: Vec::new(),
        n_files: 0,
    };
    loader
        .warnings
        .extend(project.warnings.iter().map(|message| Warning {
            kind: "ProjectConfigurationWarning",
            message: message.clone(),
            loc: Loc::NONE,
            notes: Vec::new(),
        }));
    let outside = project
        .module_path
        .iter()
        .filter(|path| world.is_outside(path));
    loader.warnings.extend(outside.map(|path| Warning {
        kind: "ProjectConfigurationWarning",
        message: format!(
            "modulepath: {path} leads out of the project: a server looks for modules in the project and its environment only"
        ),
        loc: Loc::NONE,
        notes: Vec::new(),
    }));
    let text = world.read_text("main.cf").map_err(|error| {
        let message = match error.kind() {
            io::ErrorKind::NotFound => {
                "there is no main.cf: a project has one beside its project.yml".to_owned()
            }
            _ => format!("main.cf can not be read: {error}"),
        };
        fail("CompilerException", Loc::NONE, message)
    })?;
    let main = loader.parse("main.cf".to_owned(), text, "__config__", false)?;
    while let Some((namespace, import)) = loader.stack.pop() {
        if let Err(error) = loader.load_namespace(&namespace, import) {
            loader.errors.push(error);
        }
    }
    if loader.errors.is_empty()
        && let Err(error) =
            super::requirements::check(world, &project.requires, &loader.modules, loader.warnings)
    {
        loader.errors.push(error);
    }
    if loader.errors.is_empty() {
        let broken = |module: &Module| without_init(world, module);
        loader.errors.extend(loader.modules.iter().find_map(broken));
    }
    let mut all = vec![main];
    all.extend(loader.files.into_iter().flatten());
    Ok(Loaded {
        sources: all,
        modules: loader.modules,
        errors: loader.errors,
        has_broken_syntax: loader.has_broken_syntax,
    })
}

/// The Python of a module of the first generation is a package, or there is none.
/// Source: docs/reference/language.md § 11.4.
fn without_init(world: &dyn World, module: &Module) -> Option<Fail> {
    let ModuleLocation::V1(root) = &module.found else {
        return None;
    };
    let plugins = format!("{root}/plugins");
    if !world.is_dir(&plugins) || package_file(world, &plugins).is_some() {
        return None;
    }
    let message = format!("{plugins} is no package of Python: it has no file __init__.py");
    let error = fail("InvalidModuleException", Loc::NONE, message);
    Some(error.help(format!("add {plugins}/__init__.py, which may be empty")))
}

impl Loader<'_> {
    fn parse(
        &mut self,
        name: String,
        text: String,
        namespace: &str,
        is_std: bool,
    ) -> Result<SourceModule, Fail> {
        self.n_files += 1;
        if self.n_files > MAX_FILES {
            return Err(fail(
                "CompilerException",
                Loc::NONE,
                format!("the project has more than {MAX_FILES} model files"),
            ));
        }
        // The language ends the last line itself.
        let file = self.sources.add_file(name, text + "\n");
        let text = &self.sources.files[file.0 as usize].text;
        // Nobody else's module can have that name.
        let parsed = if is_std {
            syntax::parse_builtin(file, text, self.names)
        } else {
            syntax::parse(file, text, self.names)
        };
        for (message, span) in parsed.warnings {
            let loc = self.sources.loc(span);
            self.warnings.push(Warning {
                kind: "ParserWarning",
                message,
                loc,
                notes: Vec::new(),
            });
        }
        for error in parsed.errors {
            let loc = error.span.map_or(Loc::NONE, |span| self.sources.loc(span));
            self.has_broken_syntax = true;
            self.errors.push(match error.first {
                Some(first) => {
                    let first = self.sources.loc(first);
                    crate::diagnostics::duplicate(loc, first, error.message)
                }
                None => {
                    let help = error.help();
                    let failure = fail(error.kind, loc, error.message);
                    match help {
                        Some(help) => failure.help(help),
                        None => failure,
                    }
                }
            });
        }
        if !is_std {
            self.stack.push(("std".to_owned(), Loc::NONE));
        }
        for item in &parsed.ast.items {
            if let ast::Item::Import { module, span, .. } = item {
                let loc = self.sources.loc(*span);
                self.stack
                    .push((self.names.text(module.symbol).to_owned(), loc));
            }
        }
        Ok(SourceModule {
            namespace: namespace.to_owned(),
            file,
            ast: parsed.ast,
            is_std,
        })
    }

    /// The metadata of a module are as its tools want them.
    fn check_metadata(&mut self, module: &Module, namespace: &str, loc: Loc) -> Result<(), Fail> {
        let name = &module.name;
        let (root, file) = match &module.found {
            ModuleLocation::Builtin => return Ok(()),
            ModuleLocation::V1(root) => (root, format!("{root}/module.yml")),
            ModuleLocation::V2 { root, .. } => (root, format!("{root}/setup.cfg")),
        };
        if !self.world.is_file(&file) {
            return Ok(());
        }
        let text = self.world.read_text(&file);
        let text =
            text.map_err(|error| Wrong::Metadata(format!("{file} can not be read: {error}")));
        let checked = text.and_then(|text| match &module.found {
            ModuleLocation::V1(_) => module_metadata::v1(&file, &text),
            _ => module_metadata::v2(name, &file, &text),
        });
        match checked {
            Ok(metadata) => {
                if matches!(module.found, ModuleLocation::V1(_)) {
                    self.warn_of_v1(&metadata.name);
                }
                if metadata.is_deprecated {
                    self.warn_of_deprecated(&metadata.name);
                }
                Ok(())
            }
            Err(Wrong::Place(reason)) => {
                let message = format!("The module at {root} is not {name}: {reason}");
                Err(fail("InvalidModuleException", Loc::NONE, message))
            }
            Err(Wrong::Metadata(message)) => {
                let metadata = fail("InvalidMetadata", Loc::NONE, message);
                let message = format!("Could not load module {name}");
                let invalid = fail("InvalidModuleException", Loc::NONE, message).cause(*metadata);
                let message = format!("Failed to load module {namespace}");
                Err(fail("ModuleLoadingException", loc, message).cause(*invalid))
            }
        }
    }

    /// Source: docs/reference/language.md § 11.4.
    fn warn_of_replaced(&mut self, module: &Module) {
        let name = &module.name;
        let message = match &module.replaced {
            Some(ModuleLocation::V1(_)) => {
                format!(
                    "Module {name} is installed as a V1 module and a V2 module: V1 will be ignored."
                )
            }
            Some(ModuleLocation::V2 { root, .. }) => {
                format!("Module {name} is installed, and in the module path: {root} is ignored.")
            }
            Some(ModuleLocation::Builtin) | None => return,
        };
        self.warnings.push(Warning {
            kind: "InmantaWarning",
            message,
            loc: Loc::NONE,
            notes: Vec::new(),
        });
    }

    fn warn_of_v1(&mut self, module: &str) {
        self.warnings.push(Warning {
            kind: "InmantaWarning",
            message: format!(
                "Loaded V1 module {module}. The use of V1 modules is deprecated. Use the equivalent V2 module instead."
            ),
            loc: Loc::NONE,
            notes: Vec::new(),
        });
    }

    fn warn_of_deprecated(&mut self, module: &str) {
        self.warnings.push(Warning {
            kind: "ModuleDeprecationWarning",
            message: format!("Module {module} has been deprecated"),
            loc: Loc::NONE,
            notes: Vec::new(),
        });
    }

    fn load_namespace(&mut self, namespace: &str, import: Loc) -> Result<(), Fail> {
        if self.loaded.contains_key(namespace) {
            return Ok(());
        }
        let top = namespace.split("::").next().unwrap_or(namespace);
        let index = match self.modules.iter().position(|module| module.name == top) {
            Some(index) => index,
            None => {
                let Some(module) = find(self.world, self.project, top) else {
                    if let Some(reason) = self.project.refusal(self.world, top) {
                        let cause = fail("InvalidModuleException", Loc::NONE, reason);
                        let message = format!("Failed to load module {namespace}");
                        return Err(fail("ModuleLoadingException", import, message).cause(*cause));
                    }
                    let cause = fail(
                        "ModuleNotFoundException",
                        Loc::NONE,
                        format!("Could not find module {top}"),
                    );
                    let error = fail(
                        "ModuleLoadingException",
                        import,
                        format!("Failed to load module {namespace}"),
                    );
                    let places = super::missing::places(self.world, self.project, top);
                    let error = error.cause(*cause).note(places, Loc::NONE);
                    let requires = &self.project.requires;
                    let advice =
                        super::requirements::advice(self.world, requires, &self.modules, top);
                    if let Some(advice) = advice {
                        return Err(error.help(advice));
                    }
                    let known = super::modules::names(self.world, self.project);
                    let similar = closest(top, known.iter().map(String::as_str));
                    return Err(error
                        .did_you_mean(similar.map(|similar| namespace.replacen(top, similar, 1)))
                        .or_help(&super::missing::command(top)));
                };
                self.warn_of_replaced(&module);
                self.check_metadata(&module, namespace, import)?;
                self.modules.push(module);
                self.files.push(Vec::new());
                self.modules.len() - 1
            }
        };
        let ends = namespace
            .match_indices("::")
            .map(|(at, _)| at)
            .chain([namespace.len()]);
        for end in ends {
            let prefix = &namespace[..end];
            if self.loaded.insert(prefix.to_owned(), ()).is_some() {
                continue;
            }
            let source = self.modules[index].source(self.world, prefix);
            let (name, text) = match source {
                Ok(Some(source)) => source,
                Ok(None) => {
                    let reason = format!("could not locate module with name: {prefix}");
                    let cause = fail("InvalidModuleException", Loc::NONE, reason);
                    let error = fail(
                        "ModuleLoadingException",
                        import,
                        format!("Failed to load module {namespace}"),
                    );
                    return Err(error.cause(*cause));
                }
                Err(error) => {
                    let cause = fail("InvalidModuleException", Loc::NONE, error.to_string());
                    let error = fail(
                        "ModuleLoadingException",
                        import,
                        format!("Failed to load module {namespace}"),
                    );
                    return Err(error.cause(*cause));
                }
            };
            let is_std = top == "std";
            let module = self.parse(name, text, prefix, is_std)?;
            self.files[index].push(module);
        }
        Ok(())
    }
}
