//! Modules of the package index, as they are published: small models that use them mean the same to the reference and to
//! us. `fixtures/modules/published/*.cf` are the models, the directories beside them other files of their projects.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::checklist::root;
use crate::disk::Disk;
use crate::lang::files;
use crate::meaning::{Meaning, oracle};

/// Whether the Python of the reference has a module.
fn is_installed(oracle: &Path, module: &str) -> bool {
    let script =
        "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
    let mut command = Command::new(oracle);
    command.args(["-c", script, &format!("inmanta_plugins.{module}")]);
    command.status().is_ok_and(|status| status.success())
}

#[track_caller]
fn check(module: &str) {
    check_with(module, &[]);
}

/// The same, with variables in the environment of the compile.
#[track_caller]
fn check_with(module: &str, variables: &[(&str, &str)]) {
    let Some(oracle) = oracle(module) else {
        return;
    };
    if !is_installed(&oracle, module) {
        assert!(
            std::env::var_os("CI").is_none(),
            "{module} is not installed"
        );
        eprintln!("published: SKIPPED, {module} is not installed where STEWARD_ORACLE is");
        return;
    }
    let directory = root().join("fixtures/modules/published");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file of the fixture");
    let main = read(&directory.join(module).with_extension("cf"));
    let mut project = BTreeMap::from([
        ("main.cf".to_owned(), main),
        ("project.yml".to_owned(), "name: published\n".to_owned()),
    ]);
    let beside = directory.join(module);
    for path in files(&beside) {
        let name = path.strip_prefix(&beside).expect("it is below").display();
        project.insert(name.to_string(), read(&path));
    }
    let disk = Disk::new(&project.clone().into_iter().collect::<Vec<_>>());
    // Their Python, with all that they require.
    let environment = oracle.ancestors().nth(2).expect("bin/python is below");
    std::os::unix::fs::symlink(environment, disk.path().join(".env")).expect("a link");
    let ours = Meaning::ours(&disk, variables);
    assert_eq!(ours, Meaning::of_reference(&oracle, &project, variables));
}

#[test]
fn config() {
    check("config");
}

#[test]
fn exec() {
    check("exec");
}

#[test]
fn files_and_its_templates() {
    check("files");
}

#[test]
fn fs() {
    check("fs");
}

#[test]
fn git_ops() {
    check("git_ops");
}

#[test]
fn git_ops_that_changes_its_slices() {
    check_with("git_ops", &[("INMANTA_GIT_OPS_COMPILE_MODE", "update")]);
}

#[test]
fn mitogen() {
    check("mitogen");
}

#[test]
fn podman() {
    check("podman");
}
