//! Whether a model may come to call a plugin that somebody outside notices: a look over its code
//! before it runs.
//!
//! Such a call ends a run in tiles (`speed/tiling.rs`), and all that the run did is lost. Modules
//! have plugins that a model never calls, so the calls in the program say little. What counts is
//! what can run: the statements of the files, and the implementations and defaults of those
//! entities that some statement constructs which can run itself. So this is a search through the
//! program from its root blocks; conditions are not evaluated, and what templates call is not seen.
//! The answer is a guess, on which only speed depends: whether the model may run in tiles, and
//! whether Python is started ahead of need.

use crate::hir::plugin::{Body, PluginDef};
use crate::hir::{
    BlockId, CallId, Callee, ConstructId, ExprId, ExprKind, FormatPart, PluginId, QueryKind,
    StmtKind,
};
use crate::protocol::{Identify, ResourceClassInfo};
use crate::types::EntityId;

use crate::runtime::Machine;

impl Machine<'_> {
    /// Whether a plugin may be called, as far as one can see, that is noticed outside.
    pub fn may_be_observed(&self) -> bool {
        self.may_call(is_seen)
    }

    /// Whether Python is asked something, as far as one can see: a plugin is called, or a resource of a class with getters is
    /// exported.
    pub fn may_ask_python(&self) -> bool {
        let is_python: Wanted = |_, plugin| matches!(plugin.body, Body::Python);
        if self.may_call(is_python) {
            return true;
        }
        let computes = |class: &&ResourceClassInfo| {
            let has_getter = class.fields.iter().any(|field| field.getter);
            has_getter || class.assembles || class.identify != Identify::No
        };
        let mut classes = self.program.resource_classes.iter().filter(computes);
        let Some(first) = classes.next().filter(|_| self.options.export) else {
            return false;
        };
        let mut search = Search::of_all(self, |_, _| false);
        search.finds();
        let is_made = |class: &ResourceClassInfo| {
            let mut entities = self.program.entities.iter();
            let at = entities.position(|entity| self.program.text(entity.name) == class.entity);
            at.is_some_and(|at| search.constructed[at])
        };
        is_made(first) || classes.any(is_made)
    }

    /// Whether what can run may call a plugin that is looked for.
    fn may_call(&self, wanted: Wanted) -> bool {
        let mut calls = self.program.calls.iter();
        calls.any(|call| self.is_wanted(call.callee, wanted))
            && Search::of_all(self, wanted).finds()
    }

    /// The plugins that conditions of types call and that are noticed outside.
    pub(in crate::runtime) fn observed_in_types(&self) -> Vec<PluginId> {
        let mut search = Search::new(self, |_, _| false);
        let conditions = self.program.typedefs.iter();
        search
            .exprs
            .extend(conditions.filter_map(|typedef| typedef.condition));
        search.finds();
        let mut plugins = search.called;
        plugins.sort_unstable();
        plugins.dedup();
        plugins.retain(|plugin| is_seen(self, &self.program.plugins[plugin.index()]));
        plugins
    }

    /// Whether a call of this is looked for.
    fn is_wanted(&self, callee: Callee, wanted: Wanted) -> bool {
        match callee {
            Callee::Plugin(plugin) => wanted(self, &self.program.plugins[plugin.index()]),
            Callee::Cast(_) => false,
        }
    }
}

/// Whether a plugin is one that a search is for.
type Wanted = fn(&Machine, &PluginDef) -> bool;

fn is_seen(machine: &Machine, plugin: &PluginDef) -> bool {
    machine.is_visible_outside(plugin)
}

/// What can run, as far as the search has come.
struct Search<'s, 'a> {
    machine: &'s Machine<'a>,
    wanted: Wanted,
    /// Expressions that can run and were not looked at yet.
    exprs: Vec<ExprId>,
    /// Blocks that can run and were not looked at yet.
    blocks: Vec<BlockId>,
    /// By entity: whether a constructor of it was met already.
    constructed: Vec<bool>,
    /// The plugins that were met, each as often as it is called.
    called: Vec<PluginId>,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(machine: &'s Machine<'a>, wanted: Wanted) -> Self {
        Search {
            machine,
            wanted,
            exprs: Vec::new(),
            blocks: Vec::new(),
            constructed: vec![false; machine.program.entities.len()],
            called: Vec::new(),
        }
    }

    /// Begins with all that runs in any case.
    fn of_all(machine: &'s Machine<'a>, wanted: Wanted) -> Self {
        let program = machine.program;
        let mut search = Self::new(machine, wanted);
        for namespace in &program.namespaces {
            search.blocks.push(namespace.root);
        }
        for typedef in &program.typedefs {
            search.exprs.extend(typedef.condition);
        }
        let annotations = program.annotations.iter();
        search
            .exprs
            .extend(annotations.map(|annotation| annotation.expr));
        search
    }

