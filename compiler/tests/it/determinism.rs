//! The same inputs give the same bytes: output, diagnostics, resources and model do not depend on hash seeds, threads, the
//! process, its environment, or the order in which files came to be.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use steward_compiler::{Options, export_json};

use crate::disk::Disk;
use crate::lang::{self, Outcome, cases};

/// In the environment of a process of its own: the file that says which cases it compiles, and where its answers go.
const CHILD: &str = "STEWARD_DETERMINISM_CHILD";

fn options() -> Options {
    Options {
        dump_model: true,
        ..Options::default()
    }
}

/// All that a compile gives, as bytes. Temporary directories are no part of it.
fn bytes(outcome: &Outcome) -> String {
    let mut text = outcome.printed.clone();
    for diagnostic in &outcome.compiled.diagnostics {
        text.push_str(&diagnostic.to_json().to_string());
        text.push('\n');
    }
    if let Some(export) = &outcome.compiled.export {
        text.push_str(&export_json(export));
        for resource in &export.resources {
            text.push_str(&format!("\n{resource:?}"));
        }
        text.push_str(&format!("{:?} {:?}", export.removed_sets, export.unknowns));
    }
    if let Some(model) = &outcome.compiled.model {
        text.push_str(&model.to_string());
    }
    without_directory(&text)
}

/// Paths below the directory for temporary files lose its random part.
fn without_directory(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(".tmp") {
        out.push_str(before);
        rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    }
    out + rest
}

fn chosen() -> Vec<PathBuf> {
    let mut cases = cases();
    // It takes its time, and passwords are random by their nature.
    cases.retain(|path| {
        !path.ends_with("an_endless_chain_of_instances_is_an_error.cf")
            && !path.ends_with("generate_password_remembers_the_password_of_an_id.cf")
    });
    cases
}

fn compiled(path: &Path) -> String {
    bytes(&lang::run_once(path, &options()))
}

/// The chosen cases with what this process gave for each: what all other compiles are compared with.
fn wanted() -> &'static [(PathBuf, String)] {
    static WANTED: OnceLock<Vec<(PathBuf, String)>> = OnceLock::new();
    WANTED.get_or_init(|| {
        let cases = chosen().into_iter();
        let compile = |path: PathBuf| {
            let bytes = compiled(&path);
            (path, bytes)
        };
        cases.map(compile).collect()
    })
}

#[test]
fn compiles_one_after_the_other_and_side_by_side_give_the_same_bytes() {
    // One of five, by all threads; the other process compiles each of them once more.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (path, wanted) in wanted().iter().step_by(5) {
                    assert_eq!(*wanted, compiled(path), "{}", path.display());
                }
            });
        }
    });
}

#[test]
fn another_process_in_another_environment_gives_the_same_bytes() {
    if let Some(answers) = std::env::var_os(CHILD) {
        let all: Vec<String> = chosen().iter().map(|path| compiled(path)).collect();
        std::fs::write(answers, all.join("\u{1}")).expect("the answers are written");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let answers = directory.path().join("answers");
    let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
    command
        .arg("--exact")
        .arg("determinism::another_process_in_another_environment_gives_the_same_bytes")
        .env(CHILD, &answers)
        .env("HOME", "/nonexistent")
        .env("LANG", "tr_TR.UTF-8")
        .env("LC_ALL", "tr_TR.UTF-8")
        .env("TZ", "Pacific/Kiritimati")
        .env("PYTHONHASHSEED", "12345")
        .env("COLUMNS", "20")
        .env("RUST_TEST_THREADS", "7")
        .current_dir("/");
    let output = command.output().expect("the test runs again");
    assert!(output.status.success(), "{output:?}");
    let answers = std::fs::read_to_string(&answers).expect("the answers are there");
    let answers: Vec<&str> = answers.split('\u{1}').collect();
    assert_eq!(answers.len(), wanted().len());
    for ((path, wanted), other) in wanted().iter().zip(answers) {
        assert_eq!(wanted, other, "{}", path.display());
    }
}

#[test]
fn the_order_in_which_files_are_made_does_not_matter() {
    let mut files = vec![
        ("project.yml".to_owned(), "name: case\nmodulepath: [libs, more]\n".to_owned()),
        ("main.cf".to_owned(), "import a\nimport b\nimport c\nstd::print(std::list_files(\"a\"))\nstd::print([a::f(1), b::f(2), c::f(3)])\n".to_owned()),
    ];
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        let place = if at == 1 { "more" } else { "libs" };
        let setup =
            format!("[metadata]\nname = inmanta-module-{name}\nversion = 1.0\nlicense = A\n");
        let plugin = format!(
            "from inmanta.plugins import plugin\n\n\n@plugin\ndef f(x: int) -> str:\n    return f\"{name}{{x}}\"\n"
        );
        let model = format!(
            "import {name}::sub\nentity E{at}:\nend\nimplement E{at} using std::none\ne = E{at}()\nstd::print(\"{name}\")\n"
        );
        files.push((format!("{place}/{name}/setup.cfg"), setup));
        files.push((format!("{place}/{name}/model/_init.cf"), model));
        files.push((
            format!("{place}/{name}/model/sub.cf"),
            format!("std::print(\"{name}::sub\")\n"),
        ));
        files.push((
            format!("{place}/{name}/inmanta_plugins/{name}/__init__.py"),
            plugin,
        ));
        files.push((
            format!("{place}/{name}/inmanta_plugins/{name}/other.py"),
            String::new(),
        ));
        for file in ["z", "y", "x"] {
            files.push((format!("{place}/{name}/files/{file}.txt"), file.to_owned()));
        }
    }
    let wanted = bytes(&Disk::new(&files).run(&options(), &[]));
    assert!(
        wanted.contains("@['x.txt', 'y.txt', 'z.txt']") && wanted.contains("a1"),
        "{wanted}"
    );
    for turn in 1..files.len() {
        files.rotate_left(1);
        if turn % 2 == 0 {
            files.reverse();
        }
        assert_eq!(wanted, bytes(&Disk::new(&files).run(&options(), &[])));
    }
}
