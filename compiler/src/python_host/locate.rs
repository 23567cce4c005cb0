//! Asks Python where modules are installed (`python/steward_host/locating.py`).

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::process::check_hello;
use crate::PythonRuntime;
use crate::protocol::{FromHost, ToHost, read_frame, write_frame};
use crate::world::{LocatedPackages, PackageQuestion, PythonPackages};

/// A start of Python takes 20 ms; what packages run at its start may take longer, but not for ever.
const LONGEST: Duration = Duration::from_secs(20);
/// An answer is two short texts a module. What packages print at the start of Python comes before it.
const MOST_BYTES: u64 = 4 << 20;

/// Starts Python to ask where these modules are, and any others that it knows of. Blocks.
///
/// # Errors
/// Python cannot be started, does not end, or says something else.
pub fn locate(runtime: &PythonRuntime, names: &[String]) -> io::Result<LocatedPackages> {
    let mut child = runtime
        .command("locate")
        .args(names)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = read_within(&mut child, LONGEST);
    // It has output all, or too late.
    let _ = child.kill();
    child.wait()?;
    let output = output?;
    let answer = output.trim_end().lines().next_back().unwrap_or_default();
    serde_json::from_str(answer).map_err(io::Error::other)
}

/// The standard output of a process to its end.
fn read_within(child: &mut Child, limit: Duration) -> io::Result<String> {
    let stdout = child.stdout.take();
    let stdout = stdout.ok_or_else(|| io::Error::other("Python has no standard output"))?;
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = String::new();
        let read = stdout.take(MOST_BYTES).read_to_string(&mut output);
        // Who has asked may have given up.
        let _ = send.send(read.map(|_| output));
    });
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "Python does not answer");
    receive.recv_timeout(limit).map_err(late)?
}

/// The Python that has a compile run, at the other end of a socket. It is asked before it becomes the compile's host.
#[derive(Debug)]
pub struct AttachedPython(Arc<UnixStream>);

impl AttachedPython {
    /// Reads who it is.
    ///
    /// # Errors
    /// A text: it is none that we can work with.
    pub fn greet(stream: Arc<UnixStream>) -> Result<Self, String> {
        let hello = read_frame::<FromHost>(&mut &*stream).map_err(|error| error.to_string())?;
        let hello = hello.ok_or_else(|| "the Python that started this compile ended".to_owned())?;
        check_hello(hello, "the attached Python").map_err(|error| error.message)?;
        Ok(Self(stream))
    }
}

impl PythonPackages for AttachedPython {
    fn locate(&self, question: PackageQuestion<'_>) -> Option<LocatedPackages> {
        let name = question.name.to_owned();
        write_frame(&mut &*self.0, &ToHost::Locate { name }).ok()?;
        match read_frame::<FromHost>(&mut &*self.0).ok()?? {
            FromHost::Located { path, modules } => Some(LocatedPackages { path, modules }),
            _ => None,
        }
    }

    fn is_running(&self) -> bool {
        true
    }
}
