//! What code of a repository cannot do while it is compiled or built, and what is left of it afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Repo, send, wait_until, wrapper};
use crate::packages::source_folder;
use crate::serve::{Served, serve, serve_with};

const ESCAPE: &str = include_str!("../../fixtures/packages/escape.py");
const ATTEMPTS: &str = include_str!("../../fixtures/packages/attempts.py");
const ESCAPE_BUILD: &str = include_str!("../../fixtures/packages/escape_build.py");

/// This kernel has what is tested.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn can_sandbox() -> bool {
    let support = steward::sandbox::support();
    let can = support.landlock >= 6 && support.attributes && wrapper().is_empty();
    if !can {
        // A kernel cannot be installed, on CI neither.
        eprintln!("SKIPPED: needs a kernel with Landlock 6 and seccomp, here: {support}");
    }
    can
}

/// The report of the only compile of a server with one environment, when it has ended.
#[track_caller]
pub fn first_report(served: &Served) -> String {
    ended_report(served, "")
}

/// The report of the compile of a commit, when it has ended.
#[track_caller]
pub fn report_of(served: &Served, commit: &str) -> String {
    ended_report(served, &commit[..8])
}

/// The newest report of a compile that has ended and has this text in it.
#[track_caller]
fn ended_report(served: &Served, part: &str) -> String {
    let ask = |path: &str, environment: &str| {
        let url = format!("{}{path}", served.api);
        let headers = [
            ("Authorization", "Bearer secret-of-the-server"),
            ("X-Inmanta-Tid", environment),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        send("GET", &url, &headers, b"").1
    };
    let environments = ask("/api/v2/environment", "");
    let environment = environments["data"][0]["id"].as_str().unwrap().to_owned();
    let mut found = String::new();
    wait_until("the compile ends", || {
        let reports = ask("/api/v2/compilereport", &environment);
        let all = reports["data"].as_array().unwrap();
        let ended = all.iter().filter(|report| report["completed"].is_string());
        let texts = ended.map(|report| {
            let id = report["id"].as_str().unwrap();
            ask(&format!("/api/v2/compilereport/{id}"), &environment).to_string()
        });
        let mut texts = texts.filter(|text| text.contains(part));
        texts.next().map(|text| found = text).is_some()
    });
    found
}

/// A place for a server with a secret, and its configuration.
pub fn server_of(dir: &Path, repo: &Repo) -> (PathBuf, String) {
    let secret = dir.join("token");
    fs::write(&secret, "secret-of-the-server").unwrap();
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\napi_token: {{ file: {} }}\n",
        repo.path().display(),
        secret.display()
    );
    (secret, config)
}

/// Input: plugins that read the database, secrets and other checkouts, change modes, owners, times and attributes of hidden files, reach other processes or the network (docs/reference/security.md § 4.1, § 4.4, § 4.6, § 3.38). Answer: each attempt is refused; what plugins do with files of their own works.
#[test]
fn plugins_do_not_get_out_and_do_what_plugins_do() {
    if !can_sandbox() {
        return;
    }
    // Not below the shared temporary files only: the data lie where a user may have them.
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import escape\n");
    let (secret, config) = server_of(home.path(), &repo);
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        "libs/escape/module.yml",
        "name: escape\nversion: '1.0'\nlicense: MIT\n",
    );
    repo.write("libs/escape/model/_init.cf", "");
    repo.write("libs/escape/plugins/__init__.py", ESCAPE);
    repo.write("libs/escape/plugins/attempts.py", ATTEMPTS);
    let model = format!(
        "import escape\nstd::print(escape::ordinary())\nstd::print(escape::escape(\"{}\", \"{}\"))\n",
        home.path().join("data").display(),
        secret.display()
    );
    repo.write("main.cf", &model);
    repo.commit("tries to get out");
    other_checkout(&home.path().join("data"));
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("fine"), "{report}");
    assert!(report.contains("57 attempts"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(report.contains("['57 attempts']"), "{report}");
}

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
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        "libs/asks/module.yml",
        "name: asks\nversion: '1.0'\nlicense: MIT\n",
    );
    repo.write("libs/asks/model/_init.cf", "");
    repo.write("libs/asks/plugins/__init__.py", ASKS_SERVERS);
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

