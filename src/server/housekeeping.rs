//! Removes what retention no longer keeps and what nothing needs any more, at a steady pace.

use std::time::Duration;

use super::App;
use crate::compile;
use crate::deploy;
use crate::domain::{Timestamp, chain};
use crate::files;
use crate::modules;
use crate::store;

/// What no stored version needs (Python environments, files) is kept this long: a branch may come back to it, and a compile
/// that runs has not stored its version yet.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);
/// Drops what retention no longer keeps.
pub(super) async fn run(app: App, pause: Duration) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = app.shutdown.cancelled() => return,
        }
        if let Err(error) = clean_up(&app).await {
            tracing::error!(
                error = chain(&error),
                "cannot clean up; it is tried again later"
            );
        }
    }
}

async fn clean_up(app: &App) -> Result<(), store::Error> {
    for environment in app.store.environment_list().await? {
        if environment.halted {
            continue;
        }
        let settings = app.store.settings_fetch(environment.id).await?;
        let retention = i64::try_from(settings.action_retention().as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp(Timestamp::now().0.saturating_sub(retention));
        app.store
            .version_purge(environment.id, settings.versions_to_keep(), before)
            .await?;
    }
    let n_checkouts = compile::gc_checkouts(&app.store, &app.data, &app.checkouts).await?;
    if n_checkouts > 0 {
        tracing::info!(n_checkouts, "removed checkouts that no version needs");
    }
    let n_left = compile::gc_environments(&app.store, &app.data, &app.checkouts, UNUSED).await?;
    if n_left > 0 {
        tracing::info!(n_left, "removed what deleted environments had left");
    }
    let needed = deploy::needed_by_code(&app.store).await?;
    collect_files(app).await?;
    let data = app.data.clone();
    let swept = tokio::task::spawn_blocking(move || {
        deploy::gc_code_folders(&data, UNUSED);
        compile::gc_python_runtimes(&data, UNUSED);
        modules::gc_venvs(&data, &needed.environments, UNUSED)
    });
    if let Ok(n_environments @ 1..) = swept.await {
        tracing::info!(
            n_environments,
            "removed Python environments that nothing used"
        );
    }
    Ok(())
}

/// Removes the contents of the file store that no stored version names.
async fn collect_files(app: &App) -> Result<(), store::Error> {
    // Listed before it is asked what is needed: what a compile writes from here on is young.
    let files = app.files();
    let store = files.clone();
    let old = tokio::task::spawn_blocking(move || store.older_than(UNUSED)).await;
    let listed = old.unwrap_or_default();
    let mut old = listed.clone();
    // Not before: what a compile has stored meanwhile counts.
    let needed = deploy::needed_by_code(&app.store).await?;
    old.retain(|name| !needed.contents.contains(name));
    if !old.is_empty() {
        let forget = |attributes: &str| files::drop_named(&mut old, attributes);
        app.store.resource_attributes(forget).await?;
    }
    let collected = tokio::task::spawn_blocking(move || {
        // What is named is not asked for again before the same time has passed.
        files.renew(listed.difference(&old));
        files.collect(&old, UNUSED)
    });
    if let Ok(n_files @ 1..) = collected.await {
        tracing::info!(n_files, "removed files that no version needs");
    }
    Ok(())
}
