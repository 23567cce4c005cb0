//! Numbers are those of the checklist in docs/reference/deployment.md § 10.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::ResourceStatus;

const SECOND: i64 = 1_000_000;

/// A small world: resources are `agent.name`, runs take no time unless they are held.
struct World {
    schedule: Schedule,
    model: BTreeMap<ResourceId, Intent>,
    now: Timestamp,
    /// name → status of its runs; others are deployed.
    outcomes: BTreeMap<String, HandlerStatus>,
    log: Vec<String>,
    held: Vec<Run>,
}

fn id(name: &str) -> ResourceId {
    let agent = name.split('.').next().unwrap();
    ResourceId::new(format!("t::R[{agent},name={name}]"))
}

/// `a.x=1 < a.y b.z` reads: resource a.x with content 1 requires a.y and b.z. `?` behind the content: undefined; `!`: it
/// sends no events; `-`: it receives none.
fn intent(text: &str) -> Intent {
    let (head, requires) = text.split_once('<').unwrap_or((text, ""));
    let (name, value) = head.trim().split_once('=').unwrap();
    Intent {
        resource_id: id(name),
        resource_type: "t::R".into(),
        agent: AgentName::new(name.split('.').next().unwrap()),
        id_value: name.into(),
        attributes: "{}".into(),
        attribute_hash: value.trim_end_matches(['?', '!', '-']).into(),
        requires: requires.split_whitespace().map(id).collect(),
        is_undefined: value.contains('?'),
        send_event: !value.contains('!'),
        receive_events: !value.contains('-'),
        created: Timestamp(0),
    }
}

/// The deployments that may start.
fn take(schedule: &mut Schedule) -> Vec<Run> {
    take_some(schedule, usize::MAX)
}

fn take_some(schedule: &mut Schedule, most: usize) -> Vec<Run> {
    let starts = schedule.take(most).into_iter();
    let runs = starts.map(|start| match start {
        Start::Deploy(run) => run,
        Start::Task(action) => panic!("nobody asked for {action}"),
    });
    runs.collect()
}

impl World {
    fn new() -> Self {
        let policy = RetryPolicy {
            deploy: Some(Duration::from_secs(600)),
            repair: Some(Duration::from_secs(3600)),
            backoff: Duration::ZERO,
            spread_percent: 0,
        };
        let schedule = Schedule::restore(
            VersionNumber::NONE,
            vec![],
            vec![],
            policy,
            [],
            Timestamp(0),
        );
        let (model, outcomes) = (BTreeMap::new(), BTreeMap::new());
        Self {
            schedule,
            model,
            now: Timestamp(SECOND),
            outcomes,
            log: vec![],
            held: vec![],
        }
    }

    fn release(&mut self, model: &str) -> Activation {
        let intents = model
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(intent);
        let model: BTreeMap<ResourceId, Intent> =
            intents.map(|i| (i.resource_id.clone(), i)).collect();
        let changed = model
            .iter()
            .filter(|(id, i)| self.model.get(*id) != Some(i))
            .map(|(_, i)| i.clone())
            .collect();
        let removed: Vec<ResourceId> = self
            .model
            .keys()
            .filter(|id| !model.contains_key(*id))
            .cloned()
            .collect();
        self.model = model;
        let version = VersionNumber::new(self.schedule.version().get() + 1);
        self.schedule.apply(version, changed, &removed, self.now)
    }

    fn end(&mut self, run: Run, changed: bool) {
        let name = run.intent.id_value.to_string();
        let bad_dependency = run
            .requires
            .iter()
            .any(|one| one.status != ResourceStatus::Deployed);
        let own = self
            .outcomes
            .get(&name)
            .copied()
            .unwrap_or(HandlerStatus::Deployed);
        let status = if bad_dependency {
            HandlerStatus::SkippedForDependency
        } else {
            own
        };
        let ended = Ended {
            status,
            changed,
            started: self.now,
            finished: self.now,
        };
        self.log.push(format!("{name}:{}", status.as_str()));
        self.schedule
            .finished(&run.intent.resource_id, run.action, ended, self.now);
    }

    /// Starts what may start, and holds it.
    fn start(&mut self) -> Vec<String> {
        self.start_some(usize::MAX)
    }

    fn start_some(&mut self, most: usize) -> Vec<String> {
        let runs = take_some(&mut self.schedule, most);
        let names = runs
            .iter()
            .map(|run| run.intent.id_value.to_string())
            .collect();
        self.held.extend(runs);
        names
    }

    fn end_held(&mut self, name: &str) {
        let position = self
            .held
            .iter()
            .position(|run| *run.intent.id_value == *name)
            .unwrap();
        let run = self.held.remove(position);
        self.end(run, false);
    }

    /// Runs until nothing may start; gives what ran, in order.
    fn run(&mut self) -> String {
        for _ in 0..1000 {
            self.now = Timestamp(self.now.0 + 1);
            let runs = take(&mut self.schedule);
            if runs.is_empty() {
                return std::mem::take(&mut self.log).join(" ");
            }
            for run in runs {
                self.end(run, false);
            }
        }
        panic!("it never comes to rest: {:?}", self.log);
    }

    fn pass(&mut self, seconds: i64) -> String {
        self.now = Timestamp(self.now.0 + seconds * SECOND);
        self.schedule.tick(self.now);
        self.run()
    }

