//! Renders templates over the running model. Source: std-module.md 7.
//!
//! The engine wants objects that own what they show. So the arenas that a template may read move into a shared
//! [`Slot`] while it renders, and back afterwards. What needs more than reading (calling a plugin as a filter, loading
//! a template) aborts the rendering with a wish; the machine grants it, remembers the answer and renders again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Environment;

use crate::hir::{CallId, PluginId, Program, Ref};
use crate::intern::Symbol;
use crate::plugins::{Body, PluginError, external};
use crate::runtime::exec::calls::Site;
use crate::runtime::{InstId, Instance, Machine, Scope, ScopeId, VarId, VarKind, Vars};
use crate::span::Loc;
use crate::types::text::Instances;
use crate::types::{DictId, Heap, Type, TypeId, Value};

use crate::template::engine::{environment, rewrite};
use crate::template::source::rewrite::adapt;
use crate::template::undefined::Missing;

/// A template that asks for more than this many things will never end.
const MAX_WISHES: usize = 100_000;

/// Why a rendering stopped early.
pub(in crate::runtime) enum Wish {
    /// A variable without value yet.
    Unset(VarId),
    Unknown,
    Call {
        key: String,
        plugin: PluginId,
        args: Vec<Value>,
    },
    Source(String),
    /// A reference, under this top-level name.
    Reference(Option<String>, Value),
}

/// What a template may read.
pub(in crate::runtime) struct Slot {
    pub program: Arc<Program>,
    pub heap: Heap,
    vars: Vars,
    instances: Vec<Instance>,
    scopes: Vec<Scope>,
    roots: Vec<VarId>,
    pub wish: Option<Wish>,
    /// Results of plugins that were called as filters.
    pub calls: HashMap<String, Value>,
    /// `None`: there is none of that name.
    pub sources: HashMap<String, Option<String>>,
    /// With keyword arguments only those are visible.
    keywords: Option<HashMap<String, Value>>,
    call: Option<CallId>,
    scope: ScopeId,
    /// What was not found.
    missing: Missing,
}

pub(in crate::runtime) type Shared = Arc<Mutex<Slot>>;

pub(in crate::runtime) fn lock(shared: &Shared) -> MutexGuard<'_, Slot> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine with its compiled templates, kept for one compile.
#[derive(Default)]
pub struct TemplateCache {
    engine: Option<(Environment<'static>, Shared)>,
}

/// What reading a name or an attribute gives.
pub(in crate::runtime) enum Found {
    Value(Value),
    /// An unset optional, or an attribute that the entity does not have.
    Nothing,
    /// The wish is noted.
    Aborted,
}

impl Slot {
    fn read(&mut self, var: VarId) -> Found {
        let mut id = var;
        while let Some(target) = self.vars[id.index()].target() {
            id = target;
        }
        let var = &self.vars[id.index()];
        if !var.is_ready() {
            self.wish = Some(Wish::Unset(id));
            return Found::Aborted;
        }
        match var.value(&self.heap) {
            Value::Unknown(_) => {
                self.wish = Some(Wish::Unknown);
                Found::Aborted
            }
            Value::Reference(_) => {
                self.wish = Some(Wish::Reference(None, var.value(&self.heap)));
                Found::Aborted
            }
            Value::Null if var.kind() == VarKind::Optional => Found::Nothing,
            value => Found::Value(value),
        }
    }

    fn slot(&self, instance: InstId, name: Symbol) -> Option<VarId> {
        let instance = &self.instances[instance.index()];
        let slot = self.program.entity(instance.entity).slot_of.get(&name)?;
        Some(VarId(instance.slots.0 + slot))
    }

    pub fn attribute(&mut self, instance: InstId, name: &str) -> Found {
        match self
            .program
            .names
            .find(name)
            .and_then(|name| self.slot(instance, name))
        {
            Some(var) => self.read(var),
            None => Found::Nothing,
        }
    }

    /// A top-level name; `None`: there is none.
    pub fn name(&mut self, name: &str) -> Option<Found> {
        let found = self.find_name(name)?;
        if let (Found::Aborted, Some(Wish::Reference(top, _))) = (&found, &mut self.wish) {
            *top = Some(name.to_owned());
        }
        Some(found)
    }

