//! Our compiler, in this process.

use std::sync::mpsc;
use std::time::Duration;

use steward_compiler::{
    Compiled, Diagnostic, Limits, MemWorld, Options, Severity, Tiling, compile, export_json,
};

use crate::answer::{Answer, Found, Outcome, base_name};
use crate::tree::{Case, VARIABLES};

/// No case is large: what takes longer does not end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What does not end stops early, so that a run of hours keeps its memory.
const LIMITS: Limits = Limits {
    iterations: None,
    instances: 50_000,
    chain: 2_000,
    steps: 2_000_000,
    text_bytes: 1 << 26,
};

fn world(case: &Case) -> MemWorld {
    let mut world = MemWorld::default();
    for (path, text) in case.rendered() {
        world = world.file(&path, &text);
    }
    for (name, value) in VARIABLES {
        world = world.variable(name, value);
    }
    world
}

fn options(case: &Case) -> Options {
    Options {
        limits: LIMITS,
        export: case.export,
        dump_model: true,
        ..Options::default()
    }
}

/// All that our compiler makes of a case, and whether its steps ran in tiles to the end.
pub fn bytes(case: &Case, tiling: Tiling) -> (String, bool) {
    let world = world(case);
    let compiled = compile(
        &world,
        &Options {
            tiling,
            ..options(case)
        },
    );
    let text = format!(
        "{}{:#?}\n{:#?}\n{}",
        world.printed(),
        compiled.diagnostics,
        compiled.export,
        compiled.model.unwrap_or_default()
    );
    (text, compiled.ran_in_tiles)
}

/// What our compiler makes of a case.
pub fn run(case: &Case) -> Answer {
    let world = world(case);
    let options = options(case);
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
