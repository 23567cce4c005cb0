//! Which Python code the handlers of a compiled model need, kept by content for the version that is made of it.
//!
//! An executor gets the modules of the types of its resources, of their references and mutators, the modules that provide
//! for such a type, and all that these import. What a module imports is read off its text, rather too much than too little:
//! one that is not needed only costs time. Source: deploy.md 5.1; issue 4, 6.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use steward_compiler::Resource;
use steward_compiler::protocol::PythonModule;

use crate::deploy::{CodeFile, CodeModule, Content};
use crate::files::Files;

const ROOT: &str = "inmanta_plugins";

/// A module and the text of its files.
struct Source<'a> {
    module: &'a PythonModule,
    files: Vec<Vec<u8>>,
    text: String,
}

/// Keeps the code that `resources` need of `modules`.
///
/// # Errors
/// A file cannot be read, or not be kept.
pub(super) fn keep(
    modules: &[PythonModule],
    resources: &[Resource],
    store: &Files,
) -> io::Result<Vec<CodeModule>> {
    let typed = resources
        .iter()
        .map(|resource| (resource.entity_type.as_str(), resource.attributes.as_str()));
    let types = types_of(typed);
    if types.is_empty() {
        return Ok(Vec::new());
    }
    let sources: Vec<Source<'_>> = modules.iter().map(read).collect::<io::Result<_>>()?;
    let needed = needed(&sources, &types);
    let kept = sources
        .iter()
        .filter(|source| needed.contains(source.module.name.as_str()));
    kept.map(|source| {
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
        })
    })
    .collect()
}

fn read(module: &PythonModule) -> io::Result<Source<'_>> {
    let files = module.files.iter().map(|file| {
        fs::read(&file.path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.path)))
    });
    let files: Vec<Vec<u8>> = files.collect::<io::Result<_>>()?;
    let texts = files.iter().map(|content| String::from_utf8_lossy(content));
    Ok(Source {
        module,
        text: texts.collect::<Vec<_>>().join("\n"),
        files,
    })
}

/// The types of resources, given with their attributes, and of the references and mutators in them.
fn types_of<'a>(resources: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<&'a str> {
    const KEY: &str = "\"type\": \"";
    let mut types = BTreeSet::new();
    for (entity_type, attributes) in resources {
        types.insert(entity_type);
        let has_some = ["\"references\": [{", "\"mutators\": [{"]
            .iter()
            .any(|list| attributes.contains(list));
        if has_some {
            let found = attributes.split(KEY).skip(1);
            types.extend(found.filter_map(|rest| rest.split_once('"').map(|(name, _)| name)));
        }
    }
    types
}

/// The names of the modules that are needed for `types`.
fn needed<'a>(sources: &[Source<'a>], types: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let of_types: BTreeSet<&str> = types
        .iter()
        .filter_map(|name| name.split("::").next())
        .collect();
    let names: BTreeMap<&str, &Source<'a>> = sources
        .iter()
        .map(|source| (source.module.name.as_str(), source))
        .collect();
    let provides = |source: &Source<'_>| {
        let mentioned = types.iter().any(|name| {
            [format!("\"{name}\""), format!("'{name}'")]
                .iter()
                .any(|quoted| source.text.contains(quoted))
        });
        mentioned && source.text.contains("provider")
    };
    let is_first =
        |source: &&Source<'a>| of_types.contains(source.module.name.as_str()) || provides(source);
    let mut open: Vec<&Source<'a>> = sources.iter().filter(is_first).collect();
    let mut needed = BTreeSet::new();
    while let Some(source) = open.pop() {
        if !needed.insert(source.module.name.as_str()) {
            continue;
        }
        let imported = names
            .iter()
            .filter(|(name, _)| !needed.contains(**name) && imports(&source.text, name));
        open.extend(imported.map(|(_, source)| *source));
    }
    needed
}

/// Whether a text may import the module `name`.
fn imports(text: &str, name: &str) -> bool {
    let mut is_open = text.contains("from ..");
    for rest in text.split(ROOT).skip(1) {
        let below = rest.strip_prefix('.').unwrap_or_default();
        let first: &str = below.split(|c| !is_word(c)).next().unwrap_or_default();
        // What asks for the package's path goes through all of it.
        if first == name || first.starts_with("__") {
            return true;
        }
        // A name that is put together, or `from inmanta_plugins import`.
        match below.chars().next() {
            Some('{' | '%' | '"' | '\'') => return true,
            _ => is_open |= first.is_empty(),
        }
    }
    is_open && text.split(|c| !is_word(c)).any(|word| word == name)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read_off_the_text() {
        for text in [
            "import inmanta_plugins.net",
            "from inmanta_plugins.net.ip import x",
            "from inmanta_plugins import (a,\n    net)",
            "from ..net import x",
            "importlib.import_module(f'inmanta_plugins.{name}')",
            "importlib.import_module('inmanta_plugins.' + name)",
            "pkgutil.iter_modules(inmanta_plugins.__path__)",
        ] {
            assert!(imports(text, "net"), "{text}");
        }
        for text in [
            "import net",
            "import inmanta_plugins.network",
            "from inmanta_plugins import network",
            "x = 'net'",
        ] {
            assert!(!imports(text, "net"), "{text}");
        }
    }

    #[test]
    fn modules_are_needed_for_types_providers_and_imports() {
        let module = |name: &str| PythonModule {
            name: name.to_owned(),
            root: String::new(),
            files: Vec::new(),
        };
        let texts = [
            ("net", "from inmanta_plugins.util import x"),
            ("util", ""),
            ("refs", ""),
            ("extra", "@provider('net::Row', name='other')"),
            ("unused", "import inmanta_plugins.net"),
        ];
        let modules: Vec<PythonModule> = texts.iter().map(|(name, _)| module(name)).collect();
        let sources: Vec<Source<'_>> = modules
            .iter()
            .zip(texts)
            .map(|(module, (_, text))| Source {
                module,
                files: Vec::new(),
                text: text.to_owned(),
            })
            .collect();
        let attributes = "{\"references\": [{\"args\": [], \"type\": \"refs::Secret\"}]}";
        let types = types_of([("net::Row", attributes)].into_iter());
        let found: Vec<&str> = needed(&sources, &types).into_iter().collect();
        assert_eq!(found, ["extra", "net", "refs", "util"]);
    }
}
