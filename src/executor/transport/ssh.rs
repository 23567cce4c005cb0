//! An executor on another machine, which OpenSSH's client reaches: the binary of this process goes over first.
//!
//! `ssh` starts a small script there. It makes a folder where programs may run, says [`SEND`], takes so many bytes of its standard
//! input as the binary has, checks their digest, says [`READY`], and runs the binary as `steward executor`; from then on the same frames go over the
//! same streams as to an executor of this machine. When the executor ends, the script removes the folder. The executor ends when
//! its input ends, or when nothing came for some time: that is what a cut looks like from there. So nothing stays behind.
//!
//! Everything that is told to `ssh` is an argument of its own, and user and host are checked when they are read
//! ([`SshTarget`]). It never asks anybody (`BatchMode`): a host key that is not known ends the connection, unless the
//! configuration file of `ssh` that the server's configuration names says otherwise.
//!
//! Who wakes what: three tasks, which end with the process. One writes the binary and then the frames, with a beat between them;
//! one passes the answers on; one keeps the last lines of what `ssh` prints as errors, which say why it ended.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::io::StreamReader;

use super::{Connection, Far, RemoteProcess, Transport};
use crate::domain::SshTarget;
use crate::executor::limits::Limits;
use crate::executor::protocol::{BEAT, ExecutorCommand};

/// The line that the script prints when it runs. What shells print at a login comes before it, perhaps without an end of its last
/// line. Nothing is sent before, as what they start then may read it.
const SEND: &str = "steward-send";
/// The line that the script prints when the binary is there.
const READY: &str = "steward-is-here";
/// Bytes that may be printed before either.
const MAX_GREETING_BYTES: usize = 64 << 10;
/// How long it may take until the executor there says its first word: the binary has some ten megabytes.
const STARTUP: Duration = Duration::from_secs(600);
/// Lines of `ssh` that are kept to say why it ended, and bytes of each.
const ERROR_LINES: usize = 5;
const ERROR_BYTES: usize = 500;
/// Lines of one connection that go into the log of the server.
const LOGGED_LINES: usize = 200;
/// What is written for the other machine and not sent yet, at most; one that does not read gets no more.
const MAX_UNSENT_BYTES: usize = 128 << 20;
/// Bytes that are written at once, and how long the other machine may take to read them.
const CHUNK_BYTES: usize = 64 << 10;
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
        let binary = binary()?;
        let mut child = self.command(binary).spawn().map_err(|error| {
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
            (binary, answers.clone()),
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
    fn command(&self, binary: &Binary) -> Command {
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
        command.arg(script(binary, &self.limits));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// This program, as it goes over.
struct Binary {
    path: PathBuf,
    length: u64,
    sha256: String,
}

/// Read once: a program that is replaced while it runs is still the same one.
fn binary() -> io::Result<&'static Binary> {
    static BINARY: OnceLock<Binary> = OnceLock::new();
    if let Some(known) = BINARY.get() {
        return Ok(known);
    }
    let path = crate::process::own_program()?;
    let mut digest = Sha256::new();
    let length = io::copy(&mut std::fs::File::open(&path)?, &mut digest)?;
    let sha256 = hex::encode(digest.finalize());
    Ok(BINARY.get_or_init(|| Binary {
        path,
        length,
        sha256,
    }))
}

/// What the shell there runs. It holds nothing but our own words and numbers, and no single quote.
fn script(binary: &Binary, limits: &Limits) -> String {
    let system = format!("Linux {}", std::env::consts::ARCH);
    let Binary { length, sha256, .. } = binary;
    let (keep, import) = (limits.keep.as_secs(), limits.import.as_secs());
    format!(
        "exec sh -c 'u=$(umask)
umask 077
[ \"$(uname -sm)\" = \"{system}\" ] || {{ echo \"steward: the server runs on {system}, this machine is $(uname -sm): run steward agent here instead\" >&2; exit 72; }}
d=
for p in \"${{TMPDIR:-/tmp}}\" /var/tmp \"$HOME\"; do
[ -d \"$p\" ] && d=$(mktemp -d \"$p/steward-XXXXXXXXXX\" 2>/dev/null) || continue
printf \"#!/bin/sh\n\" 2>/dev/null > \"$d/try\" && chmod 700 \"$d/try\" && \"$d/try\" 2>/dev/null && rm \"$d/try\" && break
rm -rf \"$d\"
d=
done
[ -n \"$d\" ] || {{ echo \"steward: programs cannot run in ${{TMPDIR:-/tmp}}, /var/tmp or $HOME: they are full, mounted noexec, or not for this user; name another folder in TMPDIR, by SetEnv of sshd_config\" >&2; exit 71; }}
trap \"rm -rf \\\"$d\\\" || {{ sleep 1; rm -rf \\\"$d\\\"; }}\" EXIT
trap \"exit 75\" HUP INT TERM PIPE
printf \"\\n%s\\n\" {SEND}
head -c {length} > \"$d/steward\" || {{ echo \"steward: cannot write to $d\" >&2; exit 73; }}
[ \"$(sha256sum < \"$d/steward\" | cut -c 1-64)\" = {sha256} ] || {{ echo \"steward: the program arrived damaged or cut off\" >&2; exit 74; }}
chmod 700 \"$d/steward\"
printf \"\\n%s\\n\" {READY}
\"$d/steward\" executor --carried \"$d\" --umask \"$u\" --keep {keep} --import-timeout {import}'"
    )
}

/// Waits until the script runs, writes the binary, waits until it is there, and then writes frames, and a beat where none comes.
async fn write(
    mut stdin: ChildStdin,
    (binary, answers): (&'static Binary, mpsc::Sender<io::Result<Bytes>>),
    (may_send, is_ready): (oneshot::Receiver<()>, oneshot::Receiver<()>),
    (mut frames, unsent): (mpsc::UnboundedReceiver<Vec<u8>>, Arc<AtomicUsize>),
) {
    let carried = async {
        greeted(may_send, GREETING_PATIENCE).await?;
        let file = tokio::fs::File::open(&binary.path).await?;
        carry(file, &mut stdin, CARRY_PATIENCE).await
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

/// Waits for the script. What the shell there starts at a login may hang, or ask a question that nobody answers.
async fn greeted(may_send: oneshot::Receiver<()>, patience: Duration) -> io::Result<()> {
    match tokio::time::timeout(patience, may_send).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the other machine ran nothing for {} s: what its shell starts at a login may hang, wait for an answer, or hide \
                 what is printed",
                patience.as_secs()
            ),
        )),
    }
}

/// Writes the binary. The other side may hang before it has read all of it.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    into: &mut (impl AsyncWrite + Unpin),
    patience: Duration,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n_bytes = from.read(&mut chunk).await?;
        if n_bytes == 0 {
            return into.flush().await;
        }
        let written = into.write_all(&chunk[..n_bytes]);
        let Ok(written) = tokio::time::timeout(patience, written).await else {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "the other machine read nothing of the program for {} s",
                    patience.as_secs()
                ),
            ));
        };
        written?;
    }
}

