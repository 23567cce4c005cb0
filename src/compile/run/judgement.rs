//! What the answer of a worker means, before anything of it is written.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use steward_compiler::{Export, Resource, ServicePurpose};

use super::Context;
use crate::compile::execute::Executed;
use crate::compile::services::removed_sets;
use crate::compile::settings::checked;
use crate::compile::source::Head;
use crate::compile::worker::{JobDone, Reported};
use crate::domain::{AgentName, ResourceId, Timestamp};
use crate::observe::RenderedDiagnostic;
use crate::store::{self, Compile, NewVersion, PartialCode, PartialVersion, Sent, StoredResource};

/// A version to store.
pub(super) enum New {
    /// With the settings that the project decides.
    Full(NewVersion, Vec<(String, Value)>),
    Partial(PartialVersion),
}

/// What a compile came to, before anything of it is written.
pub(super) struct Judgement {
    pub(super) diagnostics: Vec<RenderedDiagnostic>,
    pub(super) n_resources: usize,
    /// Of a model without mistakes.
    pub(super) result_digest: Option<String>,
    /// The version to store; `None`: only a compile was asked for.
    pub(super) outcome: Result<Option<New>, Failure>,
}

impl Judgement {
    /// There was no compile to judge.
    pub(super) fn failed(failure: Failure) -> Self {
        Self {
            diagnostics: Vec::new(),
            n_resources: 0,
            result_digest: None,
            outcome: Err(failure),
        }
    }

    /// The model does not compile.
    pub(super) fn of_mistakes(done: JobDone) -> Self {
        let n_errors = done.n_errors();
        let plural = if n_errors == 1 { "" } else { "s" };
        let failure = Failure::Rejected(format!("the model has {n_errors} error{plural}"));
        Self {
            diagnostics: done.diagnostics.into_iter().map(rendered).collect(),
            ..Self::failed(failure)
        }
    }

    /// Adds what the inventory knows about the mistakes of a model: they may be those of another instance.
    pub(super) async fn explain(&mut self, context: &Context<'_>) -> Result<(), store::Error> {
        let errors = self
            .diagnostics
            .iter()
            .filter(|known| known.json["severity"] == "error");
        let errors: String = errors.map(|known| known.plain.as_str()).collect();
        let services = context.services;
        let named = services.named_though_ended(context.environment, &errors);
        for why in named.await? {
            self.diagnostics
                .push(rendered(Reported::error("ServiceReference", why)));
        }
        Ok(())
    }

    /// It is not taken, though the model has no mistakes.
    pub(super) fn refuse(&mut self, kind: &str, why: String) {
        self.diagnostics
            .push(rendered(Reported::error(kind, why.clone())));
        self.outcome = Err(Failure::Rejected(why));
    }
}

pub(super) fn rendered(reported: Reported) -> RenderedDiagnostic {
    RenderedDiagnostic {
        json: serde_json::from_str(&reported.json).unwrap_or(Value::Null),
        plain: reported.plain,
        colored: reported.colored,
    }
}

pub(in crate::compile) enum Failure {
    /// The model is wrong: compiling it again gives the same.
    Rejected(String),
    /// The same, and the worker says what is wrong with it.
    Model(Box<JobDone>),
    /// Our world failed: trying again may help.
    Aborted(String),
}

impl Failure {
    pub(in crate::compile) fn message(&self) -> &str {
        match self {
            Self::Rejected(message) | Self::Aborted(message) => message,
            Self::Model(_) => "the model has mistakes",
        }
    }
}

/// What a worker's answer means.
pub(super) fn judge(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    executed: Executed,
) -> Judgement {
    let Executed { mut done, services } = executed;
    // A validation leaves no export, and neither do definitions alone.
    let is_exported = match &services.purpose {
        ServicePurpose::Production => done.export.is_some(),
        ServicePurpose::Validation { .. } | ServicePurpose::Definitions => true,
    };
    if done.has_errors() || !is_exported {
        return Judgement::of_mistakes(done);
    }
    let mut diagnostics = std::mem::take(&mut done.diagnostics);
    let settings = match checked(&done.settings) {
        Ok(settings) => settings,
        Err(message) => {
            diagnostics.push(Reported::error("EnvironmentSettings", message));
            done.diagnostics = diagnostics;
            return Judgement::of_mistakes(done);
        }
    };
    let Some(export) = done.export.filter(|_| compile.do_export) else {
        return Judgement {
            diagnostics: diagnostics.into_iter().map(rendered).collect(),
            n_resources: 0,
            result_digest: None,
            outcome: Ok(None),
        };
    };
    let (n_resources, result_digest) = (export.resources.len(), result_digest(&export));
    let request = compile.services.as_ref();
    let partial = request.filter(|_| services.requested.is_some());
    let removed_sets = partial.map(|request| removed_sets(request, &services, &export));
    let new = new_version(context, compile, head, json!(done.code), export);
    let new = match removed_sets {
        None => New::Full(new, settings),
        Some(removed_sets) => New::Partial(PartialVersion {
            new,
            removed_sets,
            code: PartialCode::Same,
        }),
    };
    Judgement {
        diagnostics: diagnostics.into_iter().map(rendered).collect(),
        n_resources,
        result_digest: Some(result_digest),
        outcome: Ok(Some(new)),
    }
}

/// The version that an export makes; `code` is the Python code of its handlers.
fn new_version(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    code: Value,
    export: Export,
) -> NewVersion {
    let mut metadata = compile.metadata.clone();
    if let Some(metadata) = metadata.as_object_mut() {
        let info = &head.info;
        metadata.insert("commit".to_owned(), info.id.to_string().into());
        metadata.insert("commit_summary".to_owned(), info.summary.clone().into());
        metadata.insert("commit_author".to_owned(), info.author.clone().into());
        metadata.insert("inmanta:compile:state".to_owned(), "success".into());
    }
    NewVersion {
        environment_id: context.environment,
        commit_id: Some(head.info.id.to_string()),
        tree_id: Some(head.info.tree.to_string()),
        metadata,
        modules: code,
        unknowns: json!(export.unknowns),
        agent_places: export.agents,
        resources: export.resources.into_iter().map(stored).collect(),
        release: false,
        sent: Sent::default(),
    }
}

/// A resource of an export as the store keeps it.
pub(in crate::compile) fn stored(resource: Resource) -> StoredResource {
    StoredResource {
        digest: String::new(),
        resource_id: ResourceId::new(resource.id),
        resource_type: resource.entity_type,
        agent: AgentName::new(resource.agent),
        id_attribute: resource.id_attribute,
        id_value: resource.id_value,
        attributes: resource.attributes,
        attribute_hash: resource.attribute_hash,
        requires: resource.requires.into_iter().map(ResourceId::new).collect(),
        is_undefined: resource.undefined,
        set_name: resource.resource_set.unwrap_or_default(),
        created: Timestamp::now(),
    }
    .with_digest()
}

/// What `steward verify` compares: the whole desired state in a canonical order.
fn result_digest(export: &Export) -> String {
    let mut resources: Vec<&Resource> = export.resources.iter().collect();
    resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let mut hasher = Sha256::new();
    let mut text = Vec::new();
    for resource in resources {
        text.clear();
        // Texts, lists and flags can be written as JSON, and to memory.
        if serde_json::to_writer(&mut text, resource).is_ok() {
            hasher.update(&text);
            hasher.update(b"\n");
        }
    }
    hex::encode(hasher.finalize())
}
