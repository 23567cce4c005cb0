//! The virtual environments with the packages that code of handlers requires: made in the agent's own data folder, with a
//! Python of its machine, by the installer and in the sandbox that a server has for its own.
//! Source: docs/reference/deployment.md § 5.11.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Options;
use crate::domain::{DataDir, HandlerPackages, chain};
use crate::executor::far_codes::InstallFar;
use crate::modules::{
    Environments, HandlerRequest, InstallSandbox, Installed, Turns, credentials, gc_venvs,
    missing_on_machine,
};
use crate::python::Pythons;

/// The name of the folder of virtual environments: an agent has those of one environment.
const OWNER: &str = "agent";
/// How long an installation may take, and what a process of it may map: what a server allows by default.
const LIMIT: Duration = Duration::from_secs(600);
const MEMORY_BYTES: u64 = 4 << 30;
/// Installations at the same time.
const AT_ONCE: usize = 2;
/// What nothing has used for so long is removed when something else is installed.
pub(super) const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// An installation has ended.
pub(super) struct InstallEnd {
    pub(super) code: String,
    /// The folder of the virtual environment, or why there is none. `None`: none could be made, and the Python of this machine
    /// has what is required.
    pub(super) made: Result<Option<PathBuf>, String>,
}

/// Makes virtual environments. Installations end with it.
pub(super) struct PackageVenvs {
    data: DataDir,
    secrets: Vec<PathBuf>,
    pythons: Pythons,
    ended: mpsc::UnboundedSender<InstallEnd>,
    stop: CancellationToken,
    turns: Turns,
    _stops: DropGuard,
}

impl PackageVenvs {
    pub(super) fn new(options: &Options, ended: mpsc::UnboundedSender<InstallEnd>) -> Self {
        let stop = CancellationToken::new();
        let named = options.python.clone().map(|path| (path, "--python"));
        Self {
            data: DataDir::new(&options.data),
            secrets: options.secrets.clone(),
            pythons: Pythons::new(named),
            ended,
            turns: Turns::new(AT_ONCE),
            _stops: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Begins to make the virtual environment for some code, or finds it; its end is told. `used`: folders of others that
    /// are in use.
    pub(super) fn install(&self, code: String, packages: HandlerPackages, used: Vec<PathBuf>) {
        let (data, pythons, ended) = (self.data.real(), self.pythons.clone(), self.ended.clone());
        let secrets = self.secrets.iter();
        let secrets = secrets.filter_map(|path| std::fs::canonicalize(path).ok());
        let hidden = std::iter::once(data.path().to_owned()).chain(secrets);
        let sandbox = InstallSandbox {
            hidden: hidden.chain(credentials()).collect(),
            memory_bytes: MEMORY_BYTES,
            limit: LIMIT,
            stop: self.stop.clone(),
            turns: Some(self.turns.clone()),
            // As compiles where there is no Landlock for it: as the machine reaches the network.
            copies_repositories: true,
            proxy: None,
        };
        tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let made = ensure(&data, &packages, sandbox, &pythons);
            match &made {
                Ok(Some(venv)) => {
                    if let Some(line) = venv.line(began) {
                        tracing::info!("installed what the code of handlers requires: {line}");
                    }
                    let is_used = |path: &std::path::Path| {
                        path == venv.environment || used.iter().any(|used| used == path)
                    };
                    gc_venvs(&data, is_used, UNUSED);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(error, "cannot install what the code of handlers requires");
                }
            }
            let made = made.map(|venv| venv.map(|venv| venv.environment));
            let _ = ended.send(InstallEnd { code, made });
        });
    }
}

/// Installs for the executor that came over ssh, into its folder, which is removed when it ends.
pub fn install_carried(folder: &Path) -> InstallFar {
    let data = DataDir::new(folder).real();
    Arc::new(move |packages, interpreter| {
        let sandbox = InstallSandbox {
            hidden: credentials(),
            memory_bytes: MEMORY_BYTES,
            limit: LIMIT,
            // It ends with the process.
            stop: CancellationToken::new(),
            turns: None,
            copies_repositories: true,
            proxy: None,
        };
        let named = Some((interpreter.to_owned(), "this machine"));
        let made = ensure(&data, packages, sandbox, &Pythons::new(named))?;
        Ok(made.map(|venv| venv.environment.join("bin/python")))
    })
}

fn ensure(
    data: &DataDir,
    packages: &HandlerPackages,
    sandbox: InstallSandbox,
    pythons: &Pythons,
) -> Result<Option<Installed>, String> {
    let request = HandlerRequest::write(data, packages).map_err(|error| chain(&error))?;
    let environments = Environments::new(data, OWNER, sandbox);
    let why = match environments.ensure_for_handlers(&request, pythons, &|_| ()) {
        Ok(installed) => return Ok(Some(installed)),
        Err(why) => why,
    };
    // A machine without a way to an index may have been given the packages by whoever runs it.
    let interpreter = pythons.any()?.path;
    match missing_on_machine(&interpreter, packages) {
        Ok(missing) if missing.is_empty() => {
            tracing::warn!(
                error = why,
                "what the code of handlers requires cannot be installed; it runs with the packages of {}",
                interpreter.display()
            );
            Ok(None)
        }
        Ok(_) | Err(_) => Err(why),
    }
}
