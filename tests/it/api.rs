//! The REST API of a running server.

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, files, send, wait_until};

fn start() -> (Repo, Host, Running) {
    let (repo, host) = (
        Repo::new(&files(&[("a", "one"), ("b", "one")])),
        Host::new(),
    );
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    (repo, host, running)
}

#[test]
fn status_environments_versions_and_resources_can_be_read() {
    let (_repo, host, running) = start();
    assert_eq!(running.get_ok("/api/v2/health"), json!({"data": null}));
    let status = running.get_ok("/api/v1/serverstatus")["data"].clone();
    assert_eq!(status["status"], "OK");
    // By these, clients decide whether they show services, and orders.
    let has = |list: &str, wanted: &Value| {
        let items = status[list].as_array().unwrap();
        let fits = |item: &Value| {
            wanted
                .as_object()
                .unwrap()
                .iter()
                .all(|(k, v)| item[k] == *v)
        };
        assert!(items.iter().any(fits), "{list}: {wanted} of {status:#}");
    };
    has("extensions", &json!({"name": "lsm"}));
    has(
        "slices",
        &json!({"name": "lsm.order", "reported_status": "OK"}),
    );
    has(
        "features",
        &json!({"slice": "lsm.order", "name": "order_api", "value": true}),
    );
    let lifecycles = "supported_lifecycles";
    has(
        "features",
        &json!({"slice": "lsm.service_catalog", "name": lifecycles, "value": ["*"]}),
    );
    let environments = running.get_ok("/api/v2/environment");
    assert_eq!(environments["data"].as_array().unwrap().len(), 1);
    let projects = running.get_ok("/api/v2/project");
    assert_eq!(
        projects["data"][0]["environments"][0]["id"],
        environments["data"][0]["id"]
    );
    let versions = running.get_ok("/api/v2/desiredstate");
    assert_eq!(versions["data"][0]["status"], "active");
    assert_eq!(versions["data"][0]["total"], 3);
    let id = format!("fs::File[localhost,path={}]", host.file("a").display());
    let one = running.get_ok(&format!(
        "/api/v2/desiredstate/1/resource/{}",
        crate::harness::segment(&id)
    ));
    assert_eq!(one["data"]["attributes"]["content"], "one\n");
    let resources = running.get_ok(
        "/api/v2/resource?deploy_summary=true&filter.status=deployed&filter.resource_type=file",
    );
    assert_eq!(
        resources["data"].as_array().unwrap().len(),
        2,
        "{resources}"
    );
    assert_eq!(
        resources["metadata"]["deploy_summary"]["by_state"]["deployed"],
        3
    );
    let agents = running.get_ok("/api/v2/agents");
    assert_eq!(
        (&agents["data"][0]["name"], &agents["data"][0]["status"]),
        (&json!("localhost"), &json!("up"))
    );
}

/// Given: filters that no row can pass, as a mistyped word is, and a version that never was. Expected: 400, or 404, never an
/// empty list that looks like an answer; the same filters spelled right are taken. Statuses of agents and versions, and levels
/// of the log, are any words, as with the reference: nothing has an unknown one.
#[test]
fn what_cannot_be_right_in_a_question_is_refused() {
    let (_repo, host, running) = start();
    let id = format!("fs::File[localhost,path={}]", host.file("a").display());
    let rid = crate::harness::segment(&id);
    for bad in [
        "/api/v2/resource?filter.status=failled",
        "/api/v2/resource?filter.status=!bogus",
        "/api/v2/resource?filter.status=",
        "/api/v2/resource?filter=1",
        "/api/v2/compilereport?filter.success=bogus",
        "/api/v2/compilereport?filter.success=true&filter.success=false",
        "/api/v2/notification?filter.severity=zzz",
        "/api/v2/resource_actions?exclude_changes=bogus",
        "/api/v2/resource_actions?attribute=path",
        &format!("/api/v2/resource/{rid}/logs?filter.action=zzz"),
        "/api/v2/desiredstate?filter.date=ge:yesterday",
    ] {
        let (status, body) = running.get(bad);
        assert_eq!(status, 400, "{bad}: {body}");
    }
    for good in [
        "/api/v2/resource?filter.status=!orphaned&filter.status=cancelled",
        "/api/v2/compilereport?filter.success=True",
        "/api/v2/notification?filter.severity=error&filter.severity=warning",
        "/api/v2/agents?filter.status=up",
        "/api/v2/resource_actions?exclude_changes=nochange&exclude_changes=created",
        &format!("/api/v2/resource/{rid}/logs?filter.action=deploy&filter.minimal_log_level=info"),
        "/api/v2/desiredstate?filter.date=ge:2020-01-01",
    ] {
        let (status, body) = running.get(good);
        assert_eq!(status, 200, "{good}: {body}");
    }
    for empty in [
        "/api/v2/desiredstate?filter.status=actve",
        "/api/v2/agents?filter.status=upp",
        "/api/v2/resource_actions?log_severity=zz",
    ] {
        assert_eq!(running.get_ok(empty)["data"], json!([]), "{empty}");
    }
    let agents = running.get_ok("/api/v2/agents?sort=paused.asc");
    assert_eq!(agents["data"][0]["name"], "localhost", "{agents}");
    for (version, expected) in [(1, 200), (2, 404), (2_147_483_648_i64, 404)] {
        let paths = [
            format!("/api/v2/desiredstate/{version}/resource/{rid}"),
            format!(
                "/api/v1/resource/{}",
                crate::harness::segment(&format!("{id},v={version}"))
            ),
        ];
        for path in paths {
            let (status, body) = running.get(&path);
            assert_eq!(status, expected, "{path}: {body}");
        }
    }
}

