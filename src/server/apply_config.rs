//! The environments of the configuration, brought into the store; or noted, with why they cannot run.

use crate::app::{App, Entry, Hook, RepositoryAccess};
use crate::config::{EnvironmentConfig, Refused};
use crate::domain::{EnvironmentId, ProjectId, chain};
use crate::store::{self, Environment, NewEnvironment, Store};

/// Takes in all environments of the configuration; their loops are not started yet.
///
/// # Errors
/// The store does not answer.
pub(super) async fn apply(
    app: &App,
    environments: Vec<EnvironmentConfig>,
    refused: Vec<Refused>,
) -> Result<(), store::Error> {
    let good = environments
        .iter()
        .map(|environment| (&environment.project, &environment.name));
    let bad = refused
        .iter()
        .map(|environment| (&environment.project, &environment.name));
    let configured = good
        .chain(bad)
        .map(|(project, name)| EnvironmentId::named(project, name));
    let configured: Vec<EnvironmentId> = configured.collect();
    for environment in environments {
        app.take_in(environment).await?;
    }
    for environment in refused {
        app.refuse(environment).await?;
    }
    warn_of_left_out(&app.store, &configured).await
}

/// What a configuration of before has made goes on without being named, and nothing else would say so.
async fn warn_of_left_out(store: &Store, configured: &[EnvironmentId]) -> Result<(), store::Error> {
    let projects = store.project_list().await?;
    for environment in store.environment_list().await? {
        let project = projects
            .iter()
            .find(|project| project.id == environment.project_id);
        let Some(project) = project else {
            continue;
        };
        // Those that the API has made have other ids.
        let is_of_configuration =
            environment.id == EnvironmentId::named(&project.name, &environment.name);
        if is_of_configuration && !environment.halted && !configured.contains(&environment.id) {
            tracing::warn!(
                environment = format_args!("{}/{}", project.name, environment.name),
                environment.id = %environment.id,
                "the configuration does not name this environment any more; it goes on, with what is in force, until it is halted or deleted over the API"
            );
        }
    }
    Ok(())
}

impl App {
    /// From now on an environment looks at its repository as the configuration says.
    pub(super) async fn configured(
        &self,
        id: EnvironmentId,
        config: EnvironmentConfig,
    ) -> Result<(), store::Error> {
        let stored = self.store.environment_fetch(id).await?;
        let access = RepositoryAccess {
            repo_url: stored.map(|stored| stored.repo_url).unwrap_or_default(),
            poll: config.poll,
            watch: config.watch,
            credentials: config.credentials,
            secrets: config.secrets.keyed(self.digest_key),
            network: config.network,
        };
        self.set_repository_access(id, access);
        self.agents.set(id, config.agents);
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
async fn find(
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

impl App {
    /// Takes an environment of the configuration in, or notes why not. Its loops are not started yet.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn take_in(
        &self,
        environment: EnvironmentConfig,
    ) -> Result<Option<EnvironmentId>, store::Error> {
        for warning in &environment.warnings {
            tracing::warn!("{warning}");
        }
        match ensure_environment(&self.store, &environment).await {
            Ok(id) => {
                self.configured(id, environment).await?;
                Ok(Some(id))
            }
            // A name that somebody gave to another one over the API, say.
            Err(error @ (store::Error::Exists(_) | store::Error::NotFound(_))) => {
                let refused = Refused::checked(environment, chain(&error));
                self.refuse(refused).await.map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that an environment cannot run. It is there, so that the API can say so.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn refuse(&self, refused: Refused) -> Result<(), store::Error> {
        tracing::error!(
            environment = refused.shown(),
            "this environment does not run, others do: {refused}"
        );
        let environment = if refused.is_named {
            match self.stored(&refused).await {
                Ok(id) => Some(id),
                Err(store::Error::Exists(_) | store::Error::NotFound(_)) => None,
                Err(error) => return Err(error),
            }
        } else {
            None
        };
        let entry = Entry {
            environment,
            refused: refused.clone(),
        };
        self.refused.set(&refused, Some(entry));
        Ok(())
    }

    /// The stored environment of that name, made without a repository if there is none.
    async fn stored(&self, refused: &Refused) -> Result<EnvironmentId, store::Error> {
        let (project_id, known) = find(&self.store, &refused.project, &refused.name).await?;
        if let Some(Environment { id, .. }) = known {
            return Ok(id);
        }
        let new = NewEnvironment {
            id: EnvironmentId::named(&refused.project, &refused.name),
            project_id,
            name: refused.name.clone(),
            description: String::new(),
            icon: String::new(),
            repo_url: String::new(),
            repo_branch: String::new(),
            variables: Default::default(),
        };
        self.store.environment_create(&new).await?;
        Ok(new.id)
    }
}
