//! The template engine made to speak Python: objects, printing, tests and filters.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{
    DynObject, Enumerator, Kwargs, Object, ObjectRepr, Rest, ValueKind, from_args,
};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value as Jinja,
};

use crate::hir::{PluginId, Program};
use crate::runtime::InstId;
use crate::runtime::exec::templates::{Found, Shared, Slot, Wish, lock};
use crate::template::format::percent;
use crate::template::objects::containers::{Range, Sequence};
use crate::template::objects::views::View;
use crate::types::text::{self, Instances};
use crate::types::{DictId, Value};

/// Steps of one rendering.
const FUEL: u64 = 100_000_000;

/// The value of a parameter that is not given, where its default reads other parameters.
const UNSET: &str = "\u{0}unset";

/// Dotted filters (`std.upper`) are written with these instead of the dot.
const DOT: &str = "__dot__";

pub(in crate::template) fn environment(shared: &Shared) -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_fuel(Some(FUEL));
    engine.set_formatter(print);
    engine.set_unknown_method_callback(crate::template::methods::call);
    let loader = Arc::clone(shared);
    engine.set_loader(move |name| {
        let mut slot = lock(&loader);
        if let Some(source) = slot.sources.get(name) {
            return Ok(source.clone());
        }
        slot.wish = Some(Wish::Source(name.to_owned()));
        Err(aborted())
    });
    engine.add_test("defined", |value: &Jinja| !is_nothing(value));
    engine.add_test("undefined", is_nothing);
    engine.add_test("__unset__", |value: &Jinja| value.as_str() == Some(UNSET));
    engine.add_global("__unset__", UNSET);
    engine.add_test("none", |value: &Jinja| value.is_none());
    engine.add_filter("default", default_filter);
    engine.add_filter("d", default_filter);
    engine.add_filter("string", |value: &Jinja| shown(value));
    engine.add_filter("format", |template: String, args: Rest<Jinja>| {
        let (positional, named): (&[Jinja], Kwargs) = from_args(&args)?;
        let has_names = named.args().next().is_some();
        let named = has_names.then(|| Jinja::from(named));
        percent(&template, positional, named.as_ref())
    });
    engine.add_filter("__percent__", |template: String, value: Jinja| {
        let named = (value.kind() == ValueKind::Map).then_some(&value);
        percent(&template, &Sequence::operands(value.clone()), named)
    });
    crate::template::filters::register(&mut engine);
    crate::template::markup::register(&mut engine);
    crate::template::sorting::register(&mut engine);
    crate::template::objects::containers::register(&mut engine);
    let program = Arc::clone(&lock(shared).program);
    crate::template::conditions::register(&mut engine, &program);
    for (at, plugin) in program.plugins.iter().enumerate() {
        let name = program.text(plugin.name).replace("::", DOT);
        let id = PluginId(at as u32);
        let shared = Arc::clone(shared);
        engine.add_filter(name, move |value: Jinja, args: Rest<Jinja>| {
            filter(&shared, id, &value, &args)
        });
    }
    engine
}

/// Writes dotted filter names so that the engine takes them for one name.
pub(in crate::template) fn rewrite(source: &str, program: &Program) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('|') {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        let blanks = after.len() - after.trim_start().len();
        let body = &after[blanks..];
        let end = body
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            .unwrap_or(body.len());
        let name = &body[..end];
        let full = name.replace('.', "::");
        let known = name.contains('.')
            && program
                .names
                .find(&full)
                .is_some_and(|symbol| program.plugins.iter().any(|plugin| plugin.name == symbol));
        if known {
            out.push_str(&after[..blanks]);
            out.push_str(&name.replace('.', DOT));
            rest = &body[end..];
        } else {
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

fn aborted() -> Error {
    Error::new(ErrorKind::InvalidOperation, "the rendering is interrupted")
}

pub(in crate::template) fn root(shared: &Shared) -> Jinja {
    Jinja::from_object(Root {
        shared: Arc::clone(shared),
    })
}

/// The names that a template can use.
#[derive(Debug)]
struct Root {
    shared: Shared,
}

#[derive(Debug)]
struct InstanceObject {
    shared: Shared,
    id: InstId,
}

#[derive(Debug)]
struct ListObject {
    shared: Shared,
    items: Vec<Value>,
    value: Value,
}

#[derive(Debug)]
struct DictObject {
    shared: Shared,
    id: DictId,
}

/// An optional relation without value, or an attribute that does not exist.
#[derive(Debug)]
struct Nothing;

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

fn to_jinja(shared: &Shared, slot: &Slot, value: Value) -> Jinja {
    match value {
        Value::Null | Value::Skip => Jinja::from(()),
        Value::Bool(value) => Jinja::from(value),
        Value::Int(value) => Jinja::from(value),
        Value::Big(id) => match i128::try_from(slot.heap.big(id).clone()) {
            Ok(value) => Jinja::from(value),
            Err(_) => Jinja::from(slot.heap.big(id).to_string()),
        },
        Value::Float(value) => Jinja::from(value),
        Value::Str(id) => Jinja::from(slot.heap.str(id)),
        Value::List(id) => {
            let items = slot.heap.list(id).to_vec();
            Jinja::from_object(ListObject {
                shared: Arc::clone(shared),
                items,
                value,
            })
        }
        Value::Dict(id) => Jinja::from_object(DictObject {
            shared: Arc::clone(shared),
            id,
        }),
        Value::Instance(id) => Jinja::from_object(InstanceObject {
            shared: Arc::clone(shared),
            id,
        }),
        Value::Unknown(_) | Value::Opaque(_) | Value::Reference(_) => Jinja::UNDEFINED,
    }
}

fn element(shared: &Shared, slot: &mut Slot, value: Value) -> Jinja {
    if matches!(value, Value::Unknown(_)) {
        slot.wish = Some(Wish::Unknown);
        return Jinja::from(aborted());
    }
    if matches!(value, Value::Reference(_)) {
        slot.wish = Some(Wish::Reference(None, value));
        return Jinja::from(aborted());
    }
    to_jinja(shared, slot, value)
}

fn found(shared: &Shared, slot: &Slot, found: Found) -> Jinja {
    match found {
        Found::Value(value) => to_jinja(shared, slot, value),
        Found::Nothing => Jinja::from_object(Nothing),
        Found::Aborted => Jinja::from(aborted()),
    }
}

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let mut slot = lock(&self.shared);
        let name = key.as_str()?;
        let result = slot.name(name);
        if matches!(result, None | Some(Found::Nothing)) {
            slot.miss_name(name);
        }
        Some(found(&self.shared, &slot, result?))
    }
}

