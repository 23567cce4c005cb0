//! Machines that take turns at a few connections.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::domain::{ActionId, AgentName, VersionNumber};
use crate::executor::protocol::TaskKind;

fn task(name: &str) -> Task {
    Task {
        action: ActionId::generate(),
        kind: TaskKind::CollectFacts,
        code: String::new(),
        agent: AgentName::new("a"),
        resource_id: ResourceId::new(name),
        resource_type: String::new(),
        version: VersionNumber::new(1),
        attributes: "{}".to_owned(),
        reason: String::new(),
        limit_ms: 0,
    }
}

/// Whether the run may begin at once.
fn is_admitted(connections: &mut Connections, machine: Machine, name: &str) -> bool {
    let code = Arc::new(AgentCode::default());
    connections.admit(machine, task(name), &code).is_some()
}

fn begun(turn: &Turn) -> Vec<(Machine, &str)> {
    let begun = turn.begun.iter();
    begun
        .map(|(machine, run)| (*machine, run.task.resource_id.as_str()))
        .collect()
}

/// Given: one place, and three machines. Expected: who has it keeps it while it has work or only a moment of none; then the next
/// one gets it, with all its runs, and the first waits behind the others.
#[test]
fn who_has_no_work_makes_room_for_who_has_waited_longest() {
    let mut connections = Connections::new(1);
    assert!(is_admitted(&mut connections, 1, "one"));
    assert!(is_admitted(&mut connections, 1, "one more"));
    for (machine, name) in [(2, "b"), (3, "c"), (2, "b2")] {
        assert!(!is_admitted(&mut connections, machine, name));
    }
    let now = |_: &Task| Begin::Now;
    for idle in [None, Some(Duration::ZERO)] {
        let turn = connections.next(|_| idle, now);
        assert!(turn.given_up.is_empty() && turn.begun.is_empty());
    }
    let waiting = connections.waiting_for(&ResourceId::new("b2")).unwrap();
    assert_eq!(waiting.awaited, Awaited::Connection(1));
    let turn = connections.next(|machine| (machine == 1).then_some(PAUSE), now);
    assert_eq!(turn.given_up, [1]);
    assert_eq!(begun(&turn), [(2, "b"), (2, "b2")]);
    assert!(!is_admitted(&mut connections, 1, "one again"));
    let turn = connections.next(|_| Some(PAUSE), now);
    assert_eq!((turn.given_up, connections.is_wanted()), (vec![2], true));
    let turn = connections.next(|_| Some(PAUSE), now);
    assert_eq!(begun(&turn), [(1, "one again")]);
    assert!(!connections.is_wanted());
}

/// Given: machines that wait for one place, of which the last one has got something more urgent. Expected: it gets the place first,
/// and the others in their order after it; one that does not wait is none's concern.
#[test]
fn a_machine_with_something_more_urgent_goes_first() {
    let mut connections = Connections::new(1);
    assert!(is_admitted(&mut connections, 1, "one"));
    for (machine, name) in [(2, "b"), (3, "c"), (4, "d")] {
        assert!(!is_admitted(&mut connections, machine, name));
    }
    connections.hurry(4);
    connections.hurry(1);
    let mut order = Vec::new();
    while connections.is_wanted() {
        let turn = connections.next(|_| Some(PAUSE), |_| Begin::Now);
        order.extend(turn.begun.iter().map(|(machine, _)| *machine));
    }
    assert_eq!(order, [4, 2, 3]);
}

/// Given: a machine whose turn is over, while another one waits. Expected: what comes for it waits, too, and a moment without work
/// is enough to lose the place.
#[test]
fn a_turn_ends_though_there_is_always_more_to_do() {
    let mut connections = Connections::new(1);
    assert!(is_admitted(&mut connections, 1, "one"));
    assert!(!is_admitted(&mut connections, 2, "b"));
    let since = Instant::now().checked_sub(TURN).unwrap();
    connections.open.insert(1, since);
    assert!(!is_admitted(&mut connections, 1, "one more"));
    let turn = connections.next(|_| None, |_| Begin::Now);
    assert!(turn.begun.is_empty(), "it is at work");
    let turn = connections.next(|_| Some(Duration::ZERO), |_| Begin::Now);
    assert_eq!(
        (begun(&turn), &turn.given_up[..]),
        (vec![(2, "b")], &[1][..])
    );
}

/// Given: runs whose agent is paused, and runs that nobody wants any more. Expected: they take no place, and hold up nobody.
#[test]
fn what_may_not_begin_takes_no_place() {
    let mut connections = Connections::new(1);
    assert!(is_admitted(&mut connections, 1, "one"));
    for (machine, name) in [(2, "paused"), (3, "gone"), (4, "d")] {
        assert!(!is_admitted(&mut connections, machine, name));
    }
    connections.close(1);
    let may_begin = |task: &Task| match task.resource_id.as_str() {
        "paused" => Begin::Later,
        "gone" => Begin::Never("why".to_owned()),
        _ => Begin::Now,
    };
    let turn = connections.next(|_| None, may_begin);
    assert_eq!(begun(&turn), [(4, "d")]);
    assert_eq!(turn.ended.len(), 1);
    let waiting = connections.waiting_for(&ResourceId::new("paused")).unwrap();
    assert_eq!(waiting.awaited, Awaited::Permission);
    assert_eq!(connections.stop("it ends").len(), 1);
}

/// Given: any work for any machines. Expected: there are never more connections than places, and every run begins, once.
#[test]
fn everything_begins_once_and_places_are_never_exceeded() {
    let mut random = StdRng::seed_from_u64(14);
    for _ in 0..200 {
        let mut world = World::new(random.random_range(1..4));
        let n_runs = random.random_range(1..200);
        for n in 0..n_runs {
            world.hand_over(random.random_range(0..9), &n.to_string());
            if random.random_bool(0.4) {
                world.idle.insert(random.random_range(0..9));
            }
            world.go_on();
        }
        for _ in 0..n_runs {
            world.idle.extend(0..9);
            world.go_on();
        }
        assert_eq!(world.begun.len(), n_runs);
    }
}

struct World {
    connections: Connections,
    open: BTreeSet<Machine>,
    /// Machines without work.
    idle: BTreeSet<Machine>,
    begun: BTreeSet<String>,
}

impl World {
    fn new(most: usize) -> Self {
        Self {
            connections: Connections::new(most),
            open: BTreeSet::new(),
            idle: BTreeSet::new(),
            begun: BTreeSet::new(),
        }
    }

    fn hand_over(&mut self, machine: Machine, name: &str) {
        if is_admitted(&mut self.connections, machine, name) {
            self.begin(machine, name);
        }
    }

    fn begin(&mut self, machine: Machine, name: &str) {
        self.open.insert(machine);
        self.idle.remove(&machine);
        assert!(self.begun.insert(name.to_owned()), "once");
        assert!(self.open.len() <= self.connections.most);
    }

    fn go_on(&mut self) {
        let idle = &self.idle;
        let idle_for = |machine| idle.contains(&machine).then_some(PAUSE);
        let turn = self.connections.next(idle_for, |_| Begin::Now);
        for machine in &turn.given_up {
            assert!(self.open.remove(machine) && self.idle.contains(machine));
        }
        for (machine, name) in begun(&turn) {
            self.begin(machine, name);
        }
    }
}
