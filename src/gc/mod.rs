//! Garbage collection and retention: one loop, and one list of all that is removed once nothing needs it any more.
//!
//! Each rule of `RULES` says what goes and when; the function that removes it stands beside what makes it. Some rules read the
//! store after they have listed what is there, so that what is made meanwhile is not taken for unused: the order within a
//! rule matters, that of the rules does not. Source: docs/reference/deployment.md § 7.1.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::domain::{DataDir, Timestamp, chain};
use crate::files::{self, Files};
use crate::store::{self, Store};
use crate::{compile, deploy, executor, modules};

/// What no stored version needs (virtual environments, files) is kept this long: a branch may come back to it, and a compile
/// that runs has not stored its version yet.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long tokens that were revoked or have expired are still listed.
const ENDED_TOKENS: Duration = Duration::from_secs(30 * 24 * 3600);

/// What the rules work on.
#[derive(Debug, Clone)]
pub struct Garbage {
    pub store: Store,
    pub data: DataDir,
    /// Held by those who read checkouts.
    pub checkouts: Arc<tokio::sync::RwLock<()>>,
}

/// One kind of thing that is removed.
struct Rule {
    /// For the log: "removed ...".
    what: &'static str,
    /// Whether the log of a server mentions it. What goes all the time is mentioned on the level for debugging only.
    is_logged: bool,
    /// Gives how many were removed.
    remove: for<'a> fn(&'a Garbage) -> BoxFuture<'a, Result<usize, store::Error>>,
}

const RULES: &[Rule] = &[
    Rule {
        what: "versions that retention does not keep",
        is_logged: false,
        remove: |garbage| Box::pin(versions(garbage)),
    },
    Rule {
        what: "states of resources that no stored version has",
        is_logged: false,
        remove: |garbage| Box::pin(orphans(garbage)),
    },
    Rule {
        what: "old notifications, metrics, tokens, orders and history of services, and agents that no version names",
        is_logged: false,
        remove: |garbage| Box::pin(records(garbage)),
    },
    Rule {
        what: "checkouts that no version needs",
        is_logged: true,
        remove: |garbage| {
            let Garbage {
                store,
                data,
                checkouts,
            } = garbage;
            Box::pin(compile::gc_checkouts(store, data, checkouts))
        },
    },
    Rule {
        what: "what deleted environments had left",
        is_logged: true,
        remove: |garbage| {
            let Garbage {
                store,
                data,
                checkouts,
            } = garbage;
            Box::pin(compile::gc_environments(store, data, checkouts, UNUSED))
        },
    },
    Rule {
        what: "files that no version needs",
        is_logged: true,
        remove: |garbage| Box::pin(file_contents(garbage)),
    },
    Rule {
        what: "folders of Python code that no executor used",
        is_logged: false,
        remove: |garbage| {
            Box::pin(blocking(garbage, |data| {
                executor::gc_code_folders(data, UNUSED)
            }))
        },
    },
    Rule {
        what: "old files of plugins and Python packages of other servers",
        is_logged: false,
        remove: |garbage| {
            Box::pin(blocking(garbage, |data| {
                compile::gc_python_runtimes(data, UNUSED)
            }))
        },
    },
    Rule {
        what: "Python environments that nothing used",
        is_logged: true,
        remove: |garbage| Box::pin(venvs(garbage)),
    },
];

/// Goes through the list every `pause`, until the server stops.
pub async fn run(garbage: Garbage, pause: Duration, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
        collect(&garbage).await;
    }
}

/// Goes through the list once. A rule that fails does not keep the others from their work.
pub async fn collect(garbage: &Garbage) {
    for rule in RULES {
        match (rule.remove)(garbage).await {
            Ok(0) => {}
            Ok(n_removed) if rule.is_logged => tracing::info!(n_removed, "removed {}", rule.what),
            Ok(n_removed) => tracing::debug!(n_removed, "removed {}", rule.what),
            Err(error) => tracing::error!(
                error = chain(&error),
                "cannot remove {}; it is tried again later",
                rule.what
            ),
        }
    }
}

