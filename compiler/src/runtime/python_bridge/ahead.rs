//! Calls of plugins that go to Python ahead of their turn, many in one frame.
//!
//! # What for
//!
//! A call is a frame to the Python process and one back, and each time one process has to wake the
//! other. That takes longer than most plugins do. So when a call goes, those behind it in the queue
//! of steps go with it, as far as their arguments have their values; Python runs them one after the
//! other, and each answer is taken when its step is due. In between, the steps between the calls
//! run here.
//!
//! ```text
//! queue   call f(1) · x = 2 · call f(3) · y = std::count(l) · call g(z) · …        z has no value yet
//! frame   f(1), f(3)              one wake-up instead of two; g(z) goes with a later frame
//! here    take f(1) → x = 2 → take f(3) → y = … → send g(z)
//! ```
//!
//! # Why nobody notices
//!
//! The order of calls is that of the queue either way. A step that becomes ready meanwhile comes
//! behind all that are in the queue already, so no call can come between those that went. What else
//! could be noticed of the change:
//!
//! - *Arguments.* Variables are assigned once, so what an argument is does not depend on when it is
//!   computed. Only constructors do more than compute: a call with one in its arguments does not go
//!   ahead, nor does any behind it.
//! - *What a plugin reads.* Its host callbacks are answered when its step is due, in the state of
//!   the model that it would have found; until then Python waits. Values that travel along had
//!   their values before (see `known_values`), or are those that a step in front of the call is
//!   going to store (see `coming_values`), which is looked at when the call is due.
//! - *Answers, output, log lines.* They come through one pipe, in order, and are read call by call,
//!   when a step is due. Answers are sent together, but each can be seen as soon as it is there
//!   (`python_host/held_answers.rs`): of a host that dies or is stopped at its limit, all answers up
//!   to the call that it was in are known, and the error is that of this call.
//! - *An exception.* The first call that fails ends its frame in Python, so those behind it are not
//!   called.
//! - *Other code that runs in between* and asks Python, prints, or looks at files: a step that may
//!   do so ends what goes ahead ([`Look::Stop`]). Should one ask nevertheless, the calls that went
//!   have their answers first ([`Machine::settle_ahead`]).
//! - *Results that only Python can write as a text.* Steps that make a text of one ask for it. So a
//!   result with one ends its frame, as an exception does, and nothing goes behind a plugin that
//!   has returned such a thing before. References of which all is known here are none of them.
//! - *A mistake of the model* at a step in between: the calls that went run, but their answers,
//!   output and log lines count no more. This is the one difference: the reference would not have
//!   called them. It is why nothing goes ahead when a test of a module runs the compile, since such
//!   a test may look at what the plugins did.
//!
//! # Invariant
//!
//! `Ahead::sent` holds, in the order of the queue, exactly the calls that Python has and whose turn
//! has not come; the next answer in the pipe is that of the first one without an answer.

use std::collections::VecDeque;

use crate::hash::Set;
use crate::hir::plugin::{Body, PluginError};
use crate::hir::{Callee, ExprId, ExprKind, FormatPart, PluginId};
use crate::protocol::FromHost;
use crate::protocol::calls::Marshal;
use crate::runtime::exec::calls::{Arguments, Site, Way};
use crate::runtime::exec::eval::Ready;
use crate::runtime::python_bridge::call::When;
use crate::runtime::python_bridge::remembered::Computation;
use crate::runtime::{Action, Machine, PythonBridge, Step, VarId};
use crate::types::Value;

/// Calls of one frame at most. More save nothing, and would keep answers waiting in the pipe.
const MOST_CALLS: usize = 64;
/// Bytes of one frame, for the same reason: a pipe holds so many.
const MOST_BYTES: usize = 32 << 10;
/// Steps that are looked at for one frame.
const MOST_STEPS: usize = 1024;
/// Steps that are taken from the queue at a time for that: a frame is full after some hundred.
const STEPS_AT_ONCE: usize = 128;

