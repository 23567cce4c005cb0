//! Objects that only Python knows, as text: what it says of them when it is asked (`Machine::learn`).

use super::{Heap, Value};

pub struct Object {
    /// Its text by itself, as Python's `str` gives it.
    pub text: Box<str>,
    /// Inside of lists and dicts.
    pub repr: Box<str>,
    /// The name of its class alone.
    pub class: Box<str>,
    /// Plugins get it behind a proxy.
    pub is_behind_proxy: bool,
}

impl Heap {
    pub fn describe_object(&mut self, number: u32, described: Object) {
        self.objects.insert(number, described);
    }

    /// The objects in a value of which nobody has asked.
    pub fn strange_objects(&self, value: Value, found: &mut Vec<u32>) {
        match value {
            Value::Opaque(id) if !self.objects.contains_key(&id) => found.push(id),
            Value::List(id) => {
                for item in self.list(id) {
                    self.strange_objects(*item, found);
                }
            }
            Value::Dict(id) => {
                for (_, item) in &self.dict(id).entries {
                    self.strange_objects(*item, found);
                }
            }
            _ => {}
        }
    }

    pub fn is_behind_proxy(&self, number: u32) -> bool {
        let object = self.objects.get(&number);
        object.is_some_and(|object| object.is_behind_proxy)
    }

    pub(super) fn object_text(&self, number: u32) -> String {
        self.of_object(number, "<object>", |object| &object.text)
            .to_owned()
    }

    pub(super) fn object_repr(&self, number: u32) -> String {
        self.of_object(number, "<object>", |object| &object.repr)
            .to_owned()
    }

    pub(super) fn object_class(&self, number: u32) -> &str {
        self.of_object(number, "object", |object| &object.class)
    }

    fn of_object<'a>(
        &'a self,
        number: u32,
        unknown: &'a str,
        part: impl Fn(&'a Object) -> &'a str,
    ) -> &'a str {
        self.objects.get(&number).map_or(unknown, part)
    }
}
