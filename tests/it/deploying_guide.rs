//! `docs/guide/deploying.md`: its commands, as they stand there, in a folder with the files that it shows.

use std::process::Command;

use crate::embedded::text;
use crate::harness::{finish, steward};

const PAGE: &str = include_str!("../../docs/guide/deploying.md");

/// Kind and text of each block.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts = PAGE.split("```").collect::<Vec<_>>();
    let inside = parts.iter().skip(1).step_by(2);
    inside
        .map(|block| block.split_once('\n').unwrap())
        .collect()
}

/// Without how long things took, and without what is around them.
fn without_times(output: &str) -> Vec<String> {
    let is_time = |words: &[&str]| {
        words[0].chars().all(|c| c.is_ascii_digit() || c == '.') && ["ms", "s"].contains(&words[1])
    };
    let lines = output.lines().map(|line| {
        let line = line.trim_end();
        let words: Vec<&str> = line.split(' ').collect();
        let n_words = words.len();
        match n_words > 2 && is_time(&words[n_words - 2..]) {
            true => words[..n_words - 2].join(" "),
            false => line.to_owned(),
        }
    });
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    let root = dir.path().join("root");
    std::fs::create_dir(&project).unwrap();
    std::fs::create_dir(&root).unwrap();
    let program = steward().get_program().to_owned();
    let folder = std::path::Path::new(&program).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let (mut output, mut n_checked) = (String::new(), 0);
    for (kind, block) in blocks() {
        match kind {
            "yaml" => std::fs::write(project.join("project.yml"), block).unwrap(),
            "inmanta" => std::fs::write(project.join("main.cf"), block).unwrap(),
            "sh" => {
                let mut shell = Command::new("sh");
                shell.args(["-c", block]).current_dir(&project);
                let ran = finish({
                    shell.env("PATH", &path).env("ROOT", &root);
                    shell
                });
                output = text(&ran.stdout) + &text(&ran.stderr);
            }
            "text" => {
                let shown =
                    without_times(&output.replace(&root.display().to_string(), "/srv/demo"));
                for line in without_times(block) {
                    assert!(shown.contains(&line), "{line:?} is not in\n{output}");
                    n_checked += 1;
                }
            }
            "ini" => {}
            other => panic!("what is to be done with a block of {other}?"),
        }
    }
    assert!(n_checked > 15, "{n_checked}");
}
