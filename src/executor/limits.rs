//! How many Python hosts an executor has, how long it keeps them, how long their imports may take, and how many other machines
//! are connected.
//! Source: docs/reference/deployment.md § 5.3.

use std::sync::LazyLock;
use std::time::Duration;

/// The limits of an environment's executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Python hosts that are alive at once, at least 1. The zygotes that they are forked from come on top.
    pub hosts: usize,
    /// How long a host without work is kept, where nobody else needs its place.
    pub keep: Duration,
    /// Connections by ssh that are open at once, at least 1.
    pub connections: usize,
    /// The time for the start of a process and the import of all modules.
    pub import: Duration,
}

/// No machine needs more, and each takes a process and two threads.
pub const MAX_HOSTS: usize = 4096;
/// Each takes a process, three pipes of this one, and a connection.
pub const MAX_CONNECTIONS: usize = 4096;
/// What a host may have of its own before the default number of hosts is too much for the machine: modules that most agents
/// change nothing in are shared.
const HOST_BYTES: u64 = 64 << 20;
/// Handlers wait for their devices most of the time, and one that hangs keeps its place for as long as `deploy_timeout` allows.
const HOSTS_PER_CORE: usize = 128;
/// Hosts that work need places; those at rest only keep what their handlers have cached.
const AT_REST_PER_CORE: usize = 32;
const MIN_HOSTS: usize = 4;
/// Native handlers that run at once: commands may take minutes.
pub(crate) const MAX_NATIVE: usize = 256;
/// Agents with native handlers that an executor is given work of at once. Most of these are over in a moment, so that it has to
/// have some in hand.
const NATIVE_AGENTS: usize = 2 * MAX_NATIVE;
/// What a connection takes on this machine: `ssh` and what it has in its hands.
const CONNECTION_BYTES: u64 = 16 << 20;
/// Machines that are reached by ssh do their work themselves; a processor has to encrypt what goes to them.
const CONNECTIONS_PER_CORE: usize = 64;

impl Limits {
    /// How many agents with native handlers an executor on this machine is given work of at once.
    pub(crate) fn native_agents(self) -> usize {
        NATIVE_AGENTS
    }

    /// How many agents that need the same Python code an executor on this machine is given work of at once: as many as can run, and
    /// some that it has in hand when one of them is done. What it is given is begun, whatever comes meanwhile.
    pub(crate) fn python_agents(self) -> usize {
        self.hosts.saturating_add((self.hosts / 8).max(2))
    }

    /// Hosts without work, beyond which the next one that is needed takes the place of one of them, though others are free.
    pub(crate) fn at_rest() -> usize {
        cores() * AT_REST_PER_CORE
    }
}

impl Default for Limits {
    /// For this machine.
    fn default() -> Self {
        let bytes = crate::process::memory::available_bytes();
        let fits = usize::try_from(bytes / HOST_BYTES).unwrap_or(usize::MAX);
        let most = (cores() * HOSTS_PER_CORE).clamp(MIN_HOSTS, MAX_HOSTS);
        let lines_fit = usize::try_from(bytes / CONNECTION_BYTES).unwrap_or(usize::MAX);
        let most_lines = (cores() * CONNECTIONS_PER_CORE).clamp(MIN_HOSTS, MAX_CONNECTIONS);
        Self {
            hosts: fits.clamp(MIN_HOSTS, most),
            keep: Duration::from_secs(60),
            connections: lines_fit.clamp(MIN_HOSTS, most_lines),
            import: Duration::from_secs(120),
        }
    }
}

/// The processors that this process may use. To ask the system takes as long as a quick run: it reads several files.
pub(crate) fn cores() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *CORES
}