    fn find_name(&mut self, name: &str) -> Option<Found> {
        if let Some(keywords) = &self.keywords {
            let value = keywords.get(name).copied()?;
            if matches!(value, Value::Unknown(_)) {
                self.wish = Some(Wish::Unknown);
                return Some(Found::Aborted);
            }
            return Some(Found::Value(value));
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
        if instance.is_some() {
            if name == "self" {
                return Some(Found::Value(Value::Instance(instance)));
            }
            if let Some(var) = self.slot(instance, symbol) {
                return Some(self.read(var));
            }
        }
        let root = program.namespaces[call.namespace.index()].root;
        let index = program.blocks[root.index()]
            .variables
            .iter()
            .position(|variable| *variable == symbol)?;
        Some(self.read(VarId(self.roots[call.namespace.index()].0 + index as u32)))
    }
}

/// What is not found, beside what there is.
impl Slot {
    pub fn miss_name(&mut self, name: &str) {
        let program = Arc::clone(&self.program);
        let text = |symbol: &Symbol| program.text(*symbol);
        let slots = self.slot_names(self.instance());
        self.missing.name(name, || {
            if let Some(keywords) = &self.keywords {
                return keywords.keys().map(String::as_str).collect();
            }
            let Some(call) = self.call.map(|call| &program.calls[call.index()]) else {
                return Vec::new();
            };
            let root = program.namespaces[call.namespace.index()].root;
            let visible = call.scope.iter().flat_map(|scope| scope.refs.keys());
            let variables = &program.blocks[root.index()].variables;
            visible.chain(variables).chain(&slots).map(text).collect()
        });
    }

    pub fn miss_attribute(&mut self, instance: InstId, name: &str) {
        let slots = self.slot_names(instance);
        let program = &self.program;
        self.missing.attribute(name, || {
            slots.iter().map(|name| program.text(*name)).collect()
        });
    }

    pub fn miss_key(&mut self, dict: DictId, name: &str) {
        let heap = &self.heap;
        let keys = || {
            heap.dict(dict)
                .entries
                .iter()
                .map(|(key, _)| heap.str(*key))
        };
        self.missing.attribute(name, || keys().collect());
    }

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

impl Instances for Slot {
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

impl Machine<'_> {
    pub(in crate::runtime) fn render_template(
        &mut self,
        site: Site,
        path: &str,
        variables: Option<Vec<(String, Value)>>,
    ) -> Result<Value, PluginError> {
        let path = match path.strip_prefix("./") {
            Some(rest) => {
                let namespace = site
                    .call
                    .map(|call| self.program.calls[call.index()].namespace);
                let name = namespace
                    .map(|id| self.program.text(self.program.namespaces[id.index()].name))
                    .unwrap_or("");
                let module = name.split("::").next().unwrap_or("");
                if module == "__config__" {
                    return external(
                        "Exception",
                        "a template of the project itself can not be relative to a module",
                    );
                }
                format!("{module}/{rest}")
            }
            None => path.to_owned(),
        };
        let cache = std::mem::take(&mut self.templates);
        let (engine, shared) = cache.engine.unwrap_or_else(|| {
            let slot = Slot {
                program: Arc::clone(&self.shared_program),
                heap: Heap::default(),
                vars: Vars::default(),
                instances: Vec::new(),
                scopes: Vec::new(),
                roots: Vec::new(),
                wish: None,
                calls: HashMap::new(),
                sources: HashMap::new(),
                keywords: None,
                call: None,
                scope: ScopeId::NONE,
                missing: Missing::default(),
            };
            let shared = Arc::new(Mutex::new(slot));
            (environment(&shared), shared)
        });
        {
            let mut slot = lock(&shared);
            slot.calls.clear();
            slot.keywords = variables.map(|variables| variables.into_iter().collect());
            slot.call = site.call;
            slot.scope = site.scope;
        }
        let result = self.render_until_done(&engine, &shared, site, &path);
        self.templates.engine = Some((engine, shared));
        result
    }

    fn render_until_done(
        &mut self,
        engine: &Environment<'static>,
        shared: &Shared,
        site: Site,
        path: &str,
    ) -> Result<Value, PluginError> {
        for _ in 0..MAX_WISHES {
            self.lend(shared);
            let rendered = engine
                .get_template(path)
                .and_then(|template| template.render(crate::template::engine::root(shared)));
            self.take_back(shared);
            let wish = lock(shared).wish.take();
            match wish {
                None => {
                    let mut missing = std::mem::take(&mut lock(shared).missing);
                    // The engine asks for its own after ours.
                    missing.forget(|name| engine.globals().any(|(global, _)| global == name));
                    return self.rendered(rendered, path, &missing);
                }
                Some(Wish::Unset(var)) => return Err(PluginError::Unset(vec![var.0])),
                Some(Wish::Unknown) => return Err(PluginError::Unknown),
                Some(Wish::Reference(Some(name), value)) => {
                    return Err(PluginError::Explicit {
                        type_name: "inmanta.ast.PluginException".to_owned(),
                        message: format!(
                            "Encountered reference in Jinja template for variable {name} (= `{}`)",
                            self.heap.repr(value, self)
                        ),
                        traceback: None,
                    });
                }
                Some(Wish::Reference(None, value)) => {
                    return Err(self.unexpected_reference(path, value));
                }
                Some(Wish::Call { key, plugin, args }) => {
                    let value = self.call_filter(site, plugin, args)?;
                    lock(shared).calls.insert(key, value);
                }
                Some(Wish::Source(name)) => {
                    let source = self.template_source(&name);
                    let source = source.map(|source| adapt(&rewrite(&source, self.program)));
                    lock(shared).sources.insert(name, source);
                }
            }
        }
        external("RuntimeError", format!("the template {path} never ends"))
    }

