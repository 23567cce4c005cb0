//! Agents that are none of ours: a WebSocket of the test, with the right token, says what no agent says.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use steward::domain::{ActionId, AgentName, HandlerStatus, ResourceId, VersionNumber};
use steward::executor::protocol::{TaskDone, TaskOutcome};
use steward::executor::remote::{self, AgentCommand, AgentHello, AgentReply, Carried, VERSION};
use steward_compiler::protocol::{Discovered, Fact};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::external::{TOKEN, World, statuses};
use crate::harness::{files, request, wait_until};
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
        process: uuid::Uuid::new_v4(),
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

fn ask(id: u64, method: &str, arguments: Value) -> AgentReply {
    let Value::Object(arguments) = arguments else {
        unreachable!()
    };
    AgentReply::Ask {
        id,
        method: method.to_owned(),
        arguments,
    }
}

/// Asks, and gives code and body of the answer.
async fn asked(socket: &mut Socket, method: &str, arguments: Value) -> (u16, Value) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mine = NEXT.fetch_add(1, Relaxed);
    say(socket, &ask(mine, method, arguments)).await;
    loop {
        match answer(socket).await {
            Some(AgentCommand::Answer { id, code, body }) if id == mine => return (code, body),
            Some(_) => {}
            None => panic!("it was closed"),
        }
    }
}

/// The most memory that the server had, in MiB.
fn peak_mib(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<u64>().unwrap() >> 10
}

/// Input: an agent with the right token that writes parameters, facts of resources that are not there, of another value than it may, with a compile, and what others found; that asks for what is not its own; that asks without reading the answers; and messages of 16 MiB that are a million empty lists, or none at all (docs/reference/security.md § 3.43). Answer: 403, or the connection is closed; the server's memory and log stay small, and it goes on.
#[test]
fn what_an_agent_asks_is_about_its_own_and_takes_no_memory() {
    let settings = "agent_map: {localhost: 'external:'}, deploy_retry_backoff: 1";
    let world = World::new(&files(&[("a", "x")]), settings);
    let served = world.serve();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    wait_until("the resource waits", || {
        statuses(&served)
            .as_object()
            .is_some_and(|all| !all.is_empty())
    });
    let listed = served.get(&served.environment("prod"), "/api/v2/resource");
    let own = listed["data"][0]["resource_id"].as_str().unwrap();
    runtime.block_on(finds_of_others(&served));
    runtime.block_on(rights(&served, own));
    runtime.block_on(strange_messages(&served));
    runtime.block_on(never_reads(&served, own));
    let peak = peak_mib(&served);
    assert!(peak < 500, "{peak} MiB");
    let _agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it is deployed", || world.host.read("a") == "x\n");
}

/// Input: an agent with the right token that fills all its resources with facts, each as much as a resource may have (docs/reference/security.md § 3.43). Answer: 403 with the limit beyond 64 MiB of the environment, in calls and in results of runs; facts of others are still taken, and the environment compiles.
#[test]
fn facts_of_agents_elsewhere_leave_room_for_others_and_for_compiles() {
    let names: Vec<String> = (0..20).map(|n| format!("a{n}")).collect();
    let contents: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let settings = "agent_map: {localhost: 'external:'}, deploy_retry_backoff: 1";
    let world = World::new(&files(&contents), settings);
    let served = world.serve();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let environment = served.environment("prod");
    let listed = || served.get(&environment, "/api/v2/resource?limit=100")["data"].clone();
    // With their folder.
    wait_until("the resources wait", || {
        listed()
            .as_array()
            .is_some_and(|all| all.len() == names.len() + 1)
    });
    let listed = listed();
    let resources: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["resource_id"].as_str().unwrap())
        .collect();
    runtime.block_on(fills_all(&served, &resources));
    let fact = json!({"id": "f", "source": "user", "value": "x", "metadata": {}, "resource_id": resources[19]});
    let url = format!("{}/api/v1/parameter/f", served.api);
    let (status, body) = request("PUT", &url, Some(&environment), Some(&fact));
    assert_eq!(status, 200, "{body}");
    let before = served.get(&environment, "/api/v2/desiredstate")["data"][0]["version"].clone();
    let url = format!("{}/api/v1/notify/{environment}", served.api);
    let (status, body) = request("GET", &url, Some(&environment), None);
    assert_eq!(status, 200, "{body}");
    wait_until("it is compiled with all facts", || {
        let reports = served.get(&environment, "/api/v2/compilereport");
        let reports = reports["data"].as_array().unwrap().clone();
        reports.len() > 1 && reports[0]["success"] == json!(true)
    });
    assert!(before.is_number(), "{before}");
}

