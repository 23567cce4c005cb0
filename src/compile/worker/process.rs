//! The life of a compile worker: requests on stdin, replies on stdout.
//!
//! The first request puts it into the sandbox of one environment. After each compile it ends what the compile's Python code
//! left running, and empties the scratch folder: the next compile, and the machine, find nothing of it.

use std::collections::BTreeSet;
use std::io::{BufReader, BufWriter};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use steward_compiler::{
    Breadcrumb, Compiled, PythonLauncher, ServiceAnswer, ServiceInventory, ServiceQuestion,
    Severity, WarmHosts, World, protocol,
};

use super::commit_code;
use super::frames::{Job, JobDone, Refusal, Reply, Reported, Request};
use super::memory::OutOfMemory;
use super::reported::bounded;
use super::scratch::{self, Watch};
use crate::compile::code::{self, Kept};
use crate::compile::packages::{Answers, Packages};
use crate::compile::settings::{PROJECT_FILE, project_settings};
use crate::domain::{PackagesElsewhere, VersionCode};
use crate::files::{Files, KeptAnswers};
use crate::git::CommitId;
use crate::modules::{self, Inspection};
use crate::process::{self, Launcher, descendants};
use crate::python::carried;
use crate::sandbox::{SandboxPolicy, SandboxSupport, SupervisorLink, enter};

/// What is kept of the output of `std::print`.
const PRINTED_BYTES: usize = 1 << 20;

/// Answers of Python code that are kept of an environment: what the modules of a commit declare and what their plugins gave, for
/// definitions and for exports, of this commit and of the one before.
const KEPT_ANSWERS: usize = 8;

/// The whole life of a worker process.
pub fn run(memory_bytes: u64) -> ExitCode {
    process::die_with_parent();
    process::limit_memory(memory_bytes);
    // Who loses a parent below us comes to us, so that nothing escapes the end of a compile.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut worker = Worker {
        link: SupervisorLink::inherited(),
        memory_bytes,
        policy: None,
        breadcrumb: super::breadcrumb::inherited(),
        hosts: Arc::default(),
        commit: None,
        code: None,
        answers: Answers::default(),
        server: Arc::default(),
    };
    loop {
        let request = worker.server.lock().read();
        match request {
            Ok(Some(request)) => {
                let reply = worker.handle(request);
                let written = worker.server.lock().write(&reply);
                // The server is gone, or the reply is too large, and nothing of it was written.
                if let Err(error) = written
                    && worker
                        .server
                        .lock()
                        .write(&instead_of(reply, &error))
                        .is_err()
                {
                    return ExitCode::SUCCESS;
                }
                worker.clean_up();
            }
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "cannot read the next request");
                return ExitCode::FAILURE;
            }
        }
    }
}

/// The reply in the place of one that cannot be sent.
fn instead_of(reply: Reply, error: &std::io::Error) -> Reply {
    let message = format!("the result is too large for the server: {error}");
    match reply {
        Reply::Compiled(_) => Reply::Compiled(Box::new(JobDone {
            diagnostics: vec![Reported::error("ResourceLimitExceeded", message)],
            ..JobDone::default()
        })),
        Reply::Inspected(_) => Reply::Inspected(Err(Refusal {
            message,
            is_transient: false,
        })),
        small @ (Reply::Entered(_) | Reply::Ask(_)) => small,
    }
}

struct Worker {
    link: Option<SupervisorLink>,
    /// What each process, and all together, may take.
    memory_bytes: u64,
    /// The sandbox that this process is in.
    policy: Option<SandboxPolicy>,
    /// The file in which it notes which place of the model a compile is at.
    breadcrumb: Option<Arc<Breadcrumb>>,
    hosts: Arc<WarmHosts>,
    /// The commit that was compiled last.
    commit: Option<CommitId>,
    /// Its code, whose hosts these are.
    code: Option<String>,
    /// The places at which Python has found modules.
    answers: Answers,
    server: Arc<Server>,
}

