//! A project moves over: Steward stands in for the reference that its modules require, and the Python that they need is
//! chosen, or its lack is told before anything is installed. Real pip, real uv where there is one, real Pythons.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::harness::{Host, Repo, Running, finish, steward};
use crate::packages::{Wheels, bad, carry, environments, good, project, run};

/// What our distribution requires, and a reference of an index that is newer than what we stand for.
pub fn wheels_with_a_reference() -> Wheels {
    let wheels = Wheels::new();
    for (name, version) in [
        ("pydantic", "2.9.0"),
        ("PyYAML", "6.0"),
        ("Jinja2", "3.1"),
        ("email-validator", "2.0"),
        ("click", "8.1"),
        ("texttable", "1.6"),
        ("typing-inspect", "0.9"),
        ("requests", "2.30"),
        ("packaging", "24.0"),
        ("tornado", "6.6"),
    ] {
        wheels.wheel(name, version, &[], &[]);
    }
    for version in ["20.1.0", "20.9.0"] {
        let file = ("the_reference.py".to_owned(), String::new());
        wheels.wheel(
            "inmanta-core",
            version,
            &["a-server-with-sixty-packages"],
            &[file],
        );
    }
    wheels.module("greet", "1.0", &["inmanta-core>=15.1"]);
    wheels
}

fn site_packages(environment: &Path) -> PathBuf {
    let lib = fs::read_dir(environment.join("lib")).unwrap();
    let lib = lib
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    lib.unwrap().path().join("site-packages")
}

/// What of `inmanta_core` is in an environment.
fn core(environment: &Path) -> Vec<String> {
    let names = fs::read_dir(site_packages(environment)).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("inmanta_core") || name == "the_reference.py")
        .collect()
}

#[track_caller]
fn check_is_ours(environment: &Path) {
    let [name] = core(environment).try_into().unwrap();
    assert!(name.starts_with("inmanta_core-20.1.0+steward."), "{name}");
    let packages = site_packages(environment);
    assert!(
        packages.join("inmanta/plugins.py").is_file() || packages.join("inmanta/plugins").is_dir()
    );
}

fn has_uv() -> bool {
    let ran = Command::new("uv").arg("--version").output();
    ran.is_ok_and(|output| output.status.success())
}

fn install(repo: &Repo, wheels: &Wheels, words: &[&str], installer: &str) -> Output {
    let mut command = steward();
    command.args(words).arg("--project").arg(repo.path());
    command
        .args(["--no-index", "--find-links"])
        .arg(wheels.path());
    command.env("STEWARD_INSTALLER", installer);
    finish(command)
}

#[test]
fn what_requires_the_reference_gets_steward_and_the_lock_is_of_no_machine() {
    let wheels = wheels_with_a_reference();
    let mut locks = Vec::new();
    for installer in ["pip", "uv"] {
        if installer == "uv" && !has_uv() {
            eprintln!("moving: SKIPPED, there is no uv on the path");
            continue;
        }
        let repo = project("", "inmanta-module-greet\n");
        let said = good(install(&repo, &wheels, &["project", "install"], installer));
        assert!(said.contains("inmanta-core 20.1.0\n"), "{said}");
        assert!(said.contains(&format!("by {installer} ")), "{said}");
        let environment = repo.path().join(".env");
        check_is_ours(&environment);
        assert_eq!(good(run(repo.path(), &["compile"], None)), "1.0\n");
        good(run(repo.path(), &["project", "verify"], None));
        // The command that authors know, with nothing of ours on the path.
        let mut command = Command::new(environment.join("bin/inmanta"));
        command.args(["-v", "compile"]).current_dir(repo.path());
        command
            .env("PATH", "/usr/bin:/bin")
            .env_remove("STEWARD_PROGRAM");
        assert_eq!(good(finish(command)), "1.0\n");
        let lock = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
        assert!(lock.contains("provided_by: steward"), "{lock}");
        let home = repo.path().to_string_lossy().into_owned();
        assert!(
            !lock.contains("+steward") && !lock.contains(&home),
            "{lock}"
        );
        // From the lock, once more.
        fs::remove_dir_all(&environment).unwrap();
        good(install(&repo, &wheels, &["project", "install"], installer));
        check_is_ours(&environment);
        locks.push(lock);
    }
    locks.dedup();
    assert_eq!(locks.len(), 1, "pip and uv lock the same: {locks:?}");
}

