//! The environments of the configuration, brought into the store.

use std::path::Path;

use super::Error;
use crate::compile::Source;
use crate::config::EnvironmentConfig;
use crate::domain::{EnvironmentId, ProjectId};
use crate::store::{Environment, NewEnvironment, Store};

/// Makes the project and environment of a configuration, or brings them up to date with it.
pub async fn ensure_environment(
    store: &Store,
    config: &EnvironmentConfig,
    data: &Path,
) -> Result<EnvironmentId, Error> {
    let shown = format!("{}/{}", config.project, config.name);
    let source = Source::from_argument(&config.repository, config.branch.as_deref(), data);
    let source = source.map_err(|source| Error::Source {
        environment: shown,
        source,
    })?;
    let (repo_url, repo_branch) = source.to_stored();
    // By the id that it was made with first: it may have been renamed since.
    let projects = store.project_list().await?;
    let made = projects
        .iter()
        .find(|project| project.id == ProjectId::named(&config.project));
    let project = made.or_else(|| {
        projects
            .iter()
            .find(|project| project.name == config.project)
    });
    let project_id = match project {
        Some(project) => project.id,
        None => {
            store
                .project_create(ProjectId::named(&config.project), &config.project)
                .await?
                .id
        }
    };
    let known = store.environment_list().await?;
    let made = EnvironmentId::named(&config.project, &config.name);
    let named = |known: &&Environment| known.project_id == project_id && known.name == config.name;
    let known = known
        .iter()
        .find(|known| known.id == made)
        .or_else(|| known.iter().find(named))
        .cloned();
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
