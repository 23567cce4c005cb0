//! Processes that run the Python code of modules: the only place of the compiler that starts a
//! process.
//!
//! [`load_python`] starts one when a loaded module has Python files, and tells what the modules
//! declare. The runtime asks it through [`PluginHost`] and answers what it asks through
//! [`HostCallbacks`].
//!
//! - `process`: one process, its pipes and its limit in time.
//! - `output`: what it writes to its standard error.
//! - `session`: one compile's use of a process, and processes that are kept between compiles.
//! - `load`: what modules declare, at the beginning of a compile.
//! - `locate`: where modules are installed.
//! - `memo`: what calls of plugins gave in earlier compiles.
//! - `held_answers`: answers that the host sends together.
//! - `processor_affinity`: two processes that take turns, on one processor.

mod asleep;
mod declarations;
#[cfg(target_os = "linux")]
mod held_answers;
mod load;
mod locate;
pub mod memo;
mod output;
mod process;
#[cfg(target_os = "linux")]
mod processor_affinity;
mod session;

pub use declarations::{AnswerStore, is_of_shell};
pub use load::{HostReport, load_python, reported};
pub use locate::{AttachedPython, locate};
pub use process::HostError;
pub use session::WarmHosts;

/// What answers the host while it runs something for the compile. Instances are named by their
/// numbers in order of creation.
pub trait HostCallbacks {
    /// The value of an attribute of an instance.
    fn get(&mut self, instance: u32, attribute: &str) -> crate::protocol::AttributeValue;
    /// The same as the body of a frame ([`crate::protocol::calls`]) with a call in which there is the instance, and known
    /// of it the attribute, and what else is going to be read. `None`: it has to be asked for by [`HostCallbacks::get`].
    fn expected_reads(&mut self, instance: u32, attribute: &str) -> Option<Vec<u8>>;
    /// A name at the call that runs.
    fn lookup(&mut self, name: &str) -> crate::protocol::AttributeValue;
    /// An entity by its full name, with its attributes.
    fn entity(&mut self, name: &str) -> crate::protocol::ToHost;
    /// The names of all entities.
    fn entities(&mut self) -> crate::protocol::ToHost;
    /// All instances of an entity, those of its descendants among them, in the order in which they were made.
    fn instances(&mut self, entity: &str) -> crate::protocol::ToHost;
    /// A typedef by its full name.
    fn typedef(&mut self, name: &str) -> crate::protocol::ToHost;
    /// Whether a value is one of a typedef.
    fn validate(&mut self, typedef: &str, value: &rmpv::Value) -> crate::protocol::AttributeValue;
    /// Where an instance was made.
    fn place(&mut self, instance: u32) -> crate::protocol::ToHost;
    /// Calls a native plugin for Python code. `identity`: of the resource that its first argument becomes, if it is known.
    fn native(
        &mut self,
        plugin: &str,
        args: &[rmpv::Value],
        kwargs: &[(String, rmpv::Value)],
        identity: Option<String>,
    ) -> crate::protocol::AttributeValue;
    /// A line that Python logged, and its level by name ("WARNING").
    fn log(&mut self, level: &str, message: &str);
    /// Service instances that were not given to the compile.
    fn services(&mut self, question: serde_json::Value) -> crate::protocol::ToHost;
    /// Something that Python writes to the service inventory.
    fn write_service(&mut self, write: serde_json::Value);
    /// A line that Python printed.
    fn print(&mut self, line: &str);
}

/// A process that runs Python plugins.
pub trait PluginHost {
    /// Sends a message and waits for its answer; meanwhile the host's callbacks are answered.
    fn request(
        &mut self,
        message: crate::protocol::ToHost,
        callbacks: &mut dyn HostCallbacks,
    ) -> Result<crate::protocol::FromHost, HostError>;

    /// Whether it was not started yet, since what its modules declare is known from an earlier compile. All that it could say
    /// unasked is known, too: there is nothing to finalize, and nothing has changed.
    fn is_asleep(&self) -> bool;

    /// Calls whose answers are known from earlier compiles; `None`: nothing is kept, or they were taken.
    fn take_memo(&mut self) -> Option<memo::Memo>;

    /// Keeps them for later compiles.
    fn keep_memo(&mut self, memo: &memo::Memo);

    /// Begins to start it, if it is asleep: it is going to be asked something soon. Does not wait.
    fn start_ahead(&mut self);

    /// Waits until it is there, and starts it if it is asleep.
    fn wake(&mut self, callbacks: &mut dyn HostCallbacks) -> Result<(), HostError>;

    /// Whether it takes calls in frames ([`crate::protocol::calls`]). Known when it is awake.
    fn reads_calls(&self) -> bool;

    /// Adds a line to what it has written to its standard error.
    fn say(&mut self, line: &str);

    /// Sends a frame of calls; each of them has an answer, in order.
    fn send_calls(&mut self, body: &[u8]) -> Result<(), HostError>;

    /// Waits for the answer to the next call of the last frame.
    fn answer(
        &mut self,
        callbacks: &mut dyn HostCallbacks,
    ) -> Result<crate::protocol::FromHost, HostError>;
}
