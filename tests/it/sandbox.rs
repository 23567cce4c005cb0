//! What code of a repository cannot do while it is compiled or built, and what is left of it afterwards.

mod builds;
mod files;
mod limits;
mod network;

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Repo, send, wait_until, wrapper};
use crate::serve::{Served, serve};

const ESCAPE: &str = include_str!("../../fixtures/packages/escape.py");
const ATTEMPTS: &str = include_str!("../../fixtures/packages/attempts.py");
const ESCAPE_BUILD: &str = include_str!("../../fixtures/packages/escape_build.py");

/// This kernel has what is tested; where it has not, the tests behind the wrapper that takes Landlock away say what is held.
fn can_sandbox() -> bool {
    let support = steward::sandbox::support();
    let can = support.landlock >= 6 && support.attributes;
    if !can {
        crate::harness::skip(&format!(
            "a kernel with Landlock 6 and seccomp, here: {support}"
        ));
    }
    can && wrapper().is_empty()
}

/// The report of the only compile of a server with one environment, when it has ended.
#[track_caller]
pub fn first_report(served: &Served) -> String {
    ended_report(served, 0, "")
}

/// The report of the compile of a commit, when it has ended.
#[track_caller]
pub fn report_of(served: &Served, commit: &str) -> String {
    ended_report(served, 0, &commit[..8])
}

/// The report of the only compile of an environment, by its place in the list of all, when it has ended.
#[track_caller]
pub fn report_of_environment(served: &Served, place: usize) -> String {
    ended_report(served, place, "")
}

/// The newest report of a compile of an environment that has ended and has this text in it.
#[track_caller]
fn ended_report(served: &Served, place: usize, part: &str) -> String {
    let ask = |path: &str, environment: &str| {
        let url = format!("{}{path}", served.api);
        let headers = [
            ("Authorization", "Bearer secret-of-the-server"),
            ("X-Inmanta-Tid", environment),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        send("GET", &url, &headers, b"").1
    };
    let environments = ask("/api/v2/environment", "");
    let environment = environments["data"][place]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut found = String::new();
    wait_until("the compile ends", || {
        let reports = ask("/api/v2/compilereport", &environment);
        let all = reports["data"].as_array().unwrap();
        let ended = all.iter().filter(|report| report["completed"].is_string());
        let texts = ended.map(|report| {
            let id = report["id"].as_str().unwrap();
            ask(&format!("/api/v2/compilereport/{id}"), &environment).to_string()
        });
        let mut texts = texts.filter(|text| text.contains(part));
        texts.next().map(|text| found = text).is_some()
    });
    found
}

/// A place for a server with a secret, and its configuration.
pub fn server_of(dir: &Path, repo: &Repo) -> (PathBuf, String) {
    let secret = dir.join("token");
    fs::write(&secret, "secret-of-the-server").unwrap();
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\napi_token: {{ file: {} }}\n",
        repo.path().display(),
        secret.display()
    );
    (secret, config)
}

/// Input: plugins that read the database, secrets and other checkouts, change modes, owners, times, sizes and attributes of hidden files, send signals to other processes, reach these or the network, or take memory that nobody would count (docs/reference/security.md § 4.1, § 4.4, § 4.5, § 4.6, § 3.38). Answer: each attempt is refused; what plugins do with files and processes of their own works; without Landlock all this holds but for reading and writing files.
#[test]
fn plugins_do_not_get_out_and_do_what_plugins_do() {
    let support = steward::sandbox::support();
    if !support.attributes {
        return crate::harness::skip("seccomp with notifications");
    }
    let has_landlock = support.landlock > 0 && wrapper().is_empty();
    if !has_landlock && wrapper().is_empty() {
        // What is held without it is tested below all the same.
        crate::harness::skip("Landlock");
    }
    // Not below the shared temporary files only: the data lie where a user may have them.
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import escape\n");
    let (secret, config) = server_of(home.path(), &repo);
    repo.write_module("escape", "", ESCAPE);
    repo.write("libs/escape/plugins/attempts.py", ATTEMPTS);
    let model = format!(
        "import escape\nstd::print(escape::ordinary())\nstd::print(escape::escape(\"{}\", \"{}\", {has_landlock}))\n",
        home.path().join("data").display(),
        secret.display()
    );
    repo.write("main.cf", &model);
    repo.commit("tries to get out");
    other_checkout(&home.path().join("data"));
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    let n_attempts = if has_landlock { 80 } else { 62 };
    assert!(report.contains("fine"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(
        report.contains(&format!("['{n_attempts} attempts']")),
        "{report}"
    );
}

/// A file of another environment's repository.
fn other_checkout(data: &Path) {
    let file = data.join("checkouts/other/main.cf");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "x = 1").unwrap();
}

/// A repository with one module of Python code, which the model imports.
pub fn repo_with(module: &str, code: &str, model: &str) -> Repo {
    let repo = Repo::new(&format!("import {module}\n{model}"));
    repo.write_module(module, "", code);
    repo.commit("a module");
    repo
}

/// Processes below another, by their command lines.
pub fn below(process: u32) -> Vec<(i32, String)> {
    let ids = steward::process::descendants::below([i32::try_from(process).unwrap()]);
    let commands = ids.into_iter().filter_map(|id| {
        let command = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        Some((id, String::from_utf8_lossy(&command).replace('\0', " ")))
    });
    commands.collect()
}

/// Input: anything that a compile worker does with a repository's files (docs/reference/security.md § 4.1). Answer: it does it in its sandbox, not only its Python code does.
#[test]
fn the_worker_itself_is_in_the_sandbox() {
    if !steward::sandbox::support().attributes {
        return crate::harness::skip("seccomp with notifications");
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("std::print(\"compiled\")\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    assert!(first_report(&served).contains("compiled"));
    let is_worker =
        |command: &str| command.contains(" compile-worker ") && !command.contains("supervise");
    let n_filters = |id: i32| -> u32 {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        assert!(line("NoNewPrivs:") <= 1);
        line("Seccomp_filters:")
    };
    let own = n_filters(i32::try_from(served.child.id()).unwrap());
    let workers = below(served.child.id())
        .into_iter()
        .filter(|(_, command)| is_worker(command));
    let filters: Vec<u32> = workers.map(|(id, _)| n_filters(id) - own).collect();
    // One that has entered, and one that is spare.
    assert!(filters.contains(&4), "{filters:?}");
}

/// The folder that an environment has below one of the data directory.
fn only_folder(parent: &Path) -> PathBuf {
    let folders = fs::read_dir(parent).unwrap().flatten();
    let folders = folders.map(|entry| entry.path());
    let is_hidden = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
    let mut folders: Vec<PathBuf> = folders.filter(|path| !is_hidden(path)).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

/// A server of one answer, for as long as the test runs.
pub fn answers(text: &'static str) -> u16 {
    use std::io::{Read, Write};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in server.incoming() {
            let Ok(mut client) = client else { continue };
            let _ = client.read(&mut [0; 4096]);
            let length = text.len();
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        }
    });
    port
}
