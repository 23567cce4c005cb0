//! Child processes of ours and the frames that go to and from them.
//!
//! The format is that of `steward_compiler::protocol` (length and MessagePack), here over tokio's streams. A child is in
//! a process group of its own, has none of our environment, dies with us, and is killed when its handle is dropped.

mod captured;
pub mod cgroup;
pub mod descendants;
mod init;
pub mod load;
pub mod memory;
mod peer;
pub mod resting;
mod spawner;
mod supervised;
mod supervisor;
mod umask;

pub use captured::Captured;
pub use descendants::{is_alive, is_stopped, kill_tree};
pub use init::run_as_init;
pub use peer::{Peer, listens, peer_of};
pub use supervised::{Ended, run_supervised, supervised_command};
pub use supervisor::{Supervision, supervise};
pub use umask::{keep_private, original_umask, restore_umask};

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Serialize, de::DeserializeOwned};
use steward_compiler::protocol::MAX_FRAME_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::sandbox::SandboxPolicy;

/// Reads one frame; `Ok(None)` at a clean end of the stream.
pub async fn read_frame<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<T>> {
    read_frame_within(reader, MAX_FRAME_BYTES).await
}

/// As [`read_frame`], of a process that may send no frame of more than `max_bytes`.
pub async fn read_frame_within<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
    max_bytes: u32,
) -> io::Result<Option<T>> {
    let length = match reader.read_u32().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > max_bytes {
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
    steward_compiler::protocol::decode(&body).map(Some)
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

/// How this machine reaches the network: every program that goes there gets these.
pub const NETWORK_VARIABLES: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
];

/// Starts this program with `arguments`, piped on stdin and stdout; its stderr is ours.
pub fn spawn_own<'v, S: AsRef<OsStr>>(
    arguments: &[S],
    variables: impl Iterator<Item = (&'v OsString, &'v OsString)>,
) -> io::Result<Child> {
    let mut command = own_command(arguments)?;
    // What tells it whose child it is stays ours.
    command
        .envs(variables)
        .env(PARENT, std::process::id().to_string());
    command.kill_on_drop(true);
    spawner::spawn(command)
}

/// As [`spawn_own`], below a supervisor (`process::supervisor`), and not killed when its handle is dropped: to end it is for
/// [`end_supervised`]. `memory_bytes`: of all its processes together. `group`: which the supervisor joins. `left`: an open
/// file of ours that the program inherits, and the variable with its number there. `variables`: more of its environment.
pub fn spawn_own_supervised(
    arguments: &[&str],
    memory_bytes: u64,
    group: Option<&cgroup::Cgroup>,
    left: Option<(&str, RawFd)>,
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> io::Result<Child> {
    let program = own_program()?;
    let (parent, memory) = (std::process::id().to_string(), memory_bytes.to_string());
    let mut all: Vec<&OsStr> = [
        "supervise",
        "--all",
        "--parent",
        &parent,
        "--memory-bytes",
        &memory,
        "--",
    ]
    .map(OsStr::new)
    .to_vec();
    all.push(program.as_os_str());
    all.extend(arguments.iter().map(OsStr::new));
    let mut command = own_command(&all)?;
    command.envs(variables);
    if let Some(group) = group {
        command.env(cgroup::CGROUP, group.path());
    }
    if let Some((variable, file)) = left {
        leave(&mut command, variable, file);
    }
    spawner::spawn(command)
}

/// Has a command inherit an open file of ours under its number.
#[expect(
    unsafe_code,
    reason = "only between fork and exec does it concern no other program that is started meanwhile"
)]
fn leave(command: &mut Command, variable: &str, file: RawFd) {
    command.env(variable, file.to_string());
    // SAFETY: fcntl(2) may be called between fork and exec, and nothing else is; the file is open until the command runs.
    unsafe {
        command.pre_exec(move || match libc::fcntl(file, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Lets the threads of a process that compiles share one heap, and keeps large vectors out of it.
///
/// A compile is one thread, and not the first one. By default glibc gives such a thread a heap of its own, which grows page by
/// page, with a system call for each; the first thread's grows in larger steps. A vector of more than 128 KiB lies in pages of
/// its own, which the kernel moves when it grows. By default glibc does that only until the first such vector is freed: from
/// then on larger ones lie in the heap, too, and are copied. To be called before there are other threads. Where there is no
/// glibc it does nothing.
pub fn prefer_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "there is no safe form of mallopt(3)")]
        // SAFETY: it sets numbers of the allocator, which takes any, and there is no other thread yet.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024);
        }
    }
}

