//! Agents that are none of ours: a WebSocket of the test, with the right token, says what no agent says.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use steward::domain::{ActionId, AgentName, HandlerStatus, ResourceId, VersionNumber};
use steward::executor::protocol::{TaskDone, TaskOutcome};
use steward::executor::remote::{self, AgentCommand, AgentHello, AgentReply, Carried, VERSION};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::external::{TOKEN, World, statuses};
use crate::harness::{files, wait_until};
use crate::serve::Served;

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(served: &Served) -> Socket {
    let url = served.api.replace("http://", "ws://");
    let url = format!("{url}/api/v1/agent_connection?environment=prod");
    let mut request = url.into_client_request().unwrap();
    let token = format!("Bearer {TOKEN}").parse().unwrap();
    request.headers_mut().insert("authorization", token);
    tokio_tungstenite::connect_async(request).await.unwrap().0
}

fn hello(version: u32, names: &[&str], carried: Vec<Carried>) -> AgentReply {
    AgentReply::Hello(AgentHello {
        version,
        instance: uuid::Uuid::new_v4(),
        names: names.iter().map(|name| AgentName::new(*name)).collect(),
        clock_us: 0,
        carried,
    })
}

async fn say(socket: &mut Socket, reply: &AgentReply) {
    let document = remote::encode(reply).unwrap();
    let _ = socket.send(Message::Binary(document.into())).await;
}

/// What the server says until the first thing that is no beat; `None`: it closed the connection.
async fn answer(socket: &mut Socket) -> Option<AgentCommand> {
    loop {
        let Some(Ok(Message::Binary(document))) = socket.next().await else {
            return None;
        };
        match remote::decode(&document).unwrap() {
            AgentCommand::Alive => {}
            command => return Some(command),
        }
    }
}

async fn refusal(served: &Served, first: Message) -> String {
    let mut socket = connect(served).await;
    socket.send(first).await.unwrap();
    match answer(&mut socket).await {
        Some(AgentCommand::Refused { message }) => message,
        other => format!("{other:?}"),
    }
}

fn done(action: ActionId) -> AgentReply {
    AgentReply::Done {
        number: 7,
        carried: Carried {
            action,
            agent: AgentName::new("localhost"),
            resource_id: ResourceId::new("fs::File[localhost,path=/a]"),
            version: VersionNumber::new(1),
            intent: String::new(),
            is_deploy: true,
        },
        done: TaskDone {
            action,
            finished_us: i64::MAX,
            outcome: TaskOutcome::of(HandlerStatus::Deployed),
        },
    }
}

/// Input: agents that speak another version of the protocol, say no hello, a text, too much, or names that are not theirs; results of runs that nobody gave them, a thousand times; contents of files and facts of resources of others (docs/reference/security.md § 3.43, § 3.35). Answer: the connection is refused with the reason, or closed; a result that nobody asked for is dropped, a fact of others gets 403, and the server and its other environments go on.
#[test]
fn what_a_hostile_agent_says_changes_nothing_and_is_bounded() {
    let settings = "agent_map: {localhost: 'external:'}";
    let world = World::new(&files(&[("a", "x")]), settings);
    let served = world.serve();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(refused_at_once(&served));
    wait_until("the resource waits", || {
        statuses(&served)
            .as_object()
            .is_some_and(|all| !all.is_empty())
    });
    runtime.block_on(strays(&served));
    runtime.block_on(others(&served));
    let all = statuses(&served);
    let mut all = all.as_object().unwrap().values();
    assert!(all.all(|status| *status != json!("deployed")));
    // The right one still has its way.
    let _agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it is deployed", || world.host.read("a") == "x\n");
}

async fn refused_at_once(served: &Served) {
    let binary = |reply: &AgentReply| Message::Binary(remote::encode(reply).unwrap().into());
    let cases = [
        (
            binary(&hello(VERSION + 1, &["localhost"], Vec::new())),
            "speaks version",
        ),
        (binary(&hello(VERSION, &["other"], Vec::new())), "agent_map"),
        (binary(&hello(VERSION, &[], Vec::new())), "0 names"),
        (
            binary(&hello(VERSION, &["localhost"; 1001], Vec::new())),
            "1001 names",
        ),
        (binary(&AgentReply::Alive { clock_us: 0 }), "is no hello"),
        (Message::Text("hello".into()), "is no hello"),
        (Message::Binary(vec![0xc1; 100].into()), "is no hello"),
        (Message::Binary(vec![0; 5 << 20].into()), "is no hello"),
    ];
    for (first, says) in cases {
        let message = refusal(served, first).await;
        assert!(message.contains(says), "{says}: {message}");
    }
    // A message of more than the limit closes the connection, before it is read.
    let mut socket = connect(served).await;
    say(&mut socket, &hello(VERSION, &["localhost"], Vec::new())).await;
    assert!(matches!(
        answer(&mut socket).await,
        Some(AgentCommand::Welcome { .. })
    ));
    let _ = socket.send(Message::Binary(vec![0; 17 << 20].into())).await;
    while answer(&mut socket).await.is_some() {}
}

/// Results that nobody asked for.
async fn strays(served: &Served) {
    let mut socket = admitted(served).await;
    for _ in 0..1001 {
        say(&mut socket, &done(ActionId::generate())).await;
    }
    let mut n_acknowledged = 0;
    while let Some(command) = answer(&mut socket).await {
        n_acknowledged += usize::from(matches!(command, AgentCommand::Acknowledged { .. }));
    }
    assert!(n_acknowledged >= 1000, "{n_acknowledged}");
}

/// A connection that was let in; the one before may not be forgotten yet.
async fn admitted(served: &Served) -> Socket {
    loop {
        let mut socket = connect(served).await;
        say(&mut socket, &hello(VERSION, &["localhost"], Vec::new())).await;
        if let Some(AgentCommand::Welcome { .. }) = answer(&mut socket).await {
            return socket;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// What is of other agents.
async fn others(served: &Served) {
    let mut socket = admitted(served).await;
    let arguments = json!({"id": "fact", "source": "fact", "value": "x", "resource_id": "fs::File[other,path=/a]"});
    let Value::Object(arguments) = arguments else {
        unreachable!()
    };
    let ask = AgentReply::Ask {
        id: 1,
        method: "set_param".to_owned(),
        arguments,
    };
    say(&mut socket, &ask).await;
    let code = loop {
        match answer(&mut socket).await {
            Some(AgentCommand::Answer { code, .. }) => break code,
            Some(_) => {}
            None => panic!("it was closed"),
        }
    };
    assert_eq!(code, 403);
    let names = vec!["da39a3ee5e6b4b0d3255bfef95601890afd80709".to_owned()];
    say(&mut socket, &AgentReply::Need { names }).await;
    while answer(&mut socket).await.is_some() {}
}
