//! A Python host for handlers: a child process that speaks `steward_compiler::protocol` over its pipes.

use std::io::{self, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Map, Value};
use steward_compiler::protocol::{self, FromHost, HandlerOutcome, ToHost};

use super::worker::Code;
use crate::deploy::Task;
use crate::process;

#[derive(Debug)]
pub(super) struct PythonHost {
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
    pub(super) fn start(code: &Code, agent: &str) -> io::Result<Self> {
        let missing = || io::Error::other("no Python of 3.11 or later was found on this machine");
        let python = code.python.as_ref().ok_or_else(missing)?;
        let mut child = python
            .runtime()
            .command("executor")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pipe = || io::Error::other("a pipe to Python is missing");
        let stdin = child.stdin.take().ok_or_else(pipe)?;
        let stdout = BufReader::new(child.stdout.take().ok_or_else(pipe)?);
        let mut host = Self {
            child,
            stdin,
            stdout,
            broken: Vec::new(),
            next: 0,
        };
        match host.read()? {
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
        };
        protocol::write_frame(&mut host.stdin, &load)?;
        match host.read()? {
            FromHost::Handlers { broken, .. } => host.broken = broken,
            other => return Err(unexpected(&other)),
        }
        Ok(host)
    }

    pub(super) fn deploy(
        &mut self,
        task: &Task,
        mut resource: Map<String, Value>,
    ) -> io::Result<HandlerOutcome> {
        let module = task.resource_type.split("::").next().unwrap_or_default();
        if let Some(broken) = self.broken.iter().find(|broken| broken.module == module) {
            let mut context = super::handler::Context::default();
            context.error(&format!(
                "agent {} failed to load the following modules: {}: {}\n{}",
                task.agent, broken.module, broken.message, broken.traceback
            ));
            return Ok(context.into_outcome(crate::domain::HandlerStatus::Unavailable));
        }
        self.next += 1;
        let id = self.next;
        let requires = task.requires.keys().cloned().map(Value::String).collect();
        resource.insert("requires".to_owned(), Value::Array(requires));
        resource.insert(
            "id".to_owned(),
            format!("{},v={}", task.resource_id, task.version).into(),
        );
        let deploy = ToHost::Deploy {
            id,
            resource,
            requires: task.requires.clone(),
            dry_run: task.dry_run,
            reason: task.reason.clone(),
            action_id: task.action.to_string(),
            dependency_changed: task.dependency_changed,
        };
        protocol::write_frame(&mut self.stdin, &deploy)?;
        loop {
            match self.read()? {
                FromHost::Deployed {
                    id: answered,
                    outcome,
                } if answered == id => return Ok(outcome),
                FromHost::Log { level, message } => tracing::info!(level, "{message}"),
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn read(&mut self) -> io::Result<FromHost> {
        match protocol::read_frame(&mut self.stdout)? {
            Some(message) => Ok(message),
            None => {
                let status = self.child.wait()?;
                Err(io::Error::other(format!("the Python host ended: {status}")))
            }
        }
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
