//! The frames between Steward's processes and a Python host.
//!
//! A frame is a 32-bit big-endian length followed by that many bytes of MessagePack. The body is one
//! [`ToHost`] or [`FromHost`], encoded as serde's externally tagged form with named fields: a map of one
//! entry, `{"call": {"id": 1, ...}}`; a variant without fields is the bare string of its name. The same
//! enums are the schema the Python side is checked against by a test. Calls of plugins and their results are many, and
//! names are what takes longest to read in Python: these two travel as arrays of their fields in order,
//! `{"call": [1, ...]}`, or in a format of their own, several calls in one frame ([`calls`]). The resource of a run of a handler and
//! its report are JSON texts inside of their messages.
//!
//! Model values travel as MessagePack values ([`rmpv::Value`]): null, bool, int, float, str, array, map with
//! string keys, and these extension types:
//!
//! | type | payload | meaning |
//! |---|---|---|
//! | 1 | decimal digits, ASCII | an integer that does not fit 64 bits |
//! | 2 | empty | Unknown |
//! | 3 | u32 instance id, then the full entity name (UTF-8) | an instance of the model; attributes by `get` |
//! | 4 | u32 id | an opaque Python object that the host keeps for this connection |
//! | 5 | array of object id, entity name, map of fields, whether it is a reference to one, and, if so, that it is nothing but its fields; from us: object id, u32 instance id, entity name | a dataclass of Python and the instance that it is paired with |
//! | 6 | from Python: array of object id, kind, class, type, text or nil, repr or nil, id of the first object that it equals, or of our number alone; from us: array of object id, or of our number, kind and map of arguments | a reference |
//! | 9 | what [`calls`] write | an instance of the model, with attributes that are going to be read |
//!
//! A connection starts with the host's `hello`. It is synchronous: one request of ours at a time, where the calls of one
//! frame are requests one after the other: the first that fails ends the frame, and there are no answers to those behind
//! it. While a `call` or `render_fields` is open the host may ask (`get`, `lookup`, `entity`, …; we answer with `attribute_value`, `entity_info`, …) and send
//! `log` (no answer) before its own answer.

mod answers;
mod as_json;
pub mod calls;
mod declarations;
mod depth;
mod export;
mod frames;
mod handlers;
mod messages;
mod model;
#[cfg(test)]
mod tests;

pub(crate) use crate::protocol::answers::what_was_logged;
pub use crate::protocol::as_json::JsonText;
pub use crate::protocol::declarations::{
    Annotation, DataclassField, DataclassInfo, Depends, FieldInfo, Identify, Parameter,
    ParameterKind, PluginInfo, ResourceClassInfo,
};
pub use crate::protocol::export::{OwnId, PostProcessed, UnknownInfo, Unprocessed};
pub use crate::protocol::frames::{
    MAX_FRAME_BYTES, decode, read_answer, read_frame, read_frame_within, write_body, write_frame,
};
pub use crate::protocol::handlers::{
    Deploy, Deployed, Discovered, Fact, Facts, HandlerOutcome, LogLine,
};
pub use crate::protocol::messages::{
    BrokenModule, Failure, FailureKind, FromHost, PythonFile, PythonModule, READ_FILE, Reads,
    ToHost, no_entity,
};
pub use crate::protocol::model::{AttributeInfo, AttributeValue, ConditionInfo};

/// The version of this schema; both sides refuse another one.
pub const VERSION: u32 = 5;

/// The extension type of an integer that does not fit 64 bits: its decimal digits.
pub const EXT_BIGINT: i8 = 1;
/// The extension type of Unknown.
pub const EXT_UNKNOWN: i8 = 2;
/// The extension type of an instance of the model: its number in order of creation (32 bits), then
/// the full name of its entity.
pub const EXT_INSTANCE: i8 = 3;
/// The extension type of an object that only Python has: its number (32 bits), which the host gave
/// it.
pub const EXT_OPAQUE: i8 = 4;
/// The extension type of a dataclass of Python, see the table above.
pub const EXT_DATACLASS: i8 = 5;
/// The extension type of a reference, see the table above.
pub const EXT_REFERENCE: i8 = 6;
/// A text that is more than a text in Python, such as a member of an enumeration: `[opaque id, text]`. It goes back as
/// `EXT_OPAQUE`.
pub const EXT_TEXT: i8 = 8;
