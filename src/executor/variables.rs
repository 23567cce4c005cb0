//! What handlers find in the environment of their process. Source: docs/reference/configuration.md, "Variables of handlers".
//!
//! A server's own environment may have secrets in it that its configuration names, and repositories bring the code of handlers.
//! So of a server they get what says where their user's files are and how to reach the network, and what the configuration
//! gives the environment. Who starts `steward agent` or `steward deploy` starts it for handlers, so these get all that it has.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::process::NETWORK_VARIABLES;

/// Names and values.
pub type Variables = Vec<(OsString, OsString)>;

/// What a server passes on, besides [`NETWORK_VARIABLES`].
const OF_SERVER: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
];

/// How names begin that are not passed on: ours, those of an interpreter that is not the handlers', and those of the language, in
/// which programs would say what handlers read; that is `C.UTF-8`.
const KINDS_OF_NOBODY_ELSE: &[&str] = &["STEWARD_", "PYTHON", "LC_"];

/// The same, as whole names, and those that systemd sets for one service.
const OF_NOBODY_ELSE: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "VIRTUAL_ENV",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "CREDENTIALS_DIRECTORY",
    "STATE_DIRECTORY",
    "RUNTIME_DIRECTORY",
    "CACHE_DIRECTORY",
    "LOGS_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
    "SYSTEMD_EXEC_PID",
    "MAINPID",
];

/// For the executors of a server: some of its own, and `given` ones, which win.
pub fn of_server(given: BTreeMap<String, String>) -> Variables {
    let own = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        [OF_SERVER, NETWORK_VARIABLES]
            .iter()
            .any(|names| names.contains(&name.as_ref()))
    });
    let mut all: BTreeMap<OsString, OsString> = own.collect();
    let given = given
        .into_iter()
        .filter(|(name, _)| !is_ours(OsStr::new(name)));
    all.extend(given.map(|(name, value)| (name.into(), value.into())));
    all.into_iter().collect()
}

/// For the executors of a process that was started for them.
pub fn of_process() -> Variables {
    std::env::vars_os()
        .filter(|(name, _)| !is_ours(name))
        .collect()
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_of_kind = |start: &&str| name.starts_with(start);
    OF_NOBODY_ELSE.contains(&name.as_ref()) || KINDS_OF_NOBODY_ELSE.iter().any(is_of_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that only begins like one of systemd's or of the language is the user's.
    #[test]
    fn what_is_given_arrives_but_for_what_is_ours() {
        let given = [
            "REGION",
            "LISTEN_PORT",
            "LANGFUSE_KEY",
            "STEWARD_X",
            "PYTHONPATH",
            "LANG",
            "LISTEN_FDS",
        ];
        let given = given.map(|name| (name.to_owned(), "x".to_owned()));
        let arrived = of_server(BTreeMap::from(given));
        let of_given = |(name, value): &(OsString, OsString)| {
            (value == "x").then(|| name.to_string_lossy().into_owned())
        };
        let names: Vec<String> = arrived.iter().filter_map(of_given).collect();
        assert_eq!(names, ["LANGFUSE_KEY", "LISTEN_PORT", "REGION"]);
    }
}
