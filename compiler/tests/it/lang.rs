//! Runs `fixtures/lang/**/*.cf`, one case a file, with the expectation inside of the file:
//!
//! - `#> text`: a line of output, in order;
//! - `#! Kind: text` on the line of an error, whose message, or that of a cause, contains the text; `#! Kind@7: text` says the
//!   column, too;
//! - `#! Kind: one … other`: it contains both, in this order, the other perhaps in a cause;
//! - `#!? Kind: text`: an error anywhere;
//! - `#!+ Kind: text`: an error on this line, too, which the reference does not come to: it is not the first one;
//! - `#~ Kind: text`: a warning anywhere;
//! - `#% text`: a line of `project.yml`;
//! - `#@ id`: an exported resource, all of them, in any order;
//! - `#@ .field = json`: a field of the resource of the line before, as it is exported, or its `attribute_hash`; `#@ id {json}`: some of its fields;
//! - `#+ python`: the case runs its modules' Python (one whose modules have `inmanta_plugins` does without it); `#+ disk`:
//!   it writes files;
//! - `#$ NAME=value`: a variable of the environment;
//! - `#: lang 57, 58; std 3`: the entries of the checklist that the case shows (`checklist.rs`).
//!
//! `case.cf` may have modules in `case/`, and other files of the project in `case/_project/`. A case with Python files is
//! compiled on disk, with a real Python. `LANG_CASES=text` runs only the files whose path contains the text.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use steward_compiler::{Compiled, Diagnostic, Export, MemWorld, Options, Severity, compile};

use crate::disk::Disk;

#[derive(Default, Debug)]
struct Expected {
    output: String,
    /// Line (if it counts), kind, text.
    errors: Vec<(Option<u32>, String, String)>,
    /// As `errors`, of those that never come first.
    more_errors: Vec<(Option<u32>, String, String)>,
    warnings: Vec<(String, String)>,
    project: String,
    resources: Option<Vec<String>>,
    /// Resource, field, value.
    fields: Vec<(String, String, serde_json::Value)>,
    variables: Vec<(String, String)>,
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
            ["#>", "#!?", "#!+", "#!", "#~", "#%", "#@", "#$", "#+"]
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
        } else if let Some(error) = comment.strip_prefix("#!+") {
            let (kind, text) = split(error);
            expected.more_errors.push((Some(at as u32 + 1), kind, text));
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
        } else if let Some((name, value)) = comment
            .strip_prefix("#$")
            .and_then(|text| text.split_once('='))
        {
            expected
                .variables
                .push((name.trim().to_owned(), value.to_owned()));
        } else if let Some(field) = comment.strip_prefix("#@ .") {
            let (field, value) = field.split_once(" = ").expect("a field has a value");
            let last = expected.resources.as_ref().and_then(|ids| ids.last());
            let id = last.expect("a field follows its resource").clone();
            let value = serde_json::from_str(value).expect("a value is JSON");
            expected.fields.push((id, field.to_owned(), value));
        } else if let Some(id) = comment.strip_prefix("#@") {
            let resources = expected.resources.get_or_insert_default();
            let (id, fields) = match id.trim().split_once(" {") {
                Some((id, fields)) => (id, format!("{{{fields}")),
                None => (id.trim(), "{}".to_owned()),
            };
            resources.extend((!id.is_empty()).then(|| id.to_owned()));
            let fields: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&fields).expect("fields are JSON");
            let fields = fields
                .into_iter()
                .map(|(name, value)| (id.to_owned(), name, value));
            expected.fields.extend(fields);
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

/// Whether the message of a diagnostic and those of its causes, one after the other, contain the parts in their order.
fn says(diagnostic: &Diagnostic, text: &str) -> bool {
    let mut messages = String::new();
    write_messages(diagnostic, &mut messages);
    let mut rest = Some(messages.as_str());
    for part in text.split(" … ") {
        rest = rest
            .and_then(|rest| rest.split_once(part))
            .map(|(_, after)| after);
    }
    rest.is_some()
}

fn write_messages(diagnostic: &Diagnostic, out: &mut String) {
    let _ = writeln!(out, "{}", diagnostic.message);
    for cause in &diagnostic.causes {
        write_messages(cause, out);
    }
}

