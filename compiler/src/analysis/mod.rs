//! A project as tools see it: loaded, resolved, nothing executed, no Python run, whatever mistakes it has.
//!
//! [`analyze`] goes the way of a compile up to the resolved program and keeps what was understood.

mod infer;
mod python_plugins;
mod python_text;

pub use infer::{Frame, Infer, Static};

use std::sync::Arc;

use crate::Options;
use crate::diagnostics::{Fail, Failure, Warning};
use crate::hir::plugin::PythonPlugins;
use crate::hir::{self, Program};
use crate::intern::Interner;
use crate::project::{self, Loaded, Project};
use crate::runtime::Machine;
use crate::span::Sources;
use crate::stdlib::natives;
use crate::world::World;
pub use python_plugins::Scanned;

pub struct Analysis {
    /// `None`: `project.yml` is not understood.
    pub project: Option<Project>,
    /// The syntax trees, in the order of the program's namespaces.
    pub loaded: Loaded,
    pub program: Arc<Program>,
    pub plugins: Vec<Scanned>,
    /// The mistakes, in the order in which a compile meets them.
    pub errors: Vec<Fail>,
    pub warnings: Vec<Warning>,
    /// Some file has mistakes of syntax: what seems to be missing may be in them.
    pub has_broken_syntax: bool,
}

pub fn analyze(world: &dyn World) -> Analysis {
    let mut sources = Sources::default();
    let mut names = Interner::default();
    let mut warnings = Vec::new();
    let (project, mut errors) = match Project::read(world) {
        Ok(project) => (project, Vec::new()),
        Err(error) => return nothing(None, sources, warnings, error),
    };
    let loaded = project::load(world, &project, &mut sources, &mut names, &mut warnings);
    let mut loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return nothing(Some(project), sources, warnings, error),
    };
    errors.append(&mut loaded.errors);
    let mut python = PythonPlugins::default();
    let mut plugins = Vec::new();
    for module in &loaded.modules {
        let (mut scanned, mut namespaces) = python_plugins::scan(world, module);
        python.plugins.extend(scanned.iter().map(Scanned::callable));
        python.open_namespaces.append(&mut namespaces);
        plugins.append(&mut scanned);
    }
    let (mut program, mistakes) = hir::build(
        &project,
        &loaded,
        sources,
        names,
        warnings,
        natives(),
        python,
    );
    let mut warnings = std::mem::take(&mut program.warnings);
    let has_broken_syntax = loaded.has_broken_syntax;
    let mut program = Arc::new(program);
    if !has_broken_syntax {
        errors.extend(with_machine(
            &mut program,
            world,
            &mut warnings,
            |machine| mistakes.in_order(machine.check_defaults()),
        ));
    }
    Analysis {
        project: Some(project),
        loaded,
        program,
        plugins,
        errors,
        warnings,
        has_broken_syntax,
    }
}

fn nothing(
    project: Option<Project>,
    sources: Sources,
    warnings: Vec<Warning>,
    error: Fail,
) -> Analysis {
    Analysis {
        project,
        loaded: Loaded::default(),
        program: Arc::new(Program {
            sources,
            ..Program::default()
        }),
        plugins: Vec::new(),
        errors: vec![error],
        warnings,
        has_broken_syntax: true,
    }
}

/// Lends the program to a machine that runs nothing of it, but knows what values are allowed where.
pub fn with_machine(
    program: &mut Arc<Program>,
    world: &dyn World,
    warnings: &mut Vec<Warning>,
    work: impl FnOnce(&mut Machine) -> Vec<Fail>,
) -> Vec<Fail> {
    let heap = match Arc::get_mut(program) {
        Some(program) => std::mem::take(&mut program.heap),
        None => return Vec::new(),
    };
    let options = Options::default();
    let mut machine = Machine::new(program, heap, world, &options);
    let mut errors = work(&mut machine);
    warnings.append(&mut machine.report.warnings);
    let heap = std::mem::take(&mut machine.state.heap);
    drop(machine);
    if let Some(program) = Arc::get_mut(program) {
        program.heap = heap;
    }
    // A condition that calls Python can not be decided here.
    errors.retain(|error| !needs_python(error));
    errors
}

fn needs_python(error: &Failure) -> bool {
    matches!(
        error.kind,
        "ExternalException" | "WrappingRuntimeException" | "ExplicitPluginException"
    ) || error.causes.iter().any(needs_python)
}