/// Native plugins that compute and do nothing else: calls may go past them. Sorted.
const COMPUTING: &[&str] = &[
    "std::any",
    "std::at",
    "std::capitalize",
    "std::contains",
    "std::count",
    "std::dict_get",
    "std::dict_keys",
    "std::equals",
    "std::filter",
    "std::flatten",
    "std::format",
    "std::inlineif",
    "std::invert",
    "std::ipindex",
    "std::item",
    "std::key_sort",
    "std::len",
    "std::length",
    "std::limit",
    "std::lower",
    "std::netmask",
    "std::network_address",
    "std::prefixlen",
    "std::replace",
    "std::select",
    "std::sequence",
    "std::split",
    "std::unique",
    "std::upper",
];

/// Calls that went ahead and whose turn has not come.
#[derive(Default)]
pub(in crate::runtime) struct Ahead {
    /// In the order of the queue of steps.
    sent: VecDeque<Sent>,
    /// The call whose turn it is, while it runs.
    pub turn: Option<Sent>,
    /// Answers count no more, nor does what comes with them.
    pub is_abandoned: bool,
    /// The plugins that conditions of types call and that are noticed outside.
    of_types: Option<Vec<PluginId>>,
    /// Plugins that have returned what only Python knows.
    giving_objects: Set<PluginId>,
}

/// One call that went ahead.
pub(in crate::runtime) struct Sent {
    /// Its number, which its answer has too.
    pub id: u64,
    /// The call in the model.
    pub site: Site,
    /// What it was called with.
    pub arguments: Arguments,
    /// The variable that gets its result. Nothing else sets it, so it says which call a step is.
    result: VarId,
    /// If something made us take it before its turn.
    answer: Option<Result<FromHost, PluginError>>,
    /// What Python was told of slots that had no value when the call went.
    pub assumed: Vec<(VarId, Value)>,
    /// Relations of which Python was told that they are open.
    open: Vec<VarId>,
}

/// What a step in the queue means for the calls behind it.
enum Look {
    /// It means nothing to them.
    Pass,
    /// They have to wait for it.
    Stop,
    /// It is a call that may go.
    Call(Site, Arguments, VarId),
}

impl PythonBridge {
    /// The call that sets a variable, if it went ahead.
    pub(super) fn went_ahead(&mut self, result: VarId) -> Option<Sent> {
        match self.ahead.sent.front() {
            Some(front) if front.result == result => self.ahead.sent.pop_front(),
            _ => None,
        }
    }

    /// The calls behind this one were not made: it has returned what only Python knows.
    fn forget_behind(&mut self, id: u64) {
        self.ahead.sent.retain(|sent| sent.id <= id);
        self.ahead
            .giving_objects
            .extend(self.site.map(|site| site.plugin));
    }

    /// The calls behind one that failed are not made: the model has failed, too.
    fn forget_unanswered(&mut self) {
        self.ahead.sent.retain(|sent| sent.answer.is_some());
    }
}

