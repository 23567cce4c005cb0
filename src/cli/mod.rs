//! The command line: one file a command.

mod agent;
mod attached;
mod check;
mod compile;
mod completions;
mod declarations;
mod deploy;
mod explain;
mod export;
mod fmt;
mod handles;
mod install_progress;
mod log;
mod lsm;
mod lsp;
mod plan;
mod project;
mod python_package;
mod remote;
mod sandbox;
mod serve;
mod show;
mod supervise;
mod terminal;
mod up;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// A git-driven, autonomous compile server for infrastructure.
#[derive(Debug, Parser)]
#[command(name = "steward", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring this host to what a repository says, and keep it there.
    Up(UpArguments),
    /// Run a server for the environments of a configuration file.
    Serve {
        /// The configuration file.
        #[arg(long, value_name = "FILE", default_value = "/etc/steward/steward.yaml")]
        config: PathBuf,
        /// Only check the configuration.
        #[arg(long)]
        check: bool,
    },
    /// Run the handlers of some agents on this machine, for a server on another one.
    Agent(agent::AgentArguments),
    /// Compile the project of this folder and deploy it, without a server.
    Deploy(DeployArguments),
    /// Say what a deploy of the project of this folder would do, or of the newest version of a server's environment.
    Plan(PlanArguments),
    /// Say why a resource is not deployed: the chain of reasons down to the root cause.
    Explain(ExplainArguments),
    /// Compile the project of this folder and store the result as a version on a server.
    Export(ExportArguments),
    /// The services of a server's environment: what can be ordered, what was ordered, and how it goes.
    Lsm {
        #[command(subcommand)]
        command: lsm::LsmCommand,
    },
    /// Compile a project here, without a server.
    Compile(CompileArguments),
    /// Say what is wrong with a project without running it: syntax, names, types of all of its files.
    Check(CheckArguments),
    /// The modules and Python packages that a project asks for.
    Project {
        #[command(subcommand)]
        command: ProjectCommand,
    },
    /// Write our Python package as a wheel that stands in for inmanta-core, and print its path: what modules' own test-suites
    /// run on.
    PythonPackage {
        /// Where to write it [default: the user's cache].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Also print the packages by which modules with services require it (inmanta-lsm, inmanta-module-lsm), a path each line.
        #[arg(long)]
        lsm: bool,
    },
    /// Format models: there is one layout for all of them.
    Fmt(FmtArguments),
    /// Serve an editor: the language server protocol on standard input and output.
    Lsp {
        /// What there is anyway; editors like to say it.
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// Write what a shell reads to complete commands and options.
    Completions {
        #[arg(value_enum, value_name = "SHELL")]
        shell: completions::Shell,
    },
    /// The life of a process that compiles for a server.
    #[command(hide = true)]
    CompileWorker {
        #[arg(long)]
        memory_bytes: u64,
    },
    /// The life of a process that reads one repository for a server.
    #[command(hide = true)]
    GitWorker,
    /// The life of a process that runs handlers for a server.
    #[command(hide = true)]
    Executor {
        /// The umask of what handlers make, in octal [default: that of the parent].
        #[arg(long, value_name = "OCTAL", value_parser = octal)]
        umask: Option<u32>,
        /// Python hosts that are alive at once [default: by processors and memory].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        hosts: Option<u64>,
        /// How long a Python host without work is kept.
        #[arg(long, value_name = "SECONDS")]
        keep: Option<u64>,
        /// How long the import of Python modules may take.
        #[arg(long, value_name = "SECONDS")]
        import_timeout: Option<u64>,
        /// It came over ssh, into this folder.
        #[arg(long, value_name = "DIR")]
        carried: Option<PathBuf>,
    },
    /// Compile for the process at the other end of standard input, which is the Python host of the compile.
    #[command(hide = true)]
    Attached {
        #[arg(long, value_name = "DIR")]
        project: PathBuf,
        /// The Python environment with its modules [default: that of the project].
        #[arg(long, value_name = "DIR")]
        environment: Option<PathBuf>,
        /// Facts and parameters.
        #[arg(long, value_name = "JSON", default_value = "{}")]
        inputs: String,
    },
    /// Run another program in a sandbox, which the variable STEWARD_SANDBOX describes.
    #[command(hide = true)]
    Sandbox {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run another program that dies with its parent.
    #[command(hide = true)]
    Supervise {
        /// The process that counts as the parent.
        #[arg(long, value_name = "PID")]
        parent: Option<u32>,
        /// Kill all that it started when it ends, too; it may enter a sandbox.
        #[arg(long)]
        all: bool,
        /// What all its processes may use of memory together.
        #[arg(long, value_name = "BYTES", requires = "all")]
        memory_bytes: Option<u64>,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Human,
    Json,
}

#[derive(Debug, clap::Args)]
struct UpArguments {
    /// A git repository (path or URL), or a folder with a project.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The branch to follow [default: that of the repository's HEAD].
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The user of a repository over https [default: git].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A file with the password or token of a repository over https.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where the server keeps its state [default: a directory of its own for each source, below
    /// $XDG_STATE_HOME/steward].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address of the API.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8888")]
    listen: SocketAddr,
    /// A variable that std::get_env of the model sees (nothing else is passed).
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// A host that plugins may reach while they compile (ports 80 and 443, if none is named) [default: none].
    #[arg(long, value_name = "HOST[:PORT]")]
    network: Vec<crate::compile::Grant>,
    /// The Python of modules and handlers [default: STEWARD_PYTHON, else one on the path that fits the modules].
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// A setting of the environment, such as autostart_agent_repair_interval=60.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    settings: Vec<(String, String)>,
    /// End after the first deployment; exit with 0 only if every resource is deployed.
    #[arg(long)]
    once: bool,
    /// How to report progress: for people, or one JSON object a line.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct DeployArguments {
    #[command(flatten)]
    project: deploy::ProjectArguments,
    /// Only show what would change, as `steward plan` does.
    #[arg(long, alias = "dryrun")]
    dry_run: bool,
    /// Verify all resources, also those that were deployed as they are.
    #[arg(long, conflicts_with = "dry_run")]
    repair: bool,
    /// How to report progress: for people, or one JSON object a line.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct PlanArguments {
    #[command(flatten)]
    project: deploy::ProjectArguments,
    /// Plan the newest version of an environment of a server, as `-e` or .inmanta names it, instead of the project here.
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    server: remote::ServerArguments,
    /// The version to plan, of a server [default: the newest].
    #[arg(long, value_name = "N", requires = "remote")]
    version: Option<i64>,
    /// Exit with 2 if something would change; 0: nothing would, 1: there is no plan.
    #[arg(long)]
    detailed_exitcode: bool,
    /// Write the plan as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ExplainArguments {
    /// The resource: its id, as in `fs::File[web1,path=/etc/motd]`, or a part of the id that no other has.
    #[arg(value_name = "RESOURCE")]
    resource: String,
    #[command(flatten)]
    server: remote::ServerArguments,
    /// Explain what `steward deploy` did here, also where .inmanta names a server.
    #[arg(long)]
    local: bool,
    /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Where `steward deploy` has its state [default: data/deploy below the project].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the explanation as one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ExportArguments {
    #[command(flatten)]
    server: remote::ServerArguments,
    /// Write the resources to a file, as JSON, and ask no server.
    #[arg(short = 'j', value_name = "FILE")]
    json: Option<PathBuf>,
    /// Release the version, also where the environment's `auto_deploy` is off.
    #[arg(short = 'd')]
    deploy: bool,
    /// With -d: verify all resources, also those that are deployed as they are.
    #[arg(long, requires = "deploy")]
    full: bool,
    /// Export some resource sets only; the others of the newest version stay.
    #[arg(long)]
    partial: bool,
    /// A resource set that a partial export removes.
    #[arg(long, value_name = "NAME")]
    delete_resource_set: Vec<String>,
    /// Keep a resource set that is to be removed if the export has resources of it.
    #[arg(long)]
    soft_delete: bool,
    /// A partial export may bring other code of handlers than the newest version has.
    #[arg(long)]
    allow_handler_code_update: bool,
    /// The export function of a module that runs, instead of those that `export` of .inmanta names.
    #[arg(long, value_name = "NAME")]
    export_plugin: Option<String>,
    /// Why: a JSON object that is added to what is said of the version, or a message.
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// A variable that std::get_env of the model sees, beside those of this command's environment.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// The Python of modules, of a project that has no environment of its own [default: STEWARD_PYTHON, else one that is on the
    /// path].
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct CompileArguments {
    /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// How to write diagnostics.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    message_format: Format,
    /// Write the model that was built, as JSON.
    #[arg(long, value_name = "FILE")]
    dump_model: Option<PathBuf>,
    /// Write the exported resources, as JSON.
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// The Python of modules, of a project that has no environment of its own [default: STEWARD_PYTHON, else one that is on the
    /// path].
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// What the model may ask for besides the project, as JSON: an object with `facts` (resource id, name, text),
    /// `parameters`, `services`, `environment` (id, name) and `server`.
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    /// Write what the model leaves for the service catalog and inventory, as JSON: definitions, and values that were allocated
    /// (these also if the model does not compile).
    #[arg(long, value_name = "FILE")]
    services_json: Option<PathBuf>,
    /// Export some resource sets only: each resource is shared or in one of them, and none requires one of another set.
    #[arg(long)]
    partial: bool,
    /// A resource set that a partial compile is for; it is removed if nothing of it is exported [default: those that the
    /// model has].
    #[arg(long = "set", value_name = "NAME", requires = "partial")]
    sets: Vec<String>,
    /// A variable that std::get_env of the model sees, beside those of this command's environment.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
struct CheckArguments {
    /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// How to write diagnostics.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    message_format: Format,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// Install into the project's .env what steward.lock says; without a lock, choose versions and write it.
    Install(InstallArguments),
    /// Choose versions anew, write steward.lock, and install.
    Update(InstallArguments),
    /// Say how .env differs from steward.lock; exit with 1 if it does.
    Verify {
        /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
struct InstallArguments {
    /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// A folder with wheels to install from, beside the index.
    #[arg(long, value_name = "DIR")]
    find_links: Vec<PathBuf>,
    /// Ask no index: install from folders only.
    #[arg(long)]
    no_index: bool,
    /// The Python to make the environment of [default: STEWARD_PYTHON, else one on the path that fits the modules].
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct FmtArguments {
    /// Models, and directories with models [default: all below this directory].
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Change nothing; exit with 1 if something would change.
    #[arg(long)]
    check: bool,
    /// Read from standard input, write to standard output.
    #[arg(long)]
    stdin: bool,
    /// How to write diagnostics.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    message_format: Format,
}

/// The user's home directory, if the variable `HOME` names one.
fn home() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    home.filter(|home| home.is_absolute())
}

/// The user's cache directory of this program. Who has no home directory, as many service users, has one among the
/// temporary files.
fn cache_dir() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let of_home = || Some(home().filter(|home| home.is_dir())?.join(".cache"));
    match cache.or_else(of_home) {
        Some(cache) => cache.join("steward"),
        None => temporary_cache(&std::env::temp_dir()),
    }
}

/// A cache directory below `folder`, to which everybody may write: our Python package is run from it, so one that somebody
/// else made, or may write to, is not taken.
fn temporary_cache(folder: &Path) -> PathBuf {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let user = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| {
        // Whether it could be made is seen right away.
        let _ = std::fs::DirBuilder::new().mode(0o700).create(path);
        std::fs::symlink_metadata(path)
            .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
    };
    let process = std::process::id();
    let others = (0..100).map(|n| format!("steward-{user}-{process}-{n}"));
    let mut names = std::iter::once(format!("steward-{user}")).chain(others);
    let own = names.find_map(|name| Some(folder.join(name)).filter(|path| is_own(path)));
    // Where nothing can be made, so that an error says so.
    own.unwrap_or_else(|| PathBuf::from("/dev/null/steward"))
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8).map_err(|_| "an octal number is needed".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Exit codes that scripts can rely on: 0 all good, 1 the model or a resource is in error, 2 wrong usage, 3 our own
/// trouble.
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const TROUBLE: u8 = 3;

/// The whole program.
pub fn main() -> ExitCode {
    if let Some(code) = crate::process::run_as_init() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let is_help = !error.use_stderr();
            let _ = error.print();
            return if is_help {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(USAGE)
            };
        }
    };
    match arguments.command {
        Command::Up(arguments) => up::run(arguments),
        Command::Serve { config, check } => serve::run(&config, check),
        Command::Agent(arguments) => agent::run(arguments),
        Command::Deploy(arguments) => deploy::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Lsm { command } => lsm::run(&command),
        Command::Compile(arguments) => compile::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Project { command } => project::run(&command),
        Command::PythonPackage { out, lsm } => python_package::run(out, lsm),
        Command::Fmt(arguments) => fmt::run(&arguments),
        Command::Lsp { .. } => lsp::run(),
        Command::Completions { shell } => completions::run(shell),
        Command::CompileWorker { memory_bytes } => {
            log::child();
            crate::process::prefer_one_heap();
            crate::compile::run_worker(memory_bytes)
        }
        Command::GitWorker => {
            log::child();
            crate::git::run_worker()
        }
        Command::Executor {
            umask,
            hosts,
            keep,
            import_timeout,
            carried,
        } => {
            log::child();
            if let Some(umask) = umask {
                crate::process::restore_umask(umask);
            }
            let default = crate::executor::limits::Limits::default();
            let limits = crate::executor::limits::Limits {
                hosts: hosts.map_or(default.hosts, |n| usize::try_from(n).unwrap_or(usize::MAX)),
                keep: keep.map_or(default.keep, Duration::from_secs),
                import: import_timeout.map_or(default.import, Duration::from_secs),
                ..default
            };
            let carried = carried.map(|folder| {
                let install = crate::agent::install_carried(&folder);
                (folder, install)
            });
            crate::executor::process::run(limits, carried)
        }
        Command::Attached {
            project,
            environment,
            inputs,
        } => attached::run(project, environment.as_deref(), &inputs),
        Command::Sandbox { command } => sandbox::run(&command),
        Command::Supervise {
            parent,
            all,
            memory_bytes,
            command,
        } => {
            let supervision = crate::process::Supervision {
                parent,
                all,
                memory_bytes,
            };
            supervise::run(supervision, &command)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_among_the_temporary_files_is_nobody_elses() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let usual = folder.path().join(format!("steward-{user}"));
        assert_eq!(temporary_cache(folder.path()), usual);
        assert_eq!(temporary_cache(folder.path()), usual);
        // Everybody may write to it, or it is a link to a folder that somebody else named.
        std::fs::set_permissions(&usual, PermissionsExt::from_mode(0o777)).unwrap();
        assert_ne!(temporary_cache(folder.path()), usual);
        std::fs::remove_dir(&usual).unwrap();
        std::os::unix::fs::symlink("/var", &usual).unwrap();
        let next = temporary_cache(folder.path());
        assert_ne!(next, usual);
        // So is the one that is taken then.
        std::fs::set_permissions(&next, PermissionsExt::from_mode(0o777)).unwrap();
        let last = temporary_cache(folder.path());
        assert!(last != usual && last != next && last.is_dir(), "{last:?}");
        assert!(!temporary_cache(Path::new("/nonexistent")).exists());
    }
}
