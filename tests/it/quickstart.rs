//! The README's first command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Host, events, finish, steward};

fn quickstart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quickstart")
}

/// As the README says it, but with a state directory of the test and once.
fn up(home: &Path) -> Command {
    let mut command = steward();
    command.arg("up").arg(quickstart()).args([
        "--once",
        "--format",
        "json",
        "--listen",
        "127.0.0.1:0",
    ]);
    command
        .current_dir(home)
        .env("HOME", home)
        .env_remove("XDG_STATE_HOME");
    command
}

/// Every file below, with its content (and where links lead).
fn tree(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut queue = vec![dir.to_owned()];
    while let Some(path) = queue.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let relative = path.strip_prefix(dir).unwrap().to_owned();
        if metadata.is_dir() {
            queue.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            found.push((relative, "directory".into()));
        } else if metadata.is_symlink() {
            found.push((
                relative,
                format!("-> {}", fs::read_link(&path).unwrap().display()),
            ));
        } else {
            found.push((relative, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

//: deploy 134, 135
#[test]
fn a_fresh_start_puts_the_files_there_and_a_second_run_changes_nothing_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let first = finish(up(home.path()));
    let said = events(&first);
    let summary = said.last().unwrap();
    assert!(
        first.status.success(),
        "{summary}\n{}",
        String::from_utf8_lossy(&first.stderr)
    );
    assert_eq!(summary["event"], "summary");
    assert_eq!(summary["version"], 1);
    let total = summary["total"].as_i64().unwrap();
    assert!(total >= 25, "{summary}");
    assert_eq!(
        summary["deployed"].as_i64().unwrap() + summary["unchanged"].as_i64().unwrap(),
        total,
        "{summary}"
    );
    assert_eq!(
        (&summary["failed"], &summary["skipped"]),
        (&0.into(), &0.into())
    );

    let host = home.path().join("quickstart-host");
    let files = tree(&host);
    let text = |path: &str| fs::read_to_string(host.join(path)).unwrap_or_default();
    assert!(
        files.iter().any(|(path, _)| path.ends_with("nginx.conf")),
        "{files:#?}"
    );
    assert!(
        files.iter().any(|(_, content)| content.starts_with("-> ")),
        "a symlink is there: {files:#?}"
    );
    assert!(
        files
            .iter()
            .any(|(_, content)| content.contains("Hello, World!")),
        "{}",
        text("www1/index.html")
    );

    let second = finish(up(home.path()));
    let said = events(&second);
    let summary = said.last().unwrap();
    assert!(second.status.success(), "{summary}");
    assert_eq!(summary["version"], 1, "nothing new was compiled");
    assert_eq!(
        (&summary["deployed"], &summary["unchanged"]),
        (&0.into(), &total.into()),
        "{summary}"
    );
    assert_eq!(tree(&host), files);
}

#[test]
fn the_output_for_people_names_stages_resources_and_the_verdict() {
    let home = tempfile::tempdir().unwrap();
    let mut command = steward();
    command
        .arg("up")
        .arg(quickstart())
        .args(["--once", "--listen", "127.0.0.1:0"]);
    command
        .current_dir(home.path())
        .env("HOME", home.path())
        .env_remove("XDG_STATE_HOME");
    let output = finish(command);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for expected in [
        "compiled",
        "version 1:",
        "created",
        "fs::File",
        "all deployed",
    ] {
        assert!(
            text.contains(expected),
            "`{expected}` is missing in\n{text}"
        );
    }
    assert!(
        !text.contains('\u{1b}'),
        "colours belong on a terminal only"
    );
}

#[test]
fn the_folder_given_by_a_variable_is_used_and_a_changed_folder_is_deployed_again() {
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join("model");
    let status = Command::new("cp")
        .arg("-r")
        .arg(quickstart())
        .arg(&copy)
        .status()
        .unwrap();
    assert!(status.success());
    let root = home.path().join("elsewhere");
    let mut command = steward();
    command
        .arg("up")
        .arg(&copy)
        .args(["--format", "json", "--listen", "127.0.0.1:0"]);
    command
        .arg("--data")
        .arg(home.path().join("data"))
        .arg("--env");
    command
        .arg(format!("QUICKSTART_ROOT={}", root.display()))
        .current_dir(home.path());
    let mut running = crate::harness::Running::start(command);
    let (_, summary) = running.settled(1);
    assert_eq!(summary["failed"], 0, "{summary}");
    assert!(root.is_dir() && !home.path().join("quickstart-host").exists());
    let main = copy.join("main.cf");
    let text = fs::read_to_string(&main)
        .unwrap()
        .replace("Hello, World!", "Hello, Steward!");
    fs::write(&main, text).unwrap();
    let (ran, summary) = running.settled(2);
    assert_eq!(summary["failed"], 0, "{summary}");
    assert!(ran.iter().any(|line| line.ends_with("updated")), "{ran:?}");
    assert!(
        tree(&root)
            .iter()
            .any(|(_, content)| content.contains("Hello, Steward!"))
    );
    running.stop();
}

#[test]
fn a_first_fetch_that_takes_long_is_told_of_meanwhile() {
    let host = Host::new();
    // It takes the connection, and says nothing for a while.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.git", silent.local_addr().unwrap());
    std::thread::spawn(move || {
        let _connection = silent.accept();
        std::thread::sleep(std::time::Duration::from_secs(7));
    });
    let mut command = steward();
    command.args(["up", &url, "--once", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(host.data());
    let shown = crate::embedded::text(&finish(command).stdout);
    assert_eq!(
        shown.matches("still fetching or compiling").count(),
        1,
        "{shown}"
    );
    assert!(shown.contains("cannot fetch"), "{shown}");
}
