//! The plugins of std, native. Source: docs/reference/std.md § 5.

mod durations;
mod environment;
mod files;
mod json_values;
mod lists;
mod network;
mod pydantic_types;
mod pyformat;
mod references;
mod strings;
mod text_types;
mod validate;
mod values;

pub(crate) use files::FILE_MARKER;
pub use json_values::validate_json;

use crate::hir::plugin::{Bound, Model, NativeDef, PluginError, external};
use crate::types::{Heap, Value};

pub(crate) fn natives() -> Vec<NativeDef> {
    let mut all = Vec::new();
    all.extend(strings::natives());
    all.extend(lists::natives());
    all.extend(values::natives());
    all.extend(network::natives());
    all.extend(files::natives());
    all.extend(environment::natives());
    all.extend(references::natives());
    all
}

/// One row of the table: `native!("name", "signature", function)`, then options.
macro_rules! native {
    ($name:literal, $signature:literal, $body:expr $(, $option:ident = $value:expr)*) => {{
        #[allow(unused_mut, reason = "rows without options")]
        let mut native = crate::hir::plugin::NativeDef {
            name: concat!("std::", $name),
            signature: $signature,
            body: $body,
            allow_unknown: false,
            context: false,
            deprecated: None,
        };
        $(native.$option = $value;)*
        native
    }};
}
use native;

/// The text of a string argument; arguments were checked before.
fn str_arg<'m>(heap: &'m Heap, bound: &Bound, at: usize) -> &'m str {
    match bound.arg(at) {
        Value::Str(id) => heap.str(id),
        _ => "",
    }
}

fn int_arg(bound: &Bound, at: usize) -> Result<i64, PluginError> {
    match bound.arg(at) {
        Value::Int(value) => Ok(value),
        Value::Bool(value) => Ok(i64::from(value)),
        _ => external(
            "OverflowError",
            "Python int too large to convert to C ssize_t",
        ),
    }
}

fn list_arg(heap: &Heap, bound: &Bound, at: usize) -> Vec<Value> {
    match bound.arg(at) {
        Value::List(id) => heap.list(id).to_vec(),
        _ => Vec::new(),
    }
}

fn text_value(model: &mut dyn Model, text: &str) -> Result<Value, PluginError> {
    Ok(model.heap().new_str(text))
}
