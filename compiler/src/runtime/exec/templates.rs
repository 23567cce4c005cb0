//! Renders templates over the running model. Source: docs/reference/std.md § 7.
//!
//! The template engine may keep what it renders from for itself, so it can not borrow the machine.
//! [`crate::template`] says how both share the model all the same: the arenas that a template may
//! read move into a [`ModelView`] and back, and what needs more than reading (a plugin as a filter,
//! a template that is included) abandons the rendering with a request. Here the machine serves the
//! request, and renders again with one more answer until there are no more; from the fifth such request
//! for a plugin on, the rendering goes on where it was, on a thread of its own.
//!
//! To render again from the start is sound because a template only reads, and what it read stays as
//! it was: variables are set once, and answers are kept.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use minijinja::Environment;

use crate::hir::plugin::{Body, PluginError, external};
use crate::hir::{PluginId, Program};
use crate::runtime::exec::calls::{Site, Way};
use crate::runtime::exec::template_view::{ModelView, SharedView, lock};
use crate::runtime::{Machine, ScopeId, VarId};
use crate::span::Loc;
use crate::template::{
    ReferencePlace, RequestChannel, SharedModel, TemplateRequest, environment, prepared, root,
};
use crate::types::{Type, TypeId, Value};

/// How often one rendering is started again with one more answer. A template that wants more never ends.
const MAX_RESTARTS: usize = 100_000;
/// Calls of plugins, but those that the view looks up by itself, for which a rendering is begun again. To begin a small template again takes less than a thread does; of
/// one that calls more, nobody knows how long it is.
const MOST_CALLS_BY_RESTART: usize = 4;

