//! Child processes of ours and the frames that go to and from them.
//!
//! The format is that of `steward_compiler::protocol` (length and MessagePack), here over tokio's streams. A child is in
//! a process group of its own, has none of our environment, dies with us, and is killed when its handle is dropped.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use serde::{Serialize, de::DeserializeOwned};
use steward_compiler::protocol::MAX_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Reads one frame; `Ok(None)` at a clean end of the stream.
pub async fn read_frame<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<T>> {
    let length = match reader.read_u32().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::other(format!(
            "a frame of {length} bytes is too large"
        )));
    }
    let mut body = Vec::with_capacity((length as usize).min(1 << 16));
    reader
        .take(u64::from(length))
        .read_to_end(&mut body)
        .await?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    rmp_serde::from_slice(&body)
        .map(Some)
        .map_err(io::Error::other)
}

/// Writes one frame and flushes.
pub async fn write_frame<T: Serialize>(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> io::Result<()> {
    let mut frame = Vec::new();
    steward_compiler::protocol::write_frame(&mut frame, message)?;
    writer.write_all(&frame).await?;
    writer.flush().await
}

/// This program, to be started again in another role.
pub fn own_program() -> io::Result<PathBuf> {
    // After an upgrade in place the path of a running program ends in " (deleted)"; the link still leads to it.
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() {
        Ok(link)
    } else {
        std::env::current_exe()
    }
}

/// Starts this program with `arguments`, piped on stdin and stdout; its stderr is ours.
pub fn spawn_own<S: AsRef<OsStr>>(arguments: &[S]) -> io::Result<Child> {
    Command::new(own_program()?)
        .arg0("steward")
        .args(arguments)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Ends a child with all that it started.
pub fn kill_group(child: &mut Child) {
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.start_kill();
}

/// Called first thing in a child: it dies with its parent, whatever way that goes.
pub fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Caps the memory this process may map, so that a runaway model ends alone.
pub fn limit_memory(bytes: u64) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(
        Resource::As,
        Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        },
    );
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
}