/// The server at the other end of the pipes.
#[derive(Debug, Default)]
struct Server(Mutex<Pipes>);

#[derive(Debug)]
struct Pipes {
    reader: BufReader<std::io::Stdin>,
    writer: BufWriter<std::io::Stdout>,
}

impl Default for Pipes {
    fn default() -> Self {
        Self {
            reader: BufReader::new(std::io::stdin()),
            writer: BufWriter::new(std::io::stdout()),
        }
    }
}

impl Pipes {
    fn read(&mut self) -> std::io::Result<Option<Request>> {
        protocol::read_frame(&mut self.reader)
    }

    fn write(&mut self, reply: &Reply) -> std::io::Result<()> {
        protocol::write_frame(&mut self.writer, reply)
    }
}

impl Server {
    fn lock(&self) -> std::sync::MutexGuard<'_, Pipes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While a compile runs, the server waits for its end, or for a question of its.
impl ServiceInventory for Server {
    fn ask(&self, question: ServiceQuestion) -> Result<ServiceAnswer, String> {
        let mut pipes = self.lock();
        let asked = pipes.write(&Reply::Ask(question));
        match asked.and_then(|()| pipes.read()) {
            Ok(Some(Request::Found(found))) => found,
            Ok(_) => {
                Err("the server does not answer the question for service instances".to_owned())
            }
            Err(error) => Err(format!(
                "the server can not be asked for service instances: {error}"
            )),
        }
    }
}

impl Worker {
    fn handle(&mut self, request: Request) -> Reply {
        match request {
            Request::Enter(policy) => Reply::Entered(self.enter(*policy)),
            Request::Inspect { project_dir } => {
                let inspected = Inspection::read(&project_dir);
                Reply::Inspected(
                    inspected
                        .map(Box::new)
                        .map_err(|error: modules::Error| Refusal {
                            message: crate::domain::chain(&error),
                            is_transient: error.is_transient(),
                        }),
                )
            }
            Request::Compile(job) => Reply::Compiled(Box::new(self.compile(*job))),
            // Of a compile that has ended.
            Request::Found(_) => Reply::Compiled(Box::default()),
        }
    }

    fn enter(&mut self, policy: SandboxPolicy) -> Result<SandboxSupport, String> {
        if self.policy.is_some() {
            return Err("it is in a sandbox already".to_owned());
        }
        let support = enter(&policy, self.link.as_ref()).map_err(|error| error.to_string())?;
        self.policy = Some(policy);
        Ok(support)
    }

    fn compile(&mut self, job: Job) -> JobDone {
        let is_same = self.has_code_of_last(&job);
        let Some(policy) = &self.policy else {
            let message = "the worker is in no sandbox: nothing is compiled there".to_owned();
            return JobDone {
                diagnostics: vec![Reported::error("SandboxError", message)],
                ..JobDone::default()
            };
        };
        // What the supervisor told since the last compile is not this one's doing.
        self.notices();
        descendants::resume(&ids(self.hosts.keep(|_| is_same)));
        let hosts = Arc::clone(&self.hosts);
        let end = move || {
            end_all_but(&hosts, false);
        };
        let kills = OutOfMemory::watch();
        let watch = Watch::start(policy.scratch.clone(), job.scratch_bytes, end);
        let mut done = compile(
            job,
            policy,
            (&self.hosts, self.code.clone()),
            &self.answers,
            (self.breadcrumb.clone(), Arc::clone(&self.server)),
        );
        if let Some(breadcrumb) = &self.breadcrumb {
            breadcrumb.end();
        }
        let mut reasons = self.notices();
        reasons.extend(watch.stop());
        if reasons.is_empty() {
            let mut errors = done.diagnostics.iter().filter(|one| one.is_error);
            reasons.extend(errors.find_map(|error| kills.reason(&error.plain, self.memory_bytes)));
        } else {
            for reason in reasons.iter_mut().filter(|one| one.contains("of memory")) {
                reason.push_str("; ");
                reason.push_str(&super::memory::advice(self.memory_bytes));
            }
        }
        if !reasons.is_empty() {
            let reasons = reasons
                .into_iter()
                .map(|reason| Reported::error("ResourceLimitExceeded", reason));
            done.diagnostics.extend(reasons);
            done.export = None;
        }
        done
    }

