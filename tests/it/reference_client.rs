//! The Python client of the reference on our server: every call that `docs/reference/rest.md` has and it knows.
//!
//! `reference_client.py` calls a server and writes down the answers, without what differs from run to run. What the server of the
//! reference answered is in `fixtures/rest/reference.json`; how we differ from it, and nothing else, in
//! `fixtures/rest/differences.txt`. `STEWARD_UPDATE=1` writes the latter anew. To record the former again, start the server
//! of the reference on an empty database of PostgreSQL 16 or newer (its scheduler needs one), and run
//! `reference_client.py run PORT fixtures/rest/reference.json`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environments::{Logged, TOKEN, configure};
use crate::harness::{finish, skip};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).into()
}

/// Runs the program with these arguments; what it printed.
#[track_caller]
fn program(interpreter: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(interpreter);
    command
        .arg(root().join("tests/it/reference_client.py"))
        .args(arguments)
        .env_remove("PYTHONPATH");
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

//: deploy 8, 17, 18, 33, 34, 77, 141, 142
#[test]
fn the_client_of_the_reference_gets_the_answers_that_it_knows() {
    let Some(oracle) = std::env::var_os("STEWARD_ORACLE") else {
        skip("STEWARD_ORACLE, a Python with the reference");
        return;
    };
    let oracle = PathBuf::from(oracle);
    let directory = tempfile::tempdir().unwrap();
    let served = Logged::start(&configure(directory.path(), "environments: []\n"));
    let port = served.api.rsplit(':').next().unwrap();
    let answers = directory.path().join("answers.json");
    let answers = answers.to_str().unwrap();
    program(&oracle, &["run", port, answers, TOKEN]);
    let recorded = root().join("fixtures/rest/reference.json");
    let found = program(&oracle, &["compare", recorded.to_str().unwrap(), answers]);
    let file = root().join("fixtures/rest/differences.txt");
    if std::env::var_os("STEWARD_UPDATE").is_some() {
        fs::write(&file, &found).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap();
    let (found, known): (Vec<&str>, Vec<&str>) = (found.lines().collect(), known.lines().collect());
    let new: Vec<_> = found.iter().filter(|line| !known.contains(line)).collect();
    let gone: Vec<_> = known.iter().filter(|line| !found.contains(line)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\ngone: {gone:#?}"
    );
    served.stop();
}

/// Paths with their placeholders, whatever the names of these are; halting and resuming are one path with a word.
fn shape(verb: &str, path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "halt" | "resume" => "<>",
        part if part.starts_with('<') => "<>",
        part => part,
    });
    format!("{verb} {}", parts.collect::<Vec<_>>().join("/"))
}

#[test]
fn each_method_of_the_reference_is_here_or_on_the_list_of_those_that_are_not() {
    let Some(oracle) = std::env::var_os("STEWARD_ORACLE") else {
        skip("STEWARD_ORACLE, a Python with the reference");
        return;
    };
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let routes = read("docs/api.md");
    let here: BTreeSet<String> = routes
        .lines()
        .filter_map(|line| {
            let mut cells = line.split('|').skip(1).map(str::trim);
            let verb = cells.next()?;
            Some(shape(verb, cells.next()?.trim_matches('`')))
        })
        .collect();
    let methods = program(Path::new(&oracle), &["methods"]);
    let mut missing: Vec<&str> = Vec::new();
    for line in methods.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap();
        let (name, verb, path) = (word(), word(), word());
        if !here.contains(&shape(verb, path)) {
            missing.push(name);
        }
    }
    let reference = read("docs/reference/rest.md");
    let (_, section) = reference.split_once("## 7. Calls").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let mut listed: Vec<&str> = cells
        .flat_map(|cell| cell.split(','))
        .map(|name| name.trim().trim_matches('`'))
        .collect();
    listed.sort_unstable();
    assert_eq!(missing, listed);
    assert!(methods.lines().count() > 100, "{methods}");
}
