//! The Python code of handlers, as an exporter on another machine sends it: its files are in the file store already, and the
//! version says which of them each module has. Source: docs/reference/deployment.md § 5.2, docs/reference/rest.md § 1.5.

use std::collections::BTreeSet;

use pep440_rs::Version;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::app::App;
use crate::domain::{
    CodeFile, CodeModule, Content, OWN_MODULES, PipOptions, VersionCode, check_requirement,
    module_of_requirement,
};
use crate::files;

/// Where the code of modules is, below the root of their packages.
const ROOT: &str = "inmanta_plugins/";

/// Projects require dozens of packages, and constrain hundreds.
const MAX_REQUIREMENTS: usize = 2000;
const MAX_INDEXES: usize = 20;

/// What a request says of the code; `None`: nothing.
///
/// # Errors
/// 400: a module is not as described in docs/reference/rest.md § 1.5, or a file was not uploaded.
pub(super) fn sent(app: &App, args: &Args) -> Result<Option<VersionCode>, ApiError> {
    let modules = match args.value("module_version_info") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(modules)) => modules,
        Some(_) => {
            return Err(ApiError::bad_request(
                "Field 'module_version_info' has to be an object: module by name",
            ));
        }
    };
    let mut code = VersionCode::default();
    for (name, module) in modules {
        if !OWN_MODULES.contains(&name.as_str()) {
            let mut files = read_module(app, name, module)?;
            let asked = lines(&module["requirements"]);
            let mut asked = asked
                .and_then(requirements)
                .map_err(|why| of_module(name, &why))?;
            // Modules that are sent are not installed, since their files are here, and those that are packages say it themselves.
            asked.retain(|requirement| {
                let named = module_of_requirement(requirement);
                !named.is_some_and(|named| {
                    OWN_MODULES.contains(&&*named) || modules.contains_key(&named)
                })
            });
            files.requirements.extend(asked);
            code.modules.push(files);
        }
    }
    if code
        .modules
        .iter()
        .any(|module| !module.requirements.is_empty())
    {
        code.pip = pip_options(args.value("pip_config"))?;
        code.constraints = lines(args.value("project_constraints").unwrap_or(&Value::Null))
            .and_then(requirements)
            .map_err(|why| ApiError::bad_request(format!("project_constraints: {why}")))?;
    }
    // In one order, so that the same code is the same text.
    code.modules.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((!code.modules.is_empty()).then_some(code))
}

fn read_module(app: &App, name: &str, module: &Value) -> Result<CodeModule, ApiError> {
    let wrong = |what: &str| of_module(name, what);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !is_name {
        return Err(ApiError::bad_request(
            "module_version_info: a module's name is letters, digits and `_`",
        ));
    }
    let Some(listed) = module["files_in_module"].as_array() else {
        return package_of(name, module);
    };
    let own = format!("{ROOT}{name}/");
    let mut known = Vec::new();
    for file in listed {
        let path = file["path"].as_str().unwrap_or_default();
        let hash = file["hash_value"].as_str().unwrap_or_default();
        if !files::is_name(hash) {
            return Err(wrong(&format!("the hash_value of {path:?} is no SHA-1")));
        }
        // What describes the package is sent along; only its Python code is run.
        let Some(below) = path.strip_prefix(&own) else {
            continue;
        };
        if path.ends_with(".pyc") {
            return Err(wrong("compiled Python is not taken: send its sources"));
        }
        if let Some(file) = file_of(name, below, hash) {
            known.push(file);
        }
    }
    // Parents come before children.
    known.sort_by(|a, b| a.module.cmp(&b.module));
    let root = format!("inmanta_plugins.{name}");
    if known
        .first()
        .is_none_or(|first| !first.package || first.module != root)
    {
        return Err(wrong(&format!("it has no {own}__init__.py")));
    }
    let store = app.files();
    for file in &known {
        if let Content::Sha1(hash) = &file.content
            && !store.has(hash)
        {
            return Err(wrong(&format!(
                "the content {hash} of {} was not uploaded: PUT /api/v1/file/{hash}",
                file.module
            )));
        }
    }
    Ok(CodeModule {
        name: name.to_owned(),
        files: known,
        requirements: BTreeSet::new(),
    })
}

/// A module that is installed as a package where it was exported: it is installed here, too, and its files are those of its
/// package.
fn package_of(name: &str, module: &Value) -> Result<CodeModule, ApiError> {
    let version = module["version"].as_str().unwrap_or_default();
    let version: Version = version.parse().map_err(|_| {
        of_module(
            name,
            &format!(
                "it has no files, so it is a package, and {version:?} is no version of a package"
            ),
        )
    })?;
    let package = format!("inmanta-module-{}=={version}", name.replace('_', "-"));
    Ok(CodeModule {
        name: name.to_owned(),
        files: Vec::new(),
        requirements: BTreeSet::from([package]),
    })
}

