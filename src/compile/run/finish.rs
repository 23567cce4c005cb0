//! The end of a compile, as it is written: with a version, or with the reason why there is none.

use serde_json::Value;

use super::judgement::{Failure, Judgement, New, rendered};
use super::stages::{Stages, begin};
use super::{Context, Verdict};
use crate::compile::next::inputs_digest;
use crate::compile::settings::PROJECT_FILE;
use crate::compile::source::Head;
use crate::compile::worker::Reported;
use crate::domain::VersionNumber;
use crate::observe::RenderedDiagnostic;
use crate::store::{self, Compile, CompileEnd, Outcome};

/// The end of a compile as it is written, but for its outcome.
pub(super) fn end_of(
    context: &Context<'_>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    judgement: &Judgement,
) -> CompileEnd {
    let tree = head.info.tree.to_string();
    let secrets = context.secrets.digest();
    let diagnostics = judgement.diagnostics.iter();
    CompileEnd {
        id: compile.id,
        served: served.iter().map(|compile| compile.id).collect(),
        outcome: Outcome::Aborted(String::new()),
        diagnostics: diagnostics.map(|known| known.json.clone()).collect(),
        inputs_digest: Some(inputs_digest(&tree, &compile.variables, secrets.as_deref())),
        commit_id: Some(head.info.id.to_string()),
        tree_id: Some(tree),
        result_digest: judgement.result_digest.clone(),
    }
}

/// What was written at the end of a compile.
pub(super) struct Finished {
    pub(super) verdict: Verdict,
    pub(super) version: Option<VersionNumber>,
    pub(super) failure: Option<String>,
    /// Why the store does not take what the model means.
    pub(super) refusal: Option<RenderedDiagnostic>,
}

/// Writes the end of a compile, with the version that it made if there is one.
pub(super) async fn finish(
    context: &Context<'_>,
    head: &Head,
    stages: &mut Stages<'_>,
    (mut end, can_split): (CompileEnd, bool),
    outcome: Result<Option<New>, Failure>,
) -> Result<Finished, store::Error> {
    let mut finished = Finished {
        verdict: Verdict::Compiled,
        version: None,
        failure: None,
        refusal: None,
    };
    let outcome = match outcome {
        Ok(None) => Ok(()),
        Ok(Some(new)) => match store_version(context, stages, new, &end).await {
            Ok(version) => {
                finished.verdict = Verdict::Stored;
                finished.version = Some(version);
                return Ok(finished);
            }
            Err(error) => {
                let message = refusal_of(context, head, error).await?;
                let refusal = Reported::error("PartialExportRefused", message.clone());
                let refusal = rendered(refusal);
                if let Some(diagnostics) = end.diagnostics.as_array_mut() {
                    diagnostics.push(refusal.json.clone());
                }
                finished.refusal = Some(refusal);
                Err(Failure::Rejected(message))
            }
        },
        Err(failure) => Err(failure),
    };
    end.outcome = match outcome {
        Ok(()) => Outcome::Compiled,
        Err(Failure::Aborted(message)) => {
            finished.verdict = Verdict::Aborted;
            finished.failure = Some(message.clone());
            Outcome::Aborted(message)
        }
        Err(failure) => {
            let message = failure.message().to_owned();
            finished.failure = Some(message.clone());
            // A commit that cannot be exported at all is nobody's fault among them.
            if can_split && *context.full_rejected.lock().await != Some(head.info.id) {
                finished.verdict = Verdict::Split;
                return Ok(finished);
            }
            finished.verdict = Verdict::Rejected;
            Outcome::Rejected(message)
        }
    };
    context.store.compile_finish(&end).await?;
    Ok(finished)
}

/// Why the store takes no version of this model, whenever it is compiled again.
///
/// # Errors
/// It may take one another time, or one of everything.
async fn refusal_of(
    context: &Context<'_>,
    head: &Head,
    error: store::Error,
) -> Result<String, store::Error> {
    match error {
        // What the model means breaks a rule of partial exports: compiling it again gives the same.
        store::Error::Refused(message) => Ok(message),
        // For each order the same full compile would fail again.
        store::Error::Base(why) if *context.full_rejected.lock().await == Some(head.info.id) => {
            Ok(format!(
                "{why}. A full compile of this commit was tried for that, and is rejected: see its report, mend the model, \
                 and push"
            ))
        }
        error => Err(error),
    }
}

async fn store_version(
    context: &Context<'_>,
    stages: &mut Stages<'_>,
    new: New,
    end: &CompileEnd,
) -> Result<VersionNumber, store::Error> {
    let began = begin();
    if let New::Full(_, decided) = &new {
        apply_settings(context, decided).await?;
    }
    // Read at the last moment: whoever switched it off meanwhile wants no release.
    let settings = context.store.settings_fetch(context.environment).await?;
    let release = settings.auto_deploy();
    let (n_resources, (version, change)) = match new {
        New::Full(mut new, _) => {
            new.release = release;
            let stored = context.store.version_store(&new, end).await?;
            (new.resources.len(), stored)
        }
        New::Partial(mut partial) => {
            partial.new.release = release;
            let store = context.store;
            let stored = store.version_store_partial_compiled(&partial, end).await?;
            (partial.new.resources.len(), stored)
        }
    };
    let counted = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    };
    let summary = format!(
        "version {version}: {}, {} and {} written",
        counted(n_resources, "resource"),
        counted(change.n_sets_written, "set"),
        counted(change.n_resources_written, "content"),
    );
    stages
        .write("Storing the version", "", began, summary, String::new())
        .await;
    Ok(version)
}

/// Sets what the project decides of the settings, from before its version is stored: it may say whether that is released.
async fn apply_settings(
    context: &Context<'_>,
    decided: &[(String, Value)],
) -> Result<(), store::Error> {
    let (store, id) = (context.store, context.environment);
    let protected = store.settings_protected(id).await?;
    let was_decided = protected.values().any(|by| by == PROJECT_FILE);
    if decided.is_empty() && !was_decided {
        return Ok(());
    }
    store.settings_protect(id, PROJECT_FILE, decided).await
}
