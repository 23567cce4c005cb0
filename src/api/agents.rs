//! `GET /api/v1/agent_connection?environment=…`: an agent of another machine opens its WebSocket. What is said on it is in
//! `executor::remote`; here its frames are limited, its silence is noticed, and its clock is corrected.
//!
//! Two tasks serve a connection. One reads: it waits for room before it takes a message in, so an agent that sends faster than the
//! database writes is not read, and blocks. The other writes commands and a beat. Either ends the other. The first message, the
//! hello, is awaited before the engine hears of the connection.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::Map;
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use warp::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use warp::{Filter, Reply, filters::BoxedFilter};

use crate::api::http::body;
use crate::api::http::connection::Connection;
use crate::api::http::error::ApiError;
use crate::api::http::guard::{self, Guesses};
use crate::api::routes::routes;
use crate::api::{Body, with};
use crate::app::App;
use crate::domain::{CodeModule, Content, EnvironmentId, LogLevel, Timestamp, chain};
use crate::executor::bounds::{self, MAX_REPLY_BYTES};
use crate::executor::external::AgentMessage;
use crate::executor::link::Message;
use crate::executor::protocol::{LogLine, TaskDone};
use crate::executor::remote::{
    self, AgentCommand, AgentHello, AgentReply, BEAT, MAX_CARRIED, MAX_HELLO_BYTES, MAX_NAMES,
    MAX_NEEDED, SILENCE, VERSION,
};
use crate::files::Files;

/// Connections of agents of all environments: each may hold [`ROOM_KIB`] in memory.
const MAX_CONNECTIONS: usize = 1024;
/// How long the hello may take.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// A message that is not taken for this long: the agent does not read.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// What one agent has said and what is not worked off yet, in KiB. One message of the largest size fits.
const ROOM_KIB: usize = 2 * (MAX_REPLY_BYTES as usize >> 10);
/// By how much the clock of an agent may be wrong before the times that it says are corrected, in microseconds.
const CLOCK_TOLERANCE_US: i64 = 2_000_000;

static CONNECTIONS: Semaphore = Semaphore::const_new(MAX_CONNECTIONS);

routes! {
    Get "/api/v1/agent_connection" AgentToken "the WebSocket of `steward agent`" => Own;
}

#[derive(Debug, serde::Deserialize)]
struct Asked {
    environment: String,
}

/// What shows a token of its own.
pub(super) fn own(app: &App) -> BoxedFilter<(Body,)> {
    let guesses = Arc::new(Guesses::default());
    warp::path!("api" / "v1" / "agent_connection")
        .and(warp::get())
        .and(with(app))
        .and(warp::query::<Asked>())
        .and(warp::header::headers_cloned())
        .and(body::connection())
        .and(warp::ext::optional::<OnUpgrade>())
        .then(
            move |app: App,
                  asked: Asked,
                  headers: HeaderMap,
                  connection: Option<Arc<Connection>>,
                  upgrade: Option<OnUpgrade>| {
                let guesses = Arc::clone(&guesses);
                async move {
                    let client = Client {
                        headers: &headers,
                        connection: connection.as_ref(),
                        guesses: &guesses,
                    };
                    connect(app, &asked.environment, client, upgrade)
                        .await
                        .unwrap_or_else(ApiError::into_reply)
                }
            },
        )
        .boxed()
}

/// Who asks.
struct Client<'a> {
    headers: &'a HeaderMap,
    connection: Option<&'a Arc<Connection>>,
    guesses: &'a Guesses,
}

