//! Random expressions of a type.

use super::schema::{End, PLAIN, Type};
use super::{Generator, Scope};
use crate::tree::{Tree, comma, expression, text};
use crate::{expr, parts};

const TEXTS: &[&str] = &[
    "\"a\"",
    "\"b\"",
    "\"abc\"",
    "\"\"",
    "'c'",
    "r\"a\\b\"",
    "\"10.0.0.1\"",
    "\"a,b\"",
    "\"\\t\\x41\"",
    "\"1\"",
    "\"it's\"",
    "\"\"\"m\nl\"\"\"",
];
const NAMES: &[&str] = &["\"a\"", "\"b\"", "\"c\"", "\"d\""];
const INTS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "5",
    "10",
    "-1",
    "-2",
    "99",
    "007",
    "123456789012345678901234567890",
];
const FLOATS: &[&str] = &[
    "0.0",
    "1.0",
    "2.5",
    ".5",
    "-1.5",
    "0.1",
    "1000000000000000000.0",
    "3.0",
];
const COMPARISONS: &[&str] = &["==", "!=", "<", ">", "<=", ">="];
const UNKNOWN: &str = "std::get_env(\"NOT_THERE\")";

impl Generator<'_> {
    pub fn literal(&mut self, of: &Type) -> Tree {
        match of {
            Type::Int => expression(*self.random.pick(INTS)),
            Type::Float => expression(*self.random.pick(FLOATS)),
            Type::Bool => expression(*self.random.pick(&["true", "false"])),
            Type::Text if self.random.chance(60) => expression(*self.random.pick(NAMES)),
            Type::Text => expression(*self.random.pick(TEXTS)),
            Type::Ints => expression(*self.random.pick(&["[1, 2]", "[]", "[3, 1, 3]", "[0]"])),
            Type::Texts => expression(*self.random.pick(&[
                "[\"a\", \"b\"]",
                "[]",
                "[\"a\"]",
                "[\"b\", [\"a\"]]",
            ])),
            Type::Dict => expression(*self.random.pick(&[
                "{}",
                "{\"a\": 1}",
                "{\"a\": \"b\", r'k': [1, [2]]}",
                "{\"a\": {\"b\": null}}",
            ])),
            Type::Instance(entity) => self.construct(*entity, &Scope::default(), 9),
            Type::Instances(_) => expression("[]"),
        }
    }

    /// An expression of a type, or now and then of another one.
    pub fn value(&mut self, of: &Type, scope: &Scope, depth: usize) -> Tree {
        if self.mistake() {
            return self.wrong_value(of, scope, depth);
        }
        if self.random.chance(self.focus.unknowns) {
            return match of {
                Type::Int => expression(format!("int({UNKNOWN})")),
                Type::Texts | Type::Ints => expression(format!("[1, {UNKNOWN}]")),
                Type::Dict => expression(format!("{{\"a\": {UNKNOWN}}}")),
                _ => expression(UNKNOWN),
            };
        }
        if depth > 3 || self.random.chance(15 + depth * 20) {
            return self.leaf(of, scope, depth);
        }
        let deeper = depth + 1;
        match self.random.below(12) {
            0 => {
                let condition = self.value(&Type::Bool, scope, deeper);
                let first = self.value(of, scope, deeper);
                let second = self.value(of, scope, deeper);
                return expr!["(", condition, " ? ", first, " : ", second, ")"];
            }
            1 if !matches!(of, Type::Instance(_) | Type::Instances(_)) => {
                let inner = self.value(of, scope, deeper);
                let key = self.variable_of(&Type::Dict, scope);
                if let (Some(key), true) = (key, self.random.chance(30)) {
                    return expr![key, "[", expression("\"a\""), "]"];
                }
                return expr!["(", inner, ")"];
            }
            2 if !matches!(of, Type::Instance(_) | Type::Instances(_)) && self.focus.plugins => {
                if let Some(call) = self.plugin(of, scope, deeper) {
                    return call;
                }
            }
            _ => (),
        }
        match of {
            Type::Int => self.int(scope, deeper),
            Type::Float => self.float(scope, deeper),
            Type::Bool => self.bool(scope, deeper),
            Type::Text => self.text(scope, deeper),
            Type::Ints => self.list(&Type::Int, scope, deeper),
            Type::Texts => self.list(&Type::Text, scope, deeper),
            Type::Dict => self.dict(scope, deeper),
            Type::Instance(entity) => self.instance(*entity, scope, deeper),
            Type::Instances(entity) => self.instances(*entity, scope, deeper),
        }
    }

    fn wrong_value(&mut self, of: &Type, scope: &Scope, depth: usize) -> Tree {
        match self.random.below(5) {
            0 => expression("null"),
            1 => expression("nowhere"),
            2 if !self.schema.entities.is_empty() => {
                let entity = self.random.below(self.schema.entities.len());
                self.leaf(&Type::Instance(entity), scope, depth)
            }
            _ => {
                let other = self.random.pick(PLAIN).clone();
                let other = if other == *of { Type::Text } else { other };
                self.value(&other, scope, depth + 1)
            }
        }
    }

    /// A variable, an attribute or a literal.
    pub fn leaf(&mut self, of: &Type, scope: &Scope, depth: usize) -> Tree {
        let is_instance = matches!(of, Type::Instance(_) | Type::Instances(_));
        if self.random.chance(if is_instance { 85 } else { 55 }) {
            if self.random.chance(60)
                && let Some(variable) = self.variable_of(of, scope)
            {
                return variable;
            }
            if let Some(attribute) = self.attribute_of(of, scope) {
                return attribute;
            }
            if let Some(variable) = self.variable_of(of, scope) {
                return variable;
            }
        }
        match of {
            Type::Instance(entity) => self.construct(*entity, scope, depth + 1),
            _ => self.literal(of),
        }
    }

    pub fn variable_of(&mut self, of: &Type, scope: &Scope) -> Option<Tree> {
        let fitting: Vec<&String> = scope
            .variables
            .iter()
            .filter(|(_, known)| match (known, of) {
                (Type::Instance(known), Type::Instance(of)) => self.schema.is_a(*known, *of),
                (Type::Instances(known), Type::Instances(of)) => self.schema.is_a(*known, *of),
                (known, of) => known == of,
            })
            .map(|(name, _)| name)
            .collect();
        (!fitting.is_empty()).then(|| expression((*self.random.pick(&fitting)).clone()))
    }

    /// An attribute of a variable.
    fn attribute_of(&mut self, of: &Type, scope: &Scope) -> Option<Tree> {
        let mut fitting = Vec::new();
        for (name, known) in &scope.variables {
            let Type::Instance(entity) = known else {
                continue;
            };
            match of {
                Type::Instance(of) => {
                    let ends = self.schema.ends(*entity).into_iter();
                    let ends =
                        ends.filter(|end| !end.is_list() && self.schema.is_a(end.target, *of));
                    fitting.extend(ends.map(|end| format!("{name}.{}", end.name)));
                }
                Type::Instances(of) => {
                    let ends = self.schema.ends(*entity).into_iter();
                    let ends =
                        ends.filter(|end| end.is_list() && self.schema.is_a(end.target, *of));
                    fitting.extend(ends.map(|end| format!("{name}.{}", end.name)));
                }
                of => {
                    let attributes = self.schema.attributes(*entity).into_iter();
                    let attributes = attributes.filter(|attribute| attribute.of == *of);
                    fitting
                        .extend(attributes.map(|attribute| format!("{name}.{}", attribute.name)));
                }
            }
        }
        (!fitting.is_empty()).then(|| expression(self.random.pick(&fitting).clone()))
    }

    fn int(&mut self, scope: &Scope, depth: usize) -> Tree {
        match self.random.below(9) {
            0..4 => {
                let left = self.value(&Type::Int, scope, depth);
                let operator = *self.random.pick(&[" + ", " - ", " * ", " % ", " + "]);
                let right = self.value(&Type::Int, scope, depth);
                expr!["(", left, operator, right, ")"]
            }
            4 => {
                let base = self.value(&Type::Int, scope, depth);
                expr![
                    "(",
                    base,
                    " ** ",
                    expression(*self.random.pick(&["2", "3", "0", "-1"])),
                    ")"
                ]
            }
            5 => {
                let of = self
                    .random
                    .pick(&[Type::Float, Type::Text, Type::Bool, Type::Int])
                    .clone();
                let inner = self.value(&of, scope, depth);
                expr!["int(", inner, ")"]
            }
            6 | 7 if !self.schema.entities.is_empty() => {
                let entity = self.random.below(self.schema.entities.len());
                let list = self.value(&Type::Instances(entity), scope, depth);
                let plugin = *self.random.pick(&["std::count(", "std::len("]);
                expr![plugin, list, ")"]
            }
            _ => {
                let list = self.value(&Type::Ints, scope, depth);
                expr!["std::count(", list, ")"]
            }
        }
    }

    fn float(&mut self, scope: &Scope, depth: usize) -> Tree {
        match self.random.below(3) {
            0 => {
                let left = self.value(&Type::Float, scope, depth);
                let operator = *self.random.pick(&[" + ", " - ", " * ", " / ", " % "]);
                let right = self.value(&Type::Float, scope, depth);
                expr!["(", left, operator, right, ")"]
            }
            1 => {
                let left = self.value(&Type::Int, scope, depth);
                expr![
                    "(",
                    left,
                    " / ",
                    expression(*self.random.pick(&["2", "4", "3", "-1"])),
                    ")"
                ]
            }
            _ => {
                let inner = self.value(&Type::Int, scope, depth);
                expr!["float(", inner, ")"]
            }
        }
    }

    pub fn bool(&mut self, scope: &Scope, depth: usize) -> Tree {
        match self.random.below(11) {
            0 | 1 => {
                let of = self.random.pick(&[Type::Int, Type::Float]).clone();
                let left = self.value(&of, scope, depth);
                let operator = *self.random.pick(COMPARISONS);
                let right = self.value(&Type::Int, scope, depth);
                expr!["(", left, format!(" {operator} "), right, ")"]
            }
            2 => {
                let of = self.random.pick(PLAIN).clone();
                let left = self.value(&of, scope, depth);
                let operator = *self.random.pick(&[" == ", " != "]);
                let right = self.value(&of, scope, depth);
                expr!["(", left, operator, right, ")"]
            }
            3 => {
                let inner = self.value(&Type::Bool, scope, depth);
                expr!["(not ", inner, ")"]
            }
            4 | 5 => {
                let left = self.value(&Type::Bool, scope, depth);
                let operator = *self.random.pick(&[" and ", " or "]);
                let right = self.value(&Type::Bool, scope, depth);
                expr!["(", left, operator, right, ")"]
            }
            6 => {
                let left = self.value(&Type::Text, scope, depth);
                let operator = *self.random.pick(&[" in ", " not in "]);
                let of = self.random.pick(&[Type::Texts, Type::Dict]).clone();
                let right = self.value(&of, scope, depth);
                expr!["(", left, operator, right, ")"]
            }
            7 | 8 => self.is_defined(scope).unwrap_or_else(|| expression("true")),
            9 => {
                let of = self
                    .random
                    .pick(&[Type::Int, Type::Text, Type::Ints])
                    .clone();
                let inner = self.value(&of, scope, depth);
                expr!["bool(", inner, ")"]
            }
            _ => {
                let inner = self.value(&Type::Int, scope, depth);
                expr!["(", inner, " > 0)"]
            }
        }
    }

    pub fn is_defined(&mut self, scope: &Scope) -> Option<Tree> {
        let mut names: Vec<String> = Vec::new();
        for (name, of) in &scope.variables {
            match of {
                Type::Instance(entity) => {
                    let ends = self.schema.ends(*entity);
                    for _ in 0..4 {
                        names.extend(ends.iter().map(|end| format!("{name}.{}", end.name)));
                    }
                    let attributes = self.schema.attributes(*entity).into_iter();
                    names.extend(attributes.map(|attribute| format!("{name}.{}", attribute.name)));
                }
                Type::Dict => names.push(format!("{name}[\"a\"]")),
                _ => names.push(name.clone()),
            }
        }
        (!names.is_empty())
            .then(|| expression(format!("({} is defined)", self.random.pick(&names))))
    }

    fn text(&mut self, scope: &Scope, depth: usize) -> Tree {
        match self.random.below(6) {
            0 => {
                let left = self.value(&Type::Text, scope, depth);
                let right = self.value(&Type::Text, scope, depth);
                expr!["(", left, " + ", right, ")"]
            }
            1 => {
                let of = self.random.pick(PLAIN).clone();
                let inner = self.value(&of, scope, depth);
                expr!["string(", inner, ")"]
            }
            2 | 3 => self.interpolation(scope),
            4 => self.formatted(scope),
            _ => self.literal(&Type::Text),
        }
    }

    fn reference(&mut self, scope: &Scope) -> Option<(String, Type)> {
        let of = self.random.pick(PLAIN).clone();
        let tree = match self.random.chance(50) {
            true => self.variable_of(&of, scope),
            false => self
                .attribute_of(&of, scope)
                .or_else(|| self.variable_of(&of, scope)),
        }?;
        Some((tree.render(), of))
    }

    fn interpolation(&mut self, scope: &Scope) -> Tree {
        let mut parts = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            match self.reference(scope) {
                Some((name, _)) if self.random.chance(80) => {
                    let blank = if self.random.chance(20) { " " } else { "" };
                    parts.push(text(format!("{{{{{blank}{name}{blank}}}}}")));
                }
                _ => parts.push(text(*self.random.pick(&[
                    "x",
                    " ",
                    "{",
                    "}",
                    "\\n",
                    "{{ a::b }}",
                    "-",
                ]))),
            }
        }
        let items = Tree::Items {
            separator: "",
            items: parts,
        };
        match self.random.chance(10) {
            true => expr!["\"\"\"", items, "\"\"\""],
            false => expr!["\"", items, "\""],
        }
    }

    fn formatted(&mut self, scope: &Scope) -> Tree {
        let mut parts = Vec::new();
        for _ in 0..self.random.between(1, 3) {
            match self.reference(scope) {
                Some((name, of)) if self.random.chance(80) => {
                    let specs: &[&str] = match of {
                        _ if self.mistake() => &[":d", ":.2f", ":x", ":>5s", ":q"],
                        Type::Int => &[
                            "", ":03d", ":x", ":>6", "!r", ":+", ":,", ":e", ":.2f", ":b", ":<4d",
                            ":^7", ":%",
                        ],
                        Type::Float => &[
                            "", ":.2f", ":e", ":g", ":08.3f", "!r", ":+.1f", ":%", ":>9", ":,.1f",
                        ],
                        Type::Text => &["", ":>5", ":^5", "!r", ":.1", ":*<4", "!s:>4", ":s"],
                        Type::Bool => &["", "!r", ":d", ":>6"],
                        _ => &["", "!r", "!s"],
                    };
                    let spec = *self.random.pick(specs);
                    parts.push(text(format!("{{{name}{spec}}}")));
                }
                _ => parts.push(text(*self.random.pick(&["x", " ", "-", "\\t", "%"]))),
            }
        }
        expr![
            "f\"",
            Tree::Items {
                separator: "",
                items: parts
            },
            "\""
        ]
    }

    fn list(&mut self, of: &Type, scope: &Scope, depth: usize) -> Tree {
        let many = match of {
            Type::Int => Type::Ints,
            _ => Type::Texts,
        };
        if self.random.chance(50) {
            let mut items = Vec::new();
            for _ in 0..self.random.below(4) {
                let of = if self.random.chance(12) { &many } else { of };
                items.push(self.value(of, scope, depth));
            }
            return expr!["[", comma(items), "]"];
        }
        let (source, element) = match self.random.below(4) {
            0 if !self.schema.entities.is_empty() => {
                let entity = self.random.below(self.schema.entities.len());
                (
                    self.value(&Type::Instances(entity), scope, depth),
                    Type::Instance(entity),
                )
            }
            1 => (self.value(&Type::Texts, scope, depth), Type::Text),
            _ => (self.value(&Type::Ints, scope, depth), Type::Int),
        };
        let source = match &source {
            Tree::Expression(parts) if parts == &[text("[]")] => expression("[1, 2, 3]"),
            _ => source,
        };
        self.comprehension(of, source, element, scope, depth)
    }

    fn comprehension(
        &mut self,
        of: &Type,
        source: Tree,
        element: Type,
        scope: &Scope,
        depth: usize,
    ) -> Tree {
        let name = self.fresh("e");
        let mut inner = scope.with(&name, element);
        let mut clauses = vec![parts![format!(" for {name} in "), source]];
        if self.random.chance(15) {
            let second = self.fresh("e");
            let source = self.value(&Type::Ints, &inner, depth + 1);
            clauses.push(parts![format!(" for {second} in "), source]);
            inner = inner.with(&second, Type::Int);
        }
        let mut guards = Vec::new();
        if self.random.chance(40) {
            let guard = self.bool(&inner, depth + 1);
            guards.push(parts![" if ", guard]);
        }
        let value = self.value(of, &inner, depth + 1);
        let clauses = Tree::Items {
            separator: "",
            items: clauses,
        };
        let guards = Tree::Items {
            separator: "",
            items: guards,
        };
        expr!["[", value, clauses, guards, "]"]
    }

    fn dict(&mut self, scope: &Scope, depth: usize) -> Tree {
        let mut items = Vec::new();
        for at in 0..self.random.below(4) {
            let key = if self.mistake() {
                "a"
            } else {
                ["a", "b", "c", "d"][at]
            };
            let of = self.random.pick(PLAIN).clone();
            let value = self.value(&of, scope, depth + 1);
            items.push(parts![format!("\"{key}\": "), value]);
        }
        expr!["{", comma(items), "}"]
    }

    fn instance(&mut self, entity: usize, scope: &Scope, depth: usize) -> Tree {
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

    fn instances(&mut self, entity: usize, scope: &Scope, depth: usize) -> Tree {
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
            if !(is_needed && !self.mistake() || !is_needed && self.random.chance(25)) {
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
