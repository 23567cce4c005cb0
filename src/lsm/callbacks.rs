//! Sends events of instances to the addresses that want them. Source: docs/reference/lsm.md § 5.9.
//!
//! Best effort: what cannot be delivered after a few attempts is dropped, as is what a server had not sent when it ended, and
//! the log says so. One task sends, so the events of an instance arrive in their order.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::domain::{EnvironmentId, Timestamp, chain};
use crate::store::{Callback, Store, StoredEvent};

/// Events that wait to be sent. One takes some hundred bytes.
const MAX_WAITING: usize = 10_000;
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

/// Starts the task that sends; it ends at shutdown.
pub(super) fn start(store: Store, shutdown: CancellationToken) -> Sender {
    let (sender, mut batches) = mpsc::channel(MAX_WAITING);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                batch = batches.recv() => match batch {
                    Some(batch) => deliver(&store, batch).await,
                    None => return,
                },
                () = shutdown.cancelled() => return,
            }
        }
    });
    Sender(sender)
}

async fn deliver(store: &Store, batch: Batch) {
    let callbacks = match store
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
            let url = callback.url.clone();
            let body = body(&batch, event).to_string();
            let sent = tokio::task::spawn_blocking(move || post(&url, &body)).await;
            if let Ok(Err(error)) = sent {
                tracing::warn!(
                    environment.id = %batch.environment, callback.id = %callback.id,
                    "the callback {} did not take an event: {error}", callback.url
                );
            }
        }
    }
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
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .build()
        .into();
    let mut pause = PAUSE;
    let mut attempt = 1;
    loop {
        let sent = agent
            .post(url)
            .header("Content-Type", "application/json")
            .send(body);
        match sent {
            Ok(_) => return Ok(()),
            Err(error) if attempt == ATTEMPTS => return Err(error.to_string()),
            Err(_) => {}
        }
        std::thread::sleep(pause);
        (pause, attempt) = (pause * 2, attempt + 1);
    }
}
