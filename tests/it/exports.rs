//! Versions that an exporter on another machine sends. Source: docs/reference/deployment.md § 2.3, § 2.4.

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, segment, wait_until};

const MODEL: &str = r#"
import fs
root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)
shared = fs::File(host=host, path="{{root}}/shared", content="shared\n")
one = fs::File(host=host, path="{{root}}/one", content="one\n")
two = fs::File(host=host, path="{{root}}/two", content="two\n", requires=[shared])
std::ResourceSet(name="one", resources=[one])
std::ResourceSet(name="two", resources=[two])
"#;

/// A file as exporters write it.
fn file(host: &Host, name: &str, content: &str, version: &str) -> Value {
    let path = host.file(name).display().to_string();
    json!({
        "id": format!("fs::File[localhost,path={path}]{version}"),
        "path": path, "content": content, "owner": null, "group": null, "mode": null, "managed": true,
        "purged": false, "purge_on_delete": false, "report_only": false, "send_event": true, "receive_events": true,
        "references": [], "mutators": [], "requires": [],
    })
}

fn id(host: &Host, name: &str) -> String {
    format!("fs::File[localhost,path={}]", host.file(name).display())
}

/// What a resource of the list of all requires.
fn requires_of(running: &Running, id: &str) -> Value {
    let all = running.get_ok("/api/v2/resource")["data"].clone();
    let mut all = all.as_array().unwrap().iter();
    all.find(|one| one["resource_id"] == id).unwrap()["requires"].clone()
}

