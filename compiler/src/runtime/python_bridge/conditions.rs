//! The conditions of typedefs that mean something outside of the model, for those who describe types: a service catalog
//! checks values by them before a compile does.

use crate::hir::{Callee, ExprId, ExprKind, Ref};
use crate::protocol::ConditionInfo;
use crate::runtime::Machine;
use crate::syntax::ast::Operator;
use crate::syntax::token::Cmp;
use crate::types::{TypedefId, Value};

impl Machine<'_> {
    /// The condition of a typedef itself, if all of it has a known form.
    pub(in crate::runtime) fn condition_info(&self, typedef: TypedefId) -> Option<ConditionInfo> {
        let condition = self.program.typedefs[typedef.index()].condition?;
        let mut info = ConditionInfo::default();
        self.add_condition(condition, &mut info).then_some(info)
    }

    /// Adds one condition, or several that all must hold; false: it has no known form.
    fn add_condition(&self, condition: ExprId, info: &mut ConditionInfo) -> bool {
        match &self.program.expr(condition).kind {
            ExprKind::And(left, right) => {
                self.add_condition(*left, info) && self.add_condition(*right, info)
            }
            ExprKind::Or(left, right) => {
                let sides = [*left, *right].map(|side| {
                    let mut info = ConditionInfo::default();
                    self.add_condition(side, &mut info).then_some(info)
                });
                let [Some(left), Some(right)] = sides else {
                    return false;
                };
                info.either.is_empty() && {
                    info.either = vec![left, right];
                    true
                }
            }
            ExprKind::Regex(pattern) => {
                info.patterns.push(pattern.text().to_owned());
                true
            }
            ExprKind::Binary(Operator::In, left, right) if self.is_self(*left) => {
                let values = self.constant(*right).map(|values| self.to_wire(values));
                let Some(rmpv::Value::Array(values)) = values else {
                    return false;
                };
                info.values.is_none() && {
                    info.values = Some(values);
                    true
                }
            }
            ExprKind::Binary(Operator::Cmp(operator), left, right) => {
                self.add_comparison(*operator, *left, *right, info)
            }
            ExprKind::Call(_) => self.add_validator(condition, info),
            _ => false,
        }
    }

    /// `self < 5`, `5 > self`, `std::validate_type(...) == true` and their kin.
    fn add_comparison(
        &self,
        operator: Cmp,
        left: ExprId,
        right: ExprId,
        info: &mut ConditionInfo,
    ) -> bool {
        let is_true = |side| matches!(self.constant(side), Some(Value::Bool(true)));
        if operator == Cmp::Eq && is_true(right) {
            return self.add_validator(left, info);
        }
        if operator == Cmp::Eq && is_true(left) {
            return self.add_validator(right, info);
        }
        let (operator, bound) = match (self.is_self(left), self.is_self(right)) {
            (true, false) => (operator, right),
            (false, true) => (mirrored(operator), left),
            _ => return false,
        };
        let text = match operator {
            Cmp::Lt => "<",
            Cmp::Le => "<=",
            Cmp::Gt => ">",
            Cmp::Ge => ">=",
            Cmp::Eq => {
                let value = self.constant(bound).map(|value| self.to_wire(value));
                let is_known = value.is_some() && info.values.is_none();
                info.values = info.values.take().or(value.map(|value| vec![value]));
                return is_known;
            }
            Cmp::Ne => return false,
        };
        match self.constant(bound) {
            Some(value @ (Value::Int(_) | Value::Float(_))) => {
                info.bounds.push((text.to_owned(), self.to_wire(value)));
                true
            }
            _ => false,
        }
    }

    /// `std::validate_type(NAME, self)`, with parameters or without.
    fn add_validator(&self, call: ExprId, info: &mut ConditionInfo) -> bool {
        let ExprKind::Call(call) = self.program.expr(call).kind else {
            return false;
        };
        let call = &self.program.calls[call.index()];
        let Callee::Plugin(plugin) = call.callee else {
            return false;
        };
        let plugin = &self.program.plugins[plugin.index()];
        let is_whole = call.named.is_empty() && call.spreads.is_empty();
        if self.program.text(plugin.name) != "std::validate_type" || !is_whole {
            return false;
        }
        let (name, value, parameters) = match call.positional[..] {
            [name, value] => (name, value, Some(rmpv::Value::Nil)),
            [name, value, parameters] => {
                let parameters = self.constant(parameters);
                (name, value, parameters.map(|dict| self.to_wire(dict)))
            }
            _ => return false,
        };
        let name = self.constant(name).map(|name| self.to_wire(name));
        let name = name.as_ref().and_then(rmpv::Value::as_str);
        match (name, parameters) {
            (Some(name), Some(parameters)) if self.is_self(value) => {
                info.validators.push((name.to_owned(), parameters));
                true
            }
            _ => false,
        }
    }

    /// Whether it is the value itself.
    fn is_self(&self, expr: ExprId) -> bool {
        matches!(
            self.program.expr(expr).kind,
            ExprKind::Var(Ref::Local { up: 0, index: 0 })
        )
    }

    fn constant(&self, expr: ExprId) -> Option<Value> {
        match self.program.expr(expr).kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }
}

fn mirrored(operator: Cmp) -> Cmp {
    match operator {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        Cmp::Eq | Cmp::Ne => operator,
    }
}