    fn status(&self, name: &str) -> &str {
        self.schedule
            .states()
            .find(|state| *state.id_value == *name)
            .unwrap()
            .status()
            .as_str()
    }
}

#[test]
fn quick_runs_of_an_agent_are_handed_over_several_at_once_and_in_order() {
    let mut world = World::new();
    world.release("a.0=1!\na.1=1!\na.2=1! < a.1\na.3=1!\na.4=1!\nb.0=1!");
    assert_eq!(world.start(), ["a.0", "b.0"]);
    let first = world.held[0].intent.clone();
    let (quick, slow) = (Timestamp(10 + 900), Timestamp(10 + 900 + 1_100));
    world.schedule.measured(&first, Timestamp(10), quick);
    assert_eq!(world.start(), ["a.1"]);
    assert!(world.start().is_empty());
    world.end_held("a.0");
    // What requires a.1 waits for its end, as ever.
    assert_eq!(world.start(), ["a.3"]);
    world.schedule.measured(&first, Timestamp(11), slow);
    world.end_held("a.1");
    assert!(world.start().is_empty(), "after a slow one, one at a time");
    world.end_held("a.3");
    assert_eq!(world.start(), ["a.2"]);
    // It has waited behind the one before it: that is not its own time.
    world
        .schedule
        .measured(&first, Timestamp(10), Timestamp(slow.0 + 900));
    let task = ActionId::generate();
    let agent = AgentName::new("a");
    world.schedule.add_task(task, &agent, Priority::UserDeploy);
    assert!(world.start().is_empty(), "a task waits until nothing runs");
    world.end_held("a.2");
    let starts = world.schedule.take(usize::MAX);
    assert!(matches!(&starts[..], [Start::Task(action)] if *action == task));
    world.schedule.task_finished(task);
    assert_eq!(world.start(), ["a.4"]);
}

/// Given: three agents, and room for one run at a time. Expected: each has its turn, also while the first one has more to do.
#[test]
fn agents_have_their_turns_where_not_all_may_begin() {
    let mut world = World::new();
    world.release("a.0=1\na.1=1\na.2=1\nb.0=1\nc.0=1");
    let mut begun = Vec::new();
    for _ in 0..5 {
        let [name] = world.start_some(1).try_into().unwrap();
        world.end_held(&name);
        begun.push(name);
    }
    assert_eq!(begun, ["a.0", "b.0", "c.0", "a.1", "a.2"]);
    assert!(world.start().is_empty());
}

/// Given: three agents whose resources are verified again, and room for one run at a time; then a version that changes a resource of
/// the last one. Expected: that goes first.
#[test]
fn what_is_most_urgent_of_all_agents_goes_first() {
    let mut world = World::new();
    world.release("a.0=1\na.1=1\nb.0=1\nc.0=1");
    world.run();
    let all = Selection::All;
    world
        .schedule
        .request(all, Priority::IntervalRepair, "verify", None);
    assert_eq!(world.start_some(1), ["a.0"]);
    world.release("a.0=1\na.1=1\nb.0=1\nc.0=2");
    assert_eq!(world.start_some(1), ["c.0"]);
    assert_eq!(world.start_some(9), ["b.0"]);
}

/// Given: agents of two kinds, of each of which only one has room to work, and one elsewhere. Expected: they take turns, and none
/// takes the room of the other kind; what has no room is not begun when its agent is paused meanwhile.
#[test]
fn what_has_no_room_is_not_begun() {
    let mut world = World::new();
    let room = Room {
        native: 1,
        python: 1,
    };
    world.schedule.set_room(room);
    world.release("a.0=1\nb.0=1\nc.0=1\nd.0=1\ne.0=1\nf.0=1\nf.1=1");
    world.schedule.set_permits(|agent, _| match agent.as_str() {
        "a" | "b" | "c" => Permit::python(0),
        "d" | "e" => Permit::NATIVE,
        _ => Permit::NONE,
    });
    let mut begun = world.start();
    begun.sort();
    assert_eq!(begun, ["a.0", "d.0", "f.0"]);
    world.schedule.pause(&AgentName::new("b"), true);
    world.end_held("a.0");
    world.end_held("d.0");
    let mut begun = world.start();
    begun.sort();
    assert_eq!(begun, ["c.0", "e.0"]);
    world.schedule.pause(&AgentName::new("b"), false);
    assert!(world.start().is_empty());
    world.end_held("c.0");
    assert_eq!(world.start(), ["b.0"]);
}

/// Given: agents at work, for one of which a version brings something. Expected: its run is hurried, once; one that repairs all by
/// request hurries those that do so by themselves.
#[test]
fn runs_with_something_more_urgent_behind_them_are_hurried() {
    let mut world = World::new();
    world.release("a.0=1\na.1=1\nb.0=1");
    world.run();
    world.schedule.take_hurried();
    let all = Selection::All;
    let repair = |world: &mut World, priority| {
        world.schedule.request(all, priority, "verify", None);
    };
    let hurried = |world: &mut World| -> Vec<String> {
        let hurried = world.schedule.take_hurried().into_iter();
        hurried.map(|agent| agent.to_string()).collect()
    };
    repair(&mut world, Priority::IntervalRepair);
    let begun = world.start_some(2);
    assert_eq!(begun, ["a.0", "b.0"]);
    repair(&mut world, Priority::IntervalRepair);
    assert!(hurried(&mut world).is_empty());
    repair(&mut world, Priority::UserRepair);
    assert_eq!(hurried(&mut world), ["a", "b"]);
    world.release("a.0=1\na.1=1\nb.0=2");
    assert_eq!(hurried(&mut world), ["b"]);
    repair(&mut world, Priority::UserRepair);
    assert!(hurried(&mut world).is_empty());
}

