//! Where references may go, and how they travel to Python and back. Source:
//! docs/reference/language.md § 12.11.
//!
//! A reference is a value that is known only when a resource is deployed, such as a secret. The
//! model may pass it on to attributes of resources, and to plugins that say that they take
//! references; whatever would have to look at the value (a condition, an operator, a format string)
//! is an error.

use rmpv::Value as Wire;

use crate::diagnostics::{Fail, fail, runtime, typing};
use crate::hir::plugin::PluginError;
use crate::protocol::EXT_REFERENCE;
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::reference::{Origin, RefId, Reference};
use crate::types::{Type, TypeId, Value};

/// The error of a reference where a type takes none.
pub(in crate::runtime) fn undeclared(type_text: &str, loc: Loc) -> Fail {
    let message = if type_text == "any" {
        "References are not allowed for values of type `object`. While the `object` Python type is technically \
         compatible with any value, references are considered special DSL values and are therefore guarded so that \
         they don't accidentally show up where they are not expected. To work with references, explicitly declare \
         support with a `object | Reference` annotation."
            .to_owned()
    } else {
        format!(
            "References are not allowed for values of type `{type_text}`. To work with references, explicitly declare \
             support with a `... | Reference[...]` annotation."
        )
    };
    fail("UnexpectedReference", loc, message)
}

/// A condition or an operand that has to be a bool. Source: docs/reference/language.md § 9.4.
pub(in crate::runtime) fn not_bool(value: Value, loc: Loc, message: String) -> Fail {
    match value {
        Value::Reference(_) => fail("UnexpectedReference", loc, message),
        _ => runtime(loc, message),
    }
}

/// The error of a reference in a format string.
pub(in crate::runtime) fn in_format(name: &str, loc: Loc) -> Fail {
    let message = format!(
        "Encountered reference in string format for variable `{name}`. This is not supported."
    );
    fail("UnexpectedReference", loc, message)
}