#[test]
fn the_reference_in_a_lock_of_an_earlier_version_is_steward_too() {
    let wheels = wheels_with_a_reference();
    let repo = project("", "inmanta-module-greet\n");
    good(install(&repo, &wheels, &["project", "install"], "pip"));
    let lock = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
    let old = lock.lines().filter(|line| !line.contains("python:"));
    let old = old.collect::<Vec<_>>().join("\n") + "\n";
    let old = old.replace("format: 2", "format: 1");
    let digest = "0".repeat(64);
    let old = old.replace("provided_by: steward", &format!("sha256: '{digest}'"));
    assert_ne!(old, lock);
    repo.write("steward.lock", &old);
    fs::remove_dir_all(repo.path().join(".env")).unwrap();
    good(install(&repo, &wheels, &["project", "install"], "pip"));
    check_is_ours(&repo.path().join(".env"));
    good(run(repo.path(), &["project", "verify"], None));
    // A lock that was written is kept as it is.
    let kept = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
    assert_eq!(kept, old);
}

#[test]
fn a_server_installs_itself_in_the_place_of_the_reference_and_tells_each_stage() {
    let wheels = wheels_with_a_reference();
    let repo = project(
        "",
        "--no-index\n--find-links wheels\ninmanta-module-greet\n",
    );
    carry(&repo, &wheels);
    repo.commit("asks for a module");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    let stages = std::cell::RefCell::new(Vec::new());
    running.wait_for(|event| {
        if event["event"] == "stage" {
            stages
                .borrow_mut()
                .push(event["name"].as_str().unwrap_or_default().to_owned());
        }
        event["event"] == "compiled"
    });
    let expected = [
        "Making a virtual environment",
        "Choosing versions",
        "Installing modules",
    ];
    let stages = stages.into_inner();
    let told: Vec<&str> = stages.iter().map(String::as_str).collect();
    let first = told.iter().position(|name| *name == expected[0]).unwrap();
    assert_eq!(told[first..first + 3], expected, "{told:?}");
    let [environment] = environments(&host).try_into().unwrap();
    check_is_ours(&environment);
    assert!(running.stop().success());
}

/// The Pythons of this machine: series and program.
fn pythons() -> Vec<(String, PathBuf)> {
    const ASK: &str = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)";
    let names = [
        "python3.10",
        "python3.11",
        "python3.12",
        "python3.13",
        "python3.14",
    ];
    let ask = |name: &str| {
        let mut command = Command::new("sh");
        // A shim chooses by the working directory.
        command.args(["-c", &format!("exec {name} -I -c \"{ASK}\"")]);
        let output = command
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (series, path) = text.trim().split_once('\n')?;
        Some((series.to_owned(), PathBuf::from(path)))
    };
    names.iter().filter_map(|name| ask(name)).collect()
}

/// One that is too old for std of today, and one that is not.
fn old_and_new() -> Option<(PathBuf, PathBuf)> {
    let all = pythons();
    let find = |series: &[&str]| {
        let found = all.iter().find(|(own, _)| series.contains(&own.as_str()));
        found.map(|(_, path)| path.clone())
    };
    let both = find(&["3.11"]).zip(find(&["3.12", "3.13", "3.14"]));
    if both.is_none() {
        eprintln!("moving: SKIPPED, there is no Python 3.11 beside a newer one: {all:?}");
    }
    both
}

fn with_python(repo: &Repo, wheels: &Wheels, python: &Path) -> Output {
    let mut command = steward();
    command
        .args(["project", "install", "--project"])
        .arg(repo.path());
    command
        .args(["--no-index", "--find-links"])
        .arg(wheels.path());
    command.arg("--python").arg(python);
    finish(command)
}