/// Facts for one resource after the other, and in the result of a run.
async fn fills_all(served: &Served, resources: &[&str]) {
    let mut socket = admitted(served).await;
    let task = loop {
        match answer(&mut socket).await {
            Some(AgentCommand::Run(task)) => break task,
            Some(_) => {}
            None => panic!("it was closed"),
        }
    };
    let value = "v".repeat(60_000);
    let mut n_filled = 0;
    for resource in resources {
        let fact = |n: usize| json!({"id": format!("f{n}"), "source": "fact", "value": value, "resource_id": resource});
        let facts: Vec<Value> = (0..68).map(fact).collect();
        let (code, body) = asked(&mut socket, "set_parameters", json!({"parameters": facts})).await;
        if code == 403 {
            assert!(
                body["message"].as_str().unwrap().contains("64 MiB"),
                "{body}"
            );
            break;
        }
        assert_eq!(code, 200, "{body}");
        n_filled += 1;
    }
    assert_eq!(n_filled, 17, "of 4 MiB each");
    let mut result = done(task.action);
    if let AgentReply::Done { done, .. } = &mut result {
        done.outcome.facts.push(Fact {
            name: "run".to_owned(),
            value: "x".to_owned(),
            expires: false,
        });
    }
    say(&mut socket, &result).await;
    while !matches!(
        answer(&mut socket).await,
        Some(AgentCommand::Acknowledged { .. })
    ) {}
    let environment = served.environment("prod");
    let facts = served.get(&environment, "/api/v2/facts?limit=1000&filter.name=run");
    assert_eq!(facts["data"], json!([]));
}

/// The result of a run says that it found what another one has found.
async fn finds_of_others(served: &Served) {
    let environment = served.environment("prod");
    let found = json!({"values": {"a": 1}, "discovery_resource_id": "m::Finder[here,name=q]"});
    let path = "/api/v2/discovered/cloud::VM[here,name=z]";
    let url = format!("{}{path}", served.api);
    let (status, body) = request("POST", &url, Some(&environment), Some(&found));
    assert_eq!(status, 200, "{body}");
    let mut socket = admitted(served).await;
    let task = loop {
        match answer(&mut socket).await {
            Some(AgentCommand::Run(task)) => break task,
            Some(_) => {}
            None => panic!("it was closed"),
        }
    };
    let mut result = done(task.action);
    if let AgentReply::Done { done, .. } = &mut result {
        done.outcome = TaskOutcome::of(HandlerStatus::Failed);
        done.outcome.discovered.push(Discovered {
            resource_id: "cloud::VM[here,name=z]".to_owned(),
            values: serde_json::Map::from_iter([("a".to_owned(), json!("spoofed"))]),
        });
    }
    say(&mut socket, &result).await;
    // It is acknowledged when it is in the database.
    while !matches!(
        answer(&mut socket).await,
        Some(AgentCommand::Acknowledged { .. })
    ) {}
    let known = served.get(&environment, path)["data"].clone();
    assert_eq!(known["values"], json!({"a": 1}), "{known}");
}

async fn rights(served: &Served, own: &str) {
    let mut socket = admitted(served).await;
    let fact = |resource: Value| json!({"id": "f", "source": "fact", "value": "x", "resource_id": resource});
    let (code, body) = asked(&mut socket, "set_param", fact(json!(own))).await;
    assert_eq!(code, 200, "{body}");
    let mut recompile = fact(json!(own));
    recompile["recompile"] = json!(true);
    let found = |finder: &str, found: &str| json!({"discovered_resource_id": found, "discovery_resource_id": finder, "values": {}});
    let vm = "cloud::VM[localhost,name=z]";
    let (code, body) = asked(&mut socket, "discovered_resource_create", found(own, vm)).await;
    assert_eq!(code, 200, "{body}");
    for (method, arguments) in [
        ("set_param", fact(Value::Null)),
        ("set_param", fact(json!(""))),
        ("set_param", fact(json!(7))),
        ("set_param", recompile.clone()),
        ("set_param", fact(json!("no::Such[localhost,name=r]"))),
        (
            "set_parameters",
            json!({"parameters": [fact(json!(own)), fact(Value::Null)]}),
        ),
        ("set_parameters", json!({"parameters": [recompile]})),
        (
            "discovered_resource_create",
            found("no::Such[localhost,name=r]", vm),
        ),
        ("discovered_resource_create", found("a::B[here,name=r]", vm)),
        ("get_facts", json!({"rid": "a::B[here,name=r]"})),
        (
            "get_param",
            json!({"id": "f", "resource_id": "a::B[here,name=r]"}),
        ),
        ("list_params", json!({})),
    ] {
        let (code, body) = asked(&mut socket, method, arguments.clone()).await;
        assert_eq!(code, 403, "{method} {arguments}: {body}");
    }
    for (method, arguments) in [
        ("get_facts", json!({"rid": own})),
        ("get_param", json!({"id": "f", "resource_id": own})),
    ] {
        let (code, body) = asked(&mut socket, method, arguments.clone()).await;
        assert_eq!(code, 200, "{method} {arguments}: {body}");
    }
}