/// Passes on what comes, from the mark on. At the end, why it ended.
async fn read(
    stdout: ChildStdout,
    (send, ready, is_reached): (oneshot::Sender<()>, oneshot::Sender<()>, Arc<AtomicBool>),
    answers: mpsc::Sender<io::Result<Bytes>>,
    last_lines: LastLines,
    errors: tokio::task::JoinHandle<()>,
) {
    let mut stdout = BufReader::new(stdout);
    let mut greeting = find_mark(&mut stdout, SEND).await;
    if greeting == Greeting::Complete {
        let _ = send.send(());
        greeting = find_mark(&mut stdout, READY).await;
    }
    if greeting == Greeting::Complete {
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

/// What came before a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// The mark came behind it.
    Complete,
    TooLong,
    /// It ended without the mark.
    Ended,
}

fn why_ended(said: &str, greeting: Greeting) -> String {
    match (greeting, said) {
        (Greeting::TooLong, _) => format!(
            "the shell of the account prints more than {} KiB at a login, before it runs anything",
            MAX_GREETING_BYTES >> 10
        ),
        (Greeting::Complete, "") => "ssh ended".to_owned(),
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

/// Skips what is printed before the mark.
async fn find_mark(stdout: &mut (impl AsyncBufRead + Unpin), mark: &str) -> Greeting {
    let mut n_bytes = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let rest = MAX_GREETING_BYTES.saturating_sub(n_bytes) as u64;
        if rest == 0 {
            return Greeting::TooLong;
        }
        let mut limited = (&mut *stdout).take(rest);
        match limited.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return Greeting::Ended,
            Ok(n) => n_bytes += n,
        }
        if line.trim_ascii() == mark.as_bytes() {
            return Greeting::Complete;
        }
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

    const SHORT: Duration = Duration::from_millis(100);

    /// Given: a machine whose shell hangs before the script runs, or prints without end. Expected: nothing is sent, and the reason
    /// says where to look.
    #[tokio::test]
    async fn a_shell_that_hangs_or_prints_without_end_is_given_up() {
        let (_held, may_send) = oneshot::channel();
        let hung = greeted(may_send, SHORT).await.unwrap_err();
        assert!(hung.to_string().contains("at a login may hang"), "{hung}");
        let endless = vec![b'x'; 2 * MAX_GREETING_BYTES];
        let greeting = find_mark(&mut &endless[..], SEND).await;
        assert_eq!(greeting, Greeting::TooLong);
        assert!(why_ended("", greeting).contains("prints more than 64 KiB"));
        let greeting = find_mark(&mut &b"Welcome\nsteward-send\n"[..], SEND).await;
        assert_eq!(greeting, Greeting::Complete);
    }

    /// Input: a machine that stops to read in the middle of the program (docs/reference/security.md § 3.19). Answer: the transfer ends with a reason when its time is over; one that is only slow gets all.
    #[tokio::test]
    async fn a_machine_that_reads_nothing_of_the_program_is_given_up() {
        let program = vec![7; 3 * CHUNK_BYTES];
        let (mut into, mut far) = tokio::io::duplex(CHUNK_BYTES);
        let hung = carry(&program[..], &mut into, SHORT).await.unwrap_err();
        assert!(hung.to_string().contains("read nothing"), "{hung}");
        let mut rest = vec![0; CHUNK_BYTES];
        far.read_exact(&mut rest).await.unwrap();
        let (mut into, mut far) = tokio::io::duplex(CHUNK_BYTES);
        let slow = async {
            let mut n_read = 0;
            while n_read < 3 * CHUNK_BYTES {
                tokio::time::sleep(SHORT / 10).await;
                n_read += far.read(&mut rest).await.unwrap();
            }
        };
        let (carried, ()) = tokio::join!(
            carry(&program[..], &mut into, Duration::from_secs(600)),
            slow
        );
        carried.unwrap();
    }
}
