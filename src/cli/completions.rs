//! `steward completions`: what a shell reads to complete the commands and options of this program.

use std::io::Write;
use std::process::ExitCode;

use clap::{Command, CommandFactory, ValueEnum};

use super::{Arguments, TROUBLE};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn run(shell: Shell) -> ExitCode {
    let script = script(shell);
    match std::io::stdout().lock().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has what it wanted.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steward: the completions cannot be written: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

fn script(shell: Shell) -> Vec<u8> {
    use clap_complete::aot::{Shell as Known, generate};
    let known = match shell {
        Shell::Bash => Known::Bash,
        Shell::Zsh => Known::Zsh,
        Shell::Fish => Known::Fish,
    };
    let mut script = Vec::new();
    generate(known, &mut for_people(), "steward", &mut script);
    script
}

/// The commands that people type: those that only the server starts are left out.
fn for_people() -> Command {
    let all = Arguments::command();
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set());
    Command::new("steward")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown.cloned())
}

#[cfg(test)]
mod tests {
    use super::{Shell, script};

    #[test]
    fn each_shell_gets_what_people_type_and_nothing_that_is_hidden() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for shown in ["explain", "set-state", "server-port", "completions"] {
                assert!(script.contains(shown), "{shell:?} {shown}");
            }
            for hidden in ["compile-worker", "git-worker", "supervise", "attached"] {
                assert!(!script.contains(hidden), "{shell:?} {hidden}");
            }
        }
    }
}
