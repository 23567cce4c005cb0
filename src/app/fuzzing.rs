//! For fuzzing: an app without a server around it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Hook, Hooks};
use crate::domain::{DataDir, EnvironmentId, ProjectId};
use crate::forge::Forge;
use crate::store::{self, NewEnvironment, Store};

/// The webhooks that there are, each with this secret.
pub const FORGES: [(&str, Forge); 3] = [
    ("github", Forge::GitHub),
    ("gitea", Forge::Gitea),
    ("forgejo", Forge::Forgejo),
];
pub const SECRET: &[u8] = b"a secret of the test";

/// An environment of the project `p` to create.
fn environment(name: &str, variables: BTreeMap<String, String>) -> NewEnvironment {
    NewEnvironment {
        id: EnvironmentId::named("p", name),
        project_id: ProjectId::named("p"),
        name: name.to_owned(),
        description: String::new(),
        icon: String::new(),
        repo_url: String::new(),
        repo_branch: String::new(),
        variables,
    }
}

impl App {
    /// An app on a database of its own in the folder `data`, with the project `p` and its environment `e`, for which nothing
    /// runs, and a webhook of each forge, named after it. The API needs no token.
    ///
    /// # Errors
    /// The database cannot be made.
    pub async fn alone(data: &Path) -> Result<App, store::Error> {
        let data = DataDir::new(data);
        let store = Store::open_sqlite(&data.database()).await?;
        store.project_create(ProjectId::named("p"), "p").await?;
        let new = environment("e", BTreeMap::new());
        let id = new.id;
        store.environment_create(&new).await?;
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
        // Nothing runs that could ask anything.
        let (requests, _) = mpsc::unbounded_channel();
        Ok(App {
            hooks: Arc::new(hooks),
            ..App::of_store(store, data, [7; 32], requests, CancellationToken::new())
        })
    }

    /// One more environment, `other`, in the same project, with these variables.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn add_other(
        &self,
        variables: BTreeMap<String, String>,
    ) -> Result<EnvironmentId, store::Error> {
        let new = environment("other", variables);
        self.store.environment_create(&new).await?;
        Ok(new.id)
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
