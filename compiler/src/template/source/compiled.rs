//! What Jinja2 decides when it compiles a template, and the engine when it renders it: filters and tests that there are not,
//! and what is printed beside the blocks of a template with a parent. Source: docs/reference/std.md § 7.5.
//!
//! Jinja2 refuses a template for them when it compiles it, in the order in which it writes its code: what is in the template
//! itself, then its blocks. What stands directly in a branch of a condition, or in its test, is left to the moment when it
//! runs, so that a template can ask first; a loop, a macro or another block inside of a branch is no longer of it. The engine
//! knows the names only when they are used. What a template prints behind its `extends`, outside of blocks and macros, is not
//! even looked at.

use std::ops::Range;

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::machinery::{WhitespaceConfig, parse};
use minijinja::{Environment, ErrorKind};

/// The template as it is to run: where a name is unknown one that says so, on its line, else one that prints nothing beside
/// the blocks of its parent. A template that the engine does not read stays, since the engine says why.
pub(in crate::template) fn compiled(engine: &Environment<'static>, source: String) -> String {
    changed(engine, &source).unwrap_or(source)
}

/// `None`: it stays.
fn changed(engine: &Environment<'static>, source: &str) -> Option<String> {
    let syntax = engine.syntax().clone();
    let template = parse(source, "", syntax, WhitespaceConfig::default()).ok()?;
    let Stmt::Template(template) = template else {
        return None;
    };
    let mut search = Search {
        engine,
        blocks: Vec::new(),
        dropped: Vec::new(),
        has_parent: false,
    };
    let frame = Frame {
        is_soft: false,
        is_root: true,
        prints_into_parent: has_extends(&template.children),
    };
    let found = search.all(&template.children, frame);
    let found = found.or_else(|| {
        let mut at = 0;
        // Blocks are found in blocks.
        while let Some(body) = search.blocks.get(at).copied() {
            if let Some(found) = search.all(body, Frame::NEW) {
                return Some(found);
            }
            at += 1;
        }
        None
    });
    let without_dropped = || {
        let mut kept = source.to_owned();
        for place in search.dropped.iter().rev() {
            let written = source.get(place.clone())?;
            let open = if written.starts_with("{{-") {
                "{{-"
            } else {
                "{{"
            };
            let lines = "\n".repeat(written.matches('\n').count());
            kept.replace_range(place.clone(), &format!("{open} ''{lines}"));
        }
        (!search.dropped.is_empty()).then_some(kept)
    };
    let complaint = found.map(|found| {
        let lines = "\n".repeat(usize::from(found.line).saturating_sub(1));
        let operator = if found.is_filter { "|" } else { " is " };
        format!("{lines}{{{{ 0{operator}{} }}}}", found.name)
    });
    complaint.or_else(without_dropped)
}

struct Found {
    name: String,
    is_filter: bool,
    line: u16,
}

/// Where a part of a template stands.
#[derive(Clone, Copy)]
struct Frame {
    /// Directly in a branch.
    is_soft: bool,
    is_root: bool,
    /// What is printed here is dropped where the template extends another one.
    prints_into_parent: bool,
}

impl Frame {
    /// Of a block or a macro.
    const NEW: Frame = Frame {
        is_soft: false,
        is_root: false,
        prints_into_parent: false,
    };

    fn inner(self) -> Frame {
        Frame {
            is_soft: false,
            is_root: false,
            ..self
        }
    }

    fn soft(self) -> Frame {
        Frame {
            is_soft: true,
            is_root: false,
            ..self
        }
    }
}

struct Search<'e, 'a> {
    engine: &'e Environment<'static>,
    blocks: Vec<&'a [Stmt<'a>]>,
    /// What is printed for nothing.
    dropped: Vec<Range<usize>>,
    /// The template certainly extends another one.
    has_parent: bool,
}