/// All files of a case but `main.cf` and `project.yml`: where they belong, their text.
fn companions(path: &Path) -> Vec<(String, String)> {
    let directory = path.with_extension("");
    let place = |file: PathBuf| {
        let below = file.strip_prefix(&directory).expect("it is below");
        let name = match below.strip_prefix("_project") {
            Ok(rest) => rest.to_string_lossy().into_owned(),
            Err(_) => format!("libs/{}", below.to_string_lossy()),
        };
        (
            name,
            std::fs::read_to_string(&file).expect("a file is readable"),
        )
    };
    files(&directory).into_iter().map(place).collect()
}

/// What a compile said: what it printed, what it gave.
pub struct Outcome {
    pub printed: String,
    pub compiled: Compiled,
}

/// A case of the fixtures as a project: its files, what the options must say, its environment.
fn project(path: &Path, options: &Options) -> (Vec<(String, String)>, Options, Expected) {
    let text = std::fs::read_to_string(path).expect("a case is readable");
    let expected = expected(&text);
    let mut files = vec![
        (
            "project.yml".to_owned(),
            format!("name: case\nmodulepath: libs\n{}", expected.project),
        ),
        ("main.cf".to_owned(), text),
    ];
    files.extend(companions(path));
    let mut options = Options {
        export: expected.resources.is_some(),
        ..options.clone()
    };
    // A server that knows no fact.
    options.inputs.facts.get_or_insert_default();
    (files, options, expected)
}

/// Compiles a case of the fixtures: in memory, or on disk if it has Python, where compiles that use what is kept of it are
/// the same.
pub fn run(path: &Path, options: &Options) -> Outcome {
    run_with(path, options, Disk::run)
}

/// The same, but once: nothing is kept or used.
pub fn run_once(path: &Path, options: &Options) -> Outcome {
    run_with(path, options, |disk, options, variables| {
        let options = &Options {
            python: crate::disk::python(),
            ..options.clone()
        };
        disk.run_once(options, variables)
    })
}

fn run_with(
    path: &Path,
    options: &Options,
    on_disk: fn(&Disk, &Options, &[(String, String)]) -> Outcome,
) -> Outcome {
    let (files, options, expected) = project(path, options);
    let is_python = |(name, _): &(String, String)| name.contains("/inmanta_plugins/");
    if expected.python || expected.disk || files.iter().any(is_python) {
        return on_disk(&Disk::new(&files), &options, &expected.variables);
    }
    let mut world = MemWorld::default();
    for (name, text) in &files {
        world = world.file(name, text);
    }
    for (name, value) in &expected.variables {
        world = world.variable(name, value);
    }
    let compiled = compile(&world, &options);
    let printed = world.printed();
    Outcome { printed, compiled }
}

/// Compiles a case of the fixtures on disk.
pub fn run_on_disk(path: &Path, options: &Options) -> Outcome {
    let (files, options, expected) = project(path, options);
    Disk::new(&files).run(&options, &expected.variables)
}

/// What is wrong with one case; empty: nothing.
fn check(path: &Path) -> String {
    let expected = expected(&std::fs::read_to_string(path).expect("a case is readable"));
    let Outcome { printed, compiled } = run(path, &Options::default());
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
    let fits = |error: &Diagnostic, (line, kind, text): &(Option<u32>, String, String)| {
        let (kind, column) = match kind.split_once('@') {
            Some((kind, column)) => (kind, column.parse().ok()),
            None => (kind.as_str(), None),
        };
        let location = error.location.as_ref();
        let found = location.and_then(|location| location.column);
        error.kind == kind
            && (column.is_none() || column == found)
            && says(error, text)
            && line.is_none_or(|line| location.is_some_and(|location| location.line == line))
    };
    if let Some(first) = errors.first()
        && !expected.errors.iter().any(|wanted| fits(first, wanted))
    {
        let _ = writeln!(wrong, "  the first error is {first:?}");
    }
    for wanted in expected.errors.iter().chain(&expected.more_errors) {
        let (line, kind, text) = wanted;
        let found = errors.iter().position(|error| fits(error, wanted));
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
        let mut wanted = wanted.clone();
        let mut found: Vec<String> = export
            .resources
            .iter()
            .map(|resource| resource.id.clone())
            .collect();
        wanted.sort();
        found.sort();
        if wanted != found {
            let _ = writeln!(wrong, "  resources are {found:#?}");
        }
        fields_as_expected(export, &expected, &mut wrong);
    }
    wrong
}

