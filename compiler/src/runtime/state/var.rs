//! One variable of the model, in 8 bytes: a service has hundreds of them.
//!
//! The lower word says what the variable is: the state in 4 bits, the kind in 3, whether it is in
//! the wait queue and whether it is an attribute of an instance, and with a value the place in the
//! source where it was set. The upper word is the content: a value that fits (a boolean, an integer
//! of 32 bits, the number of an instance), or where in the heap the value lies. While there is no
//! value, the content is what waiting needs: the ring of tasks that wait, or the number of a
//! [`Delayed`](crate::runtime::state::delayed::Delayed).
//!
//! A variable is set once. Whoever has seen a value may keep it, at whatever time it is read again;
//! direct steps, calls that go ahead and attributes that travel to Python all rest on that.

use crate::runtime::VarId;
use crate::span::Loc;
use crate::types::reference::RefId;
use crate::types::{BigId, DictId, Heap, InstId, ListId, StrId, UnknownId, Value};

/// How a variable gets its value, and when it is ready. Source: docs/reference/language.md § 8.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum VarKind {
    /// A variable of a block, or a plain attribute: ready when it is set.
    Plain,
    /// The result of a part of an expression, read by one task.
    Temporary,
    /// The loop variable of a comprehension. If somebody listens, it delivers its value when the
    /// dependencies of the expression that reads it are found.
    ForLoop,
    /// A relation with exactly one: ready when it is set.
    Single,
    /// A relation with one or none: ready when it is set, or frozen without a value.
    Optional,
    /// Another relation: ready when it is frozen.
    List,
    Literal,
    /// Stands for an attribute of an object that is not known yet. When it is, the proxy is
    /// connected to the attribute's variable, and means that one.
    Proxy,
}

/// The kinds by number, as the bits of a variable have them.
const KINDS: [VarKind; 8] = [
    VarKind::Plain,
    VarKind::Temporary,
    VarKind::ForLoop,
    VarKind::Single,
    VarKind::Optional,
    VarKind::List,
    VarKind::Literal,
    VarKind::Proxy,
];

impl VarKind {
    /// Its value is complete only when it is declared to be.
    #[inline]
    pub fn is_delayed(self) -> bool {
        matches!(self, VarKind::Optional | VarKind::List | VarKind::Literal)
    }
}

/// What the content of a variable is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum State {
    Waiting,
    Connected,
    Null,
    Bool,
    Int,
    /// An integer that does not fit 32 bits.
    Wide,
    Float,
    Big,
    Str,
    List,
    Dict,
    Instance,
    Unknown,
    Opaque,
    Reference,
    Skip,
}

const STATES: [State; 16] = [
    State::Waiting,
    State::Connected,
    State::Null,
    State::Bool,
    State::Int,
    State::Wide,
    State::Float,
    State::Big,
    State::Str,
    State::List,
    State::Dict,
    State::Instance,
    State::Unknown,
    State::Opaque,
    State::Reference,
    State::Skip,
];

/// The bits of the lower word: state, kind, whether it is in the wait queue, whether it is an
/// attribute of an instance.
const STATE: u32 = 0xf;
const KIND: u32 = 0x70;
const KIND_SHIFT: u32 = 4;
const QUEUED: u32 = 0x80;
const SLOT: u32 = 0x100;
/// Without a value: the content is the number of what there is in its place.
const LINKED: u32 = 0x200;
/// With a value: where it was set, in the bits from here on.
const PLACE_SHIFT: u32 = 9;
/// Places beyond are forgotten.
const MAX_PLACE: u32 = u32::MAX >> PLACE_SHIFT;
const NOTHING: u32 = u32::MAX;

/// One variable; see the head of this file. It is copied freely, and lies in
/// [`Vars`](crate::runtime::state::vars::Vars).
#[derive(Clone, Copy)]
pub struct Var {
    /// Its [`State`], its [`VarKind`], flags, and with a value the place where it was set.
    about: u32,
    /// With a value: the value, or where it lies in the heap. Without one, see [`Var::waiters`] and [`Var::link`].
    content: u32,
}

const _: () = assert!(size_of::<Var>() == 8);

/// Those who wait for a variable: a ring of cells, known by its last one. See `scheduler/tasks.rs`.
#[derive(Clone, Copy)]
pub(in crate::runtime) struct Chain {
    /// The cell of the last one, whose next is that of the first.
    pub tail: u32,
}

impl Chain {
    pub const EMPTY: Chain = Chain { tail: NOTHING };

    #[inline]
    pub fn is_empty(self) -> bool {
        self.tail == NOTHING
    }
}

