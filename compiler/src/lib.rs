//! The modelling language: text in, desired state and diagnostics out.
//!
//! [`compile`] goes one way through the rooms, and each uses only those before it:
//!
//! - `span`, `diagnostics`, `intern`, `world`: places, mistakes as data, names as numbers, and all
//!   that the compiler may ask of the outside;
//! - `syntax`: one file to a syntax tree, never failing;
//! - `project`: `project.yml`, where modules are, in which order files count;
//! - `types`: values, their text and arithmetic, types;
//! - `hir`: names to ids, entities with layouts, the static checks: a `Program`;
//! - `resources`: ids of resources, and what is known of their classes;
//! - `stdlib`, `template`, `python_host`: native plugins of std, the Jinja engine, the processes
//!   that run Python;
//! - `runtime`: runs a `Program`, dataflow over arenas;
//! - `export`: instances to resources, the model dump.
//!
//! Beside this way, `analysis` goes it up to the program for tools, with whatever mistakes there
//! are; `check` says what is certain without running; `format` lays text out; `ide` answers
//! editors.
//!
//! There is no clock, no network and no randomness in the language, so the same world gives the
//! same answer.

#![warn(missing_docs)]

mod analysis;
mod api;
mod breadcrumb;
mod builtin;
mod check;
mod diagnostics;
mod export;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod hir;
pub mod ide;
mod intern;
mod pages;
mod pattern;
pub mod plain_file;
mod project;
pub mod protocol;
mod python_host;
mod resources;
mod runtime;
mod span;
mod stdlib;
mod syntax;
mod template;
mod types;
mod world;
pub mod yaml;

pub use api::*;
pub use breadcrumb::{Breadcrumb, MAX_TABLE_BYTES, place as place_of};
pub use builtin::text as builtin_text;
pub use check::check;
pub use diagnostics::render;
pub use export::{JsonWriter, PartialError, ResourceRef, ResourceSink, export_json, merge_partial};
pub use format::format;
pub use python_host::{AttachedPython, WarmHosts, locate};
pub use runtime::Tiling;
pub use world::{DirWorld, LocatedPackages, MemWorld, PackageQuestion, PythonPackages, World};

use std::collections::BTreeMap;

use diagnostics::{Fail, Warning};
use span::Sources;

/// Deep expressions and long chains of relations need a deep stack; it costs nothing until it is used.
const STACK_BYTES: usize = 256 << 20;

/// Compiles a project: the same answer for the same world.
pub fn compile(world: &dyn World, options: &Options) -> Compiled {
    compile_on_deep_stack(world, options, None)
}

/// The same, but the resources go to the sink, one by one, and [`Compiled::export`] has none. The sink gets nothing when
/// there is an error.
pub fn compile_to(world: &dyn World, options: &Options, sink: &mut dyn ResourceSink) -> Compiled {
    compile_on_deep_stack(world, options, Some(sink))
}

fn compile_on_deep_stack(
    world: &dyn World,
    options: &Options,
    sink: Option<&mut dyn ResourceSink>,
) -> Compiled {
    on_deep_stack(|| compile_here(world, options, sink)).unwrap_or_else(|reason| broken(&reason))
}

/// Deep trees need a deep stack. The error is why there is no answer.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new()
            .name("compile".to_owned())
            .stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, work);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err("the compiler stopped by a mistake of its own".to_owned()),
            Err(error) => Err(format!("the compiler's thread can not be started: {error}")),
        }
    })
}

fn broken(message: &str) -> Compiled {
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        kind: "InvalidCompilerState".to_owned(),
        message: message.to_owned(),
        location: None,
        notes: Vec::new(),
        help: None,
        raised: None,
        causes: Vec::new(),
    };
    Compiled {
        diagnostics: vec![diagnostic],
        ..Compiled::default()
    }
}

fn compile_here(
    world: &dyn World,
    options: &Options,
    sink: Option<&mut dyn ResourceSink>,
) -> Compiled {
    let output = python_host::Output::default();
    let mut compiled = compile_with(world, options, sink, &output);
    // By now the host of the compile is done.
    compiled.plugin_output = output.take();
    compiled
}

