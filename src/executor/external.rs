//! The server's end of agents on other machines: which are connected, what they were given, and which results are not
//! acknowledged yet.
//!
//! Who wakes it: the engine, with runs to hand over and with what connections say. What it owns: the sending half of each
//! connection, and the runs that were handed over, also while their agent is not connected: they go on there. A run leaves by
//! its result, or when no result came in the time that its handler has; nothing else says that it has ended.
//!
//! An agent is trusted with its own resources only. A result counts if its run was given to an agent of the connection that
//! brings it; others are acknowledged, so that they do not come again, and are counted: an agent that sends many of them is
//! not one of ours.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use uuid::Uuid;

use crate::domain::{ActionId, AgentName, ResourceId, Timestamp, chain};
use crate::executor::agent_code::AgentCode;
use crate::executor::link::{Purpose, TaskResult};
use crate::executor::protocol::{Task, TaskDone};
use crate::executor::remote::{self, AgentCommand, AgentHello, Carried};

/// A result may come this much later than its handler's time is over: the network may have been away.
const GRACE: Duration = Duration::from_secs(120);
/// Results that nobody asked for, after which a connection is closed.
const MAX_STRAYS: usize = 1000;

/// What one connection says, after its hello.
#[derive(Debug)]
pub(crate) enum AgentMessage {
    Done {
        number: u64,
        done: Box<TaskDone>,
    },
    Ask {
        id: u64,
        method: String,
        arguments: Map<String, Value>,
        turn: Turn,
    },
    /// It is cut, or closed.
    Gone {
        why: String,
    },
}

/// All agents on other machines, of one environment.
#[derive(Debug, Default)]
pub(crate) struct External {
    connections: BTreeMap<u64, Connected>,
    /// Which connection works for an agent.
    serving: HashMap<AgentName, u64>,
    given: HashMap<ActionId, Given>,
    /// Results that are not in the database yet: whom to tell.
    unwritten: HashMap<ActionId, (u64, u64)>,
    n_connections: u64,
}

/// What the engine says on a connection.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Command(AgentCommand),
    /// An answer to a handler, as it is sent; with the place among the calls of the connection, which is free again when it was.
    Answer {
        document: Vec<u8>,
        turn: Turn,
    },
}

/// The place of a call among those of its connection that are not answered: who does not read answers gets no more of them.
pub(crate) type Turn = OwnedSemaphorePermit;

#[derive(Debug)]
struct Connected {
    instance: Uuid,
    process: Uuid,
    names: BTreeSet<AgentName>,
    /// Agents that it would work for, if they were elsewhere.
    left_out: BTreeSet<AgentName>,
    commands: mpsc::UnboundedSender<Outgoing>,
    /// Calls that are not answered.
    asking: HashMap<u64, Turn>,
    known_code: HashSet<String>,
    /// Runs that it has, or had, and that are of no use any more.
    discarded: HashSet<ActionId>,
    n_strays: usize,
}

/// A run that was handed over.
#[derive(Debug)]
struct Given {
    agent: AgentName,
    resource_id: ResourceId,
    purpose: Purpose,
    instance: Uuid,
    /// When its result is given up.
    deadline: Instant,
    /// To hand it over again; `None`: it was taken up from the agent.
    task: Option<(Task, Arc<AgentCode>)>,
}

/// What follows from a new connection.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) connection: u64,
    /// Runs that ended with the agent that had them.
    pub(crate) lost: Vec<TaskResult>,
    /// Runs that the agent has, and that we did not give it: a server before us may have.
    pub(crate) unknown: Vec<Carried>,
}

impl Connected {
    /// Who does not hear it is about to be told of as gone.
    fn tell(&self, command: AgentCommand) {
        let _ = self.commands.send(Outgoing::Command(command));
    }
}

impl External {
    pub(crate) fn is_connected(&self, agent: &AgentName) -> bool {
        self.serving.contains_key(agent)
    }

    /// The resources that the agents of a connection run just now.
    pub(crate) fn running(&self, connection: u64) -> Vec<ResourceId> {
        let given = self.given.values();
        let given = given.filter(|given| self.serving.get(&given.agent) == Some(&connection));
        given.map(|given| given.resource_id.clone()).collect()
    }

    /// Whether a run is at an agent on another machine.
    pub(crate) fn has(&self, action: ActionId) -> bool {
        self.given.contains_key(&action)
    }

