//! Variables that get their values bit by bit, or none: lists, optionals, list literals.
//! Source: docs/reference/language.md § 5.2, § 8.7, § 8.10.

use crate::diagnostics::Fail;
use crate::hash::Set;
use crate::runtime::{Chain, ListenerId, Machine, VarId, VarKind};
use crate::span::Loc;
use crate::types::Value;

/// What is known of a variable whose value is not complete. Variables that nobody uses have none.
pub(in crate::runtime) struct Delayed {
    /// Most relations have one member.
    pub elements: smallvec::SmallVec<[Value; 1]>,
    pub rare: Option<Box<ListState>>,
    pub chain: Chain,
    /// Position in the parked list, from 1; 0: it is not there.
    pub parked: u32,
    pub waiters: i32,
    /// Waits that are purely gradual.
    pub streaming: i32,
    pub open: u32,
    /// Items of a list literal that were not delivered yet.
    pub items: u32,
    /// Creation of the first waiter as the candidates know it.
    pub candidate_seq: u32,
    pub in_reactivated: bool,
    pub in_candidates: bool,
}

const _: () = assert!(size_of::<Delayed>() == 64);

/// What few delayed variables have.
#[derive(Default)]
pub(in crate::runtime) struct ListState {
    pub listeners: smallvec::SmallVec<[ListenerId; 4]>,
    /// Keys of the elements, once there are many.
    pub known: Set<u64>,
}

impl Delayed {
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

    fn contains(&mut self, item: Value) -> bool {
        const SEARCHABLE: usize = 16;
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

fn element_key(value: Value) -> Option<u64> {
    match value {
        Value::Instance(id) => Some(u64::from(id.0)),
        Value::Unknown(id) => Some(u64::from(id.0) | 1 << 40),
        Value::Opaque(id) => Some(u64::from(id) | 1 << 41),
        _ => None,
    }
}

impl Machine<'_> {
    /// Declares that no more values come.
    pub(in crate::runtime) fn freeze(&mut self, id: VarId) -> Result<(), Fail> {
        let value = match self.known(id).kind() {
            VarKind::Optional => Value::Null,
            _ => match self.delayed(id) {
                Some(delayed) if !delayed.elements.is_empty() => {
                    let index = self.known(id).link().unwrap_or_default();
                    self.heap.new_list(&self.delayed[index as usize].elements)
                }
                _ => self.empty_list,
            },
        };
        self.freeze_as(id, value, Loc::NONE);
        Ok(())
    }

    pub(in crate::runtime) fn freeze_as(&mut self, id: VarId, value: Value, loc: Loc) {
        let parked = self.parked(id);
        let var = &mut self.vars[id.index()];
        let link = var.link();
        var.set(value, loc, &mut self.heap);
        if parked > 0 {
            self.queue.unpark(parked);
        }
        let Some(index) = link else {
            return;
        };
        let delayed = &mut self.delayed[index as usize];
        let chain = delayed.chain;
        *delayed = Delayed::new();
        self.free_delayed.push(index);
        self.notify_all(chain);
    }

    /// What is known of a delayed variable that is not complete; none: nobody used it yet.
    pub(in crate::runtime) fn delayed(&self, id: VarId) -> Option<&Delayed> {
        let index = self.known(id).link()?;
        self.delayed.get(index as usize)
    }

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

    /// Of a delayed variable that is not complete: position in the parked list, from 1; 0: it is not there.
    #[inline]
    pub(in crate::runtime) fn parked(&self, id: VarId) -> u32 {
        match self.delayed(id) {
            Some(delayed) => delayed.parked,
            None => self.known(id).parked(),
        }
    }

    pub(in crate::runtime) fn set_parked(&mut self, id: VarId, position: u32) {
        match self.known(id).link() {
            Some(index) => self.delayed[index as usize].parked = position,
            None => self.vars[id.index()].set_parked(position),
        }
    }

    /// What was added to a list that is not complete.
    pub(in crate::runtime) fn elements(&self, id: VarId) -> &[Value] {
        self.delayed(id).map_or(&[], |delayed| &delayed.elements)
    }

    /// Number of promises that were made and not kept.
    #[inline]
    pub(in crate::runtime) fn open(&self, id: VarId) -> u32 {
        if self.known(id).is_ready() {
            return 0;
        }
        self.delayed(id).map_or(0, |delayed| delayed.open)
    }

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

    pub(in crate::runtime) fn is_delayed(&self, id: VarId) -> bool {
        self.known(id).kind().is_delayed()
    }

    /// Registers a promise; false: the variable takes none.
    pub(in crate::runtime) fn promise(&mut self, id: VarId) -> bool {
        if !self.is_delayed(id) || self.var(id).is_ready() {
            return false;
        }
        self.delayed_mut(id).open += 1;
        self.potential_changed(id);
        true
    }

    pub(in crate::runtime) fn fulfil(&mut self, id: VarId) {
        if self.var(id).is_ready() || !self.is_delayed(id) {
            return;
        }
        let delayed = self.delayed_mut(id);
        delayed.open = delayed.open.saturating_sub(1);
        self.enqueue_if_complete(id);
    }

    pub(in crate::runtime) fn enqueue_if_complete(&mut self, id: VarId) {
        if self.can_freeze(id) {
            self.enqueue(id);
        }
    }
}
