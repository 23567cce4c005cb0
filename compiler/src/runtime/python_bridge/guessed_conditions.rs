//! Conditions of typedefs that call Python, for values that steps in the queue are going to store.
//!
//! # What for
//!
//! `typedef cidr as string matching ip::is_cidr(self)` calls a plugin for each value that is stored into an attribute of this
//! type, in the middle of the step that stores it. No other call can go with it (`ahead`): what a step stores is not a call.
//! But which values the next steps store is mostly known, and so is what their conditions are going to ask. So when such a
//! call goes, those for the next values go with it, and their answers are kept as guesses are (`guesses`):
//!
//! ```text
//! queue   store a.net · store a.port · store b.net · store b.port · …
//! frame   is_cidr(a.net), is_cidr(b.net), …        one wake-up instead of many; another frame has the ports
//! ```
//!
//! # Why nobody notices
//!
//! As with other guesses, only plugins that do nothing but compute are asked ahead, and an answer counts when the model comes to
//! ask the same. A condition that is not evaluated in the end (`and` has decided before) was asked for nothing.

use smallvec::SmallVec;

use crate::hir::plugin::{Body, Bound};
use crate::hir::{AttributeKind, CallId, Callee, ExprId, ExprKind, PluginId, Ref};
use crate::runtime::exec::calls::{Site, Way};
use crate::runtime::python_bridge::remembered::Computation;
use crate::runtime::{Action, Machine, ScopeId, Step};
use crate::types::{Type, TypeId, Value};

/// Steps that are looked at for one frame. A look at one takes a hundredth of a call.
const MOST_STEPS: usize = 256;
/// How deeply types and conditions are looked into.
const MAX_DEPTH: u32 = 16;

/// The calls for the next values, while they are looked for.
struct Search {
    plugin: PluginId,
    n_most: usize,
    found: Vec<(Site, Bound)>,
}

impl Search {
    fn is_full(&self) -> bool {
        self.found.len() == self.n_most
    }
}

