//! The model as templates read it: the machine's own arenas, lent for the time of a rendering.
//! Source: docs/reference/std.md § 7.
//!
//! [`ModelView::exchange`] swaps the arenas of the machine with the empty ones of the view before a
//! rendering, and back after it. Nothing is copied, and the engine can own the view without a
//! lifetime. Between the two, the machine must not be used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::diagnostics::closest;
use crate::hash::Map;
use crate::hir::plugin::{Body, bind};
use crate::hir::{CallId, PluginId, Program, Ref};
use crate::intern::Symbol;
use crate::python_host::memo::Memo;
use crate::runtime::exec::calls::Site;
use crate::runtime::python_bridge::kept_result::{Keeper, KeptResult, kept_value};
use crate::runtime::python_bridge::known_calls::{Hit, Known, Path, Readable, follow};
use crate::runtime::state::model::read_slot;
use crate::runtime::{Instance, Machine, ReadError, Scope, ScopeId, VarId, VarKind, Vars};
use crate::template::{
    Lookup, Missing, ReferencePlace, RequestChannel, TemplateModel, TemplateRequest,
};
use crate::types::text::Instances;
use crate::types::{DictId, EntityId, Heap, InstId, Type, TypeId, Value};

/// The arenas of a machine while a template is rendered, and what the rendering leaves behind.
pub(in crate::runtime) struct ModelView {
    program: Arc<Program>,
    heap: Heap,
    vars: Vars,
    instances: Vec<Instance>,
    scopes: Vec<Scope>,
    roots: Vec<VarId>,
    /// Why the rendering was abandoned.
    request: Option<TemplateRequest>,
    /// Results of plugins that were called as filters, in the order of the calls, and how many of them this rendering has had.
    results: Vec<Value>,
    n_taken: usize,
    /// How many of these calls the machine was asked for.
    n_asked: usize,
    /// Calls of earlier compiles, and whether they may be looked up: nothing but their answers would be noticed of them.
    memo: Option<Memo>,
    may_look_up: bool,
    /// Plugins whose answers were found there.
    looked_up: Vec<PluginId>,
    /// Where requests are served while the rendering waits.
    channel: Option<Arc<RequestChannel>>,
    /// Templates that were read, by name; `None`: there is none of that name.
    sources: HashMap<String, Option<String>>,
    /// With keyword arguments, only those are visible to the template.
    keywords: Option<HashMap<String, Value>>,
    /// The call that renders, and its scope: where names are looked for.
    call: Option<CallId>,
    scope: ScopeId,
    /// What was not found, for the error.
    missing: Missing,
    /// What may be meant by names that were not found, by the call and the entity that it stands in. A template asks for its own
    /// variables, too, again in each rendering.
    similar_names: Map<(Option<CallId>, Option<EntityId>), SimilarNames>,
}

/// By a name that was not found; `None`: no other one is like it.
type SimilarNames = HashMap<String, Option<String>>;

/// The view as the engine and the machine share it.
pub(in crate::runtime) type SharedView = Arc<Mutex<ModelView>>;

