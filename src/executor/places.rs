//! All executors of an environment: that of this machine, those on machines that are reached by ssh, and the agents on other
//! machines. Each agent's runs go where its place says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use steward_compiler::PythonRuntime;
use tokio::sync::mpsc;

use crate::domain::{ActionId, AgentName, AgentPlace, EnvironmentId, ResourceId, SshTarget};
use crate::executor::agent_code::AgentCode;
use crate::executor::connections::{Connections, LOOK, Machine};
use crate::executor::external::External;
use crate::executor::limits::Limits;
use crate::executor::link::{EXECUTOR_HERE, Executor, Message, TaskResult, executor_of};
use crate::executor::packages::{HandlerVenv, PackageInstaller, Packages, ReadyRun};
use crate::executor::protocol::{Task, TaskDone};
use crate::executor::transport::{Pipe, Ssh};
use crate::executor::variables::Variables;
use crate::executor::waiting::{Begin, Waiting};
use crate::files::Files;

/// Sends each run to the executor of its agent, and knows whose answer it is.
#[derive(Debug)]
pub(crate) struct Executors {
    environment: EnvironmentId,
    python: Option<PythonRuntime>,
    limits: Limits,
    /// A configuration file for `ssh`.
    ssh_config: Option<PathBuf>,
    messages: mpsc::UnboundedSender<Message>,
    /// The first is that of this machine, the others are by ssh.
    executors: Vec<Executor>,
    by_target: HashMap<SshTarget, Machine>,
    connections: Connections,
    pub(crate) external: External,
    /// What the executor of this machine needs besides the code of handlers.
    packages: Packages,
    /// Agents that are not here.
    places: BTreeMap<AgentName, AgentPlace>,
}

