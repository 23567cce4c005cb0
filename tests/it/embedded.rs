//! `steward deploy`: a project is compiled and deployed without a server. Source: docs/reference/deployment.md § 6.9.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{events, files, finish, signal, steward, wait_until};

/// A project in a folder, and the folder that it is deployed to.
pub struct Project {
    dir: TempDir,
}

impl Project {
    pub fn new(main: &str) -> Self {
        let project = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(project.root()).unwrap();
        project.write("project.yml", "name: test\nmodulepath: libs\n");
        project.write("main.cf", main);
        project
    }

    /// With a Python module `box`, whose handler does as the attributes of `box::Box` say.
    pub fn with_box(main: &str) -> Self {
        let project = Self::new(&format!("import box\n{main}"));
        project.write(
            "libs/box/module.yml",
            "name: box\nversion: 1.0.0\nlicense: x\n",
        );
        project.write("libs/box/model/_init.cf", BOX);
        project.write("libs/box/plugins/__init__.py", BOX_HANDLER);
        project
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.root().join(name)).unwrap_or_else(|error| format!("<{error}>"))
    }

    /// A command in the folder of the project.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = steward();
        command.args(arguments).current_dir(self.path());
        command.env("ROOT", self.root());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments))
    }

    /// A command that writes JSON events: its exit code, and the resources that ran, `name status change`.
    #[track_caller]
    pub fn deploy(&self, arguments: &[&str]) -> (Option<i32>, Vec<String>, Value) {
        let output = self.run(&[&["deploy", "--format", "json"], arguments].concat());
        let events = events(&output);
        let ran = events.iter().filter(|event| event["event"] == "resource");
        let ran = ran.map(|event| {
            let id = event["resource"].as_str().unwrap();
            let name = id.rsplit(['/', '=']).next().unwrap();
            let name = name.trim_end_matches(']');
            let text = |field: &str| event[field].as_str().unwrap().to_owned();
            format!("{name} {} {}", text("status"), text("change"))
        });
        let ran = ran.collect();
        let summary = events
            .into_iter()
            .rev()
            .find(|event| event["event"] == "summary");
        (output.status.code(), ran, summary.unwrap_or(Value::Null))
    }
}

const BOX: &str = r#"
entity Box extends std::PurgeableResource:
    string name
    string mood = "good"
    string secret_word = ""
    string size = ""
end
index Box(name)
implement Box using std::none
"#;

/// What is there is what was created in the file named after the box; `mood` says how it goes.
const BOX_HANDLER: &str = r#"
import os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, SkipResource, provider
from inmanta.resources import PurgeableResource, resource


@resource("box::Box", agent="name", id_attribute="name")
class Box(PurgeableResource):
    fields = ("name", "mood", "secret_word", "size")


@provider("box::Box", name="box")
class BoxHandler(CRUDHandler):
    def path(self, resource):
        return os.path.join(os.path.dirname(os.path.abspath(__file__)), "boxes-" + resource.name)

    def read_resource(self, ctx, resource):
        if resource.mood == "shy":
            raise SkipResource("come again later")
        if resource.mood == "angry":
            raise RuntimeError("the box is angry")
        if not os.path.exists(self.path(resource)):
            raise ResourcePurged()
        with open(self.path(resource)) as file:
            resource.secret_word, resource.size = file.read().split("|")

    def write(self, resource):
        with open(self.path(resource), "w") as file:
            file.write(resource.secret_word + "|" + resource.size)

    def create_resource(self, ctx, resource):
        self.write(resource)
        ctx.set_created()

    def update_resource(self, ctx, changes, resource):
        self.write(resource)
        ctx.set_updated()

    def delete_resource(self, ctx, resource):
        os.remove(self.path(resource))
        ctx.set_purged()

    def facts(self, ctx, resource):
        return {"weight": "7"}
"#;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn git(path: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(arguments)
        .current_dir(path);
    text(&finish(command).stdout)
}

