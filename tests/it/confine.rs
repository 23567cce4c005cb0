//! What Python code of a repository cannot do while it compiles (issue 4, 8).

use std::fs;

use crate::harness::{Repo, send, wait_until};
use crate::serve::serve;

const ESCAPE: &str = include_str!("../../fixtures/packages/escape.py");

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn plugins_do_not_get_out_and_do_what_plugins_do() {
    let force = steward::process::available();
    if force.landlock < 6 || !force.seccomp {
        // A kernel cannot be installed, on CI neither.
        eprintln!("SKIPPED: needs a kernel with Landlock 6 and seccomp, here: {force}");
        return;
    }
    // Not below the shared temporary files only: the data lie where a user may have them.
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().to_owned();
    let secret = dir.join("token");
    fs::write(&secret, "secret-of-the-server").unwrap();
    let repo = Repo::new("import escape\n");
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        "libs/escape/module.yml",
        "name: escape\nversion: '1.0'\nlicense: MIT\n",
    );
    repo.write("libs/escape/model/_init.cf", "");
    repo.write("libs/escape/plugins/__init__.py", ESCAPE);
    let model = format!(
        "import escape\nstd::print(escape::ordinary())\nstd::print(escape::escape(\"{}\", \"{}\"))\n",
        dir.join("data").display(),
        secret.display()
    );
    repo.write("main.cf", &model);
    repo.commit("tries to get out");
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\napi_token: {{ file: {} }}\n",
        repo.path().display(),
        secret.display()
    );
    let served = serve(&dir, &config);

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
    let report = get(&format!("/api/v2/compilereport/{id}")).to_string();
    assert!(report.contains("fine"), "{report}");
    assert!(report.contains("25 attempts"), "{report}");
    assert!(!report.contains("ESCAPED"), "{report}");
    assert!(report.contains("['25 attempts']"), "{report}");
}
