//! Git's protocol through the system's `ssh`, for reading only.
//!
//! The program runs in a process group of its own with an empty environment, no configuration file, no agent and
//! nobody to ask; a host that is not known is refused. A watchdog kills the group when the fetch passes its
//! deadline, or when the other side is silent for too long while we wait for it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{REFS_MAX_BYTES, Session, check_format};
use crate::domain::printable;
use crate::git::error::Error;
use crate::git::rules::{Reach, is_private};
use crate::git::url::Address;
use crate::process::Captured;

const CONNECT_TIMEOUT_S: u64 = 15;
/// Known hosts of a large site are some MiB; a key is far smaller.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// What is kept of the complaints of `ssh` and of the other side.
const MAX_STDERR_BYTES: usize = 16 << 10;

pub(super) fn create(
    remote: &git2::Remote<'_>,
    session: Arc<Session>,
) -> Result<Transport, git2::Error> {
    Transport::smart(remote, false, Ssh(session))
}

struct Ssh(Arc<Session>);

impl SmartSubtransport for Ssh {
    fn action(
        &self,
        _url: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        match service {
            // libgit2 asks for this one only, and goes on with the same stream.
            Service::UploadPackLs => match Connection::open(&self.0) {
                Ok(connection) => Ok(Box::new(connection)),
                Err(error) => {
                    self.0.fail(error);
                    Err(git2::Error::from_str("the transport failed"))
                }
            },
            Service::UploadPack | Service::ReceivePackLs | Service::ReceivePack => {
                Err(git2::Error::from_str("only fetching is supported"))
            }
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// A running `ssh`. Dropping it ends the program and all it started.
struct Connection {
    session: Arc<Session>,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: Option<Captured>,
    /// When the wait for the other side began; `None` while we do not wait.
    waiting_since: Arc<Mutex<Option<Instant>>>,
    watchdog: Option<(Sender<()>, JoinHandle<()>)>,
    n_bytes: u64,
    has_written: bool,
    /// The start of the refs, until the format of ids was looked up in it.
    first_bytes: Option<Vec<u8>>,
}

impl Connection {
    fn open(session: &Arc<Session>) -> Result<Connection, Error> {
        let failed = |error: io::Error| session.unreachable(&format!("cannot run ssh: {error}"));
        let mut child = command(session)?.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        let stdin = child.stdin.take();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(session.unreachable("cannot run ssh"));
        };
        let stderr = Captured::begin(stderr, MAX_STDERR_BYTES).map_err(failed)?;
        let waiting_since = Arc::new(Mutex::new(None));
        let (stop, stopped) = mpsc::channel();
        let watched = (session.clone(), waiting_since.clone());
        let watchdog = thread::spawn(move || {
            while let Some(patience) = patience(&watched.0, &watched.1) {
                match stopped.recv_timeout(patience) {
                    Err(RecvTimeoutError::Timeout) => (),
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            watched.0.fail(watched.0.too_slow());
            let _ = kill_process_group(pid, Signal::KILL);
        });
        Ok(Connection {
            session: session.clone(),
            child,
            stdin,
            stdout,
            stderr: Some(stderr),
            waiting_since,
            watchdog: Some((stop, watchdog)),
            n_bytes: 0,
            has_written: false,
            first_bytes: Some(Vec::new()),
        })
    }

    fn wait_for<T>(&mut self, work: impl FnOnce(&mut Connection) -> T) -> T {
        *self
            .waiting_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let result = work(self);
        *self
            .waiting_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        result
    }

    /// Why the other side ended the conversation, from what was said on standard error.
    fn explain_end(&mut self) -> Error {
        const PATIENCE: Duration = Duration::from_secs(2);
        let written = self.stderr.take();
        let written = written.map(|stderr| stderr.take(Instant::now() + PATIENCE));
        let text = String::from_utf8_lossy(&written.unwrap_or_default()).into_owned();
        let has = |needle: &str| text.contains(needle);
        let session = &self.session;
        if has("Permission denied (") || has("Too many authentication failures") {
            session.authentication("the host did not accept the ssh key")
        } else if has("IDENTIFICATION HAS CHANGED") {
            session.unreachable(
                "the host key has changed; if that is right, correct it in known_hosts",
            )
        } else if has("Host key verification failed") || has("host key is known") {
            session.unreachable("the host key is not known; add it to known_hosts")
        } else if has("No user exists for uid") {
            session.unreachable(
                "ssh wants the user of this server to be in /etc/passwd; `systemd/README.md` says how with systemd",
            )
        } else if has("does not appear to be a git repository")
            || has("epository not found")
            || has("not found.")
        {
            session.not_a_repository("the host knows none there")
        } else {
            let last = text.lines().rev().find(|line| !line.trim().is_empty());
            session.unreachable(last.unwrap_or("ssh ended without a word"))
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.wait_for(|connection| connection.stdout.read(buffer))?;
        if n == 0 && !buffer.is_empty() {
            let error = self.explain_end();
            self.session.fail(error);
        }
        self.n_bytes += n as u64;
        // We write nothing before all refs are read.
        let max_bytes = match self.has_written {
            true => self.session.options.bytes,
            false => self.session.options.bytes.min(REFS_MAX_BYTES),
        };
        if self.n_bytes > max_bytes {
            self.session.fail(self.session.too_large(max_bytes));
            return Err(io::Error::other("the answer is too large"));
        }
        self.session.received(n)?;
        if let Some(first_bytes) = &mut self.first_bytes {
            first_bytes.extend_from_slice(&buffer[..n]);
            check_format(&self.session, first_bytes)?;
            if first_bytes.contains(&b'\n') {
                self.first_bytes = None;
            }
        }
        Ok(n)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.has_written = true;
        self.wait_for(|connection| match &mut connection.stdin {
            Some(stdin) => stdin.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Some((stop, watchdog)) = self.watchdog.take() {
            drop(stop);
            let _ = watchdog.join();
        }
        // Only now may the child be reaped: until then its number cannot belong to another process.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// How long the watchdog may sleep; `None` when the time is over.
fn patience(session: &Session, waiting_since: &Mutex<Option<Instant>>) -> Option<Duration> {
    let remaining = session.remaining()?;
    let silence = session.options.silence;
    let waited = waiting_since
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .map(|since| since.elapsed());
    let left = match waited {
        Some(waited) => silence.checked_sub(waited).filter(|left| !left.is_zero())?,
        None => silence,
    };
    Some(remaining.min(left))
}

fn command(session: &Session) -> Result<Command, Error> {
    let Address::Ssh {
        user,
        host,
        port,
        path,
    } = &session.address
    else {
        return Err(session.unreachable("this is no ssh address"));
    };
    let mut command = Command::new(&session.options.ssh);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LC_ALL", "C");
    command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.args(["-F", "none", "-T", "-x", "-a"]);
    for option in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "ControlMaster=no",
        "ControlPath=none",
        "LogLevel=ERROR",
    ] {
        command.args(["-o", option]);
    }
    command.args(["-o", &format!("ConnectTimeout={CONNECT_TIMEOUT_S}")]);
    let credentials = &session.credentials;
    if let Some(known_hosts) = &credentials.known_hosts {
        let known_hosts = escape(session, known_hosts)?;
        command.args(["-o", &format!("UserKnownHostsFile=\"{known_hosts}\"")]);
        command.args(["-o", "GlobalKnownHostsFile=none"]);
    }
    if let Some(key) = &credentials.ssh_key {
        let key = escape(session, key)?;
        command.args([
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            &format!("IdentityFile=\"{key}\""),
        ]);
    }
    let files = [&credentials.known_hosts, &credentials.ssh_key];
    for file in files.into_iter().flatten().filter(|file| file.exists()) {
        check_ssh_file(file).map_err(|message| session.unreachable(&message))?;
    }
    if let Some(port) = port {
        command.args(["-p", &port.to_string()]);
    }
    if let Some(user) = user {
        command.args(["-l", user]);
    }
    if session.options.reach == Reach::Public {
        let address = public_address(session, host, port.unwrap_or(22))?;
        // Known hosts are looked up by the name, as without this.
        let alias = match port {
            Some(port) => format!("[{}]:{port}", host.trim_matches(['[', ']'])),
            None => host.trim_matches(['[', ']']).to_owned(),
        };
        command.args(["-o", &format!("HostName={address}")]);
        command.args(["-o", &format!("HostKeyAlias={alias}")]);
    }
    // The parser of addresses allows no quote in `path`.
    let upload_pack = format!("git-upload-pack '{path}'");
    command.args(["--", host.trim_matches(['[', ']']), &upload_pack]);
    Ok(command)
}

/// A public address of a host, for `ssh` to connect to: it does not ask again what address the name has. Of several
/// addresses it is the first that answers.
fn public_address(session: &Session, host: &str, port: u16) -> Result<IpAddr, Error> {
    let host = host.trim_matches(['[', ']']);
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|_| session.unreachable("the host name has no address"))?;
    let (private, public): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.partition(|address| is_private(address.ip()));
    let answers = |address: &&SocketAddr| {
        let patience = Duration::from_secs(CONNECT_TIMEOUT_S);
        TcpStream::connect_timeout(
            address,
            session.remaining().unwrap_or_default().min(patience),
        )
        .is_ok()
    };
    match public.as_slice() {
        [] => Err(match private.first() {
            Some(address) => session.private_host(address.ip()),
            None => session.unreachable("the host name has no address"),
        }),
        [only] => Ok(only.ip()),
        [first, ..] => Ok(public.iter().find(answers).unwrap_or(first).ip()),
    }
}

/// Whether `ssh` can be given a file as a key or as known hosts. It would wait for a FIFO, and read a device without end.
///
/// # Errors
/// What is wrong with it.
pub fn check_ssh_file(path: &Path) -> Result<(), String> {
    let shown = printable(&path.to_string_lossy(), 200);
    let metadata = path
        .metadata()
        .map_err(|error| format!("cannot read {shown}: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("cannot read {shown}: it is no plain file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES >> 20;
        return Err(format!("{shown} is larger than {limit} MiB"));
    }
    if !is_safe(path) {
        return Err(format!("`{shown}` cannot be used as a path for ssh"));
    }
    rustix::fs::access(path, rustix::fs::Access::READ_OK)
        .map_err(|error| format!("cannot read {shown}: {error}"))
}

/// A path as it stands between quotes in an option of `ssh`, where `%` begins a placeholder.
fn escape(session: &Session, path: &Path) -> Result<String, Error> {
    match path.to_str().filter(|_| is_safe(path)) {
        Some(text) => Ok(text.replace('%', "%%")),
        None => {
            let shown = printable(&path.to_string_lossy(), 200);
            Err(session.unreachable(&format!("`{shown}` cannot be used as a path for ssh")))
        }
    }
}

/// Whether a path is absolute, and means the same to `ssh` when it stands between quotes.
fn is_safe(path: &Path) -> bool {
    let text = path.to_str().unwrap_or("$");
    path.is_absolute() && !text.contains(['"', '\\', '$', '\n'])
}
