//! List comprehensions. Source: docs/reference/language.md § 8.6, § 8.9.
//!
//! `[value for x in list if guard]` is a run of its own ([`ComprehensionRun`]): an element gets a
//! scope with the loop variable and a task for `guard ? value : skip`, as soon as it is delivered
//! if somebody listens, else when the list is complete. When the list is complete, a last task
//! waits for the results of all elements and puts them into the order of the list, which may be
//! another one than that in which they were delivered.

use crate::diagnostics::{Fail, typing};
use crate::hir::ComprehensionId;
use crate::runtime::exec::eval::Ready;
use crate::runtime::{
    Action, Dependencies, Listener, ListenerId, Machine, RunId, ScopeId, VarId, VarKind,
};
use crate::span::Loc;
use crate::types::Value;

/// A comprehension that may get more elements.
pub(in crate::runtime) struct ComprehensionRun {
    pub comprehension: ComprehensionId,
    scope: ScopeId,
    /// The variable that gets the list.
    pub result: VarId,
    /// Who gets the results one by one.
    listener: ListenerId,
    own_listener: ListenerId,
    context: VarId,
    elements: Vec<Value>,
    results: Vec<VarId>,
    /// In tiles: the last round that used it.
    round: u8,
}

impl Machine<'_> {
    /// Emits a comprehension; the variable is that of its result. With a listener, elements are
    /// started and results handed on one by one.
    pub(in crate::runtime) fn start_comprehension(
        &mut self,
        comprehension: ComprehensionId,
        scope: ScopeId,
        context: VarId,
        listener: ListenerId,
    ) -> Result<VarId, Fail> {
        let node = &self.program.comprehensions[comprehension.index()];
        let result = self.state.temporary();
        let run = RunId(self.exec.runs.len() as u32);
        let own_listener = if listener.is_some() {
            self.scheduler.add_listener(Listener::Comprehension(run))
        } else {
            ListenerId::NONE
        };
        self.exec.runs.push(ComprehensionRun {
            comprehension,
            scope,
            result,
            listener,
            own_listener,
            context,
            elements: Vec::new(),
            results: Vec::new(),
            round: self.state.vars.round(),
        });
        let mut dependencies = Dependencies::new();
        self.dependencies(
            node.iterable,
            scope,
            VarId::NONE,
            own_listener,
            &mut dependencies,
        )?;
        self.add_task(Action::Iterable { run }, dependencies)?;
        Ok(result)
    }

    /// Starts the computation of one element.
    pub(in crate::runtime) fn start_element(
        &mut self,
        run: RunId,
        item: Value,
    ) -> Result<(), Fail> {
        self.state
            .vars
            .check(&mut self.exec.runs[run.index()].round);
        let (comprehension, outer, context, listener) = {
            let run = &self.exec.runs[run.index()];
            (run.comprehension, run.scope, run.context, run.listener)
        };
        let node = &self.program.comprehensions[comprehension.index()];
        self.report.leave_place(node.loc);
        let result = self.state.temporary();
        self.exec.runs[run.index()].elements.push(item);
        self.exec.runs[run.index()].results.push(result);
        let parent = self.state.scopes[outer.index()];
        let scope = self.state.push_scope(
            outer,
            1,
            VarKind::ForLoop,
            parent.instance,
            parent.namespace,
        );
        self.state.set_maker(scope, item);
        let variable = self.state.scopes[scope.index()].base;
        self.set_plain(variable, item, node.loc)?;
        let value = match item {
            Value::Unknown(_) => node.unknown,
            _ => node.value,
        };
        let action = Action::Element { run, result, scope };
        if let Some(requeue_count) = self.requeue_count_of_list(value, scope, listener.is_some()) {
            self.add_direct(action, requeue_count);
            return Ok(());
        }
        let mut dependencies = Dependencies::new();
        self.dependencies(value, scope, context, listener, &mut dependencies)
            .map_err(|error| error.at(node.loc))?;
        self.add_task(action, dependencies)?;
        Ok(())
    }

    /// The guard and value of an element are known.
    pub(in crate::runtime) fn run_element(
        &mut self,
        run: RunId,
        result: VarId,
        scope: ScopeId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let (comprehension, context, listener) = {
            let run = &self.exec.runs[run.index()];
            (run.comprehension, run.context, run.listener)
        };
        let node = &self.program.comprehensions[comprehension.index()];
        let element = self
            .state
            .var(self.state.scopes[scope.index()].base)
            .value(&self.state.heap);
        let value = match element {
            Value::Unknown(_) => node.unknown,
            _ => node.value,
        };
        let value = self
            .eval(value, scope, ready, context, listener)
            .map_err(|error| error.at(self.program.expr(value).loc))?;
        self.set_plain(result, value, Loc::NONE)
    }

    /// The iterable is complete: what it did not deliver one by one starts now.
    pub(in crate::runtime) fn run_iterable(
        &mut self,
        run: RunId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        self.state
            .vars
            .check(&mut self.exec.runs[run.index()].round);
        let (comprehension, scope, own_listener) = {
            let run = &self.exec.runs[run.index()];
            (run.comprehension, run.scope, run.own_listener)
        };
        let node = &self.program.comprehensions[comprehension.index()];
        let value = self.eval(node.iterable, scope, ready, VarId::NONE, own_listener)?;
        let items = match value {
            Value::List(list) => self.state.heap.list(list).to_vec(),
            // As one Unknown element.
            Value::Unknown(_) => vec![value],
            value => {
                let kind = match value {
                    Value::Instance(_) => "an entity instance".to_owned(),
                    value => self.state.heap.python_type(value).to_owned(),
                };
                let message = format!(
                    "A list comprehension can only be applied to lists and relations, got {kind}"
                );
                return Err(typing(node.loc, message));
            }
        };
        // Elements that came one by one are matched in order; the others start here.
        let delivered = self.exec.runs[run.index()].elements.clone();
        if delivered.is_empty() {
            for item in &items {
                self.start_element(run, *item)?;
            }
        } else if delivered.len() != items.len()
            || delivered
                .iter()
                .zip(&items)
                .any(|(a, b)| !self.state.heap.equal(*a, *b))
        {
            self.reorder(run, &items)?;
        }
        let dependencies: Dependencies = self.exec.runs[run.index()]
            .results
            .iter()
            .copied()
            .collect();
        self.add_task(Action::Collect { run }, dependencies)?;
        Ok(())
    }

    /// Brings the results, which are in order of delivery, into that of the list. Elements that
    /// were never delivered start now.
    fn reorder(&mut self, run: RunId, items: &[Value]) -> Result<(), Fail> {
        let mut used = vec![false; self.exec.runs[run.index()].elements.len()];
        let mut order = Vec::with_capacity(items.len());
        for item in items {
            let found = (0..used.len()).find(|at| {
                !used[*at]
                    && self
                        .state
                        .heap
                        .equal(self.exec.runs[run.index()].elements[*at], *item)
            });
            match found {
                Some(at) => {
                    used[at] = true;
                    order.push(self.exec.runs[run.index()].results[at]);
                }
                None => {
                    self.start_element(run, *item)?;
                    order.extend(self.exec.runs[run.index()].results.last().copied());
                }
            }
        }
        self.exec.runs[run.index()].results = order;
        Ok(())
    }

    /// All results are there: lists among them are flattened, and what the guard dropped is left
    /// out.
    pub(in crate::runtime) fn run_collect(&mut self, run: RunId) -> Result<(), Fail> {
        self.state
            .vars
            .check(&mut self.exec.runs[run.index()].round);
        let results = std::mem::take(&mut self.exec.runs[run.index()].results);
        self.exec.runs[run.index()].elements = Vec::new();
        let mut values = Vec::with_capacity(results.len());
        for result in &results {
            match self.state.var(*result).value(&self.state.heap) {
                Value::Skip => {}
                value => self.state.heap.flatten_into(value, &mut values),
            }
        }
        let list = self.state.heap.new_list(&values);
        let result = self.exec.runs[run.index()].result;
        self.set_plain(result, list, Loc::NONE)
    }
}
