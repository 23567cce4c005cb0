//! One variable of the model, in 16 bytes: a service has hundreds of them.

use super::{ListenerId, VarId};
use crate::span::Loc;
use crate::types::reference::RefId;
use crate::types::{BigId, DictId, InstId, ListId, StrId, UnknownId, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VarKind {
    Plain,
    /// Result of a part of an expression, read by one unit.
    Temporary,
    /// Variable of a comprehension: delivers its value when it is needed.
    Loop,
    Single,
    Optional,
    List,
    Literal,
    Proxy,
}

impl VarKind {
    /// Its value is complete only when it is declared to be.
    pub fn is_delayed(self) -> bool {
        matches!(self, VarKind::Optional | VarKind::List | VarKind::Literal)
    }
}

/// What the bits of a variable are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum State {
    Waiting,
    Connected,
    Null,
    Bool,
    Int,
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

pub struct Var {
    state: State,
    pub kind: VarKind,
    /// In a wait queue.
    pub(super) queued: bool,
    /// An attribute of an instance: see [`Machine::owner`](super::Machine::owner).
    pub is_slot: bool,
    /// With a value: where it was set. A proxy without a target: its listener.
    extra: u32,
    /// The value, or what there is in its place: see [`Chain`] and [`Var::delayed`].
    bits: u64,
}

const _: () = assert!(size_of::<Var>() == 16);

/// Those who wait, a list of cells.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    pub head: u32,
    pub tail: u32,
}

impl Chain {
    pub const EMPTY: Chain = Chain {
        head: u32::MAX,
        tail: u32::MAX,
    };
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl Var {
    pub(super) fn new(kind: VarKind, is_slot: bool) -> Var {
        let bits = if kind.is_delayed() {
            pair(0, u32::MAX)
        } else {
            pair(u32::MAX, u32::MAX)
        };
        Var {
            state: State::Waiting,
            kind,
            queued: false,
            extra: u32::MAX,
            bits,
            is_slot,
        }
    }

    /// It has a value, or a target.
    pub fn is_ready(&self) -> bool {
        self.state != State::Waiting
    }

    /// Null as long as there is none.
    pub fn value(&self) -> Value {
        let small = self.bits as u32;
        match self.state {
            State::Waiting | State::Connected | State::Null => Value::Null,
            State::Bool => Value::Bool(self.bits != 0),
            State::Int => Value::Int(self.bits as i64),
            State::Float => Value::Float(f64::from_bits(self.bits)),
            State::Big => Value::Big(BigId(small)),
            State::Str => Value::Str(StrId(small)),
            State::List => Value::List(ListId(small)),
            State::Dict => Value::Dict(DictId(small)),
            State::Instance => Value::Instance(InstId(small)),
            State::Unknown => Value::Unknown(UnknownId(small)),
            State::Opaque => Value::Opaque(small),
            State::Reference => Value::Reference(RefId(small)),
            State::Skip => Value::Skip,
        }
    }

    pub(super) fn set(&mut self, value: Value, loc: Loc) {
        let (state, bits) = match value {
            Value::Null => (State::Null, 0),
            Value::Bool(value) => (State::Bool, u64::from(value)),
            Value::Int(value) => (State::Int, value as u64),
            Value::Float(value) => (State::Float, value.to_bits()),
            Value::Big(id) => (State::Big, u64::from(id.0)),
            Value::Str(id) => (State::Str, u64::from(id.0)),
            Value::List(id) => (State::List, u64::from(id.0)),
            Value::Dict(id) => (State::Dict, u64::from(id.0)),
            Value::Instance(id) => (State::Instance, u64::from(id.0)),
            Value::Unknown(id) => (State::Unknown, u64::from(id.0)),
            Value::Opaque(id) => (State::Opaque, u64::from(id)),
            Value::Reference(id) => (State::Reference, u64::from(id.0)),
            Value::Skip => (State::Skip, 0),
        };
        self.state = state;
        self.bits = bits;
        self.extra = loc.0;
    }

    pub(super) fn set_at(&self) -> Loc {
        Loc(self.extra)
    }

    /// A proxy: who wants the elements of what it will stand for.
    pub(super) fn listener(&self) -> ListenerId {
        ListenerId(self.extra)
    }

    pub(super) fn set_listener(&mut self, listener: ListenerId) {
        self.extra = listener.0;
    }

    /// What a proxy stands for.
    pub fn target(&self) -> Option<VarId> {
        (self.state == State::Connected).then_some(VarId(self.bits as u32))
    }

    pub(super) fn connect(&mut self, target: VarId) {
        self.state = State::Connected;
        self.bits = u64::from(target.0);
    }

    /// Who waits; only of variables that are not ready and not delayed.
    pub(super) fn waiters(&self) -> Chain {
        Chain {
            head: (self.bits >> 32) as u32,
            tail: self.bits as u32,
        }
    }

    pub(super) fn set_waiters(&mut self, chain: Chain) {
        self.bits = pair(chain.head, chain.tail);
    }

    /// Delayed and not ready: where its [`Delayed`](super::Delayed) is, `u32::MAX`: it has none yet.
    pub(super) fn delayed(&self) -> u32 {
        self.bits as u32
    }

    pub(super) fn set_delayed(&mut self, index: u32) {
        self.bits = pair(self.parked(), index);
    }

    /// Delayed and not ready: position in the parked list, from 1.
    pub(super) fn parked(&self) -> u32 {
        (self.bits >> 32) as u32
    }

    pub(super) fn set_parked(&mut self, position: u32) {
        self.bits = pair(position, self.delayed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_gives_back_what_was_put_in() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(i64::MIN),
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
        for value in values {
            let mut var = Var::new(VarKind::Plain, false);
            assert!(!var.is_ready());
            var.set(value, Loc(5));
            assert!(var.is_ready());
            assert_eq!(format!("{:?}", var.value()), format!("{value:?}"));
            assert_eq!(var.set_at(), Loc(5));
        }
    }
}
