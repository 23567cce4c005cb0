//! Runs that wait for the packages of their handlers while something else happens to what they are for.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::harness::wait_until;
use crate::packages::Wheels;
use crate::push::{Target, push_shelves, shelves};

/// An index of packages that has none, and does not say so while it is held.
struct Index {
    url: String,
    is_held: Arc<AtomicBool>,
}

impl Index {
    fn held() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/simple", listener.local_addr().unwrap());
        let is_held = Arc::new(AtomicBool::new(true));
        let held = Arc::clone(&is_held);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (mut client, held) = (client, Arc::clone(&held));
                thread::spawn(move || {
                    let mut request = [0; 4096];
                    while matches!(client.read(&mut request), Ok(1..)) {
                        while held.load(SeqCst) {
                            thread::sleep(Duration::from_millis(20));
                        }
                        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
                        if client.write_all(answer).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, is_held }
    }

    fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, SeqCst);
    }
}

/// Given: runs that wait for packages, while the environment is halted, and while a version comes that wants something else.
/// Expected: nothing begins in a halted environment, but when it goes on; and what nobody wants any more is never done. Either is
/// explained.
#[test]
fn a_run_that_has_waited_for_packages_begins_only_if_it_still_may() {
    let wheels = Wheels::new();
    let files = [("paint.py".to_owned(), "COVER = 'once'\n".to_owned())];
    wheels.wheel("paint", "1.0", &[], &files);
    let index = Index::held();
    let variables = [
        ("PIP_FIND_LINKS", wheels.path().to_str().unwrap()),
        ("PIP_INDEX_URL", &index.url),
        ("STEWARD_INSTALLER", "pip"),
    ];
    let target = Target::with("", &variables);
    let project = shelves(&target.config());
    let push = |requirement: &str, color: &str| push_shelves(&project, requirement, color);
    let shelf = "/api/v2/resource/shelf%3A%3AShelf%5Ba%2Cname%3Da%5D";
    let explained = || target.get(&format!("{shelf}/explain"))["data"]["chain"].to_string();
    let logs = || target.get(&format!("{shelf}/logs?limit=100")).to_string();
    let is_installing = || explained().contains("until the packages are installed");
    let good = json!({"a": "deployed", "b": "deployed", "n": "deployed"});
    let act = |what: &str| {
        let path = format!("/api/v2/actions/environment/{what}");
        assert_eq!(target.call("POST", &path, &json!({})).0, 200);
    };

    push("paint\n", "red");
    wait_until("it waits for packages", is_installing);
    act("halt");
    index.hold(false);
    wait_until("it waits for the environment", || {
        assert!(!logs().contains("painted"), "{}", logs());
        explained().contains("meanwhile the environment was halted")
    });
    act("resume");
    target.wait_for_statuses(good.clone());
    assert!(logs().contains("painted red"), "{}", logs());

    index.hold(true);
    push("paint < 2\n", "green");
    wait_until("it waits for other packages", is_installing);
    push("paint < 2\n", "blue");
    wait_until("the next version is in force", || {
        let path = "/api/v2/desiredstate?limit=1";
        let newest = target.get(path)["data"][0].clone();
        newest["version"] == 3 && newest["status"] == "active"
    });
    index.hold(false);
    wait_until("the shelf is blue", || logs().contains("painted blue"));
    target.wait_for_statuses(good);
    let logs = logs();
    assert!(!logs.contains("painted green"), "{logs}");
    let why = "while it waited, version 3 came";
    assert!(logs.contains(why), "{logs}");
}
