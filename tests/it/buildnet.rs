//! What package builds reach of the network.

use crate::harness::{Repo, skip};
use crate::packages::source_folder;
use crate::sandbox::{answers, first_report, server_of};
use crate::serve::{serve, serve_on};

/// A build backend that reaches for what its file `ports` names, and makes a module that says what came of it.
const REACHES: &str = r#"
import pathlib, socket, urllib.error, urllib.request
import wheel

HERE = pathlib.Path(__file__).parent

def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return type(error).__name__

def directly(kind, port):
    try:
        with socket.socket(socket.AF_INET, kind) as made:
            made.connect(("127.0.0.1", port))
            return "CONNECTED"
    except OSError as error:
        return type(error).__name__

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    index, other = (int(port) for port in (HERE / "ports").read_text().split())
    told = "\n".join([
        "by name of the project " + fetch(f"http://127.0.0.1:{index}/"),
        "another " + fetch(f"http://127.0.0.1:{other}/"),
        "by its name " + fetch(f"http://localhost:{other}/"),
        "of the cloud " + fetch("http://169.254.169.254/latest/meta-data"),
        "directly " + directly(socket.SOCK_STREAM, other),
        "by datagram " + directly(socket.SOCK_DGRAM, other),
    ])
    (HERE / "__init__.py").write_text(
        f"from inmanta.plugins import plugin\n\n@plugin\ndef version() -> \"string\":\n    return {told!r}\n"
    )
    return wheel.build_wheel(wheel_directory)
"#;

/// A project that names an index on this machine, with a package whose build reaches for that, and for another port.
fn reaching(index: u16, other: u16) -> Repo {
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    repo.write(
        "project.yml",
        &format!("name: test\npip:\n  index-url: http://127.0.0.1:{index}/simple\n"),
    );
    repo.write("requirements.txt", "--no-index\n./sources/greet\n");
    source_folder(&repo.path().join("sources/greet"), "1.0");
    repo.write("sources/greet/ports", &format!("{index} {other}"));
    repo.write("sources/greet/reaches.py", REACHES);
    repo.write(
        "sources/greet/pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = \"reaches\"\nbackend-path = [\".\"]\n",
    );
    repo.commit("reaches out of its build");
    repo
}

/// Input: a project that names the port of the server as its index, so that its builds go there over the proxy of the server, which trusts whoever is on its machine (docs/reference/security.md § 4.4). Answer: that port they do not reach.
#[test]
fn a_build_does_not_reach_the_server_itself_as_its_index() {
    if steward::sandbox::support().landlock < steward::sandbox::PROXY_LANDLOCK {
        return skip("Landlock 4");
    }
    let home = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    let repo = reaching(port, answers("another-service"));
    let (_, config) = server_of(home.path(), &repo);
    drop(free);
    let served = serve_on(home.path(), &config, &port.to_string());
    let report = first_report(&served);
    let refused = "by name of the project 403 package builds may not reach 127.0.0.1:";
    assert!(report.contains(refused), "{report}");
}

/// Input: a package whose build connects to services of this machine and to the metadata service of clouds, beside the index that its project names (docs/reference/security.md § 4.4). Answer: it reaches the index through the server's proxy, and nothing else of the machine.
#[test]
fn a_build_reaches_no_service_of_this_machine_but_the_index() {
    if steward::sandbox::support().landlock < steward::sandbox::PROXY_LANDLOCK {
        return skip("Landlock 4");
    }
    let home = tempfile::tempdir().unwrap();
    let (index, other) = (answers("the-index"), answers("another-service"));
    let repo = reaching(index, other);
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    for expected in [
        "by name of the project the-index",
        "another 403 package builds may not reach 127.0.0.1:",
        "by its name 403 package builds may not reach localhost:",
        "of the cloud 403 package builds may not reach 169.254.169.254:80",
        "directly PermissionError",
        "by datagram PermissionError",
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    assert!(!report.contains("another-service"), "{report}");
}
