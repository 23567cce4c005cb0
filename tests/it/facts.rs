//! Facts and discovery, from Python handlers to the API and back into the model.
//! Source: docs/reference/deployment.md § 5.7, § 5.9.

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, request, segment, wait_until};
use crate::serve::serve;

const MODEL: &str = r#"
entity Box extends std::PurgeableResource:
    string name
    string size = ""
end
index Box(name)
implement Box using std::none

entity Scan extends std::DiscoveryResource:
    string name
end
index Scan(name)
implement Scan using std::none
"#;

const PLUGINS: &str = r#"
from inmanta.agent.handler import CRUDHandler, DiscoveryHandler, provider
from inmanta.resources import DiscoveryResource, PurgeableResource, resource


@resource("depot::Box", agent="name", id_attribute="name")
class Box(PurgeableResource):
    fields = ("name", "size")


@provider("depot::Box", name="box")
class BoxHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        ctx.info("Looked at %(name)s, %(odd)s", name=resource.name, odd={"n": [1, None]}, thing=object)
        ctx.debug("its size is %(size)s", size=resource.size)
        if not resource.purged:
            ctx.set_fact("size", "5")
            ctx.set_fact("serial", "0001", expires=False)

    def create_resource(self, ctx, resource):
        ctx.set_created()

    def update_resource(self, ctx, changes, resource):
        ctx.set_updated()

    def delete_resource(self, ctx, resource):
        ctx.set_purged()

    def facts(self, ctx, resource):
        ctx.set_fact("color", "red")
        environment = self._agent.environment
        client = self.get_client()
        given = {"source": "plugin", "value": resource.name}
        set_to = self.run_sync(lambda: client.set_param(tid=environment, id="asked", **given))
        nested = {}
        for _ in range(200):
            nested = {"a": nested}
        deep = self.run_sync(lambda: client.set_param(tid=environment, id="deep", metadata=nested, **given))
        listed = self.run_sync(lambda: client.list_params(tid=environment))
        none = self.run_sync(lambda: client.get_param(tid=environment, id="none"))
        names = [parameter["name"] for parameter in listed.result["parameters"] if not parameter["resource_id"]]
        return {"weight": 7, "answers": f"{set_to.code} {deep.code} {names} {none.code}"}


@resource("depot::Scan", agent="name", id_attribute="name")
class Scan(DiscoveryResource):
    fields = ("name",)


class Found:
    def __init__(self, size):
        self.size = size

    def model_dump(self):
        return {"size": self.size}


@provider("depot::Scan", name="scan")
class ScanHandler(DiscoveryHandler):
    def discover_resources(self, ctx, discovery_resource):
        with open(__ROOT__ + "/found") as found:
            return {f"depot::Box[{name},name={name}]": Found(name * 2) for name in found.read().split()}
"#;

fn start(main: &str, found: &str) -> (Repo, Host, Running) {
    let (repo, host) = (Repo::new(main), Host::new());
    std::fs::write(host.file("found"), found).unwrap();
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        "libs/depot/module.yml",
        "name: depot\nversion: 1.0.0\nlicense: x\n",
    );
    repo.write("libs/depot/model/_init.cf", MODEL);
    let root = format!("{:?}", host.root().display().to_string());
    repo.write(
        "libs/depot/plugins/__init__.py",
        &PLUGINS.replace("__ROOT__", &root),
    );
    repo.commit("with its module");
    let running = Running::start(host.up(repo.path()));
    (repo, host, running)
}

fn box_of(name: &str) -> String {
    format!("depot::Box[{name},name={name}]")
}

