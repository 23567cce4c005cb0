//! `steward compile`: the contract of docs/reference/compile-contract.md, to the letter.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use steward_compiler::{
    Compiled, DirWorld, Inputs, JsonWriter, Options, Partial, ServicesOutput, Severity, compile,
    compile_to, render,
};

use crate::python::Pythons;

use super::terminal::Paint;
use super::{CompileArguments, FAILED, Format, TROUBLE, USAGE};

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub(super) fn run(arguments: &CompileArguments) -> ExitCode {
    crate::process::prefer_one_heap();
    let stdout = Stdout::default();
    let (world, options) = match prepare(arguments, &stdout) {
        Ok(prepared) => prepared,
        Err(message) => {
            eprintln!("steward: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let mut resources = arguments
        .export_json
        .as_deref()
        .map(|path| JsonWriter::new(Created::at(path)));
    let compiled = match &mut resources {
        Some(sink) => compile_to(&world, &options, sink),
        None => compile(&world, &options),
    };
    let printed = stdout.flush();
    eprint!("{}", compiled.plugin_output);
    report(&compiled, &world, arguments.message_format);
    // Values that were allocated are kept also when the model has mistakes.
    if let Some(path) = &arguments.services_json
        && let Err(error) = write_services(path, &compiled.services)
    {
        eprintln!("steward: cannot write {}: {error}", path.display());
        return ExitCode::from(TROUBLE);
    }
    if !compiled.succeeded() {
        return ExitCode::from(FAILED);
    }
    // A reader that is gone needs no text.
    if let Err(error) = printed
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("steward: cannot write what the model prints: {error}");
        return ExitCode::from(TROUBLE);
    }
    match write_results(arguments, &compiled, resources) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("steward: {message}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// What the model prints. Buffered, since that may be a lot, and flushed before anything else is written.
#[derive(Clone)]
struct Stdout(Arc<Mutex<std::io::BufWriter<std::io::Stdout>>>);

impl Default for Stdout {
    fn default() -> Stdout {
        Stdout(Arc::new(Mutex::new(std::io::BufWriter::new(
            std::io::stdout(),
        ))))
    }
}

impl Stdout {
    fn line(&self, line: &str) {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A reader that is gone needs no text.
        let _ = writeln!(writer, "{line}");
    }

    fn flush(&self) -> std::io::Result<()> {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writer.flush()
    }
}

/// The project with what it may ask of the outside, and how it is compiled; or what is wrong with the arguments.
fn prepare(arguments: &CompileArguments, stdout: &Stdout) -> Result<(DirWorld, Options), String> {
    let project = find_project(arguments.project.as_deref())?;
    let inputs = match arguments.inputs.as_deref() {
        Some(path) => read_inputs(path)?,
        None => Inputs::default(),
    };
    let mut variables: steward_compiler::Variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    if let Some(services) = &inputs.services {
        variables.extend(services.variables());
    }
    variables.extend(arguments.variables.iter().cloned());
    let sink = stdout.clone();
    let world = DirWorld::new(project, variables, move |line: &str| sink.line(line));
    let pythons = Pythons::new(arguments.python.clone().map(|path| (path, "--python")));
    let pythons = pythons.known_below(&super::cache_dir());
    if arguments.python.is_some() {
        pythons.any()?;
    }
    let world = with_packages(world, pythons.clone());
    let options = Options {
        // The definitions of services are made by the export.
        export: arguments.export_json.is_some() || arguments.services_json.is_some(),
        dump_model: arguments.dump_model.is_some(),
        python: steward_compiler::PythonSource::Find(Arc::new(move |own| {
            pythons.runtime(own, &super::cache_dir())
        })),
        inputs,
        declarations: Some(super::declarations::declarations()),
        partial: arguments.partial.then(|| Partial {
            sets: arguments.sets.clone(),
        }),
        is_last: true,
        ..Options::default()
    };
    Ok((world, options))
}

/// Writes the dump of the model and the exported resources to the files that were asked for; or says which one cannot be
/// written.
fn write_results(
    arguments: &CompileArguments,
    compiled: &Compiled,
    resources: Option<JsonWriter<Created>>,
) -> Result<(), String> {
    let failed =
        |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
    if let (Some(path), Some(text)) = (&arguments.dump_model, &compiled.model) {
        std::fs::write(path, text).map_err(|error| failed(path, error))?;
    }
    if let (Some(path), Some(resources)) = (&arguments.export_json, resources) {
        resources.finish().map_err(|error| failed(path, error))?;
    }
    Ok(())
}

/// Writes diagnostics to standard error; for people, with a count of them at the end.
#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub(super) fn report(compiled: &Compiled, world: &DirWorld, format: Format) {
    let color = Paint::of_stderr().is_colored();
    for diagnostic in &compiled.diagnostics {
        match format {
            Format::Json => eprintln!("{}", diagnostic.to_json()),
            Format::Human => eprintln!("{}", render(diagnostic, world, color)),
        }
    }
    let n_errors = compiled
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .count();
    if format == Format::Human && n_errors > 1 {
        eprintln!("steward: {n_errors} errors");
    }
}

/// A file that is created, or emptied, when the first byte comes: a compile that fails leaves it as it was.
struct Created<'a> {
    path: &'a Path,
    file: Option<std::fs::File>,
}

impl<'a> Created<'a> {
    fn at(path: &'a Path) -> Self {
        Created { path, file: None }
    }
}

impl Write for Created<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(std::fs::File::create(self.path)?),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the compile leaves for the service catalog and inventory.
fn write_services(path: &Path, services: &ServicesOutput) -> std::io::Result<()> {
    let mut text = serde_json::to_vec_pretty(services)?;
    text.push(b'\n');
    std::fs::write(path, text)
}

/// What the model may ask for besides the project.
fn read_inputs(path: &Path) -> Result<Inputs, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The directory with `project.yml`: the one named, else the nearest upwards from here.
pub(super) fn find_project(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return match (named.is_dir(), named.join("project.yml").is_file()) {
            (true, true) => Ok(named.to_owned()),
            (true, false) => Err(format!("{} has no project.yml", named.display())),
            (false, _) => Err(format!("there is no directory {}", named.display())),
        };
    }
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let found = here
        .ancestors()
        .find(|directory| directory.join("project.yml").is_file());
    found
        .map(Path::to_owned)
        .ok_or_else(|| "unable to find a project: there is no project.yml here or above".to_owned())
}

/// A project of a person may have its modules wherever the Python that will run has them.
pub(super) fn with_packages(world: DirWorld, pythons: Pythons) -> DirWorld {
    let environment = crate::compile::outer_environment(&pythons);
    let packages = crate::compile::Packages::of_person(super::cache_dir(), pythons);
    world.with_packages(environment.as_deref(), Arc::new(packages))
}
