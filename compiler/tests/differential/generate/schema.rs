//! Entities, typedefs, relations and indexes of a random model, and the text that defines them.

use super::Generator;
use crate::tree::{Tree, comma, expression, text};
use crate::{expr, parts};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Int,
    Float,
    Bool,
    Text,
    Ints,
    Texts,
    Dict,
    Instance(usize),
    Instances(usize),
}

/// The types that attributes have.
pub const PLAIN: &[Type] = &[
    Type::Int,
    Type::Float,
    Type::Bool,
    Type::Text,
    Type::Ints,
    Type::Texts,
    Type::Dict,
];

#[derive(Debug, Clone)]
pub struct Attribute {
    pub name: String,
    pub of: Type,
    /// As it is written, a typedef perhaps.
    pub written: String,
    pub default: Option<Tree>,
}

#[derive(Debug, Clone, Default)]
pub struct Entity {
    pub name: String,
    pub parents: Vec<usize>,
    pub attributes: Vec<Attribute>,
    pub indexes: Vec<Vec<String>>,
}

/// One end of a relation, as an attribute of its owner.
#[derive(Debug, Clone)]
pub struct End {
    pub owner: usize,
    pub name: String,
    pub target: usize,
    pub low: usize,
    /// `None`: any number.
    pub high: Option<usize>,
    /// The name of the other end.
    pub inverse: Option<String>,
}

impl End {
    pub fn is_list(&self) -> bool {
        self.high != Some(1)
    }

    pub fn is_optional(&self) -> bool {
        self.high == Some(1) && self.low == 0
    }
}

#[derive(Debug, Default)]
pub struct Schema {
    pub entities: Vec<Entity>,
    pub ends: Vec<End>,
    pub typedefs: Vec<(String, Type)>,
}

impl Schema {
    pub fn is_a(&self, entity: usize, ancestor: usize) -> bool {
        entity == ancestor
            || self.entities[entity]
                .parents
                .iter()
                .any(|parent| self.is_a(*parent, ancestor))
    }

    pub fn attributes(&self, entity: usize) -> Vec<Attribute> {
        let mut found: Vec<Attribute> = self.entities[entity].attributes.clone();
        for parent in &self.entities[entity].parents {
            for attribute in self.attributes(*parent) {
                if found.iter().all(|known| known.name != attribute.name) {
                    found.push(attribute);
                }
            }
        }
        found
    }

    pub fn ends(&self, entity: usize) -> Vec<End> {
        let ends = self.ends.iter();
        ends.filter(|end| self.is_a(entity, end.owner))
            .cloned()
            .collect()
    }

    pub fn indexes(&self, entity: usize) -> Vec<Vec<String>> {
        let mut found = self.entities[entity].indexes.clone();
        for parent in &self.entities[entity].parents {
            found.extend(self.indexes(*parent));
        }
        found
    }

    /// The last of an entity's descendants: what an implementation constructs comes after it, so that models end.
    pub fn last_descendant(&self, entity: usize) -> usize {
        (0..self.entities.len())
            .filter(|other| self.is_a(*other, entity))
            .max()
            .unwrap_or(entity)
    }
}