/// Given: limits, numbers and filters as clients write them. Expected: what they mean.
#[test]
fn numbers_and_patterns_are_read_as_clients_write_them() {
    let (_repo, _host, running) = start();
    // No limit, and numbers as clients write them.
    for (path, expected) in [
        ("/api/v2/resource?limit=-1", 3),
        ("/api/v1/agent?limit=-1", 1),
        ("/api/v2/resource?limit=1.0", 1),
    ] {
        let answer = running.get_ok(path);
        let rows = answer.get("data").unwrap_or(&answer["agents"]);
        assert_eq!(rows.as_array().unwrap().len(), expected, "{path}: {answer}");
    }
    let keep = json!({"value": 7.0});
    let setting = "/api/v2/environment_settings/available_versions_to_keep";
    assert_eq!(running.call("POST", setting, Some(&keep)).0, 200);
    let kept = running.get_ok(setting)["data"]["settings"]["available_versions_to_keep"].clone();
    assert_eq!(kept, json!(7));
    // A number is no text, and a half is no whole number.
    let parameter = json!({"source": "user", "value": 5});
    for (method, path, body) in [
        ("PUT", "/api/v2/project", json!({"name": 5})),
        ("PUT", "/api/v2/parameters/p", parameter),
        ("POST", setting, json!({"value": 7.5})),
        ("GET", "/api/v2/resource?limit=1.5", Value::Null),
    ] {
        let (status, answer) = running.call(method, path, Some(&body));
        assert_eq!(status, 400, "{method} {path}: {answer}");
    }
    // Parts are patterns: `%` is any text, `_` one character, `\` takes that from what is behind it.
    for (pattern, expected) in [
        ("%25", 3),
        ("_", 3),
        ("%25/_%25", 3),
        ("%5C%25", 0),
        ("%25/A", 1),
    ] {
        for list in ["resource", "desiredstate/1"] {
            let path = format!("/api/v2/{list}?filter.resource_id_value={pattern}");
            assert_eq!(
                running.get_ok(&path)["metadata"]["total"],
                expected,
                "{path}"
            );
        }
    }
    let named = |pattern: &str| {
        running.get_ok(&format!("/api/v2/agents?filter.name={pattern}"))["metadata"]["total"]
            .clone()
    };
    assert_eq!((named("l%25t"), named("l_t")), (json!(1), json!(0)));
}

/// Given: pictures of an environment. Expected: one of a kind that browsers show, and not too large, is kept; others are refused.
#[test]
fn the_icon_of_an_environment_is_checked_and_kept() {
    let (_repo, _host, running) = start();
    let environment = format!("/api/v2/environment/{}", running.environment());
    let modify = |icon: &str| {
        let body = json!({"name": "up", "icon": icon});
        running.call("POST", &environment, Some(&body)).0
    };
    let icon = "image/svg+xml;base64,aGVsbG8=";
    assert_eq!(modify(icon), 200);
    for bad in [
        "x",
        "image/gif;base64,aGVsbG8=",
        "image/png;base64,#",
        "image/png;base64,",
    ] {
        assert_eq!(modify(bad), 400, "{bad}");
    }
    assert_eq!(
        modify(&format!("image/png;base64,{}", "A".repeat(65_536))),
        400
    );
    let shown = running.get_ok(&format!("{environment}?details=true"))["data"]["icon"].clone();
    assert_eq!(shown, json!(icon));
    assert_eq!(modify(""), 200);
}

