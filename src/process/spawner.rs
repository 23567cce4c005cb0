//! The thread that starts our children, which lasts as long as this process.
//!
//! The kernel's death signal (`PR_SET_PDEATHSIG`) comes when the *thread* that started a child ends. Threads that tokio keeps
//! for blocking work end when they have had nothing to do for ten seconds; a child that one of them started would be ended
//! then, in the middle of its work, while we live.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

type Start = Box<dyn FnOnce() + Send>;

/// Has the lasting thread start a command. Waits for it, as `Command::spawn` does.
///
/// # Errors
/// It cannot be started; or there is no thread, since the machine has no room for one.
pub(super) fn spawn(mut command: Command) -> io::Result<Child> {
    // It takes note of the child's end.
    let runtime = Handle::current();
    let (started, result) = channel();
    let start = move || {
        let _entered = runtime.enter();
        let _ = started.send(command.spawn());
    };
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawner()?.send(Box::new(start)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

/// Where the thread takes what it is to start.
fn spawner() -> io::Result<Sender<Start>> {
    static SPAWNER: OnceLock<Sender<Start>> = OnceLock::new();
    if let Some(spawner) = SPAWNER.get() {
        return Ok(spawner.clone());
    }
    let (sender, starts) = channel::<Start>();
    std::thread::Builder::new()
        .name("spawner".to_owned())
        .spawn(move || starts.into_iter().for_each(|start| start()))?;
    // Where two threads came at once, one of the senders is dropped, and its thread ends, which has started nothing.
    Ok(SPAWNER.get_or_init(|| sender).clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A child that gets SIGKILL when the thread ends that has started it.
    #[tokio::test]
    async fn a_child_outlives_the_thread_that_asked_for_it() {
        let runtime = Handle::current();
        let asking = std::thread::spawn(move || {
            let _entered = runtime.enter();
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "sleep", "60"]);
            command.kill_on_drop(true);
            let child = spawn(command);
            // It has asked for the signal by then.
            std::thread::sleep(Duration::from_millis(500));
            child.unwrap()
        });
        let mut child = asking.join().unwrap();
        let ended = tokio::time::timeout(Duration::from_millis(500), child.wait()).await;
        assert!(ended.is_err(), "it was ended: {ended:?}");
    }
}
