//! Calls of plugins and casts at run time. Source: docs/reference/language.md § 10.3 to § 10.5.
//!
//! A call is a step of its own, whose arguments are known. It binds them to the parameters, checks
//! their types, runs the plugin (in Rust, or in the Python process over `python_bridge`), and
//! checks what it returns. An argument that is Unknown makes the result Unknown, unless the plugin
//! says that it wants to see it.
//!
//! A plugin may read a variable that has no value yet: then the call ends without a result and is
//! made again when the variable has one. The plugin starts from the beginning, but its arguments
//! are those of the first time, kept with the task.

use crate::diagnostics::{Fail, Warning, closest, fail, runtime, typing};
use crate::hir::plugin::bind;
use crate::hir::plugin::{Body, Bound, Check, PluginError};
use crate::hir::{CallId, Callee, ExprId, ExprKind, PluginId};
use crate::runtime::exec::eval::Ready;
use crate::runtime::{Action, Dependencies, Machine, ModelState, ScopeId, TaskId, VarId};
use crate::span::Loc;
use crate::types::{Type, TypeId, Value};

/// Evaluated arguments of a call. They are kept if the call has to run again.
#[derive(Clone, Default)]
pub(in crate::runtime) struct Arguments {
    /// The values by parameter.
    pub bound: Bound,
    /// Some argument is Unknown.
    pub unknown: bool,
}

/// One call that runs: where, and of which plugin.
#[derive(Clone, Copy)]
pub(in crate::runtime) struct Site {
    /// The call in the program; `None`: a typedef's condition or Python makes it.
    pub call: Option<CallId>,
    /// The scope of the calling statement, for plugins that look at names there.
    pub scope: ScopeId,
    /// The plugin that is called.
    pub plugin: PluginId,
    /// The place of the call.
    pub loc: Loc,
    /// How a call of Python goes.
    pub way: Way,
}

/// How a call gets to Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::runtime) enum Way {
    /// The call goes by itself, since it is only a part of a step.
    Alone,
    /// The call is a step of its own, so those of the next steps may go with it.
    WithNext,
}

impl ModelState<'_> {
    /// Reads all dependencies of a call before anything else is done, so that an unset optional
    /// among them is the first error. It has no place in the source.
    pub(in crate::runtime) fn read_all(&self, ready: &Ready) -> Result<(), Fail> {
        for need in ready.dependencies {
            self.read(*need, Loc::NONE)?;
        }
        Ok(())
    }

    /// The value as another type: `int("5")`.
    pub(in crate::runtime) fn cast(
        &mut self,
        ty: TypeId,
        value: Value,
        loc: Loc,
    ) -> Result<Value, Fail> {
        if matches!(value, Value::Unknown(_)) {
            return Ok(value);
        }
        let target = self.program.types[ty.index()].clone();
        if let (Value::Reference(_), Type::Bool) = (value, &target) {
            let text = self.heap.to_text(value, self);
            return Err(runtime(
                loc,
                format!("{text} is an inmanta reference, not a boolean."),
            ));
        }
        if let Some(cast) = self.with_heap(|heap, machine| heap.cast(&target, value, machine)) {
            return Ok(cast);
        }
        let message = format!(
            "Failed to cast '{}' to {}",
            self.heap.to_text(value, self),
            self.program.type_text(ty)
        );
        Err(runtime(loc, message))
    }
}

