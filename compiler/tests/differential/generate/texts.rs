//! Random texts: concatenated, interpolated, formatted.

use super::schema::{PLAIN, Type};
use super::{Generator, Scope};
use crate::expr;
use crate::tree::{Tree, text};

impl Generator<'_> {
    pub fn text(&mut self, scope: &Scope, depth: usize) -> Tree {
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
}