/// A file of another environment's repository.
fn other_checkout(data: &Path) {
    let file = data.join("checkouts/other/main.cf");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "x = 1").unwrap();
}

/// A project with a folder that tries to get out when it is built. Gives a file of another environment's, too.
fn builds_to_escape(repo: &Repo, data: &Path, secret: &Path, plant: Option<&str>) -> PathBuf {
    let other = data.join("python/environments/other/pyvenv.cfg");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, "of another").unwrap();
    other_checkout(data);
    repo.write("requirements.txt", "--no-index\n./sources/greet\n");
    let source = repo.path().join("sources/greet");
    source_folder(&source, "1.0");
    let mut package: Value =
        serde_json::from_str(&fs::read_to_string(source.join("package.json")).unwrap()).unwrap();
    package["data"] = data.to_str().into();
    package["secret"] = secret.to_str().into();
    package["other"] = other.to_str().into();
    if let Some(plant) = plant {
        package["plant"] = plant.into();
    }
    repo.write("sources/greet/package.json", &package.to_string());
    repo.write("sources/greet/attempts.py", ATTEMPTS);
    repo.write("sources/greet/escape_build.py", ESCAPE_BUILD);
    repo.write(
        "sources/greet/pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = \"escape_build\"\nbackend-path = [\".\"]\n",
    );
    repo.commit("tries to get out of its build");
    other
}

