//! The environments of the configuration, brought into the store.

use crate::app::{App, Hook, RepositoryAccess};
use crate::config::EnvironmentConfig;
use crate::domain::{EnvironmentId, ProjectId};
use crate::store::{self, Environment, NewEnvironment, Store};

impl App {
    /// From now on an environment looks at its repository as the configuration says.
    pub(super) async fn configured(
        &self,
        id: EnvironmentId,
        config: EnvironmentConfig,
    ) -> Result<(), store::Error> {
        let stored = self.store.environment_fetch(id).await?;
        let looks = RepositoryAccess {
            repo_url: stored.map(|stored| stored.repo_url).unwrap_or_default(),
            poll: config.poll,
            watch: config.watch,
            credentials: config.credentials,
            secrets: config.secrets.keyed(self.digest_key),
            network: config.network,
        };
        self.set_looks(id, looks);
        for hook in config.webhooks {
            let known = Hook {
                environment: id,
                forge: hook.forge,
                secret: hook.secret,
                branch: config.branch.clone(),
            };
            self.hooks.set(&hook.id, known);
        }
        Ok(())
    }
}

/// The project of that name, made if there is none, and its environment of that name. By the ids that they were made with
/// first: they may have been renamed since.
pub(super) async fn find(
    store: &Store,
    project: &str,
    name: &str,
) -> Result<(ProjectId, Option<Environment>), store::Error> {
    let projects = store.project_list().await?;
    let made = projects
        .iter()
        .find(|known| known.id == ProjectId::named(project));
    let known = made.or_else(|| projects.iter().find(|known| known.name == project));
    let project_id = match known {
        Some(known) => known.id,
        None => {
            store
                .project_create(ProjectId::named(project), project)
                .await?
                .id
        }
    };
    let known = store.environment_list().await?;
    let made = EnvironmentId::named(project, name);
    let named = |known: &&Environment| known.project_id == project_id && known.name == name;
    let known = known
        .iter()
        .find(|known| known.id == made)
        .or_else(|| known.iter().find(named))
        .cloned();
    Ok((project_id, known))
}

/// Makes the project and environment of a configuration, or brings them up to date with it.
pub async fn ensure_environment(
    store: &Store,
    config: &EnvironmentConfig,
) -> Result<EnvironmentId, store::Error> {
    let (repo_url, repo_branch) = config.source.to_stored();
    let (project_id, known) = find(store, &config.project, &config.name).await?;
    let id = match known {
        Some(known) => {
            let changed = Environment {
                repo_url,
                repo_branch,
                variables: config.variables.clone(),
                ..known
            };
            store.environment_update(&changed).await?;
            changed.id
        }
        None => {
            let id = EnvironmentId::named(&config.project, &config.name);
            let new = NewEnvironment {
                id,
                project_id,
                name: config.name.clone(),
                description: String::new(),
                icon: String::new(),
                repo_url,
                repo_branch,
                variables: config.variables.clone(),
            };
            store.environment_create(&new).await?;
            id
        }
    };
    for (name, value) in &config.settings {
        store.setting_set(id, name, value).await?;
    }
    Ok(id)
}
