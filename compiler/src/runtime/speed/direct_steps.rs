//! Steps whose values are all there when they are created: they take no task and no proxies.
//!
//! In the reference, each attribute on a path has a task of its own. For `x = host.owner.name`, the
//! first task waits for `host` and gives a proxy for `host.owner`; the second waits for that and
//! gives a proxy for `.name`; the third waits for that and stores `x`. Nearly always all three
//! values are there from the start. Then nothing is waited for, but still each task goes to the end
//! of the queue when the one before has run, and the value is stored in the third round from now.
//!
//! Steward makes one step of the three. But it must not run earlier: others of the same round would
//! find `x` set, add to lists in another order, and complete other relations first
//! (docs/reference/language.md § 8.7). So a direct step goes to the end of the queue as often as
//! its longest path has attributes ([`Machine::requeue_count`]), here twice, and only then reads
//! what it needs, itself. At each of these moments one of the reference's tasks would have gone to
//! the end of the queue in its place, so all other steps keep theirs.
//!
//! ```text
//! queue of the reference:  [host.owner]  other…  then  [.name]  …  then  [store x]
//! queue of Steward:        [store x, 2]  other…  then  [store x, 1]  …  then  [store x, 0] runs
//! ```
//!
//! Why the values may be read later than they were looked for: a variable is set once, so what was
//! there when the step was created is there, and the same, when it runs.
//!
//! A step is *not* direct if something is not there yet; if reading would be an error, which must
//! come up at its time and as its own; if a listener wants the elements of a list, since the moment
//! of attaching matters; or if the expression has parts that are decided or called in steps of
//! their own (`and`, conditions, calls, lookups, comprehensions).

use crate::diagnostics::{Fail, runtime};
use crate::hir::{ExprId, ExprKind, FormatPart};
use crate::runtime::{Action, Dependencies, Machine, ScopeId, Step, VarId, VarKind};
use crate::span::Loc;
use crate::types::Value;

/// Longest path that is followed before it is needed; longer ones are left to tasks.
const MAX_PATH: u8 = 32;