impl Machine<'_> {
    /// An attribute takes references to its type, and a list attribute those to its items' type.
    pub(in crate::runtime) fn validate_attribute(
        &mut self,
        ty: TypeId,
        value: Value,
        loc: Loc,
    ) -> Result<(), Fail> {
        if !self.state.heap.holds_reference(value) {
            return self.validate_known(ty, value, loc);
        }
        match self.wrong_reference(ty, value) {
            Some((ty, id)) => {
                let text = self.state.heap.to_text(Value::Reference(id), &self.state);
                let wanted = self.reference_text(ty);
                let message =
                    format!("Invalid value: {text} is not a subtype of Reference[{wanted}]");
                Err(typing(loc, message))
            }
            None => self.validate_rest(ty, value, loc),
        }
    }

    /// The type and the reference where they do not fit.
    fn wrong_reference(&self, ty: TypeId, value: Value) -> Option<(TypeId, RefId)> {
        match (&self.program.types[ty.index()], value) {
            (_, Value::Reference(id)) => {
                (!self.fits_attribute(self.state.heap.reference(id).of, ty)).then_some((ty, id))
            }
            (Type::Nullable(inner), value) => self.wrong_reference(*inner, value),
            (Type::ListOf(item), Value::List(list)) => self
                .state
                .heap
                .list(list)
                .iter()
                .find_map(|element| self.wrong_reference(*item, *element)),
            _ => None,
        }
    }

    /// What is no reference has its type, too.
    fn validate_rest(&mut self, ty: TypeId, value: Value, loc: Loc) -> Result<(), Fail> {
        match (&self.program.types[ty.index()], value) {
            (_, Value::Reference(_)) => Ok(()),
            (Type::Nullable(inner), value) => self.validate_rest(*inner, value, loc),
            (Type::ListOf(item), Value::List(list)) => {
                for at in 0..self.state.heap.list(list).len() {
                    let element = self.state.heap.list(list)[at];
                    self.validate_rest(*item, element, loc)?;
                }
                Ok(())
            }
            _ => self.validate(ty, value, loc),
        }
    }

    /// The type of an attribute as messages about references write it.
    fn reference_text(&self, ty: TypeId) -> String {
        match &self.program.types[ty.index()] {
            Type::ListOf(item) => {
                let item = self.reference_text(*item);
                format!("(Reference[{item}] | {item})[]")
            }
            Type::Nullable(inner) => self.reference_text(*inner),
            Type::List => "list[Literal]".to_owned(),
            Type::Dict => "dict[string, Literal]".to_owned(),
            _ => self.program.type_text(ty),
        }
    }

    /// Whether an attribute takes a reference to values of a type. The elements of an attribute's list may be references.
    fn fits_attribute(&self, of: TypeId, attribute: TypeId) -> bool {
        let types = &self.program.types;
        match (&types[of.index()], &types[attribute.index()]) {
            (Type::Nullable(of), Type::Nullable(attribute)) => self.fits_attribute(*of, *attribute),
            (Type::ListOf(_), Type::Nullable(attribute)) => self.fits_attribute(of, *attribute),
            (Type::ListOf(of), Type::ListOf(element)) => match &types[of.index()] {
                Type::Union(members) => members.iter().all(|of| match &types[of.index()] {
                    Type::Reference(of) => self.is_narrower(*of, *element),
                    _ => self.is_narrower(*of, *element),
                }),
                _ => self.is_narrower(*of, *element),
            },
            _ => self.is_narrower(of, attribute),
        }
    }

    /// Whether every value of `narrow` is one of `wide`.
    fn is_narrower(&self, narrow: TypeId, wide: TypeId) -> bool {
        let types = &self.program.types;
        if narrow == wide {
            return true;
        }
        match (&types[narrow.index()], &types[wide.index()]) {
            (_, Type::Any) | (Type::Int | Type::Float, Type::Number) => true,
            (Type::Entity(narrow), Type::Entity(wide)) => self.program.is_subtype(*narrow, *wide),
            (Type::Nullable(inner), Type::Nullable(other))
            | (Type::ListOf(inner), Type::ListOf(other))
            | (Type::DictOf(inner), Type::DictOf(other)) => self.is_narrower(*inner, *other),
            (Type::ListOf(inner), Type::List) | (Type::DictOf(inner), Type::Dict) => {
                self.is_of_literals(*inner)
            }
            (Type::Typedef(id), _) if narrow != wide => {
                self.is_narrower(self.program.typedefs[id.index()].base, wide)
            }
            (_, Type::Nullable(inner)) => self.is_narrower(narrow, *inner),
            (_, Type::Union(members)) => members
                .iter()
                .any(|member| self.is_narrower(narrow, *member)),
            _ => false,
        }
    }

    /// Whether the model's `list` and `dict` may hold all values of a type.
    fn is_of_literals(&self, ty: TypeId) -> bool {
        match &self.program.types[ty.index()] {
            Type::Any
            | Type::String
            | Type::Int
            | Type::Float
            | Type::Bool
            | Type::Number
            | Type::Reference(_) => true,
            Type::ListOf(inner) | Type::Nullable(inner) => self.is_of_literals(*inner),
            Type::Union(members) => members.iter().all(|member| self.is_of_literals(*member)),
            _ => false,
        }
    }

    /// Whether the type of a plugin's parameter, or of its result, takes a reference.
    pub(in crate::runtime) fn accepts_reference(&self, ty: TypeId, id: RefId) -> bool {
        match &self.program.types[ty.index()] {
            Type::Reference(inner) => self.is_narrower(self.state.heap.reference(id).of, *inner),
            Type::Nullable(inner) => self.accepts_reference(*inner, id),
            Type::Union(members) => members
                .iter()
                .any(|member| self.accepts_reference(*member, id)),
            _ => false,
        }
    }

    /// Whether a value of this type may be a reference, or hold one.
    fn takes_references(&self, ty: TypeId) -> bool {
        match &self.program.types[ty.index()] {
            Type::Reference(_) => true,
            Type::Nullable(inner) => self.takes_references(*inner),
            Type::Union(members) => members.iter().any(|member| self.takes_references(*member)),
            _ => false,
        }
    }

    /// The values of an index are known while the model is compiled.
    pub(in crate::runtime) fn refuse_references(
        &self,
        names: &[crate::intern::Symbol],
        values: &[Value],
        loc: Loc,
    ) -> Result<(), Fail> {
        for (name, value) in names.iter().zip(values) {
            if matches!(value, Value::Reference(_)) {
                let text = self.state.heap.to_text(*value, &self.state);
                let attribute = self.program.text(*name);
                let message = format!(
                    "Invalid value `{text}` in index for attribute {attribute}: references can not be used in indexes."
                );
                return Err(typing(loc, message));
            }
        }
        Ok(())
    }

    /// The type that refuses a reference only because it does not declare that it takes any.
    fn refusing(&self, ty: TypeId, value: Value) -> Option<TypeId> {
        match (&self.program.types[ty.index()], value) {
            (_, Value::Reference(_)) => (!self.takes_references(ty)).then_some(ty),
            (Type::Nullable(inner), value) => self.refusing(*inner, value),
            (Type::AnyDict, Value::Dict(dict)) => {
                let mut entries = self.state.heap.dict(dict).entries.iter();
                let any = entries.any(|(_, item)| matches!(item, Value::Reference(_)));
                any.then(|| self.type_named("any")).flatten()
            }
            (Type::ListOf(item), Value::List(list)) => {
                let mut items = self.state.heap.list(list).iter();
                items.find_map(|element| self.refusing(*item, *element))
            }
            (Type::DictOf(item), Value::Dict(dict)) => {
                let mut entries = self.state.heap.dict(dict).entries.iter();
                entries.find_map(|(_, element)| self.refusing(*item, *element))
            }
            _ => None,
        }
    }

    /// The error for an argument whose type does not fit because of a reference; `None`: it is not because of one.
    pub(in crate::runtime) fn refused_reference(
        &mut self,
        ty: TypeId,
        value: Value,
        parameter: &str,
        plugin: &str,
        loc: Loc,
    ) -> Option<Fail> {
        let refusing = self.refusing(ty, value)?;
        let contains = match value {
            Value::Reference(_) => "is",
            _ => "contains",
        };
        let message = format!(
            "Value {} for argument {parameter} of plugin {plugin} {contains} a reference. To allow references, use \
             `| Reference[...]` in your type annotation.",
            self.state.heap.repr(value, &self.state)
        );
        let program = self.program;
        let cause = match (&program.types[refusing.index()], value) {
            // What has to be a dict or an instance is not asked whether it could be a reference to one.
            (
                Type::Entity(_) | Type::DictOf(_) | Type::AnyDict | Type::Dict,
                Value::Reference(_),
            ) => self.type_error(refusing, value, loc),
            (Type::Typedef(id), _) => {
                undeclared(&program.type_text(program.typedefs[id.index()].base), loc)
            }
            _ => undeclared(&program.type_text(refusing), loc),
        };
        Some(fail("PluginTypeException", loc, message).cause(*cause))
    }

    /// A plugin reads a reference that it did not declare.
    pub(in crate::runtime) fn unexpected_reference(&self, name: &str, value: Value) -> PluginError {
        let message = format!(
            "Encountered unexpected reference value during plugin execution. Plugins are only allowed to access \
             reference values when declared explicitly. Either use a dataclass entity that supports references (e.g. \
             `int | Reference[int]` attribute annotation), or explicitly allow references on attribute access with \
             the `inmanta.plugins.allow_reference_values()` wrapper. Encountered at {name} (= `{}`).",
            self.state.heap.repr(value, &self.state)
        );
        PluginError::Compile(fail("UnexpectedReference", Loc::NONE, message))
    }

    /// Payload: a MessagePack array, of the number of a Python object, or of our number, kind and arguments.
    pub(in crate::runtime) fn reference_to_wire(&self, id: RefId) -> Vec<u8> {
        let reference = self.state.heap.reference(id);
        let parts = match &reference.origin {
            Origin::Python { object, .. }
            | Origin::Plain {
                object: Some(object),
                ..
            } => vec![Wire::from(*object)],
            Origin::Plain { arguments, .. } => {
                let arguments = arguments
                    .iter()
                    .map(|(name, value)| (Wire::from(&**name), self.to_wire(*value)));
                vec![
                    Wire::from(id.0),
                    Wire::from(&*reference.kind),
                    Wire::Map(arguments.collect()),
                ]
            }
            Origin::Native(arguments) => {
                let arguments = arguments
                    .iter()
                    .map(|(name, value)| (Wire::from(*name), self.to_wire(*value)));
                vec![
                    Wire::from(id.0),
                    Wire::from(&*reference.kind),
                    Wire::Map(arguments.collect()),
                ]
            }
        };
        let mut payload = Vec::new();
        // Writing to memory does not fail.
        let _ = rmpv::encode::write_value(&mut payload, &Wire::Array(parts));
        payload
    }

    /// Payload: a MessagePack array, of our number, or of a Python object's number, kind, class, type, text, repr, the number
    /// of the first object that it equals, its arguments if its exported form is made of them alone, and true if it is nothing but
    /// these. Of such a one that is kept the numbers are null. `depth`: how deep inside of another value it is.
    pub(in crate::runtime) fn reference_of(
        &mut self,
        mut payload: &[u8],
        depth: u32,
    ) -> Result<Value, String> {
        let unreadable = || "a reference that can not be read".to_owned();
        let wire = rmpv::decode::read_value(&mut payload).map_err(|_| unreadable())?;
        let parts = wire.as_array().ok_or_else(unreadable)?;
        let number_at = |at: usize| {
            let number = parts.get(at).and_then(Wire::as_u64);
            number.and_then(|number| u32::try_from(number).ok())
        };
        let number = number_at(0);
        let text = |at: usize| parts.get(at).and_then(Wire::as_str);
        let (Some(kind), Some(class), Some(of)) = (text(1), text(2), text(3)) else {
            let id = number.map(RefId).ok_or_else(unreadable)?;
            return match self.state.heap.knows_reference(id) {
                true => Ok(Value::Reference(id)),
                false => Err(unreadable()),
            };
        };
        let Some(of) = self.type_named(of) else {
            return Err(format!(
                "Could not determine the reference type of {class}: there is no type {of} in the model"
            ));
        };
        let arguments = match parts.get(7) {
            Some(Wire::Map(given)) => {
                let mut arguments = Vec::with_capacity(given.len());
                for (name, value) in given {
                    let name = name.as_str().ok_or_else(unreadable)?.into();
                    let value = self.value_of(value, depth + 1);
                    arguments.push((name, value.map_err(|error| error.message)?));
                }
                Some(arguments)
            }
            _ => None,
        };
        let (shown, repr) = (text(4).map(Into::into), text(5).map(Into::into));
        let origin = match (parts.get(8), arguments) {
            (Some(Wire::Boolean(true)), Some(arguments)) => Origin::Plain {
                object: number,
                text: shown,
                repr,
                arguments,
            },
            (_, arguments) => {
                let object = number.ok_or_else(unreadable)?;
                Origin::Python {
                    object,
                    equal: number_at(6).unwrap_or(object),
                    text: shown,
                    repr,
                    arguments,
                }
            }
        };
        Ok(self.state.heap.new_reference(Reference {
            kind: kind.into(),
            class: class.into(),
            of,
            origin,
        }))
    }

    /// A type by the text that annotations have: a primitive, `any`, an entity or typedef by its full name.
    fn type_named(&self, name: &str) -> Option<TypeId> {
        let program = self.program;
        let wanted = match (Type::primitive(name), name) {
            (Some(primitive), _) => primitive,
            (None, "any") => Type::Any,
            (None, name) => {
                let symbol = program.names.find(name)?;
                let entity = program
                    .entities
                    .iter()
                    .position(|entity| entity.name == symbol);
                let typedef = program
                    .typedefs
                    .iter()
                    .position(|typedef| typedef.name == symbol);
                match (entity, typedef) {
                    (Some(at), _) => Type::Entity(crate::types::EntityId(at as u32)),
                    (None, Some(at)) => Type::Typedef(crate::types::TypedefId(at as u32)),
                    (None, None) => return None,
                }
            }
        };
        let at = program.types.iter().position(|ty| *ty == wanted)?;
        Some(TypeId(at as u32))
    }
}

