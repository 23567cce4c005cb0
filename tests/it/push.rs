//! Push mode: a project is compiled elsewhere, and a server deploys what it gets.
//! Source: docs/reference/deployment.md § 2.3, § 5.2, § 6.9.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::embedded::{Project, text};
use crate::harness::{finish, request, skip, wait_until};
use crate::moving::wheels_with_a_reference;
use crate::packages::Wheels;
use crate::serve::{Served, serve_with};

/// A server with an environment that has no repository.
pub struct Target {
    _dir: TempDir,
    pub served: Served,
    pub environment: String,
}

impl Target {
    pub fn new() -> Self {
        Self::with("", &[])
    }

    /// With something in its configuration, and variables in its environment.
    pub fn with(config: &str, variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let served = serve_with(dir.path(), config, variables);
        let ok = |(status, body): (u16, Value)| {
            assert_eq!(status, 200, "{body}");
            body
        };
        let url = |path: &str| format!("{}{path}", served.api);
        let project = ok(request(
            "PUT",
            &url("/api/v2/project"),
            None,
            Some(&json!({"name": "p"})),
        ));
        let body = json!({"project_id": project["data"]["id"], "name": "pushed"});
        let environment = ok(request(
            "PUT",
            &url("/api/v2/environment"),
            None,
            Some(&body),
        ));
        let environment = environment["data"]["id"].as_str().unwrap().to_owned();
        Self {
            _dir: dir,
            served,
            environment,
        }
    }

    pub fn get(&self, path: &str) -> Value {
        self.served.get(&self.environment, path)
    }

    pub fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.served.api);
        request(method, &url, Some(&self.environment), Some(body))
    }

    fn port(&self) -> &str {
        self.served.api.rsplit(':').next().unwrap()
    }

    /// What `.inmanta` of a project has to say to export here.
    pub fn config(&self) -> String {
        format!(
            "[config]\nenvironment = {}\n\n[compiler_rest_transport]\nhost = 127.0.0.1\nport = {}\n",
            self.environment,
            self.port()
        )
    }

    #[track_caller]
    pub fn wait_for_statuses(&self, expected: Value) {
        wait_until(&format!("statuses are {expected}"), || {
            let resources = self.get("/api/v2/resource?limit=100");
            let resources = resources["data"].as_array().cloned().unwrap_or_default();
            let statuses = resources.iter().map(|found| {
                let id = found["resource_id"].as_str().unwrap();
                let name = id
                    .rsplit('=')
                    .next()
                    .unwrap()
                    .trim_end_matches(']')
                    .to_owned();
                (name, found["status"].clone())
            });
            Value::Object(statuses.collect()) == expected
        });
    }
}

#[track_caller]
pub fn export(project: &Project, arguments: &[&str]) -> String {
    let output = project.run(&[&["export"], arguments].concat());
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    shown
}

const TWO: &str = "a = box::Box(name=\"a\", size=\"1\")\nb = box::Box(name=\"b\", size=\"1\")\n\
                   std::ResourceSet(name=\"one\", resources=[a])\nstd::ResourceSet(name=\"two\", resources=[b])\n";

