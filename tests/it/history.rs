//! What is kept of a run: its log lines, its changes, its facts. Source: docs/reference/deployment.md § 5.6, § 5.8.

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, segment, wait_until};

const PLUGINS: &str = r#"
from inmanta.agent.handler import CRUDHandler, DiscoveryHandler, ResourcePurged, provider
from inmanta.resources import DiscoveryResource, PurgeableResource, resource

THERE = {}


@resource("note::Note", agent="agent", id_attribute="name")
class Note(PurgeableResource):
    fields = ("name", "agent", "text")


@provider("note::Note", name="note")
class NoteHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        ctx.info("Looked at %(name)s", name=resource.name, odd=object, deep={"n": [1, None]})
        if resource.name == "positional":
            ctx.info("Looked at %s", resource.name)
        resource.text = "before"
        ctx.set_fact("size", "5")

    def create_resource(self, ctx, resource):
        ctx.set_created()

    def update_resource(self, ctx, changes, resource):
        ctx.set_updated()

    def delete_resource(self, ctx, resource):
        ctx.set_purged()


@resource("note::Scan", agent="name", id_attribute="name")
class Scan(DiscoveryResource):
    fields = ("name",)


class Found:
    def model_dump(self):
        return {"size": 1}


@provider("note::Scan", name="scan")
class ScanHandler(DiscoveryHandler):
    def discover_resources(self, ctx, discovery_resource):
        return {"note::Note[x,name=x]": Found()}
"#;

const MODEL: &str = r#"
entity Note extends std::PurgeableResource:
    string name
    string agent = "one"
    string text = "after"
end
index Note(name)
implement Note using std::none

entity Scan extends std::DiscoveryResource:
    string name
end
index Scan(name)
implement Scan using std::none
"#;

/// The only deployment of a resource.
fn run_of(running: &Running, name: &str) -> Value {
    let actions = running.get_ok(&format!(
        "/api/v2/resource_actions?attribute=name&attribute_value={name}"
    ));
    let mut actions = actions["data"].as_array().unwrap().iter();
    actions
        .rfind(|action| action["action"] == "deploy")
        .unwrap()
        .clone()
}

//: deploy 100, 101, 102, 103, 104, 110
#[test]
fn a_run_is_kept_with_its_lines_its_changes_and_its_facts() {
    let (repo, host) = (Repo::new(""), Host::new());
    repo.write_module("note", MODEL, PLUGINS);
    repo.write(
        "main.cf",
        "import note\nnote::Note(name=\"a\")\nnote::Note(name=\"positional\", agent=\"two\")\n",
    );
    repo.commit("notes");
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let run = run_of(&running, "a");
    let lines = run["messages"].as_array().unwrap();
    let text = |line: &Value| line["msg"].as_str().unwrap().to_owned();
    assert!(
        text(&lines[0]).starts_with("Start run because "),
        "{lines:#?}"
    );
    let end = lines
        .iter()
        .rposition(|line| text(line).starts_with("End run"))
        .unwrap();
    let behind: Vec<String> = lines[end + 1..].iter().map(text).collect();
    assert!(
        behind.iter().all(|line| line.contains("fact")),
        "only facts are sent after it: {behind:?}"
    );
    let looked = lines
        .iter()
        .find(|line| text(line) == "Looked at a")
        .unwrap();
    assert_eq!(
        (&looked["level"], &looked["args"]),
        (&json!("INFO"), &json!([]))
    );
    assert_eq!(looked["kwargs"]["name"], "a");
    assert_eq!(looked["kwargs"]["deep"], json!({"n": [1, null]}));
    let odd = looked["kwargs"]["odd"].as_str().unwrap();
    assert!(odd.contains("object"), "what is no JSON is text: {odd}");
    let changes = run["changes"]["note::Note[one,name=a],v=1"].clone();
    assert_eq!(
        changes["text"],
        json!({"current": "before", "desired": "after"}),
        "{run:#}"
    );
    let facts = running.get_ok(&format!(
        "/api/v2/resource/{}/facts",
        segment("note::Note[one,name=a]")
    ));
    let fact = &facts["data"][0];
    assert_eq!(
        (&fact["name"], &fact["value"], &fact["expires"]),
        (&json!("size"), &json!("5"), &json!(true))
    );

    let refused = run_of(&running, "positional");
    assert_eq!(refused["status"], "failed", "{refused:#}");

    // A dry run of a discovery finds nothing out.
    running.call(
        "POST",
        "/api/v2/environment_settings/auto_deploy",
        Some(&json!({"value": false})),
    );
    repo.write("main.cf", "import note\nnote::Scan(name=\"s\")\n");
    repo.commit("a discovery");
    wait_until("the second version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    assert_eq!(running.call("POST", "/api/v2/dryrun/2", None).0, 200);
    wait_until("the dry run is done", || {
        running.get_ok("/api/v2/dryrun/2")["data"][0]["todo"] == 0
    });
    assert_eq!(running.get_ok("/api/v2/discovered")["data"], json!([]));
    running.stop();
}
