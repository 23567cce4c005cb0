//! What a decision costs: steps, that is how often an entry or a queue is looked at, must not grow with what there is
//! besides.
//!
//! `STEWARD_SCHEDULE_SIZES=1000,1000000 cargo test -p steward --lib schedule::cost -- --nocapture` prints steps and times
//! for other sizes (docs: benches/README.md).

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::*;
use crate::domain::{HandlerStatus, LastRun, ResourceStatus};

const AT_REST: Timestamp = Timestamp(1_000_000);

fn intent(n: usize, agent: usize, requires: Vec<ResourceId>) -> Intent {
    Intent {
        resource_id: ResourceId::new(format!("t::R[a{agent},name={n}]")),
        resource_type: "t::R".into(),
        agent: AgentName::new(format!("a{agent}")),
        id_value: n.to_string().into(),
        attributes: "{}".into(),
        attribute_hash: "1".into(),
        requires: requires.into(),
        is_undefined: false,
        send_event: false,
        receive_events: true,
        created: Timestamp(0),
    }
}

/// A schedule at rest, in which all is deployed.
fn at_rest(intents: Vec<Intent>) -> Schedule {
    let deployed = |intent: &Intent| ResourceState {
        deployed_hash: Some(intent.attribute_hash.clone()),
        last_run: LastRun::Successful,
        last_run_compliant: Some(true),
        last_run_at: Some(AT_REST),
        last_success: Some(AT_REST),
        last_events: Some(AT_REST),
        last_status: ResourceStatus::Deployed,
        ..entry::new_state(intent)
    };
    let states = intents.iter().map(deployed).collect();
    let policy = RetryPolicy {
        deploy: Some(Duration::from_secs(600)),
        repair: Some(Duration::from_secs(86_400)),
        spread_percent: 10,
        ..RetryPolicy::default()
    };
    let version = VersionNumber::new(1);
    let schedule = Schedule::restore(version, intents, states, policy, [], AT_REST);
    assert!(schedule.is_idle());
    schedule
}

/// Runs everything that may start, until nothing may; gives how many runs that were.
fn run_all(schedule: &mut Schedule, now: Timestamp) -> u64 {
    let mut n_runs = 0;
    loop {
        let starts = schedule.take(usize::MAX);
        if starts.is_empty() {
            return n_runs;
        }
        for start in starts {
            let Start::Deploy(run) = start else { continue };
            let ended = Ended {
                status: HandlerStatus::Deployed,
                changed: false,
                started: now,
                finished: now,
            };
            let id = &run.intent.resource_id;
            assert!(schedule.finished(id, run.action, ended, now).is_some());
            n_runs += 1;
        }
    }
}

fn sizes() -> Vec<usize> {
    let asked = std::env::var("STEWARD_SCHEDULE_SIZES").unwrap_or_else(|_| "1000,50000".to_owned());
    asked
        .split(',')
        .map(|size| size.trim().parse().unwrap())
        .collect()
}

/// Checks that what `act` does costs as many steps with many resources as with few. `build` makes a schedule of a size,
/// and `act` gives how many decisions it made.
#[track_caller]
fn check_cost(
    what: &str,
    most_steps: u64,
    build: impl Fn(usize) -> Schedule,
    act: impl Fn(&mut Schedule, usize) -> u64,
) {
    for size in sizes() {
        let began = Instant::now();
        let mut schedule = build(size);
        let building = began.elapsed();
        *schedule.steps.get_mut() = 0;
        let began = Instant::now();
        let n_decisions = act(&mut schedule, size);
        let took = began.elapsed();
        let steps = schedule.steps.get_mut().div_ceil(n_decisions);
        let nanoseconds = took.as_nanos() / u128::from(n_decisions);
        println!(
            "{what}, {size}: {steps} steps and {nanoseconds} ns a decision ({n_decisions}, restored in {building:?})"
        );
        assert!(steps <= most_steps, "{what}: {steps} steps with {size}");
    }
}