impl Executors {
    pub(crate) fn new(
        environment: EnvironmentId,
        python: Option<PythonRuntime>,
        limits: Limits,
        variables: Variables,
        ssh_config: Option<PathBuf>,
        installer: PackageInstaller,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Self {
        let transport = Box::new(Pipe { limits, variables });
        let here = Executor::new(environment, python.clone(), transport, messages.clone(), 0);
        Self {
            environment,
            python,
            limits,
            ssh_config,
            packages: Packages::new(installer, messages.clone()),
            messages,
            executors: vec![here],
            by_target: HashMap::new(),
            connections: Connections::new(limits.connections),
            external: External::default(),
            places: BTreeMap::new(),
        }
    }

    /// Says where agents are that are not here. What runs goes on where it is.
    pub(crate) fn set_places(&mut self, places: BTreeMap<AgentName, AgentPlace>) {
        self.places = places;
    }

    /// Whether an agent runs where somebody starts `steward agent`.
    pub(crate) fn is_external(&self, agent: &AgentName) -> bool {
        self.places.get(agent) == Some(&AgentPlace::External)
    }

    /// Whether an agent's runs are done by the executor of this machine.
    pub(crate) fn is_here(&self, agent: &AgentName) -> bool {
        matches!(self.places.get(agent), None | Some(AgentPlace::Local))
    }

    /// Closes connections whose agents are others by now, and gives the results of runs that went to agents elsewhere, and of
    /// which nothing can come any more.
    pub(crate) fn cut_off(&mut self) -> Vec<TaskResult> {
        let places = &self.places;
        let is_external = |agent: &AgentName| places.get(agent) == Some(&AgentPlace::External);
        self.external.close_outdated(is_external);
        self.external.cut_off(is_external)
    }

    /// Ends executors by ssh where no agent is any more, when they had nothing to do for as long as a host without work is kept.
    pub(crate) fn leave_unused(&mut self) {
        let places = self.places.values().filter_map(|place| match place {
            AgentPlace::Ssh(target) => Some(target),
            AgentPlace::Local | AgentPlace::External => None,
        });
        let used: HashSet<&SshTarget> = places.collect();
        for (target, number) in &self.by_target {
            if let Some(executor) = self.executors.get_mut(*number)
                && executor
                    .idle_for()
                    .is_some_and(|time| time >= self.limits.keep)
                && !used.contains(target)
            {
                tracing::info!(environment.id = %self.environment, "no agent is on {} any more: its executor there ends", target.host);
                executor.leave();
                self.connections.close(*number);
            }
        }
    }

    /// The file store of the server.
    pub(crate) fn files(&self) -> Option<Files> {
        let files = self.python.as_ref()?.files.clone()?;
        Some(Files::new(files))
    }

    /// The resources that an executor of ours runs just now.
    pub(crate) fn running(&self, generation: u64) -> Vec<ResourceId> {
        let executor = self.executors.get(executor_of(generation));
        executor.map_or_else(Vec::new, |executor| executor.running(generation))
    }

    pub(crate) fn messages(&self) -> mpsc::UnboundedSender<Message> {
        self.messages.clone()
    }

    pub(crate) async fn prestart(&mut self) -> io::Result<()> {
        match self.executors.first_mut() {
            Some(here) => here.prestart().await,
            None => Ok(()),
        }
    }

    /// Hands a run over to where its agent is.
    pub(crate) async fn run(&mut self, task: Task, code: &Arc<AgentCode>) {
        let place = self.places.get(&task.agent).cloned();
        self.run_at(place.unwrap_or_default(), task, code).await;
    }

    /// Hands a run over to a place, wherever its agent is in the version in force.
    pub(crate) async fn run_at(&mut self, place: AgentPlace, task: Task, code: &Arc<AgentCode>) {
        match place {
            AgentPlace::Local => {
                if let Some(ready) = self.packages.admit(task, code) {
                    self.run_here(ready).await;
                }
            }
            AgentPlace::External => self.external.run(task, code),
            AgentPlace::Ssh(target) => {
                let machine = self.number_of(target);
                if let Some(task) = self.connections.admit(machine, task, code) {
                    self.run_on(machine, task, code).await;
                }
            }
        }
    }

    /// Agents have got something more urgent than what they were given: their machines go before others where they wait for
    /// connections.
    pub(crate) fn hurry(&mut self, agents: &[AgentName]) {
        for agent in agents {
            if let Some(AgentPlace::Ssh(target)) = self.places.get(agent)
                && let Some(machine) = self.by_target.get(target)
            {
                self.connections.hurry(*machine);
            }
        }
    }

    /// Hands a run over to the executor of a machine that may have a connection.
    async fn run_on(&mut self, machine: Machine, mut task: Task, code: &Arc<AgentCode>) {
        if code.packages_elsewhere_for(&task.resource_type).is_some() {
            task.code = code.key_with_packages();
        }
        if let Some(executor) = self.executors.get_mut(machine) {
            executor.run(task, code, None).await;
        }
        if !self.is_running(machine) {
            self.connections.close(machine);
        }
    }

    fn is_running(&self, machine: Machine) -> bool {
        let executor = self.executors.get(machine);
        executor.is_some_and(Executor::is_running)
    }

    async fn run_here(&mut self, ready: ReadyRun) {
        if let Some(here) = self.executors.get_mut(EXECUTOR_HERE) {
            let interpreter = ready.interpreter.as_deref();
            here.run(ready.task, &ready.code, interpreter).await;
        }
    }

    /// What a run of a resource waits for that was given to no executor yet.
    pub(crate) fn waiting_for(&self, resource_id: &ResourceId) -> Option<Waiting> {
        let installing = self.packages.waiting_for(resource_id);
        installing.or_else(|| self.connections.waiting_for(resource_id))
    }

    /// When it has to be looked again whether a run that waits can begin; `None`: when there is a message.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.connections.is_wanted().then_some(LOOK)
    }

    /// An installation of packages has ended: what has waited for it may begin.
    pub(crate) fn on_installed(&mut self, digest: String, made: Result<HandlerVenv, String>) {
        self.packages.on_installed(digest, made);
    }

