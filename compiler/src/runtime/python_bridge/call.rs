//! Calls of plugins on their way to Python: frames with the call whose turn it is, and those that
//! go ahead with it.
//!
//! A host whose Python has the format of `marshal` as we know it gets calls in that format, which
//! it reads in one go (`protocol/calls.rs`); any other gets MessagePack, one call a frame.

use rmpv::Value as Wire;

use crate::hir::plugin::{Bound, PluginError};
use crate::intern::Symbol;
use crate::protocol::calls::Marshal;
use crate::protocol::{FromHost, ParameterKind, ToHost};
use crate::runtime::exec::calls::{Site, Way};
use crate::runtime::python_bridge::known_values::CallWriter;
use crate::runtime::python_bridge::remembered::{Answer, Computation};
use crate::runtime::{Machine, VarId};
use crate::types::Value;

/// When a call is made that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::runtime) enum When {
    /// In its turn, which is now, before anything else happens.
    Now,
    /// In its turn, which comes later: the model may change before.
    Later,
    /// Before its turn, with what open relations hold now (`guesses`).
    Guessed,
    /// In its turn, but it sets something itself, and may read it then.
    Setting,
}

impl Machine<'_> {
    /// Runs a plugin in Python: takes the answer of a call that went ahead, or sends it and waits.
    pub(in crate::runtime) fn call_python(
        &mut self,
        site: Site,
        bound: &Bound,
    ) -> Result<Value, PluginError> {
        let plugin = &self.program.plugins[site.plugin.index()];
        let sent = self.python.ahead.turn.take();
        if sent.is_none() {
            self.be_observed().map_err(PluginError::Compile)?;
            if let Some(known) = self.remembered(site, bound) {
                return known;
            }
            self.settle_ahead();
        }
        self.python.loc = site.loc;
        self.python.site = Some(site);
        let answer = match sent {
            Some(sent) => self.answer_in_turn(sent)?,
            None => self.send_call(site, bound)?,
        };
        match answer {
            // What it returned, and what it set.
            FromHost::Result {
                value: Wire::Array(answers),
                ..
            } if plugin.emits_statements && answers.len() == 2 => {
                let returned = self
                    .value_of(&answers[0], 0)
                    .map_err(PluginError::Compile)?;
                self.check_returned(site, returned)?;
                self.value_of(&answers[1], 0).map_err(PluginError::Compile)
            }
            FromHost::Result { value, .. } => {
                self.value_of(&value, 0).map_err(PluginError::Compile)
            }
            FromHost::Computed {
                value,
                reads,
                logged,
                ..
            } => {
                self.say(&logged);
                let found = Answer {
                    value: &value,
                    reads: &reads,
                    logged: &logged,
                };
                self.remember(Computation::Call(site, bound), found, &[]);
                self.value_of(&value, 0).map_err(PluginError::Compile)
            }
            other => Err(self.refusal(other)),
        }
    }

    /// Sends a call, with those behind it that may go along, and waits for its answer.
    fn send_call(&mut self, site: Site, bound: &Bound) -> Result<FromHost, PluginError> {
        self.with_host(|host, questions| host.wake(questions))?;
        if !self
            .python
            .host
            .as_ref()
            .is_some_and(|host| host.reads_calls())
        {
            return self.ask_call(site, bound);
        }
        let mut calls = Marshal::default();
        let (id, _) = self.write_call(site, bound, When::Now, &mut calls);
        let mut guesses = Vec::new();
        let mut n_others = 0;
        if site.way == Way::WithNext && self.may_take_others(site.plugin) {
            n_others = self.gather(&mut calls);
            if n_others == 0 {
                guesses = self.guess(site.plugin, &mut calls);
            }
        } else if site.call.is_none() && self.options.python.attached().is_none() {
            guesses = self.guess_conditions(site.plugin, &mut calls);
        }
        let frame = Marshal::frame(&calls, 1 + n_others + guesses.len());
        self.with_host(|host, _| host.send_calls(&frame))?;
        let answer = self.answer_to(id);
        let goes_on = matches!(
            answer,
            Ok(FromHost::Computed { .. }
                | FromHost::Unset { .. }
                | FromHost::Result { is_last: false, .. })
        );
        if goes_on {
            self.take_guesses(guesses);
        }
        answer
    }

    /// Appends a call to a frame; its number, and the open relations that it names: in a guess with what they hold now.
    pub(super) fn write_call(
        &mut self,
        site: Site,
        bound: &Bound,
        when: When,
        out: &mut Marshal,
    ) -> (u64, Vec<(VarId, Option<Value>)>) {
        let program = self.program;
        let plugin = &program.plugins[site.plugin.index()];
        let id = self.python.next_request();
        out.tuple(8);
        out.int(id.cast_signed());
        out.name(program.text(plugin.name));
        let plain = plugin
            .parameters
            .iter()
            .filter(|p| p.kind == ParameterKind::Positional);
        let given = plain.zip(&bound.values).enumerate();
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for (at, (parameter, value)) in given {
            match value {
                Some(value) if at < bound.n_positional => positional.push(*value),
                Some(value) => named.push((&*parameter.name, *value)),
                None => {}
            }
        }
        positional.extend(&bound.var_args);
        let keywords = bound.keywords.iter();
        named.extend(keywords.map(|(name, value)| (&**name, *value)));
        let mut call = CallWriter::to(site.plugin, out);
        call.when = match plugin.emits_statements {
            true => When::Setting,
            false => when,
        };
        call.out.list(positional.len());
        for value in positional {
            self.write_argument(value, &mut call);
        }
        call.out.list(named.len());
        for (name, value) in named {
            call.out.tuple(2);
            call.out.text(name);
            self.write_argument(value, &mut call);
        }
        let location = program.sources.location(site.loc);
        call.out.name(location.as_ref().map_or("", |at| &at.file));
        call.out
            .int(location.as_ref().map_or(0, |at| at.line.into()));
        call.out.name(program.text(self.calling_namespace(site)));
        (id, self.write_open(call))
    }

    /// Writes the open relations of a call: none, or a dict whose values are the number of an instance, the name of a
    /// relation, and, in a guess, its value. The values may lead to more of them.
    fn write_open(&mut self, mut call: CallWriter) -> Vec<(VarId, Option<Value>)> {
        if call.open.is_empty() {
            call.out.none();
            return Vec::new();
        }
        let program = self.program;
        let mut written = Vec::new();
        call.out.dict();
        while let Some((id, at)) = call.open.get(written.len()).copied() {
            let slot = VarId(self.state.instance(id).slots.0 + at);
            let value = match call.when == When::Guessed {
                true => self.as_it_is(slot),
                false => None,
            };
            call.out.int(written.len() as i64);
            call.out.tuple(if value.is_some() { 3 } else { 2 });
            call.out.int(self.state.number_of(id).into());
            let entity = self.state.instance(id).entity;
            let attribute = program.entity(entity).slots[at as usize];
            call.out
                .name(program.text(program.attribute(attribute).name));
            if let Some(value) = value {
                self.write_argument(value, &mut call);
            }
            written.push((slot, value));
        }
        call.out.end_dict();
        written
    }

    /// The namespace of the calling statement, or of the plugin itself if there is none.
    fn calling_namespace(&self, site: Site) -> Symbol {
        let program = self.program;
        let namespace = match site.call {
            Some(call) => program.calls[call.index()].namespace,
            None => program.plugins[site.plugin.index()].namespace,
        };
        program.namespaces[namespace.index()].name
    }

    /// A call for a host that reads MessagePack only.
    fn ask_call(&mut self, site: Site, bound: &Bound) -> Result<FromHost, PluginError> {
        let program = self.program;
        let plugin = &program.plugins[site.plugin.index()];
        let mut args = Vec::new();
        let mut kwargs: Vec<(String, Wire)> = Vec::new();
        let plain = plugin
            .parameters
            .iter()
            .filter(|p| p.kind == ParameterKind::Positional);
        for (at, (parameter, value)) in plain.zip(&bound.values).enumerate() {
            match value {
                Some(value) if at < bound.n_positional => args.push(self.to_wire(*value)),
                Some(value) => kwargs.push((parameter.name.clone(), self.to_wire(*value))),
                None => {}
            }
        }
        args.extend(bound.var_args.iter().map(|value| self.to_wire(*value)));
        let keywords = bound.keywords.iter();
        kwargs.extend(keywords.map(|(name, value)| (name.clone(), self.to_wire(*value))));
        let location = program.sources.location(site.loc);
        let id = self.python.next_request();
        self.ask(ToHost::Call {
            id,
            plugin: program.text(plugin.name).to_owned(),
            args,
            kwargs,
            file: location
                .as_ref()
                .map(|at| at.file.clone())
                .unwrap_or_default(),
            line: location.map(|at| at.line).unwrap_or(0),
            namespace: program.text(self.calling_namespace(site)).to_owned(),
        })
    }
}
