//! A Python host on its way: not started yet, or started and not asked what came of it.

use crate::PythonRuntime;
use crate::protocol::{FromHost, ToHost};
use crate::python_host::declarations::Declarations;
use crate::python_host::load::NoModel;
use crate::python_host::memo::Memo;
use crate::python_host::process::{HostError, Process, TimeLimit};
use crate::python_host::session::answer;

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
        }
    }

    /// Calls whose answers are known from earlier compiles.
    pub(in crate::python_host) fn take_memo(&mut self) -> Option<Memo> {
        self.memo.take()
    }

    /// What the modules declare, if that is known already.
    pub(in crate::python_host) fn known(&self) -> Option<FromHost> {
        self.known.clone()
    }

    /// Starts it without waiting for it. What goes wrong is told by [`Asleep::wake`], which tries again.
    pub(in crate::python_host) fn start_ahead(&mut self) {
        if self.started.is_none()
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

    /// Waits until the modules are imported, or can not be; the answer to the request. An error if they declare something else
    /// than is known.
    pub(in crate::python_host) fn wake(
        mut self,
        print: &mut dyn FnMut(&str),
    ) -> Result<(Process, FromHost), HostError> {
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
        let answer = answer(&mut process, &mut questions)?;
        let is_quiet = !questions.has_spoken;
        match (&self.declarations, &self.known) {
            (Some(declarations), Some(known)) if !declarations.confirm(known, answer.clone()) => {
                return Err(HostError::ended(
                    "the modules do not declare what they declared in an earlier compile",
                ));
            }
            (Some(declarations), None) => {
                let is_kept = matches!(
                    &answer,
                    FromHost::Loaded {
                        depends: Some(_),
                        ..
                    }
                );
                if is_kept && process.was_silent() && is_quiet {
                    declarations.keep(&self.runtime, &self.request, &answer);
                }
            }
            _ => {}
        }
        Ok((process, answer))
    }
}
