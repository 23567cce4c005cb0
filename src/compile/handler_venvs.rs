//! The virtual environments of handlers whose code was exported with requirements: made by the installer of compiles, in
//! its sandbox and with its limits, since what an index has is as strange as what a repository has.
//! Source: docs/reference/deployment.md § 5.4.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::install::{build_proxy, environments};
use super::run::blocking;
use super::worker::Pool;
use crate::domain::{DataDir, EnvironmentId, HandlerPackages, chain};
use crate::executor::packages::{HandlerVenv, PackageInstaller};
use crate::git::Reach;
use crate::modules::{HandlerRequest, Progress, with_tool};

/// Makes the virtual environments of the handlers of one environment.
#[derive(Clone)]
pub struct HandlerVenvs {
    pub data: DataDir,
    pub environment: EnvironmentId,
    pub pool: Pool,
    /// What hosts packages may come from.
    pub reach: Reach,
}

impl HandlerVenvs {
    /// What executors have packages installed by.
    pub fn installer(self) -> PackageInstaller {
        PackageInstaller::new(move |packages| {
            let this = self.clone();
            Box::pin(async move { this.ensure(packages).await })
        })
    }

    /// Finds the virtual environment with some packages, or makes it. To drop the future ends what it does.
    ///
    /// # Errors
    /// Why it cannot be made, for people.
    pub async fn ensure(&self, packages: HandlerPackages) -> Result<HandlerVenv, String> {
        let Self {
            data,
            environment,
            pool,
            reach,
        } = self;
        if pool.python().is_none() {
            return Err("this server has no Python".to_owned());
        }
        let began = Instant::now();
        let request = HandlerRequest::write(data, &packages).map_err(|error| chain(&error))?;
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let proxy = build_proxy(request.inspection(), *reach, &stop).await?;
        let environments = environments(data, *environment, pool, stop, (*reach, proxy));
        let pythons = pool.options().pythons.clone();
        let id = *environment;
        let made = blocking(move || {
            let watcher = |progress| {
                if let Progress::Began { what, tool, .. } = progress {
                    tracing::info!(environment.id = %id, "packages of handlers: {}", with_tool(&what, &tool));
                }
            };
            environments.ensure_for_handlers(&request, &pythons, &watcher)
        });
        let made = made.await.inspect_err(|error| {
            tracing::warn!(environment.id = %id, error, "cannot install the packages of handlers");
        })?;
        Ok(HandlerVenv {
            interpreter: made.environment.join("bin/python"),
            installed: made.line(began),
        })
    }
}
