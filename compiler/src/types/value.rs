//! Values are small and copyable; texts, lists and dicts lie in the heap of a compile and never change.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::Object;
use super::reference::{RefId, Reference};
use crate::hash::Map;
use crate::pages::prefer_large;
use crate::types::index;

index! { StrId, ListId, DictId, InstId, UnknownId, BigId }

#[derive(Clone, Copy, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Only integers that do not fit `Int`.
    Big(BigId),
    Str(StrId),
    List(ListId),
    Dict(DictId),
    Instance(InstId),
    Unknown(UnknownId),
    /// A Python object that only plugins look into.
    Opaque(u32),
    Reference(RefId),
    /// Result of a comprehension's element that its guard dropped; never seen by a model.
    Skip,
}

#[derive(Default)]
pub struct Heap {
    text: String,
    text_ends: Vec<usize>,
    items: Vec<Value>,
    lists: Vec<(u32, u32)>,
    dicts: Vec<Dict>,
    bigs: Vec<BigInt>,
    n_unknowns: u32,
    /// Numbers of variables that do not fit 32 bits.
    wide: Vec<u64>,
    pub(super) references: Vec<Reference>,
    pub(super) known_references: Map<Box<str>, RefId>,
    pub(super) objects: Map<u32, Object>,
}

/// How much of each kind there is in a heap, to go back to.
pub struct HeapMark {
    text: usize,
    texts: usize,
    items: usize,
    lists: usize,
    dicts: usize,
    bigs: usize,
    unknowns: u32,
    wide: usize,
    references: usize,
}

pub struct Dict {
    pub entries: Box<[(StrId, Value)]>,
    /// Position by key, for dicts that are too long to search.
    positions: Option<Map<Box<str>, u32>>,
}

const SEARCHABLE: usize = 12;

impl Heap {
    #[inline]
    pub fn str(&self, id: StrId) -> &str {
        let end = self.text_ends[id.index()];
        let start = if id.0 == 0 {
            0
        } else {
            self.text_ends[id.index() - 1]
        };
        &self.text[start..end]
    }

