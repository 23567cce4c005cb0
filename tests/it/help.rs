//! What the commands say about themselves, as it was reviewed: `snapshots/` has the texts.
//!
//! After a change of the command line: `INSTA_UPDATE=always cargo test -p steward --test it help::`, and read the difference.

use std::process::Output;

use crate::harness::steward;

/// Every command that is shown, with those below it.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["up"],
    &["serve"],
    &["agent"],
    &["deploy"],
    &["plan"],
    &["explain"],
    &["export"],
    &["lsm"],
    &["lsm", "catalog"],
    &["lsm", "list"],
    &["lsm", "show"],
    &["lsm", "create"],
    &["lsm", "update"],
    &["lsm", "delete"],
    &["lsm", "set-state"],
    &["lsm", "watch"],
    &["lsm", "diagnose"],
    &["lsm", "events"],
    &["lsm", "log"],
    &["compile"],
    &["check"],
    &["fmt"],
    &["lsp"],
    &["project"],
    &["project", "install"],
    &["project", "update"],
    &["project", "verify"],
    &["python-package"],
    &["completions"],
];

fn help_of(command: &[&str]) -> Output {
    // As wide as it is where nobody looks.
    let mut steward = steward();
    let steward = steward.args(command).arg("--help").env_remove("COLUMNS");
    steward.output().unwrap()
}

#[test]
fn the_help_of_every_command_is_as_it_was_reviewed() {
    for command in COMMANDS {
        let output = help_of(command);
        assert!(output.status.success(), "{command:?}");
        let help = String::from_utf8(output.stdout).unwrap();
        let name = [&["steward"][..], command].concat().join("_");
        insta::assert_snapshot!(name, help);
    }
}

/// A command that is added is in the list above.
#[test]
fn every_command_that_the_help_names_is_reviewed() {
    let output = help_of(&[]);
    let help = String::from_utf8(output.stdout).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    // What goes on from the line above is indented more.
    for line in commands.filter(|line| !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap();
        let is_listed = COMMANDS.iter().any(|command| *command == [name]);
        assert!(is_listed || name == "help", "{name}");
    }
}

/// Given: a real bash that has read what `steward completions bash` writes. Input: half a word. Expected: the rest of it.
#[test]
fn bash_completes_commands_and_options() {
    let script = steward()
        .args(["completions", "bash"])
        .output()
        .unwrap()
        .stdout;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steward.bash");
    std::fs::write(&path, script).unwrap();
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let program = format!(
            "source {}; complete -p steward >/dev/null || exit 3; COMP_WORDS=({}); COMP_CWORD={}; \
             _steward steward '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
            path.display(),
            words
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let bash = std::process::Command::new("bash")
            .args(["--norc", "-c", &program])
            .output();
        let output = bash.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("steward exp"), "explain export");
    assert_eq!(complete("steward lsm set"), "set-state");
    assert_eq!(complete("steward explain --server-p"), "--server-port");
    assert_eq!(complete("steward completions f"), "fish");
    assert_eq!(complete("steward compile-w"), "");
}
