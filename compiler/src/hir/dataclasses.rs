//! Entities that are dataclasses in Python. Source: language.md 10.7.

use super::build::Builder;
use super::{AttributeKind, Def};
use crate::diagnostics::{Fail, fail};
use crate::protocol::{Annotation, DataclassInfo};
use crate::types::{EntityId, Type, TypeId};

impl Builder<'_> {
    /// Pairs every descendant of `std::Dataclass` with its class, and compares the two.
    pub fn check_dataclasses(&mut self, classes: &[DataclassInfo]) -> Result<(), Fail> {
        let base = self.program.names.find("std::Dataclass");
        let base = base.and_then(|name| {
            let mut entities = self.program.entities.iter();
            entities.position(|entity| entity.name == name)
        });
        let Some(base) = base.map(|at| EntityId(at as u32)) else {
            return Ok(());
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
            self.check_dataclass(id, class)?;
            self.program.entities[at].is_dataclass = true;
        }
        Ok(())
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

    /// Whether a field's annotation is the type of an attribute; it may take references besides.
    fn corresponds(&self, ty: TypeId, annotation: &Annotation) -> bool {
        let kind = &self.program.types[ty.index()];
        match (kind, annotation) {
            (_, Annotation::Any) => true,
            (Type::Typedef(id), annotation) => {
                self.program.type_text(ty) == text_of(annotation).unwrap_or_default()
                    || self.corresponds(self.program.typedefs[id.index()].base, annotation)
            }
            (Type::Nullable(inner), Annotation::Union(members)) => {
                let (nulls, rest): (Vec<_>, Vec<_>) = members
                    .iter()
                    .filter(|member| !matches!(member, Annotation::Reference(_)))
                    .partition(|member| **member == Annotation::Null);
                !nulls.is_empty()
                    && matches!(rest.as_slice(), [only] if self.corresponds(*inner, only))
            }
            (_, Annotation::Union(members)) => {
                let plain: Vec<_> = members
                    .iter()
                    .filter(|member| !matches!(member, Annotation::Reference(_)))
                    .collect();
                plain.len() < members.len()
                    && matches!(plain.as_slice(), [only] if self.corresponds(ty, only))
            }
            (Type::ListOf(item), Annotation::List(inner)) => self.corresponds(*item, inner),
            (Type::List, Annotation::List(inner)) => **inner == Annotation::Any,
            (Type::Dict, Annotation::Dict(inner)) => **inner == Annotation::Any,
            (_, Annotation::Model(text)) => *text == self.program.type_text(ty),
            _ => false,
        }
    }

    /// The class that an entity should have.
    fn python_code(&self, id: EntityId) -> String {
        let program = &self.program;
        let entity = program.entity(id);
        let mut code = format!(
            "add to the Python module:\n\nimport dataclasses\n\n@dataclasses.dataclass(frozen=True)\nclass {}:\n",
            program.text(entity.short)
        );
        for attr in &entity.slots {
            let attribute = program.attribute(*attr);
            if let AttributeKind::Plain(ty) = attribute.kind {
                code.push_str(&format!(
                    "    {}: {}\n",
                    program.text(attribute.name),
                    self.python_type(ty)
                ));
            }
        }
        code
    }

    fn python_type(&self, ty: TypeId) -> String {
        match &self.program.types[ty.index()] {
            Type::String => "str".to_owned(),
            Type::Int => "int".to_owned(),
            Type::Float => "float".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Number => "int | float".to_owned(),
            Type::List => "list[object]".to_owned(),
            Type::Dict => "dict[str, object]".to_owned(),
            Type::ListOf(item) => format!("list[{}]", self.python_type(*item)),
            Type::Nullable(inner) => format!("{} | None", self.python_type(*inner)),
            Type::Typedef(id) => self.python_type(self.program.typedefs[id.index()].base),
            _ => "object".to_owned(),
        }
    }
}

fn text_of(annotation: &Annotation) -> Option<&str> {
    match annotation {
        Annotation::Model(text) => Some(text),
        _ => None,
    }
}