/// The view, even if a rendering has panicked with it.
pub(in crate::runtime) fn lock(view: &SharedView) -> MutexGuard<'_, ModelView> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModelView {
    /// A view that has nothing to show yet.
    pub fn new(program: Arc<Program>) -> Self {
        ModelView {
            program,
            heap: Heap::default(),
            vars: Vars::default(),
            instances: Vec::new(),
            scopes: Vec::new(),
            roots: Vec::new(),
            request: None,
            results: Vec::new(),
            n_taken: 0,
            n_asked: 0,
            memo: None,
            may_look_up: false,
            looked_up: Vec::new(),
            channel: None,
            sources: HashMap::new(),
            keywords: None,
            call: None,
            scope: ScopeId::NONE,
            missing: Missing::default(),
            similar_names: Map::default(),
        }
    }

    /// Prepares for the rendering that a call asks for. What earlier ones read of templates stays.
    pub fn begin(&mut self, site: Site, variables: Option<Vec<(String, Value)>>) {
        self.results.clear();
        self.n_asked = 0;
        self.keywords = variables.map(|variables| variables.into_iter().collect());
        self.call = site.call;
        self.scope = site.scope;
    }

    /// Takes the machine's arenas, or gives them back.
    pub fn exchange(&mut self, machine: &mut Machine) {
        std::mem::swap(&mut self.heap, &mut machine.state.heap);
        std::mem::swap(&mut self.vars, &mut machine.state.vars);
        std::mem::swap(&mut self.instances, &mut machine.state.instances);
        std::mem::swap(&mut self.scopes, &mut machine.state.scopes);
        std::mem::swap(&mut self.roots, &mut machine.state.roots);
        std::mem::swap(&mut self.memo, &mut machine.python.memo);
        self.may_look_up = !machine.python.has_objects_for_instances()
            && !machine.has_own_texts()
            && machine.is_observed();
    }

    /// A rendering begins, with what earlier ones have asked for.
    pub fn begin_rendering(&mut self) {
        self.missing.clear();
        self.n_taken = 0;
    }

    pub fn take_missing(&mut self) -> Missing {
        std::mem::take(&mut self.missing)
    }

    /// Why the last rendering was abandoned.
    pub fn take_request(&mut self) -> Option<TemplateRequest> {
        self.request.take()
    }

    /// The result of the plugin that was called as a filter last.
    pub fn answer_call(&mut self, value: Value) {
        self.results.push(value);
        self.n_asked += 1;
    }

    /// How many plugins were called as filters, and could not be looked up.
    pub fn n_asked(&self) -> usize {
        self.n_asked
    }

    /// Plugins whose answers were looked up since this was asked last.
    pub fn take_looked_up(&mut self) -> Vec<PluginId> {
        std::mem::take(&mut self.looked_up)
    }

    /// From now on, requests go there.
    pub fn open(&mut self, channel: RequestChannel) {
        self.channel = Some(Arc::new(channel));
    }

    /// From now on, a request abandons the rendering.
    pub fn close(&mut self) {
        self.channel = None;
    }

    /// `None`: there is no template of this name.
    pub fn answer_source(&mut self, name: String, source: Option<String>) {
        self.sources.insert(name, source);
    }
}

impl ModelView {
    /// The value of a variable for the template; one without a value abandons the rendering.
    fn read(&mut self, var: VarId) -> Lookup {
        let mut id = var;
        while let Some(target) = self.vars[id.index()].target() {
            id = target;
        }
        let var = &self.vars[id.index()];
        if !var.is_ready() {
            self.request = Some(TemplateRequest::Unset(id.0));
            return Lookup::Aborted;
        }
        match var.value(&self.heap) {
            Value::Unknown(_) => {
                self.request = Some(TemplateRequest::Unknown);
                Lookup::Aborted
            }
            Value::Reference(_) => {
                self.request = Some(TemplateRequest::Reference(
                    ReferencePlace::Unplaced,
                    var.value(&self.heap),
                ));
                Lookup::Aborted
            }
            Value::Null if var.kind() == VarKind::Optional => Lookup::Nothing,
            value => Lookup::Value(value),
        }
    }

    fn slot(&self, instance: InstId, name: Symbol) -> Option<VarId> {
        let instance = &self.instances[instance.index()];
        let slot = self.program.entity(instance.entity).slot_of.get(&name)?;
        Some(VarId(instance.slots.0 + slot))
    }

    /// A name as the calling statement sees it; `None`: there is none.
    fn find_name(&mut self, name: &str) -> Option<Lookup> {
        if let Some(keywords) = &self.keywords {
            let value = keywords.get(name).copied()?;
            if matches!(value, Value::Unknown(_)) {
                self.request = Some(TemplateRequest::Unknown);
                return Some(Lookup::Aborted);
            }
            return Some(Lookup::Value(value));
        }
        let symbol = self.program.names.find(name)?;
        let program = Arc::clone(&self.program);
        let call = &program.calls[self.call?.index()];
        let visible = call.scope.as_ref()?;
        if let Some(Ref::Local { up, index }) = visible.refs.get(&symbol) {
            let mut at = self.scope;
            for _ in 0..*up {
                at = self.scopes[at.index()].parent;
            }
            return Some(self.read(VarId(self.scopes[at.index()].base.0 + index)));
        }
        let instance = self.scopes[self.scope.index()].instance;
        if instance.is_some()
            && let Some(var) = self.slot(instance, symbol)
        {
            return Some(self.read(var));
        }
        let root = program.namespaces[call.namespace.index()].root;
        let index = program.blocks[root.index()]
            .variables
            .iter()
            .position(|variable| *variable == symbol)?;
        Some(self.read(VarId(self.roots[call.namespace.index()].0 + index as u32)))
    }
}

