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