//: deploy 137
#[test]
fn an_exported_version_is_deployed_with_the_python_handlers_that_came_along() {
    let target = Target::new();
    let project = Project::with_box(TWO);
    project.write(".inmanta", &target.config());
    let shown = export(&project, &[]);
    assert!(
        shown.contains(
            "version 1 is stored: 2 resources, 1 file uploaded\nit comes into force by itself"
        ),
        "{shown}"
    );
    target.wait_for_statuses(json!({"a": "deployed", "b": "deployed"}));
    // The same once more: nothing is uploaded, and nothing runs.
    let shown = export(&project, &["-d", "--metadata", "again"]);
    assert!(
        shown.contains("version 2 is stored: 2 resources\nversion 2 is released\n"),
        "{shown}"
    );
    let versions = target.get("/api/v2/desiredstate");
    assert_eq!(
        versions["data"][0]["labels"][0],
        json!({"name": "manual", "message": "again"})
    );

    // Without `auto_deploy` it is `-d` that releases.
    target.call(
        "POST",
        "/api/v2/environment_settings/auto_deploy",
        &json!({"value": false}),
    );
    project.write(
        "main.cf",
        &format!(
            "import box\n{}",
            TWO.replace("name=\"a\", size=\"1\"", "name=\"a\", mood=\"angry\"")
        ),
    );
    let shown = export(&project, &[]);
    assert!(shown.contains("\nit is not released: -d does"), "{shown}");
    let version = |n: usize| target.get("/api/v2/desiredstate")["data"][n]["status"].clone();
    assert_eq!(version(0), "candidate");
    export(&project, &["-d"]);
    target.wait_for_statuses(json!({"a": "failed", "b": "deployed"}));

    // To a file: no server is asked, not even one that is not there.
    project.write(
        ".inmanta",
        "[config]\nenvironment = x\n[compiler_rest_transport]\nport = 1\n",
    );
    export(&project, &["-j", "out.json"]);
    let written = std::fs::read_to_string(project.path().join("out.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written.as_array().unwrap().len(), 2, "{written}");
    let output = project.run(&["export", "-e", "5a2e5a3a-8b8f-4f39-9b1f-0d5f4e5f0a11"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("cannot reach http://localhost:1: Connection refused"),
        "{}",
        text(&output.stderr)
    );
}

//: deploy 43, 137; lsm 83
#[test]
fn a_partial_export_brings_its_sets_and_no_other_code_unless_it_is_allowed() {
    let target = Target::new();
    let project = Project::with_box(TWO);
    project.write(".inmanta", &target.config());
    export(&project, &["-d"]);
    target.wait_for_statuses(json!({"a": "deployed", "b": "deployed"}));
    let part = "import box\na = box::Box(name=\"a\", size=\"2\")\nstd::ResourceSet(name=\"one\", resources=[a])\n";
    project.write("main.cf", part);
    let shown = export(
        &project,
        &["--partial", "-d", "--delete-resource-set", "two"],
    );
    assert!(
        shown.contains("version 2 is stored: 1 resource\n"),
        "{shown}"
    );
    target.wait_for_statuses(json!({"a": "deployed", "b": "orphaned"}));
    let stored = target.get("/api/v2/desiredstate/2");
    assert_eq!(stored["metadata"]["total"], 1);

    let refused = |arguments: &[&str], code: i32, why: &str| {
        let output = project.run(&[&["export"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused(
        &["--delete-resource-set", "two"],
        2,
        "is for partial exports",
    );
    let both = ["--partial", "--delete-resource-set", "one"];
    refused(&both, 2, "exported and removed at once");
    export(
        &project,
        &["--partial", "--soft-delete", "--delete-resource-set", "one"],
    );
    let code =
        std::fs::read_to_string(project.path().join("libs/box/plugins/__init__.py")).unwrap();
    project.write(
        "libs/box/plugins/__init__.py",
        &format!("{code}\n# changed\n"),
    );
    refused(
        &["--partial"],
        1,
        "the code of module box differs from that of the version before",
    );
    export(&project, &["--partial", "--allow-handler-code-update"]);
}

//: deploy 9
#[test]
fn settings_of_the_project_file_are_set_by_an_export_and_by_nobody_else() {
    let target = Target::new();
    let project = Project::new("");
    project.write(".inmanta", &target.config());
    let path = "/api/v2/environment_settings/autostart_agent_repair_interval";
    let settings = |text: &str| project.write("project.yml", &format!("name: test\n{text}"));
    let value = || target.get(path)["data"]["settings"]["autostart_agent_repair_interval"].clone();
    settings("environment_settings:\n  autostart_agent_repair_interval: 1234\n");
    export(&project, &[]);
    assert_eq!(value(), "1234");
    let definition = &target.get(path)["data"]["definition"]["autostart_agent_repair_interval"];
    assert_eq!(
        (&definition["protected"], &definition["protected_by"]),
        (&json!(true), &json!("project.yml"))
    );
    let (status, body) = target.call("POST", path, &json!({"value": "60"}));
    assert_eq!(status, 403, "{body}");
    assert!(
        body["message"]
            .as_str()
            .unwrap()
            .contains("decided by project.yml"),
        "{body}"
    );
    assert_eq!(target.call("DELETE", path, &Value::Null).0, 403);
    settings("");
    export(&project, &[]);
    assert_eq!(value(), "1234", "it keeps its value");
    assert_eq!(target.call("POST", path, &json!({"value": "60"})).0, 200);
    settings("environment_settings:\n  no_such_setting: 1\n");
    let output = project.run(&["export"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("no_such_setting"),
        "{}",
        text(&output.stderr)
    );
}

/// Input: module_version_info of strangers: no object, names and hashes that are none, files that were not uploaded (docs/reference/security.md § 3.41). Answer: 400 that says what is wrong, and nothing is stored.
#[test]
fn code_that_is_not_as_it_has_to_be_is_refused() {
    let target = Target::new();
    let file = |path: &str, hash: &str| json!([{"path": path, "hash_value": hash}]);
    let hash = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
    let of = |name: &str, files: Value| json!({name: {"name": name, "version": "1", "files_in_module": files}});
    let cases = [
        (json!([]), "has to be an object"),
        (of("a/b", json!([])), "a module's name is letters"),
        (
            json!({"net": {"name": "net", "version": "1 ; x", "files_in_module": null}}),
            "\"1 ; x\" is no version of a package",
        ),
        (
            of("net", json!([])),
            "it has no inmanta_plugins/net/__init__.py",
        ),
        (
            of("net", file("inmanta_plugins/net/__init__.py", "../x")),
            "is no SHA-1",
        ),
        (
            of("net", file("inmanta_plugins/net/__init__.pyc", hash)),
            "send its sources",
        ),
        (
            of("net", file("inmanta_plugins/net/__init__.py", hash)),
            "was not uploaded",
        ),
        (
            of("net", file("inmanta_plugins/net/../../x.py", hash)),
            "it has no",
        ),
        (of("net", json!([1, "x", null])), "is no SHA-1"),
    ];
    for (modules, why) in cases {
        let (_, reserved) = target.call("POST", "/api/v2/reserve_version", &json!({}));
        let body =
            json!({"version": reserved["data"], "resources": [], "module_version_info": modules});
        let (status, answer) = target.call("PUT", "/api/v1/version", &body);
        assert_eq!(status, 400, "{modules}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(why),
            "{modules}: {answer}"
        );
    }
    assert_eq!(target.get("/api/v2/desiredstate")["metadata"]["total"], 0);
}

fn oracle(project: &Path, arguments: &[&str]) -> Option<String> {
    let Some(python) = std::env::var_os("STEWARD_ORACLE") else {
        skip("STEWARD_ORACLE, a Python with the reference");
        return None;
    };
    let mut command = Command::new(python);
    command
        .args(["-m", "inmanta.app"])
        .args(arguments)
        .current_dir(project);
    let output = finish(command);
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    Some(shown)
}

//: deploy 137
#[test]
fn the_exporter_of_the_reference_pushes_to_a_server_with_its_handlers() {
    let target = Target::new();
    let project = Project::with_box("box::Box(name=\"a\", size=\"1\")\n");
    project.write(
        "project.yml",
        "name: test\nmodulepath: libs\ndownloadpath: libs\nrepo: []\n",
    );
    project.write(".inmanta", &target.config());
    let Some(shown) = oracle(&project.path(), &["export", "-d"]) else {
        return;
    };
    target.wait_for_statuses(json!({"a": "deployed"}));
    let versions = target.get("/api/v2/desiredstate");
    assert_eq!(versions["data"][0]["version"], 1, "{shown}");
    assert_eq!(
        versions["data"][0]["labels"][0]["name"], "manual",
        "{versions}"
    );
}

#[test]
fn an_export_function_runs_when_it_is_named() {
    let project = Project::new("import told\ntold::Thing(name=\"a\")\ntold::Thing(name=\"b\")\n");
    project.write(
        "libs/told/module.yml",
        "name: told\nversion: 1.0.0\nlicense: x\n",
    );
    project.write(
        "libs/told/model/_init.cf",
        "entity Thing:\n    string name\nend\nimplement Thing using std::none\n",
    );
    project.write(
        "libs/told/plugins/__init__.py",
        "import os\nfrom inmanta.export import export\n\n@export(\"tell\", \"told::Thing\")\n\
         def tell(exporter, types):\n    with open(os.environ[\"ROOT\"] + \"/told\", \"a\") as file:\n        \
         file.write(\" \".join(thing.name for thing in types[\"told::Thing\"]))\n",
    );
    export(&project, &["-j", "out.json"]);
    assert!(!project.root().join("told").exists());
    export(&project, &["-j", "out.json", "--export-plugin", "tell"]);
    assert_eq!(project.read("told"), "a b");
    let output = project.run(&["export", "-j", "out.json", "--export-plugin", "no_such"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(shown.contains("no_such does not exist"), "{shown}");
}

const SHELF: &str = r#"
entity Shelf extends std::PurgeableResource:
    string name
    string color
end
index Shelf(name)
implement Shelf using std::none
"#;

/// What is there is what the package `paint` makes of the colour.
const SHELF_HANDLER: &str = r#"
import os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource


@resource("shelf::Shelf", agent="name", id_attribute="name")
class Shelf(PurgeableResource):
    fields = ("name", "color")


@provider("shelf::Shelf", name="shelf")
class ShelfHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        raise ResourcePurged()

    def create_resource(self, ctx, resource):
        import paint
        try:
            import shade
        except ImportError:
            shade = None
        cover = paint.COVER + (shade.DEPTH if shade else "")
        ctx.info("painted %(color)s, %(cover)s", color=resource.color, cover=cover)
        ctx.set_created()
"#;

/// A project with a module whose handlers need a package that is in a folder of wheels.
pub fn shelves(config: &str) -> Project {
    let project = Project::new("");
    project.write(".inmanta", config);
    project.write(
        "project.yml",
        "name: test\nmodulepath: libs\ndownloadpath: libs\nrepo: []\npip:\n  use-system-config: true\n",
    );
    project.write(
        "libs/shelf/module.yml",
        "name: shelf\nversion: 1.0.0\nlicense: x\n",
    );
    project.write("libs/shelf/model/_init.cf", SHELF);
    project.write("libs/shelf/plugins/__init__.py", SHELF_HANDLER);
    project
}

pub fn paint(color: &str) -> String {
    format!(
        "import shelf\nimport std::testing\nstd::testing::NullResource(name=\"n\")\nshelf::Shelf(name=\"a\", color=\"{color}\")\nshelf::Shelf(name=\"b\", color=\"{color}\")\n"
    )
}

/// Exports the shelves, whose handlers require something.
pub fn push_shelves(project: &Project, requirement: &str, color: &str) {
    project.write("libs/shelf/requirements.txt", requirement);
    project.write("main.cf", &paint(color));
    export(project, &["-d"]);
}

fn said_by(target: &Target, name: &str) -> String {
    said(&target.served, &target.environment, name)
}

/// All that the last run of a shelf has said.
pub fn said(served: &Served, environment: &str, name: &str) -> String {
    let path =
        format!("/api/v2/resource/shelf%3A%3AShelf%5B{name}%2Cname%3D{name}%5D/logs?limit=20");
    let lines = served.get(environment, &path);
    let lines = lines["data"].as_array().unwrap().iter();
    let action = |line: &Value| line["action_id"].clone();
    let last = lines.clone().next().map(action);
    let lines = lines.filter(|line| Some(action(line)) == last);
    let lines = lines.map(|line| format!("{} {}\n", line["level"], line["msg"]));
    lines.collect()
}

//: deploy 99
#[test]
fn the_server_installs_what_the_code_of_handlers_requires() {
    let wheels = Wheels::new();
    for (version, cover) in [("1.0", "once"), ("2.0", "twice")] {
        let files = [("paint.py".to_owned(), format!("COVER = {cover:?}\n"))];
        wheels.wheel("paint", version, &[], &files);
    }
    let folder = wheels.path().to_str().unwrap();
    // uv could be too fast to be seen.
    let variables = [
        ("PIP_FIND_LINKS", folder),
        ("PIP_NO_INDEX", "1"),
        ("STEWARD_INSTALLER", "pip"),
    ];
    let target = Target::with("", &variables);
    let project = shelves(&target.config());
    let push = |requirement: &str, color: &str| push_shelves(&project, requirement, color);
    let explained = || {
        let path = "/api/v2/resource/shelf%3A%3AShelf%5Ba%2Cname%3Da%5D/explain";
        target.served.get(&target.environment, path)["data"]["chain"].to_string()
    };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            wait_until("what a run waits for is explained", || {
                explained().contains("until the packages are installed that its handler requires")
            });
        });
        push("paint < 2  # the old one\n", "red");
        waits.join().unwrap();
    });
    target.wait_for_statuses(json!({"a": "deployed", "b": "deployed", "n": "deployed"}));
    let said = said_by(&target, "a");
    assert!(said.contains("painted red, once"), "{said}");
    assert!(
        said.contains("INFO\" \"Installed what the code of handlers requires: paint 1.0 (by "),
        "{said}"
    );

    // One that no index has: each resource of the type says so.
    push("paint\nno-such-paint >= 3\n", "green");
    target.wait_for_statuses(json!({"a": "unavailable", "b": "unavailable", "n": "deployed"}));
    for name in ["a", "b"] {
        let said = said_by(&target, name);
        let text = "ERROR\" \"All resources of type `shelf::Shelf` failed to install handler code dependencies: ";
        assert!(
            said.contains(text) && said.contains("no-such-paint"),
            "{said}"
        );
    }
    push("paint\n", "blue");
    target.wait_for_statuses(json!({"a": "deployed", "b": "deployed", "n": "deployed"}));
    let said = said_by(&target, "b");
    assert!(said.contains("painted blue, twice"), "{said}");

    // All are removed, and the one of the version in force is made again.
    let remove = "/api/v2/agents/remove_all_agent_venvs";
    let (status, answer) = target.call("POST", remove, &json!({}));
    assert_eq!(status, 200, "{answer}");
    wait_until("the environments are removed and made again", || {
        let notes = target.get("/api/v2/notification");
        notes.to_string().contains("removal finished successfully")
    });
    project.write("main.cf", &paint("white"));
    export(&project, &["-d"]);
    wait_until("it is painted once more", || {
        said_by(&target, "a").contains("painted white, twice")
    });
}

/// Given: a module that is installed as a package where it is exported, as the reference's exporter sends it: by its version. Expected:
/// the server installs it, and all of its handlers are found; a version that no index has makes its resources unavailable.
#[test]
fn a_module_that_is_a_package_is_installed_by_its_version() {
    let wheels = wheels_with_a_reference();
    let cover = ("paint.py".to_owned(), "COVER = 'thick'\n".to_owned());
    wheels.wheel("paint", "1.0", &[], &[cover]);
    let root = "inmanta_plugins/shelf";
    let files = [
        (format!("{root}/__init__.py"), String::new()),
        (
            format!("{root}/painting/handlers.py"),
            SHELF_HANDLER.to_owned(),
        ),
        (format!("{root}/painting/__init__.py"), String::new()),
    ];
    let requires = ["paint", "inmanta-core>=20"];
    wheels.wheel("inmanta-module-shelf", "1.0.0", &requires, &files);
    let folder = wheels.path().to_str().unwrap();
    let variables = [("PIP_FIND_LINKS", folder), ("PIP_NO_INDEX", "1")];
    let target = Target::with("", &variables);
    let put = |version: &str, color: &str| {
        let (_, reserved) = target.call("POST", "/api/v2/reserve_version", &json!({}));
        let number = &reserved["data"];
        let shelf = json!({
            "id": format!("shelf::Shelf[a,name=a],v={number}"), "requires": [], "send_event": true,
            "purged": false, "purge_on_delete": false, "name": "a", "color": color,
        });
        let module = json!({
            "name": "shelf", "version": version, "files_in_module": null, "requirements": null,
            "load_module_on_agents": ["a"], "editable_install": false,
        });
        let body = json!({"version": number, "resources": [shelf], "module_version_info": {"shelf": module}});
        let (status, answer) = target.call("PUT", "/api/v1/version", &body);
        assert_eq!(status, 200, "{answer}");
    };
    put("1.0.0", "red");
    target.wait_for_statuses(json!({"a": "deployed"}));
    let logs = said_by(&target, "a");
    assert!(logs.contains("painted red, thick"), "{logs}");
    put("9.9", "green");
    target.wait_for_statuses(json!({"a": "unavailable"}));
    let logs = said_by(&target, "a");
    assert!(logs.contains("inmanta-module-shelf==9.9"), "{logs}");
}

//: deploy 137
#[test]
fn what_the_exporter_of_the_reference_requires_is_installed() {
    let wheels = Wheels::new();
    let files = [("paint.py".to_owned(), "COVER = 'thick'\n".to_owned())];
    wheels.wheel("paint", "1.0", &[], &files);
    let folder = wheels.path().to_str().unwrap();
    // What is installed for the server's own Python is there, too, as in the reference.
    let dir = tempfile::tempdir().unwrap();
    let venv = dir.path().join("venv");
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--without-pip"]).arg(&venv);
    assert!(finish(make).status.success());
    let lib = std::fs::read_dir(venv.join("lib")).unwrap();
    let lib = lib.flatten().next().unwrap().path();
    std::fs::write(lib.join("site-packages/shade.py"), "DEPTH = ' and dark'\n").unwrap();
    let config = format!("python: {}\n", venv.join("bin/python").display());
    let variables = [("PIP_FIND_LINKS", folder), ("PIP_NO_INDEX", "1")];
    let target = Target::with(&config, &variables);
    let project = shelves(&target.config());
    project.write("libs/shelf/requirements.txt", "paint~=1.0\n");
    project.write("main.cf", &paint("red"));
    if oracle(&project.path(), &["export", "-d"]).is_none() {
        return;
    }
    target.wait_for_statuses(json!({"a": "deployed", "b": "deployed", "n": "deployed"}));
    let said = said_by(&target, "a");
    assert!(said.contains("painted red, thick and dark"), "{said}");
}

/// Input: requirements and indexes of handlers that are options of pip, files of this machine, variables, control characters, too long or too many (docs/reference/security.md § 3.41). Answer: 400 that says what is wrong, and nothing is stored or installed.
#[test]
fn packages_that_are_not_as_they_have_to_be_are_refused() {
    let target = Target::new();
    let hash = "8910ee7d68dfff68460731ea37eb0d406d07862d";
    let path = format!("/api/v1/file/{hash}");
    assert_eq!(
        target.call("PUT", &path, &json!({"content": "cGFzcwo="})).0,
        200
    );
    let sent = |requirements: Value, pip: Value, constraints: Value| {
        let files = json!([{"path": "inmanta_plugins/net/__init__.py", "hash_value": hash}]);
        let module = json!({
            "name": "net", "version": "1", "files_in_module": files, "requirements": requirements,
        });
        let (_, reserved) = target.call("POST", "/api/v2/reserve_version", &json!({}));
        let body = json!({
            "version": reserved["data"], "resources": [], "module_version_info": {"net": module},
            "pip_config": pip, "project_constraints": constraints,
        });
        target.call("PUT", "/api/v1/version", &body)
    };
    let refused = |(status, answer): (u16, Value), why: &str| {
        let message = answer["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(status, 400, "{why}: {message:.300}");
        assert!(
            message.contains(why) && message.len() < 500,
            "{message:.1000}"
        );
        assert!(!message.contains('\u{1b}'), "{message}");
    };
    for (requirement, why) in [
        (
            "-r /etc/passwd",
            "module net: `-r /etc/passwd` is no requirement: options of pip",
        ),
        ("--index-url https://elsewhere.example", "options of pip"),
        ("paint --config-settings=x=y", "options of pip"),
        ("paint @ file:///etc/passwd", "come from an index"),
        ("../paint", "the name of a package"),
        ("paint==${HOME}", "`$`"),
        ("paint\n--pre", "the character"),
        ("pa\u{1b}[31mint", "the character"),
    ] {
        refused(sent(json!([requirement]), Value::Null, Value::Null), why);
        let constraints = format!("# fine\n{requirement}");
        if !requirement.contains('\n') {
            let why = "project_constraints";
            refused(sent(json!(["paint"]), Value::Null, json!(constraints)), why);
        }
    }
    let long = "x".repeat(10 << 20);
    refused(sent(json!([long]), Value::Null, Value::Null), "longer than");
    let many: Vec<String> = (0..100_000).map(|n| format!("p{n}")).collect();
    refused(
        sent(json!(many), Value::Null, Value::Null),
        "more than 2000",
    );
    refused(sent(json!([1]), Value::Null, Value::Null), "are texts");
    refused(
        sent(json!({"a": 1}), Value::Null, Value::Null),
        "a list of texts",
    );
    for index in ["file:///etc", "--pre", "https://a\u{1b}[2J"] {
        let pip = json!({"index-url": index});
        refused(
            sent(json!(["paint"]), pip, Value::Null),
            "no URL of an index",
        );
        let pip = json!({"extra_index_url": [index]});
        refused(
            sent(json!(["paint"]), pip, Value::Null),
            "no URL of an index",
        );
    }
    refused(sent(json!(["paint"]), json!([]), Value::Null), "pip_config");
    assert_eq!(target.get("/api/v2/desiredstate")["metadata"]["total"], 0);
    // What the server has itself is not installed.
    let (status, answer) = sent(
        json!([
            "inmanta-module-std>=8",
            "inmanta-module-net",
            "paint>=1 ; python_version > '3'"
        ]),
        json!({"index-url": "https://index.example/simple", "pre": false}),
        json!("paint<2\ninmanta-module-std~=8.0"),
    );
    assert_eq!(status, 200, "{answer}");
}
