//! Python hosts without the start of Python, which is most of what a small case with Python code takes: a process that has
//! imported our package forks for each (`warm.py`).
//!
//! The compiler starts this program in the place of Python, by way of a launcher. It asks the warm process for a fork,
//! which takes over its pipes, and ends when that fork does.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use steward_compiler::{PythonLauncher, PythonRuntime};

const SCRIPT: &str = include_str!("warm.py");
/// The first argument of this program when it stands in for a host; the second one is the socket.
pub const STANDS_IN: &str = "--stand-in-for-a-host";

/// The process whose forks are hosts.
struct Warm {
    socket: PathBuf,
    /// It ends when its standard input does, so with us, and takes the directory of the socket with it.
    _process: Child,
}

/// What starts hosts of a runtime quickly; without words where there is no `/proc` to find pipes by.
pub fn launcher(runtime: &PythonRuntime) -> PythonLauncher {
    static WARM: OnceLock<Option<Warm>> = OnceLock::new();
    let warm = WARM.get_or_init(|| match Path::new("/proc/self/fd").is_dir() {
        true => Some(start(runtime).unwrap_or_else(|error| panic!("no warm host: {error}"))),
        false => None,
    });
    match (warm, std::env::current_exe()) {
        (Some(warm), Ok(program)) => PythonLauncher {
            words: vec![program.into(), STANDS_IN.into(), warm.socket.clone().into()],
            variables: Vec::new(),
        },
        _ => PythonLauncher::default(),
    }
}

fn start(runtime: &PythonRuntime) -> std::io::Result<Warm> {
    let directory = tempfile::Builder::new()
        .prefix("steward-warm-")
        .tempdir()?
        .keep();
    let socket = directory.join("hosts");
    // With the environment that a host of its own would have.
    let cold = runtime.command("compile");
    let variables = cold
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut process = Command::new(&runtime.interpreter)
        .args(["-P", "-s", "-u", "-c", SCRIPT])
        .arg(&runtime.package)
        .arg(&socket)
        .env_clear()
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = process
        .stdout
        .take()
        .ok_or_else(|| std::io::Error::other("it has no output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    match line.trim_end() {
        "ready" => Ok(Warm {
            socket,
            _process: process,
        }),
        _ => Err(std::io::Error::other("it does not start")),
    }
}

/// In the place of a host: ends as the fork does that has our pipes.
pub fn stand_in(socket: &Path) -> ExitCode {
    let served = UnixStream::connect(socket).and_then(|mut warm| {
        writeln!(warm, "{}", std::process::id())?;
        let mut status = [1];
        warm.read_exact(&mut status)?;
        Ok(status[0])
    });
    // One that was killed has no status.
    ExitCode::from(served.unwrap_or(1))
}
