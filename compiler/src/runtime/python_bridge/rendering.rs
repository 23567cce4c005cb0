//! The fields of resources that their classes compute: the getters of many resources in one frame.
//!
//! The export goes through the instances in the order in which they were made, and asks Python for what a resource class
//! computes of its own. Each question by itself is a switch to another process and back, which takes longer than most getters
//! do. So with the resource whose turn it is, those behind it go in the same frame, each with the attributes that getters of
//! its class have read of resources before (`known_values`). Python runs the getters resource by resource, in that order, and
//! each answer is taken when it is its resource's turn, as with calls of plugins that go ahead (`ahead`).
//!
//! # Why nobody notices
//!
//! The model does not change any more, so a getter finds the same whenever it runs, and getters run in the order of the
//! resources either way. Questions, output and log lines come through the same pipe as answers and are read with the resource
//! that they belong to. The first resource that fails ends its frame in Python. What is asked of Python in between has to
//! wait for the answers of the whole frame ([`Machine::settle_rendered`]): it would find later getters run already, so
//! nothing goes ahead in a model with references or with objects of Python's, about which the export asks.
//! A mistake in between is the only difference, as with calls: the getters that went have run, and count no more.
//!
//! Where the getters of a class only compute, what they gave in an earlier compile is known (`remembered`), and those that
//! are known do not go.
//!
//! The first resource of a class goes alone: what its getters read, and would have to ask for, those behind it take along.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use rmpv::Value as Wire;
use smallvec::SmallVec;

use crate::diagnostics::{Fail, fail, runtime};
use crate::hash::Set;
use crate::hir::plugin::PluginError;
use crate::protocol::calls::Marshal;
use crate::protocol::{FromHost, Identify, OwnId, ToHost};
use crate::runtime::Machine;
use crate::runtime::python_bridge::export::python_failure;
use crate::runtime::python_bridge::known_values::CallWriter;
use crate::runtime::python_bridge::remembered::{Answer, Computation};
use crate::span::Loc;
use crate::types::{InstId, Value};

/// Resources of one frame at most, and its bytes: as with calls, more would save nothing.
const MOST_RESOURCES: usize = 64;
const MOST_BYTES: usize = 32 << 10;
/// Resources that are passed over at most for one frame, because what Python would say of them is known.
const MOST_LOOKS: usize = 4096;

/// What a resource class is asked for: the getters of these fields, for a resource.
pub struct Rendering<'f> {
    /// Of which the resource is.
    pub instance: InstId,
    /// Index into the resource classes.
    pub class: u32,
    /// What of the id is asked for.
    pub identify: Identify,
    /// The names of the fields, in the order of the class.
    pub fields: SmallVec<[&'f Arc<str>; 8]>,
    /// By what it is known what is computed (`Plan::computation`).
    pub computation: Cow<'f, str>,
}

/// What Python gave for a resource: values of fields, and its id if that was asked for.
#[derive(Default)]
pub struct RenderedFields {
    /// The values of the fields that its class computes, by name.
    pub computed: Vec<(Arc<str>, Value)>,
    /// Its id, if its class makes it.
    pub identity: Option<OwnId>,
    /// The value of the attribute that its id is made of, if that is computed.
    pub id_value: Option<Value>,
}

/// Resources whose getters were asked for before their turn.
#[derive(Default)]
pub(in crate::runtime) struct RenderedAhead {
    /// In the order of the export; Python has exactly those without an answer, and the next answer is that of the first.
    sent: VecDeque<Sent>,
    /// Classes whose getters have run.
    known_classes: Set<u32>,
}

struct Sent {
    id: u64,
    instance: InstId,
    class: u32,
    /// If something made us take it before its turn.
    answer: Option<Result<FromHost, PluginError>>,
}

