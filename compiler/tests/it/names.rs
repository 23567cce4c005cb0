//! Every public name of the reference's package can be imported from ours, and a page says which of them work.
//!
//! `fixtures/surface` has the list of the names, and the scripts that make and compare it; `docs/python-names.md` and
//! `python/inmanta/_absent_names.py` are written by `python fixtures/surface/surface.py write`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checklist::root;
use crate::meaning::oracle;

fn fixture(name: &str) -> PathBuf {
    root().join("fixtures/surface").join(name)
}

/// What a script prints.
#[track_caller]
fn printed(python: &Path, arguments: &[&Path]) -> String {
    let mut command = Command::new(python);
    command.args(arguments).env_remove("PYTHONPATH");
    // The files of the package are part of the repository: nothing is left beside them.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() || !text.is_empty(),
        "{}: {said}",
        python.display()
    );
    text
}

#[test]
fn every_public_name_of_the_reference_is_there_and_the_page_of_names_is_up_to_date() {
    let python = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = fixture("surface.py");
    let problems = printed(Path::new(&python), &[&script, Path::new("check")]);
    assert_eq!(
        problems, "",
        "what is said to be out of date: python fixtures/surface/surface.py write"
    );
}

#[test]
fn the_list_of_names_is_that_of_the_reference() {
    let Some(oracle) = oracle("the names of the reference's package") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (raw, made) = (
        directory.path().join("names.raw"),
        directory.path().join("names.json"),
    );
    std::fs::write(&raw, printed(&oracle, &[&fixture("introspect.py")])).expect("it is written");
    let script = fixture("surface.py");
    printed(&oracle, &[&script, Path::new("names"), &raw, &made]);
    let text = |path: &Path| std::fs::read_to_string(path).expect("a list of names");
    assert!(
        text(&made) == text(&fixture("names.json")),
        "fixtures/surface/names.json is not what introspect.py finds: its header says how to make it"
    );
}