impl Machine<'_> {
    /// Runs a call or cast whose arguments are known. False: it has to wait for more and runs
    /// again.
    pub(in crate::runtime) fn run_call(
        &mut self,
        task: TaskId,
        action: Action,
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        ready: &mut Ready,
    ) -> Result<bool, Fail> {
        let program = self.program;
        let (ExprKind::Call(id) | ExprKind::Cast(id)) = program.expr(expr).kind else {
            return Ok(true);
        };
        let call = &program.calls[id.index()];
        let mut sent = self.take_ahead(result);
        let again = task.is_some() && self.exec.call_args.contains_key(&task);
        if !again && sent.is_none() {
            self.state.read_all(ready)?;
        }
        let plugin = match call.callee {
            Callee::Cast(_) if call.wrong.is_some() => {
                let message = call.wrong.as_deref().unwrap_or_default();
                return Err(runtime(call.loc, message));
            }
            Callee::Cast(ty) => {
                let value = self.eval_plain(call.positional[0], scope, ready)?;
                let value = self.state.cast(ty, value, call.loc)?;
                self.set_plain(result, value, call.loc)?;
                return Ok(true);
            }
            Callee::Plugin(plugin) => plugin,
        };
        let known = again.then(|| self.exec.call_args.remove(&task)).flatten();
        let ahead = sent
            .as_mut()
            .map(|sent| std::mem::take(&mut sent.arguments));
        let arguments = match ahead.or(known) {
            Some(arguments) => arguments,
            None => self
                .arguments(id, plugin, scope, ready)
                .map_err(|error| error.at(call.loc))?,
        };
        if arguments.unknown && !program.plugins[plugin.index()].allow_unknown {
            let unknown = self.state.heap.new_unknown();
            self.set_plain(result, unknown, call.loc)?;
            return Ok(true);
        }
        let site = Site {
            call: Some(id),
            scope,
            plugin,
            loc: call.loc,
            way: Way::WithNext,
        };
        self.report.leave_place(call.loc);
        self.python.ahead.turn = sent;
        let outcome = self.invoke(site, &arguments.bound);
        self.python.ahead.turn = None;
        match outcome {
            Ok(value) => {
                self.set_plain(result, value, call.loc)?;
                Ok(true)
            }
            Err(PluginError::Unset(variables)) => {
                let dependencies: Dependencies = variables.into_iter().map(VarId).collect();
                self.call_again(task, action, dependencies, arguments)?;
                Ok(false)
            }
            Err(PluginError::Unknown) => {
                let unknown = self.state.heap.new_unknown();
                self.set_plain(result, unknown, call.loc)?;
                Ok(true)
            }
            Err(error) => Err(self.plugin_failure(plugin, error, call.loc, false)),
        }
    }

    /// The call is made again when what it read has values. A direct step becomes a task for that,
    /// with the number that it has as a step, so its age among those that wait is right.
    fn call_again(
        &mut self,
        task: TaskId,
        action: Action,
        dependencies: Dependencies,
        arguments: Arguments,
    ) -> Result<(), Fail> {
        if task.is_some() {
            self.exec.call_args.insert(task, arguments);
            self.wait_again(task, &dependencies);
            return Ok(());
        }
        // Its place among the others that wait is that of the step.
        let task = match action {
            Action::Call { seq, .. } => self.add_numbered(action, dependencies, seq)?,
            _ => self.add_task(action, dependencies)?,
        };
        self.exec.call_args.insert(task, arguments);
        Ok(())
    }

    /// Evaluates the arguments of a call, binds them to parameters and checks their types.
    pub(in crate::runtime) fn arguments(
        &mut self,
        id: CallId,
        plugin: PluginId,
        scope: ScopeId,
        ready: &mut Ready,
    ) -> Result<Arguments, Fail> {
        let program = self.program;
        let call = &program.calls[id.index()];
        let mut positional = Vec::with_capacity(call.positional.len());
        for value in &call.positional {
            positional.push(self.eval_plain(*value, scope, ready)?);
        }
        let mut named = Vec::with_capacity(call.named.len());
        for (name, value) in &call.named {
            named.push((
                program.text(*name).to_owned(),
                self.eval_plain(*value, scope, ready)?,
            ));
        }
        for spread in &call.spreads {
            let Value::Dict(dict) = self.eval_plain(*spread, scope, ready)? else {
                return Err(typing(
                    call.loc,
                    "The ** operator can only be applied to dictionaries",
                ));
            };
            for at in 0..self.state.heap.dict(dict).entries.len() {
                let (key, value) = self.state.heap.dict(dict).entries[at];
                let name = self.state.heap.str(key).to_owned();
                if named.iter().any(|(known, _)| *known == name) {
                    let message = format!("Keyword argument {name} repeated in function call");
                    return Err(runtime(call.loc, message));
                }
                named.push((name, value));
            }
        }
        self.check_arguments(plugin, &positional, &named, call.loc)
    }

    /// Binds evaluated arguments to parameters and checks their types. An error about an argument
    /// comes before one about those behind it, whatever kind the two are of.
    pub(in crate::runtime) fn check_arguments(
        &mut self,
        plugin: PluginId,
        positional: &[Value],
        named: &[(String, Value)],
        loc: Loc,
    ) -> Result<Arguments, Fail> {
        let program = self.program;
        let definition = &program.plugins[plugin.index()];
        let name = program.text(definition.name);
        // What comes before an argument that does not fit is checked before.
        let (bound, checks) = bind(name, definition, positional, named);
        let unknown = self.check_values(name, &checks, loc)?;
        let bound = bound.map_err(|message| {
            let known = || {
                definition
                    .parameters
                    .iter()
                    .map(|parameter| &*parameter.name)
            };
            let similar = named
                .iter()
                .filter(|(keyword, _)| known().all(|name| name != keyword))
                .find_map(|(keyword, _)| closest(keyword, known()));
            runtime(loc, message).did_you_mean(similar)
        })?;
        Ok(Arguments { bound, unknown })
    }

    /// Whether one of the arguments is Unknown; an error unless each has its type.
    fn check_values(&mut self, name: &str, checks: &[Check], loc: Loc) -> Result<bool, Fail> {
        let program = self.program;
        let mut unknown = false;
        for (parameter, ty, value) in checks {
            let (ty, value) = (*ty, *value);
            if matches!(value, Value::Unknown(_)) {
                unknown = true;
                continue;
            }
            self.validate_known(ty, value, loc).map_err(|cause| {
                if let Some(error) = self.refused_reference(ty, value, parameter, name, loc) {
                    return error;
                }
                let message = format!(
                    "Value {} for argument {parameter} of plugin {name} has incompatible type. Expected type: {}",
                    self.state.heap.repr(value, &self.state),
                    program.type_text(ty)
                );
                fail("PluginTypeException", loc, message).cause(*cause)
            })?;
        }
        Ok(unknown)
    }

    /// Runs a plugin with arguments that were checked, and checks what it returns. One that can be
    /// noticed outside is not run after a mistake, and ends a run in tiles.
    pub(in crate::runtime) fn invoke(
        &mut self,
        site: Site,
        bound: &Bound,
    ) -> Result<Value, PluginError> {
        let program = self.program;
        let plugin = &program.plugins[site.plugin.index()];
        if self.is_visible_outside(plugin) {
            if self.report.has_failed {
                let never = runtime(site.loc, "not called after a mistake").following(true);
                return Err(PluginError::Compile(never));
            }
            self.be_observed().map_err(PluginError::Compile)?;
        }
        if let Some(replaced_by) = &plugin.deprecated
            && self.report.deprecated_seen.insert(site.plugin.0)
        {
            let mut message = format!("Plugin '{}' is deprecated.", program.text(plugin.name));
            if let Some(other) = replaced_by {
                message.push_str(&format!(" It should be replaced by '{other}'."));
            }
            self.report.warnings.push(Warning {
                kind: "PluginDeprecationWarning",
                message,
                loc: site.loc,
                notes: Vec::new(),
            });
        }
        let value = match &plugin.body {
            Body::Native(native) => {
                if self.python.has_objects {
                    let given = bound.values.iter().flatten().chain(&bound.var_args);
                    for value in given.chain(bound.keywords.iter().map(|(_, value)| value)) {
                        self.learn(*value);
                    }
                }
                let mut view = crate::runtime::state::model::View {
                    machine: self,
                    site,
                };
                let value = native(&mut view, bound)?;
                // A text may become a multiple of what it was.
                if matches!(value, Value::Str(_)) {
                    self.check_limits(site.loc).map_err(PluginError::Compile)?;
                }
                value
            }
            Body::Python => self.call_python(site, bound)?,
        };
        // What a plugin sets as its result itself is not held against its annotation.
        if !plugin.emits_statements {
            self.check_returned(site, value)?;
        }
        Ok(value)
    }

    /// Checks a type. Only if that fails, Python is asked how its objects in the value are written,
    /// and the error is made again with that.
    pub(in crate::runtime) fn validate_known(
        &mut self,
        ty: TypeId,
        value: Value,
        loc: Loc,
    ) -> Result<(), Fail> {
        self.validate(ty, value, loc)
            .or_else(|error| match self.learn(value) {
                true => self.validate(ty, value, loc),
                false => Err(error),
            })
    }

    /// An error unless what a plugin returned is as its annotation says. Unknown is of every type.
    pub(in crate::runtime) fn check_returned(
        &mut self,
        site: Site,
        value: Value,
    ) -> Result<(), PluginError> {
        if matches!(value, Value::Unknown(_)) {
            return Ok(());
        }
        let program = self.program;
        let plugin = &program.plugins[site.plugin.index()];
        self.validate_known(plugin.returns, value, site.loc)
            .map_err(|cause| {
                let message = format!(
                    "Return value {} of plugin {} has incompatible type. Expected type: {}",
                    self.state.heap.to_text(value, &self.state),
                    program.text(plugin.name),
                    program.type_text(plugin.returns)
                );
                PluginError::Compile(fail("PluginTypeException", site.loc, message).cause(*cause))
            })
    }

    /// The error of the model that a plugin's failure is. `direct`: the call is one in the
    /// condition of a typedef.
    pub(in crate::runtime) fn plugin_failure(
        &self,
        plugin: PluginId,
        error: PluginError,
        loc: Loc,
        direct: bool,
    ) -> Fail {
        let name = self.program.text(self.program.plugins[plugin.index()].name);
        let place = if direct {
            format!("in direct execution for plugin {name}")
        } else {
            format!("in plugin {name}")
        };
        match error {
            PluginError::Compile(error) if error.kind == "PluginTypeException" => error.at(loc),
            PluginError::Compile(cause) if cause.kind == "PythonException" => {
                fail("ExternalException", loc, format!("Exception {place}")).cause(*cause)
            }
            PluginError::Compile(cause) => fail(
                "WrappingRuntimeException",
                loc,
                format!("Exception {place}"),
            )
            .cause(*cause),
            PluginError::External {
                type_name,
                message,
                traceback,
            } => {
                let cause = fail(
                    "PythonException",
                    Loc::NONE,
                    format!("{type_name}: {message}"),
                );
                let mut error =
                    fail("ExternalException", loc, format!("Exception {place}")).cause(*cause);
                if let Some(traceback) = traceback {
                    error = error.note(traceback, Loc::NONE);
                }
                error
            }
            PluginError::Explicit {
                type_name,
                message,
                traceback,
            } => {
                let mut error = fail(
                    "ExplicitPluginException",
                    loc,
                    format!("PluginException {place}\n{message}"),
                )
                .raised(type_name);
                if let Some(traceback) = traceback {
                    error = error.note(traceback, Loc::NONE);
                }
                error
            }
            PluginError::Unset(_) => runtime(
                loc,
                format!("plugin {name} reads a value that is not known yet"),
            ),
            PluginError::Unknown => fail(
                "DirectExecuteException",
                loc,
                "Received unknown value during direct execution",
            ),
        }
    }

    /// A call inside of a typedef's condition: it can not wait for anything.
    pub(in crate::runtime) fn call_directly(
        &mut self,
        plugin: PluginId,
        positional: Vec<Value>,
        named: Vec<(String, Value)>,
        loc: Loc,
    ) -> Result<Value, Fail> {
        if self.program.plugins[plugin.index()].context {
            let message = "Context Aware functions are not allowed in direct execution";
            return Err(runtime(loc, message));
        }
        if self.program.plugins[plugin.index()].emits_statements {
            let message = "emits_statements functions are not allowed in direct execution";
            return Err(runtime(loc, message));
        }
        let arguments = self.check_arguments(plugin, &positional, &named, loc)?;
        if arguments.unknown {
            return Err(fail(
                "DirectExecuteException",
                loc,
                "Received unknown value during direct execution",
            ));
        }
        let site = Site {
            call: None,
            scope: ScopeId::NONE,
            plugin,
            loc,
            way: Way::Alone,
        };
        self.invoke(site, &arguments.bound)
            .map_err(|error| self.plugin_failure(plugin, error, loc, true))
    }
}
