//! Runs `fixtures/lang/**/*.cf`, one case a file, with the expectation inside of the file:
//!
//! - `#> text`: a line of output, in order;
//! - `#! Kind: text` on the line of an error, whose message, or that of a cause, contains the text;
//! - `#!? Kind: text`: an error anywhere;
//! - `#~ Kind: text`: a warning anywhere;
//! - `#% text`: a line of `project.yml`;
//! - `#@ id`: an exported resource, all of them, in any order; `#@ id {json}`: with these fields, among others;
//! - `#+ python`: the case runs its modules' Python; `#+ disk`: it writes files.
//!
//! `LANG_CASES=text` runs only the files whose path contains the text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use steward_compiler::{
    Compiled, Diagnostic, DirWorld, MemWorld, Options, PythonRuntime, PythonSource, Severity,
    compile,
};

#[derive(Default, Debug)]
struct Expected {
    output: String,
    /// Line (if it counts), kind, text.
    errors: Vec<(Option<u32>, String, String)>,
    warnings: Vec<(String, String)>,
    project: String,
    /// Id and fields.
    resources: Option<Vec<(String, String)>>,
    python: bool,
    disk: bool,
}

fn expected(text: &str) -> Expected {
    let mut expected = Expected::default();
    let split = |text: &str| match text.split_once(':') {
        Some((kind, text)) => (kind.trim().to_owned(), text.trim().to_owned()),
        None => (text.trim().to_owned(), String::new()),
    };
    for (at, line) in text.lines().enumerate() {
        let Some(comment) = line.rfind('#').map(|_| line).and_then(|line| {
            ["#>", "#!?", "#!", "#~", "#%", "#@", "#+"]
                .iter()
                .filter_map(|mark| line.find(mark))
                .min()
                .map(|start| &line[start..])
        }) else {
            continue;
        };
        if let Some(output) = comment.strip_prefix("#>") {
            expected
                .output
                .push_str(output.strip_prefix(' ').unwrap_or(output));
            expected.output.push('\n');
        } else if let Some(error) = comment.strip_prefix("#!?") {
            let (kind, text) = split(error);
            expected.errors.push((None, kind, text));
        } else if let Some(error) = comment.strip_prefix("#!") {
            let (kind, text) = split(error);
            expected.errors.push((Some(at as u32 + 1), kind, text));
        } else if let Some(warning) = comment.strip_prefix("#~") {
            expected.warnings.push(split(warning));
        } else if let Some(line) = comment.strip_prefix("#%") {
            expected
                .project
                .push_str(line.strip_prefix(' ').unwrap_or(line));
            expected.project.push('\n');
        } else if let Some(id) = comment.strip_prefix("#@") {
            let resources = expected.resources.get_or_insert_default();
            let (id, fields) = match id.trim().split_once(" {") {
                Some((id, fields)) => (id, format!("{{{fields}")),
                None => (id.trim(), "{}".to_owned()),
            };
            resources.extend((!id.is_empty()).then(|| (id.to_owned(), fields)));
        } else if let Some(option) = comment.strip_prefix("#+") {
            match option.trim() {
                "python" => expected.python = true,
                "disk" => expected.disk = true,
                other => panic!("there is no option {other}"),
            }
        }
    }
    expected
}

fn says(diagnostic: &Diagnostic, text: &str) -> bool {
    diagnostic.message.contains(text) || diagnostic.causes.iter().any(|cause| says(cause, text))
}