impl Machine<'_> {
    /// Queues an action that needs the value of an expression: as a direct step if its values are
    /// there, else as a task that waits for them.
    pub(in crate::runtime) fn act_on(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        action: Action,
    ) -> Result<(), Fail> {
        match self.requeue_count(expr, scope) {
            Some(requeue_count) => self.add_direct(action, requeue_count),
            None => {
                let mut dependencies = Dependencies::new();
                self.plain_dependencies(expr, scope, &mut dependencies)?;
                self.add_task(action, dependencies)?;
            }
        }
        Ok(())
    }

    /// Queues a direct step. It takes a number by creation as a task would.
    pub(in crate::runtime) fn add_direct(&mut self, action: Action, requeue_count: u8) {
        self.scheduler.numbers.next(self.state.vars.round());
        self.scheduler.ready.push(Step::Direct {
            requeue_count,
            action,
        });
    }

    /// How often a step that reads this expression goes to the end of the queue before it runs: the
    /// number of attributes in its longest path. `None`: it can not be a direct step.
    pub(in crate::runtime) fn requeue_count(&self, expr: ExprId, scope: ScopeId) -> Option<u8> {
        match &self.program.expr(expr).kind {
            ExprKind::Const(_) => Some(0),
            ExprKind::Var(_) | ExprKind::Attr(..) => {
                let (var, requeue_count) = self.path(expr, scope)?;
                let var = self.state.known(var);
                let unset = var.kind() == VarKind::Optional && var.is_null();
                (!unset).then_some(requeue_count)
            }
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                let left = self.requeue_count(*left, scope)?;
                Some(left.max(self.requeue_count(*right, scope)?))
            }
            ExprKind::Not(operand) => self.requeue_count(*operand, scope),
            ExprKind::List(items) => self.requeue_count_of(items.iter(), scope),
            ExprKind::Dict(entries) => {
                self.requeue_count_of(entries.iter().map(|(_, value)| value), scope)
            }
            ExprKind::Format(parts) => self.requeue_count_of_text(parts, scope),
            ExprKind::Construct(id) => {
                let construct = &self.program.constructs[id.index()];
                let direct = construct.direct.iter().map(|(_, value)| value);
                self.requeue_count_of(direct.chain(&construct.spreads), scope)
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

    /// The same for an expression whose elements a listener wants. What is no list is delivered as
    /// a whole when the step runs; what may be one that is not complete needs a task.
    pub(in crate::runtime) fn requeue_count_of_list(
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
                    let kind = self.state.known(var).kind();
                    if matches!(kind, VarKind::List | VarKind::Literal | VarKind::ForLoop) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        self.requeue_count(expr, scope)
    }

    /// The largest count of several expressions; `None` if one has none.
    pub(in crate::runtime) fn requeue_count_of<'e>(
        &self,
        mut all: impl Iterator<Item = &'e ExprId>,
        scope: ScopeId,
    ) -> Option<u8> {
        all.try_fold(0, |most: u8, expr| {
            Some(most.max(self.requeue_count(*expr, scope)?))
        })
    }

    /// The same for the parts of a format string.
    fn requeue_count_of_text(&self, parts: &[FormatPart], scope: ScopeId) -> Option<u8> {
        let mut most = 0;
        for part in parts {
            let requeue_count = match part {
                FormatPart::Text(_) => 0,
                FormatPart::Value(value) => self.requeue_count(*value, scope)?,
                FormatPart::Field { value, spec, .. } => {
                    let value = match value {
                        Some(value) => self.requeue_count(*value, scope)?,
                        None => 0,
                    };
                    value.max(self.requeue_count_of_text(spec, scope)?)
                }
            };
            most = most.max(requeue_count);
        }
        Some(most)
    }

    /// The variable at the end of a path, and the number of attributes in the path. `None`: some
    /// value on the way is not there, or is no instance.
    fn path(&self, expr: ExprId, scope: ScopeId) -> Option<(VarId, u8)> {
        let node = self.program.expr(expr);
        let (var, requeue_count) = match node.kind {
            ExprKind::Var(name) => (self.state.find_variable(scope, name).ok()?, 0),
            ExprKind::Attr(object, name) => {
                let (object, requeue_count) = self.path(object, scope)?;
                let Value::Instance(instance) = self.state.known(object).value(&self.state.heap)
                else {
                    return None;
                };
                if requeue_count == MAX_PATH {
                    return None;
                }
                (self.state.slot(instance, name)?, requeue_count + 1)
            }
            _ => return None,
        };
        let var = self.state.target(var);
        self.state
            .known(var)
            .is_ready()
            .then_some((var, requeue_count))
    }

    /// The variable that a name or an attribute stands for, when all on the way to it has its
    /// value. It is how a direct step reads.
    pub(in crate::runtime) fn variable_of(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
    ) -> Result<VarId, Fail> {
        let node = self.program.expr(expr);
        match node.kind {
            ExprKind::Var(name) => self.state.resolve(scope, name, node.loc),
            ExprKind::Attr(object, name) => {
                let var = self.variable_of(object, scope)?;
                let value = self.state.read(var, self.program.expr(object).loc)?;
                if let Value::Instance(instance) = value
                    && let Some(slot) = self.state.slot(instance, name)
                {
                    return Ok(slot);
                }
                self.attribute_slot(value, name, object, node.loc)
            }
            _ => Err(runtime(node.loc, "neither a variable nor an attribute")),
        }
    }

    /// An error if the model takes more steps than its limit and than 64 for each instance: it
    /// would never end.
    pub(in crate::runtime) fn check_steps(&self) -> Result<(), Fail> {
        let limit = self.options.limits.steps;
        let n_steps = self.scheduler.n_steps();
        if n_steps > limit && n_steps > limit + 64 * self.state.instances.len() as u64 {
            let message = format!(
                "the model needs more than {limit} steps: {}",
                self.state.construct_chain()
            );
            return Err(runtime(Loc::NONE, message));
        }
        Ok(())
    }
}
