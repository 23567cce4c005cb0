//! Events of services go to who asked for them. Source: docs/reference/lsm.md § 5.9.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::service_world::World;

//: lsm 100
#[test]
fn callbacks_get_the_events_that_they_are_for() {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, bodies) = std::sync::mpsc::channel::<Value>();
    // An address that takes every connection and never says anything, and one that nobody listens at: both are named before
    // the one that is well, which does not wait for them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = [&silent, &closed].map(|one| one.local_addr().unwrap());
    drop(closed);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let mut stream = stream;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = sender.send(serde_json::from_slice(&body).unwrap());
        }
    });
    let world = World::new();
    for address in away {
        let away = json!({"callback_url": format!("http://{address}/"), "service_entity": "link"});
        world.call("POST", "/lsm/v1/callbacks", away);
    }
    // Nothing of this is an error.
    let serious = json!({
        "callback_url": format!("http://{address}/errors"), "service_entity": "link", "minimal_log_level": "ERROR",
    });
    world.call("POST", "/lsm/v1/callbacks", serious);
    let callback = json!({
        "callback_url": format!("http://{address}/hook"), "service_entity": "link",
        "event_types": ["ON_DELETE_TRANSITION", "CREATE_TRANSITION"], "minimal_log_level": "INFO",
    });
    let id = world.call("POST", "/lsm/v1/callbacks", callback);
    let list = world.running.get_ok("/lsm/v1/callbacks")["data"].clone();
    let list = list.as_array().unwrap();
    let listed = list.iter().find(|one| one["callback_id"] == id).unwrap();
    assert_eq!((list.len(), &listed["minimal_log_level"]), (4, &json!(20)));
    for wrong in [
        json!({"callback_url": "file:///etc/passwd", "service_entity": "link"}),
        json!({"callback_url": "http://x", "service_entity": "link", "event_types": ["NONE"]}),
        json!({"callback_url": "http://x", "service_entity": "link", "minimal_log_level": "LOUD"}),
    ] {
        assert_eq!(world.refused("POST", "/lsm/v1/callbacks", wrong).0, 400);
    }
    let path = world.create("a", 1);
    let soon = std::time::Duration::from_secs(4);
    let first = bodies.recv_timeout(soon).expect("it waits for no other");
    assert_eq!(first["event_type"], "CREATE_TRANSITION");
    let up = world.reaches(&path, "up");
    world.call(
        "DELETE",
        &format!("{path}?current_version={}", up["version"]),
        json!({}),
    );
    world.reaches(&path, "terminated");
    let mut kinds = BTreeSet::new();
    while !kinds.contains("ON_DELETE_TRANSITION") {
        let body = bodies.recv_timeout(crate::harness::DEADLINE).unwrap();
        assert_eq!(
            (&body["service_entity"], &body["service_instance_id"]),
            (&json!("link"), &up["id"])
        );
        kinds.insert(body["event_type"].as_str().unwrap().to_owned());
    }
    assert!(
        kinds
            .iter()
            .all(|kind| ["ON_DELETE_TRANSITION", "CREATE_TRANSITION"].contains(&kind.as_str()))
    );
    let gone = format!("/lsm/v1/callbacks/{}", id.as_str().unwrap());
    world.call("DELETE", &gone, json!({}));
    assert_eq!(world.refused("DELETE", &gone, json!({})).0, 404);
}

/// Events that wait for a slow address, and an answer that is no success: tried again, until the callback is taken back.
//: lsm 100
#[test]
fn what_is_taken_back_gets_no_more_events() {
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let n_posts = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&n_posts);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            counted.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(300));
            let _ = stream.write_all(
                b"HTTP/1.1 302 Found\r\nlocation: /else\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            );
        }
    });
    let world = World::new();
    let callback = json!({"callback_url": format!("http://{address}/"), "service_entity": "link"});
    let id = world.call("POST", "/lsm/v1/callbacks", callback);
    let paths: Vec<String> = (1..=3).map(|n| world.create(&format!("n{n}"), n)).collect();
    for path in &paths {
        world.reaches(path, "up");
    }
    let n_events: usize = paths.iter().map(|path| world.events(path).len()).sum();
    let gone = format!("/lsm/v1/callbacks/{}", id.as_str().unwrap());
    world.call("DELETE", &gone, json!({}));
    // The event that is on its way has three attempts.
    std::thread::sleep(Duration::from_secs(4));
    let n_sent = n_posts.load(SeqCst);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(n_posts.load(SeqCst), n_sent);
    assert!(n_sent >= 3, "a redirection is no delivery: {n_sent}");
    assert!(n_sent < 3 * n_events, "{n_sent} of {n_events} events");
}
