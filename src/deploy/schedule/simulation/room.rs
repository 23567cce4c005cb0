//! Room for so many agents at work: which permit each needs, and how many there are of each.

use std::collections::BTreeMap;

use rand::Rng;

use super::super::{Permit, Room};
use super::life::{Life, agents};
use crate::domain::AgentName;

/// What the executor has room for; at first for all.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    permits: BTreeMap<AgentName, Permit>,
    room: Room,
}

impl Rooms {
    fn permit_of(&self, agent: &AgentName) -> Permit {
        self.permits.get(agent).copied().unwrap_or_default()
    }
}

impl Life {
    /// Another executor, or other code.
    pub(super) fn change_room(&mut self) {
        let mut most = || [1, 1, 2, usize::MAX][self.random.random_range(0..4)];
        self.rooms.room = Room {
            native: most(),
            python: most(),
        };
        let permits = [
            Permit::NONE,
            Permit::NATIVE,
            Permit::python(0),
            Permit::python(1),
        ];
        for agent in agents() {
            let permit = permits[self.random.random_range(0..permits.len())];
            self.rooms.permits.insert(agent, permit);
        }
    }

    /// Says so to the schedule, which does not know it after a start, and has new agents.
    pub(super) fn apply_room(&mut self) {
        self.schedule.set_room(self.rooms.room);
        self.schedule
            .set_permits(|agent, _| self.rooms.permit_of(agent));
    }

    /// Whether an agent at rest may begin to work.
    pub(super) fn has_room(&self, agent: &AgentName) -> bool {
        let permit = self.rooms.permit_of(agent);
        let most = match permit {
            Permit::NONE => return true,
            Permit::NATIVE => self.rooms.room.native,
            _ => self.rooms.room.python,
        };
        let at_work =
            |one: &AgentName| self.naive.n_running(one) > 0 && self.rooms.permit_of(one) == permit;
        agents().filter(at_work).count() < most
    }
}