//: deploy 26
#[test]
fn check_26_an_identical_version_runs_nothing() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1 < a.x");
    assert_eq!(world.run(), "a.x:deployed a.y:deployed");
    world.release("a.x=1\na.y=1 < a.x");
    assert_eq!(world.run(), "");
}

//: deploy 27
#[test]
fn check_27_changed_requires_run_nothing_but_count_at_the_next_repair() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!");
    world.run();
    world.release("a.x=1! < a.y\na.y=1!");
    assert_eq!(world.run(), "");
    world.schedule.request(
        Selection::All,
        Priority::UserRepair,
        "user requested a repair",
        None,
    );
    assert_eq!(world.run(), "a.y:deployed a.x:deployed");
}

//: deploy 28
#[test]
fn check_28_one_changed_resource_runs_alone() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!\na.z=1! < a.y");
    world.run();
    world.release("a.x=1!\na.y=2!\na.z=1! < a.y");
    assert_eq!(world.run(), "a.y:deployed");
}

//: deploy 36
#[test]
fn check_36_a_resource_that_comes_back_is_new() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1");
    world.run();
    assert_eq!(world.release("a.x=1").removed, [id("a.y")]);
    assert_eq!(world.run(), "");
    assert_eq!(world.release("a.x=1\na.y=1").n_new, 1);
    assert_eq!(world.run(), "a.y:deployed");
}

//: deploy 46, 47
#[test]
fn check_46_undefined_and_all_behind_it_never_run() {
    let mut world = World::new();
    world.release("a.x=1?\na.y=1 < a.x\na.z=1 < a.y\na.w=1");
    assert_eq!(world.run(), "a.w:deployed");
    assert_eq!(world.status("a.x"), "undefined");
    assert_eq!(world.status("a.z"), "skipped_for_undefined");
    // 47: nor in a repair.
    world
        .schedule
        .request(Selection::All, Priority::UserRepair, "r", None);
    assert_eq!(world.run(), "a.w:deployed");
}

//: deploy 48
#[test]
fn check_48_a_value_that_becomes_known_frees_dependents_without_running_them() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1! < a.x");
    world.run();
    world.release("a.x=2?!\na.y=1! < a.x");
    assert_eq!(world.run(), "");
    assert_eq!(world.status("a.y"), "skipped_for_undefined");
    world.release("a.x=3!\na.y=1! < a.x");
    assert_eq!(world.run(), "a.x:deployed");
    assert_eq!(world.status("a.y"), "deployed");
}

/// Input: a result that comes after a newer version was released (docs/reference/security.md § 3.35). Answer: it counts for what was run; the newer one is run after it.
//: deploy 55, 81
#[test]
fn check_55_and_81_a_new_intent_during_a_run_is_run_after_it_and_dependents_once() {
    let mut world = World::new();
    world.release("a.x=1\nb.y=1 < a.x");
    assert_eq!(world.start(), ["a.x"]);
    world.release("a.x=2\nb.y=1 < a.x");
    assert_eq!(world.status("a.x"), "deploying");
    world.end_held("a.x");
    assert_eq!(world.run(), "a.x:deployed a.x:deployed b.y:deployed");
    assert_eq!(world.status("a.x"), "deployed");
}

//: deploy 56
#[test]
fn check_56_a_run_whose_resource_went_away_touches_no_state() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1");
    assert_eq!(world.start(), ["a.x"]);
    world.release("a.y=1");
    let run = world.held.remove(0);
    let ended = Ended {
        status: HandlerStatus::Deployed,
        changed: true,
        started: world.now,
        finished: world.now,
    };
    assert_eq!(
        world
            .schedule
            .finished(&run.intent.resource_id, run.action, ended, world.now),
        None
    );
    assert_eq!(world.run(), "a.y:deployed");
}

//: deploy 61, 62, 63
#[test]
fn check_61_to_63_priorities_and_order_of_requests() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!\na.z=1!");
    world.outcomes.insert("a.z".into(), HandlerStatus::Failed);
    assert_eq!(world.run(), "a.x:deployed a.y:deployed a.z:failed");
    world
        .schedule
        .request(Selection::All, Priority::IntervalRepair, "repair", None);
    world.schedule.request(
        Selection::Dirty,
        Priority::UserDeploy,
        "user requested a deploy",
        None,
    );
    assert_eq!(world.run(), "a.z:failed a.x:deployed a.y:deployed");
    world
        .schedule
        .request(Selection::All, Priority::IntervalRepair, "repair", None);
    world.release("a.x=1!\na.y=2!\na.z=1!");
    assert_eq!(world.run(), "a.y:deployed a.x:deployed a.z:failed");
}

