//! Why a variable has no value: who would give it one, and what that waits for.
//!
//! "Attribute `port` is not set" is true and helps little, when a statement sets it that waits for
//! a list that is never complete. So for each variable without a value this looks for the task that
//! would set it, then for the variable which that task waits for first, then for that one's task,
//! and so on. The chain becomes notes of the error. It ends at a variable that nobody sets, which
//! is the reason; or at one that was in the chain before: these wait for one another.
//!
//! Tasks for parts of expressions have no name that an author knows. The chain goes through them
//! without a note.

use crate::diagnostics::Fail;
use crate::hash::Map;
use crate::hir::{ExprKind, Ref, StmtKind};
use crate::runtime::{Action, Machine, TaskId, VarId, VarKind};
use crate::span::Loc;

/// Notes of one chain at most; longer ones tell nobody more.
const MAX_LINKS: usize = 8;

/// For a variable: the pending task that would give it its value, the oldest if there are several.
pub(in crate::runtime) type Producers = Map<VarId, TaskId>;

impl Machine<'_> {
    /// All pending tasks by what they would set.
    pub(in crate::runtime) fn producers(&self) -> Producers {
        let mut producers = Producers::default();
        for task in self.scheduler.live_tasks() {
            self.products(task, &mut |var| {
                producers.entry(var).or_insert(task);
            });
        }
        producers
    }

    /// Calls `add` for each variable that a task would set or add to.
    fn products(&self, task: TaskId, add: &mut impl FnMut(VarId)) {
        match self.scheduler.task(task).action {
            Action::Stmt { stmt, scope } => {
                let node = &self.program.stmts[stmt.index()];
                if let StmtKind::Assign { target, .. } = node.kind
                    && let Ok(var) = self.state.resolve(scope, target, node.loc)
                {
                    add(var);
                }
            }
            Action::Attr { proxy, .. } | Action::PromisedAttr { proxy, .. } => add(proxy),
            Action::Logic { result, .. }
            | Action::LogicRight { result, .. }
            | Action::Ternary { result, .. }
            | Action::Branch { result, .. }
            | Action::Defined { result }
            | Action::DefinedAttr { result, .. }
            | Action::Call { result, .. }
            | Action::Query { result, .. } => add(result),
            Action::Item { listener, .. } => add(self.scheduler.literal_of(listener)),
            Action::Store { slot, .. } => add(slot),
            Action::If { group, .. } if group.is_some() => {
                let slots = self.exec.promised_slots(group);
                slots.iter().copied().for_each(add);
            }
            Action::For { run } => {
                let group = self.exec.for_loop(run).group;
                if group.is_some() {
                    let slots = self.exec.promised_slots(group);
                    slots.iter().copied().for_each(add);
                }
            }
            Action::Iterable { run } | Action::Element { run, .. } | Action::Collect { run } => {
                add(self.exec.comprehension(run).result);
            }
            Action::Idle
            | Action::Cancelled
            | Action::If { .. }
            | Action::Implement { .. }
            | Action::Promise { .. }
            | Action::Annotation { .. } => {}
        }
    }

    /// The first variable without a value that a task waits for.
    fn awaited(&self, task: TaskId) -> Option<VarId> {
        let dependencies = self.scheduler.task(task).dependencies.iter();
        let mut pending = dependencies
            .copied()
            .filter(|need| !self.state.is_ready(*need));
        pending.next().map(|need| self.state.target(need))
    }

    /// Adds notes that lead from a variable without a value to the reason. The second part of the
    /// result: whether there was anything to tell.
    pub(in crate::runtime) fn explain_wait(
        &self,
        mut error: Fail,
        var: VarId,
        producers: &Producers,
    ) -> (Fail, bool) {
        let mut visited = vec![var];
        let mut at = var;
        let mut named = self.variable_name(at, producers);
        while let Some(task) = producers.get(&at).copied() {
            let mut loc = self.action_loc(self.scheduler.task(task).action);
            let mut next = self.awaited(task);
            // What has no name is part of an expression: the chain goes through it.
            while let Some(part) = next
                && self.variable_name(part, producers).is_none()
                && let Some(inner) = producers.get(&part)
                && !visited.contains(&part)
            {
                visited.push(part);
                if loc == Loc::NONE {
                    loc = self.action_loc(self.scheduler.task(*inner).action);
                }
                next = self.awaited(*inner);
            }
            let Some(need) = next else {
                break;
            };
            let what = named.take().unwrap_or_else(|| "it".to_owned());
            let name = self.variable_name(need, producers);
            let name = name.unwrap_or_else(|| "a value that never comes".to_owned());
            error = error.note(format!("{what} waits for {name} here"), loc);
            if visited.contains(&need) {
                return (
                    error.help("these wait for one another: give one of them a value of its own"),
                    true,
                );
            }
            if visited.len() >= MAX_LINKS {
                return (error, true);
            }
            visited.push(need);
            at = need;
            named = Some(name);
        }
        let moved = at != var;
        if moved && !producers.contains_key(&at) {
            let name = named.unwrap_or_else(|| "it".to_owned());
            let loc = if self.state.var(at).is_slot() {
                self.state.instance(self.state.owner(at)).loc
            } else {
                Loc::NONE
            };
            let reason = match self.state.var(at).kind() {
                VarKind::List => format!("{name} never gets as many values as it needs"),
                _ => format!("nothing gives {name} a value"),
            };
            error = error.note(reason, loc);
        }
        (error, moved)
    }

    /// A variable as the model's author knows it; `None`: it is part of an expression.
    fn variable_name(&self, id: VarId, producers: &Producers) -> Option<String> {
        let var = self.state.var(id);
        if var.is_slot() {
            let name = self
                .program
                .text(self.program.attribute(self.state.attr(id)).name);
            let complete = match var.kind() {
                VarKind::List => " to be complete",
                _ => "",
            };
            let owner = self.state.describe_instance(self.state.owner(id));
            return Some(format!("`{name}` of `{owner}`{complete}"));
        }
        for (namespace, base) in self.program.namespaces.iter().zip(&self.state.roots) {
            let variables = &self.program.blocks[namespace.root.index()].variables;
            let offset = id.0.wrapping_sub(base.0) as usize;
            if let Some(name) = variables.get(offset) {
                return Some(format!("`{}`", self.program.text(*name)));
            }
        }
        let task = *producers.get(&id)?;
        let stmt = match self.scheduler.task(task).action {
            Action::Stmt { stmt, .. } => &self.program.stmts[stmt.index()],
            Action::Call { expr, .. } | Action::Query { expr, .. } if self.is_lookup(expr) => {
                let text = self.program.sources.snippet(self.program.expr(expr).loc);
                return Some(format!("`{text}`"));
            }
            _ => return None,
        };
        match stmt.kind {
            StmtKind::Assign {
                target: Ref::Local { .. },
                ..
            } => {
                let text = self.program.sources.snippet(stmt.loc);
                Some(format!("`{}`", text.split('=').next()?.trim()))
            }
            _ => None,
        }
    }

    fn is_lookup(&self, expr: crate::hir::ExprId) -> bool {
        matches!(self.program.expr(expr).kind, ExprKind::Query(_))
    }
}
