//! From a repository that may have moved to a stored version, or to a report of why not.
//!
//! `next` decides purely what to compile; `service` is the loop an environment has, and `validations` the one beside it, in
//! which service instances are validated; `run` does one compile, with what `repository` reads, `install` installs and
//! `execute` has workers do for it, and `handler_venvs` installs for code that came from elsewhere; `services` is what instances of services have to do with it, `settings` what the project says of those of its environment; `worker` is the pool of
//! processes that it runs in, and the life of such a process; `local_sources` is what one environment's code may not read of the others'. `local` is a compile without all of this: of a
//! project on the machine of the person who asks for it. Nothing is deployed here: a stored version
//! wakes the engine, which reads it from the store.

mod code;
mod elsewhere;
mod execute;
mod failures;
mod gc;
mod handler_venvs;
mod install;
mod local;
mod local_sources;
mod network;
mod next;
mod notify;
mod packages;
mod redact;
mod repository;
mod run;
mod service;
mod services;
mod settings;
mod source;
mod validations;
mod worker;

pub use gc::{gc_checkouts, gc_environments, gc_python_runtimes};
pub use handler_venvs::HandlerVenvs;
pub use install::{restore_modules, venvs};
pub use local::{LocalCompile, LocalResult};
pub use local_sources::{LocalSources, needed_programs};
pub use network::{Access, Grant, Proxy};
pub use packages::{Packages, outer_environment};
pub use redact::{MIN_REDACTED_CHARS, SecretVariables};
pub use service::{Compiler, Options};
pub use settings::{PROJECT_FILE, project_settings};

#[doc(hidden)]
pub use network::read_any_request;
pub use source::{Source, SourceError};
pub use worker::read_any_frame;
pub use worker::{Pool, PoolOptions, run as run_worker};