/// Given: an agent all whose resources are undefined. Expected: a request for all names it, one for what is not in its desired
/// state does not, and neither runs anything of it.
#[test]
fn a_request_for_all_names_agents_of_which_nothing_can_run() {
    let mut world = World::new();
    world.release("a.x=1\nb.x=1?");
    assert_eq!(world.run(), "a.x:deployed");
    let mut ask = |which| {
        let named = world
            .schedule
            .request(which, Priority::UserRepair, "asked", None);
        let names: Vec<String> = named.iter().map(ToString::to_string).collect();
        (names.join(" "), world.run())
    };
    let all = ask(Selection::All);
    assert_eq!(all, ("a b".to_owned(), "a.x:deployed".to_owned()));
    let dirty = ask(Selection::Dirty);
    assert_eq!(dirty, (String::new(), String::new()));
}

//: deploy 64
#[test]
fn check_64_one_run_an_agent_and_agents_side_by_side() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1\nb.x=1\nb.y=1");
    assert_eq!(world.start(), ["a.x", "b.x"]);
    assert_eq!(world.start(), Vec::<String>::new());
    world.end_held("b.x");
    assert_eq!(world.start(), ["b.y"]);
}

//: deploy 65
#[test]
fn check_65_a_dependent_waits_across_agents() {
    let mut world = World::new();
    world.release("b.x=1\na.y=1 < b.x");
    assert_eq!(world.start(), ["b.x"]);
    assert_eq!(world.start(), Vec::<String>::new());
    world.end_held("b.x");
    assert_eq!(world.run(), "b.x:deployed a.y:deployed");
}

//: deploy 67, 69
#[test]
fn check_67_and_69_dependents_of_a_failure_are_skipped_and_recover_with_it() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!- < a.x\na.z=1!- < a.y");
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    assert_eq!(
        world.run(),
        "a.x:failed a.y:skipped_for_dependency a.z:skipped_for_dependency"
    );
    // The deploy timer retries the failure alone; those that wait for it are not dirty.
    assert_eq!(world.pass(600), "a.x:failed");
    world.outcomes.clear();
    assert_eq!(world.pass(600), "a.x:deployed a.y:deployed a.z:deployed");
    assert_eq!(world.pass(600), "");
}

//: deploy 68
#[test]
fn check_68_a_failure_without_events_leaves_good_dependents_alone() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1 < a.x");
    world.run();
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    world.release("a.x=2!\na.y=1 < a.x");
    assert_eq!(world.run(), "a.x:failed");
    assert_eq!(world.status("a.y"), "deployed");
}

//: deploy 70, 71
#[test]
fn check_70_and_71_events_go_down_the_graph_to_those_who_receive_them() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1 < a.x\na.z=1 < a.y\na.w=1- < a.x");
    world.run();
    let agents = BTreeSet::from([AgentName::new("a")]);
    world.release("a.x=2\na.y=1 < a.x\na.z=1 < a.y\na.w=1- < a.x");
    assert_eq!(world.run(), "a.x:deployed a.y:deployed a.z:deployed");
    assert_eq!(
        world
            .schedule
            .request(Selection::All, Priority::UserRepair, "r", Some(&agents)),
        agents
    );
}

//: deploy 72
#[test]
fn check_72_an_event_for_a_running_resource_runs_it_again() {
    let mut world = World::new();
    world.release("a.x=1\nb.y=1 < a.x");
    world.run();
    world.schedule.request(
        Selection::All,
        Priority::UserRepair,
        "r",
        Some(&BTreeSet::from([AgentName::new("b")])),
    );
    assert_eq!(world.start(), ["b.y"]);
    world.release("a.x=2\nb.y=1 < a.x");
    assert_eq!(world.start(), ["a.x"]);
    world.end_held("a.x");
    world.end_held("b.y");
    assert_eq!(world.run(), "a.x:deployed b.y:deployed b.y:deployed");
}

//: deploy 75
#[test]
fn check_75_a_deploy_runs_the_dirty_and_a_repair_all() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!");
    world.outcomes.insert("a.x".into(), HandlerStatus::Skipped);
    world.run();
    world
        .schedule
        .request(Selection::Dirty, Priority::UserDeploy, "d", None);
    assert_eq!(world.run(), "a.x:skipped");
    world
        .schedule
        .request(Selection::All, Priority::UserRepair, "r", None);
    assert_eq!(world.run(), "a.x:skipped a.y:deployed");
}

//: deploy 78
#[test]
fn check_78_good_is_verified_on_the_repair_interval_and_bad_on_the_shorter_one() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!");
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    world.run();
    assert_eq!(world.pass(599), "");
    assert_eq!(world.pass(1), "a.x:failed");
    world.outcomes.clear();
    assert_eq!(world.pass(600), "a.x:deployed");
    assert_eq!(world.pass(2400), "a.y:deployed");
    assert_eq!(world.pass(1200), "a.x:deployed");
}

/// Given: an interval of less than a second. Expected: the reason of the run does not speak of 0 s.
#[test]
fn a_run_of_a_short_interval_says_how_long_ago_the_one_before_was() {
    let mut world = World::new();
    let policy = RetryPolicy {
        repair: Some(Duration::from_millis(700)),
        ..world.schedule.policy.clone()
    };
    world.schedule.set_policy(policy, world.now);
    world.release("a.x=1!");
    world.run();
    world.now = Timestamp(world.now.0 + 800_000);
    world.schedule.tick(world.now);
    let [run] = take(&mut world.schedule).try_into().unwrap();
    assert_eq!(run.reason, "previous repair happened more than 0.8s ago");
}

