//! Sends events of instances to the addresses that want them. Source: docs/reference/lsm.md § 5.9.
//!
//! Best effort: what cannot be delivered after a few attempts is dropped, as is what a server had not sent when it ended, and
//! the log says so. Each callback has a task of its own, a lane, which sends one event after the other: the events of an instance
//! arrive in their order, and an address that does not answer keeps no other one waiting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steward_compiler::without_credentials;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use ureq::unversioned::transport::DefaultConnector;
use uuid::Uuid;

use crate::domain::{EnvironmentId, Timestamp, chain};
use crate::git::{GuardedResolver, Reach};
use crate::store::{Callback, Store, StoredEvent};

/// Events that wait to be sent. One takes some hundred bytes.
const MAX_WAITING: usize = 10_000;
/// Events that wait for one address.
const MAX_WAITING_FOR_ONE: usize = 1000;
/// Addresses that are sent to at once; each takes a thread.
const MAX_AT_ONCE: usize = 64;
/// A lane ends when there was nothing to send for so long.
const IDLE: Duration = Duration::from_secs(60);
/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an address is tried, with a pause that doubles.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Events of one change.
struct Batch {
    environment: EnvironmentId,
    entity: String,
    events: Vec<StoredEvent>,
}

/// Hands events to the task that sends them.
#[derive(Debug, Clone)]
pub(super) struct Sender(mpsc::Sender<Batch>);

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Batch")
    }
}

impl Sender {
    /// Sends events of an instance to whom they concern, soon.
    pub(super) fn send(&self, environment: EnvironmentId, entity: &str, events: &[StoredEvent]) {
        if events.is_empty() {
            return;
        }
        let batch = Batch {
            environment,
            entity: entity.to_owned(),
            events: events.to_vec(),
        };
        if self.0.try_send(batch).is_err() {
            tracing::warn!(
                environment.id = %environment,
                "events of {entity} are not sent to callbacks: too many wait for addresses that do not answer"
            );
        }
    }
}

/// Starts the task that hands events to the lanes of callbacks; it ends at shutdown.
pub(super) fn start(store: Store, shutdown: CancellationToken) -> Sender {
    let (sender, mut batches) = mpsc::channel(MAX_WAITING);
    tokio::spawn(async move {
        let mut lanes = Lanes::new(store);
        loop {
            tokio::select! {
                batch = batches.recv() => match batch {
                    Some(batch) => lanes.take(batch).await,
                    None => return,
                },
                () = shutdown.cancelled() => return,
            }
        }
    });
    Sender(sender)
}

/// An event on its way to one address.
struct Parcel {
    environment: EnvironmentId,
    callback: Uuid,
    url: String,
    body: String,
    /// Which event it is, in words.
    event: String,
}

/// The lanes of callbacks that have something to send, or had a while ago.
struct Lanes {
    store: Store,
    open: HashMap<Uuid, mpsc::Sender<Parcel>>,
    threads: Arc<Semaphore>,
}

impl Lanes {
    fn new(store: Store) -> Self {
        Self {
            store,
            open: HashMap::new(),
            threads: Arc::new(Semaphore::new(MAX_AT_ONCE)),
        }
    }

    /// Hands events to whom they concern.
    async fn take(&mut self, batch: Batch) {
        let callbacks = match self
            .store
            .callback_list_of(batch.environment, &batch.entity)
            .await
        {
            Ok(callbacks) => callbacks,
            Err(error) => {
                tracing::error!(environment.id = %batch.environment, error = chain(&error), "cannot read the callbacks");
                return;
            }
        };
        for event in &batch.events {
            for callback in callbacks.iter().filter(|callback| wants(callback, event)) {
                self.hand(Parcel {
                    environment: batch.environment,
                    callback: callback.id,
                    url: callback.url.clone(),
                    body: body(&batch, event).to_string(),
                    event: format!(
                        "the event {} ({}) of the instance {}",
                        event.id,
                        event.event.event_type.as_str(),
                        event.event.service_instance_id
                    ),
                });
            }
        }
    }

