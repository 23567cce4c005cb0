//! The shape of what the API answers: the bodies of the main endpoints of one server, as they were reviewed.
//!
//! Clients of the reference's API go by these shapes, so a field that moves or goes is seen here. `snapshots/` has a file for
//! each room; what differs from run to run (ids, times, digests, folders, addresses) has a word in its place. After a change
//! that is meant: `INSTA_UPDATE=always cargo test -p steward --test it api_bodies::`, and read the difference.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, files, segment, wait_until};

/// A server with a history: two versions, a compile that failed, a dry run, and what others have written over the API.
struct Story {
    repo: Repo,
    host: Host,
    running: Running,
}

impl Story {
    fn new() -> Self {
        let (repo, host) = (
            Repo::new(&files(&[("a", "one"), ("b", "one")])),
            Host::new(),
        );
        let running = Running::start(host.up(repo.path()));
        let mut story = Self {
            repo,
            host,
            running,
        };
        story.running.settled(1);
        story
            .repo
            .write("main.cf", &files(&[("a", "two"), ("c", "new")]));
        story.repo.commit("a is two, c is new, b is gone");
        story.running.settled(2);
        story.repo.write("main.cf", "x = 1\nx = 2\n");
        story.repo.commit("x is assigned twice");
        let failed =
            |event: &Value| event["event"] == "compiled" && event["success"] == json!(false);
        story.running.wait_for(failed);
        story.write();
        story
    }

    /// What clients write: a parameter, a fact, a discovered resource, a content, a dry run.
    fn write(&self) {
        let parameter = json!({"value": "green", "source": "user", "metadata": {"by": "hand"}});
        self.send("PUT", "/api/v1/parameter/color", &parameter);
        let fact = json!({"value": "7", "source": "user", "resource_id": self.file("a"), "expires": false});
        self.send("PUT", "/api/v2/facts/serial", &fact);
        let path = format!("/api/v2/discovered/{}", segment("t::Box[x,name=one]"));
        let found = json!({"values": {"n": 1}, "discovery_resource_id": "t::Search[x,name=all]"});
        self.send("POST", &path, &found);
        // "hello\n".
        let path = "/api/v1/file/f572d396fae9206628714fb2ce00f72e94f2258f";
        self.send("PUT", path, &json!({"content": "aGVsbG8K"}));
        self.send("POST", "/api/v2/dryrun/2", &Value::Null);
        wait_until("the dry run is done", || {
            self.running.get_ok("/api/v2/dryrun/2")["data"][0]["todo"] == 0
        });
    }

    #[track_caller]
    fn send(&self, method: &str, path: &str, body: &Value) {
        let (status, answer) = self.running.call(method, path, Some(body));
        assert_eq!(status, 200, "{method} {path}: {answer}");
    }

    fn file(&self, name: &str) -> String {
        format!(
            "fs::File[localhost,path={}]",
            self.host.file(name).display()
        )
    }

    /// The id of the first row of a list.
    fn first_id(&self, list: &str) -> String {
        let id = &self.running.get_ok(list)["data"][0]["id"];
        id.as_str().unwrap().to_owned()
    }

    /// The answers to these paths, each below its path.
    fn bodies(&self, paths: &[String]) -> String {
        let mut shown = String::new();
        for path in paths {
            let (status, mut body) = self.running.get(path);
            self.redact(&mut body);
            let body = serde_json::to_string_pretty(&body).unwrap();
            let _ = writeln!(shown, "GET {} -> {status}\n{body}\n", self.redacted(path));
        }
        shown
    }