/// Has a supervisor end all that is below it, and then itself.
pub fn end_supervised(supervisor: &Child) {
    if let Some(pid) = supervisor.id().and_then(pid) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

fn own_command<S: AsRef<OsStr>>(arguments: &[S]) -> io::Result<Command> {
    let mut command = Command::new(own_program()?);
    command
        .arg0("steward")
        .args(arguments)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("LANG", "C.UTF-8")
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0);
    Ok(command)
}

/// A process closes its pipes some moments before it is gone.
const CLOSING: Duration = Duration::from_millis(50);

/// Ends a child with all that it started.
pub fn kill_group(child: &mut Child) {
    if let Some(leader) = child.id() {
        kill_group_of(leader);
    }
    let _ = child.start_kill();
}

/// Ends the process group of a child that leads one and was not waited for yet: its id is nobody else's until then.
pub fn kill_group_of(leader: u32) {
    if let Some(pid) = pid(leader) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

/// How a child has ended that is just ending, with all that is left of its group; `None`: it runs, or nobody knows any more.
pub fn ended(child: &mut Child) -> Option<std::process::ExitStatus> {
    if !ends_within(child.id()?, CLOSING) {
        return None;
    }
    kill_group(child);
    child.try_wait().ok().flatten()
}

/// Gives a child some time to end by itself, then ends its whole group; gives the child's status.
pub fn end_group(
    child: &mut std::process::Child,
    patience: Duration,
) -> io::Result<std::process::ExitStatus> {
    ends_within(child.id(), patience);
    kill_group_of(child.id());
    child.wait()
}

/// Waits for the end of a child, which is looked at without being taken, so that its id still names its group. False: it goes on.
fn ends_within(child: u32, patience: Duration) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let deadline = Instant::now() + patience;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let runs =
        || pid(child).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(None)));
    while runs() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Sends a signal to a child that was not waited for.
pub fn signal(child: u32, signal: Signal) {
    if let Some(pid) = pid(child) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn pid(id: u32) -> Option<rustix::process::Pid> {
    i32::try_from(id)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
}

/// The variable in which [`spawn_own`] tells a child whose child it is.
const PARENT: &str = "STEWARD_PARENT";

/// Called first thing in a child: it dies with its parent, whatever way that goes. The kernel means the thread that started it
/// (`process::spawner`).
pub fn die_with_parent() {
    let parent = std::env::var(PARENT).ok().and_then(|id| id.parse().ok());
    if !signal_with_parent(Signal::KILL, parent) {
        std::process::exit(1);
    }
}

/// Asks for `signal` when the parent dies. `false`: `parent` is another process, so the parent is
/// dead already and no signal will come.
pub fn signal_with_parent(signal: Signal, parent: Option<u32>) -> bool {
    let _ = rustix::process::set_parent_process_death_signal(Some(signal));
    parent.is_none_or(|parent| std::os::unix::process::parent_id() == parent)
}

/// The variable with the policy of `steward sandbox`: unlike arguments, nobody but the process itself can read it.
pub const SANDBOX: &str = "STEWARD_SANDBOX";

/// What puts a command into a sandbox: words before it, and a variable of its environment.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub words: Vec<OsString>,
    pub variable: (&'static str, String),
}

impl Launcher {
    /// # Errors
    /// This program is not found.
    pub fn new(policy: &SandboxPolicy) -> io::Result<Self> {
        let mut words = vec![own_program()?.into_os_string()];
        words.extend(["sandbox", "--"].map(OsString::from));
        let policy = serde_json::to_string(policy).map_err(io::Error::other)?;
        Ok(Self {
            words,
            variable: (SANDBOX, policy),
        })
    }
}

/// Keeps others of the same user from looking into this process from now on: at its memory, its
/// environment, its open files. It leaves no core behind.
pub fn hide() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
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
