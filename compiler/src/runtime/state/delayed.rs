//! Variables that get their values bit by bit, or none: relations with many elements or none, list
//! literals that are streamed. Source: docs/reference/language.md § 5.2, § 8.7, § 8.10.
//!
//! Such a variable has its value only when it is *frozen*: by the main loop
//! (`scheduler/wait_queue.rs`), because it is full, because it was set (an optional), or because
//! all its items have come (a list literal). Until then it collects: elements, those who wait,
//! those who listen, promises. This file has the collecting, and the counts by which the main loop
//! chooses.
//!
//! Nearly all relations of a large model are never looked at before they are frozen, empty:
//! `requires`, `provides`, the other side of an inverse. They have no [`Delayed`] at all: the 8
//! bytes of the variable itself say that it waits, is in the wait queue, and where it is parked.
//! [`ModelState::delayed_mut`] makes one when there is something to note, and freezing gives it back.

use crate::diagnostics::Fail;
use crate::hash::Set;
use crate::runtime::{Chain, ListenerId, Machine, ModelState, VarId, VarKind};
use crate::span::Loc;
use crate::types::{ListId, Value};

/// What is known of a delayed variable that is not complete. Variables of which nothing is known
/// have none. 64 bytes: one line of the cache.
pub(in crate::runtime) struct Delayed {
    /// Its elements so far, in order of arrival. One is kept in place, since most relations have
    /// one.
    pub elements: smallvec::SmallVec<[Value; 1]>,
    /// Listeners and the search table, which few have.
    pub rare: Option<Box<ListState>>,
    /// The tasks that wait for it.
    pub chain: Chain,
    /// Position in the parked list, from 1; 0: it is not there.
    pub parked: u32,
    /// Number of tasks that wait for it to be complete. An `is defined` that was answered early is
    /// not counted any more, though it stays in the chain.
    pub waiters: i32,
    /// Number of listeners whose waits do not count (all but `is defined`): they got each element
    /// already. See [`ModelState::potential`].
    pub streaming: i32,
    /// Promises that were made and not kept.
    pub open: u32,
    /// Items of a list literal that were not delivered yet.
    pub items: u32,
    /// The number by creation of its oldest waiter, as the candidates of step C are sorted by; 0:
    /// it is looked up when it matters.
    pub candidate_seq: u32,
    /// It has an entry on the list of step B.
    pub in_reactivated: bool,
    /// It has an entry among the candidates of step C.
    pub in_candidates: bool,
}

const _: () = assert!(size_of::<Delayed>() == 64);

/// What few delayed variables have.
#[derive(Default)]
pub(in crate::runtime) struct ListState {
    /// Who gets each new element, in order of registration.
    pub listeners: smallvec::SmallVec<[ListenerId; 4]>,
    /// The elements' keys ([`element_key`]), once there are so many that a search through all of
    /// them would be slow.
    pub known: Set<u64>,
}

/// The elements of a complete relation, for who adds one of them again. A comprehension does that with each
/// element: it gives them as they come, and all of them at its end.
#[derive(Default)]
pub(in crate::runtime) struct FrozenMembers {
    /// How often it was searched before there was a table.
    searches: usize,
    /// The elements' keys ([`element_key`]), once it has been searched often.
    known: Set<u64>,
}

impl Delayed {
    /// Nothing is known.
    pub fn new() -> Delayed {
        Delayed {
            elements: smallvec::SmallVec::new(),
            rare: None,
            chain: Chain::EMPTY,
            parked: 0,
            waiters: 0,
            streaming: 0,
            open: 0,
            items: 0,
            candidate_seq: 0,
            in_reactivated: false,
            in_candidates: false,
        }
    }
}

impl Delayed {
    /// What few of them have, made now if it was not there.
    pub(in crate::runtime) fn rare(&mut self) -> &mut ListState {
        self.rare.get_or_insert_default()
    }

    /// A further element of a relation; false: it is there already.
    pub(in crate::runtime) fn add(&mut self, item: Value) -> bool {
        if self.contains(item) {
            return false;
        }
        self.elements.push(item);
        if let (Some(rare), Some(key)) = (&mut self.rare, element_key(item))
            && !rare.known.is_empty()
        {
            rare.known.insert(key);
        }
        true
    }

