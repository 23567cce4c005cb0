//! What handlers find in the environment of their process. Source: docs/reference/configuration.md, "Variables of handlers".
//!
//! A server's own environment may have secrets in it that its configuration names, and repositories bring the code of handlers.
//! So of a server they get what says where their user's files are and how to reach the network, and what the configuration
//! gives the environment. Who starts `steward agent` or `steward deploy` starts it for handlers, so these get all that it has.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Names and values.
pub type Variables = Vec<(OsString, OsString)>;

/// What a server passes on.
const OF_SERVER: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
];

/// How names begin that are not passed on: ours, systemd's for one service, those of an interpreter that is not the handlers', and
/// those of the language, in which programs would say what handlers read; it is `C.UTF-8`.
const OF_NOBODY_ELSE: &[&str] = &[
    "STEWARD_",
    "LANG",
    "LC_",
    "PYTHON",
    "VIRTUAL_ENV",
    "NOTIFY_SOCKET",
    "WATCHDOG_",
    "CREDENTIALS_DIRECTORY",
    "STATE_DIRECTORY",
    "RUNTIME_DIRECTORY",
    "CACHE_DIRECTORY",
    "LOGS_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "LISTEN_",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
    "SYSTEMD_EXEC_PID",
    "MAINPID",
];

/// For the executors of a server: some of its own, and `given` ones, which win.
pub fn of_server(given: BTreeMap<String, String>) -> Variables {
    let own = std::env::vars_os()
        .filter(|(name, _)| OF_SERVER.contains(&name.to_string_lossy().as_ref()));
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
    OF_NOBODY_ELSE.iter().any(|start| name.starts_with(start))
}