impl ModelView {
    fn instance(&self) -> InstId {
        self.scopes
            .get(self.scope.index())
            .map_or(InstId::NONE, |scope| scope.instance)
    }

    fn slot_names(&self, instance: InstId) -> Vec<Symbol> {
        let Some(instance) = self.instances.get(instance.index()) else {
            return Vec::new();
        };
        let slots = self.program.entity(instance.entity).slots.iter();
        slots
            .map(|attr| self.program.attribute(*attr).name)
            .collect()
    }
}

impl ModelView {
    /// The name that may be meant by one that nobody has, among those that the call sees.
    fn similar_name(&self, name: &str) -> Option<String> {
        let program = &self.program;
        let call = &program.calls[self.call?.index()];
        let root = program.namespaces[call.namespace.index()].root;
        let visible = call.scope.iter().flat_map(|scope| scope.refs.keys());
        let variables = &program.blocks[root.index()].variables;
        let slots = self.slot_names(self.instance());
        let known = visible.chain(variables).chain(&slots);
        closest(name, known.map(|symbol| program.text(*symbol))).map(str::to_owned)
    }
}

impl Readable for ModelView {
    fn program(&self) -> &Program {
        &self.program
    }

    fn heap(&self) -> &Heap {
        &self.heap
    }

    fn entity_of(&self, instance: InstId) -> EntityId {
        self.instances[instance.index()].entity
    }

    fn slot_named(&self, instance: InstId, name: &str) -> Option<VarId> {
        self.slot(instance, self.program.names.find(name)?)
    }

    fn read_slot(&self, slot: VarId) -> Result<Value, ReadError> {
        read_slot(&self.vars[slot.index()], slot, &self.heap)
    }

    fn has_own_object(&self, _: InstId) -> bool {
        // Nothing is looked up if one has.
        false
    }

    fn has_own_texts(&self) -> bool {
        false
    }
}

impl Keeper for ModelView {
    fn heap(&mut self) -> &mut Heap {
        &mut self.heap
    }

    fn other(&mut self, kept: &mut KeptResult, _: u32) -> Option<Value> {
        kept.scalar()
    }
}

impl ModelView {
    /// What a call is known to give, and the records that led there. `None`: the machine has to see to it.
    fn look_up(&mut self, memo: &Memo, plugin: PluginId, args: &[Value]) -> Option<(Value, Hit)> {
        let program = Arc::clone(&self.program);
        let definition = &program.plugins[plugin.index()];
        let is_plain = matches!(definition.body, Body::Python)
            && !definition.context
            && !definition.emits_statements
            && definition.deprecated.is_none();
        let name = program.text(definition.name);
        if !is_plain || !memo.has_calls_of(name) {
            return None;
        }
        let (bound, _) = bind(name, definition, args, &[]);
        let path = Path::of_call(memo, definition, name, &bound.ok()?, self)?;
        let Some(Known::Result(hit)) = follow(memo, name, path, self) else {
            return None;
        };
        if hit.logged.is_some() {
            return None;
        }
        let mut kept = KeptResult::of(&hit, memo.result(hit.at)?);
        let value = kept_value(self, &mut kept, 0)?;
        let is_accepted = is_plainly_of(&program, definition.returns, value, &self.heap);
        is_accepted.then_some((value, hit))
    }
}

/// Whether a value, which is a literal, is of a type about which no condition has to be asked.
fn is_plainly_of(program: &Program, ty: TypeId, value: Value, heap: &Heap) -> bool {
    match (&program.types[ty.index()], value) {
        (Type::Any, _)
        | (Type::Null, Value::Null)
        | (Type::String, Value::Str(_))
        | (Type::Int | Type::Number, Value::Int(_) | Value::Bool(_))
        | (Type::Float | Type::Number, Value::Float(_))
        | (Type::Bool, Value::Bool(_))
        | (Type::List | Type::AnyList, Value::List(_))
        | (Type::Dict | Type::AnyDict, Value::Dict(_))
        | (Type::Nullable(_), Value::Null) => true,
        (Type::Nullable(inner), value) => is_plainly_of(program, *inner, value, heap),
        (Type::ListOf(inner), Value::List(list)) => {
            let mut items = heap.list(list).iter();
            items.all(|item| is_plainly_of(program, *inner, *item, heap))
        }
        (Type::DictOf(inner), Value::Dict(dict)) => {
            let mut entries = heap.dict(dict).entries.iter();
            entries.all(|(_, item)| is_plainly_of(program, *inner, *item, heap))
        }
        _ => false,
    }
}

