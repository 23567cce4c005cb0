//! The engine as the store has its environment, after a start.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use tokio::sync::mpsc;

use super::Reconciler;
use super::crons::Crons;
use super::fresh::Fresh;
use super::handle::Options;
use super::refresh::policy;
use super::writing::{Batch, Writing};
use crate::deploy::Reading;
use crate::deploy::ask::Requests;
use crate::deploy::code::{Code, code_of};
use crate::deploy::facts::{self, Facts};
use crate::deploy::schedule::{Loading, Room, Schedule};
use crate::domain::{AgentName, EnvironmentId, Settings, Timestamp, VersionNumber, read_agent_map};
use crate::executor::bounds::Daily;
use crate::executor::link::Message;
use crate::executor::places::Executors;
use crate::store::{self, ResourceRow, SeesRows, StateRow, Store};

impl Reconciler {
    /// Reads the environment as the store has it. What was running when the server ended counts as
    /// not done.
    pub(super) async fn restore(
        options: &Options,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Result<Self, store::Error> {
        let (environment, store) = (options.environment, options.store.clone());
        let settings = store.settings_fetch(environment).await?;
        let record = store.environment_fetch(environment).await?;
        let (active, halted) = record.map_or((None, false), |record| {
            (record.active_version, record.halted)
        });
        // A schedule of the version in force would try again what failed, and do what an interrupted run has left.
        let active = active.filter(|_| options.deploys);
        let agents = store.agent_still(environment).await?;
        let paused = agents
            .into_iter()
            .filter(|agent| agent.paused)
            .map(|agent| agent.name);
        let now = Timestamp::now();
        let unknowns = facts::unknowns(&store, environment, active).await?;
        let (schedule, code) = match active {
            None => {
                let none = Loading::new(VersionNumber::NONE, policy(&settings), paused, 0);
                (none.finish(now), Code::default())
            }
            Some(version) => {
                let schedule = load(&store, environment, version, &settings, paused, now).await?;
                let code = code_of(&store, environment, version).await?;
                let code = code.for_agents(schedule.types());
                (schedule, code)
            }
        };
        let executor = Executors::new(
            environment,
            options.python.clone(),
            options.executor,
            options.variables.clone(),
            options.ssh_config.clone(),
            options.packages.clone(),
            messages,
        );
        let model_places = match active {
            Some(version) => {
                read_agent_map(&store.version_agent_places(environment, version).await?)
            }
            None => BTreeMap::new(),
        };
        let mut engine = Self {
            environment,
            store,
            bus: options.bus.clone(),
            schedule,
            settings,
            executor,
            // What the store has of before is looked at once.
            has_places: true,
            model_places,
            code,
            halted,
            ending: None,
            deploys: options.deploys,
            in_flight: HashMap::new(),
            look_at_runs: Instant::now(),
            fresh: Fresh::default(),
            queued_tasks: HashMap::new(),
            comparing: HashMap::new(),
            facts: Facts::new(unknowns, options.recompile.clone(), options.facts),
            shutdown: options.shutdown.clone(),
            services: options.services.clone(),
            requests: Requests::new(options.api.clone()),
            reports: Vec::new(),
            unwritten: Batch::default(),
            writing: Writing::default(),
            action_logs: options.action_logs.clone(),
            daily: Daily::default(),
            round: None,
            n_rounds: 0,
            crons: Crons::default(),
        };
        engine.schedule.set_room(Room {
            native: options.executor.native_agents(),
            python: options.executor.python_agents(),
        });
        engine.assign_permits();
        engine.crons.plan(&engine.settings, now);
        engine.resume_dry_runs().await?;
        Ok(engine)
    }
}

/// The schedule of the version in force, with the states of its resources.
async fn load(
    store: &Store,
    environment: EnvironmentId,
    version: VersionNumber,
    settings: &Settings,
    paused: impl IntoIterator<Item = AgentName>,
    now: Timestamp,
) -> Result<Schedule, store::Error> {
    let known = store.version_fetch(environment, version).await?;
    let n_resources = known.map_or(0, |known| usize::try_from(known.n_resources).unwrap_or(0));
    let mut restoring = Restoring {
        loading: Loading::new(version, policy(settings), paused, n_resources),
        reading: Reading::default(),
    };
    let with_states = !settings.reset_deploy_progress_on_start();
    store
        .rows_each(environment, version, with_states, &mut restoring)
        .await?;
    let Restoring { loading, reading } = restoring;
    drop(reading);
    Ok(loading.finish(now))
}

/// Takes over what the store has of the version in force.
struct Restoring {
    loading: Loading,
    reading: Reading,
}

impl SeesRows for Restoring {
    fn resource(&mut self, row: &ResourceRow<'_>) -> Result<(), store::Error> {
        self.loading.intent(self.reading.intent(row)?);
        Ok(())
    }

    fn state(&mut self, row: &StateRow<'_>) {
        self.loading.state(row);
    }

    fn has_seen(&self, resource_id: &str) -> bool {
        self.loading.has(resource_id)
    }
}