fn without_version(id: &str) -> &str {
    id.rsplit_once(",v=").map_or(id, |(id, _)| id)
}

fn fields_as_expected(export: &Export, expected: &Expected, wrong: &mut String) {
    let json: serde_json::Value =
        serde_json::from_str(&steward_compiler::export_json(export)).expect("an export is JSON");
    for (id, field, value) in &expected.fields {
        let resources = json.as_array().expect("an export is a list");
        let resource = resources.iter().find(|resource| {
            resource["id"]
                .as_str()
                .is_some_and(|found| without_version(found) == id)
        });
        let computed = (field == "attribute_hash").then(|| {
            let mut resources = export.resources.iter();
            let resource = resources.find(|resource| resource.id == *id);
            serde_json::json!(resource.map(|resource| &resource.attribute_hash))
        });
        let found = computed
            .as_ref()
            .or_else(|| resource.and_then(|resource| resource.get(field)));
        let same = match (field.as_str(), found.and_then(|found| found.as_array())) {
            ("requires", Some(found)) => {
                let mut found: Vec<&str> = found.iter().filter_map(|id| id.as_str()).collect();
                found.iter_mut().for_each(|id| *id = without_version(id));
                found.sort_unstable();
                *value == serde_json::json!(found)
            }
            _ => found == Some(value),
        };
        if !same {
            let _ = writeln!(wrong, "  {field} of {id} is {found:?}");
        }
    }
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

/// The cases among the fixtures: `.cf` files that are no part of another case.
pub fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/lang");
    let is_module = |path: &Path| {
        let mut parents = path.ancestors().skip(1);
        parents.any(|parent| parent.with_extension("cf").is_file())
    };
    let mut cases = files(&root);
    cases.retain(|path| path.extension().is_some_and(|it| it == "cf") && !is_module(path));
    cases
}

#[test]
fn every_language_case_is_as_it_says() {
    let only = std::env::var("LANG_CASES").unwrap_or_default();
    let mut wrong = String::new();
    let mut n_cases = 0;
    for path in cases() {
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

#[test]
fn a_check_finds_the_same_definition_errors_and_none_in_what_compiles() {
    let mut wrong = String::new();
    let errors = |compiled: &steward_compiler::Compiled| -> Vec<Diagnostic> {
        let errors = compiled.diagnostics.iter();
        let errors = errors.filter(|diagnostic| diagnostic.severity == Severity::Error);
        errors.cloned().collect()
    };
    for path in cases() {
        let (files, ..) = project(&path, &Options::default());
        let mut world = MemWorld::default();
        for (name, text) in &files {
            world = world.file(name, text);
        }
        let checked = steward_compiler::check(&world);
        let compiled = run_once(&path, &Options::default()).compiled;
        let (checked, compiled) = (errors(&checked), errors(&compiled));
        let problem = match (checked.first(), compiled.first()) {
            (Some(error), None) => format!("compiles, but {error:?}"),
            // What stops a compile before it runs is found without running.
            (Some(first), Some(other)) if is_static(other) && first != other => {
                format!("{other:?} comes first, not {first:?}")
            }
            (None, Some(other)) if is_static(other) => format!("does not say {other:?}"),
            _ => continue,
        };
        let _ = writeln!(wrong, "{}: {problem}", path.display());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Whether an error comes before anything runs, other than from Python.
fn is_static(error: &Diagnostic) -> bool {
    matches!(
        error.kind.as_str(),
        "ParserException"
            | "HyphenException"
            | "InvalidNamespaceAccess"
            | "ModuleLoadingException"
            | "InvalidMetadata"
            | "TypeNotFoundException"
            | "MissingImportException"
            | "CycleException"
            | "AmbiguousTypeException"
            | "IndexException"
            | "InvalidRelationPrecedenceRuleError"
            | "CycleInRelationPrecedencePolicyError"
    )
}
