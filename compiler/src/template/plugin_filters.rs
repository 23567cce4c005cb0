//! Plugins of the model as filters of templates.
//!
//! Each use of a filter is a call of its own, as in Jinja2: a plugin that counts its calls counts them all.

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, Value as Jinja};

use crate::hir::PluginId;
use crate::template::engine::valid;
use crate::template::model::{SharedModel, TemplateModel, TemplateRequest, lock, serve};
use crate::template::objects::model_objects::{DictObject, InstanceObject, ListObject, to_jinja};
use crate::template::path::Path;
use crate::template::repr::shown;
use crate::template::source::dotted_filters::DOT;
use crate::types::Value;

/// Makes every plugin a filter, under its name with dots: `std.upper`.
pub(in crate::template) fn register(engine: &mut Environment<'static>, shared: &SharedModel) {
    let program = Arc::clone(lock(shared).program());
    for (at, plugin) in program.plugins.iter().enumerate() {
        let id = PluginId(at as u32);
        let name = program.text(plugin.name);
        // Filters that take the names of filters take them as they are written.
        for separator in [DOT, "."] {
            let shared = Arc::clone(shared);
            let name = name.replace("::", separator);
            engine.add_filter(name, move |value: Jinja, args: Rest<Jinja>| {
                filter(&shared, id, &value, &args)
            });
        }
    }
}

fn filter(
    shared: &SharedModel,
    plugin: PluginId,
    value: &Jinja,
    args: &[Jinja],
) -> Result<Jinja, Error> {
    let (args, named): (&[Jinja], Kwargs) = from_args(args)?;
    // Reading the arguments may take the lock itself.
    let mut read = Vec::with_capacity(args.len() + 1);
    for argument in std::iter::once(value).chain(args) {
        read.push(given(argument)?);
    }
    let mut model = lock(shared);
    let values = read.into_iter().map(|it| it.into_value(&mut *model));
    let args: Vec<Value> = values.collect();
    let mut result = model.next_call_result();
    let has_names = named.args().next().is_some();
    if result.is_none() && !has_names {
        result = model.known_call(plugin, &args);
    }
    drop(model);
    if result.is_none() {
        let request = TemplateRequest::Call {
            plugin,
            args,
            keyword: named.args().next().map(str::to_owned),
        };
        serve(shared, request)?;
        result = lock(shared).next_call_result();
    }
    let model = lock(shared);
    let result = result.unwrap_or(Value::Null);
    Ok(to_jinja(shared, &*model, result, || Path::Result))
}

/// An argument, which must have a value.
fn given(argument: &Jinja) -> Result<Argument, Error> {
    if argument.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    argument_of(argument)
}

/// A value of the engine, read completely.
enum Argument {
    Value(Value),
    Text(String),
    List(Vec<Argument>),
    Dict(Vec<(String, Argument)>),
}

impl Argument {
    fn into_value(self, model: &mut dyn TemplateModel) -> Value {
        match self {
            Argument::Value(value) => value,
            Argument::Text(text) => model.heap_mut().new_str(&text),
            Argument::List(items) => {
                let items: Vec<Value> = items
                    .into_iter()
                    .map(|item| item.into_value(model))
                    .collect();
                model.heap_mut().new_list(&items)
            }
            Argument::Dict(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for (key, item) in entries {
                    let item = item.into_value(model);
                    values.push((model.heap_mut().add_str(&key), item));
                }
                model.heap_mut().new_dict(values)
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
