//! The virtual environments of handlers whose code was exported with requirements: made by the installer of compiles, in
//! its sandbox and with its limits, since what an index has is as strange as what a repository has.
//! Source: docs/reference/deployment.md § 5.4.

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use super::install::{build_proxy, environments, packages_of};
use super::run::blocking;
use super::worker::Pool;
use crate::domain::{DataDir, EnvironmentId, HandlerPackages, chain};
use crate::executor::packages::{HandlerVenv, PackageInstaller};
use crate::files::ScratchFolder;
use crate::git::Reach;
use crate::modules::{Inspection, Installed, Progress, Requirements};

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
        let builds = data.builds();
        std::fs::create_dir_all(&builds)
            .map_err(|error| format!("cannot make {}: {error}", builds.display()))?;
        let folder = ScratchFolder::new("packages-", &builds)
            .map_err(|error| format!("cannot make a folder in {}: {error}", builds.display()))?;
        let requirements = Requirements::of_handlers(folder.path(), &packages);
        let inspection = Inspection {
            requirements: requirements.map_err(|error| chain(&error))?,
            lock: None,
        };
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let proxy = build_proxy(&inspection, *reach, &stop).await?;
        let environments = environments(data, *environment, pool, stop, proxy);
        let pythons = pool.options().pythons.clone();
        let id = *environment;
        let made = blocking(move || {
            let watcher = |progress| {
                if let Progress::Began { what, tool, .. } = progress {
                    tracing::info!(environment.id = %id, "packages of handlers: {what}, with {tool}");
                }
            };
            let asked = &inspection.requirements;
            environments
                .ensure_for_handlers(&packages, folder.path(), asked, &pythons, &watcher)
                .map_err(|error| chain(&error))
        });
        let made = made.await.map_err(|error| without_passwords(&error));
        if let Err(error) = &made {
            tracing::warn!(environment.id = %id, error, "cannot install the packages of handlers");
        }
        let made = made?;
        Ok(HandlerVenv {
            interpreter: made.environment.join("bin/python"),
            installed: installed(&made, began),
        })
    }
}

/// What was installed, in a line; `None`: it was there.
fn installed(made: &Installed, began: Instant) -> Option<String> {
    let tool = Some(&made.tool).filter(|tool| !tool.is_empty())?;
    let seconds = began.elapsed().as_secs_f64();
    Some(format!(
        "{} (by {tool}, in {seconds:.1} s)",
        packages_of(&made.lock).join(", ")
    ))
}

/// A text of an installer without the passwords in its URLs: the URL of an index may have one, and what an installation says is shown to all who
/// may read logs.
fn without_passwords(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = behind
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(behind.len());
        rest = match behind[..end].rfind('@') {
            Some(at) => {
                shown.push_str("****");
                &behind[at..]
            }
            None => behind,
        };
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::without_passwords;

    #[test]
    fn passwords_of_indexes_are_not_shown() {
        for (text, shown) in [
            (
                "Looking in https://user:p@ss@host/simple, http://host/a@b",
                "Looking in https://****@host/simple, http://host/a@b",
            ),
            ("nothing ://", "nothing ://"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }
}
