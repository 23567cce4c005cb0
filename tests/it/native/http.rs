//! `steward::HttpObject` against a small service that keeps objects in memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::native::tasks::{check, dry_run};

const TYPE: &str = "steward::HttpObject";

/// Keeps what is PUT and POSTed at a path, merges what is PATCHed, and never tells a `password`.
#[derive(Clone)]
struct Service {
    address: String,
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    /// `METHOD path body` of all requests that change something.
    changes: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            objects: Arc::default(),
            changes: Arc::default(),
        };
        let shared = service.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.answer(stream);
            }
        });
        service
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace();
        let (method, path) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let (mut length, mut token) = (0, String::new());
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let Some((name, value)) = header.trim().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "x-token" => value.clone_into(&mut token),
                _ => (),
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let (status, answer) = if token == "sesame" {
            self.decide(method, path, &body)
        } else {
            ("403 Forbidden", format!("the token {token} is wrong"))
        };
        let mut stream = stream;
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
            answer.len()
        );
    }

    fn decide(&self, method: &str, path: &str, body: &str) -> (&'static str, String) {
        let mut objects = self.objects.lock().unwrap();
        if method != "GET" {
            let line = format!("{method} {path} {body}");
            self.changes.lock().unwrap().push(line.trim().to_owned());
        }
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        match method {
            "GET" => match objects.get(path) {
                Some(object) => {
                    let mut shown = object.clone();
                    shown.as_object_mut().unwrap().remove("password");
                    ("200 OK", json!({"data": shown}).to_string())
                }
                None => ("404 Not Found", String::new()),
            },
            "DELETE" => {
                objects.remove(path);
                ("204 No Content", String::new())
            }
            "POST" => {
                let name = body["name"].as_str().unwrap().to_owned();
                objects.insert(format!("{path}/{name}"), body);
                ("201 Created", String::new())
            }
            "PATCH" => {
                let object = objects.get_mut(path).unwrap().as_object_mut().unwrap();
                object.extend(body.as_object().unwrap().clone());
                ("200 OK", String::new())
            }
            _ if body["name"] == "busy" => ("503 Service Unavailable", "later".to_owned()),
            _ => {
                objects.insert(path.to_owned(), body);
                ("200 OK", String::new())
            }
        }
    }

    fn take_changes(&self) -> Vec<String> {
        std::mem::take(&mut *self.changes.lock().unwrap())
    }

    fn object(&self, body: Value, more: Value) -> Value {
        let mut object = json!({
            "url": format!("{}/things/one", self.address), "body": body, "read_at": "/data",
            "headers": {"X-Token": "sesame"}, "create_method": "PUT", "update_method": "PUT", "create_url": "",
            "secret_members": ["password"],
        });
        let members = object.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        object
    }
}

