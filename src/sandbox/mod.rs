//! The sandbox: what code of a repository may do while it is compiled, or while pip builds it.
//!
//! A model, a plugin or a `setup.py` is code that anybody who may push to a repository has written.
//! It runs on the host of the server, as the server's user, beside its database, its tokens and the
//! checkouts of other environments. The sandbox keeps such code to what its environment has.
//!
//! # What runs in it
//!
//! - The compile worker, with everything that it starts. One worker serves one environment, because
//!   what may be read differs from one environment to the next and a sandbox cannot be left again.
//!   So a mistake in our own handling of paths, models or metadata reaches no further than a plugin
//!   does.
//! - The Python host of a compile, in a second layer: it may not write what the worker may
//!   (`deposit`, checkouts).
//! - pip with all that it builds, and the git that copies repositories for it.
//! - The git worker, which reads what a remote repository sends. It runs no code of it, but libgit2 is no code of ours.
//!
//! Handlers are not sandboxed: they are there to change the host.
//!
//! # What holds it, each as far as the kernel has it
//!
//! - `files`: Landlock. Everything can be read but what is hidden; only the named folders can be
//!   written. Signals, abstract sockets and TCP end at the border of the sandbox.
//! - `syscalls`: seccomp refuses calls that reach other processes or the kernel, and sockets where
//!   there is no network.
//! - `attributes`: seccomp hands calls that change modes, owners, times and extended attributes,
//!   which Landlock does not know, to the supervisor, which does them below the writable folders
//!   only; and `signals`, where Landlock lets them out, to what is below the supervisor only; and
//!   `starts` and `locks`, which ask it before each process and thread, and each lock of a part of a file.
//! - `limits`: of the process (size of a file, open files, processes, memory). Those of all
//!   processes together are the supervisor's (`process::supervisor`), who also ends what is left of
//!   them.
//!
//! None of the four is enough alone. Landlock without seccomp would let code read a hidden file out
//! of the memory of a process that has it open (`ptrace`); seccomp can not look at paths; neither
//! knows `chmod`, by which a file could be opened for a reader outside. What the kernel does not
//! have is missing, and the server says so at its start ([`support`]).
//!
//! # Example: `open("/var/lib/steward/tokens")` in a plugin
//!
//! The plugin runs in the Python host, two layers deep. The data directory is among the worker's
//! `hidden`, so no rule of Landlock grants reading below it, and the call fails with "permission
//! denied" in Python. `os.chmod` on the path is stopped by seccomp; the supervisor reads the path
//! from the memory of the process, finds the file outside of the writable folders, and answers
//! EPERM. `socket.socket()` fails in seccomp unless a host was granted; then only the port of the
//! server's proxy can be reached. A child that the plugin starts inherits all of this, and is ended
//! after the compile whatever session it went to.
//!
//! # Invariants
//!
//! - A process enters the sandbox itself ([`enter`]), before it touches anything that is not ours
//!   and before it has a second thread, since the kernel holds the calling thread and what descends
//!   from it. There is no way back.
//! - A second layer can only take away ([`SandboxPolicy::inner`]).
//! - A process that entered with less than [`support`] promises is not used: the pool compares the
//!   two before it gives the worker anything of a repository.
//!
//! Sources: docs/security.md; Landlock, seccomp(2), seccomp_unotify(2).

mod attributes;
mod files;
pub(crate) mod fuzzing;
mod limits;
mod locks;
mod open_network;
mod signals;
mod starts;
mod supervisor_link;
mod syscalls;

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use attributes::Broker;
pub use open_network::{OpenNetwork, may_connect_anywhere};
pub use signals::Kin;
pub use starts::MAX_TASKS;
pub use supervisor_link::{SUPERVISOR, SupervisorLink};

/// What a sandboxed process may do. Paths are absolute and without links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// Cannot be read, with all below, but for what `readable` names.
    pub hidden: Vec<PathBuf>,
    /// Parts of what is hidden that can be read.
    pub readable: Vec<PathBuf>,
    /// The folder that can be written to, for home, temporary files and bytecode. It is emptied
    /// after each compile.
    pub scratch: PathBuf,
    /// Other folders that can be written to.
    pub writable: Vec<PathBuf>,
    /// Folders below which files can be made, but neither read nor listed.
    pub deposit: Vec<PathBuf>,
    /// What can be reached over sockets.
    pub network: Network,
    /// The process that enters is a program of ours, and starts others in a second layer: it alone
    /// may change attributes below `writable` and `deposit`, and choose processors for others.
    pub is_ours: bool,
    /// Bytes of memory that each process may map; `None`: as many as the one that enters.
    pub memory_bytes: Option<u64>,
    /// Bytes of the largest file that can be written.
    pub file_bytes: u64,
}