/// One agent for each ten resources, each of which requires the one before.
fn chains(size: usize) -> Schedule {
    let id = |n: usize| ResourceId::new(format!("t::R[a{},name={n}]", n / 10));
    let requires = |n: usize| {
        if n.is_multiple_of(10) {
            vec![]
        } else {
            vec![id(n - 1)]
        }
    };
    at_rest((0..size).map(|n| intent(n, n / 10, requires(n))).collect())
}

#[test]
fn what_is_due_costs_the_same_however_much_is_idle() {
    check_cost("a timer fires", 40, chains, |schedule, _| {
        let (mut now, mut n_runs) = (AT_REST, 0);
        for _ in 0..200 {
            now = schedule.next_due().unwrap();
            schedule.tick(now);
            n_runs += run_all(schedule, now);
        }
        assert!(n_runs >= 200 && schedule.is_idle() && now > AT_REST);
        n_runs
    });
}

//: deploy 91
#[test]
fn a_version_that_changes_ten_resources_runs_ten_whatever_else_there_is() {
    check_cost("a version of ten changes", 60, chains, |schedule, size| {
        let changed = (0..10).map(|n| Intent {
            attribute_hash: "2".into(),
            ..(*schedule.entry(Index((n * size / 10) as u32)).intent).clone()
        });
        let changed = changed.collect();
        let activation = schedule.apply(VersionNumber::new(2), changed, &[], AT_REST);
        assert_eq!((activation.changed.len(), activation.n_updated), (10, 10));
        assert_eq!(run_all(schedule, AT_REST), 10);
        10
    });
}

#[test]
fn a_turn_in_which_nothing_may_start_costs_nothing() {
    check_cost("a turn without work", 0, chains, |schedule, _| {
        for _ in 0..1000 {
            assert!(schedule.take(usize::MAX).is_empty() && schedule.is_idle());
        }
        1000
    });
}

/// All of one agent; the last one requires all others, and all others require the first.
fn star(size: usize) -> Schedule {
    let mut intents = vec![intent(0, 0, vec![])];
    let id = |n: usize| ResourceId::new(format!("t::R[a0,name={n}]"));
    intents.extend((1..size - 1).map(|n| intent(n, 0, vec![id(0)])));
    intents.push(intent(size - 1, 0, (0..size - 1).map(id).collect()));
    at_rest(intents)
}

#[test]
fn what_requires_very_many_looks_at_each_of_them_a_few_times() {
    check_cost("a repair of a star", 60, star, |schedule, size| {
        let all = schedule.request(Selection::All, Priority::UserRepair, "r", None);
        assert_eq!(all, BTreeSet::from([AgentName::new("a0")]));
        let n_runs = run_all(schedule, AT_REST);
        assert_eq!(n_runs, size as u64);
        n_runs
    });
}

#[test]
fn what_very_many_require_is_verified_without_looking_at_them() {
    check_cost("a repair of what all require", 40, star, |schedule, _| {
        for _ in 0..100 {
            let reason = "r".into();
            schedule.enqueue(Index(0), Priority::UserRepair, reason, false);
            assert_eq!(run_all(schedule, AT_REST), 1);
        }
        100
    });
}

#[test]
fn resources_that_were_deployed_together_are_verified_apart() {
    let schedule = chains(10_000);
    let due: Vec<i64> = schedule
        .timers
        .iter()
        .map(|(due, _)| due.0 - AT_REST.0)
        .collect();
    let (day, minute) = (86_400_000_000, 60_000_000);
    assert!(
        due.iter().all(|due| (day * 9 / 10..=day).contains(due)),
        "never later than a day"
    );
    let mut of_minutes = HashMap::new();
    for due in due {
        *of_minutes.entry(due / minute).or_insert(0) += 1;
    }
    // 8640 seconds are 144 minutes: 69 each on average.
    let most = of_minutes.values().max().unwrap();
    assert!(*most < 140, "{most} of 10 000 within a minute");
    // Nothing of it goes by chance: it is the same after the next start.
    assert_eq!(schedule.timers, chains(10_000).timers);
}