    /// Whether a compile has the code of the one before it; notes its code. The files of a commit do not change, so that
    /// compiles of service instances, which are many of one commit, read no code.
    fn has_code_of_last(&mut self, job: &Job) -> bool {
        if self.commit.replace(job.commit) == Some(job.commit) {
            return self.code.is_some();
        }
        let last = std::mem::replace(&mut self.code, commit_code::digest(&job.project_dir));
        last.is_some() && last == self.code
    }

    /// What the supervisor had to do since the last call.
    fn notices(&self) -> Vec<String> {
        let link = self.link.as_ref();
        link.map(SupervisorLink::notices).unwrap_or_default()
    }

    /// Nothing of a compile outlives it but the hosts with imported modules, which wait for the next one: stopped, since a
    /// thread that a module has started while it was imported would go on with its work.
    fn clean_up(&self) {
        let hosts = end_all_but(&self.hosts, true);
        await_forks(&hosts);
        descendants::pause(&hosts);
        if let Some(policy) = &self.policy {
            scratch::empty(&policy.scratch);
        }
    }
}

/// How long a host that is about to be stopped may take for the fork that the next compile gets.
const FORK_PATIENCE: Duration = Duration::from_millis(100);

/// Waits until each host has its next fork ready, so that the next compile does not wait for it. One that makes none in this
/// time makes it later.
fn await_forks(hosts: &BTreeSet<i32>) {
    let deadline = Instant::now() + FORK_PATIENCE;
    let is_ready = || {
        hosts
            .iter()
            .all(|host| !descendants::children(*host).is_empty())
    };
    while !is_ready() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ids(processes: Vec<u32>) -> BTreeSet<i32> {
    let ids = processes.into_iter();
    ids.filter_map(|id| i32::try_from(id).ok()).collect()
}

/// Ends all processes below this one; `with_hosts`: but for the warm hosts and the fork that each of them has ready. Tells
/// the hosts that are left.
fn end_all_but(hosts: &WarmHosts, with_hosts: bool) -> BTreeSet<i32> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let kept: BTreeSet<i32> = if with_hosts {
        // One that has other children has started them itself, while its modules were imported.
        let is_clean = |host: u32| {
            let host = i32::try_from(host).unwrap_or_default();
            let children = descendants::children(host);
            children.len() <= 1 && descendants::below(children).is_empty()
        };
        ids(hosts.keep(is_clean))
    } else {
        BTreeSet::new()
    };
    let others = || -> BTreeSet<i32> {
        let children = descendants::children(own).into_iter();
        children.filter(|child| !kept.contains(child)).collect()
    };
    descendants::end_all(|| {
        let others = others();
        let mut found = descendants::below(others.iter().copied());
        found.extend(others);
        found
    });
    if with_hosts {
        // While a compile runs, its hosts are waited for by who started them.
        others().into_iter().for_each(|child| {
            descendants::reap(child);
        });
    }
    kept
}

fn compile(
    job: Job,
    policy: &SandboxPolicy,
    (hosts, code): (&Arc<WarmHosts>, Option<String>),
    answers: &Answers,
    (breadcrumb, server): (Option<Arc<Breadcrumb>>, Arc<Server>),
) -> JobDone {
    let printed = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&printed);
    let print = move |line: &str| {
        let mut printed = sink.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.len() + line.len() < PRINTED_BYTES {
            printed.push_str(line);
            printed.push('\n');
        }
    };
    let mut variables = job.variables;
    if let Some(services) = &job.inputs.services {
        variables.extend(services.variables());
    }
    let mut world = steward_compiler::DirWorld::new(job.project_dir, variables, print)
        .with_environment(job.venv.as_deref());
    if let Some(python) = &job.python {
        world = world.with_carried(carried(&python.package));
    }
    let mut world = world.contained();
    let mut runtime = job.python.map(|python| python.runtime());
    if let Some(runtime) = &mut runtime {
        runtime.launcher = launcher(policy, job.proxy.as_deref());
        let packages = Packages::of_worker(runtime.clone(), Arc::clone(answers));
        world = world.with_packages(None, Arc::new(packages));
    }
    let store = runtime.as_ref().and_then(|python| python.files.clone());
    let python = runtime.into();
    let options = steward_compiler::Options {
        export: true,
        dump_model: false,
        python,
        environment_id: Some(job.environment_id),
        inputs: job.inputs,
        partial: job.partial,
        hosts: Some(Arc::clone(hosts)),
        time_limit: Some(job.time_limit),
        inventory: Some(server),
        breadcrumb,
        declarations: job.answers.zip(code).map(|(folder, code)| {
            commit_code::answers(KeptAnswers::new(folder, KEPT_ANSWERS), code)
        }),
        ..steward_compiler::Options::default()
    };
    let compiled = steward_compiler::compile(&world, &options);
    let report = |diagnostic: &steward_compiler::Diagnostic| Reported {
        is_error: diagnostic.severity == Severity::Error,
        json: diagnostic.to_json().to_string(),
        plain: steward_compiler::render(diagnostic, &world, false),
        colored: steward_compiler::render(diagnostic, &world, true),
    };
    let mut diagnostics = bounded(&compiled.diagnostics, report);
    let kept = store.map_or_else(
        || Ok(Kept::default()),
        |store| keep(&compiled, &Files::new(store)),
    );
    let kept = kept.unwrap_or_else(|error| {
        let text = format!("what the resources need can not be kept: {error}");
        diagnostics.push(Reported::error("UploadFailed", text));
        Kept::default()
    });
    let has_errors = diagnostics.iter().any(|one| one.is_error);
    let settings = world.read_text(PROJECT_FILE).unwrap_or_default();
    let settings = project_settings(&settings).unwrap_or_else(|error| {
        // Where the compile has read the file it has said so itself.
        if !has_errors {
            diagnostics.push(Reported::error("EnvironmentSettings", error));
        }
        serde_json::Map::new()
    });
    let mut printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
    printed.push_str(&compiled.plugin_output);
    JobDone {
        diagnostics,
        export: compiled.export,
        services: compiled.services,
        settings,
        code: VersionCode {
            // Here they are in the environment of the interpreter.
            elsewhere: PackagesElsewhere {
                modules: job
                    .venv
                    .as_ref()
                    .map(|_| kept.requirements)
                    .unwrap_or_default(),
                ..PackagesElsewhere::default()
            },
            interpreter: job.venv.map(|path| path.join("bin/python")),
            modules: kept.modules,
            types: Some(kept.types),
            ..VersionCode::default()
        },
        printed,
    }
}

/// Which HTTP clients look at.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];

/// The second layer of the sandbox, which Python code runs in.
fn launcher(policy: &SandboxPolicy, proxy: Option<&str>) -> PythonLauncher {
    match Launcher::new(&policy.inner()) {
        Ok(Launcher { words, variable }) => PythonLauncher {
            words,
            variables: std::iter::once((variable.0.into(), variable.1.into()))
                .chain(
                    PROXY_VARIABLES
                        .iter()
                        .filter_map(|name| Some((name.into(), proxy?.into()))),
                )
                .collect(),
        },
        // Without this program there is no Python: less than a sandbox must not run.
        Err(_) => PythonLauncher {
            words: vec!["/nonexistent".into()],
            variables: Vec::new(),
        },
    }
}

/// Keeps what resources upload, and the code of their handlers.
fn keep(compiled: &Compiled, store: &Files) -> std::io::Result<Kept> {
    store.keep_all(&compiled.files)?;
    match &compiled.export {
        Some(export) => code::keep(compiled, &export.resources, store),
        None => Ok(Kept::default()),
    }
}