/// What was stored names what was sent, and the version what it builds on: version 2 is a partial export of `one`.
fn assert_what_was_stored(running: &Running, host: &Host) {
    let stored: Vec<Value> = running.get_ok("/api/v2/resource_actions")["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|action| action["action"] == "store")
        .map(|action| action["resource_version_ids"].clone())
        .collect();
    let of = |name: &str, version: i64| format!("{},v={version}", id(host, name));
    let first = ["one", "shared", "two"].map(|name| of(name, 1));
    assert_eq!(stored, [json!([of("one", 2)]), json!(first)]);
    let n_lines = |name: &str| {
        let path = format!(
            "/api/v2/resource/{}/logs?filter.action=store",
            segment(&id(host, name))
        );
        running.get_ok(&path)["metadata"]["total"].clone()
    };
    assert_eq!((n_lines("one"), n_lines("two")), (json!(2), json!(1)));
    let bases = ["1", "2"].map(|version| {
        running.get_ok(&format!("/api/v1/version/{version}"))["model"]["partial_base"].clone()
    });
    assert_eq!(bases, [Value::Null, json!(1)]);
}

//: deploy 38, 39, 40, 42, 44; lsm 83
#[test]
fn a_partial_export_changes_its_sets_and_nothing_else_and_says_what_it_may_not() {
    let (repo, host) = (Repo::new(MODEL), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let export = |resources: Vec<Value>, sets: Value, removed: Value| {
        let body = json!({
            "resources": resources, "resource_sets": sets, "resource_state": {}, "unknowns": [],
            "module_version_info": {}, "removed_resource_sets": removed,
            "version_info": {"export_metadata": {"type": "manual", "message": "one set"}},
        });
        running.call("PUT", "/api/v2/version/partial", Some(&body))
    };
    let one = file(&host, "one", "another one\n", "");
    let (status, answer) = export(vec![one], json!({id(&host, "one"): "one"}), json!([]));
    assert_eq!((status, &answer["data"]), (200, &json!(2)), "{answer}");
    wait_until("the changed file is deployed", || {
        host.read("one") == "another one\n"
    });
    let n_deployed = || {
        let actions = running.get_ok("/api/v2/resource_actions?limit=100");
        let actions = actions["data"].as_array().cloned().unwrap_or_default();
        let of_2 = actions.iter().filter(|action| {
            action["action"] == "deploy" && action["version"] == 2 && !action["finished"].is_null()
        });
        of_2.count()
    };
    // The file is there a moment before what became of it is written down.
    wait_until("its run is in the history", || n_deployed() > 0);
    assert_eq!(n_deployed(), 1, "only what changed is deployed");
    assert_what_was_stored(&running, &host);
    let version = running.get_ok("/api/v2/desiredstate/2");
    assert_eq!(version["metadata"]["total"], 3);

    let refused = |resources: Vec<Value>, sets: Value, removed: Value, why: &str| {
        let (status, answer) = export(resources, sets, removed);
        assert_eq!(status, 400, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    };
    let shared = file(&host, "shared", "changed\n", "");
    refused(vec![shared], json!({}), json!([]), "may not change it");
    let two = || file(&host, "two", "two\n", "");
    let moves = json!({id(&host, "two"): "one"});
    refused(vec![two()], moves, json!([]), "has to have both sets");
    let both = json!({id(&host, "two"): "two"});
    refused(
        vec![two()],
        both,
        json!(["two"]),
        "sent and removed at once: two",
    );
    let numbered = file(&host, "two", "two\n", ",v=7");
    refused(vec![numbered], json!({}), json!([]), "may have no version");
    let mut open = two();
    open["requires"] = json!([id(&host, "nowhere")]);
    refused(
        vec![open],
        json!({id(&host, "two"): "two"}),
        json!([]),
        "not in this version",
    );

    let requiring = |name: &str, requires: Value| {
        let mut resource = file(&host, name, "x", "");
        resource["requires"] = requires;
        resource
    };
    let circle = vec![
        requiring("two", json!([id(&host, "more")])),
        requiring("more", json!([id(&host, "two")])),
    ];
    let in_two = json!({id(&host, "two"): "two", id(&host, "more"): "two"});
    refused(
        circle,
        in_two,
        json!([]),
        &format!(
            "circle, so that none could ever be deployed: {0} → {1} → {0}",
            id(&host, "more"),
            id(&host, "two")
        ),
    );

    let before = requires_of(&running, &id(&host, "two"));
    assert_ne!(before, json!([]), "it requires something");
    let (status, answer) = export(vec![], json!({}), json!(["two", "nowhere"]));
    assert_eq!((status, &answer["data"]), (200, &json!(3)), "{answer}");
    wait_until("its resource is an orphan", || {
        let orphans = running.get_ok("/api/v2/resource?filter.status=orphaned");
        orphans["metadata"]["total"] == 1
            && orphans["data"][0]["resource_id"] == id(&host, "two").as_str()
    });
    let after = requires_of(&running, &id(&host, "two"));
    assert_eq!(after, before, "an orphan requires what it did");
    assert_eq!(host.read("two"), "two\n", "nothing is undone");
    running.stop();
}

//: deploy 20, 21, 29, 43
#[test]
fn a_full_export_is_stored_under_a_reserved_number_and_old_versions_are_deleted() {
    let (repo, host) = (Repo::new(MODEL), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let put = |version: i64, mut resource: Value, more: Value| {
        let id = resource["id"].as_str().unwrap().to_owned();
        resource["id"] = json!(format!("{id},v={version}"));
        let mut body =
            json!({"version": version, "resources": [resource], "module_version_info": {}});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        running.call("PUT", "/api/v1/version", Some(&body))
    };
    let three = || file(&host, "three", "three\n", "");
    for unknown in [-1, 0, 2] {
        let (status, answer) = put(unknown, three(), json!({}));
        assert_eq!(status, 400, "{unknown} {answer}");
    }
    let (status, answer) = running.call("POST", "/api/v2/reserve_version", Some(&json!({})));
    assert_eq!((status, &answer["data"]), (200, &json!(2)), "{answer}");
    let mut open = three();
    open["requires"] = json!([id(&host, "nowhere")]);
    let (status, answer) = put(2, open, json!({}));
    assert_eq!(status, 400, "{answer}");
    let mut of_itself = three();
    of_itself["requires"] = json!([id(&host, "three")]);
    let (status, answer) = put(2, of_itself, json!({}));
    let why = format!("resource {} requires itself", id(&host, "three"));
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains(&why), "{answer}");
    let (status, answer) = put(2, three(), json!({"removed_resource_sets": ["one"]}));
    assert_eq!(status, 400, "{answer}");
    for unclear in [
        json!({"resource_state": {id(&host, "three"): "deployed"}}),
        json!({"resource_state": {id(&host, "three"): "zz"}}),
        json!({"version_info": "text"}),
    ] {
        let (status, answer) = put(2, three(), unclear.clone());
        assert_eq!(status, 400, "{unclear}: {answer}");
    }
    let nowhere = json!({"agent_places": {"far": "ftp://host"}});
    let (status, answer) = put(2, three(), nowhere);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("far"), "{answer}");
    let settings = json!({
        "agent_places": {"far": "ssh://host"}, "project_constraints": "a<2\nb==1",
        "pip_config": {"index-url": "https://pip.example.com/simple", "pre": true},
    });
    let (status, answer) = put(2, three(), settings);
    assert_eq!(status, 200, "{answer}");
    let pip = json!({
        "index-url": "https://pip.example.com/simple", "extra-index-url": [], "pre": true, "use-system-config": false,
    });
    assert_eq!(running.get_ok("/api/v2/pip/config/2")["data"], pip);
    assert_eq!(running.get_ok("/api/v2/pip/config/1")["data"], Value::Null);
    let model = running.get_ok("/api/v1/version/2")["model"].clone();
    assert_eq!(
        (&model["pip_config"], &model["project_constraints"]),
        (&pip, &json!("a<2\nb==1"))
    );
    wait_until("it is deployed", || host.file("three").exists());
    let (status, answer) = put(2, three(), json!({}));
    assert_eq!(status, 409, "{answer}");
    wait_until("it is in force", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["status"] == "active"
    });
    for (number, is_said) in [(1, true), (2, false)] {
        let model = running.get_ok(&format!("/api/v1/version/{number}"))["model"].clone();
        assert_eq!(model["version_info"].is_object(), is_said, "{model}");
    }
    let (status, answer) = running.call("DELETE", "/api/v1/version/2", None);
    assert_eq!(status, 400, "{answer}");
    assert_eq!(running.call("DELETE", "/api/v1/version/1", None).0, 200);
    assert_eq!(running.call("DELETE", "/api/v1/version/1", None).0, 404);
    running.stop();
}

/// Given: an export whose model asked for a fact of a resource that is not exported, and for parameters. Expected: it is stored,
/// the version has all of them, and setting one queues a compile.
#[test]
fn an_export_may_wait_for_parameters_and_for_facts_of_what_it_leaves_out() {
    let (repo, host) = (Repo::new(MODEL), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let (status, answer) = running.call("POST", "/api/v2/reserve_version", Some(&json!({})));
    assert_eq!((status, &answer["data"]), (200, &json!(2)), "{answer}");
    let body = json!({
        "version": 2, "resources": [file(&host, "three", "three\n", ",v=2")], "module_version_info": {},
        "unknowns": [
            {"resource": "net::Port[a,name=x]", "parameter": "speed", "source": "fact"},
            {"resource": "", "parameter": "region", "source": "user"},
            {"parameter": "zone", "source": "user"},
        ],
    });
    let (status, answer) = running.call("PUT", "/api/v1/version", Some(&body));
    assert_eq!(status, 200, "{answer}");
    let version = running.get_ok("/api/v1/version/2");
    let unknowns = version["unknowns"].as_array().unwrap().iter();
    let unknowns: Vec<[&Value; 3]> = unknowns
        .map(|unknown| ["resource_id", "name", "source"].map(|field| &unknown[field]))
        .collect();
    let expected = [
        ["net::Port[a,name=x]", "speed", "fact"],
        ["", "region", "user"],
        ["", "zone", "user"],
    ];
    assert_eq!(json!(unknowns), json!(expected));
    wait_until("it is in force", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["status"] == "active"
    });
    let set = |name: &str| {
        let value = json!({"source": "user", "value": "eu"});
        let path = format!("/api/v1/parameter/{name}");
        let (status, answer) = running.call("PUT", &path, Some(&value));
        assert_eq!(status, 200, "{answer}");
    };
    let n_compiles = || running.get_ok("/api/v2/compilereport")["metadata"]["total"].clone();
    let before = n_compiles();
    set("color");
    assert_eq!(n_compiles(), before, "nothing waits for it");
    set("region");
    wait_until("it is compiled again", || n_compiles() != before);
    running.stop();
}

/// Given: an export of 18 MiB. Expected: it is stored and deployed; other requests may not be so large.
#[test]
fn an_export_may_be_larger_than_other_requests() {
    let (repo, host) = (Repo::new(MODEL), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let (status, answer) = running.call("POST", "/api/v2/reserve_version", Some(&json!({})));
    assert_eq!((status, &answer["data"]), (200, &json!(2)), "{answer}");
    let content = "x".repeat(6 << 20);
    let large = ["a", "b", "c"].map(|name| file(&host, name, &content, ",v=2"));
    let body = json!({"version": 2, "resources": large, "module_version_info": {}});
    let (status, answer) = running.call("PUT", "/api/v1/version", Some(&body));
    assert_eq!(status, 200, "{answer}");
    wait_until("they are deployed", || {
        let is_there =
            |name| std::fs::metadata(host.file(name)).is_ok_and(|file| file.len() == 6 << 20);
        ["a", "b", "c"].into_iter().all(is_there)
    });
    let project = json!({"name": content.repeat(3)});
    assert_eq!(
        running.call("PUT", "/api/v2/project", Some(&project)).0,
        413
    );
    running.stop();
}
