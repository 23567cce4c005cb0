//! What the server and an agent on another machine say to one another: MessagePack documents, each one a binary message of a
//! WebSocket that the agent opened.
//!
//! The agent says [`AgentHello`] first: who it is, which agents it works for, and which runs it was given before, over another
//! connection or by another process of the server. Then the server sends [`AgentCommand`]s, which hold those of an executor, and
//! gets [`AgentReply`]s. The connection may be cut at any moment. What makes that harmless:
//!
//! - A run has an [`ActionId`], which the server gives it and the agent writes down before its handler begins. A run that is
//!   handed over twice is begun once.
//! - A result has a number. The agent keeps it in a file until the server has acknowledged that number, and the server does so
//!   when the result is in the database. One that comes twice is acknowledged twice and written once.
//! - With the hello the server learns what the agent still has; what it thinks the agent has, and does not, never arrived, and is
//!   handed over again.
//!
//! Source: docs/reference/deployment.md § 5.11.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::domain::{
    ActionId, AgentName, CodeModule, EnvironmentId, HandlerPackages, ResourceId, VersionNumber,
};
use crate::executor::protocol::{self, Task, TaskDone, TaskKind};

/// Of the documents below, together with those of executors that they hold. It changes with each change that the other side
/// would not understand.
pub const VERSION: u32 = 200 + protocol::VERSION;

/// How often either side says that it is there.
pub const BEAT: Duration = Duration::from_secs(2);
/// Whoever hears nothing for this long, not even a part of a document, takes the connection for cut: three beats and some delay of
/// the network.
pub const SILENCE: Duration = Duration::from_secs(7);

/// Agents that one process works for: each of them may have a run and some results at a time, which the hello lists.
pub const MAX_NAMES: usize = 1000;
/// Runs that a hello may list.
pub const MAX_CARRIED: usize = 4 * MAX_NAMES;
/// Bytes of a document from the server: a run with the largest attributes, or one file of a module.
pub const MAX_COMMAND_BYTES: usize = 64 << 20;
/// Bytes of a hello.
pub const MAX_HELLO_BYTES: usize = 4 << 20;
/// Contents that an agent may ask for at once.
pub const MAX_NEEDED: usize = 10_000;

/// The first thing that an agent says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentHello {
    pub version: u32,
    /// Which installation this is: made once, and kept with its results.
    pub instance: Uuid,
    /// Which process of it this is: made at each start. It tells a process that comes back from one that runs on a copy of
    /// the installation's data. Agents of earlier releases do not say it.
    #[serde(default)]
    pub process: Uuid,
    /// The agents that it works for.
    pub names: Vec<AgentName>,
    /// What its clock says, in UTC microseconds.
    pub clock_us: i64,
    /// Runs that it was given and whose results are not acknowledged.
    pub carried: Vec<Carried>,
}

/// A run that an agent was given: what a server needs to know to take its result, also one that was started since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub action: ActionId,
    pub agent: AgentName,
    pub resource_id: ResourceId,
    pub version: VersionNumber,
    /// [`digest_of`] its attributes: whether it is still what the resource shall be.
    pub intent: String,
    /// Only deployments are taken up by a server that did not start them.
    pub is_deploy: bool,
}

impl From<&Task> for Carried {
    fn from(task: &Task) -> Self {
        Self {
            action: task.action,
            agent: task.agent.clone(),
            resource_id: task.resource_id.clone(),
            version: task.version,
            intent: digest_of(&task.attributes),
            is_deploy: matches!(task.kind, TaskKind::Deploy { .. }),
        }
    }
}

/// Stands for the attributes of a resource.
pub fn digest_of(attributes: &str) -> String {
    hex::encode(Sha256::digest(attributes))
}

/// What the server says to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCommand {
    /// The answer to the hello: it may work.
    Welcome {
        version: u32,
        environment_id: EnvironmentId,
        /// Of its agents those that it does not work for, as they are not elsewhere. Servers of earlier releases refuse it then.
        #[serde(default)]
        left_out: Vec<AgentName>,
    },
    /// The answer to the hello: it may not, and why.
    Refused {
        message: String,
    },
    /// Said every [`BEAT`].
    Alive,
    /// The Python code that tasks with this `code` need. Contents that the agent lacks it asks for.
    Code {
        code: String,
        modules: Vec<CodeModule>,
        /// What the agent has to install before it runs.
        packages: Option<HandlerPackages>,
    },
    Run(Task),
    /// To [`AgentReply::Ask`]: HTTP status and body.
    Answer {
        id: u64,
        code: u16,
        body: Value,
    },
    /// To [`AgentReply::Need`].
    Content {
        #[serde(with = "bytes")]
        content: Vec<u8>,
    },
    /// To [`AgentReply::Need`]: there is no such content any more.
    NoContent {
        name: String,
    },
    /// These results are in the database.
    Acknowledged {
        numbers: Vec<u64>,
    },
}

/// What an agent says to the server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReply {
    /// The first one, and only the first one.
    Hello(AgentHello),
    /// Said every [`BEAT`], with what its clock says.
    Alive { clock_us: i64 },
    /// A run has ended. Said again until it is acknowledged.
    Done {
        number: u64,
        carried: Carried,
        done: TaskDone,
    },
    /// A handler calls a method of the API.
    Ask {
        id: u64,
        method: String,
        arguments: Map<String, Value>,
    },
    /// Contents of files of the code that was announced.
    Need { names: Vec<String> },
}

/// The document of a message.
///
/// # Errors
/// It cannot be written as MessagePack.
pub fn encode<T: Serialize>(message: &T) -> std::io::Result<Vec<u8>> {
    rmp_serde::to_vec_named(message).map_err(std::io::Error::other)
}

/// The message of a document.
///
/// # Errors
/// It is none, or nests too deep.
pub fn decode<T: serde::de::DeserializeOwned>(document: &[u8]) -> std::io::Result<T> {
    steward_compiler::protocol::decode(document)
}

/// Bytes as MessagePack has them, not as a list of numbers.
pub(crate) mod bytes {
    use rmpv::Value;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(content: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(content)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        match Value::deserialize(from)? {
            Value::Binary(bytes) => Ok(bytes),
            _ => Err(serde::de::Error::custom("bytes are needed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_through_as_they_are() {
        for content in [vec![], vec![0, 255, 193]] {
            let sent = AgentCommand::Content {
                content: content.clone(),
            };
            let document = encode(&sent).unwrap();
            let Ok(AgentCommand::Content { content: read }) = decode(&document) else {
                panic!("it is a content");
            };
            assert_eq!(read, content);
        }
    }
}
