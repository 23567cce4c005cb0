//! What Python code of a repository cannot do while it compiles (issue 4, 8).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Repo, send, wait_until};
use crate::packages::source_folder;
use crate::serve::{Served, serve, serve_with};

const ESCAPE: &str = include_str!("../../fixtures/packages/escape.py");
const ATTEMPTS: &str = include_str!("../../fixtures/packages/attempts.py");
const ESCAPE_BUILD: &str = include_str!("../../fixtures/packages/escape_build.py");

/// This kernel has what is tested.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn can_confine() -> bool {
    let force = steward::process::available();
    let can = force.landlock >= 6 && force.seccomp;
    if !can {
        // A kernel cannot be installed, on CI neither.
        eprintln!("SKIPPED: needs a kernel with Landlock 6 and seccomp, here: {force}");
    }
    can
}

/// The report of the only compile of a server with one environment, when it has ended.
#[track_caller]
fn first_report(served: &Served) -> String {
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
    let get = |path: &str| ask(path, &environment);
    wait_until("the compile ends", || {
        let reports = get("/api/v2/compilereport");
        reports["data"][0]["completed"].is_string()
    });
    let id = get("/api/v2/compilereport")["data"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    get(&format!("/api/v2/compilereport/{id}")).to_string()
}

/// A place for a server with a secret, and its configuration.
fn server_of(dir: &Path, repo: &Repo) -> (PathBuf, String) {
    let secret = dir.join("token");
    fs::write(&secret, "secret-of-the-server").unwrap();
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\napi_token: {{ file: {} }}\n",
        repo.path().display(),
        secret.display()
    );
    (secret, config)
}

#[test]
fn plugins_do_not_get_out_and_do_what_plugins_do() {
    if !can_confine() {
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
    assert!(report.contains("27 attempts"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(report.contains("['27 attempts']"), "{report}");
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

/// Input: a plugin that connects to the API of a server without a token (issue 16.4). Answer: the connection is closed.
#[test]
fn a_plugin_does_not_reach_the_api_of_a_server_without_a_token() {
    if !can_confine() {
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

/// Issue 4, 8: what is built where it is installed is code of the repository, too.
#[test]
fn builds_do_not_get_out_and_do_what_builds_do() {
    if !can_confine() {
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
    assert!(report.contains("31 attempts fine"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(report.contains("\"31 attempts fine\\n"), "{report}");
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

#[test]
fn a_build_leaves_no_link_for_the_compile_to_follow() {
    if !can_confine() {
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
            ("no_proxy", "localhost"),
            ("A_SECRET", "x"),
        ];
        first_report(&serve_with(home.path(), &config, &variables))
    };
    let (with, without) = (names(true), names(false));
    for report in [&with, &without] {
        assert!(report.contains("PIP_CACHE_DIR"), "{report}");
        assert!(report.contains("no_proxy"), "{report}");
        assert!(!report.contains("A_SECRET"), "{report}");
        assert!(!report.contains("PIP_LOG"), "{report}");
    }
    assert!(with.contains("PIP_FIND_LINKS"), "{with}");
    assert!(!without.contains("PIP_FIND_LINKS"), "{without}");
}
