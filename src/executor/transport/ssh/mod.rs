//! An executor on another machine, which OpenSSH's client reaches: the binary of this process goes over first.
//!
//! `ssh` starts a small script there. It makes a folder where programs may run, says how it wants the binary ([`SEND_GZIP`] or
//! [`SEND_PLAIN`]), takes it from its standard input, checks its digest, says [`READY`], and runs it as `steward executor`; from
//! then on the same frames go over the same streams as to an executor of this machine. When the executor ends, the script removes the folder. The executor ends when
//! its input ends, or when nothing came for some time: that is what a cut looks like from there. So nothing stays behind.
//!
//! Everything that is told to `ssh` is an argument of its own, and user and host are checked when they are read
//! ([`SshTarget`]). It never asks anybody (`BatchMode`): a host key that is not known ends the connection, unless the
//! configuration file of `ssh` that the server's configuration names says otherwise.
//!
//! Who wakes what: three tasks, which end with the process. One writes the program and then the frames, with a beat between them;
//! one passes the answers on; one keeps the last lines of what `ssh` prints as errors, which say why it ended.

mod greeting;
mod program;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::StreamReader;

use self::greeting::{Greeting, find_mark, greeted};
use self::program::{CHUNK_BYTES, Program, READY, SEND_GZIP, SEND_PLAIN};
use super::{Connection, Far, RemoteProcess, Transport};
use crate::domain::SshTarget;
use crate::executor::limits::Limits;
use crate::executor::protocol::{BEAT, ExecutorCommand};

/// How long it may take until the executor there says its first word: the binary has some ten megabytes.
const STARTUP: Duration = Duration::from_secs(600);
/// Lines of `ssh` that are kept to say why it ended, and bytes of each.
const ERROR_LINES: usize = 5;
const ERROR_BYTES: usize = 500;
/// Lines of one connection that go into the log of the server.
const LOGGED_LINES: usize = 200;
/// What is written for the other machine and not sent yet, at most; one that does not read gets no more.
const MAX_UNSENT_BYTES: usize = 128 << 20;
/// How long the other machine may take to read what is written at once.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// The same of the binary.
const CARRY_PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take until the script runs: the greeting of the other machine, the check of the key, the start of the shell.
const GREETING_PATIENCE: Duration = Duration::from_secs(60);
/// Pieces of answers that are read ahead.
const PIECES: usize = 16;
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Ssh {
    pub(crate) target: SshTarget,
    pub(crate) limits: Limits,
    /// A configuration file for `ssh`; `None`: that of the server's user.
    pub(crate) config: Option<PathBuf>,
}

impl Transport for Ssh {
    fn connect(&self) -> io::Result<Connection> {
        let program = Program::running()?;
        let mut child = self.command(program).spawn().map_err(|error| {
            io::Error::other(format!("cannot start `ssh`, OpenSSH's client: {error}"))
        })?;
        let missing = || io::Error::other("no pipe to ssh");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let last_lines = LastLines::default();
        let (commands, frames) = mpsc::unbounded_channel();
        let unsent = Arc::new(AtomicUsize::new(0));
        let (answers, pieces) = mpsc::channel(PIECES);
        let (send, may_send) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let errors = tokio::spawn(last_lines.clone().follow(stderr));
        tokio::spawn(write(
            stdin,
            (program, answers.clone()),
            (may_send, is_ready),
            (frames, Arc::clone(&unsent)),
        ));
        let is_reached = Arc::new(AtomicBool::new(false));
        let greeting = (send, ready, Arc::clone(&is_reached));
        tokio::spawn(read(stdout, greeting, answers, last_lines, errors));
        Ok(Connection {
            commands: Box::new(Frames { commands, unsent }),
            replies: Box::new(StreamReader::new(ReceiverStream::new(pieces))),
            process: Box::new(Tunnel(child)),
            is_reached,
        })
    }

    fn far(&self) -> Option<Far> {
        Some(Far {
            startup: STARTUP,
            python: self.target.python.clone(),
        })
    }
}

impl Ssh {
    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new("ssh");
        // Nothing of the server's variables is for another machine.
        command.env_clear();
        for name in ["PATH", "HOME"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.arg("-T");
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=3",
            "ServerAliveCountMax=3",
            "ForwardAgent=no",
            "ForwardX11=no",
            "ClearAllForwardings=yes",
            "PermitLocalCommand=no",
            "EscapeChar=none",
        ] {
            command.args(["-o", option]);
        }
        if let Some(port) = self.target.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &self.target.user {
            command.args(["-l", user]);
        }
        command.arg("--").arg(&self.target.host);
        command.arg(program::script(program, &self.limits));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// Waits until the script runs, writes the binary, waits until it is there, and then writes frames, and a beat where none comes.
async fn write(
    mut stdin: ChildStdin,
    (program, answers): (&'static Program, mpsc::Sender<io::Result<Bytes>>),
    (may_send, is_ready): (oneshot::Receiver<&'static str>, oneshot::Receiver<()>),
    (mut frames, unsent): (mpsc::UnboundedReceiver<Vec<u8>>, Arc<AtomicUsize>),
) {
    let carried = async {
        let mark = greeted(may_send, GREETING_PATIENCE).await?;
        program.send(mark, &mut stdin, CARRY_PATIENCE).await
    };
    match carried.await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let _ = answers.send(Err(error)).await;
            return;
        }
        // Why it failed is what ssh says.
        Err(_) => return,
    }
    // The end of the answers is for their reader to tell.
    drop(answers);
    if is_ready.await.is_err() {
        return;
    }
    let mut beat = Vec::new();
    if steward_compiler::protocol::write_frame(&mut beat, &ExecutorCommand::Alive).is_err() {
        return;
    }
    let mut timer = tokio::time::interval(BEAT);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // Dropping a receive or a tick loses nothing; frames are written in the bodies.
        let (frame, n_counted) = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => {
                    let n_bytes = frame.len();
                    (frame, n_bytes)
                }
                // Closing its input ends the executor.
                None => return,
            },
            _ = timer.tick() => (beat.clone(), 0),
        };
        for chunk in frame.chunks(CHUNK_BYTES) {
            let written = async {
                stdin.write_all(chunk).await?;
                stdin.flush().await
            };
            let written = tokio::time::timeout(WRITE_PATIENCE, written).await;
            if !matches!(written, Ok(Ok(()))) {
                return;
            }
        }
        unsent.fetch_sub(n_counted, Relaxed);
    }
}