//: deploy 79
#[test]
fn a_failing_resource_is_retried_ever_later_up_to_the_deploy_interval() {
    let mut world = World::new();
    let policy = RetryPolicy {
        backoff: Duration::from_secs(5),
        ..world.schedule.policy.clone()
    };
    world.schedule.set_policy(policy, world.now);
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    world.release("a.x=1!");
    world.run();
    let mut delays = vec![];
    for _ in 0..9 {
        let due = world.schedule.next_due().unwrap();
        let delay = due.since(world.now).as_secs_f64().round() as i64;
        delays.push(delay);
        assert_eq!(world.pass(delay), "a.x:failed");
    }
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
    // A new intent starts over.
    world.release("a.x=2!");
    assert_eq!(world.run(), "a.x:failed");
    assert_eq!(
        world
            .schedule
            .next_due()
            .unwrap()
            .since(world.now)
            .as_secs_f64()
            .round() as i64,
        5
    );
}

//: deploy 80
#[test]
fn check_80_without_intervals_nothing_runs_on_its_own() {
    let mut world = World::new();
    world.schedule.set_policy(RetryPolicy::default(), world.now);
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    world.release("a.x=1\na.y=1");
    world.run();
    assert_eq!(world.schedule.next_due(), None);
    assert_eq!(world.pass(1_000_000), "");
}

//: deploy 82
#[test]
fn check_82_a_queued_resource_that_is_removed_is_dropped_and_frees_those_behind_it() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1\nb.z=1 < a.y");
    assert_eq!(world.start(), ["a.x"]);
    world.release("a.x=1\nb.z=1");
    assert_eq!(world.start(), ["b.z"]);
    world.end_held("a.x");
    world.end_held("b.z");
    assert_eq!(world.run(), "a.x:deployed b.z:deployed");
    assert!(world.schedule.is_idle());
}

/// Who is away is so by the version in force; a dry run may be of a version that has the agent elsewhere.
#[test]
fn an_agent_that_is_away_is_not_paused() {
    let mut world = World::new();
    let (a, b) = (AgentName::new("a"), AgentName::new("b"));
    world.schedule.pause(&a, true);
    world.schedule.set_away(&b, true);
    assert_eq!(world.schedule.away().collect::<Vec<_>>(), [&b]);
    assert_eq!(world.schedule.paused().collect::<Vec<_>>(), [&a]);
    world.schedule.pause(&a, false);
    assert_eq!(world.schedule.paused().count(), 0);
}

//: deploy 83, 84
#[test]
fn check_83_and_84_a_paused_agent_starts_nothing_and_then_runs_the_newest() {
    let mut world = World::new();
    world.schedule.pause(&AgentName::new("a"), true);
    world.release("a.x=1\nb.x=1");
    assert_eq!(world.run(), "b.x:deployed");
    world.release("a.x=2\nb.x=1");
    assert_eq!(world.run(), "");
    world.schedule.pause(&AgentName::new("a"), false);
    assert_eq!(world.run(), "a.x:deployed");
    assert_eq!(world.run(), "");
}

fn restart(world: &mut World) {
    let states = world.schedule.states().cloned().collect();
    let intents = world.model.values().cloned().collect();
    let policy = world.schedule.policy.clone();
    world.schedule = Schedule::restore(
        world.schedule.version(),
        intents,
        states,
        policy,
        [],
        world.now,
    );
}

/// Given: an agent elsewhere that has the result of one resource and is at the next one when the server starts again. Expected: both
/// runs are taken up, none is begun again, and nothing else of the agent is begun before their ends.
#[test]
fn all_that_an_agent_brings_after_a_restart_is_taken_up() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1\na.z=1");
    restart(&mut world);
    for name in ["a.x", "a.y"] {
        let run = world.schedule.adopt(&id(name), ActionId::generate());
        world.held.push(run.expect("it is taken up"));
    }
    let again = world.schedule.adopt(&id("a.x"), ActionId::generate());
    assert!(again.is_none(), "it is in progress");
    for name in ["a.x", "a.y"] {
        assert!(world.start().is_empty());
        world.end_held(name);
    }
    assert_eq!(world.start(), ["a.z"]);
}

//: deploy 85
#[test]
fn check_85_after_a_restart_only_what_is_not_good_runs() {
    let mut world = World::new();
    world.release("a.x=1!\na.y=1!\na.z=1!");
    world.outcomes.insert("a.y".into(), HandlerStatus::Failed);
    world.run();
    restart(&mut world);
    assert_eq!(world.run(), "a.y:failed");
    // A run that was cut off is run again.
    world.release("a.x=2!\na.y=1!\na.z=1!");
    assert_eq!(world.start(), ["a.x"]);
    world.held.clear();
    restart(&mut world);
    assert_eq!(world.run(), "a.x:deployed a.y:failed");
}

