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
mod file_stamp;
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
mod services;
mod shown_url;
mod span;
mod stdlib;
mod syntax;
mod template;
mod types;
mod world;
pub mod yaml;

pub use api::*;
pub use breadcrumb::{Breadcrumb, MAX_TABLE_BYTES, place as place_of};
pub use builtin::{is_carried, text as builtin_text};
pub use check::check;
pub use diagnostics::{closest, render};
pub use export::{JsonWriter, PartialError, ResourceRef, ResourceSink, export_json, merge_partial};
pub use file_stamp::FileStamp;
pub use format::format;
pub use hash::add_part;
pub use python_host::{AnswerStore, AttachedPython, WarmHosts, is_of_shell, locate};
pub use runtime::Tiling;
pub use services::*;
pub use shown_url::without_credentials;
pub use stdlib::validate_json;
pub use world::{DirWorld, LocatedPackages, MemWorld, PackageQuestion, PythonPackages, World};

use std::collections::BTreeMap;
use std::sync::Arc;

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
        values: None,
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
    mut sink: Option<&mut dyn ResourceSink>,
) -> Compiled {
    let report = python_host::HostReport::default();
    let mut compiled = compile_with(world, options, reborrowed(&mut sink), &report);
    if report.is_outdated() {
        // It began with what modules declared in an earlier compile, and Python says otherwise by now. That is before the first
        // resource goes to the sink. What the model printed until then is printed twice, which is the lesser evil.
        let anew = Options {
            declarations: None,
            ..options.clone()
        };
        compiled = compile_with(world, &anew, sink, &report);
    }
    // By now the host of the compile is done.
    compiled.plugin_output = report.output();
    compiled
}

/// The same sink for a shorter time.
fn reborrowed<'s>(sink: &'s mut Option<&mut dyn ResourceSink>) -> Option<&'s mut dyn ResourceSink> {
    match sink {
        Some(sink) => Some(&mut **sink),
        None => None,
    }
}

/// A project that was read, joined with its Python and resolved: what a run begins with.
struct Prepared {
    program: Arc<hir::Program>,
    /// The constants of the program.
    heap: types::Heap,
    host: Option<Box<dyn python_host::PluginHost>>,
    warnings: Vec<Warning>,
    /// Of files: those that could not be read as they are.
    errors: Vec<Fail>,
    /// Of definitions.
    mistakes: hir::Mistakes,
    python_modules: Vec<protocol::PythonModule>,
    python_imports: Vec<(String, String)>,
}

/// Everything before the run. The error is the end of the compile.
fn prepare(
    world: &dyn World,
    options: &Options,
    host_report: &python_host::HostReport,
) -> Result<Prepared, Box<Compiled>> {
    let mut sources = Sources::default();
    let mut names = intern::Interner::default();
    let mut warnings = Vec::new();
    let loaded = project::Project::read(world).and_then(|project| {
        let loaded = project::load(world, &project, &mut sources, &mut names, &mut warnings)?;
        Ok((project, loaded))
    });
    let stopped = |sources: &Sources, errors, warnings| Box::new(report(sources, errors, warnings));
    let (project, mut loaded) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return Err(stopped(&sources, vec![error], warnings)),
    };
    let mut errors = std::mem::take(&mut loaded.errors);
    if loaded.has_broken_syntax {
        return Err(stopped(&sources, errors, warnings));
    }
    let python = match python_host::load_python(world, options, &loaded, &mut sources, host_report)
    {
        Ok(python) => python,
        Err(error) => {
            errors.push(error);
            return Err(stopped(&sources, errors, warnings));
        }
    };
    warnings.extend(python.warnings.into_iter().map(|message| Warning {
        kind: "InmantaWarning",
        message,
        loc: span::Loc::NONE,
        notes: Vec::new(),
    }));
    let natives = stdlib::natives();
    let (mut program, mistakes) = hir::build(
        &project,
        &loaded,
        sources,
        names,
        warnings,
        natives,
        python.plugins,
    );
    for module in &loaded.modules {
        if let Some(root) = module.root() {
            let roots = &mut program.module_roots;
            roots.insert(module.name.clone(), root.to_owned());
        }
    }
    let modules = loaded.modules.iter();
    Ok(Prepared {
        python_modules: modules.filter_map(|module| module.python(world)).collect(),
        python_imports: python.imports,
        host: python.host,
        warnings: std::mem::take(&mut program.warnings),
        heap: std::mem::take(&mut program.heap),
        program: Arc::new(program),
        errors,
        mistakes,
    })
}

