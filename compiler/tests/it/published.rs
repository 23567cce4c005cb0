//! Modules of the package index, as they are published: small models that use them mean the same to the reference and to
//! us. `fixtures/modules/published/*.cf` are the models, the directories beside them other files of their projects.
//! `docs/published-modules.md` has the table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use steward_compiler::{Options, Severity};

use crate::checklist::root;
use crate::disk::Disk;
use crate::lang::files;
use crate::meaning::{Meaning, asked, oracle};

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
    let Some(oracle) = oracle_with(module) else {
        return;
    };
    let directory = root().join("fixtures/modules/published");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file of the fixture");
    let main = read(&directory.join(module).with_extension("cf"));
    let mut project = project(&main);
    let beside = directory.join(module);
    for path in files(&beside) {
        let name = path.strip_prefix(&beside).expect("it is below").display();
        project.insert(name.to_string(), read(&path));
    }
    let ours = Meaning::ours(&on_disk(&project, &oracle), variables);
    assert_eq!(ours, Meaning::of_reference(&oracle, &project, variables));
}

/// A module that the reference can not compile any more is refused for the same reason.
#[track_caller]
fn check_refused(module: &str) {
    let Some(oracle) = oracle_with(module) else {
        return;
    };
    let project = project(&format!("import {module}\n"));
    let answer = asked(&oracle, &project, &[]);
    let theirs = &answer["errors"][0];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let theirs = (
        text(&theirs["kind"]),
        without_directories(&text(&theirs["message"])),
    );
    let disk = on_disk(&project, &oracle);
    let outcome = disk.run(&Options::default(), &[]);
    let mut errors = outcome.compiled.diagnostics.iter();
    let ours = errors.find(|found| found.severity == Severity::Error);
    let ours = ours.expect("an error");
    let ours = (ours.kind.to_owned(), without_directories(&ours.message));
    assert_eq!(ours, theirs);
}

/// A module that the reference refuses, since its `std` has some resources no more, compiles here: docs/deviations.md,
/// resources-of-std.
#[track_caller]
fn check_of_early_std(module: &str) {
    let Some(oracle) = oracle_with(module) else {
        return;
    };
    let project = project(&format!("import {module}\n"));
    let answer = asked(&oracle, &project, &[]);
    let theirs = answer["errors"][0]["message"].as_str().expect("a text");
    assert!(theirs.contains("std::"), "{theirs}");
    let outcome = on_disk(&project, &oracle).run(&Options::default(), &[]);
    let mut errors = outcome.compiled.diagnostics.iter();
    let ours = errors.find(|found| found.severity == Severity::Error);
    assert_eq!(ours.map(|error| error.message.clone()), None);
}

/// Places in installed modules, without where these are installed.
fn without_directories(message: &str) -> String {
    let words = message.split_whitespace();
    let short = words.map(|word| word.rsplit("site-packages/").next().unwrap_or(word));
    short.collect::<Vec<_>>().join(" ")
}

/// The Python of the reference, if it has the module.
#[track_caller]
fn oracle_with(module: &str) -> Option<PathBuf> {
    let oracle = oracle(module)?;
    if is_installed(&oracle, module) {
        return Some(oracle);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{module} is not installed"
    );
    eprintln!("published: SKIPPED, {module} is not installed where STEWARD_ORACLE is");
    None
}

fn project(main: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("main.cf".to_owned(), main.to_owned()),
        ("project.yml".to_owned(), "name: published\n".to_owned()),
    ])
}

/// A project with the Python of the reference, with all that the modules require.
fn on_disk(project: &BTreeMap<String, String>, oracle: &Path) -> Disk {
    let disk = Disk::new(&project.clone().into_iter().collect::<Vec<_>>());
    let environment = oracle.ancestors().nth(2).expect("bin/python is below");
    std::os::unix::fs::symlink(environment, disk.path().join(".env")).expect("a link");
    disk
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

#[test]
fn apt() {
    check("apt");
}

#[test]
fn graph() {
    check("graph");
}

#[test]
fn ip() {
    check("ip");
}

#[test]
fn net() {
    check("net");
}

#[test]
fn rest() {
    check("rest");
}

#[test]
fn ssh_and_the_keys_of_the_project() {
    check("ssh");
}

#[test]
fn ubuntu() {
    check("ubuntu");
}

#[test]
fn user() {
    check("user");
}

#[test]
fn web() {
    check("web");
}

#[test]
fn yaml_and_its_files() {
    check("yaml");
}

#[test]
fn yum() {
    check("yum");
}

#[test]
fn cron_wants_entities_that_std_has_no_more() {
    check_of_early_std("cron");
}

#[test]
fn docker_wants_a_package_that_python_has_no_more() {
    check_refused("docker");
}

#[test]
fn mysql_wants_entities_that_std_has_no_more() {
    check_of_early_std("mysql");
}

#[test]
fn redhat_has_whole_numbers_for_versions() {
    check_refused("redhat");
}