    /// Takes a new connection in. One of the same process replaces the one that it had. `left_out`: agents that it has named as
    /// well, and that are not elsewhere.
    ///
    /// # Errors
    /// Another installation works for one of these agents, or another process with a copy of the same data: were it let in, the
    /// two would take turns, and both begin the same runs.
    pub(crate) fn attach(
        &mut self,
        hello: &AgentHello,
        left_out: &[AgentName],
        commands: mpsc::UnboundedSender<Outgoing>,
    ) -> Result<Attached, String> {
        let names: BTreeSet<AgentName> = hello.names.iter().cloned().collect();
        let mut before = BTreeSet::new();
        for name in &names {
            let holder = self.serving.get(name).copied();
            let Some((id, known)) = holder.and_then(|id| Some((id, self.connections.get(&id)?)))
            else {
                continue;
            };
            if known.instance != hello.instance {
                return Err(format!(
                    "another installation works for agent {name}: stop that one first, or give this one another name"
                ));
            }
            if known.process != hello.process {
                return Err(format!(
                    "another process of this installation works for agent {name}: if the data directory was copied from another \
                     machine, stop the agent here and delete the copy; if it was started again, it is let in when the connection \
                     of the one before is known to be cut"
                ));
            }
            before.insert(id);
        }
        for id in before {
            self.drop_connection(id);
        }
        self.n_connections += 1;
        let connection = self.n_connections;
        for name in &names {
            self.serving.insert(name.clone(), connection);
        }
        let connected = Connected {
            instance: hello.instance,
            process: hello.process,
            names,
            left_out: left_out.iter().cloned().collect(),
            commands,
            asking: HashMap::new(),
            known_code: HashSet::new(),
            discarded: HashSet::new(),
            n_strays: 0,
        };
        self.connections.insert(connection, connected);
        let lost = self.hand_over_again(connection, hello);
        let is_unknown = |carried: &&Carried| {
            !self.given.contains_key(&carried.action)
                && !self.unwritten.contains_key(&carried.action)
        };
        let unknown = hello.carried.iter().filter(is_unknown).cloned().collect();
        Ok(Attached {
            connection,
            lost,
            unknown,
        })
    }

    /// What the agent of a new connection should have and has not never arrived, and is sent again; what another installation
    /// had is lost with that.
    fn hand_over_again(&mut self, connection: u64, hello: &AgentHello) -> Vec<TaskResult> {
        let carried: HashSet<ActionId> = hello.carried.iter().map(|one| one.action).collect();
        let missing: Vec<ActionId> = self
            .given
            .iter()
            .filter(|(action, given)| {
                !carried.contains(action) && self.serving.get(&given.agent) == Some(&connection)
            })
            .map(|(action, _)| *action)
            .collect();
        let mut lost = Vec::new();
        for action in missing {
            let Some(given) = self.given.remove(&action) else {
                continue;
            };
            match given.task {
                Some((task, code))
                    if given.instance == hello.instance || given.instance.is_nil() =>
                {
                    self.run(task, &code)
                }
                _ => lost.push(given_up(
                    action,
                    given,
                    "the installation that ran this agent was replaced by another one",
                )),
            }
        }
        lost
    }

    /// Hands a run over. Its agent may be gone by now: then it is handed over when it comes back.
    pub(crate) fn run(&mut self, mut task: Task, code: &Arc<AgentCode>) {
        let packages = code.packages_elsewhere_for(&task.resource_type);
        task.code = match packages {
            Some(_) => code.key_with_packages(),
            None => code.key.clone(),
        };
        let connection = self.serving.get(&task.agent).copied();
        let connected = connection.and_then(|id| self.connections.get_mut(&id));
        let given = Given {
            agent: task.agent.clone(),
            resource_id: task.resource_id.clone(),
            purpose: Purpose::from(&task.kind),
            instance: connected.as_ref().map_or(Uuid::nil(), |one| one.instance),
            deadline: Instant::now() + task.limit() + GRACE,
            task: Some((task.clone(), Arc::clone(code))),
        };
        self.given.insert(task.action, given);
        let Some(connected) = connected else {
            return;
        };
        if connected.known_code.insert(task.code.clone()) {
            connected.tell(AgentCommand::Code {
                code: task.code.clone(),
                modules: code.modules.clone(),
                packages: packages.cloned(),
            });
        }
        connected.tell(AgentCommand::Run(task));
    }

    /// Takes a run up that a server before us gave to an agent.
    pub(crate) fn adopt(&mut self, connection: u64, carried: &Carried, limit: Duration) {
        let instance = self.connections.get(&connection).map(|one| one.instance);
        let given = Given {
            agent: carried.agent.clone(),
            resource_id: carried.resource_id.clone(),
            purpose: Purpose::Deploy,
            instance: instance.unwrap_or_default(),
            deadline: Instant::now() + limit + GRACE,
            task: None,
        };
        self.given.insert(carried.action, given);
    }

    /// A run that an agent has is of no use any more: its result is acknowledged, and that is all.
    pub(crate) fn discard(&mut self, connection: u64, action: ActionId) {
        if let Some(connected) = self.connections.get_mut(&connection) {
            connected.discarded.insert(action);
        }
    }

    /// Takes note of a result, and says what it is for. `None`: it came before, or nobody asked this agent for it.
    pub(crate) fn on_done(
        &mut self,
        connection: u64,
        number: u64,
        done: TaskDone,
    ) -> Option<TaskResult> {
        let connected = self.connections.get_mut(&connection)?;
        let action = done.action;
        let is_its_own = |given: &Given| {
            given.instance == connected.instance && connected.names.contains(&given.agent)
        };
        if self.given.get(&action).is_some_and(is_its_own) {
            let given = self.given.remove(&action)?;
            self.unwritten.insert(action, (connection, number));
            return Some(TaskResult {
                action,
                resource_id: given.resource_id,
                purpose: given.purpose,
                finished: Timestamp(done.finished_us),
                outcome: done.outcome,
            });
        }
        if let Some(sender) = self.unwritten.get_mut(&action) {
            *sender = (connection, number);
            return None;
        }
        let is_known = connected.discarded.remove(&action);
        let numbers = vec![number];
        connected.tell(AgentCommand::Acknowledged { numbers });
        connected.n_strays += usize::from(!is_known);
        if connected.n_strays > MAX_STRAYS {
            tracing::error!(
                "an agent sent {MAX_STRAYS} results that nobody asked it for; its connection is closed"
            );
            self.drop_connection(connection);
        }
        None
    }