/// The engine with its compiled templates, kept for one compile.
pub struct TemplateCache {
    /// The program that runs, shared with the templates that read its model.
    program: Arc<Program>,
    engine: Option<(Environment<'static>, SharedView)>,
}

impl TemplateCache {
    pub fn new(program: &Arc<Program>) -> TemplateCache {
        TemplateCache {
            program: Arc::clone(program),
            engine: None,
        }
    }
}

impl Machine<'_> {
    /// Renders a template for a call of `std::template`. `variables`: what the template sees;
    /// `None`: the names of the calling statement. A path that begins with `./` is relative to the
    /// calling module.
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
        let cached = self.templates.engine.take();
        let (engine, view) = cached.unwrap_or_else(|| {
            let view = ModelView::new(Arc::clone(&self.templates.program));
            let view = Arc::new(Mutex::new(view));
            let shared: SharedModel = view.clone();
            (environment(&shared), view)
        });
        lock(&view).begin(site, variables);
        let result = self.render_until_done(&engine, &view, site, &path);
        self.templates.engine = Some((engine, view));
        result
    }

    /// Renders and serves requests until there are none.
    fn render_until_done(
        &mut self,
        engine: &Environment<'static>,
        view: &SharedView,
        site: Site,
        path: &str,
    ) -> Result<Value, PluginError> {
        let shared: SharedModel = view.clone();
        let render = || {
            let template = engine.get_template(path)?;
            template.render(root(&shared))
        };
        for _ in 0..MAX_RESTARTS {
            let is_apart = {
                let mut view = lock(view);
                view.begin_rendering();
                view.exchange(self);
                view.n_asked() >= MOST_CALLS_BY_RESTART
            };
            let rendered = if is_apart {
                self.render_apart(view, site, &render)
            } else {
                Ok(render())
            };
            lock(view).exchange(self);
            let looked_up = lock(view).take_looked_up();
            self.python.count_uses(&looked_up);
            let rendered = rendered?;
            let request = lock(view).take_request();
            match request {
                None => {
                    let mut missing = lock(view).take_missing();
                    // The engine asks for its own after ours.
                    missing.forget(|name| engine.globals().any(|(global, _)| global == name));
                    return self.rendered(rendered, path, &missing);
                }
                Some(request) => self.serve_template(view, site, path, request)?,
            }
        }
        external("RuntimeError", format!("the template {path} never ends"))
    }

    /// Renders on a thread of its own and serves its requests meanwhile, with which it goes on. The view has the arenas before
    /// and after, and we have them while a request is served.
    fn render_apart(
        &mut self,
        view: &SharedView,
        site: Site,
        render: &(impl Fn() -> Result<String, minijinja::Error> + Sync),
    ) -> Result<Result<String, minijinja::Error>, PluginError> {
        let (requests, incoming) = channel();
        let (answers, outgoing) = channel();
        lock(view).open(RequestChannel::new(requests, outgoing));
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("template".to_owned())
                .stack_size(crate::STACK_BYTES)
                .spawn_scoped(scope, || {
                    let rendered = catch_unwind(AssertUnwindSafe(render));
                    // Nothing is waited for any more.
                    lock(view).close();
                    rendered
                });
            let Ok(thread) = thread else {
                // Where there is no room for a thread, the template is begun again for each call.
                lock(view).close();
                return Ok(render());
            };
            let mut failure = None;
            for request in incoming {
                let is_served = failure.is_none() && {
                    lock(view).exchange(self);
                    let served = self.serve_template(view, site, "", request);
                    lock(view).exchange(self);
                    failure = served.err();
                    failure.is_none()
                };
                if answers.send(is_served).is_err() {
                    break;
                }
            }
            match (thread.join().and_then(|rendered| rendered), failure) {
                (Ok(_), Some(failure)) => Err(failure),
                (Ok(rendered), None) => Ok(rendered),
                (Err(panic), _) => resume_unwind(panic),
            }
        })
    }

    /// Gives the view what a rendering asks for, or says why it can not go on. `path`: of the template.
    fn serve_template(
        &mut self,
        view: &SharedView,
        site: Site,
        path: &str,
        request: TemplateRequest,
    ) -> Result<(), PluginError> {
        match request {
            TemplateRequest::Unset(var) => Err(PluginError::Unset(vec![var])),
            TemplateRequest::Unknown => Err(PluginError::Unknown),
            TemplateRequest::Optional(var) => Err(PluginError::Compile(
                self.state.optional_unset(VarId(var), Loc::NONE),
            )),
            TemplateRequest::Reference(ReferencePlace::Name(name), value) => {
                Err(PluginError::Explicit {
                    type_name: "inmanta.ast.PluginException".to_owned(),
                    message: format!(
                        "Encountered reference in Jinja template for variable {name} (= `{}`)",
                        self.state.heap.repr(value, &self.state)
                    ),
                    traceback: None,
                })
            }
            TemplateRequest::Reference(ReferencePlace::Path(place), value) => {
                Err(self.unexpected_reference(&place, value))
            }
            TemplateRequest::Reference(ReferencePlace::Unplaced, value) => {
                Err(self.unexpected_reference(path, value))
            }
            TemplateRequest::Call {
                plugin,
                args,
                keyword,
            } => {
                let value = self.call_filter(site, plugin, &args, keyword.as_deref())?;
                lock(view).answer_call(value);
                Ok(())
            }
            TemplateRequest::Source(name) => {
                let source = self.template_source(&name);
                let source = source.map(|source| prepared(&source));
                lock(view).answer_source(name, source);
                Ok(())
            }
        }
    }

    /// The text of a template file; `None`: there is none.
    pub(in crate::runtime) fn template_source(&self, name: &str) -> Option<String> {
        let path = self.template_path(name)?;
        self.world.read_text(&path).ok()
    }

    /// Where the template file `MODULE/PATH` is; `None`: there is no such module.
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

    /// Runs a plugin that a template calls as a filter.
    fn call_filter(
        &mut self,
        site: Site,
        plugin: PluginId,
        args: &[Value],
        keyword: Option<&str>,
    ) -> Result<Value, PluginError> {
        let definition = &self.program.plugins[plugin.index()];
        let name = self.program.text(definition.name);
        if definition.context {
            return external(
                "Exception",
                format!("plugin {name} needs the compiler's context, it is no filter"),
            );
        }
        if let Some(keyword) = keyword {
            return external(
                "TypeError",
                format!(
                    "{name} got an unexpected keyword argument '{keyword}': as filters, plugins take arguments by position only"
                ),
            );
        }
        if args.iter().any(|value| matches!(value, Value::Unknown(_))) {
            return Err(PluginError::Unknown);
        }
        if let Some(length) = self.length_as_filter(name, args) {
            return Ok(length);
        }
        let (bound, checks) = crate::hir::plugin::bind(name, definition, args, &[]);
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
                way: Way::Alone,
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
                    self.state.heap.repr(value, &self.state),
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
            [Value::Str(text)] => self.state.heap.str(*text).chars().count(),
            [Value::List(list)] => self.state.heap.list(*list).len(),
            [Value::Dict(dict)] => self.state.heap.dict(*dict).entries.len(),
            _ => return None,
        };
        i64::try_from(length).ok().map(Value::Int)
    }
}
