//! A Python host on its way: not started yet, or started and not asked what came of it. Where a host of an earlier compile
//! has the same modules, that one is taken instead when Python is needed.

use std::collections::BTreeMap;

use crate::PythonRuntime;
use crate::protocol::{FromHost, ToHost};
use crate::python_host::declarations::Declarations;
use crate::python_host::load::NoModel;
use crate::python_host::memo::Memo;
use crate::python_host::process::{HostError, Process, TimeLimit};
use crate::python_host::session::{Key, Shelf, answer, changing, digest};

/// All that is needed to start a host and have it import the modules.
pub(in crate::python_host) struct Asleep {
    runtime: PythonRuntime,
    /// The `load_compile`.
    request: ToHost,
    limit: Option<TimeLimit>,
    declarations: Option<Declarations>,
    /// What an earlier compile was answered.
    known: Option<FromHost>,
    /// It was started ahead, and has the request.
    started: Option<Process>,
    /// `None`: nothing is kept, or it was taken.
    memo: Option<Memo>,
    /// Where hosts of earlier compiles are, and this one is kept; `None`: there are none.
    shelf: Option<Shelf>,
}

/// A host that has imported the modules.
pub(in crate::python_host) struct Woken {
    pub(in crate::python_host) process: Process,
    /// What the modules declare, or why they can not be imported.
    pub(in crate::python_host) loaded: FromHost,
    /// Other files that the modules read while they were imported.
    pub(in crate::python_host) read: BTreeMap<String, Option<Key>>,
    pub(in crate::python_host) shelf: Option<Shelf>,
}

impl Drop for Asleep {
    fn drop(&mut self) {
        // It was started ahead and turned out not to be needed: what it is importing has no effect.
        if let Some(process) = self.started.take() {
            process.abandon();
        }
    }
}

impl Asleep {
    pub(in crate::python_host) fn new(
        runtime: PythonRuntime,
        mut request: ToHost,
        limit: Option<TimeLimit>,
        declarations: Option<Declarations>,
        shelf: Option<Shelf>,
    ) -> Self {
        let known = declarations.as_ref().and_then(Declarations::get);
        let memo = declarations.as_ref().map(Declarations::memo);
        if let ToHost::LoadCompile {
            trace, computing, ..
        } = &mut request
        {
            *trace = declarations.is_some() && known.is_none();
            *computing = memo.as_ref().map(|memo| memo.verdicts().clone());
        }
        Self {
            runtime,
            request,
            limit,
            declarations,
            known,
            started: None,
            memo,
            shelf,
        }
    }

    /// A host of an earlier compile with the same modules, if there is one.
    pub(in crate::python_host) fn wake_warm(&mut self) -> Option<Woken> {
        let (hosts, key) = self.shelf.as_ref()?;
        let ToHost::LoadCompile {
            inputs,
            env,
            computing,
            ..
        } = &self.request
        else {
            return None;
        };
        let mut warm = hosts.take(key)?;
        warm.process.limit(self.limit);
        let again = ToHost::Rerun {
            inputs: inputs.clone(),
            env: changing(env).0,
            computing: computing.clone().filter(|_| self.known.is_some()),
        };
        // One that does not listen has ended since: there will be a new one.
        warm.process.send(&again).ok()?;
        Some(Woken {
            process: warm.process,
            loaded: warm.loaded,
            read: warm.read,
            shelf: self.shelf.clone(),
        })
    }

    /// Calls whose answers are known from earlier compiles.
    pub(in crate::python_host) fn take_memo(&mut self) -> Option<Memo> {
        self.memo.take()
    }

    /// What the modules declare, if that is known already.
    pub(in crate::python_host) fn known(&self) -> Option<FromHost> {
        self.known.clone()
    }

    /// Starts it without waiting for it. What goes wrong is the error of [`Asleep::wake`], which tries again.
    pub(in crate::python_host) fn start_ahead(&mut self) {
        let is_warm = self
            .shelf
            .as_ref()
            .is_some_and(|(hosts, key)| hosts.has(key));
        if self.started.is_none()
            && !is_warm
            && let Ok(mut process) = self.start()
            && process.send(&self.request).is_ok()
        {
            self.started = Some(process);
        }
    }

    fn start(&self) -> Result<Process, HostError> {
        let mut process = Process::start(&self.runtime)?;
        process.limit(self.limit);
        Ok(process)
    }

    /// Waits until the modules are imported, or can not be. An error if they declare something else than is known.
    pub(in crate::python_host) fn wake(
        mut self,
        print: &mut dyn FnMut(&str),
    ) -> Result<Woken, HostError> {
        if self.started.is_none()
            && let Some(woken) = self.wake_warm()
        {
            self.confirm(&woken.loaded)?;
            return Ok(woken);
        }
        let interpreter = self.runtime.interpreter.display().to_string();
        let mut process = match self.started.take() {
            Some(mut process) => {
                process.greet(&interpreter)?;
                process
            }
            None => {
                let mut process = self.start()?;
                process.greet(&interpreter)?;
                process.send(&self.request)?;
                process
            }
        };
        let mut questions = NoModel::new(print);
        let loaded = answer(&mut process, &mut questions)?;
        let is_quiet = !questions.has_spoken;
        self.confirm(&loaded)?;
        if let (Some(declarations), None) = (&self.declarations, &self.known) {
            let is_kept = matches!(
                &loaded,
                FromHost::Loaded {
                    depends: Some(_),
                    ..
                }
            );
            if is_kept
                && process.was_silent()
                && is_quiet
                && !declarations.keep(&self.runtime, &self.request, &loaded)
            {
                // The next compile imports them once more, so that it can be kept from then on.
                self.shelf = None;
            }
        }
        let read = match &loaded {
            FromHost::Loaded {
                forks: true, read, ..
            } => {
                let read = read.iter().map(|path| (path.clone(), digest(path)));
                read.collect()
            }
            _ => BTreeMap::new(),
        };
        Ok(Woken {
            process,
            loaded,
            read,
            shelf: self.shelf.take(),
        })
    }

    /// An error if the modules declare something else than is known.
    fn confirm(&self, loaded: &FromHost) -> Result<(), HostError> {
        match (&self.declarations, &self.known) {
            (Some(declarations), Some(known)) if !declarations.confirm(known, loaded.clone()) => {
                Err(HostError::ended(
                    "the modules do not declare what they declared in an earlier compile",
                ))
            }
            _ => Ok(()),
        }
    }
}