impl Object for InstanceObject {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let mut slot = lock(&self.shared);
        let name = key.as_str()?;
        let result = slot.attribute(self.id, name);
        if matches!(result, Found::Nothing) {
            slot.miss_attribute(self.id, name);
        }
        Some(found(&self.shared, &slot, result))
    }

    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        other
            .downcast_ref::<InstanceObject>()
            .map(|other| self.id.cmp(&other.id))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = lock(&self.shared);
        write!(f, "@{}", slot.instance_handle(self.id))
    }
}

impl Object for ListObject {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let value = *self.items.get(key.as_usize()?)?;
        Some(element(&self.shared, &mut lock(&self.shared), value))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = lock(&self.shared);
        write!(f, "@{}", slot.heap.repr(self.value, &*slot))
    }
}

impl Object for DictObject {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let mut slot = lock(&self.shared);
        let name = key.as_str()?;
        let Some(value) = slot.heap.dict_get(self.id, name) else {
            slot.miss_key(self.id, name);
            return None;
        };
        Some(element(&self.shared, &mut slot, value))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let slot = lock(&self.shared);
        let keys = slot
            .heap
            .dict(self.id)
            .entries
            .iter()
            .map(|(key, _)| Jinja::from(slot.heap.str(*key)));
        Enumerator::Values(keys.collect())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = lock(&self.shared);
        write!(f, "@{}", slot.heap.repr(Value::Dict(self.id), &*slot))
    }
}

impl Object for Nothing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn get_value(self: &Arc<Self>, _: &Jinja) -> Option<Jinja> {
        Some(Jinja::from(Error::new(
            ErrorKind::UndefinedError,
            "an attribute of an undefined value",
        )))
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// What Python shows of something else: lists and dicts of the model, keys and the like of dicts, ranges.
pub(in crate::template) fn is_view(value: &Jinja) -> bool {
    value.as_object().is_some_and(|object| {
        object.is::<ListObject>()
            || object.is::<DictObject>()
            || object.is::<Range>()
            || object.is::<View>()
    })
}

pub(in crate::template) fn is_model_dict(value: &Jinja) -> bool {
    value.downcast_object_ref::<DictObject>().is_some()
}

pub(in crate::template) fn is_namespace(value: &Jinja) -> bool {
    let name = value.as_object().map(|object| object.type_name());
    name.is_some_and(|name| name.ends_with("::Namespace"))
}

pub(in crate::template) fn is_instance(value: &Jinja) -> bool {
    value.downcast_object_ref::<InstanceObject>().is_some()
}

/// The entries of a dict of the model as Python's own dicts hold them: without the views around lists and dicts.
pub(in crate::template) fn model_entries(value: &Jinja) -> Option<Vec<(Jinja, Jinja)>> {
    let dict = value.downcast_object_ref::<DictObject>()?;
    let slot = lock(&dict.shared);
    let entries = slot.heap.dict(dict.id).entries.iter();
    let entry = |(key, value): &(crate::types::StrId, Value)| {
        let key = Jinja::from(slot.heap.str(*key));
        (key, plain(&dict.shared, &slot, *value))
    };
    Some(entries.map(entry).collect())
}

fn plain(shared: &Shared, slot: &Slot, value: Value) -> Jinja {
    match value {
        Value::List(id) => {
            let items = slot.heap.list(id).iter();
            items.map(|item| plain(shared, slot, *item)).collect()
        }
        Value::Dict(id) => {
            let entries = slot.heap.dict(id).entries.iter();
            let entry = |(key, value): &(crate::types::StrId, Value)| {
                (slot.heap.str(*key).to_owned(), plain(shared, slot, *value))
            };
            entries.map(entry).collect()
        }
        value => to_jinja(shared, slot, value),
    }
}

fn is_nothing(value: &Jinja) -> bool {
    value.is_undefined() || value.downcast_object_ref::<Nothing>().is_some()
}

fn default_filter(
    value: Jinja,
    default: Option<Jinja>,
    lenient: Option<bool>,
    kwargs: Kwargs,
) -> Result<Jinja, Error> {
    let lenient = kwargs.get::<Option<bool>>("boolean")?.or(lenient);
    let default = match default {
        Some(default) => default,
        None => kwargs
            .get::<Option<Jinja>>("default_value")?
            .unwrap_or_else(|| Jinja::from("")),
    };
    kwargs.assert_all_used()?;
    let absent = is_nothing(&value) || (lenient == Some(true) && !value.is_true());
    Ok(if absent { default } else { value })
}

/// Python's `str()`.
pub(in crate::template) fn shown(value: &Jinja) -> String {
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

fn print(out: &mut Output, state: &State, value: &Jinja) -> Result<(), Error> {
    if value.is_undefined() {
        // `x if y` without `else` is nothing; other undefined values are errors.
        return minijinja::escape_formatter(out, state, value);
    }
    let escape = !value.is_safe() && state.auto_escape() != AutoEscape::None;
    if let Some(text) = value.as_str().filter(|_| !escape) {
        return out.write_str(text).map_err(Error::from);
    }
    // An interrupted lookup is an invalid value, whose error comes out here.
    valid(value)?;
    let mut text = shown(value);
    if escape {
        text = crate::template::text::escaped(&text);
    }
    out.write_str(&text).map_err(Error::from)
}

fn valid(value: &Jinja) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Invalid => Err(Error::new(ErrorKind::UndefinedError, value.to_string())),
        _ => Ok(()),
    }
}

