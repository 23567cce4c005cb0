//! Handlers call the API, over the pipe of their executor. Source: docs/reference/python.md § 2.8.

use std::path::Path;

use serde_json::{Value, json};

use crate::embedded::Project;
use crate::harness::{Host, Repo, Running};

const MODEL: &str = r#"
entity Question extends std::Resource:
    string name
end
index Question(name)
implement Question using std::none
"#;

/// Overrides `deploy`, as some modules do, and writes the answers of the API to the file named after the resource.
const PLUGINS: &str = r#"
import json
from inmanta.agent.handler import ResourceHandler, provider
from inmanta.resources import Resource, resource


@resource("asker::Question", agent="name", id_attribute="name")
class Question(Resource):
    fields = ("name",)


@provider("asker::Question", name="asking")
class QuestionHandler(ResourceHandler):
    def deploy(self, ctx, resource, requires):
        tid, rvid = self._agent.environment, resource.id.resource_version_str()
        client = self.get_client()

        def ask(method, *names, **arguments):
            answer = self.run_sync(lambda: getattr(client, method)(**arguments))
            found = answer.result
            for name in names:
                found = found[name] if answer.code == 200 else None
            return [answer.code, found]

        other = "00000000-0000-0000-0000-000000000001"
        _, events = ask("get_resource_events", "data", tid=tid, rvid=rvid)
        answers = {
            "setting": ask("get_setting", "value", tid=tid, id="auto_deploy"),
            "environment": ask("get_environment", "environment", "id", id=tid)[1] == str(tid),
            "resources": len(ask("get_version", "resources", tid=tid, id=1)[1]),
            "changed": ask("resource_did_dependency_change", "data", tid=tid, rvid=rvid),
            "events": {rid: [action["change"] for action in actions] for rid, actions in events.items()},
            "set": ask("environment_settings_set", "data", tid=tid, id="notification_retention", value=100),
            "list": [one["id"] == str(tid) for one in ask("environment_list", "data")[1]],
            "other": ask("list_settings", "settings", tid=other)[0],
            "token": ask("create_token", "token", tid=tid, client_types=["api"])[0],
            "users": ask("list_users", "data")[0],
        }
        with open(__ROOT__ + "/" + resource.name, "w") as file:
            json.dump(answers, file)
        ctx.set_created()
"#;

const MAIN: &str = "import asker\nfirst = asker::Question(name=\"first\")\n\
                    asker::Question(name=\"second\", requires=first)\n";

fn write_module(root: &Path, write: impl Fn(&str, &str)) {
    write(
        "libs/asker/module.yml",
        "name: asker\nversion: 1.0.0\nlicense: x\n",
    );
    write("libs/asker/model/_init.cf", MODEL);
    let root = format!("{:?}", root.display().to_string());
    let plugins = PLUGINS.replace("__ROOT__", &root);
    write("libs/asker/plugins/__init__.py", &plugins);
}

/// What each resource is answered: the second sees what the first has done.
#[track_caller]
fn check(read: impl Fn(&str) -> String) {
    for (name, changed, events) in [
        ("first", false, json!({})),
        (
            "second",
            true,
            json!({"asker::Question[first,name=first]": ["created"]}),
        ),
    ] {
        let text = read(name);
        let answers: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let expected = json!({
            "setting": [200, true],
            "environment": true,
            "resources": 2,
            "changed": [200, changed],
            "events": events,
            "set": [200, null],
            "list": [true],
            "other": 404,
            "token": 403,
            "users": 404,
        });
        assert_eq!(answers, expected, "{name}");
    }
}

#[test]
fn a_handler_is_answered_as_a_client_of_its_environment() {
    let (repo, host) = (Repo::new(MAIN), Host::new());
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    write_module(&host.root(), |path, content| repo.write(path, content));
    repo.commit("with its module");
    let mut running = Running::start(host.up(repo.path()));
    let (ran, _) = running.settled(1);
    assert_eq!(
        ran,
        ["first deployed created", "second deployed created"],
        "{}",
        host.read("first")
    );
    check(|name| host.read(name));
    let settings = running.get_ok("/api/v1/environment_settings");
    assert_eq!(settings["settings"]["notification_retention"], 100);
    running.stop();
}

#[test]
fn a_handler_is_answered_where_there_is_no_server() {
    let project = Project::new(MAIN);
    write_module(&project.root(), |path, content| {
        project.write(path, content);
    });
    let (code, ran, _) = project.deploy(&[]);
    assert_eq!(
        (code, ran),
        (
            Some(0),
            vec![
                "first deployed created".to_owned(),
                "second deployed created".to_owned()
            ]
        ),
        "{}",
        project.read("first")
    );
    check(|name| project.read(name));
}