#[test]
fn a_python_that_is_too_old_for_std_is_told_before_anything_is_installed() {
    let Some((old, new)) = old_and_new() else {
        return;
    };
    let wheels = Wheels::new();
    // As it is published: its metadata do not say what its code needs.
    wheels.module("std", "8.5.0", &[]);
    wheels.module("greet", "1.0", &["inmanta-module-std"]);
    let repo = project("", "inmanta-module-greet\n");
    let told = bad(with_python(&repo, &wheels, &old));
    for part in [
        "inmanta-module-std 8.5.0 needs Python >=3.12",
        "the Python that was taken is 3.11.",
        &*old.to_string_lossy(),
        "--python",
        "STEWARD_PYTHON",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!repo.path().join("steward.lock").exists());
    assert!(!repo.path().join(".env").exists());
    good(with_python(&repo, &wheels, &new));
    // An environment of another Python is not made anew behind somebody's back.
    fs::remove_file(repo.path().join("steward.lock")).unwrap();
    let told = bad(with_python(&repo, &wheels, &old));
    assert!(told.contains("remove that folder"), "{told}");
    good(with_python(&repo, &wheels, &new));
    // The lock says what its packages need, so that nothing is begun with another one.
    fs::remove_dir_all(repo.path().join(".env")).unwrap();
    let told = bad(with_python(&repo, &wheels, &old));
    assert!(told.contains("needs Python >=3.12"), "{told}");
    assert!(!repo.path().join(".env").exists());
}

#[test]
fn of_several_pythons_on_the_path_one_that_fits_is_taken() {
    let Some((old, new)) = old_and_new() else {
        return;
    };
    let wheels = Wheels::new();
    wheels.module("greet", "1.0", &["python>=3.12"]);
    let repo = project("", "inmanta-module-greet\n");
    let path = tempfile::tempdir().unwrap();
    let link = |target: &Path, name: &str| {
        // A link would lose the library of a Python that is not installed where it was built.
        let text = format!("#!/bin/sh\nexec {} \"$@\"\n", target.display());
        let script = path.path().join(name);
        fs::write(&script, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).unwrap();
    };
    link(&old, "python3");
    link(&new, "python3.12");
    let installed = |words: &[&str]| {
        let mut command = steward();
        command.args(words).arg("--project").arg(repo.path());
        command
            .args(["--no-index", "--find-links"])
            .arg(wheels.path());
        command
            .env("PATH", path.path())
            .env_remove("STEWARD_PYTHON");
        command.env("STEWARD_INSTALLER", "pip");
        finish(command)
    };
    let output = installed(&["project", "install"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&*new.to_string_lossy()), "{said}");
    assert!(good(output).contains("inmanta-module-greet 1.0\n"));
    // None fits: all that there are, and what to do.
    fs::remove_file(path.path().join("python3.12")).unwrap();
    fs::remove_dir_all(repo.path().join(".env")).unwrap();
    let told = bad(installed(&["project", "install"]));
    assert!(told.contains("on the path there are: 3.11."), "{told}");
    assert!(
        told.contains("inmanta-module-greet 1.0 needs Python >=3.12"),
        "{told}"
    );
}

#[test]
fn a_module_of_the_project_that_needs_another_python_is_told_without_an_installation() {
    let repo = Repo::new("import picky\n");
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        "libs/picky/setup.cfg",
        "[metadata]\nname = inmanta-module-picky\nversion = 1.0\nlicense = X\n[options]\npython_requires = >=9.9\n",
    );
    repo.write("libs/picky/model/_init.cf", "");
    repo.write(
        "libs/picky/inmanta_plugins/picky/__init__.py",
        "type broken = syntax of the future\n",
    );
    let told = bad(run(repo.path(), &["compile"], None));
    for part in ["picky", "needs Python >=9.9", "STEWARD_PYTHON"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