    fn redact(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redacted(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) => {
                for (name, mut value) in std::mem::take(fields) {
                    self.redact(&mut value);
                    fields.insert(self.redacted(&name), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn redacted(&self, text: &str) -> String {
        let folders = [
            (self.host.root(), "<root>"),
            (self.host.data(), "<data>"),
            (self.repo.path().to_owned(), "<repository>"),
        ];
        let mut text = text.to_owned();
        for (folder, name) in folders {
            let folder = folder.display().to_string();
            // Also as a part of a URL.
            text = text
                .replace(&folder, name)
                .replace(&segment(&folder), &segment(name));
        }
        let address = self.running.api.trim_start_matches("http://");
        text = text.replace(address, "<address>");
        text = text.replace(env!("CARGO_PKG_VERSION"), "<version>");
        // Words: what is between marks that are in no id and no time.
        let is_mark = |c: char| !c.is_ascii_alphanumeric() && !"-:.+%".contains(c);
        let words = text.split_inclusive(is_mark).map(|word| {
            let mark = word.chars().next_back().filter(|c| is_mark(*c));
            let word = word.strip_suffix(is_mark).unwrap_or(word);
            let mark = mark.map(String::from).unwrap_or_default();
            format!("{}{mark}", kind_of(word).unwrap_or(word))
        });
        words.collect()
    }
}

/// What a word that differs from run to run is. In links, words are percent-encoded.
fn kind_of(word: &str) -> Option<&'static str> {
    let word = percent_encoding::percent_decode_str(word).decode_utf8_lossy();
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut date = word.bytes().take(11).enumerate();
    let begins_with_time = date.all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        _ => byte.is_ascii_digit(),
    });
    match word.len() {
        36 if uuid::Uuid::parse_str(&word).is_ok() => Some("<id>"),
        32 | 40 | 64 if is_hex => Some("<digest>"),
        8 if is_hex => Some("<commit>"),
        19.. if begins_with_time => Some("<time>"),
        _ => None,
    }
}

#[test]
fn the_bodies_of_the_main_endpoints_are_as_they_were_reviewed() {
    let story = Story::new();
    let environment = story.running.environment();
    let project = story.first_id("/api/v2/project");
    let (good, bad) = ("filter.success=true", "filter.success=false");
    let good = story.first_id(&format!("/api/v2/compilereport?{good}"));
    let bad = story.first_id(&format!("/api/v2/compilereport?{bad}"));
    let dry_run = story.first_id("/api/v2/dryrun/2");
    let file = segment(&story.file("a"));
    let path = segment(&story.host.file("a").display().to_string());
    let fact = story.first_id(&format!("/api/v2/resource/{file}/facts"));
    let boxed = segment("t::Box[x,name=one]");
    let content = "f572d396fae9206628714fb2ce00f72e94f2258f";
    let rooms: &[(&str, &[String])] = &[
        (
            "server",
            &[
                "/api/v2/health".into(),
                "/api/v1/serverstatus".into(),
                "/api/v2/nowhere".into(),
            ],
        ),
        (
            "environments",
            &[
                "/api/v2/project".into(),
                format!("/api/v2/project/{project}"),
                "/api/v2/environment".into(),
                format!("/api/v2/environment/{environment}"),
                "/api/v2/agents".into(),
                "/api/v2/environment_settings".into(),
                "/api/v2/environment_settings/auto_deploy".into(),
                "/api/v2/environment_settings/nothing".into(),
            ],
        ),
        (
            "compiles",
            &[
                "/api/v2/compilereport?limit=2".into(),
                format!("/api/v2/compilereport/{good}"),
                format!("/api/v2/compilereport/{bad}"),
                format!("/api/v2/compiledata/{bad}"),
                "/api/v1/compilequeue".into(),
            ],
        ),
        (
            "versions",
            &[
                "/api/v2/desiredstate".into(),
                "/api/v2/desiredstate/2".into(),
                format!("/api/v2/desiredstate/2/resource/{file}"),
                "/api/v2/desiredstate/diff/1/2".into(),
                "/api/v2/desiredstate/9".into(),
                "/api/v2/dryrun/2".into(),
                format!("/api/v2/dryrun/2/{dry_run}"),
            ],
        ),
        (
            "resources",
            &[
                "/api/v2/resource?deploy_summary=true&limit=2".into(),
                format!("/api/v2/resource/{file}"),
                format!("/api/v2/resource/{file}/history"),
                format!("/api/v2/resource/{file}/logs?limit=2&filter.action=deploy"),
                format!(
                    "/api/v2/resource_actions?limit=2&resource_type=fs::File&attribute=path&attribute_value={path}"
                ),
            ],
        ),
        (
            "facts",
            &[
                "/api/v2/facts".into(),
                format!("/api/v2/resource/{file}/facts"),
                format!("/api/v2/resource/{file}/facts/{fact}"),
                "/api/v2/parameters".into(),
                "/api/v1/parameter/color".into(),
                "/api/v1/parameter/nothing".into(),
                "/api/v2/discovered".into(),
                format!("/api/v2/discovered/{boxed}"),
            ],
        ),
        ("files", &[format!("/api/v1/file/{content}")]),
    ];
    for (room, paths) in rooms {
        insta::assert_snapshot!(format!("bodies_{room}"), story.bodies(paths));
    }
}

#[test]
fn the_bodies_of_services_are_as_they_were_reviewed() {
    let (repo, host) = (Repo::new(crate::service_world::LINKS), Host::new());
    let running = Running::start(host.up(repo.path()));
    let story = Story {
        repo,
        host,
        running,
    };
    let catalog = "/lsm/v1/service_catalog/link";
    wait_until("the service is in the catalog", || {
        story.running.get(catalog).0 == 200
    });
    let create = json!({"attributes": {"site": "ams1", "mbps": 50}});
    story.send("POST", "/lsm/v1/service_inventory/link", &create);
    let one = "/lsm/v1/service_inventory/link/site%3Dams1";
    wait_until("the instance is up", || {
        story.running.get_ok(one)["data"]["state"] == "up"
    });
    let refused = json!({"attributes": {"site": "ams2", "mbps": 666}});
    story.send("POST", "/lsm/v1/service_inventory/link", &refused);
    let bad = "/lsm/v1/service_inventory/link/site%3Dams2";
    wait_until("the other one is refused", || {
        story.running.get_ok(bad)["data"]["state"] == "rejected"
    });
    let id = story.running.get_ok(one)["data"]["id"].clone();
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "mbps", "value": 50});
    let nobody = uuid::Uuid::from_u128(7);
    let items = json!([
        {"instance_id": id, "service_entity": "link", "action": "update", "edits": [edit]},
        {"instance_id": nobody, "service_entity": "link", "action": "delete"},
    ]);
    let order = json!({"description": "a change", "service_order_items": items});
    story.send("POST", "/lsm/v2/order", &order);
    wait_until("the order has ended", || {
        story.running.get_ok("/lsm/v2/order")["data"][0]["status"]["state"] != "in_progress"
    });
    let order = story.first_id("/lsm/v2/order");
    // The export of the state that it is up in comes after that state.
    let resources = format!("{one}/resources");
    wait_until("what the instance exports last is in force", || {
        let shown = story.running.get_ok(&resources).to_string();
        shown.contains(",v=3") && shown.contains("deployed")
    });
    let paths = [
        "/lsm/v1/service_catalog?instance_summary=true".into(),
        format!("{catalog}/schema"),
        format!("{catalog}/config"),
        "/lsm/v1/service_inventory/link?limit=1".into(),
        one.into(),
        format!("{one}/log?limit=1"),
        format!("{one}/events?limit=2"),
        format!("{one}/resources"),
        format!("{one}/config"),
        format!("{bad}/diagnose"),
        "/lsm/v1/callbacks".into(),
        "/lsm/v2/order".into(),
        format!("/lsm/v2/order/{order}"),
        format!("{catalog}x"),
    ];
    insta::assert_snapshot!("bodies_services", story.bodies(&paths));
}
