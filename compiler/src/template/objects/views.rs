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
    name: &'static str,
    /// Those of dicts of the model come through a view of ours.
    of_model: bool,
    items: Vec<Jinja>,
    /// What is printed, where it is not the items: values of dicts of the model come one by one through views of ours, and all of
    /// them are printed as Python's own dict has them.
    printed: Option<Vec<Jinja>>,
}

impl View {
    /// `None`: there is no such view.
    pub fn of(dict: &Jinja, method: &str) -> Result<Option<Jinja>, Error> {
        let name = match method {
            "keys" => "dict_keys",
            "values" => "dict_values",
            "items" => "dict_items",
            _ => return Ok(None),
        };
        let of_model = model_entries(dict);
        let is_of_model = of_model.is_some();
        let entries = match of_model {
            Some(entries) => entries,
            None => {
                let keys = dict.try_iter()?;
                let entry = |key: Jinja| Ok((key.clone(), dict.get_item(&key)?));
                keys.map(entry).collect::<Result<_, Error>>()?
            }
        };
        let item = |(key, value): (Jinja, Jinja)| match name {
            "dict_keys" => key,
            "dict_values" => value,
            _ => Sequence::tuple(vec![key, value]),
        };
        let mut items: Vec<Jinja> = entries.into_iter().map(item).collect();
        let mut printed = None;
        if is_of_model && name == "dict_values" {
            let values = dict.try_iter()?.map(|key| dict.get_item(&key));
            let values = values.collect::<Result<_, Error>>()?;
            printed = Some(std::mem::replace(&mut items, values));
        }
        Ok(Some(Jinja::from_object(View {
            name,
            of_model: is_of_model,
            items,
            printed,
        })))
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
        let items = self.printed.as_ref().unwrap_or(&self.items);
        let items: Vec<String> = items.iter().map(repr).collect();
        let handle = if self.of_model { "@" } else { "" };
        write!(f, "{handle}{}([{}])", self.name, items.join(", "))
    }
}