//: deploy 85
#[test]
fn check_85_an_event_that_was_not_worked_off_before_a_restart_is() {
    let mut world = World::new();
    world.release("a.x=1\nb.y=1- < a.x\nb.z=1 < a.x");
    world.run();
    world.now = Timestamp(world.now.0 + SECOND);
    world.schedule.request(
        Selection::All,
        Priority::UserRepair,
        "r",
        Some(&BTreeSet::from([AgentName::new("a")])),
    );
    assert_eq!(world.start(), ["a.x"]);
    world.end_held("a.x");
    world.log.clear();
    restart(&mut world);
    assert_eq!(world.run(), "b.z:deployed");
}

//: deploy 87
#[test]
fn check_87_after_a_restart_timers_go_on_from_the_last_run() {
    let mut world = World::new();
    world.release("a.x=1!");
    world.run();
    world.now = Timestamp(world.now.0 + 3000 * SECOND);
    restart(&mut world);
    assert_eq!(world.run(), "");
    assert_eq!(world.pass(600), "a.x:deployed");
}

/// Input: a clock that jumps back (docs/reference/security.md § 3.33). Answer: what is due is due at the latest one interval later.
#[test]
fn a_clock_that_steps_back_holds_up_no_repair() {
    let mut world = World::new();
    world.now = Timestamp(1_000_000 * SECOND);
    world.release("a.x=1!");
    world.run();
    assert_eq!(world.pass(3600), "a.x:deployed");
    // The engine wakes when the timer was due; by then it is ten days earlier.
    world.now = Timestamp(world.now.0 - 864_000 * SECOND);
    assert_eq!(world.pass(0), "");
    assert_eq!(world.pass(3600), "a.x:deployed");
    assert_eq!(world.pass(3600), "a.x:deployed");
    // And the same behind a restart, which knows the run of a later time only.
    world.now = Timestamp(world.now.0 - 10_000 * SECOND);
    restart(&mut world);
    assert_eq!(world.run(), "");
    assert_eq!(world.pass(3600), "a.x:deployed");
}

//: deploy 90
#[test]
fn check_90_versions_in_a_burst_run_the_newest_intent_only() {
    let mut world = World::new();
    for n in 0..10 {
        world.release(&format!("a.x={n}\na.y={n} < a.x"));
    }
    assert_eq!(world.run(), "a.x:deployed a.y:deployed");
}

//: deploy 73
#[test]
fn a_reload_is_asked_for_only_after_a_change() {
    let mut world = World::new();
    world.release("a.x=1\na.y=1 < a.x");
    world.run();
    world.release("a.x=2\na.y=1 < a.x");
    let run = take(&mut world.schedule).remove(0);
    world.now = Timestamp(world.now.0 + SECOND);
    world.end(run, true);
    let run = take(&mut world.schedule).remove(0);
    assert!(run.dependency_changed);
    world.now = Timestamp(world.now.0 + SECOND);
    world.end(run, false);
    world
        .schedule
        .request(Selection::All, Priority::UserRepair, "r", None);
    let run = take(&mut world.schedule).remove(0);
    world.end(run, false);
    assert!(!take(&mut world.schedule).remove(0).dependency_changed);
}

/// Given: a clock that is set back by an hour, with or without a restart of the server. Expected: what is changed from then on is a
/// change for those that ran before, though their last success is at a later time.
#[test]
fn a_change_after_the_clock_was_set_back_asks_for_a_reload() {
    for restarts in [false, true] {
        let mut world = World::new();
        world.now = Timestamp(1_000_000 * SECOND);
        world.release("a.x=1\na.y=1 < a.x");
        world.run();
        world.schedule.tick(world.now);
        world.now = Timestamp(world.now.0 - 3600 * SECOND);
        if restarts {
            restart(&mut world);
        }
        assert_eq!(world.pass(0), "");
        world.now = Timestamp(world.now.0 + SECOND);
        world.release("a.x=2\na.y=1 < a.x");
        let run = take(&mut world.schedule).remove(0);
        world.end(run, true);
        let run = take(&mut world.schedule).remove(0);
        assert_eq!(run.intent.id_value.to_string(), "a.y");
        assert!(run.dependency_changed, "restarts: {restarts}");
    }
}