impl Machine<'_> {
    /// The values of fields that Python computes, and the id if its class makes it; `None`: the instance is not exported.
    /// `next` gives what is going to be asked for then, one after the other.
    pub fn render<'f>(
        &mut self,
        asked: &Rendering<'f>,
        next: &mut dyn FnMut(&Machine) -> Option<Rendering<'f>>,
    ) -> Result<Option<RenderedFields>, Fail> {
        let is_turn =
            |sent: &mut Sent| sent.instance == asked.instance && sent.class == asked.class;
        let answer = match self.python.rendered_ahead.sent.pop_front_if(is_turn) {
            Some(Sent {
                answer: Some(answer),
                ..
            }) => answer,
            Some(sent) => self.answer_to_rendering(sent.id, sent.class),
            None => match self.remembered_fields(asked) {
                Some(values) => return Ok(values.map(|values| fields_of(asked, values))),
                None => self.answer_of_frame(asked, next),
            },
        };
        self.python.rendering = None;
        let loc = self.state.instance(asked.instance).loc;
        match answer {
            Ok(FromHost::FieldsRendered {
                values,
                identity,
                id_value,
                reads,
                ..
            }) => {
                if let Some(reads) = &reads {
                    let kept = values.iter().chain(&id_value).cloned().collect();
                    self.remember(
                        Computation::Fields(asked),
                        Answer::of(&Wire::Array(kept), reads),
                        &[],
                    );
                }
                let values = values.iter().take(asked.fields.len()).chain(&id_value);
                let values = values.map(|value| self.value_of(value, 0));
                let values = values.collect::<Result<_, _>>();
                let fields = fields_of(asked, values.map_err(|error: Fail| error.at(loc))?);
                Ok(Some(RenderedFields { identity, ..fields }))
            }
            Ok(FromHost::Ignored { reads, .. }) => {
                if let Some(reads) = &reads {
                    self.remember(
                        Computation::Fields(asked),
                        Answer::of(&Wire::Nil, reads),
                        &[],
                    );
                }
                Ok(None)
            }
            Ok(FromHost::Result { .. }) => Ok(None),
            Ok(answer) => Err(self.render_failure(asked, answer)),
            Err(error) => Err(self.export_failure(error, "", asked.instance)),
        }
    }

    /// The answer to a rendering by a frame that goes now.
    fn answer_of_frame<'f>(
        &mut self,
        asked: &Rendering<'f>,
        next: &mut dyn FnMut(&Machine) -> Option<Rendering<'f>>,
    ) -> Result<FromHost, PluginError> {
        self.settle_ahead();
        self.with_host(|host, questions| host.wake(questions))?;
        let host = self.python.host.as_ref();
        if !host.is_some_and(|host| host.reads_calls()) {
            return self.ask_rendering(asked);
        }
        let mut frame = Marshal::default();
        let id = self.write_rendering(asked, &mut frame);
        let is_known = !self.python.rendered_ahead.known_classes.insert(asked.class);
        let mut n_resources = 1;
        let mut n_looks = 0;
        while is_known
            && self.may_render_ahead()
            && n_resources < MOST_RESOURCES
            && frame.len() < MOST_BYTES
            && let Some(asked) = next(self)
            && self
                .python
                .rendered_ahead
                .known_classes
                .contains(&asked.class)
        {
            n_looks += 1;
            if n_looks < MOST_LOOKS && self.is_remembered(Computation::Fields(&asked)) {
                continue;
            }
            let id = self.write_rendering(&asked, &mut frame);
            self.python.rendered_ahead.sent.push_back(Sent {
                id,
                instance: asked.instance,
                class: asked.class,
                answer: None,
            });
            n_resources += 1;
        }
        let frame = Marshal::frame(&frame, n_resources);
        self.with_host(|host, _| host.send_calls(&frame))?;
        self.answer_to_rendering(id, asked.class)
    }

    /// Whether nobody would notice that getters run before their turn.
    fn may_render_ahead(&self) -> bool {
        self.options.python.attached().is_none()
            && !self.python.has_objects
            && self.python.texts.is_empty()
            && !self.state.heap.has_references()
    }

    /// Appends what is asked for to a frame; its number.
    fn write_rendering(&mut self, asked: &Rendering, out: &mut Marshal) -> u64 {
        let id = self.python.next_request();
        self.python.rendering = Some(asked.class);
        out.tuple(5);
        out.int(id.cast_signed());
        out.int(asked.class.into());
        self.write_rendered(asked.instance, out);
        out.name(asked.identify.name());
        out.tuple(asked.fields.len());
        for field in &asked.fields {
            out.name(field);
        }
        id
    }

    /// An instance whose resource is exported, with what the getters of its class are going to read.
    fn write_rendered(&mut self, instance: InstId, out: &mut Marshal) {
        if let Some(reader) = self.python.reader() {
            self.write_argument(Value::Instance(instance), &mut CallWriter::to(reader, out));
        }
    }

    /// The same for a host that reads MessagePack only.
    fn ask_rendering(&mut self, asked: &Rendering) -> Result<FromHost, PluginError> {
        let id = self.python.next_request();
        self.python.rendering = Some(asked.class);
        self.ask(ToHost::RenderFields {
            id,
            class: asked.class,
            instance: self.to_wire(Value::Instance(asked.instance)),
            identify: asked.identify,
            fields: asked.fields.iter().map(|name| name.to_string()).collect(),
        })
    }

    /// The next answer, which is that to this rendering.
    fn answer_to_rendering(&mut self, id: u64, class: u32) -> Result<FromHost, PluginError> {
        self.python.rendering = Some(class);
        let answer = self.with_host(|host, callbacks| host.answer(callbacks));
        let goes_on = matches!(
            &answer,
            Ok(FromHost::FieldsRendered { id: of, .. }
                | FromHost::Result { id: of, .. }
                | FromHost::Ignored { id: of, .. }) if *of == id
        );
        if !goes_on {
            // Python has ended the frame here, and so does the export.
            let sent = &mut self.python.rendered_ahead.sent;
            sent.retain(|sent| sent.answer.is_some());
        }
        answer
    }

    /// Before anything else is asked: the resources that went ahead have their answers.
    pub(in crate::runtime) fn settle_rendered(&mut self) {
        if self.python.host.is_none() {
            return;
        }
        let rendering = self.python.rendering;
        let mut at = 0;
        while let Some(sent) = self.python.rendered_ahead.sent.get(at) {
            if sent.answer.is_none() {
                let (id, class) = (sent.id, sent.class);
                let answer = self.answer_to_rendering(id, class);
                if let Some(sent) = self.python.rendered_ahead.sent.get_mut(at) {
                    sent.answer = Some(answer);
                }
            }
            at += 1;
        }
        self.python.rendering = rendering;
    }

    /// After a mistake of the export: the getters that went ahead run, and count no more.
    pub fn abandon_rendered(&mut self) {
        self.python.ahead.is_abandoned = true;
        self.settle_rendered();
        self.python.rendered_ahead.sent.clear();
        self.python.ahead.is_abandoned = false;
    }

    /// The error of an answer that has no fields.
    fn render_failure(&mut self, asked: &Rendering, answer: FromHost) -> Fail {
        let field = match &answer {
            FromHost::Failed {
                field: Some(field), ..
            } => field.clone(),
            FromHost::Failed { .. } if asked.identify == Identify::Whole => {
                let instance = self.state.instance(asked.instance);
                let (loc, entity) = (instance.loc, self.program.entity_name(instance.entity));
                let what = format!("Failed to make the resource id of a {entity}");
                let error = self.refusal(answer);
                return python_failure(error, &what).at(loc);
            }
            _ => asked.fields.first().map_or("", |name| &**name).to_owned(),
        };
        let error = self.refusal(answer);
        self.export_failure(error, &field, asked.instance)
    }

    /// The error of the export when the computation of a field or id fails.
    fn export_failure(&self, error: PluginError, field: &str, instance: InstId) -> Fail {
        let instance = self.state.instance(instance);
        let (loc, entity) = (instance.loc, self.program.entity_name(instance.entity));
        let message = format!("Failed to get attribute '{field}' for export on '{entity}'");
        match error {
            PluginError::Compile(error) => error.at(loc),
            PluginError::External {
                type_name,
                message: text,
                traceback,
            } => {
                let cause = fail("PythonException", Loc::NONE, format!("{type_name}: {text}"));
                let error = fail("ExternalException", loc, message).cause(*cause);
                match traceback {
                    Some(traceback) => error.note(traceback, Loc::NONE),
                    None => error,
                }
            }
            PluginError::Explicit {
                type_name,
                message: text,
                traceback,
            } => {
                let error = fail("ExplicitPluginException", loc, format!("{message}\n{text}"))
                    .raised(type_name);
                match traceback {
                    Some(traceback) => error.note(traceback, Loc::NONE),
                    None => error,
                }
            }
            PluginError::Unset(_) => fail(
                "UnsetException",
                loc,
                format!("{message}: a value is not set"),
            ),
            PluginError::Unknown => runtime(loc, format!("{message}: a value is Unknown")),
        }
    }
}

/// What Python gave for a resource: the values of its fields, and behind them that of its id attribute, if it was asked for.
fn fields_of(asked: &Rendering, values: Vec<Value>) -> RenderedFields {
    let id_value = values.get(asked.fields.len()).copied();
    let names = asked.fields.iter().map(|&name| Arc::clone(name));
    RenderedFields {
        computed: names.zip(values).collect(),
        identity: None,
        id_value,
    }
}
