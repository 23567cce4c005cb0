//! A compile of a project on this machine, for the person who asks for it.
//!
//! It is what `steward compile` does, and what the embedded mode and the export to a server begin with: the project is read
//! where it is, changes that are not committed among them; its own virtual environment is used; and there is no sandbox,
//! since the person could run the same code by hand. The Python code that the handlers need is kept in a file store, by
//! content, as in a compile of a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steward_compiler::{
    AnswerStore, Compiled, DirWorld, Export, Inputs, Options, Partial, PythonSource, Severity,
    Variables, compile, render,
};

use super::code;
use super::packages::{Packages, outer_environment};
use super::run::stored;
use crate::domain::{EnvironmentId, VersionCode, unusable_places};
use crate::files::Files;
use crate::git::{self, WorkTreeHead};
use crate::modules::requirements_of_module;
use crate::observe::RenderedDiagnostic;
use crate::python::Pythons;
use crate::store::{NewVersion, Sent, StoredResource};

/// What is compiled, and with what.
#[derive(Debug)]
pub struct LocalCompile {
    /// The folder with `project.yml`.
    pub project: PathBuf,
    /// What `std::get_env` of the model sees.
    pub variables: Variables,
    pub pythons: Pythons,
    /// Where our Python package and answers about modules are kept.
    pub cache: PathBuf,
    /// What modules declare, and what their plugins gave, between commands.
    pub declarations: Arc<dyn AnswerStore>,
    pub environment: Option<EnvironmentId>,
    pub inputs: Inputs,
    /// Export some resource sets only.
    pub partial: Option<Partial>,
    /// Gets the code of handlers, and what resources upload.
    pub files: Files,
}

/// What a compile came to.
#[derive(Debug)]
pub struct LocalResult {
    /// Errors and warnings, in the order in which they are shown.
    pub diagnostics: Vec<RenderedDiagnostic>,
    /// What Python code wrote to its standard error.
    pub plugin_output: String,
    /// `None`: the model has mistakes.
    pub export: Option<Export>,
    /// The Python code of the handlers, in the file store.
    pub code: VersionCode,
    /// The packages that modules require, by the names of the modules. Handlers that run here find them in the environment of
    /// the project.
    pub requirements: BTreeMap<String, Vec<String>>,
    /// The names of what resources uploaded to the file store.
    pub uploaded: Vec<String>,
    /// The commit that the project is at.
    pub head: Option<WorkTreeHead>,
}

impl LocalCompile {
    /// Compiles the project; `print` gets each line that the model prints. Blocks.
    pub fn run(self, print: impl FnMut(&str) + Send + 'static) -> LocalResult {
        let head = git::work_tree_head(&self.project);
        let interpreter = self.own_interpreter();
        let packages = Packages::of_person(self.cache.clone(), self.pythons.clone());
        let world = DirWorld::new(self.project, self.variables, print).with_packages(
            outer_environment(&self.pythons).as_deref(),
            Arc::new(packages),
        );
        let (pythons, cache) = (self.pythons, self.cache);
        let options = Options {
            export: true,
            environment_id: self.environment.map(|id| id.to_string()),
            python: PythonSource::Find(Arc::new(move |own| pythons.runtime(own, &cache))),
            inputs: self.inputs,
            declarations: Some(self.declarations),
            partial: self.partial,
            ..Options::default()
        };
        let mut compiled = compile(&world, &options);
        let diagnostics = compiled.diagnostics.iter();
        let mut diagnostics: Vec<RenderedDiagnostic> = diagnostics
            .map(|found| RenderedDiagnostic {
                json: found.to_json(),
                plain: render(found, &world, false),
                colored: render(found, &world, true),
            })
            .collect();
        let is_good = !compiled
            .diagnostics
            .iter()
            .any(|found| found.severity == Severity::Error);
        let kept = keep(&compiled, &self.files).unwrap_or_else(|error| {
            let message = format!("the code that the resources need cannot be kept: {error}");
            diagnostics.push(error_of("UploadFailed", &message));
            None
        });
        let export = compiled.export.take();
        let wrong = export
            .as_ref()
            .map_or_else(Vec::new, |export| unusable_places(&export.agents));
        let is_good = is_good && wrong.is_empty();
        diagnostics.extend(wrong.iter().map(|why| error_of("AgentPlace", why)));
        let modules = compiled.python_modules.iter();
        let requirements = modules.map(|module| {
            let required = requirements_of_module(Path::new(&module.root));
            (module.name.clone(), required)
        });
        LocalResult {
            requirements: requirements.collect(),
            export: export.filter(|_| is_good && kept.is_some()),
            code: VersionCode {
                interpreter,
                ..kept.unwrap_or_default()
            },
            diagnostics,
            plugin_output: compiled.plugin_output,
            uploaded: compiled.files.into_keys().collect(),
            head,
        }
    }

    /// The Python of the project's own virtual environment, which its handlers run with.
    fn own_interpreter(&self) -> Option<PathBuf> {
        let names = [".env", ".venv", "venv"].into_iter();
        let mut programs = names.map(|name| self.project.join(name).join("bin/python"));
        let program = programs.find(|program| program.is_file())?;
        std::path::absolute(program).ok()
    }
}

/// Keeps what the resources upload, and the code of their handlers.
fn keep(compiled: &Compiled, files: &Files) -> std::io::Result<Option<VersionCode>> {
    let Some(export) = &compiled.export else {
        return Ok(None);
    };
    files.keep_all(&compiled.files)?;
    let kept = code::keep(compiled, &export.resources, files)?;
    Ok(Some(VersionCode {
        modules: kept.modules,
        types: Some(kept.types),
        ..VersionCode::default()
    }))
}

fn error_of(kind: &str, message: &str) -> RenderedDiagnostic {
    RenderedDiagnostic {
        json: json!({"severity": "error", "kind": kind, "message": message}),
        plain: format!("error: {message}"),
        colored: format!("error: {message}"),
    }
}

impl LocalResult {
    /// What is said of the version that it makes: why it was compiled, and from which commit.
    pub fn metadata(&self, kind: &str, message: &str) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("type".to_owned(), kind.into());
        metadata.insert("message".to_owned(), message.into());
        metadata.insert("inmanta:compile:state".to_owned(), "success".into());
        if let Some(head) = &self.head {
            metadata.insert("commit".to_owned(), head.commit.to_string().into());
            metadata.insert("commit_summary".to_owned(), head.summary.clone().into());
            metadata.insert("commit_author".to_owned(), head.author.clone().into());
            metadata.insert("commit_changed".to_owned(), head.is_changed.into());
        }
        metadata
    }

    /// The version to store, for an environment of a store on this machine. `None`: the model has mistakes.
    pub fn into_version(
        self,
        environment_id: EnvironmentId,
        metadata: Map<String, Value>,
        release: bool,
    ) -> Option<NewVersion> {
        let export = self.export?;
        let resources: Vec<StoredResource> = export.resources.into_iter().map(stored).collect();
        Some(NewVersion {
            environment_id,
            commit_id: self.head.map(|head| head.commit.to_string()),
            tree_id: None,
            metadata: Value::Object(metadata),
            modules: json!(self.code),
            unknowns: json!(export.unknowns),
            agent_places: export.agents,
            resources,
            release,
            sent: Sent::default(),
        })
    }
}