impl Machine<'_> {
    /// The next calls of a plugin that conditions of types are going to make.
    pub(super) fn next_conditions(
        &mut self,
        plugin: PluginId,
        n_most: usize,
    ) -> Vec<(Site, Bound)> {
        let mut search = Search {
            plugin,
            n_most,
            found: Vec::new(),
        };
        let program = self.program;
        let definition = &program.plugins[plugin.index()];
        let mut parameters = definition.parameters.iter().map(|parameter| parameter.ty);
        let is_plain = parameters.all(|ty| self.has_no_condition(ty, 0));
        if !is_plain || !matches!(definition.body, Body::Python) {
            // Binding its arguments would ask Python.
            return search.found;
        }
        for step in self.scheduler.ready.upcoming(0, MOST_STEPS) {
            self.look_at_stored(&step, &mut search);
            if search.is_full() {
                break;
            }
        }
        search.found
    }

    /// Adds the calls for the values that a step is going to store.
    fn look_at_stored(&mut self, step: &Step, search: &mut Search) {
        let program = self.program;
        let (action, dependencies) = match step {
            Step::Constants {
                construct,
                from,
                to,
                ..
            } => {
                let construct = &program.constructs[construct.index()];
                let slots = &program.entity(construct.entity).slots;
                let range = usize::from(*from)..usize::from(*to);
                for argument in construct.indirect[range].iter().filter(|it| it.constant) {
                    let attribute = slots[argument.slot as usize];
                    if let ExprKind::Const(value) = program.expr(argument.value).kind
                        && let AttributeKind::Plain(ty) = program.attribute(attribute).kind
                    {
                        self.add_calls_of(ty, value, search, 0);
                    }
                }
                return;
            }
            Step::Task(task) => {
                let task = self.scheduler.task(*task);
                (task.action, Some(task.dependencies.clone()))
            }
            Step::Direct { action, .. } => (*action, None),
            Step::Implement { .. } => return,
        };
        if let Action::Store { slot, .. } = action
            && let AttributeKind::Plain(ty) = program.attribute(self.state.attr(slot)).kind
            && !self.has_no_condition(ty, 0)
            && let Some(value) = self.computed_ahead(&action, dependencies.as_ref())
        {
            self.add_calls_of(ty, value, search, 0);
        }
    }

    /// Adds the calls that are made to see whether a value is of a type.
    fn add_calls_of(&mut self, ty: TypeId, value: Value, search: &mut Search, depth: u32) {
        if depth > MAX_DEPTH
            || search.is_full()
            || matches!(value, Value::Unknown(_) | Value::Reference(_))
        {
            return;
        }
        let program = self.program;
        match &program.types[ty.index()] {
            Type::Typedef(id) => {
                let typedef = &program.typedefs[id.index()];
                self.add_calls_of(typedef.base, value, search, depth + 1);
                if let Some(condition) = typedef.condition {
                    self.add_calls_in(condition, value, search, depth + 1);
                }
            }
            Type::Nullable(inner) if !matches!(value, Value::Null) => {
                self.add_calls_of(*inner, value, search, depth + 1);
            }
            Type::ListOf(inner) => {
                if let Value::List(list) = value {
                    let items: SmallVec<[Value; 8]> = self.state.heap.list(list).into();
                    for item in items {
                        self.add_calls_of(*inner, item, search, depth + 1);
                    }
                }
            }
            Type::DictOf(inner) => {
                if let Value::Dict(dict) = value {
                    let entries = &self.state.heap.dict(dict).entries;
                    let items: SmallVec<[Value; 8]> =
                        entries.iter().map(|(_, item)| *item).collect();
                    for item in items {
                        self.add_calls_of(*inner, item, search, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds the calls in a condition whose arguments are constants and the value itself.
    fn add_calls_in(&mut self, expr: ExprId, value: Value, search: &mut Search, depth: u32) {
        if depth > MAX_DEPTH || search.is_full() {
            return;
        }
        let program = self.program;
        match &program.expr(expr).kind {
            ExprKind::Not(operand) => self.add_calls_in(*operand, value, search, depth + 1),
            ExprKind::Binary(_, left, right)
            | ExprKind::And(left, right)
            | ExprKind::Or(left, right) => {
                self.add_calls_in(*left, value, search, depth + 1);
                self.add_calls_in(*right, value, search, depth + 1);
            }
            ExprKind::Call(id) => self.add_call(*id, value, search),
            _ => {}
        }
    }

    fn add_call(&mut self, id: CallId, value: Value, search: &mut Search) {
        let program = self.program;
        let call = &program.calls[id.index()];
        let is_asked = matches!(call.callee, Callee::Plugin(plugin) if plugin == search.plugin);
        if !is_asked || !call.spreads.is_empty() || call.wrong.is_some() {
            return;
        }
        let given = |expr: ExprId| match program.expr(expr).kind {
            ExprKind::Const(value) => Some(value),
            ExprKind::Var(Ref::Local { up: 0, index: 0 }) => Some(value),
            _ => None,
        };
        let positional = call.positional.iter().map(|value| given(*value));
        let named = call.named.iter();
        let named = named.map(|(name, value)| {
            let name = program.text(*name).to_owned();
            given(*value).map(|value| (name, value))
        });
        let (Some(positional), Some(named)) = (
            positional.collect::<Option<Vec<Value>>>(),
            named.collect::<Option<Vec<(String, Value)>>>(),
        ) else {
            return;
        };
        let site = Site {
            call: None,
            scope: ScopeId::NONE,
            plugin: search.plugin,
            loc: call.loc,
            way: Way::Alone,
        };
        // What is wrong with it is said in its turn.
        let Ok(arguments) = self.check_arguments(search.plugin, &positional, &named, call.loc)
        else {
            return;
        };
        if !arguments.unknown && !self.is_remembered(Computation::Call(site, &arguments.bound)) {
            search.found.push((site, arguments.bound));
        }
    }

    /// Whether no condition is evaluated to see whether a value is of a type.
    fn has_no_condition(&self, ty: TypeId, depth: u32) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let all = |types: &[TypeId]| types.iter().all(|ty| self.has_no_condition(*ty, depth + 1));
        match &self.program.types[ty.index()] {
            Type::Typedef(id) => {
                let typedef = &self.program.typedefs[id.index()];
                typedef.condition.is_none() && all(&[typedef.base])
            }
            Type::Nullable(inner)
            | Type::ListOf(inner)
            | Type::DictOf(inner)
            | Type::Reference(inner) => all(&[*inner]),
            Type::Union(types) => all(types),
            _ => true,
        }
    }
}