    /// Whether an element is there already. Up to 16 it is a search, beyond that a table that is
    /// made the first time.
    fn contains(&mut self, item: Value) -> bool {
        let key = element_key(item);
        if self.elements.len() < SEARCHABLE {
            return self
                .elements
                .iter()
                .any(|element| element_key(*element) == key);
        }
        let rare = self.rare.get_or_insert_default();
        if rare.known.is_empty() {
            let keys = self.elements.iter();
            rare.known
                .extend(keys.filter_map(|element| element_key(*element)));
        }
        key.is_some_and(|key| rare.known.contains(&key))
    }
}

/// Elements up to which a search through all of them is quick.
const SEARCHABLE: usize = 16;

/// What identifies an element of a relation: which instance, Unknown or Python object it is. Other
/// values are no elements.
fn element_key(value: Value) -> Option<u64> {
    match value {
        Value::Instance(id) => Some(u64::from(id.0)),
        Value::Unknown(id) => Some(u64::from(id.0) | 1 << 40),
        Value::Opaque(id) => Some(u64::from(id) | 1 << 41),
        _ => None,
    }
}

impl ModelState<'_> {
    /// What is known of a delayed variable that is not complete; none: nobody used it yet.
    pub(in crate::runtime) fn delayed(&self, id: VarId) -> Option<&Delayed> {
        let index = self.known(id).link()?;
        self.delayed.get(index as usize)
    }

    /// What is known of a delayed variable that is not complete, made now if nothing was known
    /// before.
    pub(in crate::runtime) fn delayed_mut(&mut self, id: VarId) -> &mut Delayed {
        debug_assert!(!self.var(id).is_ready(), "it is complete");
        let var = &mut self.vars[id.index()];
        let index = var.link().unwrap_or_else(|| {
            let index = self.free_delayed.pop().unwrap_or_else(|| {
                self.delayed.push(Delayed::new());
                self.delayed.len() as u32 - 1
            });
            self.delayed[index as usize].parked = var.parked();
            var.set_link(index);
            index
        });
        &mut self.delayed[index as usize]
    }

    /// The position in the parked list of a delayed variable that is not complete, from 1; 0: it is
    /// not there.
    #[inline]
    pub(in crate::runtime) fn parked(&self, id: VarId) -> u32 {
        match self.delayed(id) {
            Some(delayed) => delayed.parked,
            None => self.known(id).parked(),
        }
    }

    /// Notes where in the parked list a variable is; 0: nowhere.
    pub(in crate::runtime) fn set_parked(&mut self, id: VarId, position: u32) {
        match self.known(id).link() {
            Some(index) => self.delayed[index as usize].parked = position,
            None => self.vars[id.index()].set_parked(position),
        }
    }

    /// Whether a value is in a relation that is complete. The table of a large one is made when it has been searched some
    /// times, so that a search of each of many lists does not cost as many tables.
    pub(in crate::runtime) fn is_among_frozen(
        &mut self,
        id: VarId,
        list: ListId,
        item: Value,
    ) -> bool {
        let elements = self.heap.list(list);
        if elements.len() <= SEARCHABLE {
            return elements
                .iter()
                .any(|element| self.heap.equal(*element, item));
        }
        let members = self.frozen_members.entry(id).or_default();
        if members.searches < SEARCHABLE {
            members.searches += 1;
            return elements
                .iter()
                .any(|element| self.heap.equal(*element, item));
        }
        if members.known.is_empty() {
            let keys = elements.iter();
            members
                .known
                .extend(keys.filter_map(|element| element_key(*element)));
        }
        element_key(item).is_some_and(|key| members.known.contains(&key))
    }

    /// What was added to a list that is not complete.
    pub(in crate::runtime) fn elements(&self, id: VarId) -> &[Value] {
        self.delayed(id).map_or(&[], |delayed| &delayed.elements)
    }

    /// Number of promises on a variable that were made and not kept; none if it is complete.
    #[inline]
    pub(in crate::runtime) fn open(&self, id: VarId) -> u32 {
        if self.known(id).is_ready() {
            return 0;
        }
        self.delayed(id).map_or(0, |delayed| delayed.open)
    }

    /// How much declaring the variable complete would help: the number of tasks that wait for the
    /// whole value, and one more for the first side of a rule of the precedence policy. Only "above
    /// zero" matters. A consumer that gets each element as it comes (a `for`, a relation that takes
    /// the elements of another) waits for completeness, too, but does not need it to go on: it
    /// counts once as a waiter and once as streaming, which is zero. List literals count as zero,
    /// since they freeze themselves.
    pub(in crate::runtime) fn potential(&self, id: VarId) -> i32 {
        let var = self.known(id);
        // The literal of a list knows when it is complete.
        if var.kind() == VarKind::Literal {
            return 0;
        }
        let before = !self.program.policy.is_empty()
            && var.is_slot()
            && self.program.attribute(self.attr(id)).before_others;
        let waits = self
            .delayed(id)
            .map_or(0, |delayed| delayed.waiters - delayed.streaming);
        waits + i32::from(before)
    }

    /// Whether the variable could be complete as it is: no promise is open, and a list has as many
    /// elements as it has to have at least.
    #[inline]
    pub(in crate::runtime) fn can_freeze(&self, id: VarId) -> bool {
        let var = self.var(id);
        if var.is_ready() || self.open(id) > 0 {
            return false;
        }
        match var.kind() {
            VarKind::List => self.elements(id).len() >= self.relation(id).low as usize,
            VarKind::Optional => true,
            _ => false,
        }
    }

    /// Whether a variable is complete only when it is declared to be.
    pub(in crate::runtime) fn is_delayed(&self, id: VarId) -> bool {
        self.known(id).kind().is_delayed()
    }
}

