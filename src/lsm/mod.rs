//! The services of environments: what happens to instances, and what follows from it.
//!
//! Something happens to an instance: a client asks for it, a compile ends, resources are deployed. `steward_lsm` decides what
//! that means, the store keeps it in one transaction ([`Store::service_change`]), and here is what comes after the commit: the
//! compile loop is woken, callbacks are sent, orders go on, and automatic transfers are looked for, each a change of its own. A
//! crash in between loses nothing: at the start of a server the instances whose states have automatic transfers are looked at
//! again ([`Services::keep_going`]), and ends of compiles that nobody took note of are reported again.
//!
//! It owns no loop: whoever brings the news carries it through. Source: docs/reference/lsm.md § 3.

mod callbacks;
mod catalog;
mod change;
mod compiles;
mod failures;
mod orders;
mod references;
mod report;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use steward_lsm::lifecycle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::{EnvironmentId, Timestamp, WakeHandle, chain};
use crate::store::{self, Changed, Definition, Rules, Store};

pub(crate) use callbacks::event_json;
pub use catalog::config_of;
pub use change::{Creation, Migrating};
pub use failures::{Exported, FailedRun, causes, failed_runs};
pub use orders::{NewItem, NewOrder};
pub use report::{Report, report_of, transfer_id};
pub use waiting::Waiting;

/// The handle of all services of a server.
#[derive(Debug, Clone)]
pub struct Services {
    store: Store,
    callbacks: callbacks::Sender,
    orders: orders::Queue,
    /// The compile loops of the environments that run.
    wakes: Arc<Mutex<HashMap<EnvironmentId, WakeHandle>>>,
    shutdown: CancellationToken,
}

/// Automatic transfers that may follow one event. A lifecycle whose automatic transfers lead in a circle would go on for ever.
const MAX_AUTO: usize = 100;
/// How long a store that does not answer is left in peace.
const STORE_PAUSE: Duration = Duration::from_secs(2);
/// Instances that are looked up at once at the start.
const AT_ONCE: i64 = 1000;
/// Instances of given ids that are read in one statement; SQLite takes 32766 parameters.
const READ_AT_ONCE: usize = 1000;

impl Services {
    /// Services that are kept in this store. Callbacks are sent, and orders carried on, until `shutdown`.
    pub fn new(store: Store, shutdown: CancellationToken) -> Self {
        let services = Self {
            callbacks: callbacks::start(store.clone(), shutdown.clone()),
            orders: orders::Queue::default(),
            store,
            wakes: Arc::default(),
            shutdown: shutdown.clone(),
        };
        orders::start(services.clone(), shutdown);
        services
    }

    /// From now on this wakes the compile loop of an environment; `None`: it has ended.
    pub fn attach(&self, environment: EnvironmentId, wake: Option<WakeHandle>) {
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        match wake {
            Some(wake) => wakes.insert(environment, wake),
            None => wakes.remove(&environment),
        };
    }

    fn wake(&self, environment: EnvironmentId) {
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = wakes.get(&environment) {
            wake.wake();
        }
    }

    /// What of the environment counts for its services.
    async fn rules(&self, environment: EnvironmentId) -> store::Result<Rules> {
        let settings = self.store.settings_fetch(environment).await?;
        let record = self.store.environment_fetch(environment).await?;
        let record =
            record.ok_or_else(|| store::Error::NotFound(format!("environment {environment}")))?;
        Ok(Rules {
            settings: lifecycle::Settings {
                transfer_optimization: settings.lsm_transfer_optimization(),
                expert_mode: settings.lsm_expert_mode(),
                environment_name: record.name,
            },
            is_partial: settings.lsm_partial_compile(),
            server_compile: settings.server_compile(),
        })
    }