    fn lend(&mut self, shared: &Shared) {
        let mut slot = lock(shared);
        slot.missing.clear();
        slot.heap = std::mem::take(&mut self.heap);
        slot.vars = std::mem::take(&mut self.vars);
        slot.instances = std::mem::take(&mut self.instances);
        slot.scopes = std::mem::take(&mut self.scopes);
        slot.roots = std::mem::take(&mut self.roots);
    }

    fn take_back(&mut self, shared: &Shared) {
        let mut slot = lock(shared);
        self.heap = std::mem::take(&mut slot.heap);
        self.vars = std::mem::take(&mut slot.vars);
        self.instances = std::mem::take(&mut slot.instances);
        self.scopes = std::mem::take(&mut slot.scopes);
        self.roots = std::mem::take(&mut slot.roots);
    }

    pub(in crate::runtime) fn template_source(&self, name: &str) -> Option<String> {
        let path = self.template_path(name)?;
        self.world.read_text(&path).ok()
    }

    pub(in crate::runtime) fn template_path(&self, name: &str) -> Option<String> {
        if name.split('/').any(|part| part == "..") {
            return None;
        }
        Some(match name.strip_prefix('/') {
            Some(rest) => format!("templates/{rest}"),
            None => {
                let (module, rest) = name.split_once('/')?;
                let root = self.program.module_roots.get(module)?;
                format!("{root}/templates/{rest}")
            }
        })
    }

    fn call_filter(
        &mut self,
        site: Site,
        plugin: PluginId,
        args: Vec<Value>,
    ) -> Result<Value, PluginError> {
        let definition = &self.program.plugins[plugin.index()];
        let name = self.program.text(definition.name);
        if definition.context {
            return external(
                "Exception",
                format!("plugin {name} needs the compiler's context, it is no filter"),
            );
        }
        if args.iter().any(|value| matches!(value, Value::Unknown(_))) {
            return Err(PluginError::Unknown);
        }
        if let Some(length) = self.length_as_filter(name, &args) {
            return Ok(length);
        }
        let (bound, checks) = crate::plugins::bind(name, definition, &args, &[]);
        if matches!(definition.body, Body::Native(_)) {
            for check in checks {
                self.check_kind(name, check.1, check.2)?;
            }
        }
        let bound = match bound {
            Ok(bound) => bound,
            Err(message) => {
                return Err(PluginError::Compile(crate::diagnostics::runtime(
                    Loc::NONE,
                    message,
                )));
            }
        };
        let value = self.invoke(
            Site {
                call: None,
                scope: ScopeId::NONE,
                plugin,
                loc: site.loc,
            },
            &bound,
        )?;
        if matches!(value, Value::Unknown(_)) {
            Err(PluginError::Unknown)
        } else {
            Ok(value)
        }
    }

    /// A function of ours gets no text in the place of a list; the conditions of typedefs do not count.
    fn check_kind(&mut self, name: &str, ty: TypeId, value: Value) -> Result<(), PluginError> {
        let mut base = ty;
        while let Type::Typedef(id) = &self.program.types[base.index()] {
            base = self.program.typedefs[id.index()].base;
        }
        match self.accepts(base, value) {
            Ok(true) => Ok(()),
            Ok(false) => external(
                "TypeError",
                format!(
                    "{name} got {}, expected {}",
                    self.heap.repr(value, self),
                    self.program.type_text(base)
                ),
            ),
            Err(error) => Err(PluginError::Compile(error)),
        }
    }

    /// Arguments of filters are not checked, and what has a length is counted.
    fn length_as_filter(&self, name: &str, args: &[Value]) -> Option<Value> {
        if !matches!(name, "std::length" | "std::count" | "std::len") {
            return None;
        }
        let length = match args {
            [Value::Str(text)] => self.heap.str(*text).chars().count(),
            [Value::List(list)] => self.heap.list(*list).len(),
            [Value::Dict(dict)] => self.heap.dict(*dict).entries.len(),
            _ => return None,
        };
        i64::try_from(length).ok().map(Value::Int)
    }
}
