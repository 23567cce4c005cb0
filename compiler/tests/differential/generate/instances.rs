//! Random instances: constructors, look-ups, relations.

use super::schema::{End, Type};
use super::{Generator, Scope};
use crate::tree::{Tree, comma, expression, text};
use crate::{expr, parts};

impl Generator<'_> {
    pub fn instance(&mut self, entity: usize, scope: &Scope, depth: usize) -> Tree {
        if !self.schema.indexes(entity).is_empty() && self.random.chance(40) {
            return self.lookup(entity, scope, depth);
        }
        match self.random.chance(30) {
            true => self.construct(entity, scope, depth),
            false => self.leaf(&Type::Instance(entity), scope, depth),
        }
    }

    fn lookup(&mut self, entity: usize, scope: &Scope, depth: usize) -> Tree {
        let indexes = self.schema.indexes(entity);
        let index = self.random.pick(&indexes).clone();
        let short = self.short_lookup(entity, &index, scope, depth);
        if let (Some(short), true) = (short, self.random.chance(50)) {
            return short;
        }
        let query = self.query(entity, &index, scope, depth);
        expr![self.schema.entities[entity].name.clone(), "[", query, "]"]
    }

    /// `owner.relation[key = value]`
    fn short_lookup(
        &mut self,
        entity: usize,
        index: &[String],
        scope: &Scope,
        depth: usize,
    ) -> Option<Tree> {
        let ends: Vec<End> = self.schema.ends(entity);
        let inverse = ends
            .iter()
            .find(|end| index.contains(&end.name) && end.inverse.is_some())?
            .clone();
        let owner = self.variable_of(&Type::Instance(inverse.target), scope)?;
        let rest: Vec<String> = index
            .iter()
            .filter(|name| **name != inverse.name)
            .cloned()
            .collect();
        let query = self.query(entity, &rest, scope, depth);
        Some(expr![owner, ".", inverse.inverse?, "[", query, "]"])
    }

    fn query(&mut self, entity: usize, names: &[String], scope: &Scope, depth: usize) -> Tree {
        let mut items = Vec::new();
        for name in names {
            if let Some(value) = self.argument(entity, name, scope, depth) {
                items.push(parts![format!("{name} = "), value]);
            }
        }
        comma(items)
    }

    /// A value for an attribute or a relation of an entity.
    fn argument(&mut self, entity: usize, name: &str, scope: &Scope, depth: usize) -> Option<Tree> {
        if let Some(attribute) = self
            .schema
            .attributes(entity)
            .into_iter()
            .find(|one| one.name == name)
        {
            return Some(match attribute.of {
                Type::Text if self.random.chance(70) => self.literal(&Type::Text),
                of => self.value(&of, scope, depth + 2),
            });
        }
        let end = self
            .schema
            .ends(entity)
            .into_iter()
            .find(|end| end.name == name)?;
        Some(self.related(&end, scope, depth))
    }

    /// A value for a relation.
    pub fn related(&mut self, end: &End, scope: &Scope, depth: usize) -> Tree {
        let one = Type::Instance(end.target);
        if end.is_list() && self.random.chance(40) {
            return self.value(&Type::Instances(end.target), scope, depth + 1);
        }
        if end.is_optional() && self.random.chance(5) {
            return expression("null");
        }
        self.value(&one, scope, depth + 1)
    }

    pub fn instances(&mut self, entity: usize, scope: &Scope, depth: usize) -> Tree {
        match self.random.below(4) {
            0 => {
                let mut items = Vec::new();
                for _ in 0..self.random.below(3) {
                    let of = if self.random.chance(30) {
                        Type::Instances(entity)
                    } else {
                        Type::Instance(entity)
                    };
                    items.push(self.value(&of, scope, depth));
                }
                expr!["[", comma(items), "]"]
            }
            1 => {
                let source = self.value(&Type::Instances(entity), scope, depth);
                let name = self.fresh("e");
                let inner = scope.with(&name, Type::Instance(entity));
                let value = match self.random.chance(60) {
                    true => expression(name.clone()),
                    false => self.leaf(&Type::Instance(entity), &inner, depth),
                };
                let mut guards = Vec::new();
                if self.random.chance(40) {
                    let guard = self.bool(&inner, depth + 1);
                    guards.push(parts![" if ", guard]);
                }
                let guards = Tree::Items {
                    separator: "",
                    items: guards,
                };
                expr!["[", value, format!(" for {name} in "), source, guards, "]"]
            }
            _ => self.leaf(&Type::Instances(entity), scope, depth),
        }
    }

    /// A constructor call; where none is allowed a variable or, at worst, null.
    pub fn construct(&mut self, entity: usize, scope: &Scope, depth: usize) -> Tree {
        if entity < scope.constructs_from || (scope.in_loop && !self.random.chance(15)) || depth > 6
        {
            return self
                .variable_of(&Type::Instance(entity), scope)
                .unwrap_or_else(|| expression("null"));
        }
        let children: Vec<usize> = (0..self.schema.entities.len())
            .filter(|other| self.schema.is_a(*other, entity))
            .collect();
        let entity = *self.random.pick(&children);
        let mut arguments = Vec::new();
        let mut spread = Vec::new();
        for attribute in self.schema.attributes(entity) {
            let is_needed = attribute.default.is_none();
            let is_given = match is_needed {
                true => !self.mistake(),
                false => self.random.chance(25),
            };
            if !is_given {
                continue;
            }
            let value = match attribute.of {
                _ if attribute.written.ends_with('?') && self.random.chance(30) => {
                    expression("null")
                }
                Type::Text if self.random.chance(70) => self.literal(&Type::Text),
                ref of => self.value(of, scope, depth + 2),
            };
            match self.random.chance(6) {
                true => spread.push(parts![format!("\"{}\": ", attribute.name), value]),
                false => arguments.push(parts![format!("{} = ", attribute.name), value]),
            }
        }
        for end in self.schema.ends(entity) {
            let percent = match (end.low, end.inverse.is_some()) {
                (0, _) => 12,
                (_, true) => 50,
                (_, false) => 90,
            };
            if self.random.chance(percent) {
                let value = self.related(&end, scope, depth + 2);
                arguments.push(parts![format!("{} = ", end.name), value]);
            }
        }
        if !spread.is_empty() {
            arguments.push(parts!["**", expr!["{", comma(spread), "}"]]);
        }
        if self.mistake() {
            arguments.push(text("missing = 1"));
        }
        expr![
            self.schema.entities[entity].name.clone(),
            "(",
            comma(arguments),
            ")"
        ]
    }
}
