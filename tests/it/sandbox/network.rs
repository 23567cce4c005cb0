//! Plugins and the network: they have none but the hosts that are granted.

use super::{answers, can_sandbox, first_report, repo_with, server_of};
use crate::harness::{Repo, wrapper};
use crate::serve::serve;

/// Looks for servers on this machine and asks them what environments they have.
const ASKS_SERVERS: &str = r#"
import json, urllib.request
from inmanta.plugins import plugin

@plugin
def reached() -> "string":
    answered, n_tried = [], 0
    for line in open("/proc/net/tcp").readlines()[1:]:
        fields = line.split()
        if fields[3] != "0A":
            continue
        port = int(fields[1].split(":")[1], 16)
        n_tried += 1
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/environment", timeout=2) as answer:
                answered += [found["name"] for found in json.load(answer)["data"]]
        except (OSError, ValueError):
            pass
    return f"tried {n_tried > 0}, answered by {answered}"
"#;

/// Input: a plugin that connects to the API of a server without a token (docs/reference/security.md § 4.4). Answer: it cannot make a socket; a build's connection is closed.
#[test]
fn a_plugin_does_not_reach_the_api_of_a_server_without_a_token() {
    if !can_sandbox() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import asks\nstd::print(asks::reached())\n");
    repo.write_module("asks", "", ASKS_SERVERS);
    repo.commit("asks the servers of this machine");
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\n",
        repo.path().display()
    );
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    // There is no network at all.
    assert!(report.contains("tried True, answered by []"), "{report}");
}

const NO_NETWORK: &str = r#"
import os, socket
from inmanta.plugins import plugin

def attempt(family, kind, address):
    try:
        with socket.socket(family, kind) as made:
            made.settimeout(2)
            made.connect(address)
    except PermissionError:
        return "refused"
    except OSError as error:
        return str(error)
    return "CONNECTED"

@plugin
def connects(path: "string", port: "int") -> "string[]":
    return [
        attempt(socket.AF_UNIX, socket.SOCK_STREAM, path),
        attempt(socket.AF_UNIX, socket.SOCK_DGRAM, path),
        attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
        attempt(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port)),
        attempt(socket.AF_INET6, socket.SOCK_STREAM, ("::1", port)),
        attempt(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
    ]
"#;

/// Input: a plugin that connects to sockets by path, to this machine and to the cloud's metadata (docs/reference/security.md § 4.4). Answer: no socket can be made, with and without Landlock.
#[test]
fn plugins_have_no_network_and_reach_no_socket_by_path() {
    if !steward::sandbox::support().seccomp {
        return crate::harness::skip("seccomp");
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("daemon");
    let _daemon = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let call = format!(
        "std::print(net::connects(\"{}\", {port}))\n",
        path.display()
    );
    let repo = repo_with("net", NO_NETWORK, &call);
    let (_, config) = server_of(home.path(), &repo);
    let report = first_report(&serve(home.path(), &config));
    let refused = format!("[{}]", ["'refused'"; 6].join(", "));
    assert!(report.contains(&refused), "{report}");
}

const ASKS: &str = r#"
import os, socket, urllib.error, urllib.request
from inmanta.plugins import plugin

def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return str(error)

def directly(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5)
        return "CONNECTED"
    except OSError as error:
        return type(error).__name__

@plugin
def asks(granted: "int", other: "int") -> "string[]":
    return [
        fetch(f"http://localhost:{granted}/"),
        fetch(f"http://localhost:{other}/"),
        directly(granted),
    ]
"#;

/// Input: a plugin that reaches for hosts, of which the configuration grants one (docs/reference/security.md § 4.4). Answer: that one is reached through the server's proxy, others are refused by name, nothing is reached directly.
#[test]
fn plugins_reach_the_hosts_that_are_granted() {
    if steward::sandbox::support().landlock < steward::sandbox::PROXY_LANDLOCK
        || !wrapper().is_empty()
    {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (granted, other) = (answers("the granted one"), answers("ANOTHER ONE"));
    let repo = repo_with(
        "asker",
        ASKS,
        &format!("std::print(asker::asks({granted}, {other}))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let config = config.replace(
        "  name: e\n",
        &format!("  name: e\n  network: ['localhost:{granted}']\n"),
    );
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("'the granted one'"), "{report}");
    assert!(report.contains("may not reach localhost"), "{report}");
    assert!(report.contains("PermissionError"), "{report}");
    assert!(
        !report.contains("ANOTHER ONE") && !report.contains("CONNECTED"),
        "{report}"
    );
}