/// Looks at the token, and makes the connection a WebSocket.
async fn connect(
    app: App,
    environment: &str,
    client: Client<'_>,
    upgrade: Option<OnUpgrade>,
) -> Result<Body, ApiError> {
    let found = find(&app, environment).await?;
    // One that does not exist is refused as one with another token: nobody finds out which there are.
    let token = found.and_then(|id| app.agents.of(id).token);
    guard::check_agent(client.headers, token.as_deref(), client.connection, client.guesses).await?;
    let Some(environment) = found else {
        return Err(ApiError::unauthorized());
    };
    let key = client.headers.get("sec-websocket-key");
    let (Some(key), Some(upgrade)) = (key, upgrade) else {
        return Err(ApiError::bad_request("this is for a WebSocket"));
    };
    let Ok(place) = CONNECTIONS.try_acquire() else {
        return Err(ApiError::with_status(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many agents are connected",
        ));
    };
    let accept = derive_accept_key(key.as_bytes());
    tokio::spawn(async move {
        let _place = place;
        let Ok(stream) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_REPLY_BYTES as usize))
            .max_frame_size(Some(MAX_REPLY_BYTES as usize))
            .max_write_buffer_size(2 * remote::MAX_COMMAND_BYTES);
        let stream = TokioIo::new(stream);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        serve(app, environment, socket).await;
    });
    let mut reply = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .body(Vec::new())
        .map_err(|error| ApiError::internal(&error))?
        .into_response();
    let accept = HeaderValue::from_str(&accept).map_err(|error| ApiError::internal(&error))?;
    reply.headers_mut().insert("sec-websocket-accept", accept);
    Ok(reply)
}

