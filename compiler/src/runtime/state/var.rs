//! One variable of the model, in 8 bytes: a service has hundreds of them.

use crate::runtime::VarId;
use crate::span::Loc;
use crate::types::reference::RefId;
use crate::types::{BigId, DictId, Heap, InstId, ListId, StrId, UnknownId, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum VarKind {
    Plain,
    /// Result of a part of an expression, read by one unit.
    Temporary,
    /// Variable of a comprehension: delivers its value when it is needed.
    ForLoop,
    Single,
    Optional,
    List,
    Literal,
    Proxy,
}

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

#[derive(Clone, Copy)]
pub struct Var {
    /// Its [`State`], its kind, and bits.
    about: u32,
    /// With a value: the value, or where it lies in the heap. Without one, see [`Var::waiters`] and [`Var::link`].
    content: u32,
}

const _: () = assert!(size_of::<Var>() == 8);

/// Those who wait: a ring of cells, known by its last one.
#[derive(Clone, Copy)]
pub(in crate::runtime) struct Chain {
    pub tail: u32,
}

impl Chain {
    pub const EMPTY: Chain = Chain { tail: NOTHING };

    pub fn is_empty(self) -> bool {
        self.tail == NOTHING
    }
}

impl Var {
    pub(in crate::runtime) fn new(kind: VarKind, is_slot: bool) -> Var {
        let slot = if is_slot { SLOT } else { 0 };
        Var {
            about: State::Waiting as u32 | (kind as u32) << KIND_SHIFT | slot,
            content: if kind.is_delayed() { 0 } else { NOTHING },
        }
    }

    fn state(&self) -> State {
        STATES[(self.about & STATE) as usize]
    }

    pub fn kind(&self) -> VarKind {
        KINDS[((self.about & KIND) >> KIND_SHIFT) as usize]
    }

    /// An attribute of an instance: see [`Machine::owner`](crate::runtime::Machine::owner).
    pub fn is_slot(&self) -> bool {
        self.about & SLOT != 0
    }

    /// In a wait queue.
    pub(in crate::runtime) fn queued(&self) -> bool {
        self.about & QUEUED != 0
    }

    pub(in crate::runtime) fn set_queued(&mut self, queued: bool) {
        self.about = self.about & !QUEUED | if queued { QUEUED } else { 0 };
    }

    /// It has a value, or a target.
    pub fn is_ready(&self) -> bool {
        self.about & STATE != State::Waiting as u32
    }

    /// Null as long as there is none.
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

    /// It has a value, and that is null.
    pub fn is_null(&self) -> bool {
        self.state() == State::Null
    }

    /// Its value if it has one that is a text, a number, a boolean or a null that may be read.
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

    /// Nobody waits for it, and it has no value.
    pub(in crate::runtime) fn is_fresh_slot(&self) -> bool {
        const FRESH: u32 = State::Waiting as u32 | (VarKind::Plain as u32) << KIND_SHIFT | SLOT;
        self.about == FRESH && self.content == NOTHING
    }

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

    /// The same, set elsewhere.
    pub(in crate::runtime) fn placed(self, loc: Loc) -> Var {
        let place = if loc.0 <= MAX_PLACE {
            loc.0
        } else {
            Loc::NONE.0
        };
        let about = self.about & (STATE | KIND | QUEUED | SLOT) | place << PLACE_SHIFT;
        Var { about, ..self }
    }

    /// Only of variables with a value.
    pub(in crate::runtime) fn set_at(&self) -> Loc {
        Loc(self.about >> PLACE_SHIFT)
    }

    /// What a proxy stands for.
    pub fn target(&self) -> Option<VarId> {
        (self.about & STATE == State::Connected as u32).then_some(VarId(self.content))
    }

    pub(in crate::runtime) fn connect(&mut self, target: VarId) {
        self.about = self.about & (KIND | QUEUED | SLOT) | State::Connected as u32;
        self.content = target.0;
    }

    /// Without a value and delayed: its [`Delayed`](crate::runtime::Delayed). A proxy without a target: the cell with its listener,
    /// whose next one is the last of those who wait.
    pub(in crate::runtime) fn link(&self) -> Option<u32> {
        let linked = self.about & (STATE | LINKED) == LINKED | State::Waiting as u32;
        linked.then_some(self.content)
    }

    pub(in crate::runtime) fn set_link(&mut self, link: u32) {
        self.about |= LINKED;
        self.content = link;
    }

    /// Without a value, a link, and not delayed: who waits.
    pub(in crate::runtime) fn waiters(&self) -> Chain {
        Chain { tail: self.content }
    }

    pub(in crate::runtime) fn set_waiters(&mut self, chain: Chain) {
        self.content = chain.tail;
    }

    /// Without a value and a link, but delayed: position in the parked list, from 1; 0: it is not there.
    pub(in crate::runtime) fn parked(&self) -> u32 {
        self.content
    }

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