/// What is wrong with one case; empty: nothing.
fn check(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a case is readable");
    let expected = expected(&text);
    let mut all = vec![
        (
            "project.yml".to_owned(),
            format!("name: case\nmodulepath: libs\n{}", expected.project),
        ),
        ("main.cf".to_owned(), text.clone()),
    ];
    // `case.cf` may have modules in `case/`.
    for module in files(&path.with_extension("")) {
        let name = module
            .strip_prefix(path.with_extension(""))
            .expect("it is below")
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&module).expect("a module is readable");
        // Templates and files of the project itself lie in `_project`.
        match name.strip_prefix("_project/") {
            Some(name) => all.push((name.to_owned(), text)),
            None => all.push((format!("libs/{name}"), text)),
        }
    }
    let mut options = Options {
        export: expected.resources.is_some(),
        ..Options::default()
    };
    if expected.python {
        options.python = PythonSource::At(python());
    }
    let (compiled, printed) = if expected.python || expected.disk {
        on_disk(&all, &options)
    } else {
        let world = all.iter().fold(MemWorld::default(), |world, (name, text)| {
            world.file(name, text)
        });
        (compile(&world, &options), world.printed())
    };
    let mut wrong = String::new();
    if printed != expected.output {
        let _ = writeln!(
            wrong,
            "  output is\n{printed}  but should be\n{}",
            expected.output
        );
    }
    let mut errors: Vec<&Diagnostic> = compiled
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .collect();
    for (line, kind, text) in &expected.errors {
        let found = errors.iter().position(|error| {
            error.kind == *kind
                && says(error, text)
                && line.is_none_or(|line| {
                    error
                        .location
                        .as_ref()
                        .is_some_and(|location| location.line == line)
                })
        });
        match found {
            Some(at) => {
                errors.remove(at);
            }
            None => {
                let _ = writeln!(wrong, "  no error {kind} `{text}` on line {line:?}");
            }
        }
    }
    for error in errors {
        let _ = writeln!(wrong, "  unexpected {error:?}");
    }
    for (kind, text) in &expected.warnings {
        let found = compiled.diagnostics.iter().any(|diagnostic| {
            diagnostic.severity == Severity::Warning
                && diagnostic.kind == *kind
                && says(diagnostic, text)
        });
        if !found {
            let _ = writeln!(
                wrong,
                "  no warning {kind} `{text}` among {:?}",
                compiled.diagnostics
            );
        }
    }
    if let (Some(wanted), Some(export)) = (&expected.resources, &compiled.export) {
        let mut found: Vec<String> = export
            .resources
            .iter()
            .map(|resource| resource.id.clone())
            .collect();
        let mut ids: Vec<String> = wanted.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        found.sort();
        if ids != found {
            let _ = writeln!(wrong, "  resources are {found:#?}");
        }
        for resource in &export.resources {
            let fields = wanted.iter().find(|(id, _)| *id == resource.id);
            wrong.push_str(&compare(
                &resource.attributes,
                fields.map_or("{}", |(_, fields)| fields),
            ));
        }
    }
    wrong
}

/// What differs between a resource's fields and those that the case names.
fn compare(attributes: &str, wanted: &str) -> String {
    let found: serde_json::Value = serde_json::from_str(attributes).expect("attributes are JSON");
    let wanted: serde_json::Value = serde_json::from_str(wanted).expect("a case's fields are JSON");
    let mut wrong = String::new();
    for (name, value) in wanted.as_object().into_iter().flatten() {
        if found.get(name) != Some(value) {
            let found = found.get(name).map(ToString::to_string);
            let _ = writeln!(wrong, "  field {name} is {found:?}, but should be {value}");
        }
    }
    wrong
}

/// The interpreter of the tests and our own package.
fn python() -> PythonRuntime {
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    PythonRuntime {
        interpreter: interpreter.into(),
        package: Path::new(env!("CARGO_MANIFEST_DIR")).join("../python"),
    }
}

/// Python reads files, so its cases are written to a directory.
fn on_disk(files: &[(String, String)], options: &Options) -> (Compiled, String) {
    let directory = tempfile::tempdir().expect("there is a directory for temporary files");
    for (name, text) in files {
        let path = directory.path().join(name);
        let parent = path.parent().expect("a file has a directory");
        std::fs::create_dir_all(parent).expect("the directory can be made");
        std::fs::write(&path, text).expect("the file can be written");
    }
    let printed = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&printed);
    let world = DirWorld::new(directory.path().to_owned(), BTreeMap::new(), move |line| {
        let mut printed = sink.lock().expect("nobody panics while printing");
        printed.push_str(line);
        printed.push('\n');
    });
    let compiled = compile(&world, options);
    let printed = printed
        .lock()
        .expect("nobody panics while printing")
        .clone();
    (compiled, printed)
}

/// All files below a directory, sorted.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return found;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}

#[test]
fn every_language_case_is_as_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/lang");
    let only = std::env::var("LANG_CASES").unwrap_or_default();
    let mut wrong = String::new();
    let mut n_cases = 0;
    for path in files(&root) {
        let is_module = path
            .ancestors()
            .skip(1)
            .any(|parent| parent.with_extension("cf").is_file());
        if path.extension().is_none_or(|extension| extension != "cf") || is_module {
            continue;
        }
        if !path.to_string_lossy().contains(&only) {
            continue;
        }
        n_cases += 1;
        let problems = check(&path);
        if !problems.is_empty() {
            let _ = writeln!(wrong, "{}:\n{problems}", path.display());
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_cases > 0, "no case matches");
}