//: deploy 134, 135
#[test]
fn a_project_is_deployed_in_one_process_tree_and_the_next_run_does_only_what_changed() {
    let project = Project::new(&files(&[("a", "one"), ("b", "two")]));
    git(&project.path(), &["init", "-q"]);
    git(&project.path(), &["add", "-A"]);
    git(&project.path(), &["commit", "-q", "-m", "first"]);
    let output = project.run(&["deploy"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let file = |name: &str| {
        format!(
            "fs::File[localhost,path={}/{name}]",
            project.root().display()
        )
    };
    for line in [
        format!("+ created   {}", file("a")),
        format!("+ created   {}", file("b")),
        "✓ all deployed  version 1: ".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
    assert!(
        !shown.contains('\x1b'),
        "no colours without a terminal: {shown}"
    );
    assert_eq!(project.read("a"), "one\n");
    assert!(project.path().join("data/deploy/steward.db").is_file());
    assert_eq!(
        git(&project.path(), &["status", "--porcelain"]),
        "",
        "git does not see the state"
    );

    let (code, ran, summary) = project.deploy(&[]);
    assert_eq!((code, ran), (Some(0), Vec::new()), "{summary}");
    assert_eq!(summary["version"], 2, "each run makes a version: {summary}");
    project.write("main.cf", &files(&[("a", "one"), ("b", "changed")]));
    let (code, ran, _) = project.deploy(&[]);
    assert_eq!(
        (code, ran),
        (Some(0), vec!["b deployed updated".to_owned()])
    );
    // What changed on the host is found by a repair, which verifies everything.
    std::fs::write(project.root().join("a"), "by hand").unwrap();
    let (code, ran, _) = project.deploy(&["--repair"]);
    assert_eq!(code, Some(0));
    assert!(ran.contains(&"a deployed updated".to_owned()), "{ran:?}");
    assert_eq!(project.read("a"), "one\n");
}

//: deploy 134
#[test]
fn what_fails_is_named_with_its_reason_and_tried_again_by_the_next_run_alone() {
    let model = "import fs\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
                 a = fs::File(host=host, path=f\"{root}/none/a\", content=\"a\")\n\
                 b = fs::File(host=host, path=f\"{root}/b\", content=\"b\", requires=a)\n\
                 fs::File(host=host, path=f\"{root}/c\", content=\"c\")\n";
    let project = Project::new(model);
    let output = project.run(&["deploy"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(
        shown.contains("✗ failed    fs::File[localhost,path="),
        "{shown}"
    );
    assert!(
        shown.contains("○ skipped   fs::File[localhost,path="),
        "{shown}"
    );
    assert!(
        shown.contains("✗ not all deployed  version 1: 1 deployed, 1 failed, 1 skipped"),
        "{shown}"
    );
    std::fs::create_dir(project.root().join("none")).unwrap();
    let (code, mut ran, _) = project.deploy(&[]);
    ran.sort();
    assert_eq!(
        (code, ran),
        (
            Some(0),
            vec![
                "a deployed created".to_owned(),
                "b deployed created".to_owned()
            ]
        )
    );
}

/// Neither with the id of a resource nor with what its handler says.
#[test]
fn what_is_deployed_does_not_steer_the_terminal() {
    let project = Project::new(
        "import fs\nhost = std::Host(name=\"localhost\", os=std::linux)\nroot = std::get_env(\"ROOT\")\n\
         fs::File(host=host, path=f\"{root}/\u{1b}[31mx\", content=\"\", owner=\"\u{1b}]0;title\u{7}\")\n",
    );
    for arguments in [&["deploy"][..], &["deploy"], &["plan"], &["explain", "x"]] {
        let output = project.run(arguments);
        let shown = text(&output.stdout) + &text(&output.stderr);
        assert!(shown.contains("fs::File["), "{arguments:?}: {shown:?}");
        assert!(!shown.contains('\u{1b}'), "{arguments:?}: {shown:?}");
    }
}

//: deploy 134
#[test]
fn a_model_with_mistakes_deploys_nothing_and_says_where_they_are() {
    let project = Project::new(&files(&[("a", "one")]));
    assert_eq!(project.deploy(&[]).0, Some(0));
    project.write(
        "main.cf",
        &format!("{}x = 1\nx = 2\n", files(&[("a", "changed")])),
    );
    let output = project.run(&["deploy"]);
    // As `steward compile` does it: what is wrong with a model is on standard error.
    let shown = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(!text(&output.stdout).contains("main.cf"));
    let planned = project.run(&["plan"]);
    assert!(text(&planned.stderr).contains("✗ not compiled: the model has 1 error"));
    assert_eq!(text(&planned.stdout), "");
    assert!(
        shown.contains("main.cf") && shown.contains("✗ not compiled: the model has 1 error"),
        "{shown}"
    );
    assert_eq!(project.read("a"), "one\n");
    // Outside of a project there is nothing to deploy.
    let mut elsewhere = steward();
    elsewhere.arg("deploy").current_dir(project.root());
    let output = finish(elsewhere);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("no project.yml"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_interrupted_deploy_says_so_and_the_next_one_does_the_rest() {
    let model = |command: &str| {
        format!(
            "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
             first = exec::Run(host=host, cwd=root, command=\"touch began; {command}\")\n\
             exec::Run(host=host, cwd=root, command=\"touch second\", requires=first)\n"
        )
    };
    let project = Project::new(&model("sleep 600"));
    let mut command = project.command(&["deploy"]);
    command.stdout(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the command runs", || project.root().join("began").exists());
    signal(child.id(), rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{shown}");
    assert!(shown.contains("interrupted: "), "{shown}");
    assert!(!project.root().join("second").exists());
    project.write("main.cf", &model("true"));
    let (code, ran, _) = project.deploy(&[]);
    assert_eq!((code, ran.len()), (Some(0), 2), "{ran:?}");
    assert!(project.root().join("second").exists());
}

/// Given: a deploy that is killed while a handler runs. Expected: an explanation says so, and not that it goes on.
#[test]
fn what_a_killed_deploy_was_running_is_explained_as_cut_off() {
    let project = Project::new(
        "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         exec::Run(host=host, cwd=root, command=\"touch began; sleep 600\")\n",
    );
    let explain = || text(&project.run(&["explain", "began", "--local"]).stdout);
    let mut child = project.command(&["deploy"]).spawn().unwrap();
    wait_until("the command runs", || project.root().join("began").exists());
    wait_until("its beginning is written", || {
        explain().contains("is being deployed")
    });
    signal(child.id(), rustix::process::Signal::KILL);
    child.wait().unwrap();
    wait_until("nothing uses the state any more", || {
        !explain().contains("is being deployed")
    });
    let cut_off = "the server ended during this run";
    assert!(explain().contains(cut_off), "{}", explain());
}

#[test]
fn a_model_that_waits_for_a_fact_is_deployed_in_one_go() {
    let project = Project::with_box(
        "a = box::Box(name=\"a\")\nbox::Box(name=\"b\", size=std::getfact(a, \"weight\"), requires=a)\n",
    );
    let output = project.run(&["deploy"]);
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert!(shown.contains("1 waiting for a value"), "{shown}");
    assert!(
        shown.contains("a fact that the model waits for is known now"),
        "{shown}"
    );
    assert!(shown.contains("✓ all deployed  version 2"), "{shown}");
    let (code, ran, summary) = project.deploy(&[]);
    assert_eq!((code, ran), (Some(0), Vec::new()), "{summary}");
}
