//! What `keys()`, `values()` and `items()` of a dict give: Python's views, which print as such.
//! Source: docs/reference/std.md § 7.6.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, Value as Jinja};

use crate::template::objects::containers::Sequence;
use crate::template::objects::model_objects::model_entries;
use crate::template::repr::repr;

/// The keys, values or items of a dict.
#[derive(Debug)]
pub(in crate::template) struct View {
    items: Vec<Jinja>,
    printed: Printed,
}

/// How Python prints a view.
#[derive(Debug)]
enum Printed {
    /// That of a dict of Python: by its name, and its items.
    Dict(&'static str),
    /// That of a dict of the model, which comes through a view of ours. With the items of Python's own dict, where they are not
    /// those that it gives.
    PlainDict(&'static str, Option<Vec<Jinja>>),
    /// That of a dict that was passed as an argument: by its name, and the dict.
    Argument(&'static str, Jinja),
}

impl View {
    /// `None`: there is no such view.
    pub fn of(dict: &Jinja, method: &str) -> Result<Option<Jinja>, Error> {
        let (name, abstract_name) = match method {
            "keys" => ("dict_keys", "KeysView"),
            "values" => ("dict_values", "ValuesView"),
            "items" => ("dict_items", "ItemsView"),
            _ => return Ok(None),
        };
        let (entries, mut printed) = match model_entries(dict) {
            Some(of_model) if of_model.are_plain => {
                (of_model.entries, Printed::PlainDict(name, None))
            }
            Some(of_model) => {
                let printed = Printed::Argument(abstract_name, dict.clone());
                (of_model.entries, printed)
            }
            None => {
                let keys = dict.try_iter()?;
                let entry = |key: Jinja| Ok((key.clone(), dict.get_item(&key)?));
                let entries = keys.map(entry).collect::<Result<_, Error>>()?;
                (entries, Printed::Dict(name))
            }
        };
        let item = |(key, value): (Jinja, Jinja)| match method {
            "keys" => key,
            "values" => value,
            _ => Sequence::tuple(vec![key, value]),
        };
        let mut items: Vec<Jinja> = entries.into_iter().map(item).collect();
        if let (Printed::PlainDict(_, plain), "values") = (&mut printed, method) {
            // One by one they come through views, but all of them are printed as Python's own dict has them.
            let values = dict.try_iter()?.map(|key| dict.get_item(&key));
            let values = values.collect::<Result<_, Error>>()?;
            *plain = Some(std::mem::replace(&mut items, values));
        }
        Ok(Some(Jinja::from_object(View { items, printed })))
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |items: &[Jinja]| {
            let items: Vec<String> = items.iter().map(repr).collect();
            items.join(", ")
        };
        match &self.printed {
            Printed::Dict(name) => write!(f, "{name}([{}])", listed(&self.items)),
            Printed::PlainDict(name, plain) => {
                let items = plain.as_ref().unwrap_or(&self.items);
                write!(f, "@{name}([{}])", listed(items))
            }
            Printed::Argument(name, dict) => write!(f, "{name}({})", repr(dict)),
        }
    }
}
