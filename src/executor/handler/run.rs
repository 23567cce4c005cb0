//! `exec::Run` and `steward::Command`: a shell command, guarded by `creates`, `removes`, `onlyif` and `unless`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::program::{Done, Program};
use super::{Attributes, Context, Error, Handler, flag, text};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) struct Run;

impl Handler for Run {
    /// `executed` is what a guard says: done already, or to do.
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let executed = is_done(context, desired)?;
        let mut current = Attributes::new();
        if !executed {
            // Differs from the command itself, so that the change names what is to be run.
            current.insert("command".to_owned(), Value::Null);
        }
        Ok(Some(current))
    }

    fn create(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        execute(context, desired, text(desired, "command"))
    }

    fn delete(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn reload(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        match text(desired, "reload") {
            "" if flag(desired, "reload_only") => {
                execute(context, desired, text(desired, "command"))
            }
            "" => Ok(()),
            reload => execute(context, desired, reload),
        }
    }
}

fn is_done(context: &mut Context, desired: &Attributes) -> Result<bool, Error> {
    if flag(desired, "reload_only") {
        return Ok(true);
    }
    let creates = text(desired, "creates");
    if !creates.is_empty() && Path::new(text(desired, "cwd")).join(creates).exists() {
        context.debug(&format!("{creates} exists: nothing to run"));
        return Ok(true);
    }
    let removes = text(desired, "removes");
    if !removes.is_empty() && !Path::new(text(desired, "cwd")).join(removes).exists() {
        context.debug(&format!("{removes} does not exist: nothing to run"));
        return Ok(true);
    }
    let cwd = text(desired, "cwd");
    if context.is_dry_run && !cwd.is_empty() && !Path::new(cwd).is_dir() {
        // A deploy makes it first, if it is a resource; what the guards would say in it is not known before.
        context.debug(&format!("{cwd} does not exist yet: no guard can be asked"));
        return Ok(false);
    }
    for (guard, runs_on_success) in [("unless", false), ("onlyif", true)] {
        let command = text(desired, guard);
        if command.is_empty() {
            continue;
        }
        let done = run(context, desired, command)?;
        if done.status.success() != runs_on_success {
            context.debug(&format!(
                "`{guard}` ended with {}: nothing to run",
                done.status
            ));
            return Ok(true);
        }
    }
    Ok(false)
}

fn execute(context: &mut Context, desired: &Attributes, command: &str) -> Result<(), Error> {
    context.debug(&format!("running `{command}`"));
    let done = run(context, desired, command)?;
    let code = done.status.code().map(i64::from);
    let allowed = desired.get("returns").and_then(Value::as_array);
    let is_unchanged = found_nothing_to_do(desired, &done);
    let good = match (code, allowed) {
        (Some(code), Some(allowed)) if !allowed.is_empty() => allowed.contains(&json!(code)),
        (code, _) => code == Some(0),
    };
    if good || is_unchanged == Some(Because::OfItsExitCode) {
        if is_unchanged.is_some() {
            context.nothing_changed();
        }
        context.info(&format!(
            "`{command}` ended with {}{}",
            done.status,
            done.shown()
        ));
        return Ok(());
    }
    let message = format!("`{command}` ended with {}{}", done.status, done.shown());
    Err(if flag(desired, "skip_on_fail") {
        Error::Skip(message)
    } else {
        Error::Failed(message)
    })
}

/// By what a command says that it changed nothing.
#[derive(PartialEq, Eq)]
enum Because {
    OfItsExitCode,
    OfItsOutput,
}

fn found_nothing_to_do(desired: &Attributes, done: &Done) -> Option<Because> {
    let codes = desired.get("unchanged_returns").and_then(Value::as_array);
    let code = done.status.code().map(|code| json!(code));
    if let (Some(codes), Some(code)) = (codes, code)
        && codes.contains(&code)
    {
        return Some(Because::OfItsExitCode);
    }
    let mark = text(desired, "unchanged_output");
    let is_printed = !mark.is_empty() && (done.stdout.contains(mark) || done.stderr.contains(mark));
    is_printed.then_some(Because::OfItsOutput)
}

/// Runs a shell command with nothing of our environment, in a process group that is killed at the timeout.
fn run(context: &Context, desired: &Attributes, command: &str) -> Result<Done, Error> {
    let timeout = desired
        .get("timeout")
        .and_then(Value::as_u64)
        .filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let mut shell = Program::shell(command, timeout)?;
    let path = text(desired, "path");
    if !path.is_empty() {
        shell = shell.variable("PATH", path);
    }
    if let Some(environment) = desired.get("environment").and_then(Value::as_object) {
        for (name, value) in environment {
            let other = value.to_string();
            shell = shell.variable(name, value.as_str().unwrap_or(&other));
        }
    }
    let cwd = text(desired, "cwd");
    if !cwd.is_empty() {
        if !Path::new(cwd).is_dir() {
            return Err(Error::Failed(format!(
                "the working directory {cwd} does not exist"
            )));
        }
        shell = shell.directory(Path::new(cwd));
    }
    shell.run(context)
}
