//! Values as Python writes them: `str()` and `repr()`.

use minijinja::Value as Jinja;
use minijinja::value::ValueKind;

use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::{Nothing, is_view};
use crate::types::text;

/// The text of a value as Python's `str()` gives it.
pub(in crate::template) fn shown(value: &Jinja) -> String {
    if value.downcast_object_ref::<Nothing>().is_some() {
        return String::new();
    }
    match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), text::float)
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => repr(value),
        _ => value.to_string(),
    }
}

pub(in crate::template) fn repr(value: &Jinja) -> String {
    if value.is_undefined() || value.downcast_object_ref::<Nothing>().is_some() {
        return "Undefined".to_owned();
    }
    if is_view(value) || value.downcast_object_ref::<Sequence>().is_some() {
        return value.to_string();
    }
    match value.as_object().map(|object| object.type_name()) {
        Some(name) if name.ends_with("::Namespace") => {
            return format!("<Namespace {}>", entries_of(value));
        }
        Some(name) if name.ends_with("::Loop") => {
            let read = |name| value.get_attr(name).map(|found| shown(&found));
            let (at, length) = (read("index"), read("length"));
            return format!(
                "<LoopContext {}/{}>",
                at.unwrap_or_default(),
                length.unwrap_or_default()
            );
        }
        _ => (),
    }
    match value.kind() {
        ValueKind::String => text::quoted(value.as_str().unwrap_or("")),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<String> = value
                .try_iter()
                .map(|items| items.map(|item| repr(&item)).collect())
                .unwrap_or_default();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Map => entries_of(value),
        _ => shown(value),
    }
}

/// A mapping as Python writes dicts.
fn entries_of(value: &Jinja) -> String {
    let keys: Vec<Jinja> = value.try_iter().map(Iterator::collect).unwrap_or_default();
    let entry = |key: &Jinja| {
        let item = value.get_item(key).map(|item| repr(&item));
        format!("{}: {}", repr(key), item.unwrap_or_default())
    };
    let entries: Vec<String> = keys.iter().map(entry).collect();
    format!("{{{}}}", entries.join(", "))
}

pub(in crate::template) fn is_namespace(value: &Jinja) -> bool {
    let name = value.as_object().map(|object| object.type_name());
    name.is_some_and(|name| name.ends_with("::Namespace"))
}
