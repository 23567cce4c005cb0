//! `docs/guide/services.md`: its files, commands and outputs, as they stand there.

use std::path::Path;
use std::process::Command;

use crate::embedded::text;
use crate::harness::{Running, finish, steward, wait_until};

const PAGE: &str = include_str!("../../docs/guide/services.md");

/// Kind, the rest of the first line, and text of each block.
fn blocks() -> Vec<(&'static str, &'static str, &'static str)> {
    let parts = PAGE.split("```").collect::<Vec<_>>();
    let inside = parts.iter().skip(1).step_by(2);
    inside
        .map(|block| {
            let (head, text) = block.split_once('\n').unwrap();
            let (kind, more) = head.split_once(' ').unwrap_or((head, ""));
            (kind, more, text)
        })
        .collect()
}

/// A line without times, dates and widths of columns, which are others each time.
fn comparable(line: &str) -> String {
    let is_time = |word: &&str| {
        let is_number = |character: char| character.is_ascii_digit() || ":-".contains(character);
        (word.len() == 8 || word.len() == 10)
            && word.chars().all(is_number)
            && word.contains([':', '-'])
    };
    let words = line.split_whitespace().filter(|word| !is_time(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Runs a block as a shell does, in the folder of the project.
fn run(block: &str, project: &Path, port: &str) -> String {
    let program = steward().get_program().to_owned();
    let folder = Path::new(&program).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    let shell_command = shell.args(["-c", block]).current_dir(project);
    shell_command
        .env("PATH", path)
        .env("INMANTA_COMPILER_REST_TRANSPORT_PORT", port);
    let ran = finish(shell);
    text(&ran.stdout) + &text(&ran.stderr)
}

#[test]
fn the_way_of_the_guide_from_an_empty_folder_to_a_deleted_instance() {
    let dir = tempfile::tempdir().unwrap();
    let (project, root) = (dir.path().join("links"), dir.path().join("srv"));
    std::fs::create_dir(&project).unwrap();
    // What the page calls /srv/links is ours.
    let here = root.display().to_string();
    let (mut output, mut n_checked) = (String::new(), 0);
    let (mut server, mut port) = (None, String::new());
    for (kind, more, block) in blocks() {
        let block = block.replace("/srv/links", &here);
        match (kind, more) {
            ("yaml" | "ini" | "inmanta" | "python", file) => {
                let file = project.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, block).unwrap();
            }
            ("sh", "server") => {
                let mut command = steward();
                command
                    .current_dir(&project)
                    .args(block.split_whitespace().skip(1));
                command.args(["--format", "json", "--listen", "127.0.0.1:0", "--data"]);
                let running = Running::start({
                    command.arg(dir.path().join("data"));
                    command
                });
                running
                    .api
                    .rsplit(':')
                    .next()
                    .unwrap()
                    .clone_into(&mut port);
                wait_until("the service is offered", || {
                    running.get("/lsm/v1/service_catalog/link").0 == 200
                });
                server = Some(running);
            }
            ("sh", _) => output = run(&block, &project, &port),
            ("text", _) => {
                let shown: Vec<String> = output.lines().map(comparable).collect();
                for line in block.lines().map(comparable) {
                    let is_there = shown.iter().any(|shown| shown.contains(&line));
                    assert!(is_there, "{line:?} is not in\n{output}");
                    n_checked += 1;
                }
            }
            other => panic!("what is to be done with a block of {other:?}?"),
        }
    }
    assert!(n_checked > 45, "{n_checked}");
    assert_eq!(
        std::fs::read_dir(&root).unwrap().count(),
        0,
        "the file is removed"
    );
    drop(server);
}