/// All rows of a list, one page of one row after the other.
fn follow(running: &Running, path: &str) -> Vec<Value> {
    let (mut rows, mut path) = (vec![], format!("{path}?limit=1"));
    loop {
        let page = running.get_ok(&path);
        rows.extend(page["data"].as_array().unwrap().clone());
        assert!(rows.len() as u64 <= page["metadata"]["total"].as_u64().unwrap());
        match page["links"]["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => return rows,
        }
    }
}

#[test]
fn lists_are_read_page_by_page() {
    let model = files(&[("a", "one")]).replace("fs::File(", "a = fs::File(");
    let model =
        format!("{model}fs::File(host=host, path=\"{{{{root}}}}/b\", content=\"\", requires=a)\n");
    let (repo, host) = (Repo::new(&model), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    repo.commit("nothing");
    running.settled(2);
    let id = |name: &str| format!("fs::File[localhost,path={}]", host.file(name).display());
    let resources = follow(&running, "/api/v2/resource");
    assert_eq!(resources.len(), 3);
    let b = resources.iter().find(|row| row["resource_id"] == id("b"));
    let requires = b.unwrap()["requires"].as_array().unwrap();
    assert!(requires.contains(&id("a").into()), "{requires:?}");
    let reports = follow(&running, "/api/v2/compilereport");
    let versions: Vec<&Value> = reports.iter().map(|report| &report["version"]).collect();
    assert_eq!(versions, [2, 1]);
    assert_eq!(follow(&running, "/api/v2/desiredstate").len(), 2);
    let failed = running.get_ok("/api/v2/compilereport?filter.success=false");
    assert_eq!(failed["metadata"]["total"], 0);
    let path = format!(
        "/api/v2/resource/{}/logs",
        crate::harness::segment(&id("a"))
    );
    let n_lines = running.get_ok(&path)["metadata"]["total"].as_u64().unwrap();
    assert!(n_lines > 0);
    assert_eq!(follow(&running, &path).len() as u64, n_lines);
    for (query, expected) in [
        (
            format!(
                "attribute=path&attribute_value={}",
                host.file("a").display()
            ),
            3,
        ),
        ("attribute=content&attribute_value=on".to_owned(), 3),
        ("attribute=content&attribute_value=n".to_owned(), 0),
        ("attribute=purged&attribute_value=false".to_owned(), 5),
        // What was deployed, and the two versions that were stored.
        ("resource_type=fs::File&agent=localhost".to_owned(), 4),
        ("resource_type=fs::File&limit=1".to_owned(), 1),
        ("agent=local%25".to_owned(), 0),
        ("resource_type=fs::Fil_".to_owned(), 0),
    ] {
        let actions = running.get_ok(&format!("/api/v2/resource_actions?{query}"));
        assert_eq!(
            actions["data"].as_array().unwrap().len(),
            expected,
            "{query}: {actions}"
        );
    }
    assert_pages_of_the_history(&running);
}

/// The history is read to its end by `next`, one action at a time, and back to its beginning by `prev`: each is there once, and
/// filters are kept. Expected for what makes no sense: 400.
fn assert_pages_of_the_history(running: &Running) {
    let ids = |page: &Value| -> Vec<String> {
        let actions = page["data"].as_array().unwrap().iter();
        actions
            .map(|action| action["action_id"].to_string())
            .collect()
    };
    for filter in ["", "&resource_type=fs::File"] {
        let all = running.get_ok(&format!("/api/v2/resource_actions?limit=0{filter}"));
        let all = ids(&all);
        assert!(all.len() > 1, "{all:?}");
        let (mut next, mut prev) = (
            format!("/api/v2/resource_actions?limit=1{filter}"),
            String::new(),
        );
        let mut forwards = Vec::new();
        loop {
            let page = running.get_ok(&next);
            let Some(link) = page["links"]["next"].as_str() else {
                assert_eq!(page["data"], json!([]));
                break;
            };
            forwards.extend(ids(&page));
            prev = page["links"]["prev"].as_str().unwrap().to_owned();
            next = link.to_owned();
        }
        assert_eq!(forwards, all);
        let mut backwards = vec![all[all.len() - 1].clone()];
        loop {
            let page = running.get_ok(&prev);
            let Some(link) = page["links"]["prev"].as_str() else {
                break;
            };
            backwards.extend(ids(&page));
            prev = link.to_owned();
        }
        backwards.reverse();
        assert_eq!(backwards, all);
    }
    let now = "2030-01-01T00:00:00%2B00:00";
    let one = "6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11";
    for bad in [
        format!("first_timestamp={now}&last_timestamp={now}"),
        format!("action_id={one}"),
        "limit=1001".to_owned(),
        "last_timestamp=soon".to_owned(),
    ] {
        let (status, answer) = running.get(&format!("/api/v2/resource_actions?{bad}"));
        assert_eq!(status, 400, "{bad}: {answer}");
    }
}

//: deploy 32
#[test]
fn versions_can_be_compared() {
    let (repo, _host, mut running) = start();
    repo.write("main.cf", &files(&[("a", "two"), ("c", "new")]));
    repo.commit("next");
    running.settled(2);
    let diff = running.get_ok("/api/v2/desiredstate/diff/1/2")["data"].clone();
    let statuses: Vec<&str> = diff
        .as_array()
        .unwrap()
        .iter()
        .map(|diff| diff["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["modified", "deleted", "added"]);
    let content = &diff[0]["attributes"]["content"];
    assert_eq!(
        (&content["from_value"], &content["to_value_compare"]),
        (&json!("one\n"), &json!("two\n"))
    );
    // What is there or not has all its attributes listed, those that are null, too.
    let null = json!({"from_value": null, "to_value": null, "from_value_compare": "", "to_value_compare": ""});
    for whole in [&diff[1], &diff[2]] {
        assert_eq!(whole["attributes"]["owner"], null, "{whole}");
    }
    assert!(diff[0]["attributes"]["owner"].is_null(), "{diff}");
    assert_eq!(running.get("/api/v2/desiredstate/diff/2/1").0, 400);
    assert_eq!(running.get("/api/v2/desiredstate/diff/1/9").0, 404);
}

//: deploy 111, 115
#[test]
fn a_dry_run_shows_what_would_change_and_changes_nothing() {
    let (repo, host, running) = start();
    let (status, _) = running.call(
        "POST",
        "/api/v2/environment_settings/auto_deploy",
        Some(&json!({"value": false})),
    );
    assert_eq!(status, 200);
    repo.write(
        "main.cf",
        &files(&[("a", "two"), ("b", "one"), ("c", "new")]),
    );
    repo.commit("next");
    wait_until("the version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    assert_eq!(
        running.get_ok("/api/v2/desiredstate")["data"][0]["status"],
        "candidate"
    );
    let (status, body) = running.call("POST", "/api/v2/dryrun/2", None);
    assert_eq!(status, 200, "{body}");
    let id = body["data"].as_str().unwrap().to_owned();
    wait_until("it is done", || {
        running.get_ok("/api/v2/dryrun/2")["data"][0]["todo"] == 0
    });
    let report = running.get_ok(&format!("/api/v2/dryrun/2/{id}"))["data"].clone();
    let mut found: Vec<String> = report["diff"]
        .as_array()
        .unwrap()
        .iter()
        .map(|diff| {
            format!(
                "{} {}",
                diff["resource_id"]
                    .as_str()
                    .unwrap()
                    .rsplit('/')
                    .next()
                    .unwrap(),
                diff["status"].as_str().unwrap()
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found[..3],
        ["a] modified", "b] unmodified", "c] added"],
        "{report}"
    );
    assert_eq!(
        (host.read("a").as_str(), host.file("c").exists()),
        ("one\n", false)
    );
    // It is in the history of each resource, which changed in nothing.
    let actions = running.get_ok("/api/v2/resource_actions")["data"].clone();
    let mut dry: Vec<&Value> = actions.as_array().unwrap().iter().collect();
    dry.retain(|action| action["action"] == "dryrun");
    assert_eq!(dry.len(), 4, "{actions}");
    for action in dry {
        let what = ["status", "change", "changes", "version"].map(|name| action[name].clone());
        let expected = [json!("dry"), Value::Null, Value::Null, json!(2)];
        assert_eq!(what, expected, "{action}");
        let kwargs = &action["messages"][0]["kwargs"];
        assert_eq!(kwargs["dry_run_id"], json!(id), "{action}");
        assert_eq!(kwargs["resource_id"], action["resource_version_ids"][0]);
    }
    let some = json!({"filter": {"resourceIdValue": {"contains": ["%/c"]}, "modelVersion": 2}, "context": {"mine": 1}});
    let (status, body) = running.call("POST", "/api/v2/dryrun_filtered", Some(&some));
    assert_eq!((status, &body["data"]["model"]), (200, &json!(2)), "{body}");
    let newest = running.get_ok("/api/v2/dryrun/2")["data"][0].clone();
    assert_eq!(newest["id"], body["data"]["id"]);
    assert_eq!(
        (&newest["resource_filter"], &newest["context"]),
        (&some["filter"], &some["context"])
    );
    assert_eq!(running.call("POST", "/api/v2/dryrun/9", None).0, 404);
    // Promoted, it is deployed.
    assert_eq!(
        running
            .call("POST", "/api/v2/desiredstate/2/promote", None)
            .0,
        200
    );
    wait_until("it is deployed", || {
        host.read("c") == "new\n" && host.read("a") == "two\n"
    });
    assert_eq!(
        running
            .call("POST", "/api/v2/desiredstate/2/promote", None)
            .0,
        409
    );
    assert_eq!(
        running
            .call("POST", "/api/v2/desiredstate/7/promote", None)
            .0,
        404
    );
}

//: deploy 12, 13
#[test]
fn a_halted_environment_does_nothing_until_it_is_resumed() {
    let (repo, host, running) = start();
    assert_eq!(
        running
            .call("POST", "/api/v2/actions/environment/halt", None)
            .0,
        200
    );
    assert_eq!(
        running
            .call(
                "POST",
                "/api/v2/actions/environment/halt",
                Some(&Value::Null)
            )
            .0,
        200
    );
    repo.write("main.cf", &files(&[("a", "two")]));
    repo.commit("next");
    let environment = running.environment();
    assert_eq!(
        running
            .call("POST", &format!("/api/v1/notify/{environment}"), None)
            .0,
        200
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    let report = running.get_ok("/api/v2/compilereport?limit=1")["data"][0].clone();
    assert_eq!(report["started"], Value::Null, "{report}");
    for path in [
        "/api/v1/deploy",
        "/api/v2/deploy_filtered",
        "/api/v2/dryrun/1",
        "/api/v1/dryrun/1",
        "/api/v2/dryrun_filtered",
    ] {
        let (status, answer) = running.call("POST", path, None);
        assert_eq!(status, 409, "{path}: {answer}");
        let shown = format!("({environment}) is halted; resume it first");
        assert!(
            answer["message"].as_str().unwrap().contains(&shown),
            "{path}: {answer}"
        );
    }
    assert_eq!(
        running
            .call("POST", "/api/v2/agent/localhost/pause", None)
            .0,
        403
    );
    assert_eq!(
        running
            .call("POST", "/api/v2/actions/environment/resume", None)
            .0,
        200
    );
    wait_until("it goes on", || host.read("a") == "two\n");
}

//: deploy 83
#[test]
fn a_paused_agent_does_nothing_until_it_is_unpaused() {
    let (repo, host, running) = start();
    assert_eq!(
        running
            .call("POST", "/api/v2/agent/localhost/pause", None)
            .0,
        200
    );
    assert_eq!(
        running.call("POST", "/api/v2/agent/nobody/pause", None).0,
        404
    );
    repo.write("main.cf", &files(&[("a", "two")]));
    repo.commit("next");
    wait_until("the version is in force", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["status"] == "active"
            && running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(host.read("a"), "one\n");
    assert_eq!(
        running
            .call("POST", "/api/v2/agent/localhost/unpause", None)
            .0,
        200
    );
    wait_until("it is deployed", || host.read("a") == "two\n");
}

/// Input: paths with encoded dots, unknown names, bodies and arguments of wrong types (docs/reference/security.md § 3.13). Answer: 400, 404 or 405 with a message.
#[test]
fn bad_requests_are_answered_clearly_and_harm_nothing() {
    let (_repo, _host, running) = start();
    let environment = running.environment();
    for (method, path, body, expected) in [
        ("GET", "/api/v2/nothing", "", 404),
        ("DELETE", "/api/v2/health", "", 405),
        ("GET", "/api/v2/desiredstate/x", "", 400),
        ("GET", "/api/v2/desiredstate?limit=1001", "", 400),
        ("GET", "/api/v2/desiredstate?filter.nothing=1", "", 400),
        ("GET", "/api/v2/desiredstate?start=1&end=2", "", 400),
        ("GET", "/api/v2/resource/%2e%2e%2f", "", 404),
        ("GET", "/api/v2/resource/%ff", "", 404),
        ("GET", "/api/v2/compilereport/x", "", 400),
        ("POST", "/api/v1/deploy", "{", 400),
        ("POST", "/api/v1/deploy", "[]", 400),
        ("POST", "/api/v1/deploy", "{\"agents\": [\"nobody\"]}", 404),
        (
            "POST",
            "/api/v1/deploy",
            "{\"agent_trigger_method\": \"x\"}",
            400,
        ),
        (
            "POST",
            "/api/v2/environment_settings/nothing",
            "{\"value\": 1}",
            404,
        ),
        (
            "POST",
            "/api/v2/environment_settings/auto_deploy",
            "{\"value\": \"maybe\"}",
            400,
        ),
        (
            "POST",
            "/api/v2/environment_settings/auto_deploy",
            "{}",
            400,
        ),
        ("PUT", "/api/v2/project", "{}", 400),
        ("PUT", "/api/v2/project", "{\"name\": \"up\"}", 400),
        (
            "PUT",
            "/api/v2/environment",
            "{\"name\": \"x\", \"project_id\": \"0190f0f0-0000-7000-8000-000000000000\"}",
            404,
        ),
    ] {
        let headers = [("X-Inmanta-tid".to_owned(), environment.clone())];
        let (status, answer) = send(
            method,
            &format!("{}{path}", running.api),
            &headers,
            body.as_bytes(),
        );
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
        assert!(answer["message"].is_string(), "{answer}");
    }
    assert_eq!(
        send(
            "GET",
            &format!("{}/api/v2/desiredstate", running.api),
            &[],
            b""
        )
        .0,
        400,
        "no environment"
    );
    let other = [(
        "X-Inmanta-tid".to_owned(),
        "0190f0f0-0000-7000-8000-000000000000".to_owned(),
    )];
    assert_eq!(
        send(
            "GET",
            &format!("{}/api/v2/desiredstate", running.api),
            &other,
            b""
        )
        .0,
        404
    );
    let foreign = [("Origin".to_owned(), "https://evil.example".to_owned())];
    assert_eq!(
        send(
            "POST",
            &format!("{}/api/v1/deploy", running.api),
            &foreign,
            b""
        )
        .0,
        403
    );
}

#[test]
fn an_environment_made_over_the_api_may_not_read_local_paths() {
    let (repo, _host, running) = start();
    let project = running.get_ok("/api/v2/project")["data"][0]["id"].clone();
    let make = |name: &str, url: &str| {
        let body =
            json!({"name": name, "project_id": project, "repository": url, "branch": "main"});
        running.call("PUT", "/api/v2/environment", Some(&body))
    };
    for url in [
        repo.path().to_str().unwrap(),
        "folder:/etc",
        " Folder:/etc",
        "file:///etc",
        "ext::sh -c id",
        "https://u:p@example.org/x",
        "-x",
    ] {
        let (status, body) = make("x", url);
        assert_eq!(status, 400, "{url}: {body}");
        assert!(!body.to_string().contains("u:p@"));
    }
    // Code of whoever reaches the port would run as the server's user.
    let (status, body) = make("x", "https://example.org/x");
    assert_eq!(status, 403, "{body}");
    assert!(body["message"].as_str().unwrap().contains("api_token"));
    let path = format!("/api/v2/environment/{}", running.environment());
    for (url, branch) in [("https://example.org/x", "main"), ("", "")] {
        let body = json!({"name": "up", "repository": url, "branch": branch});
        assert_eq!(running.call("POST", &path, Some(&body)).0, 403, "{url}");
    }
    let body = json!({"name": "renamed"});
    assert_eq!(running.call("POST", &path, Some(&body)).0, 200);
    let body = json!({"name": "x", "project_id": project, "repository": "https://example.org/x"});
    assert_eq!(
        running.call("PUT", "/api/v2/environment", Some(&body)).0,
        400,
        "a repository without a branch"
    );
    let (status, body) = running.call(
        "PUT",
        "/api/v2/environment",
        Some(&json!({"name": "empty", "project_id": project})),
    );
    assert_eq!(status, 200, "{body}");
    let id = body["data"]["id"].as_str().unwrap();
    assert_eq!(
        running
            .call("DELETE", &format!("/api/v2/environment/{id}"), None)
            .0,
        200
    );
    assert_eq!(
        running
            .call("GET", &format!("/api/v2/environment/{id}"), None)
            .0,
        404
    );
}
