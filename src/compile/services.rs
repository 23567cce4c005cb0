//! What compiles and the lifecycle manager of services have to do with each other.
//!
//! A compile is given the instances that it is about, and leaves definitions for the catalog and attributes for the
//! inventory. When it has ended, the lifecycle manager goes on with the instances that waited for it. Who keeps catalog and
//! inventory is behind [`ServiceKeeper`]. Source: docs/reference/lsm.md § 3.7, § 3.8, § 4.6.

use std::collections::BTreeSet;
use std::fmt::Debug;

use futures_util::future::BoxFuture;
use steward_compiler::{
    Export, ServiceInstances, ServicePurpose, ServiceQuestion, ServicesInput, ServicesOutput,
};

use crate::domain::{CompileId, CompileState, EnvironmentId};
use crate::store::{self, Compile, Lane, ServiceRequest, Store};

/// The catalog and the inventory of services, as compiles reach them.
pub trait ServiceKeeper: Debug + Send + Sync {
    /// What a compile for this purpose sees of the services of an environment, read in one transaction. `requested`: the
    /// instances that a partial compile is for; `None`: it is one of all.
    fn input<'a>(
        &'a self,
        environment: EnvironmentId,
        purpose: &'a ServicePurpose,
        requested: Option<&'a [String]>,
    ) -> BoxFuture<'a, store::Result<ServicesInput>>;

    /// Instances that a compile was not given ([`ServicesInput::has_more`]) and wants to know of, while it runs.
    fn ask<'a>(
        &'a self,
        environment: EnvironmentId,
        question: ServiceQuestion,
    ) -> BoxFuture<'a, store::Result<ServiceInstances>>;

    /// Writes what a compile leaves: attributes into the inventory, definitions, if there are any, into the catalog. Doing it
    /// twice does no harm.
    ///
    /// # Errors
    /// [`store::Error::Refused`] and [`store::Error::Conflict`] say what the model or an instance is that does not fit; the
    /// compile has then failed.
    fn apply<'a>(
        &'a self,
        environment: EnvironmentId,
        compile: CompileId,
        output: &'a ServicesOutput,
    ) -> BoxFuture<'a, store::Result<()>>;

    /// Goes on with the instances that waited for a compile, which has its end in the store. It is called again after a crash:
    /// what was done already is not done twice.
    fn finished<'a>(
        &'a self,
        environment: EnvironmentId,
        compile: &'a Compile,
        has_succeeded: bool,
    ) -> BoxFuture<'a, store::Result<()>>;
}

/// Has the lifecycle manager take note of all compiles of a lane that have ended; the number of those.
pub(super) async fn report_ends(
    store: &Store,
    services: &dyn ServiceKeeper,
    environment: EnvironmentId,
    lane: Lane,
) -> store::Result<usize> {
    let mut n_ends = 0;
    for compile in store.compile_unhandled(environment).await? {
        if !lane.has(&compile) {
            continue;
        }
        let has_succeeded = matches!(
            compile.state,
            CompileState::Exported | CompileState::Compiled
        );
        services
            .finished(environment, &compile, has_succeeded)
            .await?;
        store.compile_handled(compile.id).await?;
        n_ends += 1;
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