/// Name → value of the facts of a resource.
fn facts(running: &Running, id: &str) -> Value {
    let body = running.get_ok(&format!("/api/v2/resource/{}/facts", segment(id)));
    let facts = body["data"].as_array().unwrap().iter();
    facts
        .map(|fact| {
            let name = fact["name"].as_str().unwrap().to_owned();
            (name, fact["value"].clone())
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn parameter(running: &Running, id: &str, name: &str) -> (u16, Value) {
    running.get(&format!(
        "/api/v1/parameter/{name}?resource_id={}",
        segment(id)
    ))
}

/// Checklist 104 and 106.
//: deploy 106
#[test]
fn a_model_that_waits_for_a_fact_is_complete_when_a_handler_has_told_it() {
    let main = "import depot\none = depot::Box(name=\"one\")\n\
                depot::Box(name=\"two\", size=std::getfact(one, \"size\"))\n";
    let (_repo, _host, mut running) = start(main, "");
    let (ran, summary) = running.settled(1);
    assert_eq!(ran, ["one deployed nochange"]);
    assert_eq!(summary["skipped"], 1, "{summary}");
    let version = running.get_ok("/api/v1/version/1");
    let unknown = &version["unknowns"][0];
    assert_eq!(
        (
            &unknown["resource_id"],
            &unknown["name"],
            &unknown["version"]
        ),
        (&json!(box_of("one")), &json!("size"), &json!(1)),
        "{version}"
    );
    assert!(
        unknown["id"]
            .as_str()
            .unwrap()
            .parse::<uuid::Uuid>()
            .is_ok()
    );
    let (ran, summary) = running.settled(2);
    assert_eq!(
        (ran, &summary["skipped"]),
        (vec!["two deployed nochange".to_owned()], &json!(0))
    );
    let two = running.get_ok(&format!(
        "/api/v2/desiredstate/2/resource/{}",
        segment(&box_of("two"))
    ));
    assert_eq!(two["data"]["attributes"]["size"], "5");
    let versions = running.get_ok("/api/v2/desiredstate");
    let label = &versions["data"][0]["labels"][0];
    assert_eq!(label["name"], "param", "{label}");
    assert_eq!(
        facts(&running, &box_of("one")),
        json!({"size": "5", "serial": "0001"})
    );
    let all = running.get_ok("/api/v2/facts?filter.name=serial&limit=1");
    assert_eq!(
        (
            &all["data"][0]["expires"],
            &all["data"][0]["source"],
            &all["metadata"]["total"]
        ),
        (&json!(false), &json!("fact"), &json!(2)),
        "{all}"
    );
    let (status, body) = parameter(&running, &box_of("one"), "size");
    assert_eq!((status, &body["parameter"]["value"]), (200, &json!("5")));
    // Without a resource it is the fact of any.
    let any = running.get_ok("/api/v1/parameter/serial")["parameter"].clone();
    assert_eq!(any["resource_id"], box_of("one").as_str(), "{any}");
    // The next version asks for nothing.
    let (status, body) = running.call(
        "PUT",
        "/api/v1/parameter/size",
        Some(&json!({"source": "user", "value": "5", "resource_id": box_of("one"), "recompile": true})),
    );
    assert_eq!(
        (status, &body["parameter"]["source"]),
        (200, &json!("user")),
        "{body}"
    );
    // Setting a fact anew without saying whether it expires leaves that as it was.
    let given = json!({"source": "user", "value": "0002", "resource_id": box_of("one")});
    let (_, body) = running.call("PUT", "/api/v1/parameter/serial", Some(&given));
    assert_eq!(body["parameter"]["expires"], false, "{body}");
    let (_, body) = running.call("PUT", "/api/v2/facts/serial", Some(&given));
    assert_eq!(body["data"]["expires"], true, "the default of this call");
}

/// Checklist 105: a fact that nobody told is asked for.
//: deploy 105
#[test]
fn a_missing_fact_is_asked_of_the_handler_once() {
    let (_repo, _host, mut running) = start("import depot\ndepot::Box(name=\"one\")\n", "");
    running.settled(1);
    for _ in 0..5 {
        let (status, body) = parameter(&running, &box_of("one"), "unheard");
        assert_eq!(status, 503, "{body}");
    }
    wait_until("the handler has answered", || {
        facts(&running, &box_of("one")).get("color").is_some()
    });
    assert_eq!(
        facts(&running, &box_of("one")),
        json!({
            "size": "5", "serial": "0001", "color": "red", "weight": "7", "answers": "200 400 ['asked'] 404"
        })
    );
    assert_eq!(
        parameter(&running, &box_of("one"), "unheard").0,
        503,
        "it is asked again only later"
    );
    let actions = running.get_ok("/api/v2/resource_actions");
    let questions: Vec<&Value> = actions["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|action| action["action"] == "getfact")
        .collect();
    assert_eq!(questions.len(), 1, "{actions}");
    assert_eq!(questions[0]["status"], "deployed");
    let asked = running.get_ok("/api/v1/parameter/asked");
    assert_eq!(
        (&asked["parameter"]["value"], &asked["parameter"]["source"]),
        (&json!("one"), &json!("plugin"))
    );
    assert_eq!(
        running.get("/api/v1/parameter/none").0,
        404,
        "a parameter is asked of nobody"
    );
    // Named arguments of log lines are JSON in the log of the resource; what has no such form is a text.
    let logs = running.get_ok(&format!(
        "/api/v2/resource/{}/logs?filter.action=deploy",
        segment(&box_of("one"))
    ));
    let lines = logs["data"].as_array().unwrap();
    let line = lines.iter().find(|line| line["level"] == "INFO").unwrap();
    assert_eq!(line["msg"], "Looked at one, {'n': [1, None]}");
    assert_eq!(line["kwargs"]["odd"], json!({"n": [1, null]}));
    assert_eq!(line["kwargs"]["thing"], "<class 'object'>");
}

/// Given: a version that is stored and not released, which waits for a fact that no handler gives; somebody sets the fact, and
/// releases the version. Expected: the model is compiled again, though no version in force waited when the fact was set.
#[test]
fn a_fact_that_was_set_before_a_version_that_waits_for_it_came_into_force_is_not_lost() {
    let (repo, _host, mut running) = start("import depot\ndepot::Box(name=\"one\")\n", "");
    running.settled(1);
    let call = |method: &str, path: &str, body: Value| {
        let (status, answer) = running.call(method, path, Some(&body));
        assert_eq!(status, 200, "{path}: {answer}");
    };
    let setting = "/api/v2/environment_settings/auto_deploy";
    call("POST", setting, json!({"value": false}));
    repo.write(
        "main.cf",
        "import depot\none = depot::Box(name=\"one\")\n\
         depot::Box(name=\"two\", size=std::getfact(one, \"owner\"))\n",
    );
    repo.commit("it waits");
    let newest = || running.get_ok("/api/v2/desiredstate")["data"][0]["version"].clone();
    wait_until("the version is stored", || newest() == 2);
    let fact = json!({"source": "user", "value": "me", "resource_id": box_of("one")});
    call("PUT", "/api/v2/facts/owner", fact);
    call("POST", "/api/v2/desiredstate/2/promote", json!({}));
    wait_until("the model is compiled with the fact", || newest() == 3);
    let path = format!(
        "/api/v2/desiredstate/3/resource/{}",
        segment(&box_of("two"))
    );
    assert_eq!(running.get_ok(&path)["data"]["attributes"]["size"], "me");
    // Once, and not again and again.
    call("POST", "/api/v2/desiredstate/3/promote", json!({}));
    running.settled(3);
    let versions = running.get_ok("/api/v2/desiredstate");
    assert_eq!(versions["data"][0]["version"], 3);
    running.stop();
}

#[test]
fn a_reference_to_a_fact_is_resolved_by_the_executor() {
    let main = "import depot\none = depot::Box(name=\"one\")\n\
                size = std::create_fact_reference(one, \"size\")\n\
                depot::Box(name=\"two\", size=size, requires=one)\n";
    let (_repo, _host, mut running) = start(main, "");
    let (ran, summary) = running.settled(1);
    assert_eq!(summary["failed"], 0, "{ran:?}");
    let logs = running.get_ok(&format!(
        "/api/v2/resource/{}/logs",
        segment(&box_of("two"))
    ));
    let said: Vec<&Value> = logs["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| &line["msg"])
        .collect();
    assert!(said.contains(&&json!("its size is 5")), "{said:?}");
}

/// Checklist 60, 107, 108.
//: deploy 60, 107, 108
#[test]
fn facts_go_with_their_resource_and_parameters_are_set_by_hand() {
    let (repo, _host, mut running) = start("import depot\ndepot::Box(name=\"one\")\n", "");
    running.settled(1);
    let set = |body: Value| running.call("PUT", "/api/v1/parameter/color", Some(&body));
    let (status, body) = set(json!({"source": "user", "value": "red", "recompile": true}));
    assert_eq!((status, &body["parameter"]["value"]), (200, &json!("red")));
    let expiring = set(json!({"source": "user", "value": "red", "expires": true}));
    assert_eq!(expiring.0, 400, "{}", expiring.1);
    running.settled(2);
    let set = |body: Value| running.call("PUT", "/api/v1/parameter/color", Some(&body));
    set(json!({"source": "user", "value": "red", "recompile": true}));
    let reports = || running.get_ok("/api/v2/compilereport")["metadata"]["total"].clone();
    let before = reports();
    set(
        json!({"source": "user", "value": "red", "recompile": true, "metadata": {"values": ["red"]}}),
    );
    assert_eq!(reports(), before, "the value is the one it was");
    let parameters = running.get_ok("/api/v2/parameters");
    assert_eq!(
        parameters["data"][0]["metadata"],
        json!({"values": ["red"]})
    );
    let found = running.call(
        "POST",
        "/api/v1/parameter",
        Some(&json!({"query": {"values": ["red"]}})),
    );
    assert_eq!(found.1["parameters"].as_array().unwrap().len(), 1);
    assert_eq!(found.1["expire"], 3600);
    repo.write(
        "main.cf",
        "import depot\ndepot::Box(name=\"one\", purged=true)\n",
    );
    repo.commit("purged");
    running.settled(3);
    assert_eq!(facts(&running, &box_of("one")), json!({}));
    assert_eq!(
        running.call("DELETE", "/api/v1/parameter/color", None).0,
        200
    );
    assert_eq!(
        running.call("DELETE", "/api/v1/parameter/color", None).0,
        404
    );
}

/// Input: parameters and compile requests with metadata nested 65 to 126 levels deep, which could be written but, within an answer, not always be read back (docs/reference/security.md § 4.8). Answer: 400, which says how deep they may be; what is 60 deep is kept.
#[test]
fn what_is_nested_too_deep_to_be_read_back_is_refused() {
    let (_repo, _host, mut running) = start("x = 1\n", "");
    running.settled(1);
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    let parameter = |depth: usize| {
        let body = json!({"source": "user", "value": "1", "metadata": nested(depth)});
        running.call("PUT", "/api/v2/parameters/p", Some(&body))
    };
    let compile = |depth: usize| {
        let path = format!("/api/v1/notify/{}", running.environment());
        running.call("POST", &path, Some(&json!({"metadata": nested(depth)})))
    };
    for depth in [64, 98, 120] {
        for (status, answer) in [parameter(depth), compile(depth)] {
            assert_eq!(status, 400, "{depth}: {answer}");
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains("levels deep"), "{message}");
        }
    }
    assert_eq!(parameter(60).0, 200);
    assert_eq!(compile(60).0, 200);
    let kept = running.get_ok("/api/v2/parameters");
    assert_eq!(kept["data"][0]["metadata"], nested(60));
    let reports = running.get_ok("/api/v2/compilereport?details=true");
    assert!(
        reports["data"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
}

/// Checklist 109 and 110.
//: deploy 109
#[test]
fn what_a_discovery_finds_is_kept() {
    let main = "import depot\ndepot::Box(name=\"a\")\ndepot::Scan(name=\"s\")\n";
    let (_repo, host, mut running) = start(main, "a b");
    let (_, summary) = running.settled(1);
    assert_eq!(summary["failed"], 0, "{summary}");
    let list = |filter: &str| {
        let body = running.get_ok(&format!("/api/v2/discovered{filter}"));
        let rows = body["data"].as_array().unwrap().iter();
        let text = |row: &Value| row["discovered_resource_id"].as_str().unwrap().to_owned();
        rows.map(text).collect::<Vec<_>>()
    };
    assert_eq!(list(""), [box_of("a"), box_of("b")]);
    assert_eq!(list("?filter.managed=true"), [box_of("a")]);
    assert_eq!(list("?filter.managed=false"), [box_of("b")]);
    let one = |name: &str| {
        running.get_ok(&format!("/api/v2/discovered/{}", segment(&box_of(name))))["data"].clone()
    };
    let found = one("b");
    assert_eq!(found["values"], json!({"size": "bb"}));
    assert_eq!(found["discovery_resource_id"], "depot::Scan[s,name=s]");
    assert_eq!(found["managed_resource_uri"], Value::Null);
    let scan = segment("depot::Scan[s,name=s]");
    assert_eq!(
        found["discovery_resource_uri"],
        format!("/api/v2/resource/{scan}")
    );
    for column in ["agent", "resource_type", "resource_id_value"] {
        let backwards = list(&format!("?sort={column}.desc"));
        assert_eq!(backwards, [box_of("b"), box_of("a")], "{column}");
    }
    assert_eq!(
        (
            &found["resource_type"],
            &found["agent"],
            &found["resource_id_value"]
        ),
        (&json!("depot::Box"), &json!("b"), &json!("b"))
    );
    assert_eq!(
        one("a")["managed_resource_uri"],
        format!("/api/v2/resource/{}", segment(&box_of("a")))
    );
    // A dry run finds nothing; another run adds, and what is gone stays.
    std::fs::write(host.file("found"), "c").unwrap();
    let (status, _) = running.call("POST", "/api/v2/dryrun/1", None);
    assert_eq!(status, 200);
    let done = || running.get_ok("/api/v2/dryrun/1")["data"][0]["todo"] == 0;
    wait_until("the dry run is done", done);
    assert_eq!(list("").len(), 2);
    running.call(
        "POST",
        "/api/v1/deploy",
        Some(&json!({"agent_trigger_method": "push_full_deploy"})),
    );
    running.settled(1);
    let list = |filter: &str| {
        let body = running.get_ok(&format!("/api/v2/discovered{filter}"));
        body["data"].as_array().unwrap().len()
    };
    assert_eq!(list(""), 3);
    let id = segment(&box_of("b"));
    assert_eq!(
        running
            .call("DELETE", &format!("/api/v2/discovered/{id}"), None)
            .0,
        200
    );
    assert_eq!(running.get(&format!("/api/v2/discovered/{id}")).0, 404);
    // Clients tell what they found, too; the newest report counts.
    let path = format!("/api/v2/discovered/{id}");
    let found = json!({"discovery_resource_id": box_of("a"), "values": {"n": 1}});
    assert_eq!(running.call("POST", &path, Some(&found)).0, 200);
    let numbered = format!("{},v=1", box_of("b"));
    let found = json!({"discovered_resource_id": numbered, "discovery_resource_id": box_of("a"), "values": {"n": 2}});
    let all = |found: &[&Value]| {
        let body = json!({"discovered_resources": found});
        running.call("POST", "/api/v2/discovered/", Some(&body)).0
    };
    assert_eq!(all(&[&found]), 200);
    assert_eq!(running.get_ok(&path)["data"]["values"], json!({"n": 2}));
    for (name, bad) in [
        ("discovered_resource_id", json!("no id")),
        ("values", json!([])),
    ] {
        let mut other = found.clone();
        other["values"] = json!({"n": 3});
        let mut wrong = found.clone();
        wrong[name] = bad;
        assert_eq!(all(&[&other, &wrong]), 400, "{name}");
    }
    assert_eq!(running.get_ok(&path)["data"]["values"], json!({"n": 2}));
    assert_eq!(running.call("DELETE", &path, None).0, 200);
    let both = json!({"discovered_resource_ids": [box_of("c"), "unknown"]});
    assert_eq!(
        running.call("DELETE", "/api/v2/discovered/", Some(&both)).0,
        200
    );
    assert_eq!(list(""), 1);
    what_is_large_is_shown_on_more_pages(&mut running);
}

/// Given: 300 found resources of 60 kB each, where an answer takes 8 MiB. Expected: a page has as many as fit, and the links lead
/// to each once, there and back.
fn what_is_large_is_shown_on_more_pages(running: &mut Running) {
    for bulk in 0..6 {
        let found: Vec<Value> = (bulk * 50..bulk * 50 + 50)
            .map(|n| json!({"discovered_resource_id": box_of(&format!("n{n:03}")), "discovery_resource_id": box_of("a"), "values": {"text": "x".repeat(60_000)}}))
            .collect();
        let body = json!({"discovered_resources": found});
        assert_eq!(
            running.call("POST", "/api/v2/discovered/", Some(&body)).0,
            200
        );
    }
    let names = |page: &Value| {
        let rows = page["data"].as_array().unwrap().iter();
        let name = |row: &Value| row["agent"].as_str().unwrap().to_owned();
        rows.map(name).collect::<Vec<_>>()
    };
    let mut expected: Vec<String> = (0..300).map(|n| format!("n{n:03}")).collect();
    expected.insert(0, "a".to_owned());
    for sort in ["", "&sort=discovered_resource_id.desc"] {
        let mut page = running.get_ok(&format!("/api/v2/discovered?limit=1000{sort}"));
        let (mut there, mut n_pages) = (names(&page), 1);
        assert!(there.len() > 100, "{}", there.len());
        while let Some(next) = page["links"]["next"].as_str() {
            page = running.get_ok(next);
            there.extend(names(&page));
            n_pages += 1;
        }
        assert_eq!((&there, n_pages), (&expected, 3));
        assert_eq!(page["metadata"]["total"], 301);
        let mut back = names(&page);
        while let Some(prev) = page["links"]["prev"].as_str() {
            page = running.get_ok(prev);
            back = [names(&page), back].concat();
        }
        assert_eq!(back, expected);
        expected.reverse();
    }
    let page = running.get_ok("/api/v2/discovered?limit=2&filter.agent=n123");
    assert_eq!(names(&page), ["n123"]);
}

#[test]
fn the_configuration_says_how_long_facts_are_good() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::new("x = 1\n");
    repo.commit("first");
    let config = format!(
        "facts: {{expire: 2s, renew: 1s}}\nenvironments:\n- {{project: p, name: e, repository: {}}}\n",
        repo.path().display()
    );
    let served = serve(dir.path(), &config);
    let environment = served.environment("e");
    let call = |method: &str, path: &str, body: &Value| {
        let url = format!("{}{path}", served.api);
        request(method, &url, Some(&environment), Some(body))
    };
    let path = "/api/v1/parameter/size";
    for (name, expires) in [("a", true), ("b", false)] {
        let body = json!({"source": "user", "value": "5", "resource_id": box_of(name), "expires": expires});
        assert_eq!(call("PUT", path, &body).0, 200);
    }
    let status = |name: &str| {
        let url = format!(
            "{}{path}?resource_id={}",
            served.api,
            segment(&box_of(name))
        );
        request("GET", &url, Some(&environment), None).0
    };
    assert_eq!(status("a"), 200);
    wait_until("the fact expires", || status("a") == 503);
    assert_eq!(status("b"), 200);
    assert_eq!(call("POST", "/api/v1/parameter", &json!({})).1["expire"], 2);
}
