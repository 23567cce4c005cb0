//! Between the running model and Python: calls of plugins, values on the wire, what the export asks
//! for.
//!
//! Plugins of modules are Python, and run in a process of their own, the Python host
//! (`crate::python_host`). A call is one frame there and one back. While it runs, the plugin may
//! read the model: it has instances as handles, and asks for their attributes in *host callbacks*,
//! which are answered in the middle of the call.
//!
//! - `calls`: values on the wire, in both directions, and how an answer that is no value becomes an
//!   error.
//! - `call`: writes the frame of a call.
//! - `ahead`: calls behind it in the queue that go in the same frame.
//! - `known_values`: attributes that travel with instances, so that they need not be asked for.
//! - `coming_values`: the same of attributes that a step in the queue is going to store.
//! - `guesses`: calls that wait for relations, made with what those hold now.
//! - `guessed_conditions`: the same of calls in conditions of types.
//! - `host_callbacks`: answers to what a running plugin asks.
//! - `conditions`: those of typedefs that say something outside of the model.
//! - `dataclasses`, `references`: values that have a form of their own on the wire.
//! - `export`: what the export asks Python about resources.
//! - `known_calls`: how a call is looked up among those of earlier compiles.
//! - `remembered`: calls whose answers are known from earlier compiles.
//! - `rendering`: the getters of resource classes, of many resources in one frame.

pub(in crate::runtime) mod ahead;
pub(in crate::runtime) mod call;
pub(in crate::runtime) mod calls;
pub(in crate::runtime) mod coming_values;
pub(in crate::runtime) mod conditions;
pub(in crate::runtime) mod dataclasses;
pub(in crate::runtime) mod export;
mod guessed_conditions;
mod guesses;
pub(in crate::runtime) mod host_callbacks;
pub(in crate::runtime) mod kept_result;
pub(in crate::runtime) mod known_calls;
pub(in crate::runtime) mod known_values;
pub(in crate::runtime) mod references;
pub(in crate::runtime) mod remembered;
pub(in crate::runtime) mod rendering;

use crate::hash::Map;
use crate::hir::PluginId;
use crate::protocol::ResourceClassInfo;
use crate::python_host::PluginHost;
use crate::python_host::memo::Memo;
use crate::resources::ReferenceModels;
use crate::runtime::Machine;
use crate::runtime::exec::calls::Site;
use crate::runtime::python_bridge::ahead::Ahead;
use crate::runtime::python_bridge::coming_values::ComingValues;
use crate::runtime::python_bridge::guesses::Guesses;
use crate::runtime::python_bridge::known_values::KnownValues;
use crate::runtime::python_bridge::rendering::RenderedAhead;
use crate::span::Loc;
use crate::types::InstId;

/// The process that runs plugins, and what it and the machine know of one another.
pub struct PythonBridge {
    /// `None`: no module has plugins, or the host answers right now.
    pub host: Option<Box<dyn PluginHost>>,
    /// Calls whose answers are known; `None`: nothing is kept.
    pub memo: Option<Memo>,
    n_requests: u64,
    /// The call of a plugin that runs now.
    loc: Loc,
    site: Option<Site>,
    /// The resource class whose getters run now.
    rendering: Option<u32>,
    known_values: KnownValues,
    coming_values: ComingValues,
    guesses: Guesses,
    /// Calls that went ahead of their turn.
    pub(in crate::runtime) ahead: Ahead,
    /// Resources whose getters were asked for ahead of their turn.
    rendered_ahead: RenderedAhead,
    /// Python has given objects that only it knows.
    pub(in crate::runtime) has_objects: bool,
    /// Texts that are objects of Python with more to them: the opaque ids.
    texts: Map<u32, u32>,
    /// Python objects of the instances that were made from dataclasses, or from references to such.
    dataclass_objects: Map<InstId, dataclasses::Object>,
    /// Of the resource that the first argument of a native plugin becomes, if Python calls it and knows.
    identity: Option<String>,
    /// Of Python, if an export found others than the program has.
    resource_classes: Option<Vec<ResourceClassInfo>>,
    /// References that the export has serialized.
    pub reference_models: ReferenceModels,
}

impl Default for PythonBridge {
    fn default() -> PythonBridge {
        PythonBridge {
            host: None,
            memo: None,
            n_requests: 0,
            loc: Loc::NONE,
            site: None,
            rendering: None,
            known_values: KnownValues::default(),
            coming_values: ComingValues::default(),
            guesses: Guesses::default(),
            ahead: Ahead::default(),
            rendered_ahead: RenderedAhead::default(),
            has_objects: false,
            texts: Map::default(),
            dataclass_objects: Map::default(),
            identity: None,
            resource_classes: None,
            reference_models: ReferenceModels::default(),
        }
    }
}

impl Machine<'_> {
    /// Whether some value may be an object of Python.
    pub fn has_objects(&self) -> bool {
        self.python.has_objects
    }
}

impl PythonBridge {
    /// Whether Python has objects in the place of instances.
    pub(in crate::runtime) fn has_objects_for_instances(&self) -> bool {
        !self.dataclass_objects.is_empty()
    }

    /// Calls of these plugins need not be made, since their answers are known.
    pub(in crate::runtime) fn count_uses(&mut self, plugins: &[PluginId]) {
        for plugin in plugins {
            self.guesses.count_use(*plugin);
        }
    }

    /// Whether there is a Python host that may have something to say unasked: one that runs.
    pub fn has_running_host(&self) -> bool {
        self.host.as_ref().is_some_and(|host| !host.is_asleep())
    }

    /// Whether there is one that was not needed yet.
    pub fn has_sleeping_host(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.is_asleep())
    }
}
