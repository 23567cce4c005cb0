//! Environments of the configuration that cannot run: each says why, and is looked at again until it can.
//!
//! Neither compiles nor deployments run for such an environment, its webhooks answer as unknown ones do, and what is stored of
//! it stays as it is. [`run`] looks again on an interval, since a folder or the file of a secret may appear later; a mistake in
//! the configuration file itself needs a restart. It owns nothing but its timer, and ends with the server.

use std::time::Duration;

use super::apply_config::ensure_environment;
use crate::app::{App, Entry};
use crate::config::{EnvironmentConfig, Refused};
use crate::domain::{EnvironmentId, chain};
use crate::store;

/// How often it is looked whether a refused environment can run now: a few small files are read.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks at refused environments again, until the server stops.
pub(super) async fn run(app: App) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = app.shutdown.cancelled() => return,
        }
        for entry in app.refused.list() {
            if let Err(error) = retry_refused(&app, entry).await {
                tracing::error!(
                    error = chain(&error),
                    "cannot look at an environment that does not run; it is tried again"
                );
            }
        }
    }
}

async fn retry_refused(app: &App, entry: Entry) -> Result<(), store::Error> {
    let Entry {
        environment,
        refused,
    } = entry;
    // Who deleted it meanwhile does not want it back before the next start.
    if let Some(id) = environment
        && app.store.environment_fetch(id).await?.is_none()
    {
        app.refused.set(&refused, None);
        return Ok(());
    }
    let looked_at = refused.clone();
    let Ok(again) = tokio::task::spawn_blocking(move || looked_at.again()).await else {
        return Ok(());
    };
    match again {
        Err(now) if (&now.field, &now.message) == (&refused.field, &refused.message) => {}
        Err(now) => app.refuse(*now).await?,
        Ok(config) => {
            // What stands against it is the store, as before.
            if let Some(id) = try_in(app, &refused, config).await?
                && let _standstill = app.standstill(id).await
                && let Some(environment) = app.store.environment_fetch(id).await?
            {
                tracing::info!(environment.id = %id, "environment {} runs now", refused.shown());
                app.environment_start(&environment).await;
            }
        }
    }
    Ok(())
}

/// Takes an environment in that can run as far as the configuration is concerned; `None`: something still keeps it out.
async fn try_in(
    app: &App,
    refused: &Refused,
    config: EnvironmentConfig,
) -> Result<Option<EnvironmentId>, store::Error> {
    match ensure_environment(&app.store, &config).await {
        Ok(id) => {
            app.configured(id, config).await?;
            app.refused.set(refused, None);
            Ok(Some(id))
        }
        Err(error @ (store::Error::Exists(_) | store::Error::NotFound(_))) => {
            let now = Refused::checked(config, chain(&error));
            if now.message != refused.message {
                app.refuse(now).await?;
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
