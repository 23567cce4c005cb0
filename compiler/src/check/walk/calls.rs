//! Arguments of plugins, and of lookups by an index.

use super::Walker;
use crate::analysis::Static;
use crate::diagnostics::{closest, runtime};
use crate::hir::{AttributeKind, CallId, Callee, ExprKind, QueryId, QueryKind};
use crate::intern::Symbol;
use crate::types::{EntityId, Value};

impl Walker<'_, '_> {
    pub(super) fn query(&mut self, id: QueryId) {
        let query = &self.program.queries[id.index()];
        if let QueryKind::Relation(object, name) = query.kind {
            self.expr(object);
            if let Static::Entity(entity) = self.infer(object)
                && !self.may_have(entity, name)
            {
                self.report(self.no_attribute(entity, name, query.loc));
            }
        }
        let values = query.args.iter().map(|(_, value)| value);
        for value in values.chain(&query.spreads) {
            self.expr(*value);
        }
        if let Some((entity, owner)) = self.looked_up(&query.kind)
            && query.spreads.is_empty()
        {
            self.index(id, entity, owner);
        }
    }

    /// What a lookup looks for, and the attribute that a short one gives itself.
    fn looked_up(&self, kind: &QueryKind) -> Option<(EntityId, Option<Symbol>)> {
        let (object, name) = match *kind {
            QueryKind::Entity(entity) => return Some((entity, None)),
            QueryKind::Relation(object, name) => (object, name),
        };
        let Static::Entity(owner) = self.infer(object) else {
            return None;
        };
        let relation = self.program.find_attribute(owner, name)?;
        match self.program.attribute(relation).kind {
            AttributeKind::Relation {
                target,
                inverse: Some(inverse),
                ..
            } => Some((target, Some(self.program.attribute(inverse).name))),
            _ => None,
        }
    }

    /// There must be an index of exactly these attributes. Source: docs/reference/language.md § 7.4.
    fn index(&mut self, id: QueryId, entity: EntityId, owner: Option<Symbol>) {
        let query = &self.program.queries[id.index()];
        let own = query.args.iter().map(|(name, _)| *name);
        let mut names: Vec<Symbol> = owner.into_iter().chain(own).collect();
        names.sort_by(|a, b| self.program.text(*a).cmp(self.program.text(*b)));
        let known = self.program.entity(entity);
        let has_index = known.indexes.iter().any(|index| index.names == names);
        if has_index || self.is_half_defined(entity) {
            return;
        }
        let given = query.args.iter().map(|(name, value)| {
            let value = match self.program.expr(*value).kind {
                ExprKind::Const(value) => self.machine.state.heap.repr(value, &self.machine.state),
                _ => "…".to_owned(),
            };
            format!("('{}', {value})", self.program.text(*name))
        });
        let owner = owner.map(|name| format!("('{}', …)", self.program.text(name)));
        let shown: Vec<String> = owner.into_iter().chain(given).collect();
        let error = self.machine.state.no_index_of(entity, &shown, query.loc);
        self.report(error);
    }

    pub(super) fn call(&mut self, id: CallId) {
        let call = &self.program.calls[id.index()];
        for value in call.positional.iter().chain(&call.spreads) {
            self.expr(*value);
        }
        for (_, value) in &call.named {
            self.expr(*value);
        }
        let Callee::Plugin(plugin) = call.callee else {
            return;
        };
        let plugin = &self.program.plugins[plugin.index()];
        if !call.spreads.is_empty() {
            return;
        }
        let positional = vec![Value::Null; call.positional.len()];
        let named: Vec<(String, Value)> = call
            .named
            .iter()
            .map(|(name, _)| (self.program.text(*name).to_owned(), Value::Null))
            .collect();
        let name = self.program.text(plugin.name);
        let (bound, _) = crate::hir::plugin::bind(name, plugin, &positional, &named);
        if let Err(message) = bound {
            let known = || plugin.parameters.iter().map(|parameter| &*parameter.name);
            let similar = named
                .iter()
                .filter(|(keyword, _)| known().all(|name| name != keyword))
                .find_map(|(keyword, _)| closest(keyword, known()));
            self.report(runtime(call.loc, message).did_you_mean(similar));
        }
    }
}
