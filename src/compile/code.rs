//! Which Python code the handlers of a compiled model need, kept by content for the version that is made of it.
//!
//! A resource type needs its module, those of the references and mutators of its resources, the modules that provide for
//! such a type, and all that these import. What a module imported while it was loaded the Python host has seen, however it
//! was done; what it may import later is read off its text, rather too much than too little: one that is not needed only
//! costs time. Source: docs/reference/deployment.md § 5.1.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use steward_compiler::protocol::PythonModule;
use steward_compiler::{Compiled, Resource};

use crate::domain::{CodeFile, CodeModule, Content};
use crate::files::Files;
use crate::modules::requirements_of_module;
use crate::python::imported_light;

const ROOT: &str = "inmanta_plugins";

/// The code of a version.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) modules: Vec<CodeModule>,
    /// The names of the modules that each resource type needs.
    pub(super) types: BTreeMap<String, Vec<String>>,
    /// What the modules say that they require, and what they import of that which the reference would bring along.
    pub(super) requirements: BTreeMap<String, BTreeSet<String>>,
}

/// A module, its files, and what it says of others.
struct Source<'a> {
    module: &'a PythonModule,
    files: Vec<Vec<u8>>,
    mentions: Mentions,
}

/// What the text of a module says of others, read in one go.
#[derive(Default)]
struct Mentions {
    /// The modules of the language that it imports.
    modules: BTreeSet<String>,
    /// It may import any.
    all: bool,
    /// It may provide for any type.
    any_type: bool,
    /// Quoted names of types, if it has providers.
    types: BTreeSet<String>,
}

/// Keeps the code that `resources` need of the modules of their compile.
///
/// # Errors
/// A file cannot be read, or not be kept.
pub(super) fn keep(compiled: &Compiled, resources: &[Resource], store: &Files) -> io::Result<Kept> {
    let typed = resources
        .iter()
        .map(|resource| (resource.entity_type.as_str(), resource.attributes.as_str()));
    let types = types_of(typed);
    if types.is_empty() {
        return Ok(Kept::default());
    }
    let modules = &compiled.python_modules;
    let names: BTreeSet<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    let sources = modules.iter().map(|module| read(module, &names));
    let mut sources: Vec<Source<'_>> = sources.collect::<io::Result<_>>()?;
    for source in &mut sources {
        let imports = compiled.python_imports.iter();
        let seen = imports.filter(|(importing, _)| *importing == source.module.name);
        let seen = seen.map(|(_, imported)| imported.clone());
        source.mentions.modules.extend(seen);
    }
    let by_type = types
        .iter()
        .map(|(resource_type, types)| (*resource_type, needed(&sources, types)));
    let by_type: BTreeMap<&str, BTreeSet<&str>> = by_type.collect();
    let needed: BTreeSet<&str> = by_type.values().flatten().copied().collect();
    let is_needed = |source: &&Source<'_>| needed.contains(source.module.name.as_str());
    let kept = sources.iter().filter(is_needed);
    let requirements = kept.clone().map(Source::requirements).collect();
    let kept = kept.map(|source| {
        let files = source.module.files.iter().zip(&source.files);
        let files = files.map(|(file, content)| {
            Ok(CodeFile {
                module: file.module.clone(),
                package: file.package,
                content: Content::Sha1(store.put(content)?),
            })
        });
        Ok(CodeModule {
            name: source.module.name.clone(),
            files: files.collect::<io::Result<_>>()?,
            requirements: BTreeSet::new(),
        })
    });
    let modules = kept.collect::<io::Result<_>>()?;
    let types = by_type.into_iter().map(|(resource_type, needed)| {
        let needed = needed.into_iter().map(str::to_owned).collect();
        (resource_type.to_owned(), needed)
    });
    Ok(Kept {
        modules,
        types: types.collect(),
        requirements,
    })
}

impl Source<'_> {
    /// The name of the module, and its requirements.
    fn requirements(&self) -> (String, BTreeSet<String>) {
        let mut required: BTreeSet<String> = requirements_of_module(Path::new(&self.module.root))
            .into_iter()
            .collect();
        for content in &self.files {
            required.extend(imported_light(&String::from_utf8_lossy(content)).map(str::to_owned));
        }
        (self.module.name.clone(), required)
    }
}

fn read<'a>(module: &'a PythonModule, names: &BTreeSet<&str>) -> io::Result<Source<'a>> {
    let mut files = Vec::new();
    let mut mentions = Mentions::default();
    for file in &module.files {
        let content = fs::read(&file.path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.path)))?;
        if file.path.ends_with(".pyc") {
            // There is no text that says what it imports, or what it provides for.
            (mentions.all, mentions.any_type) = (true, true);
        } else {
            mentions.read(&String::from_utf8_lossy(&content), names);
        }
        files.push(content);
    }
    Ok(Source {
        module,
        files,
        mentions,
    })
}

/// For each type of the resources, given with their attributes, itself and those of the references and mutators in them.
fn types_of<'a>(
    resources: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    const KEY: &str = "\"type\": \"";
    let mut by_type: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (entity_type, attributes) in resources {
        let types = by_type.entry(entity_type).or_default();
        types.insert(entity_type);
        let has_some = ["\"references\": [{", "\"mutators\": [{"]
            .iter()
            .any(|list| attributes.contains(list));
        if has_some {
            let found = attributes.split(KEY).skip(1);
            types.extend(found.filter_map(|rest| rest.split_once('"').map(|(name, _)| name)));
        }
    }
    by_type
}

