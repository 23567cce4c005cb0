//! Which machines have a connection by ssh, at most so many at once, and the runs that wait for one.
//!
//! A connection takes a process here and one there, and this program has to go over first: some ten megabytes. So one that is
//! there stays as long as nobody else needs its place, and ten thousand machines take turns at the places there are.
//!
//! A machine *waits* while it has runs and no connection. They begin together when a place is free, or when a connection can be
//! given up for it: one without work, that has been without any for longest. Between two runs of a machine there is always a moment
//! without work; it counts only after a [`PAUSE`], or when the [`TURN`] of its machine is over. Whoever has had a turn waits like all
//! the others, behind them. So every machine gets its turn, whatever the others have to do.
//! Source: docs/reference/deployment.md § 5.12.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::{ResourceId, Timestamp};
use crate::executor::agent_code::AgentCode;
use crate::executor::link::TaskResult;
use crate::executor::protocol::Task;
use crate::executor::waiting::{Awaited, Begin, Waiting, WaitingRun, not_begun};

/// How long a connection has no work before another machine gets its place.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a machine with one run after another keeps its connection while others wait.
const TURN: Duration = Duration::from_secs(20);
/// How often it is looked whether a place is free, while machines wait.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// A machine, by the number of its executor.
pub(super) type Machine = usize;

/// The connections of one environment.
#[derive(Debug)]
pub(super) struct Connections {
    /// How many there may be at once.
    most: usize,
    /// The machines that have one, and since when their turns last.
    open: HashMap<Machine, Instant>,
    /// The machines that wait, in the order in which they came; each is in `runs`.
    turns: VecDeque<Machine>,
    runs: HashMap<Machine, Vec<(Waiting, WaitingRun)>>,
}

/// What is decided of the runs that wait.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Connections that are given up, before anything begins.
    pub(super) given_up: Vec<Machine>,
    pub(super) begun: Vec<(Machine, WaitingRun)>,
    pub(super) ended: Vec<TaskResult>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            open: HashMap::new(),
            turns: VecDeque::new(),
            runs: HashMap::new(),
        }
    }

    /// Takes a run for a machine; gives it back if it may begin, else it waits.
    pub(super) fn admit(
        &mut self,
        machine: Machine,
        task: Task,
        code: &Arc<AgentCode>,
    ) -> Option<Task> {
        if self.may_pass(machine) {
            return Some(task);
        }
        let code = Arc::clone(code);
        let waiting = Waiting {
            since: Timestamp::now(),
            awaited: Awaited::Connection(self.most),
        };
        let runs = self.runs.entry(machine).or_default();
        if runs.is_empty() {
            self.turns.push_back(machine);
        }
        runs.push((waiting, WaitingRun { task, code }));
        None
    }

    fn may_pass(&mut self, machine: Machine) -> bool {
        if self.runs.contains_key(&machine) {
            return false;
        }
        let nobody_waits = self.turns.is_empty();
        match self.open.get(&machine) {
            Some(since) => nobody_waits || since.elapsed() < TURN,
            None if nobody_waits && self.open.len() < self.most => {
                self.open.insert(machine, Instant::now());
                true
            }
            None => false,
        }
    }

    /// A machine that waits has got something more urgent than its runs: it goes before all others.
    pub(super) fn hurry(&mut self, machine: Machine) {
        if let Some(place) = self.turns.iter().position(|one| *one == machine)
            && let Some(machine) = self.turns.remove(place)
        {
            self.turns.push_front(machine);
        }
    }

    /// A machine has no connection any more, or got none.
    pub(super) fn close(&mut self, machine: Machine) {
        self.open.remove(&machine);
    }

    /// Whether machines wait.
    pub(super) fn is_wanted(&self) -> bool {
        !self.turns.is_empty()
    }

    /// What a run of a resource waits for.
    pub(super) fn waiting_for(&self, resource_id: &ResourceId) -> Option<Waiting> {
        let mut runs = self.runs.values().flatten();
        let (waiting, _) = runs.find(|(_, run)| run.task.resource_id == *resource_id)?;
        Some(*waiting)
    }

    /// Gives machines that wait their turns, as far as there are places. `idle_for`: how long the connection of a machine has had
    /// no work, if it has none now.
    pub(super) fn next(
        &mut self,
        idle_for: impl Fn(Machine) -> Option<Duration>,
        may_begin: impl Fn(&Task) -> Begin,
    ) -> Turn {
        let mut turn = Turn::default();
        let mut held_back = VecDeque::new();
        let began = Instant::now();
        while let Some(machine) = self.turns.pop_front() {
            let runs = self.runs.remove(&machine).unwrap_or_default();
            let (mut ready, mut later) = (Vec::new(), Vec::new());
            for (mut waiting, run) in runs {
                waiting.awaited = Awaited::Connection(self.most);
                match may_begin(&run.task) {
                    Begin::Now => ready.push((waiting, run)),
                    Begin::Later => {
                        waiting.awaited = Awaited::Permission;
                        later.push((waiting, run));
                    }
                    Begin::Never(why) => turn.ended.push(not_begun(&run.task, why)),
                }
            }
            let gets_place =
                !ready.is_empty() && self.take_place(machine, began, &idle_for, &mut turn);
            let is_first_without = !ready.is_empty() && !gets_place;
            if gets_place {
                let ready = ready.into_iter().map(|(_, run)| (machine, run));
                turn.begun.extend(ready);
            } else {
                later.extend(ready);
            }
            if !later.is_empty() {
                self.runs.insert(machine, later);
                held_back.push_back(machine);
            }
            // Nobody behind it gets a place before it does.
            if is_first_without {
                break;
            }
        }
        held_back.append(&mut self.turns);
        self.turns = held_back;
        turn
    }

    fn take_place(
        &mut self,
        machine: Machine,
        began: Instant,
        idle_for: impl Fn(Machine) -> Option<Duration>,
        turn: &mut Turn,
    ) -> bool {
        if !self.open.contains_key(&machine) && self.open.len() >= self.most {
            let open = self.open.iter().filter_map(|(machine, since)| {
                // One that got its place just now does not know of its work yet.
                let idle = idle_for(*machine).filter(|_| *since < began)?;
                (idle >= PAUSE || since.elapsed() >= TURN).then_some((idle, *machine))
            });
            let Some((_, longest)) = open.max() else {
                return false;
            };
            self.open.remove(&longest);
            turn.given_up.push(longest);
        }
        self.open.insert(machine, Instant::now());
        true
    }

    /// Ends all that waits.
    pub(super) fn stop(&mut self, message: &str) -> Vec<TaskResult> {
        self.turns.clear();
        self.open.clear();
        let runs = self.runs.drain().flat_map(|(_, runs)| runs);
        runs.map(|(_, run)| not_begun(&run.task, message.to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests;