impl Machine<'_> {
    /// Declares that no more values come: an optional variable has none (null), a list has what
    /// came so far.
    pub(in crate::runtime) fn freeze(&mut self, id: VarId) -> Result<(), Fail> {
        let value = match self.state.known(id).kind() {
            VarKind::Optional => Value::Null,
            _ => match self.state.delayed(id) {
                Some(delayed) if !delayed.elements.is_empty() => {
                    let index = self.state.known(id).link().unwrap_or_default();
                    self.state
                        .heap
                        .new_list(&self.state.delayed[index as usize].elements)
                }
                _ => self.state.empty_list,
            },
        };
        self.freeze_as(id, value, Loc::NONE);
        Ok(())
    }

    /// Makes a delayed variable complete with this value, takes it off the parked list, and tells
    /// those who wait. Its place in the wait queue goes stale, and is skipped there.
    pub(in crate::runtime) fn freeze_as(&mut self, id: VarId, value: Value, loc: Loc) {
        let parked = self.state.parked(id);
        let var = &mut self.state.vars[id.index()];
        let link = var.link();
        var.set(value, loc, &mut self.state.heap);
        if parked > 0 {
            self.scheduler.queue.unpark(parked);
        }
        let Some(index) = link else {
            return;
        };
        let delayed = &mut self.state.delayed[index as usize];
        let chain = delayed.chain;
        *delayed = Delayed::new();
        self.state.free_delayed.push(index);
        self.scheduler.notify_all(&mut self.state, chain);
    }

    /// Registers a promise to add to a variable; false: it is complete, or of a kind that takes
    /// none.
    pub(in crate::runtime) fn promise(&mut self, id: VarId) -> bool {
        if !self.state.is_delayed(id) || self.state.var(id).is_ready() {
            return false;
        }
        self.state.delayed_mut(id).open += 1;
        self.potential_changed(id);
        true
    }

    /// Keeps a promise: the value is there, or will not come this way. If it was the last one, the
    /// variable may go to the wait queue.
    pub(in crate::runtime) fn fulfil(&mut self, id: VarId) {
        if self.state.var(id).is_ready() || !self.state.is_delayed(id) {
            return;
        }
        let delayed = self.state.delayed_mut(id);
        delayed.open = delayed.open.saturating_sub(1);
        self.enqueue_if_complete(id);
    }

    /// Puts a variable into the wait queue that could be complete as it is.
    pub(in crate::runtime) fn enqueue_if_complete(&mut self, id: VarId) {
        if self.state.can_freeze(id) {
            self.enqueue(id);
        }
    }
}
