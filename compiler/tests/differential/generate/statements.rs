//! Random statements: assignments, control flow, implementations.

use super::schema::{End, PLAIN, Type};
use super::{Generator, Scope};
use crate::parts;
use crate::tree::{Tree, comma, expression, text};

impl Generator<'_> {
    /// The instances and values that the rest of the model works with; they join the scope.
    pub fn variables(&mut self, scope: &mut Scope) -> Vec<Tree> {
        let mut statements = Vec::new();
        let (low, high) = self.focus.instances;
        if !self.schema.entities.is_empty() {
            for _ in 0..self.random.between(low, high) {
                let entity = self.random.below(self.schema.entities.len());
                let name = self.fresh("v");
                let value = self.construct(entity, scope, 0);
                statements.push(parts![format!("{name} = "), value]);
                scope.variables.push((name, Type::Instance(entity)));
            }
        }
        for _ in 0..self.random.below(self.focus.values + 1) {
            let of = self.random.pick(PLAIN).clone();
            let name = self.fresh("x");
            let value = self.value(&of, scope, 0);
            statements.push(parts![format!("{name} = "), value]);
            scope.variables.push((name, of));
        }
        statements
    }

    pub fn statement(&mut self, scope: &Scope, depth: usize) -> Tree {
        let ends = self.ends_in(scope);
        let weights = [
            if ends.is_empty() {
                0
            } else {
                self.focus.assignments
            },
            if depth < 3 { self.focus.ifs } else { 0 },
            if depth < 3 { self.focus.fors } else { 0 },
            self.focus.prints,
            6,
            2,
            2,
        ];
        match self.random.weighted(&weights) {
            0 => {
                let (name, end) = self.random.pick(&ends).clone();
                self.assignment(&name, &end, scope)
            }
            1 => self.if_statement(scope, depth),
            2 => self.for_statement(scope, depth),
            3 => {
                let of = self.any_type();
                let value = self.value(&of, scope, 1);
                parts!["std::print(", value, ")"]
            }
            4 => {
                let of = self.any_type();
                let name = match scope.variables.first() {
                    Some((known, _)) if self.mistake() => known.clone(),
                    _ => self.fresh("y"),
                };
                let value = self.value(&of, scope, 0);
                parts![format!("{name} = "), value]
            }
            5 => {
                let of = self.any_type();
                self.value(&of, scope, 0)
            }
            _ => self.plain_assignment(scope),
        }
    }

    fn any_type(&mut self) -> Type {
        if !self.schema.entities.is_empty() && self.random.chance(30) {
            let entity = self.random.below(self.schema.entities.len());
            return match self.random.chance(50) {
                true => Type::Instance(entity),
                false => Type::Instances(entity),
            };
        }
        self.random.pick(PLAIN).clone()
    }

    fn ends_in(&self, scope: &Scope) -> Vec<(String, End)> {
        let mut found = Vec::new();
        for (name, of) in &scope.variables {
            if let Type::Instance(entity) = of {
                let ends = self.schema.ends(*entity).into_iter();
                found.extend(ends.map(|end| (name.clone(), end)));
            }
        }
        found
    }

    fn assignment(&mut self, name: &str, end: &End, scope: &Scope) -> Tree {
        let value = self.related(end, scope, 0);
        let adds = end.is_list() && self.random.chance(25) || self.mistake();
        let operator = if adds { " += " } else { " = " };
        parts![format!("{name}.{}{operator}", end.name), value]
    }

    /// Sets an attribute, which often is set already.
    fn plain_assignment(&mut self, scope: &Scope) -> Tree {
        let mut attributes = Vec::new();
        for (name, of) in &scope.variables {
            if let Type::Instance(entity) = of {
                let fitting = self.schema.attributes(*entity).into_iter();
                let fitting = fitting.filter(|attribute| attribute.default.is_none());
                attributes.extend(fitting.map(|attribute| (name.clone(), attribute)));
            }
        }
        if attributes.is_empty() || !self.mistake() {
            return text("");
        }
        let (name, attribute) = self.random.pick(&attributes).clone();
        let value = self.value(&attribute.of, scope, 1);
        parts![format!("{name}.{} = ", attribute.name), value]
    }

    pub fn body(&mut self, scope: &Scope, depth: usize) -> Tree {
        let n_statements = self.random.between(1, 2);
        Tree::Block(
            (0..n_statements)
                .map(|_| self.statement(scope, depth))
                .collect(),
        )
    }

    fn if_statement(&mut self, scope: &Scope, depth: usize) -> Tree {
        let mut clauses = vec![parts![
            "if ",
            self.condition(scope),
            ":",
            self.body(scope, depth + 1)
        ]];
        while self.random.chance(15) {
            clauses.push(parts![
                "elif ",
                self.condition(scope),
                ":",
                self.body(scope, depth + 1)
            ]);
        }
        let mut last = Vec::new();
        if self.random.chance(25) {
            last.push(parts!["else:", self.body(scope, depth + 1)]);
        }
        let first = clauses.remove(0);
        let clauses = Tree::Items {
            separator: "",
            items: clauses,
        };
        let last = Tree::Items {
            separator: "",
            items: last,
        };
        parts![first, clauses, last, "end"]
    }

    /// Of an `if` or a `when`: one that depends on relations, mostly.
    pub fn condition(&mut self, scope: &Scope) -> Tree {
        match self.random.below(10) {
            0..4 => self.is_defined(scope).unwrap_or_else(|| expression("true")),
            4..7 => {
                let lists: Vec<(String, End)> = self
                    .ends_in(scope)
                    .into_iter()
                    .filter(|(_, end)| end.is_list())
                    .collect();
                if lists.is_empty() {
                    return self.bool(scope, 2);
                }
                let (name, end) = self.random.pick(&lists).clone();
                let operator = *self.random.pick(&["==", ">", "<", "!=", ">="]);
                expression(format!(
                    "std::count({name}.{}) {operator} {}",
                    end.name,
                    self.random.below(3)
                ))
            }
            7 => expression(*self.random.pick(&["true", "false"])),
            _ => self.bool(scope, 1),
        }
    }

    fn for_statement(&mut self, scope: &Scope, depth: usize) -> Tree {
        let name = self.fresh("f");
        let (source, of) = match self.random.chance(75) && !self.schema.entities.is_empty() {
            true => {
                let entity = self.random.below(self.schema.entities.len());
                (
                    self.value(&Type::Instances(entity), scope, 1),
                    Type::Instance(entity),
                )
            }
            false => (self.value(&Type::Ints, scope, 1), Type::Int),
        };
        let mut inner = scope.with(&name, of);
        inner.in_loop = true;
        parts![
            format!("for {name} in "),
            source,
            ":",
            self.body(&inner, depth + 1),
            "end"
        ]
    }

    /// Implementations of the entities and what selects them.
    pub fn implementations(&mut self) -> Vec<Tree> {
        let mut statements = Vec::new();
        for entity in 0..self.schema.entities.len() {
            let owner = self.schema.entities[entity].name.clone();
            let scope = Scope {
                variables: vec![("self".to_owned(), Type::Instance(entity))],
                constructs_from: self.schema.last_descendant(entity) + 1,
                in_loop: false,
            };
            for number in 0..self.random.weighted(&self.focus.implementations) {
                let name = format!("im{}{number}", owner.to_lowercase());
                statements.push(parts![
                    format!("implementation {name} for {owner}:"),
                    self.body(&scope, 1),
                    "end"
                ]);
                let mut names = vec![text(name)];
                if self.random.chance(15) {
                    names.push(text("std::none"));
                }
                let mut when = Vec::new();
                if self.random.chance(70) {
                    let condition = self.condition(&scope);
                    when.push(parts![" when ", condition]);
                }
                let when = Tree::Items {
                    separator: "",
                    items: when,
                };
                statements.push(parts![
                    format!("implement {owner} using "),
                    comma(names),
                    when
                ]);
            }
            let is_child = !self.schema.entities[entity].parents.is_empty();
            if is_child && self.random.chance(50) {
                statements.push(text(format!("implement {owner} using parents")));
            }
            if !self.mistake() {
                statements.push(text(format!("implement {owner} using std::none")));
            }
        }
        statements
    }

    /// Prints what the instances hold at the end.
    pub fn summary(&mut self, scope: &Scope) -> Vec<Tree> {
        let mut statements = Vec::new();
        for (name, end) in self.ends_in(scope) {
            let first = self
                .schema
                .attributes(end.target)
                .into_iter()
                .find(|attribute| attribute.of == Type::Text);
            if let (true, Some(attribute), true) = (end.is_list(), first, self.random.chance(60)) {
                let (element, list) = (self.fresh("e"), self.fresh("z"));
                statements.push(text(format!(
                    "{list} = [{element}.{} for {element} in {name}.{}]",
                    attribute.name, end.name
                )));
            }
        }
        statements
    }
}
