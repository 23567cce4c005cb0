//! The Python hosts of an executor: who gets one, and whose goes for it.
//!
//! An agent has a host while one of its tasks runs, and keeps it for some time afterwards, with all that its handlers have
//! cached. But the number of hosts is limited ([`Limits::hosts`]): where an agent needs one and there is no place left, the
//! host that has been without work for longest is stopped. So it is where many are without work ([`Limits::at_rest`]): there are
//! many places for handlers that wait, and what they have cached is not worth as much memory. So ten thousand agents take turns
//! with a hundred hosts, and ten agents keep theirs.
//!
//! Hosts of the same code are forks of one zygote, which has imported the modules. It is started when the first agent needs
//! it, while the others with that code wait; it goes when it had no host for some time. If it cannot be started, that is
//! remembered for a moment: what failed for one agent would fail for the next thousand as well, and each time take as long.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::AgentName;
use crate::executor::code_folder::Code;
use crate::executor::limits::Limits;
use crate::executor::python::{self, Loaded, PythonHost, Zygote};

/// How long it counts that the import of some code hung or ended its process. All agents that wait for it fail within that
/// time; they are tried again after seconds and then after minutes.
const FAILED: Duration = Duration::from_secs(5);
/// How long it counts that a module could not be imported, while others of the same code could: what it lacks may come any
/// time, but the others would pay for another import.
const BROKEN: Duration = Duration::from_secs(20);
/// How long a host is left alone that has just come to rest: its agent's next task may be on its way from the server.
const GRACE: Duration = Duration::from_millis(30);
/// An agent with one task after another goes before others for this long, so that its host need not be made again for each.
pub(crate) const TURN: Duration = Duration::from_secs(2);
/// How long the end of an executor waits for hosts that come to rest just then.
const COMING_TO_REST: Duration = Duration::from_millis(300);
/// Zygotes without hosts that are kept. One version has few, unless each agent's types need other modules.
const SPARE_ZYGOTES: usize = 8;

#[derive(Debug)]
pub(crate) struct Hosts {
    limits: Limits,
    state: Mutex<State>,
    /// A place was given back, or a host came to rest.
    freed: Condvar,
    /// Agents that wait for a place or for the start of their host.
    n_starting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Hosts with and without work, and those that are started or stopped just now.
    n_places: usize,
    /// Hosts without work, in the order in which they came to rest.
    idle: Vec<Idle>,
    /// By the key of their code.
    codes: HashMap<String, Arc<CodeState>>,
    /// Code that is being imported just now.
    loading: HashSet<String>,
}

#[derive(Debug)]
struct Idle {
    agent: AgentName,
    since: Instant,
    host: Host,
}

/// The host of an agent, and its place among all hosts, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) python: PythonHost,
    /// What it has imported.
    code: Arc<Code>,
    /// When the agent's turn began.
    turn: Instant,
    place: Place,
}

#[derive(Debug)]
struct Place(Arc<Hosts>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.state().n_places -= 1;
        self.0.freed.notify_one();
    }
}

/// An agent that waits for its host, until this is dropped.
struct Starting<'a>(&'a AtomicUsize);

