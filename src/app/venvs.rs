//! Removing the Python environments of an environment because somebody asked for it.
//! Source: docs/reference/deployment.md § 5.4.

use super::App;
use crate::compile;
use crate::domain::{EnvironmentId, Severity, chain};
use crate::files::remove_tree;
use crate::store::Notification;

impl App {
    /// Removes all Python environments of an environment, as soon as nothing runs in them: what runs goes on to its end, and
    /// nothing is begun meanwhile. The one of the version in force is then made again. A notification says what came of it.
    /// `false`: no engine runs, so nothing is done.
    pub fn venvs_remove(&self, id: EnvironmentId) -> bool {
        let Some(engine) = self.engine(id) else {
            return false;
        };
        let app = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = engine.finish() => {}
                () = app.shutdown.cancelled() => return,
            }
            let standstill = app.standstill(id).await;
            app.environment_stop(id).await;
            let removed = app.venvs_delete(id).await;
            match app.store.environment_fetch(id).await {
                Ok(Some(environment)) => app.environment_start(&environment).await,
                // It was deleted meanwhile.
                Ok(None) => return,
                Err(error) => {
                    let error = chain(&error);
                    tracing::error!(environment.id = %id, error, "cannot start the environment again");
                }
            }
            drop(standstill);
            let notification = match &removed {
                Ok(()) => Notification::new(
                    Severity::Success,
                    "Agent venv removal finished successfully",
                    "All Python environments of handlers were removed; the one of the version in force was made again.",
                ),
                Err(error) => Notification::new(
                    Severity::Error,
                    "Agent venv removal failed",
                    &format!("The Python environments of handlers cannot be removed: {error}"),
                ),
            };
            if let Err(error) = app.store.notification_create(id, &notification).await {
                let error = chain(&error);
                tracing::error!(environment.id = %id, error, "cannot write a notification");
            }
        });
        true
    }

    async fn venvs_delete(&self, id: EnvironmentId) -> Result<(), String> {
        let folder = compile::venvs(&self.data, id);
        let removed = tokio::task::spawn_blocking(move || match remove_tree(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", folder.display()))
            }
            _ => Ok(()),
        });
        removed.await.map_err(|error| error.to_string())?
    }
}
