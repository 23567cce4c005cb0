//! Steps whose values are all there when they are asked for: they take no unit and no proxies.
//!
//! The reference has a unit for each attribute on a path, and each goes through the queue once. The order of all that runs
//! decides what is complete when (language.md 8.7), so such a step goes through the queue as often as its longest path has
//! attributes, and only then reads what it needs, itself. Values never change once they are there.

use crate::diagnostics::{Fail, runtime};
use crate::hir::{ExprId, ExprKind, FormatPart};
use crate::runtime::{Action, Machine, Needs, ScopeId, Step, VarId, VarKind};
use crate::span::Loc;
use crate::types::Value;

/// Longest path that is followed before it is needed.
const MAX_PATH: u8 = 32;

impl Machine<'_> {
    /// Queues an action that needs the value of an expression.
    pub(in crate::runtime) fn act_on(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        action: Action,
    ) -> Result<(), Fail> {
        match self.laps(expr, scope) {
            Some(laps) => self.add_direct(action, laps),
            None => {
                let mut needs = Needs::new();
                self.plain_needs(expr, scope, &mut needs)?;
                self.add_unit(action, needs)?;
            }
        }
        Ok(())
    }

    pub(in crate::runtime) fn add_direct(&mut self, action: Action, laps: u8) {
        self.numbers.next(self.vars.round());
        self.ready.push(Step::Direct { laps, action });
    }

    /// How often a step that reads this expression goes through the queue before it runs. `None`: something is not there
    /// yet, reading it is an error, or the expression needs units of its own.
    pub(in crate::runtime) fn laps(&self, expr: ExprId, scope: ScopeId) -> Option<u8> {
        match &self.program.expr(expr).kind {
            ExprKind::Const(_) => Some(0),
            ExprKind::Var(_) | ExprKind::Attr(..) => {
                let (var, laps) = self.path(expr, scope)?;
                let var = self.known(var);
                let unset = var.kind() == VarKind::Optional && var.is_null();
                (!unset).then_some(laps)
            }
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                let left = self.laps(*left, scope)?;
                Some(left.max(self.laps(*right, scope)?))
            }
            ExprKind::Not(operand) => self.laps(*operand, scope),
            ExprKind::List(items) => self.laps_of(items.iter(), scope),
            ExprKind::Dict(entries) => self.laps_of(entries.iter().map(|(_, value)| value), scope),
            ExprKind::Format(parts) => self.laps_of_text(parts, scope),
            ExprKind::Construct(id) => {
                let construct = &self.program.constructs[id.index()];
                let direct = construct.direct.iter().map(|(_, value)| value);
                self.laps_of(direct.chain(&construct.spreads), scope)
            }
            ExprKind::Regex(_)
            | ExprKind::And(..)
            | ExprKind::Or(..)
            | ExprKind::Ternary(..)
            | ExprKind::Defined(_)
            | ExprKind::Call(_)
            | ExprKind::Cast(_)
            | ExprKind::Query(_)
            | ExprKind::Comprehension(_) => None,
        }
    }

    /// The same for one whose elements a listener wants: what is no list is delivered when the step runs.
    pub(in crate::runtime) fn laps_listening(
        &self,
        expr: ExprId,
        scope: ScopeId,
        listening: bool,
    ) -> Option<u8> {
        if listening {
            match self.program.expr(expr).kind {
                ExprKind::List(_) => return None,
                ExprKind::Var(_) | ExprKind::Attr(..) => {
                    let (var, _) = self.path(expr, scope)?;
                    let kind = self.known(var).kind();
                    if matches!(kind, VarKind::List | VarKind::Literal | VarKind::Loop) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        self.laps(expr, scope)
    }

    pub(in crate::runtime) fn laps_of<'e>(
        &self,
        mut all: impl Iterator<Item = &'e ExprId>,
        scope: ScopeId,
    ) -> Option<u8> {
        all.try_fold(0, |most: u8, expr| Some(most.max(self.laps(*expr, scope)?)))
    }

    fn laps_of_text(&self, parts: &[FormatPart], scope: ScopeId) -> Option<u8> {
        let mut most = 0;
        for part in parts {
            let laps = match part {
                FormatPart::Text(_) => 0,
                FormatPart::Value(value) => self.laps(*value, scope)?,
                FormatPart::Field { value, spec, .. } => {
                    let value = match value {
                        Some(value) => self.laps(*value, scope)?,
                        None => 0,
                    };
                    value.max(self.laps_of_text(spec, scope)?)
                }
            };
            most = most.max(laps);
        }
        Some(most)
    }

    /// The variable at the end of a path all of which has its values, and the number of attributes in it.
    fn path(&self, expr: ExprId, scope: ScopeId) -> Option<(VarId, u8)> {
        let node = self.program.expr(expr);
        let (var, laps) = match node.kind {
            ExprKind::Var(name) => (self.find_variable(scope, name).ok()?, 0),
            ExprKind::Attr(object, name) => {
                let (object, laps) = self.path(object, scope)?;
                let Value::Instance(instance) = self.known(object).value(&self.heap) else {
                    return None;
                };
                if laps == MAX_PATH {
                    return None;
                }
                (self.slot(instance, name)?, laps + 1)
            }
            _ => return None,
        };
        let var = self.target(var);
        self.known(var).is_ready().then_some((var, laps))
    }

    /// The variable that a name or an attribute stands for, when all on the way to it has its value.
    pub(in crate::runtime) fn variable_of(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
    ) -> Result<VarId, Fail> {
        let node = self.program.expr(expr);
        match node.kind {
            ExprKind::Var(name) => self.resolve(scope, name, node.loc),
            ExprKind::Attr(object, name) => {
                let var = self.variable_of(object, scope)?;
                let value = self.read(var, self.program.expr(object).loc)?;
                if let Value::Instance(instance) = value
                    && let Some(slot) = self.slot(instance, name)
                {
                    return Ok(slot);
                }
                self.attribute_slot(value, name, object, node.loc)
            }
            _ => Err(runtime(node.loc, "neither a variable nor an attribute")),
        }
    }

    /// More steps than any model takes.
    pub(in crate::runtime) fn check_steps(&self) -> Result<(), Fail> {
        let limit = self.options.limits.steps;
        let n_steps = self.numbers.n_created().max(self.n_delivered);
        if n_steps > limit && n_steps > limit + 64 * self.instances.len() as u64 {
            let message = format!(
                "the model needs more than {limit} steps: {}",
                self.construct_chain()
            );
            return Err(runtime(Loc::NONE, message));
        }
        Ok(())
    }
}