    /// These runs are in the database: their agents may forget the results.
    pub(crate) fn written(&mut self, actions: impl Iterator<Item = ActionId>) {
        if self.unwritten.is_empty() {
            return;
        }
        let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for action in actions {
            if let Some((connection, number)) = self.unwritten.remove(&action) {
                numbers.entry(connection).or_default().push(number);
            }
        }
        for (connection, numbers) in numbers {
            if let Some(connected) = self.connections.get(&connection) {
                connected.tell(AgentCommand::Acknowledged { numbers });
            }
        }
    }

    /// Whether what a handler asks is about a resource of an agent of this connection, or about none.
    pub(crate) fn may_speak_of(&self, connection: u64, agent: Option<&str>) -> bool {
        let connected = self.connections.get(&connection);
        connected.is_some_and(|one| agent.is_none_or(|agent| one.names.contains(agent)))
    }

    /// A handler asks, and will get an answer; `false`: nobody would get it, or another call has the same number.
    pub(crate) fn asks(&mut self, connection: u64, id: u64, turn: Turn) -> bool {
        let Some(connected) = self.connections.get_mut(&connection) else {
            return false;
        };
        let is_new = !connected.asking.contains_key(&id);
        if is_new {
            connected.asking.insert(id, turn);
        }
        is_new
    }

    /// Gives a handler its answer, if its agent is still connected.
    pub(crate) fn answer(&mut self, connection: u64, id: u64, (code, body): (u16, Value)) {
        let Some(connected) = self.connections.get_mut(&connection) else {
            return;
        };
        let Some(turn) = connected.asking.remove(&id) else {
            return;
        };
        match remote::encode(&AgentCommand::Answer { id, code, body }) {
            Ok(document) => {
                let _ = connected.commands.send(Outgoing::Answer { document, turn });
            }
            Err(error) => tracing::error!(
                error = chain(&error),
                "an answer to a handler cannot be written"
            ),
        }
    }

    /// Closes connections that could work for an agent that they were refused, so that they are made anew.
    pub(crate) fn close_outdated(&mut self, is_external: impl Fn(&AgentName) -> bool) {
        let connections = self.connections.iter();
        let is_outdated = |one: &Connected| one.left_out.iter().any(&is_external);
        let outdated = connections.filter(|(_, one)| is_outdated(one));
        let outdated: Vec<u64> = outdated.map(|(id, _)| *id).collect();
        for connection in outdated {
            self.drop_connection(connection);
        }
    }

    /// A connection has ended. What its agents were given goes on there.
    pub(crate) fn on_gone(&mut self, connection: u64) {
        self.drop_connection(connection);
    }

    /// Closes all connections, as when the server stops.
    pub(crate) fn close(&mut self) {
        self.connections.clear();
        self.serving.clear();
    }

    fn drop_connection(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.serving.retain(|_, serving| *serving != connection);
    }

    /// Runs whose results did not come in time.
    pub(crate) fn overdue(&mut self) -> Vec<TaskResult> {
        let now = Instant::now();
        let late: Vec<ActionId> = self
            .given
            .iter()
            .filter(|(_, given)| given.deadline <= now)
            .map(|(action, _)| *action)
            .collect();
        let mut results = Vec::new();
        for action in late {
            let Some(given) = self.given.remove(&action) else {
                continue;
            };
            let connection = self.serving.get(&given.agent).copied();
            let why = match connection {
                None => {
                    "its agent is not connected, and no result came in the time that the handler has"
                }
                Some(_) => "no result came from its agent in the time that the handler has",
            };
            if let Some(connection) = connection {
                self.discard(connection, action);
            }
            results.push(given_up(action, given, why));
        }
        results
    }

    /// Runs of agents that are not connected and would be refused by now, as they are somewhere else: no result can come.
    pub(crate) fn cut_off(&mut self, is_external: impl Fn(&AgentName) -> bool) -> Vec<TaskResult> {
        let serving = &self.serving;
        let is_cut_off =
            |given: &Given| !serving.contains_key(&given.agent) && !is_external(&given.agent);
        let gone = self.given.extract_if(|_, given| is_cut_off(given));
        let why = "its agent is somewhere else by now, and where it was it is not connected, so that no result can come";
        gone.map(|(action, given)| given_up(action, given, why))
            .collect()
    }
}

fn given_up(action: ActionId, given: Given, why: &str) -> TaskResult {
    TaskResult::unavailable(action, given.resource_id, given.purpose, why.to_owned())
}
