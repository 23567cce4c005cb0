//! `steward attached`: a compile for a process that is the Python host of it (`python/steward_host/attached.py`). Frames go
//! over standard input, a socket.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use steward_compiler::protocol::{ToHost, write_frame};
use steward_compiler::{AttachedPython, DirWorld, Inputs, Options, PythonSource, compile};

use super::{FAILED, TROUBLE, USAGE};
use crate::domain::chain;

#[expect(clippy::print_stderr, reason = "why there is no compile")]
pub(super) fn run(project: PathBuf, environment: Option<&Path>, inputs: &str) -> ExitCode {
    let inputs: Inputs = match serde_json::from_str(inputs) {
        Ok(inputs) => inputs,
        Err(error) => {
            eprintln!("steward: inputs: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let stream = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(end) => Arc::new(UnixStream::from(end)),
        Err(error) => {
            eprintln!("steward: standard input is no socket: {}", chain(&error));
            return ExitCode::from(TROUBLE);
        }
    };
    let python = match AttachedPython::greet(Arc::clone(&stream)) {
        Ok(python) => python,
        Err(reason) => {
            eprintln!("steward: {reason}");
            return ExitCode::from(TROUBLE);
        }
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    // What the model prints goes the way of all messages, so that each line is there before what follows it.
    let listener = Arc::clone(&stream);
    let world = DirWorld::new(project, variables.collect(), move |line: &str| {
        let line = line.to_owned();
        // Nobody may listen any more.
        let _ = write_frame(&mut &*listener, &ToHost::Printed { line });
    })
    .with_environment(environment)
    .with_packages(None, Arc::new(python));
    let options = Options {
        python: PythonSource::Attached(Arc::clone(&stream)),
        inputs,
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    let diagnostics = compiled.diagnostics.iter();
    let finished = ToHost::Finished {
        diagnostics: diagnostics.map(|found| found.to_json()).collect(),
    };
    // Nobody may listen any more.
    let _ = write_frame(&mut &*stream, &finished);
    match compiled.succeeded() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    }
}