/// What code of a repository may write into one file, in bytes.
pub const CODE_FILE_BYTES: u64 = 1 << 30;

/// What a sandboxed process may reach over sockets. Those by path (`AF_UNIX`) are refused in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No socket can be made; pairs of connected ones can.
    None,
    /// TCP to this port only, where a proxy of the server listens that knows the hosts that may be reached.
    Proxy(u16),
    /// Whatever the host can reach: for git, and for pip where there can be no proxy.
    Open,
}

/// The version of Landlock that can hold TCP to a port: without it there is no [`Network::Proxy`].
pub const PROXY_LANDLOCK: u8 = 4;

/// What this kernel holds a sandboxed process with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSupport {
    /// Version of Landlock's interface; 0: the kernel has none.
    pub landlock: u8,
    /// Whether calls can be refused by seccomp.
    pub seccomp: bool,
    /// Changes of modes, owners, times and extended attributes are held to the writable folders.
    pub attributes: bool,
    /// Limits of the process can be set; systemd may have forbidden it, and set its own.
    pub limits: bool,
}

impl SandboxSupport {
    /// Whether a process that is held by this is held by all of `expected`. Limits are not compared: systemd may have set
    /// its own.
    pub fn is_at_least(&self, expected: Self) -> bool {
        self.landlock >= expected.landlock
            && self.seccomp >= expected.seccomp
            && self.attributes >= expected.attributes
    }
}

impl fmt::Display for SandboxSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock {
            0 => f.write_str("no Landlock (files are not protected)")?,
            version => write!(f, "Landlock {version}")?,
        }
        f.write_str(match (self.seccomp, self.attributes) {
            (true, true) => ", seccomp",
            (true, false) => ", seccomp (without notifications: modes of files and other processes are not protected)",
            (false, _) => ", no seccomp (the network is not closed)",
        })?;
        f.write_str(match self.limits {
            true => ", limits of files and processes",
            false => ", no limits of our own",
        })
    }
}

/// What this kernel would hold a process with. Asks only.
pub fn support() -> SandboxSupport {
    let seccomp = syscalls::is_supported();
    SandboxSupport {
        landlock: files::supported_version(),
        seccomp,
        attributes: seccomp && attributes::is_supported(),
        limits: limits::are_supported(),
    }
}

/// Puts this process and all that it starts into the sandbox, for good. Other threads must not have been started: Landlock
/// and seccomp hold the calling thread and what descends from it.
///
/// `supervisor`: who does changes of attributes on behalf of the sandbox; `None`: an outer sandbox has one already, or
/// nobody, and then these changes are not held.
///
/// # Errors
/// The kernel refuses what it has. The process may then be held in part, and must not go on.
pub fn enter(
    policy: &SandboxPolicy,
    supervisor: Option<&SupervisorLink>,
) -> io::Result<SandboxSupport> {
    if matches!(policy.network, Network::Proxy(_)) && files::supported_version() < PROXY_LANDLOCK {
        return Err(io::Error::other(
            "this kernel cannot hold connections to one port",
        ));
    }
    let limits = limits::apply(policy.memory_bytes, policy.file_bytes);
    limits::end_first();
    limits::drop_capabilities()?;
    let landlock = files::restrict(policy).map_err(io::Error::other)?;
    let seccomp = syscalls::is_supported();
    let mut attributes = false;
    if seccomp {
        // Before the filter that refuses: it would refuse nothing that this needs, but so it does not matter.
        if let Some(supervisor) = supervisor.filter(|_| attributes::is_supported()) {
            let listener = attributes::listen(landlock < signals::LANDLOCK)?;
            supervisor.hand_over(&listener, policy, landlock > 0)?;
            attributes = true;
        }
        syscalls::restrict(policy.network, policy.is_ours)?;
    }
    Ok(SandboxSupport {
        landlock,
        seccomp,
        attributes,
        limits,
    })
}

impl SandboxPolicy {
    /// The policy of a second layer inside of this one: nothing but the scratch folder can be written. What can be read is
    /// the outer layer's to say; from inside, the folders that it hides cannot even be listed.
    pub fn inner(&self) -> Self {
        Self {
            hidden: Vec::new(),
            readable: Vec::new(),
            writable: Vec::new(),
            deposit: Vec::new(),
            is_ours: false,
            memory_bytes: None,
            ..self.clone()
        }
    }
}
