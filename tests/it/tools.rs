//! `steward check` and `steward fmt`.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{finish, steward};

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn run(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = steward();
    command.current_dir(dir).args(arguments);
    let output = finish(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_check_reports_all_errors_at_once_and_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "project.yml", "name: test\nmodulepath: libs\n");
    write(
        dir.path(),
        "main.cf",
        "import m\nstd::print(\"never\")\nx = nothing\ny = m::Nothing()\nz = m::known()\n",
    );
    write(
        dir.path(),
        "libs/m/module.yml",
        "name: m\nversion: 1.0.0\nlicense: x\n",
    );
    write(
        dir.path(),
        "libs/m/model/_init.cf",
        "entity A extends B:\nend\n",
    );
    write(
        dir.path(),
        "libs/m/plugins/__init__.py",
        "import os\nos.mkdir('ran')\n@plugin\ndef known():\n    pass\n",
    );
    let (code, out, err) = run(dir.path(), &["check", "--message-format", "json"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let errors: Vec<Value> = err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let places: Vec<String> = errors
        .iter()
        .filter(|error| error["severity"] == "error")
        .map(|error| {
            format!(
                "{} {}:{}",
                error["kind"].as_str().unwrap(),
                error["file"].as_str().unwrap(),
                error["line"]
            )
        })
        .collect();
    assert_eq!(
        places,
        [
            "TypeNotFoundException libs/m/model/_init.cf:1",
            "NotFoundException main.cf:3",
            "TypeNotFoundException main.cf:4",
        ]
    );
    assert!(!dir.path().join("ran").exists());
    let (code, _, err) = run(dir.path(), &["check"]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("error[NotFoundException]: variable nothing not found\n --> main.cf:3:5\n")
    );
    assert!(err.contains("steward: 3 errors"), "{err}");
}

#[test]
fn a_check_of_a_good_project_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "project.yml", "name: test\n");
    write(dir.path(), "main.cf", "std::print(1)\n");
    let result = run(dir.path(), &["check"]);
    assert_eq!(result, (Some(0), String::new(), String::new()));
    let (code, ..) = run(dir.path(), &["check", "--project", "nowhere"]);
    assert_eq!(code, Some(2));
}

#[test]
fn the_quickstart_is_checked_and_laid_out() {
    let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quickstart");
    let result = run(&quickstart, &["check"]);
    assert_eq!(result, (Some(0), String::new(), String::new()));
    let result = run(&quickstart, &["fmt", "--check"]);
    assert_eq!(result, (Some(0), String::new(), String::new()));
}

#[test]
fn files_are_laid_out_in_place_and_broken_ones_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    write(path, "main.cf", "x=1\n");
    write(path, "libs/m/model/_init.cf", "entity A:\nint x\nend\n");
    write(path, "good.cf", "x = 1\n");
    write(path, "bad.cf", "x = = 1\n");
    write(path, "notes.txt", "x=1\n");
    write(path, ".hidden/x.cf", "x=1\n");
    let (code, _, err) = run(path, &["fmt", "--check", "main.cf", "good.cf", "libs"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        err,
        "steward: main.cf would change\nsteward: libs/m/model/_init.cf would change\n"
    );
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    assert_eq!(read("main.cf"), "x=1\n");
    // Nobody's files are written anew by a command that names none.
    let (code, out, err) = run(path, &["fmt"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        err.contains("this folder is no project and no module"),
        "{err}"
    );
    assert_eq!(read("main.cf"), "x=1\n");
    write(path, "project.yml", "name: p\n");
    let (code, out, err) = run(path, &["fmt"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.starts_with("error[ParserException]: Syntax error at token =\n --> ./bad.cf:1:6\n"),
        "{err}"
    );
    let written = "formatted ./libs/m/model/_init.cf\nformatted ./main.cf\n";
    assert!(err.ends_with(written), "{err}");
    assert_eq!(read("main.cf"), "x = 1\n");
    assert_eq!(read("libs/m/model/_init.cf"), "entity A:\n    int x\nend\n");
    assert_eq!(read("bad.cf"), "x = = 1\n");
    assert_eq!(read("notes.txt"), "x=1\n");
    assert_eq!(read(".hidden/x.cf"), "x=1\n");
    let result = run(path, &["fmt", "--check", "main.cf", "libs"]);
    assert_eq!(result, (Some(0), String::new(), String::new()));
    let (code, _, err) = run(path, &["fmt", "nowhere.cf"]);
    assert_eq!(
        (code, err.as_str()),
        (Some(2), "steward: there is no nowhere.cf\n")
    );
}

#[test]
fn standard_input_is_laid_out_on_standard_output() {
    let laid_out = |text: &str, more: &[&str]| {
        let mut child = steward()
            .args(["fmt", "--stdin"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), out)
    };
    assert_eq!(
        laid_out("x=1 # c", &[]),
        (Some(0), "x = 1  # c\n".to_owned())
    );
    assert_eq!(laid_out("x=1", &["--check"]), (Some(1), String::new()));
    assert_eq!(laid_out("x = 1\n", &["--check"]), (Some(0), String::new()));
    assert_eq!(laid_out("x = = 1", &[]), (Some(1), String::new()));
}
