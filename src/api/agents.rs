//! `GET /api/v1/agent_connection?environment=…`: an agent of another machine opens its WebSocket. What is said on it is in
//! `executor::remote`; here its frames are limited, its silence is noticed, and its clock is corrected.
//!
//! Two tasks serve a connection. One reads: it waits for room before it takes a message in, so an agent that sends faster than the
//! database writes is not read, and blocks. The other writes commands and a beat. Either ends the other. The first message, the
//! hello, is awaited before the engine hears of the connection.

mod hello;
mod session;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
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
use crate::domain::{EnvironmentId, chain};
use crate::executor::bounds::{self, MAX_REPLY_BYTES};
use crate::executor::external::AgentMessage;
use crate::executor::link::Message;
use crate::executor::progress::{Counted, Progress, counted};
use crate::executor::remote::{
    self, AgentCommand, AgentHello, AgentReply, MAX_CARRIED, MAX_HELLO_BYTES, MAX_NAMES, VERSION,
};
use hello::{Hellos, Limit, Limited, Turn};
use session::{Clock, Session, send};

/// Connections of agents of all environments: each may hold [`ROOM_KIB`] in memory.
const MAX_CONNECTIONS: usize = 1024;
/// How long the hello may take, and how long a connection waits until it may say it.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long who was refused keeps the turn of others of its environment.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);
/// What one agent has said and what is not worked off yet, in KiB. One message of the largest size fits.
const ROOM_KIB: usize = 2 * (MAX_REPLY_BYTES as usize >> 10);

/// What a hello may take in memory, in KiB: one of all names and runs that are possible takes less.
const MAX_HELLO_KIB: usize = 4 * (MAX_HELLO_BYTES >> 10);

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
    let hellos = Arc::new(Hellos::default());
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
                let (guesses, hellos) = (Arc::clone(&guesses), Arc::clone(&hellos));
                async move {
                    let client = Client {
                        headers: &headers,
                        connection: connection.as_ref(),
                        guesses: &guesses,
                        hellos: &hellos,
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
    hellos: &'a Hellos,
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
    guard::check_agent(
        client.headers,
        token.as_deref(),
        client.connection,
        client.guesses,
    )
    .await?;
    let Some(environment) = found else {
        return Err(ApiError::unauthorized());
    };
    let key = client.headers.get("sec-websocket-key");
    let (Some(key), Some(upgrade)) = (key, upgrade) else {
        return Err(ApiError::bad_request("this is for a WebSocket"));
    };
    let full = |message| ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, message);
    let address = body::client(client.connection);
    let turn = client.hellos.turn(environment, address);
    // Who waits here keeps nobody out: it loses its place to others when there are no more.
    let delayed = |is_delayed| {
        if let Some(connection) = client.connection {
            connection.delayed(is_delayed);
        }
    };
    delayed(true);
    let turn = tokio::time::timeout(HELLO_TIMEOUT, turn).await;
    delayed(false);
    let Ok(Some(turn)) = turn else {
        return Err(full("too many agents of the environment say hello"));
    };
    let Ok(place) = CONNECTIONS.try_acquire() else {
        return Err(full("too many agents are connected"));
    };
    let accept = derive_accept_key(key.as_bytes());
    tokio::spawn(async move {
        let _place = place;
        let Ok(stream) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_REPLY_BYTES as usize))
            .max_frame_size(Some(MAX_REPLY_BYTES as usize))
            .max_write_buffer_size(2 * remote::MAX_COMMAND_BYTES);
        let (stream, progress) = counted(TokioIo::new(stream));
        let (stream, limit) = Limited::new(stream, MAX_HELLO_BYTES);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        serve(app, environment, socket, (turn, limit), progress).await;
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

type Socket = WebSocketStream<Limited<Counted<TokioIo<Upgraded>>>>;

/// The life of one connection.
async fn serve(
    app: App,
    environment: EnvironmentId,
    socket: Socket,
    (turn, limit): (Turn, Limit),
    progress: Progress,
) {
    let (mut sink, mut stream) = socket.split();
    let hello = tokio::time::timeout(HELLO_TIMEOUT, hello(&mut stream)).await;
    let hello = hello.unwrap_or_else(|_| Err("it did not say hello".to_owned()));
    limit.lift();
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
            let message = bounds::reason(message);
            tracing::warn!(environment.id = %environment, "an agent was refused: {message}");
            let _ = send(&mut sink, &AgentCommand::Refused { message }).await;
            let _ = sink.close().await;
            // It keeps its turn for a while: each time it comes again is a line of the log.
            tokio::time::sleep(REFUSED_PAUSE).await;
            return;
        }
    };
    drop(turn);
    let session = Session::new(clock, app.files(), progress);
    let (connection, messages) = (admission.connection, admission.messages);
    // What the reader answers itself, from the file store.
    let (contents, of_reader) = mpsc::channel(1);
    let room = Arc::new(Semaphore::new(ROOM_KIB));
    let to_close = messages.clone();
    let why = tokio::select! {
        why = session.read(stream, connection, messages, room, contents) => why,
        why = session.write(sink, (environment, admission.left_out), queued, of_reader) => why,
        () = app.shutdown.cancelled() => "the server stops".to_owned(),
    };
    let message = AgentMessage::Gone { why };
    let _ = to_close.send(Message::Agent {
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
        Some(Err(error)) => return Err(bounds::reason(chain(&error))),
        None => return Err("it hung up".to_owned()),
    };
    if bounds::weight_kib(&document) > MAX_HELLO_KIB {
        return Err("its first message is no hello".to_owned());
    }
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
