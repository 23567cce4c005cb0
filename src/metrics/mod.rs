//! What is measured of every environment, minute by minute. Source: docs/reference/deployment.md § 7.2.
//!
//! Gauges say how many there are at the end of a minute: resources of each status, agents that are paused or not, services and
//! their instances under each label. Timers add up the compiles that ended, and those that began, in the minute. Nothing is measured while the server is down; what is
//! stored is read again in windows (`crate::api`).

use std::collections::BTreeMap;
use std::time::Duration;

use steward_lsm::definition::Label;
use tokio_util::sync::CancellationToken;

use crate::domain::{EnvironmentId, ResourceStatus, SUMMARY_STATES, Timestamp, chain};
use crate::store::{self, Catalog, Measurement, Store};

pub const COMPILE_TIME: &str = "orchestrator.compile_time";
pub const COMPILE_WAITING_TIME: &str = "orchestrator.compile_waiting_time";
/// Derived from the compiles that ended.
pub const COMPILE_RATE: &str = "orchestrator.compile_rate";
pub const AGENT_COUNT: &str = "resource.agent_count";
pub const RESOURCE_COUNT: &str = "resource.resource_count";
pub const SERVICE_COUNT: &str = "lsm.service_count";
pub const SERVICE_INSTANCE_COUNT: &str = "lsm.service_instance_count";

/// How often is measured.
const EVERY: Duration = Duration::from_secs(60);

/// Measures until the server stops.
pub async fn run(store: Store, shutdown: CancellationToken) {
    let mut since = Timestamp::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = shutdown.cancelled() => return,
        }
        let now = Timestamp::now();
        if let Err(error) = measure(&store, since, now).await {
            tracing::error!(
                error = chain(&error),
                "cannot write the metrics of the last minute"
            );
        }
        since = now;
    }
}

/// Measures all environments, also halted ones.
async fn measure(store: &Store, since: Timestamp, now: Timestamp) -> store::Result<()> {
    for environment in store.environment_list().await? {
        let measured = measure_one(store, environment.id, since, now).await?;
        store.metrics_write(environment.id, &measured).await?;
    }
    Ok(())
}

async fn measure_one(
    store: &Store,
    environment: EnvironmentId,
    since: Timestamp,
    now: Timestamp,
) -> store::Result<Vec<Measurement>> {
    let mut measured = Vec::new();
    let mut add = |name: &str, category: &str, n_values: i64, total: i64| {
        measured.push(Measurement {
            name: name.to_owned(),
            category: category.to_owned(),
            minute: now,
            n_values,
            total,
        });
    };
    let counts = store.state_counts(environment).await?;
    // No resource is `dry` here; clients look for it.
    for state in SUMMARY_STATES.into_iter().chain(["dry"]) {
        let status = ResourceStatus::parse(state);
        let n_resources = status.and_then(|status| counts.get(&status).copied());
        add(RESOURCE_COUNT, state, 1, n_resources.unwrap_or_default());
    }
    let agents = store.agent_counts(environment).await?;
    for status in ["paused", "up", "down"] {
        let n_agents = agents.get(status).copied().unwrap_or_default();
        add(AGENT_COUNT, status, 1, n_agents);
    }
    // An environment whose models know no services has no values of them.
    let catalog = store.service_catalog(environment).await?;
    if catalog.services().next().is_some() {
        let n_services = catalog.services().count();
        add(SERVICE_COUNT, "", 1, counted(n_services));
        for (label, n_instances) in instances_by_label(store, environment, &catalog).await? {
            add(SERVICE_INSTANCE_COUNT, label, 1, n_instances);
        }
    }
    let times = store.compile_times(environment, since, now).await?;
    if times.n_ended > 0 {
        add(COMPILE_TIME, "", times.n_ended, times.ran_us);
    }
    if times.n_begun > 0 {
        add(COMPILE_WAITING_TIME, "", times.n_begun, times.waited_us);
    }
    Ok(measured)
}

fn counted(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many instances have not ended, under each label. Source: docs/reference/lsm.md Appendix A.
async fn instances_by_label(
    store: &Store,
    environment: EnvironmentId,
    catalog: &Catalog,
) -> store::Result<BTreeMap<&'static str, i64>> {
    let labels = Label::ALL.map(Label::as_str).into_iter();
    let labels = labels.chain([Label::NONE]);
    let mut by_label: BTreeMap<&str, i64> = labels.map(|label| (label, 0)).collect();
    for (name, versions) in catalog.services() {
        for (version, state, n) in store.service_state_counts(environment, name).await? {
            if let Some(definition) = versions.get(&version) {
                let label = definition.entity.lifecycle.label_of(&state);
                *by_label.entry(label).or_default() += n;
            }
        }
    }
    Ok(by_label)
}

#[cfg(test)]
mod tests;
