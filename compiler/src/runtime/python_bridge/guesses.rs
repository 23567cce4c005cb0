//! Calls of plugins that only compute, made with what open relations hold now.
//!
//! # What for
//!
//! A plugin that goes through a relation waits until it is complete, and relations are declared complete one by one, when
//! nothing else can run (`scheduler/wait_queue.rs`). So of a thousand calls that each read a relation of their own, one is ready
//! at a time, and none can go ahead with another (`ahead`):
//!
//! ```text
//! wait queue   a.parts · b.parts · c.parts · …       f(a), f(b), f(c) … wait for one of them each
//! freeze       a.parts → f(a) runs → freeze b.parts → f(b) runs → …
//! ```
//!
//! But most of these relations will be complete as they are. So when such a call goes, those that wait for the next relations
//! of the queue go with it, each with what its relation holds now. Their answers are not taken as results: they are kept as
//! those of earlier compiles are (`remembered`), by the plugin, its arguments and all values that it has read. When the turn of
//! such a call comes, the model is read, and the answer counts if it is that of what is there.
//!
//! # Why nobody notices
//!
//! Only calls of plugins that do nothing but compute are made so, which Python has found out (`purity.py`) and said with an
//! answer. It does not matter how often or in which order they are called, and what they give for the same is the same. What
//! Python was told of an open relation it forgets behind the call: any other that reads it is told that it has no value yet.
//! What a call that was a guess prints, logs or raises counts for nothing.
//!
//! A guess that is of no use costs what a call costs. So a plugin has few at first, more as long as they are of use, and no more
//! when they were not ([`Guesses`]).

use crate::hash::Map;
use crate::hir::plugin::{Body, Bound};
use crate::hir::{Callee, ExprKind, PluginId};
use crate::protocol::FromHost;
use crate::protocol::calls::Marshal;
use crate::runtime::exec::calls::{Site, Way};
use crate::runtime::python_bridge::call::When;
use crate::runtime::python_bridge::remembered::{Answer, Computation};
use crate::runtime::{Action, Machine, TaskId, VarId, VarKind};
use crate::types::Value;

/// Guesses that go with a call at most.
const MOST: usize = 63;
/// How many go with the first one of a plugin.
const FIRST: usize = 4;
/// Bytes of a frame: as of calls that go ahead.
const MOST_BYTES: usize = 32 << 10;
/// Variables of the wait queue that are looked at for one frame.
const MOST_VARIABLES: usize = 256;

/// What becomes of guesses, by plugin.
#[derive(Default)]
pub(in crate::runtime) struct Guesses {
    of: Map<PluginId, Record>,
}

#[derive(Clone, Copy)]
struct Record {
    /// How many go with the next call.
    n_next: usize,
    /// How many went with the last one.
    n_sent: usize,
    /// Answers that were of use since.
    n_used: usize,
}

impl Record {
    const NEW: Record = Record {
        n_next: FIRST,
        n_sent: 0,
        n_used: 0,
    };

    /// The number of those that go now.
    fn step(&mut self) -> usize {
        if self.n_sent > 0 {
            self.n_next = match self.n_used * 4 >= self.n_sent * 3 {
                true => (self.n_next * 2).min(MOST),
                false => self.n_next / 4,
            };
        }
        (self.n_sent, self.n_used) = (0, 0);
        self.n_next
    }
}

impl Guesses {
    /// A call of this plugin need not be made, since its answer is known.
    pub fn count_use(&mut self, plugin: PluginId) {
        if let Some(record) = self.of.get_mut(&plugin) {
            record.n_used += 1;
        }
    }
}

/// One call that is a guess, and was sent.
pub(in crate::runtime) struct Guess {
    id: u64,
    site: Site,
    bound: Bound,
    /// What Python was given as the values of open relations.
    assumed: Vec<(VarId, Option<Value>)>,
}

