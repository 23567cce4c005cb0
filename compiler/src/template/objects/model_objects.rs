//! Objects of the engine that show the running model: its names, instances, lists and dicts.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, Value as Jinja};

use crate::template::engine::aborted;
use crate::template::model::{
    Lookup, ReferencePlace, SharedModel, TemplateModel, TemplateRequest, lock,
};
use crate::template::objects::containers::Range;
use crate::template::objects::views::View;
use crate::template::path::Path;
use crate::types::{DictId, InstId, StrId, Value};

/// The names that a template can use, as one object.
pub(crate) fn root(shared: &SharedModel) -> Jinja {
    Jinja::from_object(Root {
        shared: Arc::clone(shared),
    })
}

/// The names that a template can use.
#[derive(Debug)]
struct Root {
    shared: SharedModel,
}

/// `self` of a template: its blocks, which the engine calls by itself; never the instance of an implementation.
#[derive(Debug)]
struct Blocks {
    shared: SharedModel,
}

#[derive(Debug)]
pub(in crate::template) struct InstanceObject {
    shared: SharedModel,
    pub id: InstId,
    path: Arc<Path>,
}

#[derive(Debug)]
pub(in crate::template) struct ListObject {
    shared: SharedModel,
    pub items: Vec<Value>,
    pub value: Value,
    path: Arc<Path>,
}

#[derive(Debug)]
pub(in crate::template) struct DictObject {
    shared: SharedModel,
    pub id: DictId,
    path: Arc<Path>,
}

/// An attribute of an instance that is an optional relation without value, or does not exist: what Jinja2 calls undefined, of the
/// lenient kind. It is false, has no elements, and prints as nothing.
#[derive(Debug)]
pub(in crate::template) struct Nothing;

/// The null of the model without a view around it, as dicts and lists hold it that come without one: to Jinja2 it is some
/// object, so it counts as true, is not `none`, and prints as the model writes it.
#[derive(Debug)]
struct PlainNull;

/// A value of the model for the engine. `path` is made only for what has parts, whose errors name it.
pub(in crate::template) fn to_jinja(
    shared: &SharedModel,
    model: &dyn TemplateModel,
    value: Value,
    path: impl FnOnce() -> Path,
) -> Jinja {
    match value {
        Value::Null | Value::Skip => Jinja::from(()),
        Value::Bool(value) => Jinja::from(value),
        Value::Int(value) => Jinja::from(value),
        Value::Big(id) => match i128::try_from(model.heap().big(id).clone()) {
            Ok(value) => Jinja::from(value),
            Err(_) => Jinja::from(model.heap().big(id).to_string()),
        },
        Value::Float(value) => Jinja::from(value),
        Value::Str(id) => Jinja::from(model.heap().str(id)),
        Value::List(id) => {
            let items = model.heap().list(id).to_vec();
            Jinja::from_object(ListObject {
                shared: Arc::clone(shared),
                items,
                value,
                path: Arc::new(path()),
            })
        }
        Value::Dict(id) => Jinja::from_object(DictObject {
            shared: Arc::clone(shared),
            id,
            path: Arc::new(path()),
        }),
        Value::Instance(id) => Jinja::from_object(InstanceObject {
            shared: Arc::clone(shared),
            id,
            path: Arc::new(path()),
        }),
        Value::Unknown(_) | Value::Opaque(_) | Value::Reference(_) => Jinja::UNDEFINED,
    }
}

fn element(
    shared: &SharedModel,
    model: &mut dyn TemplateModel,
    value: Value,
    path: impl FnOnce() -> Path,
) -> Jinja {
    if matches!(value, Value::Unknown(_)) {
        model.request(TemplateRequest::Unknown);
        return Jinja::from(aborted());
    }
    if matches!(value, Value::Reference(_)) {
        model.request(TemplateRequest::Reference(place(path()), value));
        return Jinja::from(aborted());
    }
    to_jinja(shared, model, value, path)
}

fn place(path: Path) -> ReferencePlace {
    match path.has_name() {
        true => ReferencePlace::Path(path.to_string()),
        false => ReferencePlace::Unplaced,
    }
}

fn found(
    shared: &SharedModel,
    model: &mut dyn TemplateModel,
    lookup: Lookup,
    path: impl FnOnce() -> Path,
) -> Jinja {
    match lookup {
        Lookup::Value(value) => to_jinja(shared, model, value, path),
        Lookup::Nothing => Jinja::from_object(Nothing),
        Lookup::Undefined => Jinja::UNDEFINED,
        Lookup::Aborted => {
            if let Some(TemplateRequest::Reference(known @ ReferencePlace::Unplaced, _)) =
                model.pending_request()
            {
                *known = place(path());
            }
            Jinja::from(aborted())
        }
    }
}

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let name = key.as_str()?;
        if name == "self" {
            return Some(Jinja::from_object(Blocks {
                shared: Arc::clone(&self.shared),
            }));
        }
        let mut model = lock(&self.shared);
        // To the name alone, unlike to an attribute, an optional relation without value is as undefined as a name that there is not.
        let result = model
            .name(name)
            .filter(|found| !matches!(found, Lookup::Nothing));
        if result.is_none() {
            model.note_missing_name(name);
        }
        let path = || Path::Name(name.to_owned());
        Some(found(&self.shared, &mut *model, result?, path))
    }
}

