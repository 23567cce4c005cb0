//! `exec::Run`: a shell command, guarded by `creates`, `onlyif` and `unless`.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Attributes, Context, Error, Handler, flag, text};
use crate::process;

/// Bytes that are kept of each output stream.
const OUTPUT_BYTES: usize = 64 * 1024;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
    let good = match (code, allowed) {
        (Some(code), Some(allowed)) if !allowed.is_empty() => allowed.contains(&json!(code)),
        (code, _) => code == Some(0),
    };
    if good {
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

struct Done {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Done {
    fn shown(&self) -> String {
        let part = |name: &str, text: &str| match text.trim_end() {
            "" => String::new(),
            text => format!("\n{name}: {text}"),
        };
        part("stdout", &self.stdout) + &part("stderr", &self.stderr)
    }
}

/// Runs a shell command with nothing of our environment, in a process group that is killed at the timeout.
fn run(context: &Context, desired: &Attributes, command: &str) -> Result<Done, Error> {
    let fail = |error: std::io::Error| Error::Failed(format!("cannot run `{command}`: {error}"));
    let path = match text(desired, "path") {
        "" => PATH,
        path => path,
    };
    // Through this program, which ends the shell and all in its group when we end.
    let mut shell = Command::new(process::own_program().map_err(fail)?);
    shell
        .args(["supervise", "--parent", &std::process::id().to_string()])
        .args(["/bin/sh", "-c", command])
        .env_clear()
        .env("PATH", path)
        .env("LANG", "C.UTF-8");
    if let Some(environment) = desired.get("environment").and_then(Value::as_object) {
        let as_text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        shell.envs(
            environment
                .iter()
                .map(|(name, value)| (name, as_text(value))),
        );
    }
    let cwd = text(desired, "cwd");
    if !cwd.is_empty() {
        if !Path::new(cwd).is_dir() {
            return Err(Error::Failed(format!(
                "the working directory {cwd} does not exist"
            )));
        }
        shell.current_dir(cwd);
    }
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = shell.spawn().map_err(fail)?;
    let stdout = capture(child.stdout.take());
    let stderr = capture(child.stderr.take());
    let timeout = desired
        .get("timeout")
        .and_then(Value::as_u64)
        .filter(|seconds| *seconds > 0);
    let timeout = timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let left = context.left().filter(|left| *left < timeout);
    let status = wait(&mut child, left.unwrap_or(timeout)).map_err(fail)?;
    let Some(status) = status else {
        let limit = match left {
            Some(_) => "the time of its run (setting `deploy_timeout`)".to_owned(),
            None => format!("{} s", timeout.as_secs()),
        };
        return Err(Error::Failed(format!(
            "`{command}` did not end within {limit} and was stopped"
        )));
    };
    Ok(Done {
        status,
        stdout: stdout.text(),
        stderr: stderr.text(),
    })
}

/// The kept beginning of a stream that a thread reads to its end.
struct Capture {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
}

/// Reads a stream to its end, keeping its beginning. A daemon that the command left behind may hold the stream open for
/// as long as it likes: the thread goes on draining it.
fn capture(stream: Option<impl Read + Send + 'static>) -> Capture {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&kept);
    let reader = thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 8192];
        while let Ok(n_bytes @ 1..) = stream.read(&mut buffer) {
            let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OUTPUT_BYTES.saturating_sub(kept.len()).min(n_bytes);
            kept.extend_from_slice(&buffer[..room]);
        }
    });
    Capture { kept, reader }
}

impl Capture {
    /// What came until now; waits a moment for the end of the stream.
    fn text(self) -> String {
        let deadline = Instant::now() + Duration::from_millis(100);
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_micros(200));
        }
        String::from_utf8_lossy(&self.kept.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }
}

/// `None`: the timeout came first, and the group was killed.
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            // With all that the command started.
            process::kill_group_of(child.id());
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
