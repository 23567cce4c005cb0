//! A Python host for handlers: a child process that speaks `steward_compiler::protocol` over its pipes.
//!
//! Each exchange with it has a limit, at which the host is ended; whoever gets an error drops the host.

mod watchdog;

use std::io::{self, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Map, Value};
use steward_compiler::protocol::{self, FromHost, ToHost};

use crate::executor::agent::Ask;
use crate::executor::bounds::MAX_REPLY_BYTES;
use crate::executor::code_folder::Code;
use crate::executor::output_capture as printed;
use crate::executor::protocol::{Task, TaskKind, TaskOutcome};
use crate::executor::python::watchdog::Watchdog;
use crate::process;

/// How long module code may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The time for the start and the import of all modules.
    pub import: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            import: Duration::from_secs(120),
        }
    }
}

/// A host that is asked to end has this long for its delete hooks.
const STOP: Duration = Duration::from_secs(3);
/// A host that was ended has this long to be gone before its status is asked for.
const END: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct PythonHost {
    watchdog: Watchdog,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Module → why its import failed.
    broken: Vec<protocol::BrokenModule>,
    next: u64,
}

impl Drop for PythonHost {
    fn drop(&mut self) {
        // With all that its handlers started.
        let _ = process::end_group(&mut self.child, Duration::ZERO);
    }
}

impl PythonHost {
    /// Starts a host and lets it import the modules of `code`.
    pub(crate) fn start(code: &Code, agent: &str, limits: Limits) -> io::Result<Self> {
        let missing = || io::Error::other("no Python of 3.11 or later was found on this machine");
        let python = code.python.as_ref().ok_or_else(missing)?;
        let mut child = python
            .runtime()
            .command("executor")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pipe = || io::Error::other("a pipe to Python is missing");
        let stdin = child.stdin.take().ok_or_else(pipe)?;
        let stdout = BufReader::new(child.stdout.take().ok_or_else(pipe)?);
        if let Some(stderr) = child.stderr.take() {
            printed::follow(stderr, agent);
        }
        let mut host = Self {
            watchdog: Watchdog::start(child.id()),
            child,
            stdin,
            stdout,
            broken: Vec::new(),
            next: 0,
        };
        host.within("importing the Python modules", limits.import, "", |host| {
            host.load(code, agent)
        })?;
        Ok(host)
    }

    fn load(&mut self, code: &Code, agent: &str) -> io::Result<()> {
        match self.read()? {
            FromHost::Hello {
                protocol: protocol::VERSION,
                ..
            } => {}
            other => return Err(unexpected(&other)),
        }
        let load = ToHost::LoadExecutor {
            modules: code.modules.clone(),
            environment_id: code.environment_id.to_string(),
            agent: agent.to_owned(),
            files: code
                .python
                .as_ref()
                .and_then(|python| Some(python.files.as_ref()?.display().to_string())),
        };
        protocol::write_frame(&mut self.stdin, &load)?;
        match self.read()? {
            FromHost::Handlers { broken, .. } => {
                self.broken = code.broken.iter().cloned().chain(broken).collect();
            }
            other => return Err(unexpected(&other)),
        }
        Ok(())
    }

    /// Runs one resource through its handler. After an error the host is of no use any more.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn deploy(
        &mut self,
        task: &Task,
        mut resource: Map<String, Value>,
        ask: &Ask,
    ) -> io::Result<TaskOutcome> {
        let module = task.resource_type.split("::").next().unwrap_or_default();
        if let Some(broken) = self.broken.iter().find(|broken| broken.module == module) {
            let mut context = crate::executor::handler::Context::default();
            context.error(&format!(
                "agent {} failed to load the following modules: {}: {}\n{}",
                task.agent, broken.module, broken.message, broken.traceback
            ));
            return Ok(context.into_outcome(crate::domain::HandlerStatus::Unavailable));
        }
        self.next += 1;
        let id = self.next;
        let requires = task.requires();
        let ids = requires.keys().cloned().map(Value::String).collect();
        resource.insert("requires".to_owned(), Value::Array(ids));
        resource.insert(
            "id".to_owned(),
            format!("{},v={}", task.resource_id, task.version).into(),
        );
        let action_id = task.action.to_string();
        let deploy = |resource, action_id, dependency_changed| ToHost::Deploy {
            id,
            resource,
            requires,
            dry_run: task.is_dry_run(),
            reason: task.reason.clone(),
            action_id,
            dependency_changed,
        };
        let request = match task.kind {
            TaskKind::Deploy {
                dependency_changed, ..
            } => deploy(resource, action_id, dependency_changed),
            TaskKind::DryRun { .. } => deploy(resource, action_id, false),
            TaskKind::CollectFacts => ToHost::Facts {
                id,
                resource,
                action_id,
            },
        };
        let setting = " (setting `deploy_timeout`)";
        self.within("its handler", task.limit(), setting, |host| {
            protocol::write_frame(&mut host.stdin, &request)?;
            loop {
                match host.read()? {
                    FromHost::Deployed {
                        id: answered,
                        outcome,
                    } if answered == id => return Ok(outcome.into()),
                    // Our host never sends any: what handlers log is in the outcome.
                    FromHost::Log { .. } => {}
                    FromHost::Api { method, arguments } => {
                        let (code, body) = ask(method, arguments);
                        let answer = ToHost::ApiAnswer { code, body };
                        protocol::write_frame(&mut host.stdin, &answer)?;
                    }
                    other => return Err(unexpected(&other)),
                }
            }
        })
    }

    /// Lets the host run its delete hooks and end; one that takes too long for that is ended.
    pub(crate) fn stop(mut self) {
        let stopped = self.within("the end of the Python host", STOP, "", |host| {
            protocol::write_frame(&mut host.stdin, &ToHost::Stop)?;
            while !matches!(host.read()?, FromHost::Bye) {}
            Ok(())
        });
        if let Err(error) = stopped {
            tracing::warn!(%error, "a Python host did not end in order");
        }
    }

    /// One exchange, `what` in words, that the host does not survive if it takes longer than `limit`, which a `setting` may
    /// give.
    fn within<T>(
        &mut self,
        what: &str,
        limit: Duration,
        setting: &str,
        exchange: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        self.watchdog.arm(limit);
        let result = exchange(self);
        if self.watchdog.disarm() {
            return Err(io::Error::other(format!(
                "{what} did not end within {} s{setting} and was stopped",
                limit.as_secs_f64()
            )));
        }
        match result {
            // The exchange is over, so the child may be waited for.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let status = process::end_group(&mut self.child, END)?;
                Err(io::Error::other(format!("the Python host ended: {status}")))
            }
            result => result,
        }
    }

    fn read(&mut self) -> io::Result<FromHost> {
        protocol::read_frame_within(&mut self.stdout, MAX_REPLY_BYTES)?
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn unexpected(message: &FromHost) -> io::Error {
    let text = format!("{message:?}");
    io::Error::other(format!(
        "an unexpected answer of the Python host: {}",
        text.chars().take(200).collect::<String>()
    ))
}

#[cfg(test)]
mod tests;
