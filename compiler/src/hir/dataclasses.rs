//! Entities that are dataclasses in Python. Source: docs/reference/language.md § 10.7.

use super::build::{Builder, ErrorOrder};
use super::{AttributeKind, Def};
use crate::diagnostics::{Fail, Warning, fail};
use crate::intern::Symbol;
use crate::protocol::{Annotation, DataclassInfo};
use crate::span::Loc;
use crate::types::{EntityId, Type, TypeId};

impl Builder<'_> {
    /// Pairs every descendant of `std::Dataclass` with its class, and compares the two.
    pub fn check_dataclasses(&mut self, classes: &[DataclassInfo]) {
        let base = self.program.names.find("std::Dataclass");
        let base = base.and_then(|name| {
            let mut entities = self.program.entities.iter();
            entities.position(|entity| entity.name == name)
        });
        let Some(base) = base.map(|at| EntityId(at as u32)) else {
            return;
        };
        for at in 0..self.program.entities.len() {
            let id = EntityId(at as u32);
            if id == base || !self.program.is_subtype(id, base) {
                continue;
            }
            let name = self.program.entity_name(id).to_owned();
            // An entity without a class of its name stays as it is.
            let Some(class) = classes.iter().find(|class| class.entity == name) else {
                continue;
            };
            self.warn_of_casts(class);
            if let Err(error) = self.check_dataclass(id, class) {
                self.entity_errors.push((ErrorOrder::of_class(id), error));
                return;
            }
            self.program.entities[at].field_types = self.field_types(id, class);
            self.program.entities[at].is_dataclass = true;
        }
    }

    fn warn_of_casts(&mut self, class: &DataclassInfo) {
        for message in class.fields.iter().flat_map(|field| &field.warnings) {
            self.program.warnings.push(Warning {
                kind: "InmantaWarning",
                message: message.clone(),
                loc: Loc::NONE,
                notes: Vec::new(),
            });
        }
    }

    fn check_dataclass(&mut self, id: EntityId, class: &DataclassInfo) -> Result<(), Fail> {
        let program = &self.program;
        let entity = program.entity(id);
        let name = program.text(entity.name);
        let place = program.sources.exact(entity.loc);
        if let Some(problem) = &class.problem {
            let message = format!(
                "The python object inmanta_plugins.{} associated to  {name} defined at {place} is not {problem}. \
                 Dataclasses must have a python counterpart that is a frozen dataclass.",
                name.replace("::", ".")
            );
            return Err(
                fail("DataClassMismatchException", entity.loc, message).help(self.python_code(id))
            );
        }
        let failures = self.differences(id, class);
        let program = &self.program;
        let entity = program.entity(id);
        let name = program.text(entity.name);
        if !failures.is_empty() {
            let list: String = failures
                .iter()
                .map(|failure| format!("    -{failure}\n"))
                .collect();
            let message = format!(
                "The dataclass {name} defined at {place} does not match the corresponding python dataclass at {}:{}. {} errors:\n{list}",
                class.file,
                class.line,
                failures.len()
            );
            return Err(
                fail("DataClassMismatchException", entity.loc, message).help(self.python_code(id))
            );
        }
        let std = program
            .names
            .find("std")
            .and_then(|name| self.namespace_of.get(&name));
        let none = program.names.find("none").and_then(|none| {
            match program.namespaces[std?.index()].defs.get(&none)? {
                Def::Implementation(id) => Some(*id),
                _ => None,
            }
        });
        for implement in &entity.implements {
            let implement = &program.implements[implement.index()];
            let mut using = implement.using.iter();
            if using.any(|implementation| Some(*implementation) != none) {
                let message = format!(
                    "The dataclass {name} defined at {place} has an implementation other than 'std::none', defined at {}. \
                     Dataclasses can only have std::none as implemenation.",
                    program.sources.exact(implement.loc)
                );
                return Err(fail("DataClassException", entity.loc, message)
                    .note("it is here", implement.loc));
            }
        }
        if !entity.indexes.is_empty() {
            let message = format!(
                "The dataclass {name} defined at {place} has an indexes defined at it or an ancestor. Dataclasses can not have any indexes."
            );
            return Err(fail("DataClassException", entity.loc, message));
        }
        Ok(())
    }

    fn differences(&mut self, id: EntityId, class: &DataclassInfo) -> Vec<String> {
        const IDENTICAL: &str = "All attributes of a dataclasses must be identical in both the python and inmanta domain";
        let mut failures = Vec::new();
        let mut seen = Vec::new();
        for attr in self.program.entity(id).slots.clone() {
            let attribute = self.program.attribute(attr);
            let name = self.program.text(attribute.name).to_owned();
            let ty = match attribute.kind {
                AttributeKind::Plain(ty) => ty,
                AttributeKind::Relation { .. } => {
                    let owner = self.program.entity_name(attribute.entity);
                    if owner != "std::Entity" {
                        failures.push(format!(
                            "a relation called {name} is defined at {}. Dataclasses are not allowed to have relations",
                            self.program.sources.exact(attribute.loc)
                        ));
                    }
                    continue;
                }
            };
            if !self.is_primitive(ty) {
                failures.push(format!(
                    "The attribute {name} of type `{}` is not primitive. All attributes of a dataclasses have to be of a primitive type.",
                    self.program.type_text(ty)
                ));
                continue;
            }
            let Some(field) = class.fields.iter().find(|field| field.name == name) else {
                failures.push(format!(
                    "The attribute {name} has no counterpart in the python domain. {IDENTICAL}."
                ));
                continue;
            };
            if !self.corresponds(ty, &field.annotation) {
                failures.push(format!(
                    "The attribute {name} does not have the same type as the associated field in the python domain. {IDENTICAL}."
                ));
            }
            seen.push(name);
        }
        for field in &class.fields {
            if !seen.contains(&field.name) {
                failures.push(format!(
                    "The field {} doesn't exist in the inmanta domain. {IDENTICAL}",
                    field.name
                ));
            }
        }
        failures
    }

    /// Whether every value of a field's type is one of the attribute's type, besides the references that it takes.
    fn corresponds(&self, ty: TypeId, annotation: &Annotation) -> bool {
        let kind = &self.program.types[ty.index()];
        match (kind, annotation) {
            (_, Annotation::Any) => true,
            (Type::Nullable(inner), Annotation::Union(members)) => {
                let (nulls, rest): (Vec<_>, Vec<_>) = members
                    .iter()
                    .partition(|member| **member == Annotation::Null);
                !nulls.is_empty()
                    && matches!(rest.as_slice(), [only] if self.corresponds(*inner, only))
            }
            (_, Annotation::Union(members)) => {
                or_reference(members).is_some_and(|value| self.corresponds(ty, value))
            }
            (Type::ListOf(item), Annotation::List(inner)) => self.corresponds(*item, inner),
            (Type::List, Annotation::List(inner)) | (Type::Dict, Annotation::Dict(inner)) => {
                is_literal(inner)
            }
            // A list without the type of its items may have any, which the model's may not.
            (Type::List, _) => false,
            (Type::Number, Annotation::Model(text)) => {
                matches!(text.as_str(), "int" | "float" | NUMBER)
            }
            (_, Annotation::Model(text)) => *text == self.program.type_text(ty),
            _ => false,
        }
    }

    /// Whether a type of the model is built in, with nothing but such inside: only these have a counterpart in Python.
    fn is_primitive(&self, ty: TypeId) -> bool {
        match &self.program.types[ty.index()] {
            Type::ListOf(inner) | Type::Nullable(inner) => self.is_primitive(*inner),
            Type::Typedef(_) => false,
            _ => true,
        }
    }

    fn field_types(&mut self, id: EntityId, class: &DataclassInfo) -> Vec<(Symbol, TypeId)> {
        let namespace = self.program.entity_name(id);
        let namespace = namespace.rsplit_once("::").map_or("", |(space, _)| space);
        let namespace = self.program.names.find(namespace);
        let Some(namespace) = namespace.and_then(|name| self.namespace_of.get(&name).copied())
        else {
            return Vec::new();
        };
        let mut types = Vec::new();
        for field in &class.fields {
            let value = match &field.annotation {
                Annotation::Union(members) => or_reference(members).unwrap_or(&field.annotation),
                annotation => annotation,
            };
            let ty = match holds_any(value) {
                // What may be anything is taken for what the attribute says.
                true => self.attribute_type(id, &field.name),
                false => self
                    .annotation(namespace, &class.entity, &field.name, value)
                    .ok(),
            };
            if let Some(ty) = ty {
                types.push((self.intern(&field.name), ty));
            }
        }
        types
    }

    fn attribute_type(&self, id: EntityId, name: &str) -> Option<TypeId> {
        let mut slots = self.program.entity(id).slots.iter();
        slots.find_map(|attr| {
            let attribute = self.program.attribute(*attr);
            match attribute.kind {
                AttributeKind::Plain(ty) if self.program.text(attribute.name) == name => Some(ty),
                _ => None,
            }
        })
    }

    /// The class that an entity should have, behind what is to be changed in the entity.
    fn python_code(&self, id: EntityId) -> String {
        let program = &self.program;
        let entity = program.entity(id);
        let (mut changes, mut fields) = (String::new(), String::new());
        for attr in &entity.slots {
            let attribute = program.attribute(*attr);
            if let AttributeKind::Plain(ty) = attribute.kind {
                let name = program.text(attribute.name);
                if !self.is_primitive(ty) {
                    changes.push_str(&format!(
                        "make `{name}` a `{}`, which has a counterpart in Python, and ",
                        self.built_in(ty)
                    ));
                }
                let ty = self.python_type(ty);
                fields.push_str(&format!("    {name}: {ty}\n"));
            }
        }
        let import = if fields.contains(NUMBER) {
            "import numbers\n"
        } else {
            ""
        };
        let name = program.text(entity.short);
        format!(
            "{changes}add to the Python module:\n\nimport dataclasses\n{import}\n@dataclasses.dataclass(frozen=True)\nclass {name}:\n{fields}"
        )
    }

    /// The built-in type that a type of the model is based on.
    fn built_in(&self, ty: TypeId) -> String {
        match &self.program.types[ty.index()] {
            Type::Typedef(id) => self.built_in(self.program.typedefs[id.index()].base),
            Type::ListOf(inner) => format!("{}[]", self.built_in(*inner)),
            Type::Nullable(inner) => format!("{}?", self.built_in(*inner)),
            _ => self.program.type_text(ty),
        }
    }

    fn python_type(&self, ty: TypeId) -> String {
        match &self.program.types[ty.index()] {
            Type::String => "str".to_owned(),
            Type::Int => "int".to_owned(),
            Type::Float => "float".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Number => NUMBER.to_owned(),
            Type::List => "list[object]".to_owned(),
            Type::Dict => "dict[str, object]".to_owned(),
            Type::ListOf(item) => format!("list[{}]", self.python_type(*item)),
            Type::Nullable(inner) => format!("{} | None", self.python_type(*inner)),
            Type::Typedef(id) => self.python_type(self.program.typedefs[id.index()].base),
            _ => "object".to_owned(),
        }
    }
}

/// How Python's `numbers.Number` is told.
const NUMBER: &str = "numbers.Number";

fn holds_any(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Any => true,
        Annotation::List(inner) | Annotation::Dict(inner) => holds_any(inner),
        Annotation::Union(members) => members.iter().any(holds_any),
        _ => false,
    }
}

/// T of `T | Reference[T]`.
fn or_reference(members: &[Annotation]) -> Option<&Annotation> {
    match members {
        [value, Annotation::Reference(of)] | [Annotation::Reference(of), value] => {
            (**of == *value).then_some(value)
        }
        _ => None,
    }
}

/// Whether the model's `list` and `dict` may hold all values of a type: no dicts, no instances, and not null alone.
fn is_literal(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Any | Annotation::Reference(_) => true,
        Annotation::Model(text) => {
            matches!(text.as_str(), "string" | "int" | "float" | "bool" | NUMBER)
        }
        Annotation::List(item) => is_literal(item),
        Annotation::Union(members) => {
            let mut members = members
                .iter()
                .filter(|member| **member != Annotation::Null)
                .peekable();
            members.peek().is_some() && members.all(is_literal)
        }
        _ => false,
    }
}