/// Versions beyond those that an environment keeps, and its history and reports that are too old. Not of halted environments.
async fn versions(garbage: &Garbage) -> Result<usize, store::Error> {
    let store = &garbage.store;
    let mut n_removed = 0;
    for environment in store.environment_list().await? {
        if environment.halted {
            continue;
        }
        let settings = store.settings_fetch(environment.id).await?;
        let retention = i64::try_from(settings.action_retention().as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp(Timestamp::now().0.saturating_sub(retention));
        let n_versions = store
            .version_purge(environment.id, settings.versions_to_keep(), before)
            .await?;
        n_removed += usize::try_from(n_versions).unwrap_or(usize::MAX);
    }
    Ok(n_removed)
}

/// What is known of resources that are in no stored version any more. Not of halted environments.
async fn orphans(garbage: &Garbage) -> Result<usize, store::Error> {
    let store = &garbage.store;
    let mut n_removed = 0;
    for environment in store.environment_list().await? {
        if !environment.halted {
            n_removed += store.orphan_purge(environment.id).await?;
        }
    }
    Ok(usize::try_from(n_removed).unwrap_or(usize::MAX))
}

/// Notifications, metrics, ended orders and history of services that are older than an environment keeps them, tokens that ended
/// long ago, and agents that no stored version names. Not of halted environments.
async fn records(garbage: &Garbage) -> Result<usize, store::Error> {
    let store = &garbage.store;
    let mut n_removed = 0;
    for environment in store.environment_list().await? {
        if environment.halted {
            continue;
        }
        let settings = store.settings_fetch(environment.id).await?;
        let before = |retention: Duration| {
            let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
            Timestamp(Timestamp::now().0.saturating_sub(retention))
        };
        let id = environment.id;
        let old = before(settings.notification_retention());
        n_removed += store.notification_purge(id, old).await?;
        if let Some(retention) = settings.metrics_retention() {
            n_removed += store.metrics_purge(id, before(retention)).await?;
        }
        if let Some(retention) = settings.order_retention() {
            n_removed += store.order_purge(id, before(retention)).await?;
        }
        if let Some(retention) = settings.service_history_retention() {
            n_removed += store.service_history_purge(id, before(retention)).await?;
        }
        n_removed += store.service_count_purge(id).await?;
        // What is added up is nothing that anybody misses.
        store.row_count_fold(id).await?;
        n_removed += store.agent_purge(id).await?;
        n_removed += store.token_purge(id, before(ENDED_TOKENS)).await?;
    }
    Ok(usize::try_from(n_removed).unwrap_or(usize::MAX))
}

/// Contents of the file store that no stored version names.
async fn file_contents(garbage: &Garbage) -> Result<usize, store::Error> {
    // Listed before it is asked what is needed: what a compile writes from here on is young.
    let files = Files::new(garbage.data.files());
    let store = files.clone();
    let old = tokio::task::spawn_blocking(move || store.older_than(UNUSED)).await;
    let listed = old.unwrap_or_default();
    let mut old = listed.clone();
    // Not before: what a compile has stored meanwhile counts.
    let needed = deploy::needed_by_code(&garbage.store).await?;
    old.retain(|name| !needed.contents.contains(name));
    if !old.is_empty() {
        let forget = |attributes: &str| files::drop_named(&mut old, attributes);
        garbage.store.resource_attributes(forget).await?;
    }
    let removed = tokio::task::spawn_blocking(move || {
        // What is named is not asked for again before the same time has passed.
        files.renew(listed.difference(&old));
        files.gc(&old, UNUSED)
    });
    Ok(removed.await.unwrap_or_default())
}

/// Virtual environments that no stored version needs.
async fn venvs(garbage: &Garbage) -> Result<usize, store::Error> {
    let needed = deploy::needed_by_code(&garbage.store).await?;
    blocking(garbage, move |data| {
        let is_needed = |venv: &Path| {
            let packages = modules::packages_of_venv(venv);
            needed.environments.iter().any(|needed| needed == venv)
                || packages.is_some_and(|digest| needed.packages.contains(digest))
        };
        modules::gc_venvs(data, is_needed, UNUSED)
    })
    .await
}

/// Work on the data directory alone, off the runtime. One that panicked has removed nothing that we know of.
async fn blocking(
    garbage: &Garbage,
    work: impl FnOnce(&DataDir) -> usize + Send + 'static,
) -> Result<usize, store::Error> {
    let data = garbage.data.clone();
    let done = tokio::task::spawn_blocking(move || work(&data)).await;
    Ok(done.unwrap_or_default())
}

#[cfg(test)]
mod tests;