/// Random worlds: agents never overlap, requires are honoured, and it always comes to rest with everything deployed.
//: deploy 64, 65
#[test]
fn check_64_65_hold_for_random_models_and_interruptions() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        let mut model = String::new();
        for round in 0..6 {
            if random.random_bool(0.7) || model.is_empty() {
                model.clear();
                let n = random.random_range(1..12);
                for i in 0..n {
                    let agent = ["a", "b", "c"][i % 3];
                    let requires: Vec<String> = (0..i)
                        .filter(|_| random.random_bool(0.3))
                        .map(|j| format!("{}.{j}", ["a", "b", "c"][j % 3]))
                        .collect();
                    let flag = ["", "!", "-"][random.random_range(0..3)];
                    let value = random.random_range(0..2);
                    model.push_str(&format!(
                        "{agent}.{i}={value}{flag} < {}\n",
                        requires.join(" ")
                    ));
                }
                world.release(&model);
            } else {
                world
                    .schedule
                    .request(Selection::All, Priority::UserRepair, "r", None);
            }
            for _ in 0..random.random_range(0..30) {
                world.now = Timestamp(world.now.0 + 1);
                world.start();
                let agents: Vec<&str> = world
                    .held
                    .iter()
                    .map(|run| run.intent.agent.as_str())
                    .collect();
                assert_eq!(
                    agents.iter().collect::<BTreeSet<_>>().len(),
                    agents.len(),
                    "seed {seed}: {agents:?}"
                );
                let ids: BTreeSet<&str> = world
                    .held
                    .iter()
                    .map(|run| run.intent.resource_id.as_str())
                    .collect();
                for run in &world.held {
                    let current = world.model.get(&run.intent.resource_id) == Some(&run.intent);
                    let overlap = run
                        .intent
                        .requires
                        .iter()
                        .any(|require| ids.contains(require.as_str()));
                    assert!(!(current && overlap && round == 0), "seed {seed}: {ids:?}");
                }
                if world.held.is_empty() {
                    break;
                }
                let run = world.held.remove(random.random_range(0..world.held.len()));
                if random.random_bool(0.2) {
                    world
                        .outcomes
                        .insert(run.intent.id_value.to_string(), HandlerStatus::Failed);
                } else {
                    world.outcomes.remove(&*run.intent.id_value);
                }
                world.end(run, random.random_bool(0.5));
            }
        }
        world.outcomes.clear();
        for run in std::mem::take(&mut world.held) {
            world.end(run, false);
        }
        world.run();
        for _ in 0..20 {
            world.pass(600);
        }
        for state in world.schedule.states() {
            assert_eq!(
                state.status(),
                ResourceStatus::Deployed,
                "seed {seed}: {}",
                state.resource_id
            );
        }
        assert!(world.schedule.is_idle(), "seed {seed}");
    }
}

#[test]
fn what_waited_for_a_recovery_is_tried_once_after_a_restart() {
    let mut world = World::new();
    world.release("a.x=1!\nb.y=1!- < a.x");
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    assert_eq!(world.run(), "a.x:failed b.y:skipped_for_dependency");
    // As the store has it when the server dies between the recovery of x and the run of y.
    world.outcomes.clear();
    let before: Vec<ResourceState> = world.schedule.states().cloned().collect();
    world.pass(600);
    let after: Vec<ResourceState> = world.schedule.states().cloned().collect();
    let states = vec![after[0].clone(), before[1].clone()];
    assert_eq!(states[1].blocked, Blocked::TemporarilyBlocked);
    let intents = world.model.values().cloned().collect();
    world.schedule = Schedule::restore(
        VersionNumber::new(1),
        intents,
        states,
        RetryPolicy::default(),
        [],
        world.now,
    );
    assert_eq!(world.run(), "b.y:deployed");
}

#[test]
fn a_change_before_a_restart_still_asks_for_a_reload_after_it() {
    let mut world = World::new();
    world.release("a.x=1\nb.y=1 < a.x");
    world.run();
    world.now = Timestamp(world.now.0 + SECOND);
    let index = world.schedule.by_id[&id("a.x")];
    world.schedule.entry_mut(index).state.last_change = Some(world.now);
    restart(&mut world);
    world.schedule.request(
        Selection::All,
        Priority::UserRepair,
        "r",
        Some(&BTreeSet::from([AgentName::new("b")])),
    );
    assert!(take(&mut world.schedule).remove(0).dependency_changed);
}

#[test]
fn a_dependent_that_never_ran_runs_as_soon_as_the_value_it_waits_for_is_known() {
    let mut world = World::new();
    world.schedule.set_policy(RetryPolicy::default(), world.now);
    world.release("a.x=1?!\na.y=1! < a.x");
    assert_eq!(world.run(), "");
    world.release("a.x=2!\na.y=1! < a.x");
    assert_eq!(world.run(), "a.x:deployed a.y:deployed");
}

#[test]
fn a_resource_whose_dependency_is_scheduled_while_it_runs_runs_again_after_it() {
    let mut world = World::new();
    world.release("a.x=1!\nb.y=1!- < a.x");
    world.run();
    world.schedule.request(
        Selection::All,
        Priority::UserRepair,
        "r",
        Some(&BTreeSet::from([AgentName::new("b")])),
    );
    assert_eq!(world.start(), ["b.y"]);
    world.release("a.x=2!\nb.y=1!- < a.x");
    assert_eq!(world.start(), ["a.x"]);
    world.end_held("b.y");
    assert_eq!(world.start(), Vec::<String>::new());
    world.end_held("a.x");
    assert_eq!(world.run(), "b.y:deployed a.x:deployed b.y:deployed");
}

#[test]
fn a_resource_that_waits_for_what_it_does_not_require_any_more_runs_at_once() {
    let mut world = World::new();
    world.release("a.x=1\nb.y=1 < a.x");
    assert_eq!(world.start(), ["a.x"]);
    world.release("a.x=1\nb.y=1");
    assert_eq!(world.start(), ["b.y"]);
}

#[test]
fn what_waits_for_the_recovery_of_something_that_left_and_came_back_runs_again() {
    let mut world = World::new();
    world.schedule.set_policy(RetryPolicy::default(), world.now);
    world.outcomes.insert("a.x".into(), HandlerStatus::Failed);
    world.release("a.x=1!\nb.y=1! < a.x");
    assert_eq!(world.run(), "a.x:failed b.y:skipped_for_dependency");
    // A version between the two, which nobody saw, did not have it: it is new, and has never been bad.
    world.outcomes.clear();
    let again = vec![intent("a.x=1!")];
    world
        .schedule
        .apply(VersionNumber::new(3), again, &[id("a.x")], world.now);
    assert_eq!(world.run(), "a.x:deployed b.y:deployed");
}

