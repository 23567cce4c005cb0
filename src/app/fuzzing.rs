//! For fuzzing: an app without a server around it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::app::{App, Hook, Hooks, RefusedEnvironments};
use crate::compile::{Pool, PoolOptions};
use crate::domain::{DataDir, EnvironmentId, FactTimes, ProjectId, Timestamp};
use crate::forge::Forge;
use crate::git::RepositoryRules;
use crate::lsm::Services;
use crate::observe::Bus;
use crate::store::{self, NewEnvironment, Store};

/// The webhooks that there are, each with this secret.
pub const FORGES: [(&str, Forge); 3] = [
    ("github", Forge::GitHub),
    ("gitea", Forge::Gitea),
    ("forgejo", Forge::Forgejo),
];
pub const SECRET: &[u8] = b"a secret of the test";

impl App {
    /// An app on a database of its own in the folder `data`, with the project `p` and its environment `e`, for which nothing
    /// runs, and a webhook of each forge, named after it. The API needs no token.
    ///
    /// # Errors
    /// The database cannot be made.
    pub async fn alone(data: &Path) -> Result<App, store::Error> {
        let data = DataDir::new(data);
        let store = Store::open_sqlite(&data.database()).await?;
        let (project_id, id) = (ProjectId::named("p"), EnvironmentId::named("p", "e"));
        store.project_create(project_id, "p").await?;
        let environment = NewEnvironment {
            id,
            project_id,
            name: "e".to_owned(),
            description: String::new(),
            icon: String::new(),
            repo_url: String::new(),
            repo_branch: String::new(),
            variables: BTreeMap::new(),
        };
        store.environment_create(&environment).await?;
        let hooks = Hooks::declared(FORGES.iter().map(|(name, _)| (*name).to_owned()));
        for (name, forge) in FORGES {
            let hook = Hook {
                environment: id,
                forge,
                secret: SECRET.to_vec(),
                branch: None,
            };
            hooks.set(name, hook);
        }
        let shutdown = CancellationToken::new();
        Ok(App {
            services: Services::new(store.clone(), shutdown.clone()),
            store,
            bus: Bus::default(),
            hooks: Arc::new(hooks),
            agents: Default::default(),
            api_token: None,
            started: Timestamp::now(),
            facts: FactTimes::default(),
            action_logs: None,
            executor: Default::default(),
            repositories: RepositoryRules::default(),
            running: Arc::default(),
            lifecycle: Arc::default(),
            pool: Pool::new(PoolOptions::default()),
            data,
            shutdown,
            repository_access: Arc::default(),
            refused: RefusedEnvironments::default(),
            digest_key: [7; 32],
            checkouts: Arc::default(),
        })
    }

    /// Ends all loops and lets go of the database.
    pub async fn end(self) {
        self.shutdown.cancel();
        let all: Vec<_> = self.locked().drain().collect();
        for (id, running) in all {
            running.stop(id).await;
        }
        self.store.close().await;
    }
}
