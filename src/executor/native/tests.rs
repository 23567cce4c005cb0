use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::*;
use crate::domain::{ActionId, AgentName, VersionNumber};
use crate::executor::handler::{Context, Error};
use crate::executor::protocol::TaskKind;

/// Hangs while somebody holds this.
static HELD: Mutex<()> = Mutex::new(());

struct Hangs;

impl Handler for Hangs {
    fn read(
        &self,
        _: &mut Context,
        desired: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, Error> {
        if desired.contains_key("hang") {
            drop(HELD.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(Some(Map::new()))
    }
    fn create(&self, _: &mut Context, _: &Map<String, Value>) -> Result<(), Error> {
        Ok(())
    }
    fn update(
        &self,
        _: &mut Context,
        _: &Map<String, Value>,
        _: &Map<String, Value>,
    ) -> Result<(), Error> {
        Ok(())
    }
    fn delete(&self, _: &mut Context, _: &Map<String, Value>) -> Result<(), Error> {
        Ok(())
    }
}

fn task(name: &str) -> Task {
    Task {
        action: ActionId::generate(),
        kind: TaskKind::Deploy {
            requires: Vec::new(),
            dependency_changed: false,
        },
        code: String::new(),
        agent: AgentName::new("host"),
        resource_id: ResourceId::new(format!("fs::File[host,path={name}]")),
        resource_type: "fs::File".into(),
        version: VersionNumber::new(1),
        attributes: "{}".into(),
        reason: "a test said so".into(),
        limit_ms: 200,
    }
}

/// Input: a native handler that hangs in the operating system (docs/reference/security.md § 4.8). Answer: its resource is unavailable at `deploy_timeout`, the agent goes on, and the resource is run again when the old run has ended.
#[test]
fn a_native_handler_that_hangs_is_left_behind_and_its_resource_waits_for_it() {
    let mut native = Native::default();
    let mut run = |name: &str, hang: bool| {
        let attributes = hang.then(|| ("hang".to_owned(), Value::Bool(true)));
        let outcome = native.run(&Hangs, &task(name), attributes.into_iter().collect());
        let last = outcome.logs.last().map(|line| line.msg.clone());
        (outcome.status.as_str(), last.unwrap_or_default())
    };
    let held = HELD.lock().unwrap();
    let (status, log) = run("a", true);
    assert_eq!(status, "unavailable", "{log}");
    assert!(
        log.contains("within 0.2 s (setting `deploy_timeout`)"),
        "{log}"
    );
    assert_eq!(run("b", false).0, "deployed");
    let (status, log) = run("a", false);
    assert!(
        status == "unavailable" && log.contains("still hangs"),
        "{log}"
    );
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(20);
    while run("a", false).0 != "deployed" {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
}