impl Var {
    /// A variable without a value that nobody waits for. `is_slot`: it is an attribute of an
    /// instance.
    #[inline]
    pub(in crate::runtime) fn new(kind: VarKind, is_slot: bool) -> Var {
        let slot = if is_slot { SLOT } else { 0 };
        Var {
            about: State::Waiting as u32 | (kind as u32) << KIND_SHIFT | slot,
            content: if kind.is_delayed() { 0 } else { NOTHING },
        }
    }

    #[inline]
    fn state(&self) -> State {
        STATES[(self.about & STATE) as usize]
    }

    /// How it gets its value.
    #[inline]
    pub fn kind(&self) -> VarKind {
        KINDS[((self.about & KIND) >> KIND_SHIFT) as usize]
    }

    /// Whether it is an attribute of an instance:
    /// [`ModelState::owner`](crate::runtime::Machine::owner) says of which.
    #[inline]
    pub fn is_slot(&self) -> bool {
        self.about & SLOT != 0
    }

    /// Whether it is in the wait queue, or parked.
    #[inline]
    pub(in crate::runtime) fn queued(&self) -> bool {
        self.about & QUEUED != 0
    }

    #[inline]
    pub(in crate::runtime) fn set_queued(&mut self, queued: bool) {
        self.about = self.about & !QUEUED | if queued { QUEUED } else { 0 };
    }