/// What is built where it is installed is code of the repository, too.
///
/// Input: a build backend that does the same (docs/reference/security.md § 4.1, § 4.6). Answer: each attempt is refused; what builds do works.
#[test]
fn builds_do_not_get_out_and_do_what_builds_do() {
    if !can_sandbox() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let (secret, config) = server_of(home.path(), &repo);
    let data = home.path().join("data");
    let other = builds_to_escape(&repo, &data, &secret, None);
    let variables = [
        ("ONLY_FOR_THE_SERVER", "x"),
        ("PIP_INDEX_URL", "https://user:secret@localhost/simple"),
    ];
    let served = serve_with(home.path(), &config, &variables);
    let report = first_report(&served);
    assert!(report.contains("54 attempts fine"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(report.contains("\"54 attempts fine\\n"), "{report}");
    // What it wrote into its source is not in the checkout, which belongs to the commit.
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let checkouts = below(data.join("checkouts")).flat_map(|owner| below(owner.path()));
    let built: Vec<bool> = checkouts
        .filter(|checkout| checkout.path().join("sources/greet").is_dir())
        .map(|checkout| checkout.path().join("sources/greet/build").exists())
        .collect();
    assert_eq!(built, [false]);
    assert_eq!(fs::read_to_string(&other).unwrap(), "of another");
    assert_eq!(fs::read_dir(data.join("python/builds")).unwrap().count(), 0);
}

/// Input: a build that leaves links to secrets in the environment that it installs into (docs/reference/security.md § 4.1). Answer: the installation is refused, the link is named.
#[test]
fn a_build_leaves_no_link_for_the_compile_to_follow() {
    if !can_sandbox() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("import greet\nstd::print(greet::version())\n");
    let (secret, config) = server_of(home.path(), &repo);
    builds_to_escape(&repo, &home.path().join("data"), &secret, Some("lib/leak"));
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    let told = "a build left a link to what only the server may read: lib/leak";
    assert!(report.contains(told), "{report}");
    assert!(!report.contains("secret-of-the-server"), "{report}");
}

/// A build backend that makes a module of the names in its environment.
const NAMES_BUILD: &str = "import os, pathlib, wheel\n\ndef build_wheel(directory, settings=None, metadata=None):\n    \
    here = pathlib.Path(__file__).parent\n    names = ' '.join(sorted(os.environ))\n    \
    (here / '__init__.py').write_text(f'from inmanta.plugins import plugin\\n@plugin\\ndef version() -> \"string\":\\n    return {names!r}\\n')\n    \
    return wheel.build_wheel(directory)\n";

#[test]
fn builds_get_what_says_where_packages_are_only_where_the_project_asks_for_it() {
    let names = |use_system_config: bool| {
        let home = tempfile::tempdir().unwrap();
        let repo = Repo::new("import greet\nstd::print(greet::version())\n");
        let (_, config) = server_of(home.path(), &repo);
        repo.write(
            "project.yml",
            &format!("name: test\npip: {{use-system-config: {use_system_config}}}\n"),
        );
        repo.write("requirements.txt", "--no-index\n./sources/greet\n");
        source_folder(&repo.path().join("sources/greet"), "1.0");
        repo.write("sources/greet/names_build.py", NAMES_BUILD);
        repo.write(
            "sources/greet/pyproject.toml",
            "[build-system]\nrequires = []\nbuild-backend = \"names_build\"\nbackend-path = [\".\"]\n",
        );
        repo.commit("builds");
        let variables = [
            ("PIP_FIND_LINKS", "/nowhere"),
            ("PIP_LOG", "/nowhere/else"),
            ("GIT_SSL_CAINFO", "/nowhere/ca.pem"),
            ("A_SECRET", "x"),
        ];
        first_report(&serve_with(home.path(), &config, &variables))
    };
    let (with, without) = (names(true), names(false));
    for report in [&with, &without] {
        assert!(report.contains("PIP_CACHE_DIR"), "{report}");
        assert!(report.contains("GIT_SSL_CAINFO"), "{report}");
        assert!(!report.contains("A_SECRET"), "{report}");
        assert!(!report.contains("PIP_LOG"), "{report}");
    }
    assert!(with.contains("PIP_FIND_LINKS"), "{with}");
    assert!(!without.contains("PIP_FIND_LINKS"), "{without}");
}

/// A repository with one module of Python code, which the model imports.
pub fn repo_with(module: &str, code: &str, model: &str) -> Repo {
    let repo = Repo::new(&format!("import {module}\n{model}"));
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        &format!("libs/{module}/module.yml"),
        &format!("name: {module}\nversion: '1.0'\nlicense: MIT\n"),
    );
    repo.write(&format!("libs/{module}/model/_init.cf"), "");
    repo.write(&format!("libs/{module}/plugins/__init__.py"), code);
    repo.commit("a module");
    repo
}

/// The folder that an environment has below one of the data directory.
fn only_folder(parent: &Path) -> PathBuf {
    let folders = fs::read_dir(parent).unwrap().flatten();
    let folders = folders.map(|entry| entry.path());
    let is_hidden = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
    let mut folders: Vec<PathBuf> = folders.filter(|path| !is_hidden(path)).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
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

const LEAVES: &str = r#"
import os, subprocess
from inmanta.plugins import plugin

@plugin
def leaves(name: "string") -> "string":
    subprocess.Popen(["sh", "-c", f"exec -a {name} sleep 600 || sleep 600"], executable="/bin/bash", start_new_session=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/bash", ["bash", "-c", f"exec -a {name} sleep 600"])
        os._exit(0)
    os.waitpid(child, 0)
    with open(os.path.join(os.environ["TMPDIR"], "left"), "w") as file:
        file.write(name)
    return "left"
"#;

/// Processes with this name.
fn n_processes(name: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands
        .filter(|command| command.starts_with(name.as_bytes()))
        .count()
}

/// Input: a plugin that forks with `setsid` and leaves files (docs/reference/security.md § 4.5). Answer: nothing of it is left after the compile.
#[test]
fn what_a_plugin_starts_and_writes_does_not_outlive_the_compile() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("left-by-plugin-{}", std::process::id());
    let repo = repo_with(
        "leaver",
        LEAVES,
        &format!("std::print(leaver::leaves(\"{name}\"))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("left"), "{report}");
    wait_until("the processes are gone", || n_processes(&name) == 0);
    let scratch = only_folder(&home.path().join("data/python/scratch"));
    wait_until("the folder is empty", || {
        fs::read_dir(&scratch).unwrap().count() == 0
    });
}

const HANGS: &str = r#"
import os, time
from inmanta.plugins import plugin

@plugin
def hangs(name: "string") -> "string":
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/bash", ["bash", "-c", f"exec -a {name} sleep 600"])
        os._exit(0)
    time.sleep(600)
    return "never"
"#;

/// Input: kill -9 of the server while a plugin hangs and has a process in a session of its own (docs/reference/security.md § 4.5). Answer: all of it ends.
#[test]
fn nothing_of_a_compile_outlives_a_server_that_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("hangs-in-plugin-{}", std::process::id());
    let repo = repo_with(
        "hanger",
        HANGS,
        &format!("std::print(hanger::hangs(\"{name}\"))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let mut served = serve(home.path(), &config);
    wait_until("the plugin hangs", || n_processes(&name) == 1);
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the process is gone", || n_processes(&name) == 0);
}

const HUNGRY: &str = r#"
import os, time
from inmanta.plugins import plugin

@plugin
def eats(n: "int", mib: "int") -> "string":
    for _ in range(n):
        if os.fork() == 0:
            eaten = bytearray(os.urandom(1 << 20)) * mib
            time.sleep(600)
            os._exit(len(eaten))
    time.sleep(600)
    return "never"
"#;

/// Input: six forks of a plugin that each take less memory than a process may (docs/reference/security.md § 4.5). Answer: they are ended, and the report names the limit and the call.
#[test]
fn memory_is_limited_over_all_processes_of_a_compile() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("hungry", HUNGRY, "x = hungry::eats(6, 300)\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("all processes together took"), "{report}");
    assert!(report.contains("may take 1024 MiB"), "{report}");
    assert!(report.contains("main.cf:2"), "{report}");
}

const WRITES: &str = r#"
import os
from inmanta.plugins import plugin

@plugin
def writes() -> "string":
    number = 0
    while True:
        number += 1
        with open(os.path.join(os.environ["TMPDIR"], f"file-{number}"), "wb") as file:
            file.write(b"x" * (1 << 20))
"#;

/// Input: a plugin that writes many files into its scratch folder (docs/reference/security.md § 4.5). Answer: it is ended, the report names the quota, the folder is emptied.
#[test]
fn the_scratch_folder_has_a_quota() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("writer", WRITES, "x = writer::writes()\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ scratch_mib: 32 }}\n");
    // Lives until the folder is empty: a server that is killed ends its workers in the middle of that.
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("wrote more than 32 MiB"), "{report}");
    let scratch = only_folder(&home.path().join("data/python/scratch"));
    wait_until("the folder is empty", || {
        fs::read_dir(&scratch).unwrap().count() == 0
    });
}

/// Input: a `modulepath` that leads out of the checkout, to where somebody put a module with links (docs/reference/security.md § 4.1). Answer: no module is found there, and the report says that the path leads out.
#[test]
fn a_model_does_not_read_modules_outside_of_its_checkout() {
    let home = tempfile::tempdir().unwrap();
    let planted = home.path().join("planted");
    for folder in ["model", "files"] {
        fs::create_dir_all(planted.join("outside").join(folder)).unwrap();
    }
    let module = "name: outside\nversion: '1.0'\nlicense: MIT\n";
    fs::write(planted.join("outside/module.yml"), module).unwrap();
    fs::write(planted.join("outside/model/_init.cf"), "").unwrap();
    fs::write(planted.join("outside/files/text"), "text-of-outside").unwrap();
    let model = "import outside\nstd::print(std::source(\"outside/text\"))\n";
    let repo = Repo::new(model);
    let (_, config) = server_of(home.path(), &repo);
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.commit("begins");
    let served = serve(home.path(), &config);
    for way in [
        "../../../../planted".to_owned(),
        "../../../planted".to_owned(),
        planted.display().to_string(),
    ] {
        let project = format!("name: test\nmodulepath: [libs, {way}]\n");
        repo.write("project.yml", &project);
        let commit = repo.commit("looks outside");
        let report = report_of(&served, &commit);
        let told = "Could not find module outside";
        assert!(report.contains(told), "{way}: {report}");
        let is_there = way != "../../../planted";
        assert!(
            !is_there || report.contains("leads out of the project"),
            "{way}: {report}"
        );
        assert!(!report.contains("text-of-outside"), "{way}: {report}");
    }
}

/// Input: a `modulepath` into the checkout of another environment (docs/reference/security.md § 4.1). Answer: no module is found there.
#[test]
fn a_model_does_not_read_the_checkouts_of_others() {
    let home = tempfile::tempdir().unwrap();
    let other = repo_with("private", "", "");
    other.write("libs/private/files/secret", "only-for-the-other");
    other.commit("a secret");
    let own = Repo::new("import private\nstd::print(std::source(\"private/secret\"))\n");
    let checkouts = home.path().join("data/checkouts");
    let (_, config) = server_of(home.path(), &other);
    let served = serve(home.path(), &config);
    assert!(first_report(&served).contains("\"success\":true"));
    drop(served);
    let tree = only_folder(&only_folder(&checkouts));
    let way = tree.join("libs").display().to_string();
    own.write("project.yml", &format!("name: test\nmodulepath: [{way}]\n"));
    let commit = own.commit("reads another's checkout");
    let config = config.replace(other.path().to_str().unwrap(), own.path().to_str().unwrap());
    let served = serve(home.path(), &config);
    let report = report_of(&served, &commit);
    assert!(report.contains("Could not find module private"), "{report}");
    assert!(!report.contains("only-for-the-other"), "{report}");
}

/// What the only environment's folders are called cannot be known without the server's key.
#[test]
fn folders_of_environments_are_not_called_by_their_ids() {
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("std::print(\"compiled\")\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("compiled"), "{report}");
    let id = report.split("\"environment\":\"").nth(1).unwrap();
    for folder in [
        "checkouts",
        "projects",
        "python/scratch",
        "python/environments",
    ] {
        let found = only_folder(&home.path().join("data").join(folder));
        let name = found.file_name().unwrap().to_str().unwrap();
        assert!(
            name.len() == 32 && !name.contains('-') && !name.contains(&id[..8]),
            "{name}"
        );
    }
}

/// Processes below another, by their command lines.
pub fn below(process: u32) -> Vec<(i32, String)> {
    let ids = steward::process::descendants::below([i32::try_from(process).unwrap()]);
    let commands = ids.into_iter().filter_map(|id| {
        let command = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        Some((id, String::from_utf8_lossy(&command).replace('\0', " ")))
    });
    commands.collect()
}

/// Input: anything that a compile worker does with a repository's files (docs/reference/security.md § 4.1). Answer: it does it in its sandbox, not only its Python code does.
#[test]
fn the_worker_itself_is_in_the_sandbox() {
    if !steward::sandbox::support().attributes {
        return crate::harness::skip("seccomp with notifications");
    }
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("std::print(\"compiled\")\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    assert!(first_report(&served).contains("compiled"));
    let is_worker =
        |command: &str| command.contains(" compile-worker ") && !command.contains("supervise");
    let n_filters = |id: i32| -> u32 {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        assert!(line("NoNewPrivs:") <= 1);
        line("Seccomp_filters:")
    };
    let own = n_filters(i32::try_from(served.child.id()).unwrap());
    let workers = below(served.child.id())
        .into_iter()
        .filter(|(_, command)| is_worker(command));
    let filters: Vec<u32> = workers.map(|(id, _)| n_filters(id) - own).collect();
    // One that has entered, and one that is spare.
    assert!(filters.contains(&3), "{filters:?}");
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

/// A server of one answer, for as long as the test runs.
pub fn answers(text: &'static str) -> u16 {
    use std::io::{Read, Write};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in server.incoming() {
            let Ok(mut client) = client else { continue };
            let _ = client.read(&mut [0; 4096]);
            let length = text.len();
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        }
    });
    port
}

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

/// Input: kill -9 of the supervisor of a compile whose plugin has a process in a session of its own (docs/reference/security.md § 4.5, § 3.34). Answer: where there are control groups, all of it ends; the compile is given another worker.
#[test]
fn a_supervisor_that_is_killed_takes_all_with_it() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("outlives-supervisor-{}", std::process::id());
    let repo = repo_with(
        "hanger",
        HANGS,
        &format!("std::print(hanger::hangs(\"{name}\"))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    wait_until("the plugin hangs", || n_processes(&name) == 1);
    let hanging = || -> Vec<i32> {
        let all = below(served.child.id()).into_iter();
        all.filter(|(_, command)| command.starts_with(&name))
            .map(|(id, _)| id)
            .collect()
    };
    let first = hanging();
    let group = fs::read_to_string(format!("/proc/{}/cgroup", first[0])).unwrap();
    if !group.contains("steward-sandbox-") {
        // Nobody but root may make control groups here.
        return;
    }
    let supervisors = below(served.child.id()).into_iter();
    let supervisors = supervisors.filter(|(_, command)| command.starts_with("steward supervise"));
    for (id, _) in supervisors {
        crate::harness::signal(u32::try_from(id).unwrap(), rustix::process::Signal::KILL);
    }
    wait_until(
        "another worker compiles, and the first one's processes are gone",
        || {
            let now = hanging();
            now.len() == 1 && now != first && n_processes(&name) == 1
        },
    );
}