impl<'a> Starting<'a> {
    fn begin(n_starting: &'a AtomicUsize) -> Self {
        n_starting.fetch_add(1, Ordering::Relaxed);
        Self(n_starting)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of some code.
#[derive(Debug, Default)]
struct CodeState(Mutex<Known>);

#[derive(Debug, Default)]
enum Known {
    #[default]
    Nothing,
    Zygote {
        zygote: Arc<Zygote>,
        started: Instant,
        used: Instant,
    },
    /// Its modules do something that does not live on in a fork.
    NoForks,
    Failed {
        message: String,
        at: Instant,
    },
}

/// A host, or a zygote to fork one from.
enum Source {
    Zygote(Arc<Zygote>),
    Host(Box<PythonHost>),
    /// Each agent imports the modules itself.
    NoForks,
}

impl Hosts {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
            freed: Condvar::new(),
            n_starting: AtomicUsize::new(0),
        })
    }

    /// A host that has imported `code`: the one `at_hand` or that the agent has at rest, or a new one. Waits for a place, at
    /// most until some host has stopped.
    ///
    /// # Errors
    /// Why none could be started, for the log of the task that needs it.
    pub(crate) fn of(
        self: &Arc<Self>,
        agent: &AgentName,
        code: &Arc<Code>,
        at_hand: Option<Host>,
    ) -> io::Result<Host> {
        let is_fit = |host: &Host| {
            // Of the same content, and its files are still there for what it has not imported yet.
            host.code.key == code.key && (Arc::ptr_eq(&host.code, code) || host.code.is_on_disk())
        };
        let _starting = Starting::begin(&self.n_starting);
        // It has just answered.
        let at_hand_is_alive = at_hand.is_some();
        // One that died while it was at rest is no fault of this task.
        let own = at_hand.or_else(|| self.take_idle(|idle| idle.agent == *agent));
        let place = match own {
            Some(mut host) => {
                if is_fit(&host) && (at_hand_is_alive || host.python.is_alive()) {
                    if host.turn.elapsed() >= TURN {
                        host.turn = Instant::now();
                    }
                    return Ok(host);
                }
                host.stop()
            }
            None => self.place(),
        };
        let again = code.again().map(Arc::new);
        let code = again.as_ref().unwrap_or(code);
        let python = self.start(agent, code)?;
        Ok(Host {
            python,
            code: Arc::clone(code),
            turn: Instant::now(),
            place,
        })
    }

    /// A host has no work any more. It is kept for its agent.
    pub(crate) fn rest(&self, agent: AgentName, host: Host) {
        let since = Instant::now();
        self.state().idle.push(Idle { agent, since, host });
        self.freed.notify_one();
    }

    /// Whether an agent has a host at rest and its turn is not over.
    pub(crate) fn is_warm(&self, agent: &AgentName) -> bool {
        let state = self.state();
        let own = state.idle.iter().find(|idle| idle.agent == *agent);
        own.is_some_and(|idle| idle.host.turn.elapsed() < TURN)
    }

    /// Whether some code is being imported, so that whoever needs it would wait.
    pub(crate) fn is_loading(&self, key: &str) -> bool {
        self.state().loading.contains(key)
    }

    /// Stops what was without work for too long: hosts, then zygotes.
    pub(crate) fn tidy(&self) {
        while let Some(host) = self.take_idle(|idle| idle.since.elapsed() >= self.limits.keep) {
            drop(host.stop());
        }
        let codes: Vec<_> = self.state().codes.clone().into_iter().collect();
        for (key, code) in codes {
            // One that is being started is in use.
            let Ok(mut known) = code.0.try_lock() else {
                continue;
            };
            if known.is_over(self.limits.keep) {
                let over = std::mem::take(&mut *known);
                drop(known);
                // Whoever has looked it up just now starts another one.
                self.state().codes.remove(&key);
                drop(over);
            }
        }
    }

    /// Stops all hosts without work, side by side, so that each has its time to close what its handlers have cached. What works
    /// now ends with the executor.
    pub(crate) fn stop(&self) {
        let deadline = Instant::now() + COMING_TO_REST;
        let mut state = self.state();
        while state.n_places > state.idle.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        std::thread::scope(|scope| {
            for idle in idle {
                let thread = std::thread::Builder::new();
                // Without a thread it is dropped, and ends at once.
                let _ = thread.spawn_scoped(scope, || drop(idle.host.stop()));
            }
        });
    }

    /// How many agents wait for their host just now.
    pub(crate) fn n_starting(&self) -> usize {
        self.n_starting.load(Ordering::Relaxed)
    }

    /// How many hosts there are, with and without work.
    #[cfg(test)]
    pub(crate) fn n_hosts(&self) -> usize {
        self.state().n_places
    }

    fn take_idle(&self, fits: impl Fn(&Idle) -> bool) -> Option<Host> {
        let mut state = self.state();
        let at = state.idle.iter().position(fits)?;
        Some(state.idle.remove(at).host)
    }

    /// A place for a new host: a free one, or, where there is none or many hosts are at rest, that of the host that is without
    /// work for longest.
    fn place(self: &Arc<Self>) -> Place {
        let mut state = self.state();
        loop {
            let rested = state.idle.first().map(|idle| idle.since.elapsed());
            let has_rested = rested.is_some_and(|rested| rested >= GRACE);
            let many_rest = has_rested && state.idle.len() >= Limits::at_rest();
            if state.n_places < self.limits.hosts && !many_rest {
                state.n_places += 1;
                return Place(Arc::clone(self));
            }
            if has_rested {
                let idle = state.idle.remove(0);
                drop(state);
                return idle.host.stop();
            }
            let left = rested.map_or(GRACE, |rested| GRACE.saturating_sub(rested));
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn start(&self, agent: &AgentName, code: &Arc<Code>) -> io::Result<PythonHost> {
        match self.source(agent, code)? {
            Source::Host(host) => Ok(*host),
            Source::NoForks => match python::load(code, agent.as_str(), self.limits.import)? {
                Loaded::Host(host, _) => Ok(*host),
                // It could not be forked before, and can be now: both is as good.
                Loaded::Zygote(zygote) => zygote.fork(agent.as_str()),
            },
            Source::Zygote(zygote) => zygote.fork(agent.as_str()).or_else(|error| {
                tracing::warn!(%error, "a process with imported modules is of no use any more; another one is started");
                self.forget(code, &zygote);
                match self.source(agent, code)? {
                    Source::Zygote(zygote) => zygote.fork(agent.as_str()),
                    Source::Host(host) => Ok(*host),
                    Source::NoForks => Err(error),
                }
            }),
        }
    }

    /// What a host for `code` comes from. Imports the modules if nobody has yet, while all others with that code wait.
    fn source(&self, agent: &AgentName, code: &Arc<Code>) -> io::Result<Source> {
        let state = Arc::clone(self.state().codes.entry(code.key.clone()).or_default());
        let mut known = state.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = known.source()? {
            return Ok(source);
        }
        self.state().loading.insert(code.key.clone());
        let loaded = python::load(code, agent.as_str(), self.limits.import);
        self.state().loading.remove(&code.key);
        let now = Instant::now();
        let (next, source) = match loaded {
            Ok(Loaded::Zygote(zygote)) => {
                let known = Known::Zygote {
                    zygote: Arc::clone(&zygote),
                    started: now,
                    used: now,
                };
                (known, Ok(Source::Zygote(zygote)))
            }
            Ok(Loaded::Host(host, reason)) => {
                tracing::info!(
                    "importing the Python code of {agent} {reason}: {agent} and each other agent with the same code has a \
                     process of its own that imports it anew, which takes more time and memory than a fork"
                );
                (Known::NoForks, Ok(Source::Host(host)))
            }
            Err(error) => {
                tracing::error!(%error, "the Python code of {agent} and all agents with the same cannot be loaded");
                let message = error.to_string();
                (Known::Failed { message, at: now }, Err(error))
            }
        };
        *known = next;
        drop(known);
        self.limit_zygotes();
        source
    }

    fn forget(&self, code: &Code, zygote: &Arc<Zygote>) {
        let Some(state) = self.state().codes.get(&code.key).map(Arc::clone) else {
            return;
        };
        let mut known = state.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*known, Known::Zygote { zygote: held, .. } if Arc::ptr_eq(held, zygote)) {
            *known = Known::Nothing;
        }
    }

    /// Ends zygotes without hosts, beyond those that may be kept: the one that was used longest ago first.
    fn limit_zygotes(&self) {
        let codes: Vec<_> = self.state().codes.values().cloned().collect();
        let mut spare: Vec<_> = codes
            .into_iter()
            .filter_map(|code| {
                let used = code.0.try_lock().ok()?.spare_since()?;
                Some((used, code))
            })
            .collect();
        spare.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
        for (_, code) in spare.into_iter().skip(SPARE_ZYGOTES) {
            if let Ok(mut known) = code.0.try_lock()
                && known.spare_since().is_some()
            {
                *known = Known::Nothing;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Where a host comes from by what is known; `None`: the modules are to be imported.
    fn source(&mut self) -> io::Result<Option<Source>> {
        match self {
            Self::Zygote {
                zygote,
                started,
                used,
            } => {
                let is_stale = !zygote.broken().is_empty() && started.elapsed() >= BROKEN;
                if is_stale || !zygote.is_alive() {
                    return Ok(None);
                }
                *used = Instant::now();
                Ok(Some(Source::Zygote(Arc::clone(zygote))))
            }
            Self::NoForks => Ok(Some(Source::NoForks)),
            Self::Failed { message, at } if at.elapsed() < FAILED => {
                Err(io::Error::other(message.clone()))
            }
            Self::Failed { .. } | Self::Nothing => Ok(None),
        }
    }

    /// Of a zygote without hosts: when it was used last.
    fn spare_since(&self) -> Option<Instant> {
        match self {
            Self::Zygote { zygote, used, .. } if Arc::strong_count(zygote) == 1 => Some(*used),
            _ => None,
        }
    }

    /// Nobody would miss it.
    fn is_over(&self, keep: Duration) -> bool {
        match self {
            Self::Nothing => true,
            Self::Failed { at, .. } => at.elapsed() >= FAILED,
            Self::NoForks => false,
            Self::Zygote { .. } => self
                .spare_since()
                .is_some_and(|used| used.elapsed() >= keep),
        }
    }
}

impl Host {
    /// Ends the host; what its handlers cached is let go of in order. Gives its place.
    fn stop(self) -> Place {
        self.python.stop();
        self.place
    }
}