    /// Whether it has a value, or as a proxy its target.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.about & STATE != State::Waiting as u32
    }

    /// Its value; null as long as there is none, so ask [`Var::is_ready`] first.
    pub fn value(&self, heap: &Heap) -> Value {
        let content = self.content;
        match self.state() {
            State::Waiting | State::Connected | State::Null => Value::Null,
            State::Bool => Value::Bool(content != 0),
            State::Int => Value::Int(i64::from(content as i32)),
            State::Wide => Value::Int(heap.wide(content) as i64),
            State::Float => Value::Float(f64::from_bits(heap.wide(content))),
            State::Big => Value::Big(BigId(content)),
            State::Str => Value::Str(StrId(content)),
            State::List => Value::List(ListId(content)),
            State::Dict => Value::Dict(DictId(content)),
            State::Instance => Value::Instance(InstId(content)),
            State::Unknown => Value::Unknown(UnknownId(content)),
            State::Opaque => Value::Opaque(content),
            State::Reference => Value::Reference(RefId(content)),
            State::Skip => Value::Skip,
        }
    }

    /// Whether it has a value, and that is null. Of an optional relation it means that it was
    /// frozen without a value.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.state() == State::Null
    }

    /// Its value if it has one that is a text, a number, a boolean or a null that may be read.
    #[inline]
    pub fn scalar(&self, heap: &Heap) -> Option<Value> {
        self.is_scalar().then(|| self.value(heap))
    }

    /// See [`Var::scalar`].
    pub fn is_scalar(&self) -> bool {
        const SCALARS: u32 = 1 << State::Null as u32
            | 1 << State::Bool as u32
            | 1 << State::Int as u32
            | 1 << State::Wide as u32
            | 1 << State::Float as u32
            | 1 << State::Big as u32
            | 1 << State::Str as u32;
        let is_scalar = SCALARS >> (self.about & STATE) & 1 != 0;
        is_scalar && !(self.is_null() && self.kind() == VarKind::Optional)
    }

    /// Whether it is a plain attribute without a value that nobody waits for: a constant goes in by
    /// one write.
    #[inline]
    pub(in crate::runtime) fn is_fresh_slot(&self) -> bool {
        const FRESH: u32 = State::Waiting as u32 | (VarKind::Plain as u32) << KIND_SHIFT | SLOT;
        self.about == FRESH && self.content == NOTHING
    }

    /// Gives it a value that was written at `loc`. Who waited is forgotten here: take the chain
    /// before.
    #[inline]
    pub(in crate::runtime) fn set(&mut self, value: Value, loc: Loc, heap: &mut Heap) {
        let (state, content) = match value {
            Value::Null => (State::Null, 0),
            Value::Bool(value) => (State::Bool, u32::from(value)),
            Value::Int(value) => match i32::try_from(value) {
                Ok(value) => (State::Int, value as u32),
                Err(_) => (State::Wide, heap.add_wide(value as u64)),
            },
            Value::Float(value) => (State::Float, heap.add_wide(value.to_bits())),
            Value::Big(id) => (State::Big, id.0),
            Value::Str(id) => (State::Str, id.0),
            Value::List(id) => (State::List, id.0),
            Value::Dict(id) => (State::Dict, id.0),
            Value::Instance(id) => (State::Instance, id.0),
            Value::Unknown(id) => (State::Unknown, id.0),
            Value::Opaque(id) => (State::Opaque, id),
            Value::Reference(id) => (State::Reference, id.0),
            Value::Skip => (State::Skip, 0),
        };
        self.about = self.about & (KIND | QUEUED | SLOT) | state as u32;
        self.content = content;
        *self = self.placed(loc);
    }

    /// The same value, set elsewhere. Places with numbers of more than 23 bits are forgotten.
    #[inline]
    pub(in crate::runtime) fn placed(self, loc: Loc) -> Var {
        let place = if loc.0 <= MAX_PLACE {
            loc.0
        } else {
            Loc::NONE.0
        };
        let about = self.about & (STATE | KIND | QUEUED | SLOT) | place << PLACE_SHIFT;
        Var { about, ..self }
    }

    /// Where its value was set; only of variables that have one.
    #[inline]
    pub(in crate::runtime) fn set_at(&self) -> Loc {
        Loc(self.about >> PLACE_SHIFT)
    }

    /// The variable that a connected proxy stands for; it may be another proxy.
    #[inline]
    pub fn target(&self) -> Option<VarId> {
        (self.about & STATE == State::Connected as u32).then_some(VarId(self.content))
    }

    /// Makes a proxy stand for another variable. Who waited is forgotten here: take the chain
    /// before.
    #[inline]
    pub(in crate::runtime) fn connect(&mut self, target: VarId) {
        self.about = self.about & (KIND | QUEUED | SLOT) | State::Connected as u32;
        self.content = target.0;
    }

    /// What stands in the place of waiters, if something does: of a delayed variable without a
    /// value the number of its [`Delayed`](crate::runtime::Delayed); of a proxy without a target
    /// the cell with its listener, whose next one is the last of those who wait.
    #[inline]
    pub(in crate::runtime) fn link(&self) -> Option<u32> {
        let linked = self.about & (STATE | LINKED) == LINKED | State::Waiting as u32;
        linked.then_some(self.content)
    }

    /// Puts the number of something else in the place of those who wait: see [`Var::link`].
    #[inline]
    pub(in crate::runtime) fn set_link(&mut self, link: u32) {
        self.about |= LINKED;
        self.content = link;
    }

    /// Those who wait; only of a variable without a value and a link that is not delayed.
    #[inline]
    pub(in crate::runtime) fn waiters(&self) -> Chain {
        Chain { tail: self.content }
    }

    /// Notes who waits.
    #[inline]
    pub(in crate::runtime) fn set_waiters(&mut self, chain: Chain) {
        self.content = chain.tail;
    }

    /// Position in the parked list, from 1, or 0 if it is not there; only of a delayed variable
    /// without a value and a link.
    #[inline]
    pub(in crate::runtime) fn parked(&self) -> u32 {
        self.content
    }

    /// Notes the position in the parked list; 0: it is not there.
    #[inline]
    pub(in crate::runtime) fn set_parked(&mut self, position: u32) {
        self.content = position;
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::state::var::*;

    #[test]
    fn a_variable_gives_back_what_was_put_in() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(i64::MIN),
            Value::Int(i64::from(i32::MIN)),
            Value::Int(i64::from(i32::MAX) + 1),
            Value::Int(-1),
            Value::Float(-0.0),
            Value::Float(f64::INFINITY),
            Value::Str(StrId(u32::MAX)),
            Value::List(ListId(7)),
            Value::Dict(DictId(8)),
            Value::Instance(InstId(9)),
            Value::Unknown(UnknownId(10)),
            Value::Big(BigId(11)),
            Value::Opaque(12),
            Value::Skip,
        ];
        let mut heap = Heap::default();
        for kind in KINDS {
            for value in values {
                let mut var = Var::new(kind, true);
                assert!(!var.is_ready() && var.link().is_none());
                var.set_queued(true);
                var.set_link(3);
                assert_eq!(var.link(), Some(3));
                var.set(value, Loc(5), &mut heap);
                assert!(var.is_ready() && var.is_slot() && var.queued());
                assert!(var.link().is_none() && var.target().is_none());
                assert_eq!(var.kind(), kind);
                assert_eq!(format!("{:?}", var.value(&heap)), format!("{value:?}"));
                assert_eq!(var.is_null(), matches!(value, Value::Null));
                assert_eq!(var.set_at(), Loc(5));
                var.set(value, Loc(u32::MAX), &mut heap);
                assert_eq!(var.set_at(), Loc::NONE);
            }
        }
    }
}
