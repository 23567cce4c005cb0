//! Agents that are not on this machine: where each one is, which are connected, and what they bring.

use std::collections::BTreeSet;

use super::handle::{Inspected, RequestError};
use super::{InFlight, Reconciler};
use crate::deploy::ask::Asker;
use crate::domain::{ActionId, ActionKind, AgentName, AgentPlace, Timestamp, chain};
use crate::executor::external::{AgentMessage, Attached, Outgoing};
use crate::executor::link::Message;
use crate::executor::remote::{AgentHello, Carried, digest_of};
use crate::store::{self, ActionStart, Reopened};
use serde_json::json;
use tokio::sync::mpsc;

/// What a connection of an agent needs to go on, when it was taken in.
#[derive(Debug)]
pub struct Admission {
    pub(crate) connection: u64,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
    /// Of its agents those that are not elsewhere: it does not work for them.
    pub(crate) left_out: Vec<AgentName>,
}

impl Reconciler {
    /// Works out where agents are, as the model says it unless the settings say otherwise, and notes in the schedule and in the store which of them are out of reach.
    /// What that leaves behind is ended.
    pub(super) async fn place_agents(&mut self) -> Result<(), store::Error> {
        self.note_places().await?;
        self.executor.leave_unused();
        for result in self.executor.cut_off() {
            self.on_task_done(result).await;
        }
        Ok(())
    }