#[test]
fn an_object_is_made_compared_member_by_member_changed_and_deleted() {
    let service = Service::start();
    let wanted =
        |size: Value| service.object(json!({"name": "one", "at": {"size": size}}), json!({}));
    check(TYPE, wanted(json!(1)), "deployed created");
    assert_eq!(
        service.take_changes(),
        [r#"PUT /things/one {"name":"one","at":{"size":1}}"#]
    );
    check(TYPE, wanted(json!(1.0)), "deployed nochange");
    // What the model does not name is not looked at.
    let mut objects = service.objects.lock().unwrap();
    objects.get_mut("/things/one").unwrap()["at"]["color"] = json!("red");
    drop(objects);
    check(TYPE, wanted(json!(1)), "deployed nochange");
    assert_eq!(service.take_changes(), [""; 0]);
    let dry = dry_run(TYPE, &wanted(json!(2)));
    let changes = json!({"body.at.size": {"current": 1, "desired": 2}});
    assert_eq!(Value::Object(dry.changes), changes);
    assert_eq!(service.take_changes(), [""; 0]);
    check(TYPE, wanted(json!(2)), "deployed updated");
    let mut purged = wanted(json!(2));
    purged["purged"] = json!(true);
    check(TYPE, purged.clone(), "deployed purged");
    check(TYPE, purged, "deployed nochange");
    assert_eq!(service.take_changes().last().unwrap(), "DELETE /things/one");
}

#[test]
fn an_object_is_posted_to_its_collection_and_patched_with_what_differs() {
    let service = Service::start();
    let collection = format!("{}/things", service.address);
    let more = json!({"create_method": "POST", "create_url": collection, "update_method": "PATCH"});
    let wanted = |size: u32| service.object(json!({"name": "one", "size": size}), more.clone());
    check(TYPE, wanted(1), "deployed created");
    check(TYPE, wanted(2), "deployed updated");
    check(TYPE, wanted(2), "deployed nochange");
    assert_eq!(
        service.take_changes(),
        [
            r#"POST /things {"name":"one","size":1}"#,
            r#"PATCH /things/one {"size":2}"#
        ]
    );
}

#[test]
fn a_secret_that_the_service_does_not_tell_is_not_compared_and_never_shown() {
    let service = Service::start();
    let body = json!({"name": "one", "password": "hunter2", "size": 1});
    check(
        TYPE,
        service.object(body.clone(), json!({})),
        "deployed created",
    );
    check(
        TYPE,
        service.object(body.clone(), json!({})),
        "deployed nochange",
    );
    let wrong = service.object(body, json!({"headers": {"X-Token": "wrong-token"}}));
    let log = check(TYPE, wrong, "failed nochange");
    assert!(
        log.contains("answers 403 Forbidden: the token (hidden) is wrong"),
        "{log}"
    );
    assert!(
        !log.contains("hunter2") && !log.contains("wrong-token"),
        "{log}"
    );
}

/// Given: secret members of objects that are in lists, or in an object that the service does not have. Expected: a difference
/// there has no secret of either side, and one that the service does not tell is no difference.
#[test]
fn secret_members_are_hidden_wherever_they_are() {
    let service = Service::start();
    let wanted = |keys: Value| {
        let body = json!({"name": "one", "keys": keys});
        service.object(body, json!({}))
    };
    let old = json!([{"user": "a", "password": "hunter2"}]);
    check(TYPE, wanted(old), "deployed created");
    let new = wanted(json!([{"user": "a", "password": "swordfish"}]));
    let changes = json!({"body.keys": {
        "current": [{"user": "a", "password": "(hidden)"}],
        "desired": [{"user": "a", "password": "(hidden)"}],
    }});
    assert_eq!(Value::Object(dry_run(TYPE, &new).changes), changes);
    let log = check(TYPE, new.clone(), "deployed updated");
    assert!(
        !log.contains("hunter2") && !log.contains("swordfish"),
        "{log}"
    );
    let mut objects = service.objects.lock().unwrap();
    objects.get_mut("/things/one").unwrap()["keys"] = json!([{"user": "a"}]);
    drop(objects);
    check(TYPE, new, "deployed nochange");
    let nested = json!({"name": "one", "login": {"password": "swordfish"}});
    let dry = dry_run(TYPE, &service.object(nested, json!({})));
    let changes = json!({"body.login": {"current": null, "desired": {"password": "(hidden)"}}});
    assert_eq!(Value::Object(dry.changes), changes);
}

#[test]
fn a_busy_service_is_tried_again_and_one_that_is_away_is_a_failure() {
    let service = Service::start();
    let busy = service.object(json!({"name": "busy"}), json!({}));
    let log = check(TYPE, busy, "skipped nochange");
    assert!(log.contains("503 Service Unavailable: later"), "{log}");
    let away = json!({"url": "http://127.0.0.1:1/x", "body": {}, "timeout": 5});
    let log = check(TYPE, away, "failed nochange");
    assert!(log.contains("GET http://127.0.0.1:1/x failed"), "{log}");
    let elsewhere = service.object(json!({"name": "one"}), json!({}));
    check(TYPE, elsewhere.clone(), "deployed created");
    let mut elsewhere = elsewhere;
    elsewhere["read_at"] = json!("/nowhere");
    let log = check(TYPE, elsewhere, "failed nochange");
    assert!(log.contains("has nothing at `/nowhere`"), "{log}");
}

/// Given: a service whose objects are no JSON. Expected: one that is not to be is deleted all the same.
#[test]
fn an_object_that_is_deleted_need_not_be_json() {
    let service = Service::start();
    let object = json!({"name": "one"});
    check(
        TYPE,
        service.object(object.clone(), json!({})),
        "deployed created",
    );
    // The answer has nothing there.
    let purged =
        |more: &str| service.object(object.clone(), json!({"read_at": more, "purged": true}));
    check(TYPE, purged("/nothing/here"), "deployed purged");
    check(TYPE, purged("/nothing/here"), "deployed nochange");
}