/// The environment of an id, or of a name that only one has.
async fn find(app: &App, text: &str) -> Result<Option<EnvironmentId>, ApiError> {
    let known = app.store.environment_list().await?;
    let by_id = known.iter().find(|one| one.id.to_string() == text);
    let mut by_name = known.iter().filter(|one| one.name == text);
    let named = by_name.next().filter(|_| by_name.next().is_none());
    Ok(by_id.or(named).map(|one| one.id))
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The life of one connection.
async fn serve(app: App, environment: EnvironmentId, socket: Socket) {
    let (mut sink, mut stream) = socket.split();
    let hello = tokio::time::timeout(HELLO_TIMEOUT, hello(&mut stream)).await;
    let hello = hello.unwrap_or_else(|_| Err("it did not say hello".to_owned()));
    let (commands, queued) = mpsc::unbounded_channel();
    let admitted = match hello {
        Err(why) => Err(why),
        Ok(hello) => match app.engine(environment) {
            None => Err("the environment does not run".to_owned()),
            Some(engine) => {
                let clock = Clock::default();
                clock.set(hello.clock_us);
                let admitted = engine.attach(hello, commands).await;
                admitted.map(|admission| (admission, clock))
            }
        },
    };
    let (admission, clock) = match admitted {
        Ok(admitted) => admitted,
        Err(message) => {
            tracing::warn!(environment.id = %environment, "an agent was refused: {message}");
            let _ = send(&mut sink, &AgentCommand::Refused { message }).await;
            let _ = sink.close().await;
            return;
        }
    };
    let session = Arc::new(Session {
        clock,
        files: app.files(),
        announced: Mutex::default(),
    });
    let (connection, messages) = (admission.connection, admission.messages);
    // What the reader answers itself, from the file store.
    let (contents, of_reader) = mpsc::channel(1);
    let room = Arc::new(Semaphore::new(ROOM_KIB));
    let told = messages.clone();
    let why = tokio::select! {
        why = session.read(stream, connection, messages, room, contents) => why,
        why = session.write(sink, environment, queued, of_reader) => why,
        () = app.shutdown.cancelled() => "the server stops".to_owned(),
    };
    let message = AgentMessage::Gone { why };
    let _ = told.send(Message::Agent {
        connection,
        message,
        held: None,
    });
}

/// The first message, if it is one that we can work with.
async fn hello(stream: &mut SplitStream<Socket>) -> Result<AgentHello, String> {
    let document = match stream.next().await {
        Some(Ok(Frame::Binary(document))) if document.len() <= MAX_HELLO_BYTES => document,
        Some(Ok(_)) => return Err("its first message is no hello".to_owned()),
        Some(Err(error)) => return Err(chain(&error)),
        None => return Err("it hung up".to_owned()),
    };
    let Ok(AgentReply::Hello(hello)) = remote::decode(&document) else {
        return Err("its first message is no hello".to_owned());
    };
    if hello.version != VERSION {
        return Err(format!(
            "the agent speaks version {} of the protocol, the server speaks version {VERSION}: run the same release of \
             Steward on both sides",
            hello.version
        ));
    }
    let n_names = hello.names.len();
    if n_names == 0 || n_names > MAX_NAMES {
        return Err(format!("{n_names} names, 1 to {MAX_NAMES} are possible"));
    }
    if hello.carried.len() > MAX_CARRIED {
        return Err(format!(
            "it lists {} runs, the limit is {MAX_CARRIED}",
            hello.carried.len()
        ));
    }
    Ok(hello)
}

/// By how much the agent's clock is behind ours, in microseconds.
#[derive(Debug, Default)]
struct Clock(AtomicI64);

impl Clock {
    fn set(&self, theirs: i64) {
        self.0
            .store(Timestamp::now().0.saturating_sub(theirs), Relaxed);
    }

    /// Makes the times of a result ours, and says so in its log, if the agent's clock is wrong.
    fn correct(&self, done: &mut TaskDone) {
        let behind = self.0.load(Relaxed);
        if behind.abs() > CLOCK_TOLERANCE_US {
            done.finished_us = done.finished_us.saturating_add(behind);
            for line in &mut done.outcome.logs {
                line.timestamp_us = line.timestamp_us.saturating_add(behind);
            }
            let (seconds, way) = (behind.abs() / 1_000_000, if behind > 0 { "behind" } else { "ahead" });
            let line = LogLine {
                level: LogLevel::Warning,
                msg: format!("the clock of the agent's machine is {seconds} s {way}; the times of this run are corrected"),
                kwargs: Map::new(),
                timestamp_us: done.finished_us,
            };
            // Not last: that line says what came of the run.
            let place = done.outcome.logs.len().saturating_sub(1);
            done.outcome.logs.insert(place, line);
        }
        // Whatever it says, nothing ends later than now.
        done.finished_us = done.finished_us.min(Timestamp::now().0);
    }
}

/// What both tasks of a connection know.
struct Session {
    clock: Clock,
    files: Files,
    /// Contents that code which was sent is made of: it may have no others.
    announced: Mutex<HashSet<String>>,
}

impl Session {
    /// Reads until the connection ends; gives why.
    async fn read(
        &self,
        mut stream: SplitStream<Socket>,
        connection: u64,
        messages: mpsc::UnboundedSender<Message>,
        room: Arc<Semaphore>,
        contents: mpsc::Sender<AgentCommand>,
    ) -> String {
        loop {
            let document = match tokio::time::timeout(SILENCE, stream.next()).await {
                Err(_) => return format!("it said nothing for {} s", SILENCE.as_secs()),
                Ok(None) => return "it hung up".to_owned(),
                Ok(Some(Err(error))) => return chain(&error),
                Ok(Some(Ok(Frame::Binary(document)))) => document,
                Ok(Some(Ok(Frame::Close(_)))) => return "it said goodbye".to_owned(),
                Ok(Some(Ok(Frame::Text(_)))) => return "it sent a text".to_owned(),
                Ok(Some(Ok(_))) => continue,
            };
            let n_kib = u32::try_from(document.len() >> 10).unwrap_or(u32::MAX) + 1;
            let Ok(permit) = Arc::clone(&room).acquire_many_owned(n_kib).await else {
                return "the server stops".to_owned();
            };
            let reply = match remote::decode(&document) {
                Ok(reply) => reply,
                Err(error) => return format!("it sent what is no message: {error}"),
            };
            let message = match reply {
                AgentReply::Hello(_) => return "it said hello twice".to_owned(),
                AgentReply::Alive { clock_us } => {
                    self.clock.set(clock_us);
                    continue;
                }
                AgentReply::Need { names } => {
                    if let Err(why) = self.give(names, &contents).await {
                        return why;
                    }
                    continue;
                }
                AgentReply::Done {
                    number,
                    carried,
                    mut done,
                } => {
                    bounds::bound(&mut done.outcome, &bounds::RUN);
                    self.clock.correct(&mut done);
                    AgentMessage::Done {
                        number,
                        carried,
                        done: Box::new(done),
                    }
                }
                AgentReply::Ask {
                    id,
                    method,
                    arguments,
                } => AgentMessage::Ask {
                    id,
                    method,
                    arguments,
                },
            };
            let held = Some(permit);
            let message = Message::Agent {
                connection,
                message,
                held,
            };
            if messages.send(message).is_err() {
                return "the environment was stopped".to_owned();
            }
        }
    }

    /// Sends contents of the code that the agent was told of.
    async fn give(
        &self,
        names: Vec<String>,
        contents: &mpsc::Sender<AgentCommand>,
    ) -> Result<(), String> {
        if names.len() > MAX_NEEDED {
            return Err(format!(
                "it asks for {} contents at once, the limit is {MAX_NEEDED}",
                names.len()
            ));
        }
        for name in names {
            let is_announced = {
                let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
                announced.contains(&name)
            };
            if !is_announced {
                return Err("it asks for a content that is of no code of its agents".to_owned());
            }
            let (files, wanted) = (self.files.clone(), name.clone());
            let content = tokio::task::spawn_blocking(move || files.get(&wanted)).await;
            let command = match content.ok().flatten() {
                Some(content) => AgentCommand::Content { content },
                None => AgentCommand::NoContent { name },
            };
            if contents.send(command).await.is_err() {
                return Err("the connection is closed".to_owned());
            }
        }
        Ok(())
    }

    /// Writes until the connection ends, or the engine lets go of it; gives why.
    async fn write(
        &self,
        mut sink: SplitSink<Socket, Frame>,
        environment_id: EnvironmentId,
        mut queued: mpsc::UnboundedReceiver<AgentCommand>,
        mut contents: mpsc::Receiver<AgentCommand>,
    ) -> String {
        let welcome = AgentCommand::Welcome {
            version: VERSION,
            environment_id,
        };
        if let Err(why) = send(&mut sink, &welcome).await {
            return why;
        }
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut has_contents = true;
        loop {
            // Dropping a receive or a tick loses nothing; messages are written after the wait.
            let command = tokio::select! {
                command = queued.recv() => match command {
                    Some(command) => command,
                    None => {
                        let _ = sink.close().await;
                        return "another connection of it took over, or the environment was stopped".to_owned();
                    }
                },
                content = contents.recv(), if has_contents => match content {
                    Some(content) => content,
                    None => { has_contents = false; continue }
                },
                _ = beat.tick() => AgentCommand::Alive,
            };
            if let AgentCommand::Code { modules, .. } = &command {
                let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
                announced.extend(contents_of(modules));
            }
            if let Err(why) = send(&mut sink, &command).await {
                return why;
            }
        }
    }
}

/// The names of the contents of modules.
fn contents_of(modules: &[CodeModule]) -> impl Iterator<Item = String> {
    let files = modules.iter().flat_map(|module| &module.files);
    files.filter_map(|file| match &file.content {
        Content::Sha1(name) => Some(name.clone()),
        Content::Path(_) => None,
    })
}

async fn send(sink: &mut SplitSink<Socket, Frame>, command: &AgentCommand) -> Result<(), String> {
    let document = remote::encode(command).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let sent = sink.send(Frame::Binary(document.into()));
    match tokio::time::timeout(WRITE_PATIENCE, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err(format!("it read nothing for {} s", began.elapsed().as_secs())),
    }
}
