//! `steward attached`: a compile for a process that is the Python host of it (`python/steward_host/attached.py`). Frames go
//! over standard input, a socket.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use steward_compiler::protocol::{ToHost, write_frame};
use steward_compiler::{
    AttachedPython, Diagnostic, DirWorld, Inputs, Options, PythonSource, Severity, compile,
};

use super::{FAILED, TROUBLE, USAGE};
use crate::domain::chain;

/// Of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[expect(clippy::print_stderr, reason = "why there is no compile")]
pub(super) fn run(project: PathBuf, environment: Option<&Path>, inputs: &str) -> ExitCode {
    let stream = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(end) => Arc::new(UnixStream::from(end)),
        Err(error) => {
            eprintln!("steward: standard input is no socket: {}", chain(&error));
            return ExitCode::from(TROUBLE);
        }
    };
    let python = match AttachedPython::greet(Arc::clone(&stream)) {
        Ok(python) => python,
        Err(reason) => return refuse(&stream, &reason, TROUBLE),
    };
    let inputs: Inputs = match serde_json::from_str(inputs) {
        Ok(inputs) => inputs,
        Err(error) => return refuse(&stream, &format!("inputs: {error}"), USAGE),
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

/// Tells the other end why there is no compile: that it is of another version than this program, mostly.
fn refuse(mut stream: &UnixStream, reason: &str, code: u8) -> ExitCode {
    let program = std::env::current_exe().unwrap_or_default();
    let message = format!(
        "{} {VERSION} and the Python package of Steward that runs it do not fit together: {reason}. Install the package \
         that the program writes (`steward python-package`), or name another program with STEWARD_PROGRAM.",
        program.display()
    );
    let error = Diagnostic {
        severity: Severity::Error,
        kind: "CompilerException".to_owned(),
        message,
        location: None,
        notes: Vec::new(),
        help: None,
        raised: None,
        values: None,
        causes: Vec::new(),
    };
    let finished = ToHost::Finished {
        diagnostics: vec![error.to_json()],
    };
    // Nobody may listen.
    let _ = write_frame(&mut stream, &finished);
    ExitCode::from(code)
}
