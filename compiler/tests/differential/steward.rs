//! Our compiler, in this process.

use std::sync::mpsc;
use std::time::Duration;

use steward_compiler::{Compiled, Diagnostic, MemWorld, Options, Severity, compile, export_json};

use crate::answer::{Answer, Found, Outcome, base_name};
use crate::tree::{Case, VARIABLES};

/// No case is large: what takes longer does not end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What our compiler makes of a case.
pub fn run(case: &Case) -> Answer {
    let mut world = MemWorld::default();
    for (path, text) in case.rendered() {
        world = world.file(&path, &text);
    }
    for (name, value) in VARIABLES {
        world = world.variable(name, value);
    }
    let options = Options {
        export: case.export,
        dump_model: true,
        ..Options::default()
    };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let compiled = compile(&world, &options);
        let _ = sender.send(answer(&compiled, world.printed()));
    });
    receiver.recv_timeout(TIMEOUT).unwrap_or_else(|_| {
        // Its thread can not be stopped: whoever looks for what eats the memory finds it here.
        eprintln!("this does not end:\n{}", case.listing());
        Answer {
            outcome: Outcome::Timeout,
            output: String::new(),
            errors: Vec::new(),
            model: None,
            resources: None,
        }
    })
}

fn answer(compiled: &Compiled, output: String) -> Answer {
    let errors: Vec<Found> = compiled
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(found)
        .collect();
    let outcome = if errors
        .iter()
        .any(|error| error.kind == "InvalidCompilerState")
    {
        Outcome::Crashed
    } else if errors.is_empty() {
        Outcome::Accepted
    } else {
        Outcome::Rejected
    };
    Answer {
        outcome,
        output,
        errors,
        model: compiled
            .model
            .as_ref()
            .and_then(|model| serde_json::from_str(model).ok()),
        resources: compiled
            .export
            .as_ref()
            .and_then(|export| serde_json::from_str(&export_json(export)).ok()),
    }
}

fn found(diagnostic: &Diagnostic) -> Found {
    let location = diagnostic.location.as_ref();
    Found {
        kind: diagnostic.kind.clone(),
        message: diagnostic.message.clone(),
        file: location.map(|location| base_name(&location.file)),
        line: location.map(|location| u64::from(location.line)),
        causes: diagnostic.causes.iter().map(found).collect(),
    }
}