    fn hand(&mut self, parcel: Parcel) {
        let id = parcel.callback;
        let rest = match self.open.get(&id) {
            Some(lane) => lane.try_send(parcel),
            None => Err(TrySendError::Closed(parcel)),
        };
        match rest {
            Ok(()) => {}
            // It has ended since, or there was none.
            Err(TrySendError::Closed(parcel)) => {
                self.open.retain(|_, lane| !lane.is_closed());
                let lane = lane(self.store.clone(), Arc::clone(&self.threads));
                // A new one has room.
                let _ = lane.try_send(parcel);
                self.open.insert(id, lane);
            }
            Err(TrySendError::Full(parcel)) => tracing::warn!(
                environment.id = %parcel.environment, callback.id = %id,
                "an event is not sent to the callback {}: too many wait for its answer",
                without_credentials(&parcel.url)
            ),
        }
    }
}

/// Starts the task that sends to one address.
fn lane(store: Store, threads: Arc<Semaphore>) -> mpsc::Sender<Parcel> {
    let (sender, mut parcels) = mpsc::channel(MAX_WAITING_FOR_ONE);
    tokio::spawn(async move {
        while let Ok(Some(parcel)) = tokio::time::timeout(IDLE, parcels.recv()).await {
            deliver(&store, &threads, parcel).await;
        }
        // What came while it was about to end.
        parcels.close();
        while let Some(parcel) = parcels.recv().await {
            deliver(&store, &threads, parcel).await;
        }
    });
    sender
}

async fn deliver(store: &Store, threads: &Arc<Semaphore>, parcel: Parcel) {
    // It is never closed.
    let permit = Arc::clone(threads).acquire_owned().await;
    let is_for = store.callback_is_for(parcel.environment, parcel.callback, &parcel.url);
    // It was taken back while the event waited. Where the database does not answer, the event is sent.
    if !is_for.await.unwrap_or(true) {
        return;
    }
    let _ = tokio::task::spawn_blocking(move || {
        if let Err(error) = post(&parcel.url, &parcel.body) {
            tracing::warn!(
                environment.id = %parcel.environment, callback.id = %parcel.callback,
                "{}",
                without_credentials(&format!("the callback {} did not take {}: {error}", parcel.url, parcel.event))
            );
        }
        drop(permit);
    })
    .await;
}

/// Whether an event is one of those that a callback is for.
fn wants(callback: &Callback, event: &StoredEvent) -> bool {
    let kind = event.event.event_type.as_str();
    let types = callback.event_types.as_ref();
    types.is_none_or(|types| types.iter().any(|one| one == kind))
        && callback
            .minimal_severity
            .is_none_or(|least| event.event.severity >= least)
}

/// An event as it is sent: its record, and what it is about.
fn body(batch: &Batch, stored: &StoredEvent) -> Value {
    let mut body = event_json(stored);
    body["environment"] = json!(batch.environment);
    body["service_entity"] = json!(batch.entity);
    body
}

/// An event as the API shows it. Source: docs/reference/lsm.md § 5.7.
pub(crate) fn event_json(stored: &StoredEvent) -> Value {
    let event = &stored.event;
    json!({
        "id": stored.id,
        "service_instance_id": event.service_instance_id,
        "service_instance_version": event.service_instance_version,
        "service_desired_state_version": event.service_desired_state_version,
        "timestamp": Timestamp(event.timestamp.0).to_string(),
        "message": event.message,
        "source": event.source,
        "destination": event.destination,
        "event_type": event.event_type,
        "event_correlation_id": event.event_correlation_id,
        "severity": event.severity.level(),
        "severity_text": event.severity.as_str(),
        "id_compile_report": event.id_compile_report,
        "is_error_transition": event.is_error_transition,
        "ignored_transition": event.ignored_transition,
    })
}

/// Tries an address a few times. Redirections are not followed: the address was named by somebody who may, its answer was not.
fn post(url: &str, body: &str) -> Result<(), String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .build();
    // Who wants events is in a private network more often than not; what a cloud tells its machines is nobody's address.
    let resolver = GuardedResolver::new(Reach::Any);
    let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), resolver);
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        let sent = agent
            .post(url)
            .header("Content-Type", "application/json")
            .send(body);
        match &sent {
            Ok(answer) => {
                tracing::debug!(
                    attempt,
                    status = answer.status().as_u16(),
                    "a callback was answered"
                );
            }
            Err(error) => tracing::debug!(attempt, %error, "a callback was not answered"),
        }
        match sent {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) if attempt == ATTEMPTS => {
                return Err(format!("it answered with {}", answer.status()));
            }
            Ok(_) => {}
            Err(error) if attempt == ATTEMPTS => return Err(error.to_string()),
            Err(_) => {}
        }
        std::thread::sleep(pause);
        (pause, attempt) = (pause * 2, attempt + 1);
    }
}
