//! Values and what they can do: text, equality, arithmetic, casts; and the types that constrain them.

pub mod cast;
pub mod format;
pub mod json;
mod object;
pub mod ops;
pub mod reference;
pub mod text;
pub mod value;

pub use object::Object;
pub use value::*;

use crate::intern::Symbol;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);

        impl $name {
            #[allow(dead_code, reason = "not every kind of id indexes an arena")]
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
pub(crate) use index;

index! { TypeId, TypedefId, EntityId }

/// A type of the language, or of a plugin's signature.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    Any,
    Null,
    String,
    Int,
    Float,
    Number,
    Bool,
    /// A list of literals.
    List,
    /// A dict of literals.
    Dict,
    /// Plugins only: a list of anything.
    AnyList,
    /// Plugins only: a dict of anything.
    AnyDict,
    ListOf(TypeId),
    DictOf(TypeId),
    Nullable(TypeId),
    Typedef(TypedefId),
    Entity(EntityId),
    Union(Vec<TypeId>),
    Literal(Vec<LiteralValue>),
    /// Plugins only: a reference to values of a type.
    Reference(TypeId),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LiteralValue {
    Str(Symbol),
    Int(i64),
    Bool(bool),
}

impl Type {
    pub fn primitive(name: &str) -> Option<Type> {
        Some(match name {
            "string" => Type::String,
            "int" => Type::Int,
            "float" => Type::Float,
            "number" => Type::Number,
            "bool" => Type::Bool,
            "list" => Type::List,
            "dict" => Type::Dict,
            _ => return None,
        })
    }
}
