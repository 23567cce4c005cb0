use std::collections::BTreeMap;
use std::sync::mpsc;

use super::*;
use crate::domain::EnvironmentId;
use crate::executor::native::tests::{HELD, task};

/// Agents, and what they say came of their tasks: the task and its status.
fn agents() -> (Agents, mpsc::Receiver<(ActionId, &'static str)>) {
    let (sender, answers) = mpsc::channel();
    let sender = Mutex::new(sender);
    let reply: Reply = Arc::new(move |done: TaskDone, _| {
        let sender = sender.lock().unwrap();
        let _ = sender.send((done.action, done.outcome.status.as_str()));
    });
    let ask: Ask = Arc::new(|method, _| panic!("{method}"));
    (Agents::new(Limits::default(), ask, reply), answers)
}

/// A task of an agent, with the code of nobody's module.
fn job(agent: &str, name: &str, hangs: bool) -> (Task, Arc<Code>) {
    let code = Code::new(Vec::new(), None, EnvironmentId::generate());
    let mut task = task(name);
    task.agent = AgentName::new(agent);
    task.resource_type = "test::Hangs".into();
    if hangs {
        task.attributes = r#"{"hang": true}"#.into();
    }
    (task, Arc::new(code))
}

fn next(answers: &mpsc::Receiver<(ActionId, &'static str)>) -> (ActionId, &'static str) {
    answers.recv_timeout(Duration::from_secs(60)).unwrap()
}

/// Given: ten thousand agents with two tasks each, which come in parts. Expected: each task is answered once, in the order of its
/// agent.
#[test]
fn each_task_of_ten_thousand_agents_is_answered_once_and_in_order() {
    let (agents, answers) = agents();
    let mut expected: BTreeMap<String, Vec<ActionId>> = BTreeMap::new();
    let mut owners = HashMap::new();
    for _ in 0..2 {
        for part in 0..40 {
            let names = (0..250).map(|n| format!("agent{}", part * 250 + n));
            let jobs: Vec<_> = names.map(|name| (job(&name, "x", false), name)).collect();
            for ((task, _), name) in &jobs {
                expected.entry(name.clone()).or_default().push(task.action);
                owners.insert(task.action, name.clone());
            }
            agents.give(jobs.into_iter().map(|(job, _)| job));
        }
    }
    let mut found: BTreeMap<String, Vec<ActionId>> = BTreeMap::new();
    for _ in 0..20_000 {
        let (action, status) = next(&answers);
        assert_eq!(status, "deployed");
        found
            .entry(owners[&action].clone())
            .or_default()
            .push(action);
    }
    assert_eq!(found, expected);
    assert!(answers.recv_timeout(Duration::from_millis(50)).is_err());
}

/// Given: an agent with a task that hangs in the operating system between others, and another agent. Expected: the other one is
/// not held up; the agent goes on at the limit of the task, before its handler has ended; the thread that hung ends then, and what
/// its handler gave comes to nobody.
#[test]
fn an_agent_goes_on_when_a_native_handler_hangs() {
    let (agents, answers) = agents();
    let held = HELD.lock().unwrap();
    let jobs = ["a", "hangs", "b", "c"].map(|name| job("one", name, name == "hangs"));
    let actions = jobs.each_ref().map(|(task, _)| task.action);
    agents.give(jobs);
    assert_eq!(next(&answers), (actions[0], "deployed"));
    let other = job("other", "a", false);
    let action = other.0.action;
    agents.give([other]);
    assert_eq!(next(&answers), (action, "deployed"));
    assert_eq!(next(&answers), (actions[1], "unavailable"));
    assert_eq!(next(&answers), (actions[2], "deployed"));
    assert_eq!(next(&answers), (actions[3], "deployed"));
    let count = || agents.0.state().lanes[Kind::Native as usize].n_threads;
    let n_threads = count();
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (task, code) = job("one", "hangs", false);
        agents.give([(task, code)]);
        if next(&answers).1 == "deployed" {
            break;
        }
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(
        count() <= n_threads,
        "the thread that hung is none of the lane's"
    );
    // The answer comes before it is over.
    while !agents.0.watched().is_empty() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Given: a lane in which as many tasks are fresh as may be, and agents that wait. Expected: it gets no thread while the processors
/// are busy; it gets some while they are not, no more than agents wait and its limit allows, and none while a thread is idle.
#[test]
fn fresh_tasks_keep_no_agent_waiting_while_processors_have_nothing_to_do() {
    let few = cores() * FRESH_PER_CORE;
    let some = cores() * SPARE_PER_CORE;
    let mut lane = Lane::new(10_000);
    assert_eq!(lane.n_wanted(1000, false), few);
    lane.n_threads = few;
    // None of them ages while the test runs.
    lane.begun = vec![Instant::now() + Duration::from_secs(3600); few];
    assert_eq!(lane.n_wanted(1000, false), 0);
    assert_eq!(lane.n_wanted(1000, true), some);
    assert_eq!(lane.n_wanted(1, true), 1);
    assert_eq!(lane.n_wanted(0, true), 0);
    lane.max_threads = lane.n_threads + 1;
    assert_eq!(lane.n_wanted(1000, true), 1);
    lane.max_threads = lane.n_threads;
    assert_eq!(lane.n_wanted(1000, true), 0);
    lane.max_threads = 10_000;
    lane.n_idle = 1;
    assert_eq!(lane.n_wanted(1000, true), 0);
}

/// Given: a lane whose places are all taken by runs that do not end. Expected: that is seen while agents wait for one of them.
#[test]
fn a_lane_whose_runs_all_hang_is_seen_while_agents_wait() {
    let mut lane = Lane::new(3);
    let old = Instant::now().checked_sub(STUCK).unwrap();
    lane.begun = vec![old; 3];
    assert!(lane.is_stuck(1));
    assert!(!lane.is_stuck(0));
    lane.begun[1] = Instant::now() + Duration::from_secs(3600);
    assert!(!lane.is_stuck(1));
    lane.begun = vec![old; 2];
    assert!(!lane.is_stuck(1));
}
