//! What models and workers can read: the checkout, and nothing of others.

use std::fs;

use serde_json::json;

use super::{
    can_sandbox, first_report, only_folder, repo_with, report_of, report_of_environment, server_of,
};
use crate::harness::Repo;
use crate::packages::source_folder;
use crate::serve::serve;

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

/// A plugin and a build backend that read a file, and say what they read.
const READER: &str = "def read(path):
    try:
        with open(path, encoding=\"utf-8\") as file:
            return \"READ \" + file.read()
    except OSError as error:
        return \"refused: \" + type(error).__name__
";

/// Input: a plugin, and a backend of a package's build, that read the repository of another environment of the same server, which is a path on its machine (docs/reference/security.md § 4.1). Answer: both are refused; both environments are compiled.
#[test]
fn code_does_not_read_the_repository_of_another_environment() {
    if !can_sandbox() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let other = Repo::new("std::print(\"model-of-the-other\")\n");
    let main = other.path().join("main.cf");
    let plugin = format!(
        "import os\nfrom inmanta.plugins import plugin\n{READER}\n@plugin\ndef look(path: \"string\") -> \"string\":\n    return read(path) + \" \" + read(os.path.join(os.path.dirname(path), \".git/HEAD\"))\n"
    );
    let model = format!(
        "import greet\nstd::print(greet::told())\nstd::print(\"plugin \" + looks::look(\"{}\"))\n",
        main.display()
    );
    let own = repo_with("looks", &plugin, &model);
    own.write("requirements.txt", "--no-index\n./sources/greet\n");
    let source = own.path().join("sources/greet");
    source_folder(&source, "1.0");
    let backend = fs::read_to_string(source.join("wheel.py")).unwrap();
    let told = format!(
        "{READER}\nTOLD = \"build \" + read({})\nopen(__file__.replace(\"wheel.py\", \"__init__.py\"), \"a\").write(f\"\\n@plugin\\ndef told() -> 'string':\\n    return {{TOLD!r}}\\n\")\n",
        json!(main.display().to_string())
    );
    own.write("sources/greet/wheel.py", &format!("{told}\n{backend}"));
    own.commit("looks at another");
    let (_, config) = server_of(home.path(), &own);
    let another = format!(
        "- project: p\n  name: f\n  repository: {}\napi_token",
        other.path().display()
    );
    let config = config.replacen("api_token", &another, 1);
    let served = serve(home.path(), &config);
    let report = report_of_environment(&served, 0);
    assert!(report.contains("\"success\":true"), "{report}");
    let refused = "plugin refused: PermissionError refused: PermissionError";
    assert!(report.contains(refused), "{report}");
    assert!(
        report.contains("build refused: PermissionError"),
        "{report}"
    );
    assert!(!report.contains("model-of-the-other"), "{report}");
    let report = report_of_environment(&served, 1);
    assert!(report.contains("model-of-the-other"), "{report}");
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