fn compile_with(
    world: &dyn World,
    options: &Options,
    sink: Option<&mut dyn ResourceSink>,
    host_report: &python_host::HostReport,
) -> Compiled {
    let prepared = match prepare(world, options, host_report) {
        Ok(prepared) => prepared,
        Err(stopped) => return *stopped,
    };
    let program = prepared.program;
    if let Some(breadcrumb) = &options.breadcrumb {
        breadcrumb.begin(&program.sources);
    }
    let mut machine = runtime::Machine::new(&program, prepared.heap, world, options);
    machine.report.warnings = prepared.warnings;
    machine.python.host = prepared.host;
    machine.python.memo = machine
        .python
        .host
        .as_mut()
        .and_then(|host| host.take_memo());
    let mut errors = prepared.errors;
    errors.extend(prepared.mistakes.in_order(machine.check_defaults()));
    if !errors.is_empty() {
        let warnings = std::mem::take(&mut machine.report.warnings);
        return report(&program.sources, errors, warnings);
    }
    let (mut completed, ran_in_tiles) = run(&mut machine, &program);
    if machine.python.has_running_host() {
        let failed = machine.finalize();
        if completed.is_ok() && !failed.is_empty() {
            completed = Err(failed);
        }
    }
    machine.report.leave_place(span::Loc::NONE);
    let mut products = match completed {
        Ok(()) => products(&mut machine, sink),
        Err(errors) => Products {
            errors,
            ..Products::default()
        },
    };
    let services = services_output(&mut machine);
    let services = services.unwrap_or_else(|error| {
        products.errors.push(error);
        ServicesOutput::default()
    });
    if let (Some(host), Some(memo)) = (&mut machine.python.host, &machine.python.memo) {
        host.keep_memo(memo);
    }
    let has_failed = !products.errors.is_empty();
    let warnings = std::mem::take(&mut machine.report.warnings);
    let diagnostics = report(&program.sources, products.errors, warnings).diagnostics;
    machine.python.host = None;
    options.drop(machine);
    options.drop(program);
    Compiled {
        diagnostics,
        export: products.export.filter(|_| !has_failed),
        model: products.model,
        services,
        files: products.files,
        plugin_output: String::new(),
        python_modules: prepared.python_modules,
        python_imports: prepared.python_imports,
        ran_in_tiles,
    }
}

/// Runs the model, in tiles if nobody sees their order, and whether it did. What tiles got wrong runs again without them, from
/// the beginning.
fn run<'a>(
    machine: &mut runtime::Machine<'a>,
    program: &'a Arc<hir::Program>,
) -> (Result<(), Vec<Fail>>, bool) {
    let (before, n_warnings) = (machine.state.heap.mark(), machine.report.warnings.len());
    let knows_calls = machine
        .python
        .memo
        .as_ref()
        .is_some_and(|memo| !memo.is_empty());
    if !knows_calls && machine.python.has_sleeping_host() && machine.may_ask_python() {
        // While the model runs up to the first call, the modules are imported on another processor.
        machine
            .python
            .host
            .iter_mut()
            .for_each(|host| host.start_ahead());
    }
    if !machine.may_be_observed()
        && let Some(completed) = machine.complete_in_tiles(machine.options.tiling)
    {
        return (completed, machine.has_tiles());
    }
    if machine.has_tiles() {
        let mut heap = std::mem::take(&mut machine.state.heap);
        heap.go_back(&before);
        let mut warnings = std::mem::take(&mut machine.report.warnings);
        warnings.truncate(n_warnings);
        let (host, memo) = (machine.python.host.take(), machine.python.memo.take());
        *machine = runtime::Machine::new(program, heap, machine.world, machine.options);
        machine.report.warnings = warnings;
        machine.python.host = host;
        machine.python.memo = memo;
    }
    (machine.complete(), false)
}

/// What is made of a complete model, and what goes wrong with that.
#[derive(Default)]
struct Products {
    export: Option<Export>,
    files: BTreeMap<String, Vec<u8>>,
    model: Option<String>,
    errors: Vec<Fail>,
}

fn products(machine: &mut runtime::Machine, sink: Option<&mut dyn ResourceSink>) -> Products {
    let options = machine.options;
    let mut made = Products::default();
    let purpose = options.inputs.services.as_ref().map(|of| &of.purpose);
    if options.export {
        let exported = match purpose {
            // What is exported without instances is no desired state.
            Some(ServicePurpose::Definitions) => export_all(machine, None).map(|_| None),
            // An instance whose resources cannot be exported would hold up every export from then on.
            Some(ServicePurpose::Validation { .. }) => {
                export::check_resources(machine).map(|()| None)
            }
            Some(ServicePurpose::Production) | None => export_all(machine, sink).map(Some),
        };
        match exported {
            Ok(Some((export, files))) => {
                made.export = Some(export);
                made.files = files;
            }
            Ok(None) => {}
            Err(error) => made.errors.push(error),
        }
    }
    if options.dump_model && made.errors.is_empty() {
        made.model = Some(export::dump(machine));
    }
    if options.python.attached().is_some()
        && made.errors.is_empty()
        && let Err(error) = show(machine)
    {
        made.errors.push(error);
    }
    made
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
    export.agents = export::agents(machine);
    let unknowns = std::mem::take(&mut machine.report.unknown_parameters);
    export.unknowns = unknowns.into_iter().collect();
    Ok((export, files))
}

/// What Python code said of services: it is that of modules, so it may be anything.
fn services_output(machine: &mut runtime::Machine) -> Result<ServicesOutput, Fail> {
    let wrong = |error: serde_json::Error| {
        let message = format!("What the module lsm says of services can not be read: {error}");
        diagnostics::fail("CompilerException", span::Loc::NONE, message)
    };
    let writes = std::mem::take(&mut machine.report.service_writes);
    let writes = serde_json::from_value(writes.into()).map_err(wrong)?;
    let definitions = machine.report.service_definitions.take();
    let definitions = definitions.map(serde_json::from_value).transpose();
    Ok(ServicesOutput {
        definitions: definitions.map_err(wrong)?,
        writes,
    })
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
    diagnostics::name_missing_variables(&mut diagnostics);
    Compiled {
        diagnostics,
        ..Compiled::default()
    }
}