    async fn note_places(&mut self) -> Result<(), store::Error> {
        let mut places = self.model_places.clone();
        places.extend(self.settings.agent_map());
        if places.is_empty() && !self.has_places {
            return Ok(());
        }
        self.has_places = !places.is_empty();
        let is_external = |place: &AgentPlace| *place == AgentPlace::External;
        let away: BTreeSet<AgentName> = places
            .iter()
            .filter(|(name, place)| {
                is_external(place) && !self.executor.external.is_connected(name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        self.executor.set_places(places);
        self.assign_permits();
        // Of however many agents, those are looked at that are away or were.
        let known: Vec<AgentName> = self.schedule.away().cloned().collect();
        for name in known.iter().filter(|name| !away.contains(*name)) {
            self.schedule.set_away(name, false);
        }
        for name in &away {
            if self.schedule.knows_agent(name) {
                self.schedule.set_away(name, true);
            }
        }
        let still = self.store.agent_still(self.environment).await?;
        let noted = still.iter().filter(|agent| agent.away_since().is_some());
        let noted: BTreeSet<&AgentName> = noted.map(|agent| &agent.name).collect();
        let back: Vec<&AgentName> = noted
            .iter()
            .copied()
            .filter(|name| !away.contains(*name))
            .collect();
        let gone: Vec<&AgentName> = away.iter().filter(|name| !noted.contains(name)).collect();
        self.store
            .agent_set_away(self.environment, &back, None)
            .await?;
        self.store
            .agent_set_away(self.environment, &gone, Some(Timestamp::now()))
            .await
    }

    /// What is in memory, with the store brought up to it.
    pub(super) async fn inspect(&mut self) -> Result<Inspected, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        self.flush().await;
        Ok(Inspected {
            version: self.schedule.version(),
            states: self.schedule.states().cloned().collect(),
        })
    }

    /// As [`Self::place_agents`]; if the database does not answer, the next refresh tries again.
    async fn replace_agents(&mut self) {
        if let Err(error) = self.place_agents().await {
            tracing::error!(environment.id = %self.environment, error = chain(&error), "cannot note which agents are connected");
        }
    }

    /// Takes in an agent that has said hello.
    ///
    /// # Errors
    /// Why not, for whoever started it.
    pub(super) async fn attach(
        &mut self,
        hello: &AgentHello,
        commands: mpsc::UnboundedSender<Outgoing>,
    ) -> Result<Admission, String> {
        let names = hello.names.iter().cloned();
        let (names, left_out): (Vec<AgentName>, Vec<AgentName>) =
            names.partition(|name| self.executor.is_external(name));
        let elsewhere = format!(
            "these agents run elsewhere: {}; the setting `agent_map` of the environment has to say `external:` for each",
            listed(&left_out)
        );
        if names.is_empty() {
            return Err(elsewhere);
        }
        let hello = &AgentHello {
            names,
            ..hello.clone()
        };
        let external = &mut self.executor.external;
        let Attached {
            connection,
            lost,
            unknown,
        } = external.attach(hello, &left_out, commands)?;
        if !left_out.is_empty() {
            tracing::warn!(environment.id = %self.environment, "of the agents of a connection {elsewhere}");
        }
        for result in lost {
            self.on_task_done(result).await;
        }
        for carried in unknown {
            self.take_up(connection, &carried).await;
        }
        self.replace_agents().await;
        tracing::info!(
            environment.id = %self.environment, n_carried = hello.carried.len(),
            "agents are connected: {}", listed(&hello.names)
        );
        Ok(Admission {
            connection,
            messages: self.executor.messages(),
            left_out,
        })
    }

    /// Takes up a run that this process did not start: a server before it did, or it has given the run up. It is of use if the
    /// resource shall still be the same and nothing else is done with it.
    async fn take_up(&mut self, connection: u64, carried: &Carried) {
        if !self.try_take_up(connection, carried).await {
            self.executor.external.discard(connection, carried.action);
        }
    }

    async fn try_take_up(&mut self, connection: u64, carried: &Carried) -> bool {
        let intent = self.schedule.intent(&carried.resource_id);
        let is_same = intent.is_some_and(|intent| {
            intent.agent == carried.agent && digest_of(&intent.attributes) == carried.intent
        });
        let speaks = self
            .executor
            .external
            .may_speak_of(connection, Some(carried.agent.as_str()));
        // An agent may name one run for two resources: only the first has it.
        let is_taken = self.in_flight.contains_key(&carried.action)
            || self
                .unwritten
                .starts
                .iter()
                .any(|start| start.id == carried.action);
        // What is opened again is being deployed for everybody who asks, so nothing may keep it from being taken up then.
        let can_adopt = self.schedule.can_adopt(&carried.resource_id);
        if !carried.is_deploy || !is_same || !speaks || is_taken || !can_adopt {
            return false;
        }
        let reopened = self
            .store
            .action_reopen(self.environment, carried.action, &carried.resource_id)
            .await;
        let reopened = match reopened {
            // It is written already; only the agent did not hear of it.
            Ok(Reopened::IsFinished) => return false,
            Ok(reopened) => reopened,
            Err(error) => {
                tracing::error!(error = chain(&error), "cannot take up the run of an agent");
                return false;
            }
        };
        let Some(run) = self.schedule.adopt(&carried.resource_id, carried.action) else {
            return false;
        };
        self.begin_round();
        let started = Timestamp::now();
        if reopened == Reopened::IsMissing {
            self.unwritten.starts.push(ActionStart {
                id: run.action,
                action: ActionKind::Deploy,
                version: run.version,
                resource_id: carried.resource_id.clone(),
                started,
            });
        }
        let limit = self.settings.deploy_timeout();
        self.executor.external.adopt(connection, carried, limit);
        self.in_flight
            .insert(run.action, InFlight::new(run, started));
        true
    }

    /// What a connection of an agent says.
    pub(super) async fn on_agent(&mut self, connection: u64, message: AgentMessage) {
        match message {
            AgentMessage::Done { number, done } => {
                let external = &mut self.executor.external;
                let Some(mut result) = external.on_done(connection, number, *done) else {
                    return;
                };
                self.keep_what_it_may_say(connection, &mut result).await;
                let action = result.action;
                let is_deploy = self.in_flight.contains_key(&action);
                self.on_task_done(result).await;
                // Deployments are acknowledged when they are in the database.
                if !is_deploy {
                    self.executor.external.written([action].into_iter());
                }
            }
            AgentMessage::Ask {
                id,
                method,
                arguments,
                turn,
            } => {
                if !self.executor.external.asks(connection, id, turn) {
                    return;
                }
                let asker = Asker::Agent { connection, id };
                match self.refusal(connection, &method, &arguments).await {
                    None => self.on_api_call(asker, &method, &arguments, None).await,
                    Some(message) => {
                        self.on_answer(asker, (403, json!({ "message": message })))
                            .await;
                    }
                }
            }
            AgentMessage::Gone { why } => {
                self.executor.external.on_gone(connection);
                tracing::warn!(environment.id = %self.environment, "an agent is not connected any more: {why}");
                self.replace_agents().await;
            }
        }
    }

    /// Gives up runs of agents whose results did not come in time.
    pub(super) async fn give_up_overdue(&mut self) {
        for result in self.executor.external.overdue() {
            self.on_task_done(result).await;
        }
    }

    /// These runs are in the database.
    pub(super) fn acknowledge(&mut self, actions: impl Iterator<Item = ActionId>) {
        self.executor.external.written(actions);
    }
}

/// The first few names.
fn listed(names: &[AgentName]) -> String {
    const SHOWN: usize = 5;
    let mut text: Vec<&str> = names.iter().take(SHOWN).map(AgentName::as_str).collect();
    let more = format!("and {} more", names.len().saturating_sub(SHOWN));
    if names.len() > SHOWN {
        text.push(&more);
    }
    text.join(", ")
}
