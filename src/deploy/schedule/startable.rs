//! The agents that can start something, by how urgent it is and what they need for it.
//!
//! Were all of them in one row, whoever pushes a change would wait for the turn of an agent that repairs what is good, while ten
//! thousand others do the same: the queue of each agent is in order, but it is not the agent's turn.
//!
//! An agent at work holds a *permit*, as of a semaphore: the executor on this machine has room for so many agents of one kind.
//! Whoever finds no room is passed over, and stands in its row until there is some: the number of agents that wait so costs nothing.
//! Who has more to do when a run ends keeps the permit for a turn, unless others have something more urgent.

use std::collections::BTreeSet;

use super::agents::AgentIndex;
use crate::domain::{ByPriority, Priority, Turns};

/// What an agent needs to be at work on this machine. Agents that need the same code are of one kind: those of code that
/// is being imported or installed, for minutes perhaps, take up no room of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permit(u32);

impl Permit {
    /// Of an agent that works elsewhere.
    pub const NONE: Self = Self(0);
    /// A thread for native handlers.
    pub const NATIVE: Self = Self(1);

    /// A Python host with the code of this number.
    pub fn python(code: usize) -> Self {
        Self(u32::try_from(code).map_or(u32::MAX, |code| code.saturating_add(2)))
    }
}

/// For how many agents of a kind there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub native: usize,
    /// Of each code.
    pub python: usize,
}

impl Default for Room {
    /// Without end.
    fn default() -> Self {
        Self {
            native: usize::MAX,
            python: usize::MAX,
        }
    }
}

/// What an agent could start now: how urgent it is, and which permit it needs first; one that is at work, or goes on, has its permit.
pub(super) type Next = (Priority, Permit);

/// Agents by what is first in their queues, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Startable {
    kinds: Vec<Kind>,
    /// The permits of which there are agents and room.
    open: ByPriority<BTreeSet<Permit>>,
    /// The permit with which each priority goes on.
    next: ByPriority<Permit>,
    turns: Turns,
    /// The rows that have had a turn since the end of the last one.
    used: BTreeSet<Next>,
    room: Room,
}

/// The agents that need one permit.
#[derive(Debug, Default)]
struct Kind {
    /// How many are at work.
    n_taken: usize,
    /// Those that could start something.
    rows: ByPriority<Row>,
}

#[derive(Debug, Default)]
struct Row {
    agents: BTreeSet<AgentIndex>,
    /// The agent with which this row goes on.
    turn: AgentIndex,
}

impl Startable {
    /// `true`: it was another one.
    pub(super) fn set_room(&mut self, room: Room) -> bool {
        if self.room == room {
            return false;
        }
        self.room = room;
        for number in 0..self.kinds.len() {
            self.note_room(Permit(number as u32));
        }
        true
    }

    /// Whether some agent that needs this permit has something more urgent than this.
    pub(super) fn is_more_urgent(&self, permit: Permit, priority: Priority) -> bool {
        let Some(kind) = self.kinds.get(permit.0 as usize) else {
            return false;
        };
        let more_urgent = Priority::ALL.into_iter().take_while(|one| *one < priority);
        let mut rows = more_urgent.map(|one| kind.rows.of(one));
        rows.any(|row| !row.agents.is_empty())
    }

    /// An agent with this permit begins to work.
    pub(super) fn take(&mut self, permit: Permit) {
        self.kind(permit).n_taken += 1;
        if !self.has_room(permit) {
            self.note_room(permit);
        }
    }

    /// An agent with this permit is at rest.
    pub(super) fn give_back(&mut self, permit: Permit) {
        let had_room = self.has_room(permit);
        self.kind(permit).n_taken -= 1;
        if !had_room {
            self.note_room(permit);
        }
    }

    /// What an agent can start has changed; `None`: nothing.
    pub(super) fn change(&mut self, agent: AgentIndex, was: Option<Next>, is: Option<Next>) {
        if was == is {
            return;
        }
        if let Some((priority, permit)) = was {
            let row = self.kind(permit).rows.of_mut(priority);
            row.agents.remove(&agent);
            self.note(priority, permit);
        }
        if let Some((priority, permit)) = is {
            let row = self.kind(permit).rows.of_mut(priority);
            row.agents.insert(agent);
            self.note(priority, permit);
        }
    }

    /// The agent whose turn it is. It stays so in its row as long as it can start something.
    pub(super) fn next(&mut self) -> Option<AgentIndex> {
        let open = &self.open;
        let priority = self.turns.next(|one| !open.of(one).is_empty())?;
        let open = self.open.of(priority);
        let mut from_here = open.range(*self.next.of(priority)..);
        let permit = *from_here.next().or_else(|| open.first())?;
        *self.next.of_mut(priority) = Permit(permit.0.wrapping_add(1));
        let row = self.kind(permit).rows.of_mut(priority);
        let mut from_here = row.agents.range(row.turn..);
        let agent = *from_here.next().or_else(|| row.agents.first())?;
        row.turn = agent;
        self.used.insert((priority, permit));
        Some(agent)
    }

    /// No more is started for now. `is_full`: though more could be; then another agent comes first the next time, also if this one
    /// can start something again by then.
    pub(super) fn end_of_turn(&mut self, is_full: bool) {
        for (priority, permit) in std::mem::take(&mut self.used) {
            if is_full {
                let row = self.kind(permit).rows.of_mut(priority);
                row.turn = row.turn.next();
            }
        }
    }

    fn kind(&mut self, permit: Permit) -> &mut Kind {
        let number = permit.0 as usize;
        if number >= self.kinds.len() {
            self.kinds.resize_with(number + 1, Kind::default);
        }
        &mut self.kinds[number]
    }

    fn has_room(&self, permit: Permit) -> bool {
        let most = match permit {
            Permit::NONE => usize::MAX,
            Permit::NATIVE => self.room.native,
            _ => self.room.python,
        };
        let kind = self.kinds.get(permit.0 as usize);
        kind.is_none_or(|kind| kind.n_taken < most)
    }

    /// There is room for one kind of agents, and there was none; or the other way round.
    fn note_room(&mut self, permit: Permit) {
        for priority in Priority::ALL {
            self.note(priority, permit);
        }
    }

    fn note(&mut self, priority: Priority, permit: Permit) {
        let is_open =
            self.has_room(permit) && !self.kind(permit).rows.of(priority).agents.is_empty();
        let open = self.open.of_mut(priority);
        match is_open {
            true => open.insert(permit),
            false => open.remove(&permit),
        };
    }
}