fn filter(
    shared: &Shared,
    plugin: PluginId,
    value: &Jinja,
    args: &[Jinja],
) -> Result<Jinja, Error> {
    // Reading the arguments may take the lock itself.
    let mut read = Vec::with_capacity(args.len() + 1);
    for argument in std::iter::once(value).chain(args) {
        if argument.is_undefined() {
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        read.push(argument_of(argument)?);
    }
    let mut slot = lock(shared);
    let values: Vec<Value> = read
        .into_iter()
        .map(|argument| argument.into_value(&mut slot))
        .collect();
    let mut key = format!("{}", plugin.0);
    for value in &values {
        key.push('\0');
        key.push_str(&slot.heap.repr(*value, &*slot));
    }
    if let Some(result) = slot.calls.get(&key).copied() {
        return Ok(to_jinja(shared, &slot, result));
    }
    slot.wish = Some(Wish::Call {
        key,
        plugin,
        args: values,
    });
    Err(aborted())
}

/// A value of the engine, read completely.
enum Argument {
    Value(Value),
    Text(String),
    List(Vec<Argument>),
    Dict(Vec<(String, Argument)>),
}

impl Argument {
    fn into_value(self, slot: &mut Slot) -> Value {
        match self {
            Argument::Value(value) => value,
            Argument::Text(text) => slot.heap.new_str(&text),
            Argument::List(items) => {
                let items: Vec<Value> = items
                    .into_iter()
                    .map(|item| item.into_value(slot))
                    .collect();
                slot.heap.new_list(&items)
            }
            Argument::Dict(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for (key, item) in entries {
                    let item = item.into_value(slot);
                    values.push((slot.heap.add_str(&key), item));
                }
                slot.heap.new_dict(values)
            }
        }
    }
}

fn argument_of(value: &Jinja) -> Result<Argument, Error> {
    if let Some(object) = value.as_object() {
        if let Some(instance) = object.downcast_ref::<InstanceObject>() {
            return Ok(Argument::Value(Value::Instance(instance.id)));
        }
        if let Some(list) = object.downcast_ref::<ListObject>() {
            return Ok(Argument::Value(list.value));
        }
        if let Some(dict) = object.downcast_ref::<DictObject>() {
            return Ok(Argument::Value(Value::Dict(dict.id)));
        }
    }
    Ok(match value.kind() {
        ValueKind::None => Argument::Value(Value::Null),
        ValueKind::Bool => Argument::Value(Value::Bool(value.is_true())),
        ValueKind::Number => Argument::Value(match i64::try_from(value.clone()) {
            Ok(int) if value.is_integer() => Value::Int(int),
            _ => Value::Float(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
        }),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()? {
                items.push(argument_of(&item)?);
            }
            Argument::List(items)
        }
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                entries.push((shown(&key), argument_of(&value.get_item(&key)?)?));
            }
            Argument::Dict(entries)
        }
        ValueKind::String => Argument::Text(value.as_str().unwrap_or("").to_owned()),
        _ => {
            valid(value)?;
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "this value can not be given to a plugin",
            ));
        }
    })
}