/// Gives the references in a value that are named by numbers other ones, and takes the numbers of Python's objects out of the rest,
/// which another compile does not have. `None`: one of them is more than its arguments.
pub(super) fn rename_references(
    value: &mut Wire,
    other: &dyn Fn(u32) -> Option<u32>,
) -> Option<()> {
    match value {
        Wire::Ext(EXT_REFERENCE, payload) => {
            let mut parts = rmpv::decode::read_value(&mut payload.as_slice()).ok()?;
            let Wire::Array(items) = &mut parts else {
                return None;
            };
            match items.as_mut_slice() {
                [number] => {
                    let known = number.as_u64().and_then(|number| number.try_into().ok())?;
                    *number = Wire::from(other(known)?);
                }
                [object, _, _, _, _, _, equal, given, Wire::Boolean(true)] => {
                    rename_references(given, other)?;
                    (*object, *equal) = (Wire::Nil, Wire::Nil);
                }
                _ => return None,
            }
            payload.clear();
            rmpv::encode::write_value(payload, &parts).ok()?;
        }
        Wire::Array(items) => {
            for item in items {
                rename_references(item, other)?;
            }
        }
        Wire::Map(entries) => {
            for (_, value) in entries {
                rename_references(value, other)?;
            }
        }
        _ => {}
    }
    Some(())
}
