//! The compiles of a server, commit after commit: of each shape the time that the log names for the first commit, and for
//! others whose model differs in one line and whose Python code is the same.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::shapes::{self, Shape};

/// Commits behind the first.
const N_COMMITS: usize = 5;
/// The longest that a commit may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prints one line.
pub fn run(shape: &Shape, program: &str, directory: &Path) {
    let home = directory.join(format!("served-{}", shape.name));
    let project = home.join("project");
    std::fs::create_dir_all(&project).expect("a folder");
    shapes::project(shape, &project).expect("the project is written");
    git(&project, &["init", "-q", "-b", "main"]);
    commit(&project);
    let config = format!(
        "listen: 127.0.0.1:0\ndata: {}\nenvironments:\n- project: p\n  name: e\n  repository: {}\n  settings: {{ auto_deploy: false }}\n",
        home.join("data").display(),
        project.display()
    );
    let path = home.join("steward.yaml");
    std::fs::write(&path, config).expect("a configuration");
    let (mut server, times) = start(program, &path);
    let time = || times.recv_timeout(PATIENCE).expect("the commit compiles");
    let first = time();
    let mut later: Vec<f64> = (0..N_COMMITS)
        .map(|at| {
            let mut file = std::fs::File::options()
                .append(true)
                .open(project.join("main.cf"))
                .expect("the model");
            writeln!(file, "x{at} = {at}").expect("one line more");
            commit(&project);
            time()
        })
        .collect();
    let _ = server.kill();
    let _ = server.wait();
    later.sort_by(f64::total_cmp);
    println!(
        "{:<12} {:>5} first {:>7.1} ms, later {:>7.1} ms ({:.1} to {:.1})",
        shape.name,
        shape.n,
        first,
        later[later.len() / 2],
        later[0],
        later[later.len() - 1],
    );
}

/// A server, and the milliseconds of its compiles as they end.
fn start(program: &str, config: &Path) -> (Child, Receiver<f64>) {
    let mut server = Command::new(program)
        .args(["serve", "--config"])
        .arg(config)
        .env("NO_COLOR", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let log = BufReader::new(server.stderr.take().expect("its log"));
    let (sender, times) = channel();
    std::thread::spawn(move || {
        for line in log.lines().map_while(Result::ok) {
            let time = line
                .split_once("compiled commit ")
                .and_then(|(_, rest)| rest.split(' ').nth(2));
            if let Some(time) = time.and_then(milliseconds) {
                let _ = sender.send(time);
            }
        }
    });
    (server, times)
}

/// A duration as the log writes it, `35.8ms` or `1.1s`.
fn milliseconds(text: &str) -> Option<f64> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok(),
        None => Some(text.strip_suffix('s')?.parse::<f64>().ok()? * 1e3),
    }
}

fn commit(project: &Path) {
    git(project, &["add", "-A"]);
    let who = ["-c", "user.name=b", "-c", "user.email=b@example.org"];
    git(
        project,
        &[&who[..], &["commit", "-qm", "a commit"]].concat(),
    );
}

fn git(project: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(project)
        .args(arguments)
        .status();
    assert!(status.expect("git runs").success());
}
