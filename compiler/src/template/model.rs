//! What a template may ask of the running model.
//!
//! The template engine owns the values that it shows, so the machine lends its arenas to one shared [`TemplateModel`]
//! for the time of a rendering. Reading is immediate. Everything else that a template may cause (a plugin that is
//! called as a filter, the text of a template that is included, a variable that has no value yet) needs the machine
//! itself, which is not there in the middle of a rendering. Such a need is a [`TemplateRequest`], which is served in one
//! of two ways:
//!
//! - It is left behind, the rendering is abandoned, the machine serves the request and renders from the start again, now
//!   with the answer at hand. A rendering without side effects may be repeated as often as that takes, and most templates
//!   need that once, or never.
//! - A template that calls many plugins would be rendered once for each of them. So it is rendered by a thread of its own,
//!   which sends its requests through a [`RequestChannel`] and waits for the machine, as a coroutine does.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Error;

use crate::hir::{PluginId, Program};
use crate::template::engine::aborted;
use crate::types::text::Instances;
use crate::types::{DictId, Heap, InstId, Value};

/// Why a rendering was abandoned, and what would let it go on.
pub(crate) enum TemplateRequest {
    /// A variable has no value yet; its number is the runtime's.
    Unset(u32),
    /// A value is unknown in this compile, so the text of the template is unknown, too.
    Unknown,
    /// A plugin is used as a filter.
    Call {
        plugin: PluginId,
        args: Vec<Value>,
        /// The name of a keyword argument, which filters that are plugins do not take.
        keyword: Option<String>,
    },
    /// The text of the template of this name is wanted.
    Source(String),
    /// An optional relation without a value was read below an argument, where that is an error; its number is the runtime's.
    Optional(u32),
    /// A reference, which has no text, and where the template found it.
    Reference(ReferencePlace, Value),
}

/// Where a template found a reference, for the error.
pub(crate) enum ReferencePlace {
    /// The place is not known yet.
    Unplaced,
    /// Under this top-level name.
    Name(String),
    /// Below one: `v.parts[0]['a']`.
    Path(String),
}

/// What reading a name or an attribute gives.
pub(crate) enum Lookup {
    Value(Value),
    /// An optional without a value, or an attribute that the entity does not have.
    Nothing,
    /// An attribute that the entity does not have, below an argument: no other kind of undefined than a name that there is not.
    Undefined,
    /// The rendering cannot go on: a [`TemplateRequest`] says why.
    Aborted,
}

/// The running model as a template sees it.
pub(crate) trait TemplateModel: Instances + Send {
    fn program(&self) -> &Arc<Program>;

    fn heap(&self) -> &Heap;

    fn heap_mut(&mut self) -> &mut Heap;

    /// Whether the template was called with arguments of its own, and so sees these alone.
    fn has_arguments(&self) -> bool;

    /// The value of a name at the top level of the template; `None`: there is no such name.
    fn name(&mut self, name: &str) -> Option<Lookup>;

    fn attribute(&mut self, instance: InstId, name: &str) -> Lookup;

    /// Leaves the reason behind for which the rendering is abandoned.
    fn request(&mut self, request: TemplateRequest);

    /// The reason that was left behind last, if the rendering was abandoned.
    fn pending_request(&mut self) -> &mut Option<TemplateRequest>;

    /// What a plugin answered to the next [`TemplateRequest::Call`] of this rendering, if it was asked already. A rendering
    /// that begins again makes the same calls in the same order.
    fn next_call_result(&mut self) -> Option<Value>;

    /// The same of the next call if it is known what it gives, and if nothing but that can be noticed of it: then nobody is
    /// asked.
    fn known_call(&mut self, plugin: PluginId, args: &[Value]) -> Option<Value>;

    /// Where requests are served while the rendering waits; `None`: it is to be abandoned.
    fn channel(&self) -> Option<Arc<RequestChannel>>;

    /// The answer to a [`TemplateRequest::Source`]; `Some(None)`: there is no template of this name.
    fn source(&self, name: &str) -> Option<Option<String>>;

    /// Notes a name that is not there, so that the error can say which one is meant.
    fn note_missing_name(&mut self, name: &str);

    /// Notes an attribute that the instance does not have.
    fn note_missing_attribute(&mut self, instance: InstId, name: &str);

    /// Notes a block that the template does not have: `self.name`.
    fn note_missing_block(&mut self, name: &str);

    /// Notes a key that the dict does not have.
    fn note_missing_key(&mut self, dict: DictId, key: &str);
}

/// The model of the rendering that runs, shared by all objects that the engine holds.
pub(crate) type SharedModel = Arc<Mutex<dyn TemplateModel>>;

/// The way from a rendering on a thread of its own to the machine.
pub(crate) struct RequestChannel {
    requests: Sender<TemplateRequest>,
    /// Whether a request was served; if not, the rendering is over.
    answers: Mutex<Receiver<bool>>,
}

impl RequestChannel {
    pub(crate) fn new(requests: Sender<TemplateRequest>, answers: Receiver<bool>) -> Self {
        RequestChannel {
            requests,
            answers: Mutex::new(answers),
        }
    }

    /// Waits until the machine has served it; whether it has. The caller does not have the lock of the model.
    fn ask(&self, request: TemplateRequest) -> bool {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        self.requests.send(request).is_ok() && answers.recv().unwrap_or(false)
    }
}

/// Has a request served: afterwards the model has its answer. An error abandons the rendering.
pub(in crate::template) fn serve(
    shared: &SharedModel,
    request: TemplateRequest,
) -> Result<(), Error> {
    let channel = lock(shared).channel();
    let is_served = match channel {
        Some(channel) => channel.ask(request),
        None => {
            lock(shared).request(request);
            false
        }
    };
    if is_served { Ok(()) } else { Err(aborted()) }
}

/// The engine renders on one thread at a time; a lock that a panic left behind holds nothing that the next rendering reads.
pub(crate) fn lock(model: &SharedModel) -> MutexGuard<'_, dyn TemplateModel + 'static> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for dyn TemplateModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TemplateModel")
    }
}