    /// Room for what a model makes, which takes no memory before it is used.
    pub fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
        self.text_ends.reserve(bytes / size_of::<usize>());
        self.items.reserve(bytes / size_of::<Value>());
        self.lists.reserve(bytes / size_of::<(u32, u32)>());
    }

    pub fn mark(&self) -> HeapMark {
        HeapMark {
            text: self.text.len(),
            texts: self.text_ends.len(),
            items: self.items.len(),
            lists: self.lists.len(),
            dicts: self.dicts.len(),
            bigs: self.bigs.len(),
            unknowns: self.n_unknowns,
            wide: self.wide.len(),
            references: self.references.len(),
        }
    }

    /// Forgets what came after the mark.
    pub fn go_back(&mut self, mark: &HeapMark) {
        self.text.truncate(mark.text);
        self.text_ends.truncate(mark.texts);
        self.items.truncate(mark.items);
        self.lists.truncate(mark.lists);
        self.dicts.truncate(mark.dicts);
        self.bigs.truncate(mark.bigs);
        self.n_unknowns = mark.unknowns;
        self.wide.truncate(mark.wide);
        if self.references.len() > mark.references {
            self.references.truncate(mark.references);
            let known = &mut self.known_references;
            known.retain(|_, id| id.index() < mark.references);
        }
    }

    /// Asks for large pages for the memory of values, when there is much of it.
    pub fn prefer_large_pages(&self) {
        prefer_large(self.text.as_bytes(), self.text.capacity());
        prefer_large(&self.text_ends, self.text_ends.capacity());
        prefer_large(&self.items, self.items.capacity());
        prefer_large(&self.lists, self.lists.capacity());
    }

    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether the text of a value is longer than `limit` bytes: its texts alone are. A list may hold one text many times.
    pub fn is_longer(&self, value: Value, limit: usize) -> bool {
        let mut room = Some(limit);
        let mut pending = vec![value];
        while let (Some(value), Some(left)) = (pending.pop(), room) {
            // Each element takes a byte, if only its comma.
            let length = match value {
                Value::Str(id) => self.str(id).len(),
                Value::List(id) => {
                    pending.extend_from_slice(self.list(id));
                    1
                }
                Value::Dict(id) => {
                    pending.extend(self.dict(id).entries.iter().map(|(_, value)| *value));
                    1
                }
                _ => 1,
            };
            room = left.checked_sub(length);
        }
        room.is_none()
    }

    /// Elements of all lists.
    pub fn n_elements(&self) -> usize {
        self.items.len()
    }

    pub fn add_str(&mut self, text: &str) -> StrId {
        self.text.push_str(text);
        self.text_ends.push(self.text.len());
        StrId(self.text_ends.len() as u32 - 1)
    }

    pub fn new_str(&mut self, text: &str) -> Value {
        Value::Str(self.add_str(text))
    }

    #[inline]
    pub fn list(&self, id: ListId) -> &[Value] {
        let (start, length) = self.lists[id.index()];
        &self.items[start as usize..(start + length) as usize]
    }

    pub fn new_list(&mut self, items: &[Value]) -> Value {
        let start = self.items.len() as u32;
        self.items.extend_from_slice(items);
        self.lists.push((start, items.len() as u32));
        Value::List(ListId(self.lists.len() as u32 - 1))
    }

    #[inline]
    pub fn dict(&self, id: DictId) -> &Dict {
        &self.dicts[id.index()]
    }

    /// The keys must be distinct.
    pub fn new_dict(&mut self, entries: Vec<(StrId, Value)>) -> Value {
        let positions = (entries.len() > SEARCHABLE).then(|| {
            entries
                .iter()
                .enumerate()
                .map(|(at, (key, _))| (Box::from(self.str(*key)), at as u32))
                .collect()
        });
        self.dicts.push(Dict {
            entries: entries.into(),
            positions,
        });
        Value::Dict(DictId(self.dicts.len() as u32 - 1))
    }

    pub fn dict_get(&self, id: DictId, key: &str) -> Option<Value> {
        let dict = &self.dicts[id.index()];
        let at = match &dict.positions {
            Some(positions) => *positions.get(key)? as usize,
            None => dict
                .entries
                .iter()
                .position(|(name, _)| self.str(*name) == key)?,
        };
        Some(dict.entries[at].1)
    }

    pub fn big(&self, id: BigId) -> &BigInt {
        &self.bigs[id.index()]
    }

    pub fn new_int(&mut self, value: BigInt) -> Value {
        match value.to_i64() {
            Some(value) => Value::Int(value),
            None => {
                self.bigs.push(value);
                Value::Big(BigId(self.bigs.len() as u32 - 1))
            }
        }
    }

    #[inline]
    pub fn wide(&self, at: u32) -> u64 {
        self.wide[at as usize]
    }

    pub fn add_wide(&mut self, number: u64) -> u32 {
        self.wide.push(number);
        self.wide.len() as u32 - 1
    }

    pub fn new_unknown(&mut self) -> Value {
        self.n_unknowns += 1;
        Value::Unknown(UnknownId(self.n_unknowns))
    }

    /// Whether values equal by the rules of the language: numbers by value across kinds, lists in order, dicts not.
    pub fn equal(&self, a: Value, b: Value) -> bool {
        use Value::{
            Big, Bool, Dict, Float, Instance, Int, List, Null, Opaque, Reference, Skip, Str,
            Unknown,
        };
        match (a, b) {
            (Str(a), Str(b)) => a == b || self.str(a) == self.str(b),
            (Int(a), Int(b)) => a == b,
            (Null, Null) | (Skip, Skip) => true,
            (Instance(a), Instance(b)) => a == b,
            (Unknown(a), Unknown(b)) => a == b,
            (Opaque(a), Opaque(b)) => a == b,
            (Reference(a), Reference(b)) => self.equal_references(a, b),
            (List(a), List(b)) => {
                let (a, b) = (self.list(a), self.list(b));
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.equal(*a, *b))
            }
            (Dict(a), Dict(b)) => {
                let entries = &self.dict(a).entries;
                entries.len() == self.dict(b).entries.len()
                    && entries.iter().all(|(key, value)| {
                        self.dict_get(b, self.str(*key))
                            .is_some_and(|other| self.equal(*value, other))
                    })
            }
            (Big(a), Big(b)) => self.big(a) == self.big(b),
            (Float(a), Float(b)) => a == b,
            (Bool(_) | Int(_) | Float(_) | Big(_), Bool(_) | Int(_) | Float(_) | Big(_)) => {
                self.compare(a, b) == Some(std::cmp::Ordering::Equal)
            }
            _ => false,
        }
    }

    /// Order of two numbers; `None` for what is no number, and for NaN.
    pub fn compare(&self, a: Value, b: Value) -> Option<std::cmp::Ordering> {
        let small = |value| match value {
            Value::Bool(value) => Some(i64::from(value)),
            Value::Int(value) => Some(value),
            _ => None,
        };
        if let (Some(a), Some(b)) = (small(a), small(b)) {
            return Some(a.cmp(&b));
        }
        match (a, b) {
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(&b),
            (Value::Float(a), b) => compare_float(a, &self.to_big(b)?),
            (a, Value::Float(b)) => {
                compare_float(b, &self.to_big(a)?).map(std::cmp::Ordering::reverse)
            }
            _ => Some(self.to_big(a)?.cmp(&self.to_big(b)?)),
        }
    }

    pub fn to_big(&self, value: Value) -> Option<BigInt> {
        match value {
            Value::Bool(value) => Some(BigInt::from(u8::from(value))),
            Value::Int(value) => Some(BigInt::from(value)),
            Value::Big(id) => Some(self.big(id).clone()),
            _ => None,
        }
    }

    pub fn to_float(&self, value: Value) -> Option<f64> {
        match value {
            Value::Bool(value) => Some(f64::from(u8::from(value))),
            Value::Int(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            Value::Big(id) => self.big(id).to_f64().filter(|float| float.is_finite()),
            _ => None,
        }
    }

    /// Whether a value is, or holds, an object of Python.
    pub fn has_opaque(&self, value: Value) -> bool {
        match value {
            Value::Opaque(_) => true,
            Value::List(id) => self.list(id).iter().any(|item| self.has_opaque(*item)),
            Value::Dict(id) => self
                .dict(id)
                .entries
                .iter()
                .any(|(_, item)| self.has_opaque(*item)),
            _ => false,
        }
    }

    /// Adds a value to a list under construction; the items of a list are added themselves. Lists in them stay: a literal
    /// has flattened its own before, and only plugins make others.
    pub fn flatten_into(&self, value: Value, out: &mut Vec<Value>) {
        match value {
            Value::List(id) => out.extend_from_slice(self.list(id)),
            value => out.push(value),
        }
    }
}

/// Exact comparison of a float with an integer.
fn compare_float(float: f64, integer: &BigInt) -> Option<std::cmp::Ordering> {
    use std::cmp::Ordering;
    if float.is_nan() {
        return None;
    }
    if float.is_infinite() {
        return Some(if float > 0.0 {
            Ordering::Greater
        } else {
            Ordering::Less
        });
    }
    let whole =
        num_traits::FromPrimitive::from_f64(float.trunc()).unwrap_or_else(|| BigInt::from(0));
    Some(
        whole
            .cmp(integer)
            .then_with(|| float.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal)),
    )
}