impl TemplateModel for ModelView {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn heap(&self) -> &Heap {
        &self.heap
    }

    fn heap_mut(&mut self) -> &mut Heap {
        &mut self.heap
    }

    fn request(&mut self, request: TemplateRequest) {
        self.request = Some(request);
    }

    fn pending_request(&mut self) -> &mut Option<TemplateRequest> {
        &mut self.request
    }

    fn next_call_result(&mut self) -> Option<Value> {
        let result = self.results.get(self.n_taken).copied()?;
        self.n_taken += 1;
        Some(result)
    }

    fn known_call(&mut self, plugin: PluginId, args: &[Value]) -> Option<Value> {
        if !self.may_look_up || args.iter().any(|value| matches!(value, Value::Unknown(_))) {
            return None;
        }
        let mut memo = self.memo.take()?;
        let found = self.look_up(&memo, plugin, args);
        for record in found.iter().flat_map(|(_, hit)| &hit.records) {
            memo.use_record(*record);
        }
        self.memo = Some(memo);
        let (value, _) = found?;
        self.looked_up.push(plugin);
        // If the rendering is begun again, calls find their answers by their order.
        self.results.push(value);
        self.n_taken += 1;
        Some(value)
    }

    fn channel(&self) -> Option<Arc<RequestChannel>> {
        self.channel.clone()
    }

    fn source(&self, name: &str) -> Option<Option<String>> {
        self.sources.get(name).cloned()
    }

    fn has_arguments(&self) -> bool {
        self.keywords.is_some()
    }

    fn attribute(&mut self, instance: InstId, name: &str) -> Lookup {
        match self
            .program
            .names
            .find(name)
            .and_then(|name| self.slot(instance, name))
        {
            Some(var) => match self.read(var) {
                // Arguments are seen as plugins see them.
                Lookup::Nothing if self.has_arguments() => {
                    self.request = Some(TemplateRequest::Optional(var.0));
                    Lookup::Aborted
                }
                found => found,
            },
            None if self.has_arguments() => Lookup::Undefined,
            None => Lookup::Nothing,
        }
    }

    /// A top-level name; `None`: there is none.
    fn name(&mut self, name: &str) -> Option<Lookup> {
        let found = self.find_name(name)?;
        if let (Lookup::Aborted, Some(TemplateRequest::Reference(place, _))) =
            (&found, &mut self.request)
        {
            *place = ReferencePlace::Name(name.to_owned());
        }
        Some(found)
    }

    fn note_missing_name(&mut self, name: &str) {
        if let Some(keywords) = &self.keywords {
            let known = || closest(name, keywords.keys().map(String::as_str));
            self.missing.name(name, || known().map(str::to_owned));
            return;
        }
        let instance = self.instances.get(self.instance().index());
        let place = (self.call, instance.map(|instance| instance.entity));
        let known = self.similar_names.get(&place);
        let known = known.and_then(|names| names.get(name)).cloned();
        let similar = known.unwrap_or_else(|| {
            let similar = self.similar_name(name);
            let names = self.similar_names.entry(place).or_default();
            names.insert(name.to_owned(), similar.clone());
            similar
        });
        self.missing.name(name, || similar);
    }

    fn note_missing_attribute(&mut self, instance: InstId, name: &str) {
        let slots = self.slot_names(instance);
        let program = &self.program;
        self.missing.attribute(name, || {
            slots.iter().map(|name| program.text(*name)).collect()
        });
    }

    fn note_missing_block(&mut self, name: &str) {
        self.missing.attribute(name, Vec::new);
    }

    fn note_missing_key(&mut self, dict: DictId, name: &str) {
        let heap = &self.heap;
        let keys = || {
            heap.dict(dict)
                .entries
                .iter()
                .map(|(key, _)| heap.str(*key))
        };
        self.missing.attribute(name, || keys().collect());
    }
}

impl Instances for ModelView {
    fn instance_text(&self, id: InstId) -> String {
        let instance = &self.instances[id.index()];
        let name = self.program.entity_name(instance.entity);
        format!(
            "{name} (instantiated at {})",
            self.program.sources.brief(instance.loc)
        )
    }

    fn instance_handle(&self, id: InstId) -> String {
        let name = self.program.entity_name(self.instances[id.index()].entity);
        format!("{name} 7f{:010x}", u64::from(id.0) * 16)
    }
}
