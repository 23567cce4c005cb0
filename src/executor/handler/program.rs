//! Programs of this host, as handlers run them: without a shell, with nothing of our environment, in plain English
//! (`LC_ALL=C`), within a time limit, with the beginning of their output kept.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Context, Error};
use crate::process::{self, Captured};

/// Bytes that are kept of each output stream.
const OUTPUT_BYTES: usize = 64 * 1024;
/// The same of an answer that is read by us: all packages of a host, of 100 bytes each.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Where programs are.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The time for what a program started and left behind to say something, too.
const GRACE: Duration = Duration::from_millis(100);
/// How long a question to the system may take: it is answered from memory or files.
const QUESTION: Duration = Duration::from_secs(60);

/// A program that is about to be run.
pub(super) struct Program {
    command: Command,
    /// How messages name it. Arguments are not secret: everybody on the host can see them.
    shown: String,
    input: Option<Vec<u8>>,
    limit: Duration,
    /// Bytes that are kept of each output stream.
    kept: usize,
}

/// What became of a program.
pub(super) struct Done {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Program {
    /// A program that changes the host: it is ended with all that it started when we end.
    pub(super) fn changing(name: &str, limit: Duration) -> Result<Self, Error> {
        Ok(Self::supervised(name, limit)?.directory(Path::new("/")))
    }

    fn supervised(name: &str, limit: Duration) -> Result<Self, Error> {
        let path = find(name)?;
        let fail = |error| Error::Failed(format!("cannot run `{name}`: {error}"));
        let mut command = Command::new(process::own_program().map_err(fail)?);
        let parent = std::process::id().to_string();
        command.args(["supervise", "--parent", &parent]).arg(path);
        Ok(Self::plain(command, name, limit))
    }

    /// A program that only tells something.
    pub(super) fn asking(name: &str) -> Result<Self, Error> {
        let program = Self::plain(Command::new(find(name)?), name, QUESTION);
        Ok(program.directory(Path::new("/")))
    }

    /// A command of the shell, as [`Program::changing`], in our own directory.
    pub(super) fn shell(line: &str, limit: Duration) -> Result<Self, Error> {
        let mut program = Self::supervised("/bin/sh", limit)?;
        program.command.args(["-c", line]);
        line.clone_into(&mut program.shown);
        Ok(program.variable("LANG", "C.UTF-8").without("LC_ALL"))
    }

    fn plain(mut command: Command, name: &str, limit: Duration) -> Self {
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C");
        Self {
            command,
            shown: name.to_owned(),
            input: None,
            limit,
            kept: OUTPUT_BYTES,
        }
    }

    pub(super) fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        for argument in arguments {
            self.command.arg(argument);
            self.shown.push(' ');
            self.shown.push_str(argument);
        }
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    fn without(mut self, variable: &str) -> Self {
        self.command.env_remove(variable);
        self
    }

    pub(super) fn directory(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// For questions with many answers.
    pub(super) fn keep_all(mut self) -> Self {
        self.kept = ANSWER_BYTES;
        self
    }

    pub(super) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// What it reads; never shown.
    pub(super) fn input(mut self, input: String) -> Self {
        self.input = Some(input.into_bytes());
        self
    }

    /// Its name in messages, where an argument is secret.
    pub(super) fn shown_as(mut self, shown: String) -> Self {
        self.shown = shown;
        self
    }

    /// Runs it to its end, whatever its exit code.
    pub(super) fn run(mut self, context: &Context) -> Result<Done, Error> {
        let shown = self.shown;
        let fail = |error: std::io::Error| Error::Failed(format!("cannot run `{shown}`: {error}"));
        let stdin = match self.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        self.command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = self.command.spawn().map_err(fail)?;
        let outputs = capture(child.stdout.take(), self.kept)
            .and_then(|stdout| Ok((stdout, capture(child.stderr.take(), self.kept)?)));
        let (stdout, stderr) = outputs.map_err(|error| {
            process::kill_group_of(child.id());
            fail(error)
        })?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), self.input) {
            // On a thread, since a program need not read it; it ends with the program.
            thread::spawn(move || stdin.write_all(&input));
        }
        let left = context.left().filter(|left| *left < self.limit);
        let status = wait(&mut child, left.unwrap_or(self.limit)).map_err(fail)?;
        let Some(status) = status else {
            let limit = match left {
                Some(_) => "the time of its run (setting `deploy_timeout`)".to_owned(),
                None => format!("{} s", self.limit.as_secs()),
            };
            return Err(Error::Failed(format!(
                "`{shown}` did not end within {limit} and was stopped"
            )));
        };
        let deadline = Instant::now() + GRACE;
        let text =
            |captured: Captured| String::from_utf8_lossy(&captured.take(deadline)).into_owned();
        Ok(Done {
            status,
            stdout: text(stdout),
            stderr: text(stderr),
        })
    }

    /// Runs it, logs what it was, and takes an exit code other than 0 for a failure.
    pub(super) fn must_succeed(self, context: &mut Context) -> Result<Done, Error> {
        let shown = self.shown.clone();
        context.debug(&format!("running `{shown}`"));
        let done = self.run(context)?;
        if done.status.success() {
            return Ok(done);
        }
        Err(done.failure(&shown))
    }
}

impl Done {
    pub(super) fn failure(&self, shown: &str) -> Error {
        Error::Failed(format!(
            "`{shown}` ended with {}{}",
            self.status,
            self.shown()
        ))
    }

    /// What it printed, for a message.
    pub(super) fn shown(&self) -> String {
        let part = |name: &str, text: &str| match text.trim_end() {
            "" => String::new(),
            text => format!("\n{name}: {text}"),
        };
        part("stdout", &self.stdout) + &part("stderr", &self.stderr)
    }
}

/// Whether the host has a program.
pub(super) fn has(name: &str) -> bool {
    find(name).is_ok()
}

/// The file of a program in the usual places.
fn find(name: &str) -> Result<PathBuf, Error> {
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    // An absolute name replaces the directory that it is joined to.
    let mut places = PATH
        .split(':')
        .map(|directory| Path::new(directory).join(name));
    let found = places.find(is_program);
    found.ok_or_else(|| {
        Error::Failed(format!(
            "the program `{name}` is not on this host; install the package that has it (looked in {PATH})"
        ))
    })
}

fn capture(pipe: Option<impl Into<OwnedFd>>, limit: usize) -> std::io::Result<Captured> {
    Captured::begin(pipe.ok_or(std::io::ErrorKind::BrokenPipe)?, limit)
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