impl Generator<'_> {
    /// Makes up the schema and returns the statements that define it.
    pub fn schema(&mut self) -> Vec<Tree> {
        let mut defined = Vec::new();
        let n_typedefs = self.random.below(self.focus.typedefs + 1);
        for number in 0..n_typedefs {
            defined.push(self.typedef(number));
        }
        let (low, high) = self.focus.entities;
        for number in 0..self.random.between(low, high) {
            defined.push(self.entity(number));
        }
        if self.schema.entities.is_empty() {
            return defined;
        }
        let (low, high) = self.focus.relations;
        for number in 0..self.random.between(low, high) {
            defined.push(self.relation(number));
        }
        for _ in 0..self.random.below(self.focus.indexes + 1) {
            defined.extend(self.index());
        }
        defined
    }

    fn typedef(&mut self, number: usize) -> Tree {
        let name = format!("t{number}");
        let (of, base, condition): (Type, &str, Tree) = match self.random.below(7) {
            0 => (Type::Int, "int", expression("self > 0")),
            1 => (
                Type::Int,
                "int",
                expression("self >= 0 and self < 10 or self == 99"),
            ),
            2 => (Type::Text, "string", expression("self != \"b\"")),
            3 => (
                Type::Text,
                "string",
                expression("self in [\"a\", \"b\", \"abc\"]"),
            ),
            4 => (Type::Text, "string", expression("std::length(self) < 4")),
            5 => (Type::Float, "float", expression("not self < 0")),
            _ => {
                let regex = *self
                    .random
                    .pick(&["/a.*/", "/[a-c]+$/", "/^\\w{1,3}$/", "/(a|b)?c/"]);
                self.schema.typedefs.push((name.clone(), Type::Text));
                return text(format!("typedef {name} as string matching {regex}"));
            }
        };
        let base = match self
            .schema
            .typedefs
            .iter()
            .rev()
            .find(|(_, known)| *known == of)
        {
            Some((typedef, _)) if self.random.chance(30) => typedef.clone(),
            _ => base.to_owned(),
        };
        self.schema.typedefs.push((name.clone(), of));
        parts![format!("typedef {name} as {base} matching "), condition]
    }

    fn entity(&mut self, number: usize) -> Tree {
        let name = format!("{}", (b'A' + number as u8) as char);
        let mut entity = Entity {
            name: name.clone(),
            ..Entity::default()
        };
        if number > 0 && self.random.chance(self.focus.inheritance) {
            entity.parents.push(self.random.below(number));
            if number > 1 && self.random.chance(25) {
                let other = self.random.below(number);
                if !entity.parents.contains(&other) || self.mistake() {
                    entity.parents.push(other);
                }
            }
        }
        let mut lines = Vec::new();
        if entity.parents.is_empty() || self.random.chance(30) {
            let written = "string".to_owned();
            let attribute = format!(
                "n{}",
                if self.random.chance(15) {
                    name.to_lowercase()
                } else {
                    String::new()
                }
            );
            lines.push(text(format!("{written} {attribute}")));
            entity.attributes.push(Attribute {
                name: attribute,
                of: Type::Text,
                written,
                default: None,
            });
        }
        for at in 0..self.random.below(self.focus.attributes + 1) {
            let attribute = if self.random.chance(8) {
                format!("p{at}")
            } else {
                format!("{}{at}", name.to_lowercase())
            };
            let (line, attribute) = self.attribute(attribute);
            lines.push(line);
            entity.attributes.push(attribute);
        }
        let extends = match entity.parents.len() {
            0 => text(""),
            _ => {
                let names = entity.parents.iter();
                let names = names.map(|parent| text(self.schema.entities[*parent].name.clone()));
                parts![" extends ", comma(names.collect())]
            }
        };
        self.schema.entities.push(entity);
        parts!["entity ", name, extends, ":", Tree::Block(lines), "end"]
    }

    fn attribute(&mut self, name: String) -> (Tree, Attribute) {
        let of = self.random.pick(PLAIN).clone();
        let typedefs: Vec<String> = self
            .schema
            .typedefs
            .iter()
            .filter(|(_, base)| *base == of)
            .map(|(name, _)| name.clone())
            .collect();
        let mut written = match of {
            Type::Int if self.random.chance(10) => "number",
            Type::Int => "int",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Text => "string",
            Type::Ints if self.random.chance(30) => "list",
            Type::Ints => "int[]",
            Type::Texts if self.random.chance(30) => "list",
            Type::Texts => "string[]",
            _ => "dict",
        }
        .to_owned();
        if !typedefs.is_empty() && self.random.chance(40) {
            written = self.random.pick(&typedefs).clone();
        }
        let is_nullable = self.random.chance(20);
        if is_nullable {
            written.push('?');
        }
        let default = self.random.chance(45).then(|| match is_nullable {
            true if self.random.chance(60) => text("null"),
            _ if self.mistake() => self.constant(&Type::Text),
            _ => self.constant(&of),
        });
        let line = match &default {
            Some(value) => parts![format!("{written} {name} = "), value.clone()],
            None => text(format!("{written} {name}")),
        };
        let attribute = Attribute {
            name,
            of,
            written,
            default,
        };
        (line, attribute)
    }

    fn relation(&mut self, number: usize) -> Tree {
        let owner = self.random.below(self.schema.entities.len());
        let target = self.random.below(self.schema.entities.len());
        let name = format!("r{number}");
        let (low, high) = self.multiplicity();
        let left = format!(
            "{}.{name} {}",
            self.schema.entities[owner].name,
            written(low, high)
        );
        let inverse = self.random.chance(self.focus.inverses);
        let connector = match self.random.below(30) {
            0 => " \"note\" ",
            1 => " 1 + 1, \"note\" ",
            _ => " -- ",
        };
        let mut end = End {
            owner,
            name: name.clone(),
            target,
            low,
            high,
            inverse: None,
        };
        let right = if inverse {
            let other = format!("i{number}");
            let (low, high) = self.multiplicity();
            end.inverse = Some(other.clone());
            self.schema.ends.push(End {
                owner: target,
                name: other.clone(),
                target: owner,
                low,
                high,
                inverse: Some(name),
            });
            format!(
                "{}.{other} {}",
                self.schema.entities[target].name,
                written(low, high)
            )
        } else {
            self.schema.entities[target].name.clone()
        };
        self.schema.ends.push(end);
        text(format!("{left}{connector}{right}"))
    }

    fn multiplicity(&mut self) -> (usize, Option<usize>) {
        let weights = self.focus.multiplicities;
        match self.random.weighted(&weights) {
            0 => (0, None),
            1 => (0, Some(1)),
            2 => (1, Some(1)),
            3 => (1, None),
            4 => (0, Some(2)),
            _ => (2, Some(self.random.between(2, 3))),
        }
    }

    fn index(&mut self) -> Option<Tree> {
        let at = self.random.below(self.schema.entities.len());
        let mut names: Vec<String> = self
            .schema
            .attributes(at)
            .into_iter()
            .filter(|attribute| {
                matches!(
                    attribute.of,
                    Type::Int | Type::Float | Type::Bool | Type::Text
                )
            })
            .map(|attribute| attribute.name)
            .collect();
        let singles = self.schema.ends(at);
        names.extend(
            singles
                .into_iter()
                .filter(|end| end.low == 1 && end.high == Some(1))
                .map(|end| end.name),
        );
        if self.mistake() {
            names.push("missing".to_owned());
        }
        self.random.shuffle(&mut names);
        names.truncate(self.random.between(1, 2));
        if names.is_empty() {
            return None;
        }
        let entity = &mut self.schema.entities[at];
        let line = format!("index {}({})", entity.name, names.join(", "));
        entity.indexes.push(names);
        Some(text(line))
    }

    /// A constant, as a default may be.
    pub fn constant(&mut self, of: &Type) -> Tree {
        match of {
            Type::Ints => {
                let items = (0..self.random.below(3)).map(|_| self.constant(&Type::Int));
                let items = items.collect();
                expr!["[", comma(items), "]"]
            }
            Type::Texts => {
                let items = (0..self.random.below(3)).map(|_| self.constant(&Type::Text));
                let items = items.collect();
                expr!["[", comma(items), "]"]
            }
            Type::Dict => expression(*self.random.pick(&[
                "{}",
                "{\"a\": 1}",
                "{\"a\": \"b\", \"c\": [1, 2]}",
            ])),
            _ => self.literal(of),
        }
    }
}

fn written(low: usize, high: Option<usize>) -> String {
    match (low, high) {
        (low, None) => format!("[{low}:]"),
        (1, Some(1)) => "[1]".to_owned(),
        (low, Some(high)) => format!("[{low}:{high}]"),
    }
}
