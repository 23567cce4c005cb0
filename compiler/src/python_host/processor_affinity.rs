//! Two processes that take turns, on one processor.
//!
//! While a host answers, the thread that asked sleeps, and the other way round; so a second
//! processor is no help to them. But the system wakes who sleeps on an idle processor if there is
//! one, and to wake that takes longer than a whole call does: on a virtual machine 40 µs and more,
//! twice a call, where a switch on one processor takes 2. Hence who is woken may run on the
//! processor of the other one only, for as long as it sleeps: both are free to move while they run.
//!
//! Nothing depends on it but speed. Whatever the system refuses is left as it was.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Messages after which the host's process is not looked for any more.
const LOOKS: u32 = 100;

/// The processors that the two sides of one session may run on.
pub(in crate::python_host) struct ProcessorAffinity {
    /// Where the asking thread may run otherwise.
    all: CpuSet,
    /// The process that we started.
    child: Pid,
    /// A fork of it answers.
    is_fork: bool,
    /// The process that answers; `None`: a fork of our child that is not found yet.
    host: Option<Pid>,
    n_looks: u32,
    /// Where the asking thread was when it woke the host.
    here: Option<CpuSet>,
}

impl ProcessorAffinity {
    /// `None`: there is no choice of processors, or no way to choose.
    pub(in crate::python_host) fn of(child: u32, is_fork: bool) -> Option<ProcessorAffinity> {
        let all = sched_getaffinity(None).ok()?;
        let child = Pid::from_raw(child.try_into().ok()?)?;
        (all.count() > 1).then_some(ProcessorAffinity {
            all,
            child,
            is_fork,
            host: (!is_fork).then_some(child),
            n_looks: 0,
            here: None,
        })
    }

    /// To be called before the host is woken: it may run on our processor only.
    pub(in crate::python_host) fn wake(&mut self) {
        let Some(host) = self.host.or_else(|| self.find()) else {
            return;
        };
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        self.here = sched_setaffinity(Some(host), &here).is_ok().then_some(here);
        if self.here.is_none() && self.is_fork {
            // That of another session, which has ended.
            self.host = None;
        }
    }

    /// Waits for the host by way of `receive`.
    pub(in crate::python_host) fn wait<T>(&mut self, receive: impl FnOnce() -> T) -> T {
        let Some(here) = self.here.take() else {
            return receive();
        };
        let is_held = sched_setaffinity(None, &here).is_ok();
        let answer = receive();
        if is_held {
            // A processor that is gone meanwhile is none to go back to; there is nobody to tell.
            let _ = sched_setaffinity(None, &self.all);
        }
        answer
    }

    /// The fork of our child that answers: its only child, as long as no module has started a process of its own. One that
    /// is taken for it by mistake has started below it, and loses nothing but its choice of processors.
    fn find(&mut self) -> Option<Pid> {
        if self.n_looks == LOOKS {
            return None;
        }
        self.n_looks += 1;
        let child = self.child.as_raw_nonzero();
        let children =
            std::fs::read_to_string(format!("/proc/{child}/task/{child}/children")).ok()?;
        let mut ids = children.split_whitespace();
        let id = ids.next()?.parse().ok()?;
        self.host = ids.next().is_none().then(|| Pid::from_raw(id)).flatten();
        self.host
    }
}
