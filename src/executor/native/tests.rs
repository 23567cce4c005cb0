use std::sync::mpsc;
use std::thread;

use super::*;
use crate::domain::{AgentName, VersionNumber};
use crate::executor::handler::{Context, Error};
use crate::executor::protocol::TaskKind;

/// Hangs while somebody holds this.
pub(in crate::executor) static HELD: Mutex<()> = Mutex::new(());

pub(in crate::executor) struct Hangs;

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

/// A task of the agent `host` for [`Hangs`].
pub(in crate::executor) fn task(name: &str) -> Task {
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

/// Where a test gets what came of its runs: name and status, and the last line of the log.
fn replies() -> (Reply, mpsc::Receiver<(String, &'static str, String)>) {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let reply: Reply = Arc::new(move |done: crate::executor::protocol::TaskDone, _| {
        let last = done.outcome.logs.last().map(|line| line.msg.clone());
        let sent = (
            done.action.to_string(),
            done.outcome.status.as_str(),
            last.unwrap_or_default(),
        );
        sender.lock().unwrap().send(sent).unwrap();
    });
    (reply, receiver)
}

fn job(name: &str, hangs: bool) -> Job {
    let mut task = task(name);
    if hangs {
        task.attributes = r#"{"hang": true}"#.into();
    }
    (&Hangs, task)
}

/// Runs these on a thread of their own, and looks whether one is over its limit, as the executor does. Gives what was not begun.
fn run(native: &Native, jobs: VecDeque<Job>, reply: &Reply) -> VecDeque<Job> {
    let batch = native.batch(jobs, reply, Urgency::Now);
    let works = Arc::clone(&batch);
    let thread = thread::spawn(move || works.work());
    loop {
        if let Some(left) = native.take_if_over(&batch) {
            return left;
        }
        if thread.is_finished() {
            assert!(thread.join().unwrap());
            return VecDeque::new();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Input: a native handler that hangs in the operating system (docs/reference/security.md § 4.8). Answer: its resource is unavailable at `deploy_timeout`, the agent goes on, and the resource is run again when the old run has ended.
#[test]
fn a_native_handler_that_hangs_is_left_behind_and_its_resource_waits_for_it() {
    let native = Native::new(Arc::new(|_, _| (404, Value::Null)));
    let (reply, replies) = replies();
    let held = HELD.lock().unwrap();
    // What stands behind the one that hangs is run by another thread, in its order.
    let jobs = [
        job("0", false),
        job("a", true),
        job("b", false),
        job("c", false),
    ];
    let actions: Vec<String> = jobs
        .iter()
        .map(|(_, task)| task.action.to_string())
        .collect();
    let left = run(&native, VecDeque::from(jobs), &reply);
    assert_eq!(left.len(), 2);
    assert!(run(&native, left, &reply).is_empty());
    let answers: Vec<_> = replies.try_iter().collect();
    let statuses = ["deployed", "unavailable", "deployed", "deployed"];
    for (answers, expected) in answers.iter().zip(actions.iter().zip(statuses)) {
        assert_eq!(
            (&answers.0, answers.1),
            (expected.0, expected.1),
            "{}",
            answers.2
        );
    }
    assert_eq!(answers.len(), 4);
    assert!(
        answers[1]
            .2
            .contains("within 0.2 s (setting `deploy_timeout`)"),
        "{}",
        answers[1].2
    );
    let run = |name: &str| {
        run(&native, VecDeque::from([job(name, false)]), &reply);
        let (_, status, log) = replies.recv().unwrap();
        (status, log)
    };
    let (status, log) = run("a");
    assert!(
        status == "unavailable" && log.contains("still hangs"),
        "{log}"
    );
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(20);
    while run("a").0 != "deployed" {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
}
