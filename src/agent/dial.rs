//! The way to the server: one WebSocket, opened from here, so that it works behind NAT, and opened again when it is cut.
//!
//! Pauses between tries double from half a second to [`MAX_PAUSE`] and are spread, so that a thousand agents do not come back at
//! once. A connection on which nothing was heard for [`SILENCE`] is taken for cut.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rand::Rng;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WebError, Message as Frame};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async_tls_with_config};
use tokio_util::sync::CancellationToken;

use super::Options;
use crate::domain::{Timestamp, chain};
use crate::executor::progress::{Counted, Progress, counted};
use crate::executor::remote::{self, AgentCommand, AgentReply, BEAT, MAX_COMMAND_BYTES, SILENCE};

/// The pause after the first failure, and the longest.
const MIN_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// After a connection that held for this long, pauses begin anew.
const GOOD_AFTER: Duration = Duration::from_secs(20);
/// How long the server may take to let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Where the server is, and what it is shown.
#[derive(Clone)]
pub(super) struct Target {
    url: Uri,
    authorization: HeaderValue,
}

/// What happens to the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// It is open. What is sent on `replies` goes to the server; the hello has to be the first.
    Open {
        replies: mpsc::UnboundedSender<AgentReply>,
    },
    Command(Box<AgentCommand>),
    /// It is cut.
    Cut,
}

impl Target {
    /// # Errors
    /// What is wrong with the options.
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let server = options.server.trim_end_matches('/');
        let (scheme, rest) = match server.split_once("://") {
            Some(("http" | "ws", rest)) => ("ws", rest),
            Some(("https" | "wss", rest)) => ("wss", rest),
            _ => {
                return Err(format!(
                    "`{server}` is no URL of a server: it begins with http:// or https://"
                ));
            }
        };
        let environment: String = percent_encoding::utf8_percent_encode(
            &options.environment,
            percent_encoding::NON_ALPHANUMERIC,
        )
        .collect();
        let url = format!("{scheme}://{rest}/api/v1/agent_connection?environment={environment}");
        let url: Uri = url
            .parse()
            .map_err(|error| format!("`{server}` is no URL of a server: {error}"))?;
        if scheme == "ws" && !is_loopback(&url) {
            tracing::warn!(
                "the connection to {server} is not encrypted: use https where others may listen"
            );
        }
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", options.token))
            .map_err(|_| "the token has characters that no token has".to_owned())?;
        authorization.set_sensitive(true);
        Ok(Self { url, authorization })
    }
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Keeps a connection until it is stopped.
pub(super) async fn run(
    target: Target,
    events: mpsc::UnboundedSender<Event>,
    stop: CancellationToken,
) {
    let mut pause = MIN_PAUSE;
    loop {
        let began = Instant::now();
        let why = tokio::select! {
            why = connection(&target, &events) => why,
            () = stop.cancelled() => return,
        };
        if began.elapsed() >= GOOD_AFTER {
            pause = MIN_PAUSE;
        }
        let wait = pause.mul_f64(rand::rng().random_range(0.5..1.0));
        tracing::warn!("not connected to the server: {why}; trying again in {wait:.1?}");
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// One connection, from its opening to its end; gives why it ended.
async fn connection(target: &Target, events: &mpsc::UnboundedSender<Event>) -> String {
    let (socket, progress) = match tokio::time::timeout(CONNECT_TIMEOUT, open(target)).await {
        Err(_) => return format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
        Ok(Err(why)) => return why,
        Ok(Ok(socket)) => socket,
    };
    let (replies, mut queued) = mpsc::unbounded_channel();
    let _ = events.send(Event::Open { replies });
    let (mut sink, mut stream) = socket.split();
    let read = async {
        loop {
            let document = match progress.while_reading(SILENCE, stream.next()).await {
                None => return format!("it said nothing for {} s", SILENCE.as_secs()),
                Some(None) => return "it closed the connection".to_owned(),
                Some(Some(Err(error))) => return chain(&error),
                Some(Some(Ok(Frame::Binary(document)))) => document,
                Some(Some(Ok(_))) => continue,
            };
            match remote::decode(&document) {
                Ok(AgentCommand::Refused { message }) => return message,
                Ok(command) => {
                    let _ = events.send(Event::Command(Box::new(command)));
                }
                Err(error) => return format!("it sent what is no message: {error}"),
            }
        }
    };
    let write = async {
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first one would come before the hello.
        beat.reset();
        loop {
            // Dropping a receive or a tick loses nothing.
            let reply = tokio::select! {
                reply = queued.recv() => match reply {
                    Some(reply) => reply,
                    None => return "it is not needed any more".to_owned(),
                },
                _ = beat.tick() => AgentReply::Alive { clock_us: Timestamp::now().0 },
            };
            let document = match remote::encode(&reply) {
                Ok(document) => document,
                Err(error) => return error.to_string(),
            };
            let sent = sink.send(Frame::Binary(document.into()));
            match progress.while_writing(SILENCE, sent).await {
                Some(Ok(())) => {}
                Some(Err(error)) => return chain(&error),
                None => return format!("it read nothing for {} s", SILENCE.as_secs()),
            }
        }
    };
    let why = tokio::select! {
        why = read => why,
        why = write => why,
    };
    let _ = events.send(Event::Cut);
    why
}

type Socket = WebSocketStream<MaybeTlsStream<Counted<TcpStream>>>;

async fn open(target: &Target) -> Result<(Socket, Progress), String> {
    let mut request = target
        .url
        .clone()
        .into_client_request()
        .map_err(|error| chain(&error))?;
    let headers = request.headers_mut();
    headers.insert(header::AUTHORIZATION, target.authorization.clone());
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_COMMAND_BYTES))
        .max_frame_size(Some(MAX_COMMAND_BYTES));
    let host = target.url.host().unwrap_or_default();
    let is_encrypted = target.url.scheme_str() == Some("wss");
    let port = target.url.port_u16();
    let port = port.unwrap_or(if is_encrypted { 443 } else { 80 });
    let stream = TcpStream::connect(format!("{host}:{port}")).await;
    let stream = stream.map_err(|error| chain(&error))?;
    stream.set_nodelay(true).map_err(|error| chain(&error))?;
    let (stream, progress) = counted(stream);
    let connected = client_async_tls_with_config(request, stream, Some(config), None).await;
    match connected {
        Ok((socket, _)) => Ok((socket, progress)),
        Err(WebError::Http(reply)) => {
            let body = reply.body().as_deref().unwrap_or_default();
            let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
            let message = answer["message"].as_str().unwrap_or_default();
            Err(format!("it answers {}: {message}", reply.status()))
        }
        Err(error) => Err(chain(&error)),
    }
}