/// The names of the modules that are needed for `types`.
fn needed<'a>(sources: &[Source<'a>], types: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let of_types: BTreeSet<&str> = types
        .iter()
        .filter_map(|name| name.split("::").next())
        .collect();
    let provides = |mentions: &Mentions| {
        mentions.any_type || types.iter().any(|name| mentions.types.contains(*name))
    };
    let is_first = |source: &&Source<'a>| {
        of_types.contains(source.module.name.as_str()) || provides(&source.mentions)
    };
    let mut open: Vec<&Source<'a>> = sources.iter().filter(is_first).collect();
    let mut needed = BTreeSet::new();
    while let Some(source) = open.pop() {
        if !needed.insert(source.module.name.as_str()) {
            continue;
        }
        let Mentions { modules, all, .. } = &source.mentions;
        let imported = |other: &&Source<'a>| *all || modules.contains(&other.module.name);
        open.extend(sources.iter().filter(imported));
    }
    needed
}

impl Mentions {
    /// Adds what a text says; `names` are those of all modules.
    fn read(&mut self, text: &str, names: &BTreeSet<&str>) {
        // `from inmanta_plugins import`, or from the package above: names stand anywhere.
        let mut is_open = text.contains("from ..");
        for rest in text.split(ROOT).skip(1) {
            let below = rest.strip_prefix('.').unwrap_or_default();
            let first = below.split(|c| !is_word(c)).next().unwrap_or_default();
            match below.chars().next() {
                // A name that is put together.
                Some('{' | '%' | '"' | '\'') => self.all = true,
                // What asks for the package's path goes through all of it.
                _ if first.starts_with("__") => self.all = true,
                _ if first.is_empty() => is_open = true,
                _ => {
                    self.modules.insert(first.to_owned());
                }
            }
        }
        self.all |= imports_what_it_computes(text);
        if is_open {
            let words = text.split(|c| !is_word(c));
            let named = words.filter(|word| names.contains(word));
            self.modules.extend(named.map(str::to_owned));
        }
        if text.contains("provider") {
            let quoted = text.split(['"', '\'']);
            let types = quoted
                .filter(|part| part.contains("::") && part.chars().all(|c| is_word(c) || c == ':'));
            self.types.extend(types.map(str::to_owned));
        }
    }
}

/// Whether a text has a function that imports what it is told, and does not tell it by a plain text.
fn imports_what_it_computes(text: &str) -> bool {
    const OTHERS: &[&str] = &[
        "exec_module",
        "load_module",
        "spec_from_",
        "runpy",
        "pkgutil",
    ];
    let functions = ["import_module", "__import__"].into_iter();
    let mut uses = functions.flat_map(|function| {
        let found = text.match_indices(function);
        found.map(move |(at, _)| (&text[..at], text[at + function.len()..].trim_start()))
    });
    uses.any(|(before, rest)| match rest.strip_prefix('(') {
        Some(argument) => !begins_with_text(argument.trim_start()),
        // Anything but its own import hands it on to somebody.
        None => !before.trim_end().ends_with(" import") || rest.starts_with("as "),
    }) || OTHERS.iter().any(|other| text.contains(other))
}

/// Whether the first argument is a text and no more.
fn begins_with_text(arguments: &str) -> bool {
    let quote = arguments.chars().next().filter(|c| ['"', '\''].contains(c));
    let behind = quote.and_then(|quote| arguments[1..].split_once(quote));
    behind.is_some_and(|(_, behind)| behind.trim_start().starts_with([',', ')']))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read_off_the_text() {
        let imports = |text: &str| {
            let mut mentions = Mentions::default();
            mentions.read(text, &BTreeSet::from(["net", "other"]));
            mentions.all || mentions.modules.contains("net")
        };
        for text in [
            "import inmanta_plugins.net",
            "from inmanta_plugins.net.ip import x",
            "from inmanta_plugins import (a,\n    net)",
            "from ..net import x",
            "importlib.import_module(f'inmanta_plugins.{name}')",
            "importlib.import_module('inmanta_plugins.' + name)",
            "pkgutil.iter_modules(inmanta_plugins.__path__)",
            "importlib.import_module(ROOT + name)",
            "importlib.import_module(\n    name)",
            "__import__(name)",
            "importlib.import_module('inmanta' + rest)",
            "load = importlib.import_module",
            "from importlib import import_module as load",
        ] {
            assert!(imports(text), "{text}");
        }
        for text in [
            "import net",
            "import inmanta_plugins.network",
            "from inmanta_plugins import network",
            "x = 'net'",
            "from importlib import import_module\nimport_module('json')",
            "importlib.import_module('yaml', None)",
        ] {
            assert!(!imports(text), "{text}");
        }
    }

    #[test]
    fn modules_are_needed_for_types_providers_and_imports() {
        let texts = [
            ("net", "from inmanta_plugins.util import x"),
            ("util", ""),
            ("refs", ""),
            ("extra", "@provider('net::Row', name='other')"),
            ("unused", "import inmanta_plugins.net"),
        ];
        let names = texts.iter().map(|(name, _)| *name).collect();
        let modules = texts.map(|(name, _)| PythonModule {
            name: name.to_owned(),
            root: String::new(),
            files: Vec::new(),
        });
        let sources: Vec<Source<'_>> = modules
            .iter()
            .zip(texts)
            .map(|(module, (_, text))| {
                let mut mentions = Mentions::default();
                mentions.read(text, &names);
                Source {
                    module,
                    files: Vec::new(),
                    mentions,
                }
            })
            .collect();
        let attributes = "{\"references\": [{\"args\": [], \"type\": \"refs::Secret\"}]}";
        let types = types_of([("net::Row", attributes), ("util::Row", "{}")].into_iter());
        let found: Vec<&str> = needed(&sources, &types["net::Row"]).into_iter().collect();
        assert_eq!(
            Vec::from_iter(needed(&sources, &types["util::Row"])),
            ["util"]
        );
        assert_eq!(found, ["extra", "net", "refs", "util"]);
    }
}
