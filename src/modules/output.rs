//! What pip and uv printed, made fit for people.

use std::process::Output;

use super::Error;

/// How pip begins its last words on a command that failed.
const FAILED_COMMAND: &str = "error: subprocess-exited-with-error";
/// How ssh says that no key was the right one.
const LOGIN_REFUSED: &str = "Permission denied (publickey";
/// How much of a failure's output is shown.
const MAX_OUTPUT_BYTES: usize = 32 << 10;

/// An output, if it is one of success.
pub(super) fn check_success(output: Output) -> Result<Output, Error> {
    if output.status.success() {
        Ok(output)
    } else {
        Err(explained(
            &output_text(&output),
            &String::from_utf8_lossy(&output.stdout),
        ))
    }
}

/// The output of a command before it failed.
pub(super) fn output_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = if text.trim().is_empty() {
        String::from_utf8_lossy(&output.stdout)
    } else {
        text
    };
    text.trim().to_owned()
}

/// pip's own explanation, without its other lines. Which package wants what, in a conflict, is on its standard output.
fn explained(stderr: &str, stdout: &str) -> Error {
    const NETWORK: &[&str] = &[
        "NewConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "Temporary failure in name resolution",
        "Connection refused",
        "Could not resolve host",
        "Failed to connect",
        "Max retries exceeded",
        // Of git and ssh.
        "Connection timed out",
        "Operation timed out",
        "Connection reset by peer",
        "Connection closed by",
        "No route to host",
        "Network is unreachable",
        "Host is down",
        "The requested URL returned error: 5",
        // What somebody mends on this machine or at the other end, and not in the commit.
        LOGIN_REFUSED,
        "Host key verification failed",
        "Authentication failed for",
        // Of uv.
        "error sending request",
        "Failed to fetch",
        "dns error",
    ];
    let lines: Vec<&str> = stderr.lines().map(str::trim_end).collect();
    // What git wrote is before the error, which comes twice: with the command, and at the end.
    let is_command = |line: &&str| line.trim_start().starts_with("Running command ");
    let is_error = |line: &&str| line.trim_start().to_lowercase().starts_with("error:");
    let command = lines.iter().position(is_command);
    let first = command.or_else(|| lines.iter().position(is_error));
    let is_again = |line: &&&str| command.is_some() && **line == FAILED_COMMAND;
    let kept: Vec<&str> = lines[first.unwrap_or(0)..]
        .iter()
        .take_while(|line| !is_again(line))
        .filter(|line| !line.starts_with("WARNING") && !line.contains("pip.pypa.io"))
        .map(|line| line.strip_prefix("ERROR: ").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .collect();
    let mut message = kept.join("\n");
    if let Some(at) = stdout.find("The conflict is caused by:") {
        let who = stdout[at..].lines().take_while(|line| !line.is_empty());
        message.push('\n');
        message.push_str(&who.collect::<Vec<_>>().join("\n"));
    }
    if stderr.contains(LOGIN_REFUSED) {
        message.push_str("\ngit of packages logs in with the keys in ~/.ssh of the user who installs, without a passphrase");
    }
    if message.len() > MAX_OUTPUT_BYTES {
        message.truncate(message.floor_char_boundary(MAX_OUTPUT_BYTES));
        message.push_str("\n…");
    }
    if NETWORK.iter().any(|sign| stderr.contains(sign)) {
        return Error::Unreachable { message };
    }
    Error::Unsatisfiable { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_explained_and_a_dead_network_is_not_a_mistake() {
        let stderr = "WARNING: something\nERROR: Cannot install a==1 and b==1 because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/";
        let stdout = "Looking in links: x\n\nThe conflict is caused by:\n    a 1 depends on c<2\n    b 1 depends on c>=2\n\nTo fix this";
        let error = explained(stderr, stdout);
        assert!(!error.is_transient());
        let text = error.to_string();
        assert!(text.starts_with("Cannot install a==1"), "{text}");
        assert!(text.contains("a 1 depends on c<2"), "{text}");
        assert!(!text.contains("https"), "{text}");
        let stderr = "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\nERROR: No matching distribution found for a";
        assert!(explained(stderr, "").is_transient());
    }

    #[test]
    fn what_git_writes_is_shown_once() {
        let stderr = "  Running command git clone --quiet 'ssh://****@host/mod.git' /tmp/x\n  ssh: connect to host host port 22: Connection refused\n  error: subprocess-exited-with-error\n  \n  × git clone did not run successfully.\n  ╰─> See above for output.\nerror: subprocess-exited-with-error\n\n× git clone did not run successfully.\n╰─> See above for output.\n";
        let error = explained(stderr, "");
        assert!(error.is_transient());
        let text = error.to_string();
        let n_shown = |what: &str| text.matches(what).count();
        assert_eq!(n_shown("Connection refused"), 1, "{text}");
        assert_eq!(n_shown("did not run successfully"), 1, "{text}");
        // An outage has many forms, and a key is put right on this machine.
        for cause in [
            "ssh: connect to host h port 22: Connection timed out",
            "ssh: connect to host h port 22: No route to host",
            "kex_exchange_identification: read: Connection reset by peer",
            "fatal: unable to access 'https://h/m.git/': The requested URL returned error: 503",
            "git@h: Permission denied (publickey).",
            "Host key verification failed.",
        ] {
            assert!(
                explained(
                    &stderr.replace(
                        "ssh: connect to host host port 22: Connection refused",
                        cause
                    ),
                    ""
                )
                .is_transient(),
                "{cause}"
            );
        }
        let denied = explained("error: x\ngit@h: Permission denied (publickey).", "");
        assert!(denied.to_string().contains("~/.ssh"), "{denied}");
        let missing =
            "fatal: unable to access 'https://h/m.git/': The requested URL returned error: 404";
        assert!(!explained(missing, "").is_transient());
        // In whatever order a build writes it.
        let odd = format!("{FAILED_COMMAND}\n Running command x\n");
        assert_eq!(explained(&odd, "").to_string(), " Running command x");
    }
}