impl Machine<'_> {
    /// Writes guesses behind a call that goes now and that nothing else goes with.
    pub(super) fn guess(&mut self, first: PluginId, out: &mut Marshal) -> Vec<Guess> {
        let mut guesses = Vec::new();
        let n_most = self.most_guesses(first);
        if n_most == 0 {
            return guesses;
        }
        let waiting: Vec<VarId> = self.scheduler.queue.next(MOST_VARIABLES).collect();
        for open in waiting {
            let is_open = !self.state.var(open).is_ready()
                && self.state.potential(open) > 0
                && self.state.open(open) == 0;
            if !is_open {
                continue;
            }
            let tasks: Vec<TaskId> = self.state.waiters(open).take(2).collect();
            // Where more wait, what the first one makes may bring elements.
            let [task] = tasks[..] else {
                continue;
            };
            if let Some((site, bound)) = self.guessable(task) {
                guesses.push(self.write_guess(site, bound, out));
                if guesses.len() == n_most || out.len() > MOST_BYTES {
                    break;
                }
            }
        }
        if let Some(record) = self.python.guesses.of.get_mut(&first) {
            record.n_sent = guesses.len();
        }
        guesses
    }

    /// Writes the next calls in conditions of types behind one that goes now.
    pub(super) fn guess_conditions(&mut self, first: PluginId, out: &mut Marshal) -> Vec<Guess> {
        let n_most = self.most_guesses(first);
        if n_most == 0 {
            return Vec::new();
        }
        let mut guesses = Vec::new();
        for (site, bound) in self.next_conditions(first, n_most) {
            guesses.push(self.write_guess(site, bound, out));
            if out.len() > MOST_BYTES {
                break;
            }
        }
        if let Some(record) = self.python.guesses.of.get_mut(&first) {
            record.n_sent = guesses.len();
        }
        guesses
    }

    /// How many guesses may go with a call of a plugin now.
    fn most_guesses(&mut self, plugin: PluginId) -> usize {
        if !self.only_answers(plugin) {
            return 0;
        }
        let record = self.python.guesses.of.entry(plugin);
        record.or_insert(Record::NEW).step()
    }

    /// Whether a plugin is known to do nothing but compute.
    pub(super) fn only_answers(&self, plugin: PluginId) -> bool {
        let name = self.program.text(self.program.plugins[plugin.index()].name);
        let memo = self.python.memo.as_ref();
        memo.is_some_and(|memo| memo.verdicts().get(name) == Some(&true))
    }

    /// The call that a task makes, if one open variable is all that it waits for.
    fn guessable(&mut self, task: TaskId) -> Option<(Site, Bound)> {
        let waiting = self.scheduler.task(task);
        let Action::Call { expr, scope, .. } = waiting.action else {
            return None;
        };
        let (ExprKind::Call(id) | ExprKind::Cast(id)) = self.program.expr(expr).kind else {
            return None;
        };
        let call = &self.program.calls[id.index()];
        let Callee::Plugin(plugin) = call.callee else {
            return None;
        };
        let is_python = matches!(self.program.plugins[plugin.index()].body, Body::Python);
        if waiting.pending.missing() != 1 || !is_python || !self.only_answers(plugin) {
            return None;
        }
        let site = Site {
            call: Some(id),
            scope,
            plugin,
            loc: call.loc,
            way: Way::Alone,
        };
        // It was made before, and has said what it waits for.
        let arguments = self.exec.arguments_of(task)?;
        (!arguments.unknown).then_some((site, arguments.bound))
    }

    fn write_guess(&mut self, site: Site, bound: Bound, out: &mut Marshal) -> Guess {
        let (id, assumed) = self.write_call(site, &bound, When::Guessed, out);
        Guess {
            id,
            site,
            bound,
            assumed,
        }
    }

    /// What an open relation would be if it were complete now; `None`: it is no relation, or is not enough.
    pub(super) fn as_it_is(&mut self, slot: VarId) -> Option<Value> {
        match self.state.known(slot).kind() {
            VarKind::Optional => Some(Value::Null),
            VarKind::List => {
                let elements = self.state.elements(slot).to_vec();
                let least = self.state.relation(slot).low as usize;
                (elements.len() >= least).then(|| self.state.heap.new_list(&elements))
            }
            _ => None,
        }
    }

    /// Whether a variable stays without a value until it is declared complete.
    pub(super) fn stays_open(&self, slot: VarId) -> bool {
        self.state.known(slot).kind() == VarKind::List && self.state.relation(slot).high.is_none()
    }

    /// Takes the answers to guesses, which come right behind that to the call that they went with.
    pub(super) fn take_guesses(&mut self, guesses: Vec<Guess>) {
        let (site, loc) = (self.python.site, self.python.loc);
        self.python.ahead.is_abandoned = true;
        for guess in guesses {
            (self.python.site, self.python.loc) = (Some(guess.site), guess.site.loc);
            let answer = self.with_host(|host, callbacks| host.answer(callbacks));
            match answer {
                Ok(FromHost::Computed {
                    id,
                    value,
                    reads,
                    logged,
                }) if id == guess.id => {
                    let Guess {
                        site,
                        bound,
                        assumed,
                        ..
                    } = guess;
                    let found = Answer {
                        value: &value,
                        reads: &reads,
                        logged: &logged,
                    };
                    self.remember(Computation::Call(site, &bound), found, &assumed);
                }
                Ok(FromHost::Unset { .. } | FromHost::Result { is_last: false, .. }) => {}
                // Python has made none of those behind it.
                _ => break,
            }
        }
        self.python.ahead.is_abandoned = false;
        (self.python.site, self.python.loc) = (site, loc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_become_more_while_they_are_of_use_and_end_when_they_are_not() {
        let mut record = Record::NEW;
        let mut sent = Vec::new();
        for _ in 0..6 {
            let n_sent = record.step();
            sent.push(n_sent);
            (record.n_sent, record.n_used) = (n_sent, n_sent);
        }
        assert_eq!(sent, [4, 8, 16, 32, 63, 63]);
        for _ in 0..4 {
            record.n_used = 0;
            record.n_sent = record.step();
        }
        assert_eq!(record.n_next, 0);
        // There was nothing to guess: no reason for fewer.
        let mut record = Record::NEW;
        assert_eq!([record.step(), record.step()], [4, 4]);
    }
}
