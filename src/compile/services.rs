//! What compiles and the lifecycle manager of services have to do with each other.
//!
//! A compile is given the instances that it is about, and leaves definitions for the catalog and attributes for the
//! inventory. When it has ended, the lifecycle manager goes on with the instances that waited for it. Source: docs/reference/lsm.md § 3.7, § 3.8, § 4.6.

use std::collections::BTreeSet;
use std::time::Duration;

use steward_compiler::{Export, ServicesInput};

use crate::compile::service::MAX_ATTEMPTS;
use crate::domain::{CompileState, EnvironmentId};
use crate::lsm::Services;
use crate::store::{self, Lane, ServiceRequest, Store};

/// The longest pause before a compile is tried again. The others of its lane wait, too: what hinders it will hinder them.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// How long to wait before a compile is tried again that was begun so often.
fn pause_after(attempts: i64) -> Duration {
    let doubled = 1 << attempts.clamp(0, 10);
    (Duration::from_millis(100) * doubled).min(MAX_PAUSE)
}

/// Has the lifecycle manager take note of all compiles of a lane that have ended; the number of those. One that this server
/// could not do says nothing about its instance, and nobody else would ask for it: it is queued again, some times.
pub(super) async fn report_ends(
    store: &Store,
    services: &Services,
    environment: EnvironmentId,
    lane: Lane,
) -> store::Result<usize> {
    let (mut n_ends, mut pause) = (0, Duration::ZERO);
    for compile in store.compile_unhandled(environment).await? {
        if !lane.has(&compile) {
            continue;
        }
        n_ends += 1;
        if compile.state == CompileState::Aborted
            && compile.attempts <= MAX_ATTEMPTS
            && store.compile_try_again(compile.id).await?
        {
            tracing::warn!(
                environment.id = %environment,
                compile.id = %compile.id,
                reason = compile.reason.as_deref(),
                "the compile for the service instance could not be done; it is tried again"
            );
            pause = pause.max(pause_after(compile.attempts));
            continue;
        }
        let has_succeeded = matches!(
            compile.state,
            CompileState::Exported | CompileState::Compiled
        );
        services
            .compile_finished(environment, &compile, has_succeeded)
            .await?;
        store.compile_handled(compile.id).await?;
    }
    // Once for all of them: a hundred that one run served have ended together.
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    Ok(n_ends)
}

/// The resource sets that a partial export removes: those that it was told to remove, those that the model has without a
/// resource, and those of the asked instances, unless something of them is exported. So the set of a tree of which nothing is
/// exported any more goes. Source: docs/reference/lsm.md § 4.1 "soft delete", § 4.5.
pub(super) fn removed_sets(
    request: &ServiceRequest,
    input: &ServicesInput,
    export: &Export,
) -> Vec<String> {
    let exported: BTreeSet<&str> = export
        .resources
        .iter()
        .filter_map(|resource| resource.resource_set.as_deref())
        .collect();
    let named = request.removed_sets.iter().chain(&export.removed_sets);
    let mut removed: BTreeSet<String> = named.cloned().collect();
    removed.extend(input.roots());
    removed.retain(|set| !exported.contains(set.as_str()));
    removed.into_iter().collect()
}
