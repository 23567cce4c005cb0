//! Runs `fixtures/lang/**/*.cf`, one case a file, with the expectation inside of the file:
//!
//! - `#> text`: a line of output, in order;
//! - `#! Kind: text` on the line of an error, whose message, or that of a cause, contains the text;
//! - `#!? Kind: text`: an error anywhere;
//! - `#!+ Kind: text`: an error on this line, too, which the reference does not come to: it is not the first one;
//! - `#~ Kind: text`: a warning anywhere;
//! - `#% text`: a line of `project.yml`;
//! - `#@ id`: an exported resource, all of them, in any order.
//!
//! `LANG_CASES=text` runs only the files whose path contains the text.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use steward_compiler::{Diagnostic, MemWorld, Options, Severity, compile};

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
}

fn expected(text: &str) -> Expected {
    let mut expected = Expected::default();
    let split = |text: &str| match text.split_once(':') {
        Some((kind, text)) => (kind.trim().to_owned(), text.trim().to_owned()),
        None => (text.trim().to_owned(), String::new()),
    };
    for (at, line) in text.lines().enumerate() {
        let Some(comment) = line.rfind('#').map(|_| line).and_then(|line| {
            ["#>", "#!?", "#!+", "#!", "#~", "#%", "#@"]
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
        } else if let Some(id) = comment.strip_prefix("#@") {
            let resources = expected.resources.get_or_insert_default();
            resources.extend((!id.trim().is_empty()).then(|| id.trim().to_owned()));
        }
    }
    expected
}

fn says(diagnostic: &Diagnostic, text: &str) -> bool {
    diagnostic.message.contains(text) || diagnostic.causes.iter().any(|cause| says(cause, text))
}

/// The project of a case.
fn world(path: &Path, text: &str, expected: &Expected) -> MemWorld {
    let mut world = MemWorld::default()
        .file(
            "project.yml",
            &format!("name: case\nmodulepath: libs\n{}", expected.project),
        )
        .file("main.cf", text);
    // `case.cf` may have modules in `case/`.
    for module in files(&path.with_extension("")) {
        let name = module
            .strip_prefix(path.with_extension(""))
            .expect("it is below")
            .to_string_lossy()
            .into_owned();
        world = world.file(
            &format!("libs/{name}"),
            &std::fs::read_to_string(&module).expect("a module is readable"),
        );
    }
    world
}

/// All cases that `LANG_CASES` lets through.
fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/lang");
    let only = std::env::var("LANG_CASES").unwrap_or_default();
    let is_module = |path: &Path| {
        path.ancestors()
            .skip(1)
            .any(|parent| parent.with_extension("cf").is_file())
    };
    let mut cases = files(&root);
    cases.retain(|path| {
        path.extension().is_some_and(|extension| extension == "cf")
            && !is_module(path)
            && path.to_string_lossy().contains(&only)
    });
    cases
}

/// What is wrong with one case; empty: nothing.
fn check(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a case is readable");
    let expected = expected(&text);
    let world = world(path, &text, &expected);
    let options = Options {
        export: expected.resources.is_some(),
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    let mut wrong = String::new();
    let printed = world.printed();
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
        error.kind == *kind
            && says(error, text)
            && line.is_none_or(|line| {
                let location = error.location.as_ref();
                location.is_some_and(|location| location.line == line)
            })
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
    }
    wrong
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
    let mut wrong = String::new();
    let cases = cases();
    for path in &cases {
        let problems = check(path);
        if !problems.is_empty() {
            let _ = writeln!(wrong, "{}:\n{problems}", path.display());
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(!cases.is_empty(), "no case matches");
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
        let text = std::fs::read_to_string(&path).expect("a case is readable");
        let expected = expected(&text);
        let checked = steward_compiler::check(&world(&path, &text, &expected));
        let compiled = compile(&world(&path, &text, &expected), &Options::default());
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
            | "IndexAttributeMissingInConstructorException"
            | "InvalidRelationPrecedenceRuleError"
            | "CycleInRelationPrecedencePolicyError"
    )
}