    /// Looks at all that can run until a call of an observer is found. Blocks come first: calls stand in implementations, and
    /// what is constructed stands in a file with ten thousands of lines that are all alike.
    fn finds(&mut self) -> bool {
        loop {
            if let Some(block) = self.blocks.pop() {
                self.block(block);
            } else if let Some(expr) = self.exprs.pop() {
                if let ExprKind::Call(call) = self.machine.program.expr(expr).kind
                    && self
                        .machine
                        .is_wanted(self.machine.program.calls[call.index()].callee, self.wanted)
                {
                    return true;
                }
                self.expr(expr);
            } else {
                return false;
            }
        }
    }

    fn block(&mut self, block: BlockId) {
        let program = self.machine.program;
        for stmt in &program.blocks[block.index()].stmts {
            match program.stmts[stmt.index()].kind {
                StmtKind::Expr(value) | StmtKind::Assign { value, .. } => self.exprs.push(value),
                StmtKind::AttrAssign { object, value, .. } => self.exprs.extend([object, value]),
                StmtKind::For { iterable, body, .. } => {
                    self.exprs.push(iterable);
                    self.blocks.push(body);
                }
                StmtKind::If {
                    condition,
                    then,
                    otherwise,
                    ..
                } => {
                    self.exprs.push(condition);
                    self.blocks.extend([then, otherwise]);
                }
            }
        }
    }

    /// Looks at what is inside of an expression next.
    fn expr(&mut self, expr: ExprId) {
        let program = self.machine.program;
        match &program.expr(expr).kind {
            ExprKind::Const(_) | ExprKind::Var(_) | ExprKind::Regex(_) => {}
            ExprKind::Attr(object, _) => self.exprs.push(*object),
            ExprKind::Not(operand) | ExprKind::Defined(operand) => self.exprs.push(*operand),
            ExprKind::Binary(_, left, right)
            | ExprKind::And(left, right)
            | ExprKind::Or(left, right)
            | ExprKind::Lookup(left, right) => self.exprs.extend([*left, *right]),
            ExprKind::Ternary(condition, then, otherwise) => {
                self.exprs.extend([*condition, *then, *otherwise]);
            }
            ExprKind::List(items) => self.exprs.extend(items),
            ExprKind::Dict(entries) => self.exprs.extend(entries.iter().map(|(_, value)| value)),
            ExprKind::Format(parts) => self.text(parts),
            ExprKind::Construct(construct) => self.construct(*construct),
            ExprKind::Call(call) | ExprKind::Cast(call) => self.call(*call),
            ExprKind::Query(query) => {
                let query = &program.queries[query.index()];
                self.exprs.extend(query.args.iter().map(|(_, value)| value));
                self.exprs.extend(&query.spreads);
                if let QueryKind::Relation(object, _) = query.kind {
                    self.exprs.push(object);
                }
            }
            ExprKind::Comprehension(comprehension) => {
                let comprehension = &program.comprehensions[comprehension.index()];
                let parts = [comprehension.iterable, comprehension.value];
                self.exprs.extend(parts);
            }
        }
    }

    fn text(&mut self, parts: &[FormatPart]) {
        for part in parts {
            match part {
                FormatPart::Text(_) => {}
                FormatPart::Value(value) => self.exprs.push(*value),
                FormatPart::Field { value, spec, .. } => {
                    self.exprs.extend(*value);
                    self.text(spec);
                }
            }
        }
    }

    fn call(&mut self, call: CallId) {
        let call = &self.machine.program.calls[call.index()];
        if let Callee::Plugin(plugin) = call.callee {
            self.called.push(plugin);
        }
        self.exprs.extend(&call.positional);
        self.exprs.extend(call.named.iter().map(|(_, value)| value));
        self.exprs.extend(&call.spreads);
    }

    fn construct(&mut self, construct: ConstructId) {
        let construct = &self.machine.program.constructs[construct.index()];
        let direct = construct.direct.iter().map(|(_, value)| value);
        self.exprs.extend(direct);
        let indirect = construct.indirect.iter().map(|argument| argument.value);
        self.exprs.extend(indirect);
        self.exprs.extend(&construct.spreads);
        self.entity(construct.entity);
    }

    /// An instance of an entity may be made: its defaults and implementations can run.
    fn entity(&mut self, entity: EntityId) {
        if std::mem::replace(&mut self.constructed[entity.index()], true) {
            return;
        }
        let program = self.machine.program;
        let entity = program.entity(entity);
        let defaults = entity.defaults.iter().map(|(_, value)| value);
        self.exprs.extend(defaults);
        for entry in &entity.entries {
            let entry = &program.implements[entry.index()];
            self.exprs.extend(entry.condition);
            let using = entry.using.iter();
            self.blocks
                .extend(using.map(|id| program.implementations[id.index()].block));
        }
    }
}
