//! YAML that would take a careless reader without end: in a repository, and as the configuration.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::{Host, Repo, Running, files, finish, steward};

/// Longer than any answer takes on a busy machine; the careless reader took minutes.
const AT_ONCE: Duration = Duration::from_secs(20);

/// What `serve` says of a configuration that it refuses, with and without `--check`.
#[track_caller]
fn refusal(config: &Path) -> String {
    let mut texts = Vec::new();
    for arguments in [
        &["serve", "--check", "--config"][..],
        &["serve", "--config"],
    ] {
        let mut command = steward();
        command.args(arguments).arg(config);
        let start = Instant::now();
        let output = finish(command);
        assert!(
            start.elapsed() < AT_ONCE,
            "{config:?}: {:?}",
            start.elapsed()
        );
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{config:?}: {text}");
        assert!(text.contains(config.to_str().unwrap()), "{text}");
        texts.push(text);
    }
    texts.join("\n")
}

/// Input: `serve` and `serve --check` with a FIFO, a device or a directory as configuration (docs/reference/security.md § 4.2). Answer: an error
/// at once, exit 2.
#[test]
fn a_configuration_that_is_no_plain_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo.yaml");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    for config in [fifo.as_path(), Path::new("/dev/zero"), dir.path()] {
        let text = refusal(config);
        assert!(text.contains("no plain file"), "{text}");
    }
}

/// Input: a `steward.yaml` with 200 000 nested brackets, with an alias bomb, of 5 MiB (docs/reference/security.md § 4.2). Answer: an error at once
/// that names the limit and the line, exit 2.
#[test]
fn a_configuration_that_is_nested_without_end_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("steward.yaml");
    let bomb: String = (1..30)
        .map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(9)))
        .collect();
    for (text, expected) in [
        ("data: ".to_owned() + &"[".repeat(200_000), "more than 100"),
        (
            "data:\n".to_owned() + &"[ # ]\n".repeat(200_000),
            "line 102",
        ),
        (format!("a0: &a0 [x]\n{bomb}"), "limit exceeded"),
        ("# nothing\n".repeat(1 << 19), "larger than 4194304 bytes"),
    ] {
        std::fs::write(&config, text).unwrap();
        let said = refusal(&config);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

fn is_compiled(event: &serde_json::Value, commit: &str) -> bool {
    // Events have the start of an id.
    let of_commit = event["commit"]
        .as_str()
        .is_some_and(|start| commit.starts_with(start));
    event["event"] == "compiled" && of_commit
}

/// Input: a repository whose `project.yml`, `steward.lock` or `module.yml` has 200 000 nested brackets (docs/reference/security.md § 4.2). Answer:
/// the compile fails with the file and the limit; the server goes on answering, and takes the next good commit.
#[test]
fn a_repository_with_yaml_nested_without_end_fails_its_compile_and_nothing_else() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let nested = "[ # ]\n".repeat(200_000);
    for (path, head) in [
        ("project.yml", "name: test\nx: "),
        ("steward.lock", "format: "),
        ("libs/deep/module.yml", "name: deep\nversion: "),
    ] {
        let project = "name: test\nmodulepath: libs\n";
        repo.write("project.yml", project);
        repo.write("libs/deep/model/_init.cf", "");
        repo.write(
            "main.cf",
            &format!("import deep\n{}", files(&[("a", path)])),
        );
        repo.write(
            "libs/deep/module.yml",
            "name: deep\nversion: 1.0.0\nlicense: X\n",
        );
        repo.write(path, &format!("{head}{nested}"));
        let start = Instant::now();
        let commit = repo.commit("nested");
        let compiled = running.wait_for(|event| is_compiled(event, &commit));
        assert!(start.elapsed() < AT_ONCE, "{path}: {:?}", start.elapsed());
        assert_eq!(compiled["success"], false, "{path}: {compiled}");
        let text = compiled.to_string();
        assert!(
            text.contains(path) && text.contains("more than 100"),
            "{text}"
        );
        assert_eq!(running.get("/api/v2/health").0, 200);
        repo.git(&["rm", "-q", "-f", "--ignore-unmatch", path]);
    }
    repo.write("project.yml", "name: test\n");
    repo.write("main.cf", &files(&[("a", "two")]));
    let good = repo.commit("good");
    let compiled = running.wait_for(|event| is_compiled(event, &good));
    assert_eq!(compiled["success"], true, "{compiled}");
    assert!(running.stop().success());
}