fn of_module(name: &str, what: &str) -> ApiError {
    ApiError::bad_request(format!("module {name}: {what}"))
}

/// The texts of a list, or the lines of a text.
fn lines(sent: &Value) -> Result<Vec<&str>, String> {
    match sent {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(text.lines().collect()),
        Value::Array(texts) => {
            let texts: Option<Vec<&str>> = texts.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| "requirements are texts".to_owned())
        }
        _ => Err("requirements are a list of texts".to_owned()),
    }
}

/// Requirements, if they are nothing else.
fn requirements(sent: Vec<&str>) -> Result<BTreeSet<String>, String> {
    if sent.len() > MAX_REQUIREMENTS {
        return Err(format!(
            "{} requirements are more than {MAX_REQUIREMENTS}",
            sent.len()
        ));
    }
    let mut checked = BTreeSet::new();
    for text in sent.into_iter().map(str::trim) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        check_requirement(text)?;
        checked.insert(text.to_owned());
    }
    Ok(checked)
}

/// Where packages come from. An exporter that does not say it leaves it to the machine, as the reference does.
fn pip_options(sent: Option<&Value>) -> Result<PipOptions, ApiError> {
    let wrong = |why: String| ApiError::bad_request(format!("pip_config: {why}"));
    let Some(sent) = sent else {
        return Ok(PipOptions {
            use_system_config: true,
            ..PipOptions::default()
        });
    };
    if !sent.is_object() {
        return Err(wrong("it has to be an object".to_owned()));
    }
    let options = PipOptions::deserialize(sent).map_err(|error| wrong(error.to_string()))?;
    if options.extra_index_url.len() > MAX_INDEXES {
        return Err(wrong(format!("more than {MAX_INDEXES} indexes")));
    }
    options.check().map_err(wrong)?;
    Ok(options)
}

/// How pip was configured where a version was exported, in the shape that clients read; `None`: it does not say.
pub(super) fn pip_config(args: &Args) -> Result<Option<Value>, ApiError> {
    let Some(sent) = args.value("pip_config") else {
        return Ok(None);
    };
    let options = pip_options(Some(sent))?;
    Ok(Some(json!({
        "index-url": options.index_url,
        "extra-index-url": options.extra_index_url,
        "pre": options.pre,
        "use-system-config": options.use_system_config,
    })))
}

/// The constraints of a project's packages as a text of lines; `None`: there are none.
pub(super) fn project_constraints(args: &Args) -> Result<Option<String>, ApiError> {
    let Some(sent) = args.value("project_constraints") else {
        return Ok(None);
    };
    let wrong = |why| ApiError::bad_request(format!("project_constraints: {why}"));
    let lines = lines(sent).map_err(wrong)?;
    match sent {
        Value::String(text) => Ok(Some(text.clone())),
        _ => Ok(Some(lines.join("\n"))),
    }
}

/// A Python file by its path below the module's folder; `None`: it is none.
fn file_of(module: &str, below: &str, hash: &str) -> Option<CodeFile> {
    let stem = below.strip_suffix(".py")?;
    let package = stem == "__init__" || stem.ends_with("/__init__");
    let stem = stem.strip_suffix("__init__").unwrap_or(stem);
    let parts: Vec<&str> = stem.split('/').filter(|part| !part.is_empty()).collect();
    let is_word = |part: &&str| part.chars().all(|c| c.is_alphanumeric() || c == '_');
    // What cannot be imported is not code: nor can a path lead elsewhere by `..`.
    if !parts.iter().all(is_word) {
        return None;
    }
    let mut dotted = format!("inmanta_plugins.{module}");
    for part in parts {
        dotted.push('.');
        dotted.push_str(part);
    }
    Some(CodeFile {
        module: dotted,
        package,
        content: Content::Sha1(hash.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::file_of;

    #[test]
    fn paths_become_names_that_can_be_imported_or_nothing() {
        let of = |below: &str| file_of("net", below, "x").map(|file| (file.module, file.package));
        assert_eq!(
            of("__init__.py"),
            Some(("inmanta_plugins.net".into(), true))
        );
        assert_eq!(
            of("ip/__init__.py"),
            Some(("inmanta_plugins.net.ip".into(), true))
        );
        assert_eq!(
            of("ip/v4.py"),
            Some(("inmanta_plugins.net.ip.v4".into(), false))
        );
        for nothing in ["../../x.py", "a b.py", "x.txt", "a/../b.py", "a.b.py"] {
            assert_eq!(of(nothing), None, "{nothing}");
        }
    }
}