fn compile_with(
    world: &dyn World,
    options: &Options,
    sink: Option<&mut dyn ResourceSink>,
    output: &python_host::Output,
) -> Compiled {
    let mut sources = Sources::default();
    let mut names = intern::Interner::default();
    let mut warnings = Vec::new();
    let loaded = project::Project::read(world).and_then(|project| {
        let loaded = project::load(world, &project, &mut sources, &mut names, &mut warnings)?;
        Ok((project, loaded))
    });
    let (project, mut loaded) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return report(&sources, vec![error], warnings),
    };
    let mut errors = std::mem::take(&mut loaded.errors);
    if loaded.has_broken_syntax {
        return report(&sources, errors, warnings);
    }
    let python = match python_host::load_python(world, options, &loaded, &mut sources, output) {
        Ok(python) => python,
        Err(error) => {
            errors.push(error);
            return report(&sources, errors, warnings);
        }
    };
    warnings.extend(python.warnings.into_iter().map(|message| Warning {
        kind: "InmantaWarning",
        message,
        loc: span::Loc::NONE,
        notes: Vec::new(),
    }));
    let (mut program, mistakes) = hir::build(
        &project,
        &loaded,
        sources,
        names,
        warnings,
        stdlib::natives(),
        python.plugins,
    );
    for module in &loaded.modules {
        if let Some(root) = module.root() {
            program
                .module_roots
                .insert(module.name.clone(), root.to_owned());
        }
    }
    let python_modules = loaded
        .modules
        .iter()
        .filter_map(|module| module.python(world))
        .collect();
    drop(loaded);
    let warnings = std::mem::take(&mut program.warnings);
    let heap = std::mem::take(&mut program.heap);
    let program = std::sync::Arc::new(program);
    if let Some(breadcrumb) = &options.breadcrumb {
        breadcrumb.begin(&program.sources);
    }
    let mut machine = runtime::Machine::new(&program, heap, world, options);
    machine.warnings = warnings;
    machine.host = python.host;
    let mut compiled = Compiled {
        python_modules,
        python_imports: python.imports,
        ..Compiled::default()
    };
    errors.extend(mistakes.in_order(machine.check_defaults()));
    if !errors.is_empty() {
        let warnings = std::mem::take(&mut machine.warnings);
        return report(&program.sources, errors, warnings);
    }
    let (before, n_warnings) = (machine.heap.mark(), machine.warnings.len());
    let in_tiles = match machine.may_be_observed() {
        true => None,
        false => machine.complete_in_tiles(options.tiling),
    };
    compiled.ran_in_tiles = in_tiles.is_some() && machine.has_tiles();
    let mut completed = in_tiles.unwrap_or_else(|| {
        if machine.has_tiles() {
            let mut heap = std::mem::take(&mut machine.heap);
            heap.go_back(&before);
            let mut warnings = std::mem::take(&mut machine.warnings);
            warnings.truncate(n_warnings);
            let host = machine.host.take();
            machine = runtime::Machine::new(&program, heap, world, options);
            machine.warnings = warnings;
            machine.host = host;
        }
        machine.complete()
    });
    if machine.host.is_some() {
        let failed = machine.finalize();
        if completed.is_ok() && !failed.is_empty() {
            completed = Err(failed);
        }
    }
    machine.leave_place(span::Loc::NONE);
    match completed {
        Ok(()) => {
            if options.export {
                match export_all(&mut machine, sink) {
                    Ok((export, files)) => {
                        compiled.export = Some(export);
                        compiled.files = files;
                    }
                    Err(error) => errors.push(error),
                }
            }
            if options.dump_model && errors.is_empty() {
                compiled.model = Some(export::dump(&machine));
            }
            if options.python.attached().is_some()
                && errors.is_empty()
                && let Err(error) = show(&mut machine)
            {
                errors.push(error);
            }
        }
        Err(found) => errors = found,
    }
    if !errors.is_empty() {
        compiled.export = None;
    }
    let warnings = std::mem::take(&mut machine.warnings);
    compiled.diagnostics = report(&program.sources, errors, warnings).diagnostics;
    compiled
}

/// Lets the process that has the compile run look at the model, and exports when it asks.
fn show(machine: &mut runtime::Machine) -> Result<(), Fail> {
    let mut exported = None;
    while machine.show(exported.take())? {
        let (export, _) = export_all(machine, None)?;
        exported = serde_json::to_value(&export).ok();
    }
    Ok(())
}

fn export_all(
    machine: &mut runtime::Machine,
    sink: Option<&mut dyn ResourceSink>,
) -> Result<(Export, BTreeMap<String, Vec<u8>>), Fail> {
    let mut export = Export::default();
    export.removed_sets = match sink {
        Some(sink) => export::export(machine, sink)?,
        None => export::export(machine, &mut export)?,
    };
    let files = machine.collect()?;
    export.unknowns = std::mem::take(&mut machine.unknown_parameters);
    Ok((export, files))
}

fn report(sources: &Sources, errors: Vec<Fail>, warnings: Vec<Warning>) -> Compiled {
    let mut diagnostics: Vec<Diagnostic> = diagnostics::in_order(errors, sources)
        .into_iter()
        .map(|error| error.into_diagnostic(sources))
        .collect();
    for warning in warnings {
        let warning = warning.into_diagnostic(sources);
        if !diagnostics.contains(&warning) {
            diagnostics.push(warning);
        }
    }
    Compiled {
        diagnostics,
        ..Compiled::default()
    }
}
