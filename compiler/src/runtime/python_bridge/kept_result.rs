//! Results of earlier compiles (`python_host/memo.rs`), read into the model where they are kept, without a copy in between.

use rmp::Marker;
use rmpv::Value as Wire;
use smallvec::SmallVec;

use super::known_calls::{Hit, MAX_DEPTH};
use super::references::rename_references;
use crate::protocol::{EXT_INSTANCE, EXT_REFERENCE};
use crate::runtime::Machine;
use crate::types::reference::RefId;
use crate::types::{Heap, InstId, Value};

/// A result that is read where it is kept.
pub(in crate::runtime) struct KeptResult<'k> {
    /// The rest of it, MessagePack.
    bytes: &'k [u8],
    /// Those that it names by their positions.
    instances: &'k [InstId],
    references: &'k [RefId],
}

/// Whose values those of a result become.
pub(in crate::runtime) trait Keeper {
    fn heap(&mut self) -> &mut Heap;
    /// One that is no text, list or dict: it begins here. `None`: there is none that the model could have.
    fn other(&mut self, kept: &mut KeptResult, depth: u32) -> Option<Value>;
}

impl<'k> KeptResult<'k> {
    /// The result of a call.
    pub(in crate::runtime) fn of(hit: &'k Hit, bytes: &'k [u8]) -> Self {
        KeptResult {
            bytes,
            instances: &hit.instances,
            references: &hit.references,
        }
    }

    /// The number, truth value or null that begins here.
    pub(in crate::runtime) fn scalar(&mut self) -> Option<Value> {
        Some(match rmpv::decode::read_value(&mut self.bytes).ok()? {
            Wire::Nil => Value::Null,
            Wire::Boolean(value) => Value::Bool(value),
            Wire::Integer(value) => Value::Int(value.as_i64()?),
            Wire::F64(value) => Value::Float(value),
            _ => return None,
        })
    }

    /// How many values the list has that begins here.
    pub(super) fn array_len(&mut self) -> Option<u32> {
        rmp::decode::read_array_len(&mut self.bytes).ok()
    }

    /// Whether it is null.
    pub(super) fn is_null(&self) -> bool {
        self.bytes.first() == Some(&Marker::Null.to_u8())
    }

    fn text(&mut self) -> Option<&'k str> {
        let (text, rest) = rmp::decode::read_str_from_slice(self.bytes).ok()?;
        self.bytes = rest;
        Some(text)
    }
}

impl Machine<'_> {
    /// Reads a result where it is kept, and notes that it was of use.
    pub(super) fn kept_result<T>(
        &mut self,
        hit: &Hit,
        read: impl FnOnce(&mut Self, &mut KeptResult) -> Option<T>,
    ) -> Option<T> {
        let mut memo = self.python.memo.take()?;
        let result = memo
            .result(hit.at)
            .and_then(|bytes| read(self, &mut KeptResult::of(hit, bytes)));
        if result.is_some() {
            for record in &hit.records {
                memo.use_record(*record);
            }
        }
        self.python.memo = Some(memo);
        result
    }
}

impl Keeper for Machine<'_> {
    fn heap(&mut self) -> &mut Heap {
        &mut self.state.heap
    }

    /// Numbers and the like, and what is seldom.
    fn other(&mut self, kept: &mut KeptResult, depth: u32) -> Option<Value> {
        let mut value = rmpv::decode::read_value(&mut kept.bytes).ok()?;
        let state = &self.state;
        rename_instances(&mut value, &|position| {
            let id = *kept.instances.get(position as usize)?;
            Some(state.number_of(id))
        })?;
        if let Wire::Ext(EXT_REFERENCE, _) = value {
            rename_references(&mut value, &|position| {
                kept.references.get(position as usize).map(|id| id.0)
            })?;
        }
        self.value_of(&value, depth).ok()
    }
}

/// The value that begins here. `None`: there is none that the model could have.
pub(in crate::runtime) fn kept_value(
    keeper: &mut impl Keeper,
    kept: &mut KeptResult,
    depth: u32,
) -> Option<Value> {
    let first = *kept.bytes.first()?;
    Some(match Marker::from_u8(first) {
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            let text = kept.text()?;
            keeper.heap().new_str(text)
        }
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 if depth < MAX_DEPTH => {
            let n_items = kept.array_len()?;
            let items = (0..n_items).map(|_| kept_value(keeper, kept, depth + 1));
            let items: SmallVec<[Value; 8]> = items.collect::<Option<_>>()?;
            keeper.heap().new_list(&items)
        }
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 if depth < MAX_DEPTH => {
            let n_entries = rmp::decode::read_map_len(&mut kept.bytes).ok()?;
            let entries = (0..n_entries).map(|_| {
                let key = keeper.heap().add_str(kept.text()?);
                Some((key, kept_value(keeper, kept, depth + 1)?))
            });
            let entries = entries.collect::<Option<_>>()?;
            keeper.heap().new_dict(entries)
        }
        _ => keeper.other(kept, depth)?,
    })
}

/// Gives the instances in a value other numbers. `None`: one of them has none.
pub(super) fn rename_instances(value: &mut Wire, other: &dyn Fn(u32) -> Option<u32>) -> Option<()> {
    match value {
        Wire::Ext(EXT_INSTANCE, payload) => {
            let number = u32::from_be_bytes(*payload.first_chunk()?);
            *payload = other(number)?.to_be_bytes().to_vec();
        }
        Wire::Array(items) => {
            for item in items {
                rename_instances(item, other)?;
            }
        }
        Wire::Map(entries) => {
            for (_, value) in entries {
                rename_instances(value, other)?;
            }
        }
        _ => {}
    }
    Some(())
}
