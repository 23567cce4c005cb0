//! How frames get to an executor and back.
//!
//! A transport knows where executors run: it starts one and gives the two streams of bytes to and from it, and a way to end it.
//! Everything else is the same wherever an executor is: the frames and the hello (`protocol`), what the server expects of an
//! executor (`link`), how much it may say and how long it may be silent (`replies`).

mod pipe;
mod ssh;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use pipe::Pipe;
pub(crate) use ssh::Ssh;

/// A place where executors run.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    /// Starts an executor.
    ///
    /// # Errors
    /// It cannot be started, or not be reached.
    fn connect(&self) -> io::Result<Connection>;

    /// What is different on another machine; `None`: it is this one.
    fn far(&self) -> Option<Far> {
        None
    }
}

/// An executor that does not see the files of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Far {
    /// How long it may take until it says its first word.
    pub(crate) startup: Duration,
    /// The Python there; `None`: one that fits.
    pub(crate) python: Option<String>,
}

/// An executor that was started. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    /// From us to it.
    pub(crate) commands: Box<dyn Commands>,
    /// From it to us. Ends when it ends.
    pub(crate) replies: Box<dyn Replies>,
    pub(crate) process: Box<dyn RemoteProcess>,
    /// Whether its machine was reached: set once something runs there.
    pub(crate) is_reached: Arc<AtomicBool>,
}

/// How long an executor has to end by itself: its Python hosts have 3 s for that.
const ENDING: Duration = Duration::from_secs(4);

/// Ends an executor in order: it hears that no command comes any more, and closes what its handlers have opened.
pub(crate) async fn close(commands: Box<dyn Commands>, mut process: Box<dyn RemoteProcess>) {
    drop(commands);
    let _ = tokio::time::timeout(ENDING, process.ended()).await;
    process.end();
}

pub(crate) trait Commands: AsyncWrite + fmt::Debug + Send + Sync + Unpin {}
impl<T: AsyncWrite + fmt::Debug + Send + Sync + Unpin> Commands for T {}

pub(crate) trait Replies: AsyncRead + fmt::Debug + Send + Sync + Unpin {}
impl<T: AsyncRead + fmt::Debug + Send + Sync + Unpin> Replies for T {}

/// The executor as something that can be ended.
pub(crate) trait RemoteProcess: fmt::Debug + Send + Sync {
    /// Waits until it has ended by itself, as it does when its commands end.
    fn ended(&mut self) -> BoxFuture<'_, ()>;

    /// How it has ended just now, in words, if that is known here.
    fn status(&mut self) -> Option<String> {
        None
    }

    /// Ends it, with what it started. It worked as it should.
    fn end(&mut self);

    /// Ends one that does not work as it should, with all that its handlers run: a Python host that is stopped would not
    /// notice that its executor is gone.
    fn abort(&mut self);
}