impl Machine<'_> {
    /// Whether other calls may go with one that goes now.
    pub(in crate::runtime) fn may_take_others(&mut self, first: PluginId) -> bool {
        let is_watched = self.options.python.attached().is_some();
        !is_watched
            && !self.observes_types()
            && !self.python.has_objects
            && !self.gives_objects(first)
            && self.python.ahead.sent.is_empty()
    }

    /// Writes the calls that may go with one that goes now, behind it in the same frame; how many
    /// they are.
    pub(in crate::runtime) fn gather(&mut self, out: &mut Marshal) -> usize {
        let n_calls = self.gather_upcoming(out);
        self.python.coming_values.forget();
        n_calls
    }

    fn gather_upcoming(&mut self, out: &mut Marshal) -> usize {
        let mut n_calls = 0;
        for from in (0..MOST_STEPS).step_by(STEPS_AT_ONCE) {
            let steps = self.scheduler.ready.upcoming(from, STEPS_AT_ONCE);
            for step in &steps {
                match self.look(step) {
                    Look::Pass => self.pass(step),
                    Look::Stop => return n_calls,
                    Look::Call(site, arguments, result) => {
                        self.write_ahead(site, arguments, result, out);
                        n_calls += 1;
                        let is_full = n_calls == MOST_CALLS || out.len() > MOST_BYTES;
                        if is_full || self.gives_objects(site.plugin) {
                            return n_calls;
                        }
                    }
                }
            }
            if steps.len() < STEPS_AT_ONCE {
                break;
            }
        }
        n_calls
    }

    /// Writes a call that goes ahead.
    fn write_ahead(&mut self, site: Site, arguments: Arguments, result: VarId, out: &mut Marshal) {
        let (id, open) = self.write_call(site, &arguments.bound, When::Later, out);
        let assumed = self.python.coming_values.take_assumed();
        self.python.ahead.sent.push_back(Sent {
            id,
            site,
            arguments,
            result,
            answer: None,
            assumed,
            open: open.into_iter().map(|(slot, _)| slot).collect(),
        });
    }

    /// Whether it is to be expected that a plugin returns what only Python knows.
    fn gives_objects(&self, plugin: PluginId) -> bool {
        self.python.ahead.giving_objects.contains(&plugin)
    }

    /// What a step in the queue means for the calls behind it. For a call that may go, its
    /// arguments are evaluated here.
    fn look(&mut self, step: &Step) -> Look {
        let (action, task) = match step {
            Step::Task(task) => (self.scheduler.task(*task).action, Some(*task)),
            Step::Direct {
                requeue_count: 0,
                action,
            } => (*action, None),
            Step::Direct { .. } | Step::Constants { .. } | Step::Implement { .. } => {
                return Look::Pass;
            }
        };
        let Action::Call {
            expr,
            scope,
            result,
            ..
        } = action
        else {
            return Look::Pass;
        };
        let program = self.program;
        let (ExprKind::Call(id) | ExprKind::Cast(id)) = program.expr(expr).kind else {
            return Look::Pass;
        };
        let call = &program.calls[id.index()];
        let Callee::Plugin(plugin) = call.callee else {
            return Look::Pass;
        };
        let definition = &program.plugins[plugin.index()];
        if matches!(definition.body, Body::Native(_)) {
            let name = program.text(definition.name);
            return match COMPUTING.binary_search(&name) {
                Ok(_) => Look::Pass,
                Err(_) => Look::Stop,
            };
        }
        let values = call.positional.iter().chain(&call.spreads);
        let named = call.named.iter().map(|(_, value)| value);
        let only_computes = values.chain(named).all(|value| self.only_computes(*value));
        if !only_computes || definition.emits_statements {
            return Look::Stop;
        }
        let site = Site {
            call: Some(id),
            scope,
            plugin,
            loc: call.loc,
            way: Way::WithNext,
        };
        let again = task.and_then(|task| self.exec.arguments_of(task));
        let dependencies = task.map(|task| self.scheduler.task(task).dependencies.clone());
        let found = match (again, &dependencies) {
            (Some(arguments), _) => Some(arguments),
            (None, Some(dependencies)) => self.arguments_ahead(site, &mut Ready::new(dependencies)),
            (None, None) => self.arguments_ahead(site, &mut Ready::direct()),
        };
        match found {
            Some(known) if known.unknown && !definition.allow_unknown => Look::Pass,
            // One that waits would only keep Python waiting for its turn. Should Python be asked after all, nobody notices
            // that it is asked later: a plugin of which so much is known only computes.
            Some(known) if self.needs_no_call(Computation::Call(site, &known.bound)) => Look::Pass,
            Some(arguments) => Look::Call(site, arguments, result),
            // What is wrong with it is said in its turn.
            None => Look::Stop,
        }
    }

    /// The arguments of a call before its turn; `None`: there is something wrong with them.
    fn arguments_ahead(&mut self, site: Site, ready: &mut Ready) -> Option<Arguments> {
        self.state.read_all(ready).ok()?;
        self.arguments(site.call?, site.plugin, site.scope, ready)
            .ok()
    }

    /// Whether computing it changes nothing.
    pub(super) fn only_computes(&self, expr: ExprId) -> bool {
        match &self.program.expr(expr).kind {
            ExprKind::Construct(_) => false,
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                self.only_computes(*left) && self.only_computes(*right)
            }
            ExprKind::Not(operand) => self.only_computes(*operand),
            ExprKind::List(items) => items.iter().all(|item| self.only_computes(*item)),
            ExprKind::Dict(entries) => {
                let mut values = entries.iter().map(|(_, value)| value);
                values.all(|value| self.only_computes(*value))
            }
            ExprKind::Format(parts) => parts.iter().all(|part| match part {
                FormatPart::Text(_) => true,
                FormatPart::Value(value) => self.only_computes(*value),
                // A specification is made of more of them.
                FormatPart::Field { .. } => false,
            }),
            // A variable, or what a step of its own has put into one.
            ExprKind::Const(_)
            | ExprKind::Var(_)
            | ExprKind::Attr(..)
            | ExprKind::And(..)
            | ExprKind::Or(..)
            | ExprKind::Ternary(..)
            | ExprKind::Defined(_)
            | ExprKind::Regex(_)
            | ExprKind::Call(_)
            | ExprKind::Cast(_)
            | ExprKind::Query(_)
            | ExprKind::Comprehension(_) => true,
        }
    }

    /// The call that sets a variable, if it went ahead. If Python was told something else than
    /// what has come meanwhile, its answer counts no more, and it has to be made again.
    pub(in crate::runtime) fn take_ahead(&mut self, result: VarId) -> Option<Sent> {
        let sent = self.python.went_ahead(result)?;
        let mut assumed = sent.assumed.iter();
        let mut open = sent.open.iter();
        if assumed.all(|(slot, value)| self.has_come(*slot, *value))
            && open.all(|slot| !self.state.is_ready(*slot))
        {
            return Some(sent);
        }
        for (slot, _) in &sent.assumed {
            self.forget_known(*slot);
        }
        // Answers come in order: this one is taken, and those behind it wait for their turn.
        self.python.ahead.sent.push_front(sent);
        self.settle_ahead();
        self.python.ahead.sent.pop_front();
        None
    }

    /// Before anything else is asked: the calls that went ahead have their answers.
    pub(in crate::runtime) fn settle_ahead(&mut self) {
        if self.python.host.is_none() {
            // A call asks something of us that we can not ask ourselves: it fails, and the others go on.
            return;
        }
        self.settle_rendered();
        let site = self.python.site;
        let loc = self.python.loc;
        let mut at = 0;
        while let Some(sent) = self.python.ahead.sent.get(at) {
            if sent.answer.is_none() {
                let (id, site) = (sent.id, sent.site);
                self.python.site = Some(site);
                self.python.loc = site.loc;
                let answer = self.answer_to(id);
                if let Some(sent) = self.python.ahead.sent.get_mut(at) {
                    sent.answer = Some(answer);
                }
            }
            at += 1;
        }
        (self.python.site, self.python.loc) = (site, loc);
    }

    /// The answer to a call that went ahead, in its turn.
    pub(in crate::runtime) fn answer_in_turn(
        &mut self,
        sent: Sent,
    ) -> Result<FromHost, PluginError> {
        match sent.answer {
            Some(answer) => answer,
            None => self.answer_to(sent.id),
        }
    }

    /// The next answer, which is the one to this call.
    pub(in crate::runtime) fn answer_to(&mut self, id: u64) -> Result<FromHost, PluginError> {
        let answer = self.with_host(|host, callbacks| host.answer(callbacks));
        match &answer {
            Ok(FromHost::Failed { .. }) | Err(_) => self.python.forget_unanswered(),
            Ok(FromHost::Result {
                id: of,
                is_last: true,
                ..
            }) if *of == id => self.python.forget_behind(id),
            Ok(
                FromHost::Result { id: of, .. }
                | FromHost::Computed { id: of, .. }
                | FromHost::Unset { id: of, .. },
            ) if *of != id => {
                let message = format!("the Python host answered call {of} instead of {id}");
                return crate::hir::plugin::external("RuntimeError", message);
            }
            Ok(_) => {}
        }
        answer
    }

    /// After a mistake: Python comes to the end of what it was given, which counts no more.
    pub(in crate::runtime) fn abandon_ahead(&mut self) {
        self.python.ahead.is_abandoned = true;
        self.settle_ahead();
        self.python.ahead.sent.clear();
        self.python.ahead.is_abandoned = false;
    }

    /// Some condition of a type calls what is noticed outside: any value that is stored may do so. Nobody notices Python code
    /// that only computes.
    fn observes_types(&mut self) -> bool {
        if self.python.ahead.of_types.is_none() {
            self.python.ahead.of_types = Some(self.observed_in_types());
        }
        let plugins = self.python.ahead.of_types.iter().flatten();
        plugins
            .into_iter()
            .any(|plugin| !self.only_answers(*plugin))
    }
}