/// Messages that are small, or none, and would be large in memory or in the log.
async fn strange_messages(served: &Served) {
    let lists = json!({"body": vec![json!([0]); 4 << 20]});
    let mut socket = admitted(served).await;
    say(&mut socket, &ask(1, "get_facts", lists)).await;
    while answer(&mut socket).await.is_some() {}
    let mut socket = admitted(served).await;
    let nothing = rmp_serde::to_vec_named(&json!({"x".repeat(15 << 20): {}})).unwrap();
    let _ = socket.send(Message::Binary(nothing.into())).await;
    while answer(&mut socket).await.is_some() {}
    let names: Vec<String> = (0..900)
        .map(|n| format!("{n}{}", "x".repeat(4000)))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let hello = remote::encode(&hello(VERSION, &names, Vec::new())).unwrap();
    let message = refusal(served, Message::Binary(hello.into())).await;
    assert!(message.len() < 2000, "{} bytes", message.len());
}

/// Three hundred answers of some MiB for an agent that does not read them.
async fn never_reads(served: &Served, own: &str) {
    let mut socket = admitted(served).await;
    let value = "v".repeat(60_000);
    let fact = |n: usize| json!({"id": format!("f{n}"), "source": "fact", "value": value, "resource_id": own});
    let facts: Vec<Value> = (0..60).map(fact).collect();
    let (code, body) = asked(&mut socket, "set_parameters", json!({"parameters": facts})).await;
    assert_eq!(code, 200, "{body}");
    // More do not fit.
    let facts: Vec<Value> = (60..120).map(fact).collect();
    let (code, body) = asked(&mut socket, "set_parameters", json!({"parameters": facts})).await;
    assert_eq!(code, 409, "{body}");
    for id in 1000..1300 {
        let asking = ask(id, "get_facts", json!({"rid": own}));
        let said = say(&mut socket, &asking);
        // When it reads no more questions either, they wait in the network.
        let _ = tokio::time::timeout(Duration::from_millis(20), said).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
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

/// Input: one action id for runs of two resources in the hello of an agent (docs/reference/security.md § 3.43). Answer: the first has it, the second is run again, and neither waits for ever.
#[test]
fn one_run_is_not_that_of_two_resources() {
    let model = "import fs\n\nroot = std::get_env(\"ROOT\")\nfor name in [\"localhost\", \"two\"]:\n    \
                 fs::File(host=std::Host(name=name, os=std::linux), path=\"{{root}}/{{name}}\", content=\"x\\n\")\nend\n";
    let world = World::new(
        model,
        "agent_map: {localhost: 'external:', two: 'external:'}",
    );
    std::fs::create_dir_all(world.host.root()).unwrap();
    let served = world.serve();
    wait_until("the resources wait", || {
        statuses(&served)
            .as_object()
            .is_some_and(|all| all.len() == 2)
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(claim_twice(&served));
    let _agent = world.agent(&served.api, "localhost,two", "agent");
    let deploy = json!({"agent_trigger_method": "push_full_deploy"});
    let prod = served.environment("prod");
    wait_until("both are deployed", || {
        let url = format!("{}/api/v1/deploy", served.api);
        let (status, said) = request("POST", &url, Some(&prod), Some(&deploy));
        assert!(status < 500, "{said}");
        std::thread::sleep(Duration::from_millis(500));
        ["localhost", "two"].map(|name| world.host.file(name).exists()) == [true, true]
    });
}

/// Learns what the two resources are, claims one run for both, and says that it is done.
async fn claim_twice(served: &Served) {
    let names = ["localhost", "two"];
    let mut socket = connect(served).await;
    say(&mut socket, &hello(VERSION, &names, Vec::new())).await;
    let action = ActionId::generate();
    let mut carried: Vec<Carried> = Vec::new();
    while carried.len() < 2 {
        match answer(&mut socket).await.unwrap() {
            AgentCommand::Run(task) if carried.iter().all(|one| one.agent != task.agent) => {
                carried.push(Carried {
                    action,
                    agent: task.agent,
                    resource_id: task.resource_id,
                    version: task.version,
                    intent: remote::digest_of(&task.attributes),
                    is_deploy: true,
                });
            }
            _ => {}
        }
    }
    socket.close(None).await.unwrap();
    let claim = hello(VERSION, &names, carried.clone());
    let mut socket = loop {
        let mut socket = connect(served).await;
        say(&mut socket, &claim).await;
        match answer(&mut socket).await {
            Some(AgentCommand::Welcome { .. }) => break socket,
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let mut done = done(action);
    if let AgentReply::Done { carried: of, .. } = &mut done {
        *of = carried.remove(0);
    }
    say(&mut socket, &done).await;
    loop {
        match answer(&mut socket).await {
            Some(AgentCommand::Acknowledged { numbers }) if numbers.contains(&7) => return,
            Some(_) => {}
            None => panic!("it was closed"),
        }
    }
}