#[test]
fn a_skip_does_not_free_what_got_blocked_while_it_ran() {
    let mut world = World::new();
    world.release("a.x=1!\na.z=1!\nb.y=1! < a.x a.z");
    world.outcomes.insert("a.z".into(), HandlerStatus::Failed);
    assert_eq!(world.start(), ["a.x"]);
    world.end_held("a.x");
    assert_eq!(world.start(), ["a.z"]);
    world.end_held("a.z");
    assert_eq!(world.start(), ["b.y"]);
    world.release("a.x=2?!\na.z=1!\nb.y=1! < a.x a.z");
    world.end_held("b.y");
    assert_eq!(world.status("b.y"), "skipped_for_undefined");
    world
        .schedule
        .request(Selection::All, Priority::UserRepair, "r", None);
    assert_eq!(
        world.run(),
        "a.x:deployed a.z:failed b.y:skipped_for_dependency a.z:failed"
    );
}

//: deploy 61
#[test]
fn dry_runs_and_questions_for_facts_have_their_places_between_deploys() {
    let mut world = World::new();
    world.release("a.x=1!");
    world.run();
    let (dry_run, facts) = (ActionId::generate(), ActionId::generate());
    let agent = AgentName::new("a");
    world
        .schedule
        .request(Selection::All, Priority::IntervalRepair, "r", None);
    world
        .schedule
        .add_task(facts, &agent, Priority::CollectFacts);
    world.schedule.add_task(dry_run, &agent, Priority::DryRun);
    let mut next = || match world.schedule.take(usize::MAX).remove(0) {
        Start::Deploy(run) => {
            assert!(world.schedule.take(usize::MAX).is_empty());
            run.action
        }
        Start::Task(action) => {
            assert!(
                world.schedule.take(usize::MAX).is_empty(),
                "one thing of an agent at a time"
            );
            world.schedule.task_finished(action);
            action
        }
    };
    assert_eq!([next(), next()], [dry_run, facts]);
    let repair = next();
    assert!(![dry_run, facts].contains(&repair));
}

//: deploy 66
#[test]
fn check_66_a_changed_resource_does_not_run_the_good_one_that_it_requires() {
    let mut world = World::new();
    world.release("a.x=1!\nb.y=1! < a.x");
    world.run();
    world.release("a.x=1!\nb.y=2! < a.x");
    assert_eq!(world.start(), ["b.y"]);
    world.end_held("b.y");
    assert_eq!(world.run(), "b.y:deployed");
}

//: deploy 52, 53
#[test]
fn check_52_and_53_who_waits_for_a_bad_dependency_is_not_retried_and_who_waits_for_a_good_one_is() {
    let mut world = World::new();
    let repair = None;
    let policy = RetryPolicy {
        repair,
        ..world.schedule.policy.clone()
    };
    world.schedule.set_policy(policy, world.now);
    world.release("a.x=1!\nb.y=1! < a.x\nc.z=1!");
    let skipped = HandlerStatus::SkippedForDependency;
    world
        .outcomes
        .insert("a.x".into(), HandlerStatus::NonCompliant);
    world.outcomes.insert("c.z".into(), skipped);
    assert_eq!(
        world.run(),
        "a.x:non_compliant c.z:skipped_for_dependency b.y:skipped_for_dependency"
    );
    // What is only reported is looked at again, too. Neither requires the other, so their order says nothing.
    for _ in 0..2 {
        let again = world.pass(600);
        let mut again: Vec<&str> = again.split(' ').collect();
        again.sort_unstable();
        assert_eq!(again, ["a.x:non_compliant", "c.z:skipped_for_dependency"]);
    }
}

#[test]
fn a_difference_that_is_only_reported_is_looked_at_again_after_the_deploy_interval() {
    let mut world = World::new();
    let policy = RetryPolicy {
        repair: None,
        backoff: Duration::from_secs(5),
        ..world.schedule.policy.clone()
    };
    world.schedule.set_policy(policy, world.now);
    world.release("a.x=1!\nb.y=1! < a.x");
    world
        .outcomes
        .insert("a.x".into(), HandlerStatus::NonCompliant);
    assert_eq!(world.run(), "a.x:non_compliant b.y:skipped_for_dependency");
    // It did not fail, so there is no backoff.
    assert_eq!(world.pass(599), "");
    assert_eq!(world.pass(1), "a.x:non_compliant");
    world.outcomes.clear();
    assert_eq!(world.pass(600), "a.x:deployed b.y:deployed");
    assert_eq!(world.pass(600), "");
}

//: deploy 54
#[test]
fn check_54_success_counts_from_the_start_of_a_run_and_events_from_its_end() {
    let mut world = World::new();
    world.release("a.x=1");
    let run = take(&mut world.schedule).remove(0);
    let (started, finished) = (Timestamp(7 * SECOND), Timestamp(9 * SECOND));
    let status = HandlerStatus::Deployed;
    let ended = Ended {
        status,
        changed: true,
        started,
        finished,
    };
    let state = world
        .schedule
        .finished(&id("a.x"), run.action, ended, finished)
        .unwrap();
    assert_eq!(
        (state.last_success, state.last_events),
        (Some(started), Some(finished))
    );
}