impl<'a> Search<'_, 'a> {
    fn all(&mut self, statements: &'a [Stmt<'a>], frame: Frame) -> Option<Found> {
        statements
            .iter()
            .find_map(|statement| self.statement(statement, frame))
    }

    fn statement(&mut self, statement: &'a Stmt<'a>, frame: Frame) -> Option<Found> {
        let inner = frame.inner();
        match statement {
            Stmt::EmitExpr(print) if frame.prints_into_parent && self.has_parent => {
                // From the opening braces to the end of the expression.
                let place = print.span();
                self.dropped
                    .push(place.start_offset as usize..place.end_offset as usize);
                None
            }
            Stmt::EmitExpr(print) => self.expression(&print.expr, frame),
            Stmt::ForLoop(each) => self
                .optional(each.filter_expr.as_ref(), inner)
                .or_else(|| self.expression(&each.iter, frame))
                .or_else(|| self.all(&each.body, inner))
                .or_else(|| self.all(&each.else_body, inner)),
            Stmt::IfCond(branches) => {
                let soft = match &branches.expr {
                    // The default of a parameter, which is none of a branch as it is written.
                    Expr::Test(test) if test.name == "__unset__" => frame,
                    _ => frame.soft(),
                };
                self.expression(&branches.expr, soft)
                    .or_else(|| self.all(&branches.true_body, soft))
                    .or_else(|| self.all(&branches.false_body, soft))
            }
            Stmt::WithBlock(with) => {
                let mut values = with.assignments.iter();
                // An include is written so.
                let body = match with.body.as_slice() {
                    [Stmt::Include(_)] if with.assignments.is_empty() => frame,
                    _ => inner,
                };
                values
                    .find_map(|(_, value)| self.expression(value, frame))
                    .or_else(|| self.all(&with.body, body))
            }
            Stmt::Set(set) => self.expression(&set.expr, frame),
            Stmt::SetBlock(set) => self
                .all(&set.body, Frame::NEW)
                .or_else(|| self.optional(set.filter.as_ref(), Frame::NEW)),
            Stmt::AutoEscape(escape) => self.all(&escape.body, inner),
            Stmt::FilterBlock(block) => self
                .all(&block.body, inner)
                .or_else(|| self.expression(&block.filter, inner)),
            Stmt::Block(block) => {
                self.blocks.push(&block.body);
                None
            }
            Stmt::Import(import) => self.expression(&import.expr, frame),
            Stmt::FromImport(import) => self.expression(&import.expr, frame),
            Stmt::Extends(extends) => {
                let found = self.expression(&extends.name, frame);
                self.has_parent |= frame.is_root;
                found
            }
            Stmt::Include(include) => self.expression(&include.name, frame),
            Stmt::Macro(defined) => {
                let mut defaults = defined.defaults.iter();
                defaults
                    .find_map(|default| self.expression(default, Frame::NEW))
                    .or_else(|| self.all(&defined.body, Frame::NEW))
            }
            Stmt::CallBlock(block) => self
                .all(&block.macro_decl.body, Frame::NEW)
                .or_else(|| self.expression(&block.call.expr, frame))
                .or_else(|| self.arguments(&block.call.args, frame)),
            Stmt::Template(_) | Stmt::EmitRaw(_) | Stmt::Do(_) => None,
            // Of the engine's features those that are not chosen.
            #[expect(unreachable_patterns, reason = "depends on the engine's features")]
            _ => None,
        }
    }

    fn optional(&self, expression: Option<&Expr>, frame: Frame) -> Option<Found> {
        expression.and_then(|expression| self.expression(expression, frame))
    }

    fn arguments(&self, arguments: &[CallArg], frame: Frame) -> Option<Found> {
        arguments.iter().find_map(|argument| match argument {
            CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value) => self.expression(value, frame),
        })
    }

    fn expression(&self, expression: &Expr, frame: Frame) -> Option<Found> {
        let each = |parts: &[&Expr]| {
            let mut parts = parts.iter();
            parts.find_map(|part| self.expression(part, frame))
        };
        match expression {
            Expr::Var(_) | Expr::Const(_) => None,
            Expr::Slice(slice) => self
                .expression(&slice.expr, frame)
                .or_else(|| self.optional(slice.start.as_ref(), frame))
                .or_else(|| self.optional(slice.stop.as_ref(), frame))
                .or_else(|| self.optional(slice.step.as_ref(), frame)),
            Expr::UnaryOp(operation) => each(&[&operation.expr]),
            Expr::BinOp(operation) => each(&[&operation.left, &operation.right]),
            Expr::Compare(compare) => {
                let mut operands = compare.ops.iter();
                each(&[&compare.expr])
                    .or_else(|| operands.find_map(|operand| each(&[&operand.expr])))
            }
            Expr::IfExpr(choice) => {
                let soft = frame.soft();
                self.expression(&choice.test_expr, soft)
                    .or_else(|| self.expression(&choice.true_expr, soft))
                    .or_else(|| self.optional(choice.false_expr.as_ref(), soft))
            }
            Expr::Filter(filter) => self
                .unknown(filter.name, true, filter.span().start_line, frame)
                .or_else(|| self.optional(filter.expr.as_ref(), frame))
                .or_else(|| self.arguments(&filter.args, frame)),
            Expr::Test(test) => self
                .unknown(test.name, false, test.span().start_line, frame)
                .or_else(|| self.expression(&test.expr, frame))
                .or_else(|| self.arguments(&test.args, frame)),
            Expr::GetAttr(attribute) => each(&[&attribute.expr]),
            Expr::GetItem(item) => each(&[&item.expr, &item.subscript_expr]),
            Expr::Call(call) => each(&[&call.expr]).or_else(|| self.arguments(&call.args, frame)),
            Expr::List(list) => {
                let mut items = list.items.iter();
                items.find_map(|item| self.expression(item, frame))
            }
            Expr::Map(map) => {
                let mut entries = map.keys.iter().zip(&map.values);
                entries.find_map(|(key, value)| each(&[key, value]))
            }
        }
    }

    fn unknown(&self, name: &str, is_filter: bool, line: u16, frame: Frame) -> Option<Found> {
        if frame.is_soft {
            return None;
        }
        // Nothing runs: all of them want a value first.
        let state = self.engine.empty_state();
        let (asked, wanted) = match is_filter {
            true => (
                state.apply_filter(name, &[]).err(),
                ErrorKind::UnknownFilter,
            ),
            false => (state.perform_test(name, &[]).err(), ErrorKind::UnknownTest),
        };
        let is_unknown = asked.is_some_and(|error| error.kind() == wanted);
        is_unknown.then(|| Found {
            name: name.to_owned(),
            is_filter,
            line,
        })
    }
}

/// Whether a template may extend another one.
fn has_extends(statements: &[Stmt]) -> bool {
    statements.iter().any(|statement| match statement {
        Stmt::Extends(_) => true,
        Stmt::IfCond(branches) => {
            has_extends(&branches.true_body) || has_extends(&branches.false_body)
        }
        _ => false,
    })
}
