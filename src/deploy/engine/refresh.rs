//! What changed in the store: settings, agents, and a newer version, which is put in force.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Reconciler;
use crate::deploy::code::code_of;
use crate::deploy::schedule::{Activation, Priority, RetryPolicy, Selection};
use crate::deploy::{Intent, facts};
use crate::domain::{AgentName, Settings, Timestamp, VersionNumber, chain, read_agent_map};
use crate::observe::EventKind;
use crate::store;

/// By how much resources come earlier than their interval says, at most. A tenth spreads ten thousand resources that were
/// deployed within a minute over the minute before their repair is due, and more with each repair; nobody who asks for a
/// repair every 600 s minds one after 540 s.
const SPREAD_PERCENT: u32 = 10;

impl Reconciler {
    /// Reads what changed in the store: settings, pauses, halting, released versions.
    pub(super) async fn refresh(&mut self) -> bool {
        let refreshed = self.try_refresh().await;
        if let Err(error) = &refreshed {
            tracing::error!(environment.id = %self.environment, error = chain(error), "cannot read the released versions");
        }
        refreshed.is_ok()
    }

    async fn try_refresh(&mut self) -> Result<(), store::Error> {
        let now = Timestamp::now();
        self.settings = self.store.settings_fetch(self.environment).await?;
        self.schedule.set_policy(policy(&self.settings), now);
        self.crons.plan(&self.settings, now);
        let Some(record) = self.store.environment_fetch(self.environment).await? else {
            return Ok(());
        };
        self.halted = record.halted;
        self.place_agents().await?;
        if !self.deploys {
            return Ok(());
        }
        self.read_pauses().await?;
        if self.halted {
            return Ok(());
        }
        self.renew_facts(now).await?;
        let Some(released) = self.store.version_released(self.environment).await? else {
            return Ok(());
        };
        if released.number <= self.schedule.version() {
            return Ok(());
        }
        let activation = self.take_over(released.number, now).await?;
        // Results that wait to be written were got before the version: afterwards they would write over what it brings.
        let changed = activation.changed.iter().map(|state| &state.resource_id);
        self.flush_of(changed.chain(&activation.removed)).await;
        self.put_in_force(released.number, &activation).await?;
        self.announce(released.number, &activation);
        self.tell_who_waits(&activation.changed).await;
        self.recompile_for_known(now).await?;
        // Before anything runs: some of the new ones may be out of reach.
        self.place_agents().await?;
        // Even a version that changes nothing ends in a summary.
        self.begin_round();
        if self.settings.redeploy_failed_on_export() {
            let reason = "a new version was released, and what failed is tried again";
            self.schedule
                .request(Selection::Dirty, Priority::NewVersion, reason, None);
        }
        Ok(())
    }

    /// Reads which agents are paused. Few are, of however many there are, and only those are looked at that change.
    async fn read_pauses(&mut self) -> Result<(), store::Error> {
        let still = self.store.agent_still(self.environment).await?;
        let paused = still.into_iter().filter(|agent| agent.paused);
        let paused: BTreeSet<AgentName> = paused.map(|agent| agent.name).collect();
        let known: BTreeSet<AgentName> = self.schedule.paused().cloned().collect();
        for name in known.difference(&paused) {
            self.schedule.pause(name, false);
        }
        for name in paused.difference(&known) {
            self.schedule.pause(name, true);
        }
        Ok(())
    }

    /// Reads what a version changes and lets the schedule follow it. All is read before anything is taken over.
    async fn take_over(
        &mut self,
        number: VersionNumber,
        now: Timestamp,
    ) -> Result<Activation, store::Error> {
        let (store, environment) = (&self.store, self.environment);
        let active = self.schedule.version();
        let (changed, removed) = if active == VersionNumber::NONE {
            (store.resource_list(environment, number).await?, Vec::new())
        } else {
            store.resource_changes(environment, active, number).await?
        };
        let code = code_of(store, environment, number).await?;
        let changed = changed.into_iter().map(Intent::from).collect();
        let unknowns = facts::unknowns(store, environment, Some(number)).await?;
        let places = store.version_agent_places(environment, number).await?;
        self.model_places = read_agent_map(&places);
        let activation = self.schedule.apply(number, changed, &removed, now);
        self.code = code.for_agents(self.schedule.types());
        self.assign_permits();
        self.facts.set_unknowns(unknowns);
        Ok(activation)
    }

    /// Writes that a version is in force. The schedule has moved on; the store must follow before anything runs, however long
    /// that takes.
    async fn put_in_force(
        &self,
        number: VersionNumber,
        activation: &Activation,
    ) -> Result<(), store::Error> {
        let (changed, removed, agents) =
            (&activation.changed, &activation.removed, &activation.agents);
        let mut pause = Duration::from_millis(100);
        loop {
            let written =
                self.store
                    .version_activate(self.environment, number, changed, removed, agents);
            match written.await {
                Ok(()) => return Ok(()),
                Err(error)
                    if self
                        .complain_and_wait("put the version in force", &error, &mut pause)
                        .await => {}
                // It is read and applied again after the next start.
                Err(error) => return Err(error),
            }
        }
    }

    fn announce(&self, number: VersionNumber, activation: &Activation) {
        let (n_new, n_updated) = (activation.n_new, activation.n_updated);
        let n_removed = activation.removed.len();
        tracing::info!(
            environment.id = %self.environment, version = number.get(), n_new, n_updated, n_removed,
            "version {number} is in force"
        );
        self.bus.emit(
            self.environment,
            EventKind::Activated {
                version: number,
                n_new,
                n_updated,
                n_removed,
                n_total: self.schedule.len(),
            },
        );
    }
}

/// How often resources run by themselves, of the settings.
pub(super) fn policy(settings: &Settings) -> RetryPolicy {
    RetryPolicy {
        deploy: settings.deploy_interval().every(),
        repair: settings.repair_interval().every(),
        backoff: settings.retry_backoff(),
        spread_percent: SPREAD_PERCENT,
    }
}