    /// Takes up what the last run of the server left, and again each time that the database comes back: what an instance goes on
    /// by is committed without waiting for the disk, so that a crash of the database may take it, and the next start of the server
    /// may be far away. What was looked for twice happens once.
    pub async fn keep_going(&self, environment: EnvironmentId, mut returns: watch::Receiver<u64>) {
        loop {
            if let Err(error) = self.start(environment).await {
                tracing::error!(
                    environment.id = %environment, error = chain(&error),
                    "cannot take up the services of the environment; trying again"
                );
                tokio::time::sleep(STORE_PAUSE).await;
                continue;
            }
            if returns.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes up what the last run of the server left: automatic transfers and orders.
    ///
    /// # Errors
    /// The store does not answer.
    async fn start(&self, environment: EnvironmentId) -> store::Result<()> {
        let catalog = self.store.service_catalog(environment).await?;
        let definitions = catalog
            .services()
            .flat_map(|(_, versions)| versions.values());
        for definition in definitions {
            self.start_definition(environment, definition).await?;
        }
        self.orders_start(environment).await
    }

    /// Looks for transfers of all instances of a definition that may have one that nothing asks for any more: automatic ones,
    /// and those that follow from a deployment whose result is known. Source: docs/reference/lsm.md § 3.11.
    async fn start_definition(
        &self,
        environment: EnvironmentId,
        definition: &Definition,
    ) -> store::Result<()> {
        let entity = &definition.entity;
        let states = &entity.lifecycle;
        let of = (entity.name.as_str(), entity.version);
        let autos = lifecycle::auto_states(states);
        let of_result = |succeeded| {
            let mut of_result = lifecycle::result_states(states, succeeded);
            of_result.retain(|state| !autos.contains(state));
            of_result
        };
        for (wanted, known_result) in [
            (autos.clone(), None),
            (of_result(true), Some(true)),
            (of_result(false), Some(false)),
        ] {
            let mut after = String::new();
            loop {
                let wanted = (&wanted[..], known_result);
                let ids = self
                    .store
                    .service_ids_in(environment, of, wanted, &after, AT_ONCE);
                let ids = ids.await?;
                let Some(last) = ids.last() else {
                    break;
                };
                after.clone_from(last);
                for id in ids.iter().filter_map(|id| id.parse::<Uuid>().ok()) {
                    self.auto(environment, id, true).await;
                }
            }
        }
        Ok(())
    }

    /// Does what comes after a change.
    async fn follow(&self, environment: EnvironmentId, changed: &Changed) {
        self.after(environment, changed);
        if let Some(known_result) = changed.fire_auto {
            Box::pin(self.auto(environment, changed.instance.id, known_result)).await;
        }
    }

    fn after(&self, environment: EnvironmentId, changed: &Changed) {
        if changed.is_queued {
            self.wake(environment);
        }
        self.orders.touched(environment, changed.instance.id);
        let entity = &changed.instance.service_entity;
        self.callbacks.send(environment, entity, &changed.events);
    }

    /// Looks for automatic transfers of an instance in a while, since the store did not answer: nothing else may ever happen to
    /// it. A server that stops finds it at its next start.
    fn auto_later(&self, environment: EnvironmentId, instance: Uuid, known_result: bool) {
        let services = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(STORE_PAUSE) => {
                    Box::pin(services.auto(environment, instance, known_result)).await;
                }
                () = services.shutdown.cancelled() => {}
            }
        });
    }

    /// Looks for automatic transfers of an instance until there is none.
    async fn auto(&self, environment: EnvironmentId, instance: Uuid, known_result: bool) {
        let mut next = Some(known_result);
        for _ in 0..MAX_AUTO {
            let Some(known_result) = next else { return };
            match self.fire(environment, instance, known_result).await {
                Ok(changed) => {
                    self.after(environment, &changed);
                    next = changed.fire_auto;
                }
                Err(error) => {
                    tracing::error!(
                        environment.id = %environment, instance.id = %instance, error = chain(&error),
                        "cannot look for automatic transfers of the instance {instance}"
                    );
                    if matches!(error, store::Error::Query(_) | store::Error::Lost(_)) {
                        self.auto_later(environment, instance, known_result);
                    }
                    return;
                }
            }
        }
        tracing::warn!(
            environment.id = %environment, instance.id = %instance,
            "the instance {instance} went through {MAX_AUTO} automatic transfers without a pause: does its lifecycle lead in a circle?"
        );
    }
}

/// The moment, as services have it.
fn now() -> steward_lsm::Moment {
    steward_lsm::Moment(Timestamp::now().0)
}