impl Object for Blocks {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let name = key.as_str()?;
        lock(&self.shared).note_missing_block(name);
        None
    }

    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<TemplateReference>")
    }
}

impl Object for InstanceObject {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let mut model = lock(&self.shared);
        let name = key.as_str()?;
        let result = model.attribute(self.id, name);
        if matches!(result, Lookup::Nothing | Lookup::Undefined) {
            model.note_missing_attribute(self.id, name);
        }
        let path = || Path::Attribute(Arc::clone(&self.path), name.to_owned());
        Some(found(&self.shared, &mut *model, result, path))
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
        let model = lock(&self.shared);
        write!(f, "@{}", model.instance_handle(self.id))
    }
}

impl ListObject {
    /// Some elements of it, as a list of the model.
    pub fn part(&self, places: impl Iterator<Item = usize>) -> Jinja {
        let items: Vec<Value> = places
            .filter_map(|at| self.items.get(at).copied())
            .collect();
        let value = lock(&self.shared).heap_mut().new_list(&items);
        Jinja::from_object(ListObject {
            shared: Arc::clone(&self.shared),
            items,
            value,
            path: Arc::clone(&self.path),
        })
    }
}

impl Object for ListObject {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let index = key.as_usize()?;
        let value = *self.items.get(index)?;
        let path = || Path::Item(Arc::clone(&self.path), index);
        Some(element(&self.shared, &mut *lock(&self.shared), value, path))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = lock(&self.shared);
        write!(f, "@{}", model.heap().repr(self.value, &*model))
    }
}

impl Object for DictObject {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let mut model = lock(&self.shared);
        let name = key.as_str()?;
        let Some(value) = model.heap().dict_get(self.id, name) else {
            model.note_missing_key(self.id, name);
            return None;
        };
        let path = || Path::Key(Arc::clone(&self.path), name.to_owned());
        Some(element(&self.shared, &mut *model, value, path))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let model = lock(&self.shared);
        let keys = model
            .heap()
            .dict(self.id)
            .entries
            .iter()
            .map(|(key, _)| Jinja::from(model.heap().str(*key)));
        Enumerator::Values(keys.collect())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = lock(&self.shared);
        write!(f, "@{}", model.heap().repr(Value::Dict(self.id), &*model))
    }
}

impl Object for PlainNull {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        other.is::<PlainNull>().then_some(Ordering::Equal)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null")
    }
}

impl Object for Nothing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Empty
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

/// Whether this is a dict of the model that is no mapping to Jinja2: the reference gives templates without arguments another
/// kind of view than what is passed as an argument.
pub(in crate::template) fn is_no_mapping(value: &Jinja) -> bool {
    let dict = value.downcast_object_ref::<DictObject>();
    dict.is_some_and(|dict| !lock(&dict.shared).has_arguments())
}

pub(in crate::template) fn is_instance(value: &Jinja) -> bool {
    value.downcast_object_ref::<InstanceObject>().is_some()
}

/// The entries of a dict of the model, as its methods and filters give them.
pub(in crate::template) struct Entries {
    pub entries: Vec<(Jinja, Jinja)>,
    /// They are Python's own, without the views around lists and dicts; else they are read one by one as items are.
    pub are_plain: bool,
}

/// `None`: this is no dict of the model. Those that are passed as arguments, and what is inside of them, are read through views;
/// others give their entries as Python's own dicts hold them.
pub(in crate::template) fn model_entries(value: &Jinja) -> Option<Entries> {
    let dict = value.downcast_object_ref::<DictObject>()?;
    let mut model = lock(&dict.shared);
    let are_plain = !model.has_arguments();
    let entries = model.heap().dict(dict.id).entries.clone();
    let entry = |(key, value): (StrId, Value)| {
        let name = model.heap().str(key).to_owned();
        let value = if are_plain {
            plain(&dict.shared, &*model, value)
        } else {
            let path = || Path::Key(Arc::clone(&dict.path), name.clone());
            element(&dict.shared, &mut *model, value, path)
        };
        (Jinja::from(name), value)
    };
    let entries = entries.into_iter().map(entry).collect();
    Some(Entries { entries, are_plain })
}

fn plain(shared: &SharedModel, model: &dyn TemplateModel, value: Value) -> Jinja {
    match value {
        Value::List(id) => {
            let items = model.heap().list(id).iter();
            items.map(|item| plain(shared, model, *item)).collect()
        }
        Value::Dict(id) => {
            let entries = model.heap().dict(id).entries.iter();
            let entry = |(key, value): &(StrId, Value)| {
                (
                    model.heap().str(*key).to_owned(),
                    plain(shared, model, *value),
                )
            };
            entries.map(entry).collect()
        }
        Value::Null => Jinja::from_object(PlainNull),
        value => to_jinja(shared, model, value, || Path::Result),
    }
}

pub(in crate::template) fn is_nothing(value: &Jinja) -> bool {
    value.is_undefined() || value.downcast_object_ref::<Nothing>().is_some()
}
