//! Expressions as text, fully parenthesised, as messages of typedefs show them.

use super::build::Builder;
use crate::syntax::ast::{Arg, Ast, ExprId, ExprKind, FPart, FValue, Literal, Operator, Part};
use crate::syntax::token::Cmp;
use crate::types::text;

impl Builder<'_> {
    pub fn expr_text(&self, ast: &Ast, id: ExprId) -> String {
        let sub = |id: ExprId| self.expr_text(ast, id);
        match &ast.expr(id).kind {
            ExprKind::Literal(literal) => literal_text(literal),
            ExprKind::Interpolated(parts) => {
                let parts = parts.iter().map(|part| match part {
                    Part::Text(text) => text.to_string(),
                    Part::Placeholder(value) => format!("{{{{{}}}}}", sub(*value)),
                });
                format!("Format({})", text::quoted(&parts.collect::<String>()))
            }
            ExprKind::FString(parts) => {
                let parts = parts.iter().map(|part| match part {
                    FPart::Text(text) => text.to_string(),
                    FPart::Field {
                        value: FValue::Expr(value),
                        ..
                    } => format!("{{{}}}", sub(*value)),
                    FPart::Field { .. } => "{}".to_owned(),
                });
                text::quoted(&parts.collect::<String>())
            }
            ExprKind::Regex(pattern) => format!("/{}/", pattern.text()),
            ExprKind::Var(name) => self.text(name.symbol).to_owned(),
            ExprKind::Attr(object, name) => format!("{}.{}", sub(*object), self.text(name.symbol)),
            ExprKind::Call {
                function: name,
                args,
            }
            | ExprKind::Construct { entity: name, args } => {
                let args = self.args_text(ast, args);
                format!("{}({args})", self.text(name.symbol))
            }
            ExprKind::List(_) | ExprKind::Dict(_)
                if super::fold::not_constant(ast, id).is_none() =>
            {
                constant_text(ast, id)
            }
            ExprKind::List(items) => {
                let items: Vec<String> = items.iter().map(|item| sub(*item)).collect();
                format!("[{}]", items.join(","))
            }
            ExprKind::Dict(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{}: {}", text::quoted(key), sub(*value)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            ExprKind::Lookup(dict, key) => format!("{}[{}]", sub(*dict), sub(*key)),
            ExprKind::IndexLookup { entity, args } => {
                let args = self.args_text(ast, args);
                format!("{}[{args}]", self.text(entity.symbol))
            }
            ExprKind::ShortLookup {
                object,
                relation,
                args,
            } => {
                let args = self.args_text(ast, args);
                format!("{}.{}[{args}]", sub(*object), self.text(relation.symbol))
            }
            ExprKind::Binary(operator, left, right) => {
                let operator = operator_text(*operator);
                format!("({} {operator} {})", sub(*left), sub(*right))
            }
            ExprKind::Not(operand) => format!("(not {})", sub(*operand)),
            ExprKind::Ternary(condition, then, otherwise) => {
                format!(
                    "({} ? {} : {})",
                    sub(*condition),
                    sub(*then),
                    sub(*otherwise)
                )
            }
            ExprKind::Defined(operand) => format!("{} is defined", sub(*operand)),
            ExprKind::Comprehension {
                value,
                variable,
                iterable,
                guard,
            } => {
                let guard = guard
                    .map(|guard| format!(" if {}", sub(guard)))
                    .unwrap_or_default();
                format!(
                    "[{} for {} in {}{guard}]",
                    sub(*value),
                    self.text(variable.symbol),
                    sub(*iterable)
                )
            }
        }
    }

    fn args_text(&self, ast: &Ast, args: &[Arg]) -> String {
        let texts: Vec<String> = args
            .iter()
            .map(|arg| match arg {
                Arg::Positional(value) => self.expr_text(ast, *value),
                Arg::Named(name, value) => {
                    format!("{}={}", self.text(name.symbol), self.expr_text(ast, *value))
                }
                Arg::Spread(value) => format!("**{}", self.expr_text(ast, *value)),
            })
            .collect();
        texts.join(",")
    }
}

fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Null => "null".to_owned(),
        Literal::Bool(true) => "true".to_owned(),
        Literal::Bool(false) => "false".to_owned(),
        Literal::Int(value) => value.to_string(),
        Literal::BigInt(value) => value.to_string(),
        Literal::Float(value) => text::float(*value),
        Literal::Str(value) => text::quoted(value),
    }
}

/// A folded list or dict, as Python writes it.
fn constant_text(ast: &Ast, id: ExprId) -> String {
    match &ast.expr(id).kind {
        ExprKind::Literal(Literal::Bool(true)) => "True".to_owned(),
        ExprKind::Literal(Literal::Bool(false)) => "False".to_owned(),
        ExprKind::Literal(Literal::Int(value)) => value.to_string(),
        ExprKind::Literal(Literal::BigInt(value)) => value.to_string(),
        ExprKind::Literal(Literal::Float(value)) => text::float(*value),
        ExprKind::Literal(Literal::Str(value)) => text::quoted(value),
        ExprKind::List(items) => {
            let items: Vec<String> = items.iter().map(|item| constant_text(ast, *item)).collect();
            format!("[{}]", items.join(", "))
        }
        ExprKind::Dict(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| {
                    format!("{}: {}", text::quoted(key), constant_text(ast, *value))
                })
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => "null".to_owned(),
    }
}

fn operator_text(operator: Operator) -> &'static str {
    match operator {
        Operator::Cmp(Cmp::Eq) => "==",
        Operator::Cmp(Cmp::Ne) => "!=",
        Operator::Cmp(Cmp::Lt) => "<",
        Operator::Cmp(Cmp::Gt) => ">",
        Operator::Cmp(Cmp::Le) => "<=",
        Operator::Cmp(Cmp::Ge) => ">=",
        Operator::In => "in",
        Operator::NotIn => "not in",
        Operator::And => "and",
        Operator::Or => "or",
        Operator::Add => "+",
        Operator::Sub => "-",
        Operator::Mul => "*",
        Operator::Div => "/",
        Operator::Mod => "%",
        Operator::Pow => "**",
    }
}