    /// Begins those runs that have waited and that `may_begin`; gives those that are of no use any more, with why.
    pub(crate) async fn begin_waiting(
        &mut self,
        may_begin: impl Fn(&Task) -> Begin,
    ) -> Vec<TaskResult> {
        let (ready, mut ended) = self.packages.take_ready(&may_begin);
        let mut has_begun = !ready.is_empty();
        for ready in ready {
            self.run_here(ready).await;
        }
        if self.connections.is_wanted() {
            let executors = &self.executors;
            let idle_for = |machine: Machine| executors.get(machine)?.idle_for();
            let turn = self.connections.next(idle_for, &may_begin);
            for machine in turn.given_up {
                if let Some(executor) = self.executors.get_mut(machine) {
                    executor.leave();
                }
            }
            has_begun |= !turn.begun.is_empty();
            for (machine, run) in turn.begun {
                match self.moved_to(machine, &run.task) {
                    Some(place) => {
                        if !self.is_running(machine) {
                            self.connections.close(machine);
                        }
                        self.run_at(place, run.task, &run.code).await;
                    }
                    None => self.run_on(machine, run.task, &run.code).await,
                }
            }
            ended.extend(turn.ended);
        }
        if has_begun {
            self.flush().await;
        }
        ended
    }

    /// Where the agent of a run that has waited for a machine is by now, if not there. Dry runs are made where they were asked for.
    fn moved_to(&self, machine: Machine, task: &Task) -> Option<AgentPlace> {
        let place = self.places.get(&task.agent).cloned().unwrap_or_default();
        let is_there = match &place {
            AgentPlace::Ssh(target) => self.by_target.get(target) == Some(&machine),
            AgentPlace::Local | AgentPlace::External => false,
        };
        (!is_there && !task.is_dry_run()).then_some(place)
    }

    /// Sends what was handed over and is not sent yet.
    pub(crate) async fn flush(&mut self) {
        for executor in &mut self.executors {
            executor.flush().await;
        }
    }

    fn number_of(&mut self, target: SshTarget) -> usize {
        if let Some(number) = self.by_target.get(&target) {
            return *number;
        }
        let number = self.executors.len();
        let transport = Box::new(Ssh {
            target: target.clone(),
            limits: self.limits,
            config: self.ssh_config.clone(),
        });
        self.executors.push(Executor::new(
            self.environment,
            self.python.clone(),
            transport,
            self.messages.clone(),
            u32::try_from(number).unwrap_or(u32::MAX),
        ));
        self.by_target.insert(target, number);
        number
    }

    fn of(&mut self, generation: u64) -> Option<&mut Executor> {
        self.executors.get_mut(executor_of(generation))
    }

    pub(crate) fn on_done(&mut self, generation: u64, done: TaskDone) -> Option<TaskResult> {
        let result = self.of(generation)?.on_done(generation, done)?;
        Some(self.packages.with_note(result))
    }

    pub(crate) async fn answer(&mut self, generation: u64, id: u64, answer: (u16, Value)) {
        if let Some(executor) = self.of(generation) {
            executor.answer(generation, id, answer).await;
        }
    }

    /// `None`: it was let go of before.
    pub(crate) fn on_ended(
        &mut self,
        generation: u64,
        why: Option<&str>,
    ) -> Option<Vec<TaskResult>> {
        let results = self.of(generation)?.on_ended(generation, why)?.into_iter();
        self.connections.close(executor_of(generation));
        let results = results.map(|result| self.packages.with_note(result));
        Some(results.collect())
    }

    /// Ends all that run for this server; what they were running is `unavailable`. Agents on other machines go on, and bring
    /// their results to the next server.
    pub(crate) async fn close(&mut self, message: &str) -> Vec<TaskResult> {
        self.external.close();
        let mut results = self.packages.stop(message);
        results.extend(self.connections.stop(message));
        let executors = self.executors.iter_mut();
        let closing = executors.map(|executor| executor.close(message));
        results.extend(join_all(closing).await.into_iter().flatten());
        results
    }

    /// Whether a run is on another machine where it goes on without us.
    pub(crate) fn goes_on_without_us(&self, action: ActionId) -> bool {
        self.external.has(action)
    }
}
