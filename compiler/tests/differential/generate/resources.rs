//! Models whose instances are exported as resources.

use super::schema::Type;
use super::{Generator, Scope, lines_of};
use crate::tree::{Case, Tree, comma, expression, text};
use crate::{expr, parts};

/// Attributes of `std::testing::NullResource`.
const ATTRIBUTES: &[(&str, Type)] = &[
    ("name", Type::Text),
    ("name", Type::Text),
    ("agentname", Type::Text),
    ("value", Type::Text),
    ("int_value", Type::Int),
    ("send_event", Type::Bool),
    ("receive_events", Type::Bool),
    ("report_only", Type::Bool),
    ("fail", Type::Bool),
    ("managed", Type::Bool),
    ("purged", Type::Bool),
    ("purge_on_delete", Type::Bool),
];

impl Generator<'_> {
    pub fn resources(mut self) -> Case {
        if self.random.chance(40) {
            self.focus.unknowns = 6;
        }
        let mut lines = vec![text("import std::testing")];
        let mut scope = Scope::default();
        for _ in 0..self.random.below(3) {
            let of = self
                .random
                .pick(&[Type::Int, Type::Text, Type::Bool])
                .clone();
            let name = self.fresh("x");
            let value = self.value(&of, &scope, 1);
            lines.push(parts![format!("{name} = "), value]);
            scope.variables.push((name, of));
        }
        let mut types = vec!["std::testing::NullResource"];
        if self.random.chance(40) {
            lines.push(parts![
                "entity R extends std::testing::NullResource:",
                Tree::Block(vec![
                    text("string extra = \"e\""),
                    text("string name = \"r\"")
                ]),
                "end"
            ]);
            lines.push(text("implement R using std::none"));
            types.push("R");
        }
        if self.random.chance(40) {
            lines.push(parts![
                "entity W:",
                Tree::Block(vec![text("string n")]),
                "end"
            ]);
            lines.push(text("W.parts [0:] -- std::testing::NullResource"));
            let body = vec![
                parts![
                    "self.parts = std::testing::NullResource(name = self.n, requires = self.requires, provides = self.provides)"
                ],
                text(
                    "self.parts = std::testing::NullResource(name = \"{{n}}-2\", agentname = self.n)",
                ),
            ];
            lines.push(parts![
                "implementation parts for W:",
                Tree::Block(body),
                "end"
            ]);
            lines.push(text("implement W using parts"));
        }
        let has_wrapper = lines.len() > 3
            && lines
                .iter()
                .any(|line| line.render() == "implement W using parts");
        let mut names = Vec::new();
        for _ in 0..self.random.between(1, 5) {
            let name = self.fresh("v");
            let value = match self.random.below(10) {
                0 => self.host(&scope),
                1 if has_wrapper => {
                    let value = self.value(&Type::Text, &scope, 2);
                    expr!["W(n = ", value, ")"]
                }
                _ => self.null_resource(&types, &scope, &names),
            };
            lines.push(parts![format!("{name} = "), value]);
            names.push(name);
        }
        for _ in 0..self.random.below(5) {
            let statement = self.dependency(&names);
            lines.push(statement);
        }
        let mut case = Case::new(lines_of(lines));
        case.export = true;
        case
    }

    fn null_resource(&mut self, types: &[&str], scope: &Scope, names: &[String]) -> Tree {
        let mut arguments: Vec<Tree> = Vec::new();
        let mut used: Vec<&str> = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let (name, of) = self.random.pick(ATTRIBUTES).clone();
            if used.contains(&name) {
                continue;
            }
            used.push(name);
            let value = match (name, self.random.below(10)) {
                ("name" | "value", 8..10) => expression("std::create_environment_reference(\"A\")"),
                ("int_value", 0 | 1) => expression(
                    "std::create_int_reference(std::create_environment_reference(\"A\"))",
                ),
                ("name", 0..8) => expression(format!("\"r{}\"", self.random.below(6))),
                ("managed" | "purged", _) => expression(*self.random.pick(&["true", "false"])),
                _ => self.value(&of, scope, 2),
            };
            arguments.push(parts![format!("{name} = "), value]);
        }
        if !names.is_empty() && self.random.chance(40) {
            let other = self.random.pick(names).clone();
            let side = *self.random.pick(&["requires", "provides"]);
            arguments.push(parts![format!("{side} = "), expression(other)]);
        }
        expr![*self.random.pick(types), "(", comma(arguments), ")"]
    }

    fn host(&mut self, scope: &Scope) -> Tree {
        let name = match self.random.chance(85) {
            true => expression(format!("\"h{}\"", self.random.below(3))),
            false => self.value(&Type::Text, scope, 2),
        };
        let mut arguments = vec![
            parts!["name = ", name],
            parts![
                "os = ",
                expression(
                    *self
                        .random
                        .pick(&["std::linux", "std::windows", "std::unix"])
                )
            ],
        ];
        if self.random.chance(60) {
            arguments.push(parts![
                "ip = ",
                expression(
                    *self
                        .random
                        .pick(&["\"10.0.0.1\"", "\"::1\"", "\"x\"", "null"])
                )
            ]);
            let remote = self.random.chance(80);
            arguments.push(parts!["remote_agent = ", expression(remote.to_string())]);
        }
        if self.random.chance(20) {
            arguments.push(parts![
                "remote_port = ",
                expression(*self.random.pick(&["22", "70000", "2222"]))
            ]);
        }
        expr!["std::Host(", comma(arguments), ")"]
    }

    fn dependency(&mut self, names: &[String]) -> Tree {
        let (left, right) = (
            self.random.pick(names).clone(),
            self.random.pick(names).clone(),
        );
        match self.random.below(8) {
            0..5 => {
                let side = *self.random.pick(&["requires", "requires", "provides"]);
                parts![format!("{left}.{side} = "), expression(right)]
            }
            5 | 6 => {
                let name = self.random.below(2);
                let members = vec![expression(left), expression(right)];
                parts![
                    format!("std::ResourceSet(name = \"s{name}\", resources = "),
                    expr!["[", comma(members), "]"],
                    ")"
                ]
            }
            _ => parts![
                format!("for q in {left}.requires:"),
                Tree::Block(vec![text(format!("{right}.provides += q"))]),
                "end"
            ],
        }
    }
}