/// Passes on what comes, from the mark on. At the end, why it ended.
async fn read(
    stdout: ChildStdout,
    (send, ready, is_reached): (
        oneshot::Sender<&'static str>,
        oneshot::Sender<()>,
        Arc<AtomicBool>,
    ),
    answers: mpsc::Sender<io::Result<Bytes>>,
    last_lines: LastLines,
    errors: tokio::task::JoinHandle<()>,
) {
    let mut stdout = BufReader::new(stdout);
    let mut greeting = find_mark(&mut stdout, &[SEND_GZIP, SEND_PLAIN]).await;
    if let Greeting::Complete(mark) = greeting {
        let _ = send.send(mark);
        greeting = find_mark(&mut stdout, &[READY]).await;
    }
    if matches!(greeting, Greeting::Complete(_)) {
        is_reached.store(true, Relaxed);
        let _ = ready.send(());
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(n_bytes @ 1..) = stdout.read(&mut piece).await {
            let bytes = Bytes::copy_from_slice(&piece[..n_bytes]);
            if answers.send(Ok(bytes)).await.is_err() {
                return;
            }
        }
    }
    // What it has to say has come by then, or does not come.
    let _ = tokio::time::timeout(Duration::from_secs(2), errors).await;
    let message = why_ended(&last_lines.text(), greeting);
    let _ = answers.send(Err(io::Error::other(message))).await;
}

fn why_ended(said: &str, greeting: Greeting) -> String {
    match (greeting, said) {
        (Greeting::TooLong, _) => format!(
            "the shell of the account prints more than {} KiB at a login, before it runs anything",
            greeting::MAX_BYTES >> 10
        ),
        (Greeting::Complete(_), "") => "ssh ended".to_owned(),
        (Greeting::Ended, "") => {
            "ssh ended without a word before anything was started there: the account needs a shell that runs \
             commands, which /bin/false and nologin do not"
                .to_owned()
        }
        (_, said) if said.contains("Permission denied (") => format!(
            "ssh ended: {said} (a key that needs a passphrase is not used, since nobody can be asked for it)"
        ),
        (_, said) => format!("ssh ended: {said}"),
    }
}

/// The last lines that `ssh`, the script or the executor there printed as errors.
#[derive(Debug, Clone, Default)]
struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    async fn follow(self, stderr: tokio::process::ChildStderr) {
        let mut stderr = BufReader::new(stderr);
        let mut line = Vec::new();
        let mut n_lines = 0;
        loop {
            line.clear();
            let mut limited = (&mut stderr).take(PIECE_BYTES as u64);
            match limited.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            let text: String = text.trim().chars().take(ERROR_BYTES).collect();
            n_lines += 1;
            match n_lines {
                ..=LOGGED_LINES => tracing::info!("from the other machine: {text}"),
                n if n == LOGGED_LINES + 1 => {
                    tracing::warn!(
                        "the other machine says more than {LOGGED_LINES} lines; the rest is not logged"
                    );
                }
                _ => {}
            }
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push_back(text);
            if lines.len() > ERROR_LINES {
                lines.pop_front();
            }
        }
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect::<Vec<_>>().join("; ")
    }
}

/// Takes whole frames, as they are written in one piece each, without waiting: the engine's loop is for other machines, too. So
/// what is not sent yet has a limit, and who does not read is cut off.
#[derive(Debug)]
struct Frames {
    commands: mpsc::UnboundedSender<Vec<u8>>,
    /// Bytes of frames that were taken and not sent yet.
    unsent: Arc<AtomicUsize>,
}

impl AsyncWrite for Frames {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        frame: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unsent.load(Relaxed) + frame.len() > MAX_UNSENT_BYTES {
            return Poll::Ready(Err(io::Error::other(
                "the other machine does not read what it is sent",
            )));
        }
        self.unsent.fetch_add(frame.len(), Relaxed);
        Poll::Ready(match self.commands.send(frame.to_vec()) {
            Ok(()) => Ok(frame.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The client. With it the executor there ends, since its input does.
#[derive(Debug)]
struct Tunnel(Child);

impl RemoteProcess for Tunnel {
    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let _ = self.0.wait().await;
        })
    }

    fn end(&mut self) {
        // It has had time to clean up since its commands ended. This is for one that has not.
        let _ = self.0.start_kill();
    }

    fn abort(&mut self) {
        let _ = self.0.start_kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: connections that ended in the middle of a login. Expected: the reason says where to look.
    #[test]
    fn why_a_login_ended_is_named() {
        assert!(why_ended("", Greeting::TooLong).contains("prints more than 64 KiB"));
        assert!(why_ended("", Greeting::Ended).contains("needs a shell"));
        assert_eq!(why_ended("", Greeting::Complete(READY)), "ssh ended");
    }
}
