//! Agents on other machines: `steward agent` and the server, as processes of their own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Host, Repo, files, request, skip, steward, wait_until};
use crate::serve::{Served, serve, serve_on};

pub const TOKEN: &str = "agents-0123456789abcdef";

/// A server with one environment, whose agent `a` is on another machine.
pub struct World {
    pub dir: tempfile::TempDir,
    pub repo: Repo,
    pub host: Host,
    config: String,
}

impl World {
    pub fn new(main: &str, settings: &str) -> Self {
        let (repo, host) = (Repo::new(main), Host::new());
        let config = format!(
            "environments:\n  - project: infra\n    name: prod\n    repository: {}\n    branch: main\n    \
             env: {{ROOT: {}}}\n    agents: {{token: {TOKEN}}}\n    settings: {{{settings}}}\n",
            repo.path().display(),
            host.root().display()
        );
        Self {
            dir: tempfile::tempdir().unwrap(),
            repo,
            host,
            config,
        }
    }

    /// Adds to what the configuration says of agents.
    pub fn more_of_agents(&mut self, text: &str) {
        let token = format!("agents: {{token: {TOKEN}");
        self.config = self.config.replacen(&token, &format!("{token}{text}"), 1);
    }

    /// Adds sections to the configuration.
    pub fn more(&mut self, text: &str) {
        self.config.insert_str(0, text);
    }

    /// On a port of its own choice.
    #[track_caller]
    pub fn serve(&self) -> Served {
        serve(self.dir.path(), &self.config)
    }

    /// On the port that a server had before.
    #[track_caller]
    pub fn serve_on(&self, port: &str) -> Served {
        serve_on(self.dir.path(), &self.config, port)
    }

    /// Starts an agent for these names, with its data in a folder of that name.
    pub fn agent(&self, server: &str, names: &str, data: &str) -> Agent {
        Agent::start(server, names, TOKEN, &self.dir.path().join(data))
    }
}

pub struct Agent {
    pub child: Child,
    log: PathBuf,
}

impl Agent {
    pub fn start(server: &str, names: &str, token: &str, data: &Path) -> Self {
        Self::start_in(&[], server, names, token, data)
    }

    /// By a program that runs it somewhere else.
    pub fn start_in(wrapper: &[&str], server: &str, names: &str, token: &str, data: &Path) -> Self {
        std::fs::create_dir_all(data).unwrap();
        let (secret, log) = (data.join("token"), data.join("log"));
        std::fs::write(&secret, token).unwrap();
        let stderr = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let mut command = steward();
        if let Some((program, arguments)) = wrapper.split_first() {
            let inner = command.get_program().to_owned();
            command = Command::new(program);
            command.args(arguments).arg(inner);
        }
        let child = command
            .args(["agent", "--server", server, "--environment", "prod"])
            .args(["--name", names, "--token-file"])
            .arg(&secret)
            .arg("--data")
            .arg(data)
            .env("STEWARD_LOG", "info")
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has logged something.
    #[track_caller]
    pub fn logs(&self, text: &str) {
        wait_until(&format!("the agent says: {text}"), || {
            self.log().contains(text)
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of each resource, by the value of its id.
pub fn statuses(served: &Served) -> Value {
    let environment = served.environment("prod");
    let listed = served.get(&environment, "/api/v2/resource");
    let mut statuses = serde_json::Map::new();
    for resource in listed["data"].as_array().unwrap() {
        let name = resource["id_details"]["resource_id_value"]
            .as_str()
            .unwrap();
        statuses.insert(name.to_owned(), resource["status"].clone());
    }
    statuses.into()
}

/// The model of `files` has the agent `localhost`.
const EXTERNAL: &str = "agent_map: {localhost: 'external:'}";

#[test]
fn a_resource_waits_for_its_agent_and_is_deployed_when_that_comes() {
    let world = World::new(&files(&[("a", "x")]), EXTERNAL);
    let served = world.serve();
    let environment = served.environment("prod");
    let agents = || served.get(&environment, "/api/v2/agents")["data"].clone();
    let resources = || served.get(&environment, "/api/v2/resource")["data"].clone();
    wait_until("the version is in force", || {
        resources().as_array().is_some_and(|all| !all.is_empty())
    });
    wait_until("the agent is down", || agents()[0]["status"] == "down");
    assert!(!world.host.file("a").exists());
    let listed = resources();
    let id = listed[0]["resource_id"].as_str().unwrap();
    let path = format!("/api/v2/resource/{}/explain", crate::harness::segment(id));
    let explained = served.get(&environment, &path);
    let chain = explained["data"]["chain"].as_array().unwrap();
    let text = chain.last().unwrap()["text"].as_str().unwrap();
    assert!(text.contains("is not connected since 20"), "{explained}");
    assert!(text.ends_with(" UTC"), "{explained}");
    let agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it is deployed", || world.host.read("a") == "x\n");
    wait_until("the agent is up", || agents()[0]["status"] == "up");
    agent.logs("connected to");
    world.repo.write("main.cf", &files(&[("a", "y")]));
    world.repo.commit("next");
    wait_until("the commit is deployed", || world.host.read("a") == "y\n");
    wait_until("the state says so", || {
        let all = statuses(&served);
        let mut all = all.as_object().unwrap().values();
        all.all(|status| *status == json!("deployed"))
    });
    drop(agent);
    wait_until("its end is noticed", || agents()[0]["status"] == "down");
}

/// A proxy between an agent and its server, which cuts the line: what is sent stays unheard, and nobody is told.
struct Line {
    near: std::net::SocketAddr,
    is_cut: Arc<AtomicBool>,
}

impl Line {
    fn to(server: &str) -> Self {
        Self::on("127.0.0.1", server)
    }

    /// With its near end at this address.
    fn on(address: &str, server: &str) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind((address, 0)).unwrap();
        let near = listener.local_addr().unwrap();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(far)) = (client, TcpStream::connect(&server)) else {
                    continue;
                };
                for (mut from, mut to) in [
                    (client.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far, client),
                ] {
                    let cut = Arc::clone(&cut);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16 << 10];
                        while let Ok(n @ 1..) = from.read(&mut bytes) {
                            // Held as a network holds it that has lost its way.
                            while cut.load(Ordering::Relaxed) {
                                std::thread::sleep(Duration::from_millis(20));
                            }
                            if to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Self { near, is_cut }
    }

    fn url(&self) -> String {
        format!("http://{}", self.near)
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

/// A model with one command, which takes `seconds` and notes each run in the file `runs`.
fn slow(seconds: &str) -> String {
    format!(
        "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         exec::Run(host=host, command=\"/bin/sh -c 'echo run >> {{{{root}}}}/runs; sleep {seconds}; echo done >> {{{{root}}}}/runs'\", send_event=false)\n"
    )
}

const QUIET: &str = "agent_map: {localhost: 'external:'}, autostart_agent_repair_interval: 0, autostart_agent_deploy_interval: 0";

/// How many runs the history has, and how the last one ended.
fn history(served: &Served) -> (usize, Value) {
    let environment = served.environment("prod");
    let actions = served.get(&environment, "/api/v2/resource_actions");
    let actions = actions["data"].as_array().cloned().unwrap_or_default();
    let deploys: Vec<&Value> = actions
        .iter()
        .filter(|action| action["action"] == "deploy")
        .collect();
    let status = deploys.first().map(|action| action["status"].clone());
    (deploys.len(), status.unwrap_or_default())
}

#[test]
fn what_ran_while_the_line_was_cut_is_not_run_again() {
    let world = World::new(&slow("3"), QUIET);
    let served = world.serve();
    let line = Line::to(&served.api);
    let agent = world.agent(&line.url(), "localhost", "agent");
    wait_until("it runs", || world.host.read("runs") == "run\n");
    line.cut(true);
    wait_until("it ends meanwhile", || {
        world.host.read("runs") == "run\ndone\n"
    });
    let environment = served.environment("prod");
    wait_until("the server notices", || {
        served.get(&environment, "/api/v2/agents")["data"][0]["status"] == "down"
    });
    assert_eq!(history(&served), (1, json!("deploying")));
    agent.logs("not connected to the server");
    line.cut(false);
    wait_until("the result comes", || {
        history(&served) == (1, json!("deployed"))
    });
    assert_eq!(world.host.read("runs"), "run\ndone\n");
}

#[test]
fn a_server_that_starts_again_takes_the_result_of_what_it_had_begun_before() {
    let world = World::new(&slow("3"), QUIET);
    let mut served = world.serve();
    let port = served.api.rsplit(':').next().unwrap().to_owned();
    let agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it runs", || world.host.read("runs") == "run\n");
    wait_until("its beginning is stored", || history(&served).0 == 1);
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    agent.logs("runs go on without the server");
    let served = world.serve_on(&port);
    wait_until("the result is taken up", || {
        history(&served) == (1, json!("deployed"))
    });
    assert_eq!(world.host.read("runs"), "run\ndone\n");
    assert_eq!(statuses(&served).as_object().unwrap().len(), 1);
}

#[test]
fn an_agent_that_is_killed_says_after_its_start_what_was_cut_off_and_the_run_is_repeated() {
    let world = World::new(
        &slow("2"),
        "agent_map: {localhost: 'external:'}, deploy_retry_backoff: 1",
    );
    let served = world.serve();
    let agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it runs", || world.host.read("runs") == "run\n");
    drop(agent);
    let agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it ran again", || {
        world.host.read("runs").matches("run\n").count() == 2 && history(&served).1 == "deployed"
    });
    let environment = served.environment("prod");
    let actions = served.get(&environment, "/api/v2/resource_actions");
    assert!(
        actions
            .to_string()
            .contains("the agent ended during this run"),
        "{actions}"
    );
    drop(agent);
}

/// Given: an agent that ends on its machine in the middle of a run, and settings that say from then on that it is on the machine of
/// the server. Expected: nobody waits for a result that cannot come any more: the run says so, and the resource is deployed here.
#[test]
fn what_went_to_a_machine_that_an_agent_has_left_is_not_waited_for() {
    let main = "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
        exec::Run(host=host, command=\"/bin/sh -c 'echo run >> {{root}}/runs; test -e {{root}}/go || sleep 600'\", send_event=false)\n";
    let settings = "agent_map: {localhost: 'external:'}, deploy_retry_backoff: 1";
    let world = World::new(main, settings);
    let served = world.serve();
    let environment = served.environment("prod");
    let agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it runs", || world.host.read("runs") == "run\n");
    wait_until("its beginning is stored", || history(&served).0 == 1);
    drop(agent);
    std::fs::write(world.host.file("go"), "").unwrap();
    let url = format!("{}/api/v2/environment_settings/agent_map", served.api);
    let here = json!({"value": {"localhost": "local:"}});
    assert_eq!(
        request("POST", &url, Some(&environment), Some(&here)).0,
        200
    );
    wait_until("it is deployed here", || {
        history(&served) == (2, json!("deployed"))
    });
    assert_eq!(world.host.read("runs"), "run\nrun\n");
    let actions = served.get(&environment, "/api/v2/resource_actions?action=deploy");
    let mut oldest_first = actions["data"].as_array().unwrap().iter().rev();
    let first = oldest_first
        .find(|action| action["action"] == "deploy")
        .unwrap();
    assert_eq!(first["status"], "unavailable", "{actions:#}");
    assert!(
        first.to_string().contains("no result can come"),
        "{first:#}"
    );
}

/// Given: a process for two agents, of which one is on the machine of the server until the settings say otherwise. Expected: the other
/// one works all the time, and the log says which does not; when that is elsewhere as well, it works, too.
#[test]
fn an_agent_that_is_not_elsewhere_keeps_out_no_other_of_its_process() {
    let model = |content: &str| {
        let two = "two = std::Host(name=\"two\", os=std::linux)\n\
            fs::File(host=two, path=\"{{root}}/b\", content=\"CONTENT\\n\", send_event=false)\n";
        files(&[("a", content)]) + &two.replace("CONTENT", content)
    };
    let world = World::new(&model("x"), EXTERNAL);
    let served = world.serve();
    let environment = served.environment("prod");
    let agent = world.agent(&served.api, "localhost,two", "agent");
    wait_until("one is deployed", || world.host.read("a") == "x\n");
    agent.logs("these agents run elsewhere: two;");
    let url = format!("{}/api/v2/environment_settings/agent_map", served.api);
    let both = json!({"value": {"localhost": "external:", "two": "external:"}});
    assert_eq!(
        request("POST", &url, Some(&environment), Some(&both)).0,
        200
    );
    wait_until("the connection is made anew", || {
        agent.log().matches("INFO connected to").count() == 2
    });
    world.repo.write("main.cf", &model("y"));
    world.repo.commit("next");
    wait_until("both are deployed", || {
        ["a", "b"].map(|name| world.host.read(name)) == ["y\n", "y\n"]
    });
    drop(agent);
    wait_until("both are known to be gone", || {
        let agents = served.get(&environment, "/api/v2/agents")["data"].clone();
        let mut agents = agents.as_array().unwrap().iter();
        agents.all(|agent| agent["status"] == "down")
    });
}

/// Input: an agent with a wrong token, with the token of another environment, and with that of the API (docs/reference/security.md § 3.36). Answer: 403, and none of them learns which environments there are.
#[test]
fn an_agent_with_another_token_is_refused_and_one_may_not_use_the_api() {
    let world = World::new(&files(&[("a", "x")]), EXTERNAL);
    let other = "environments:\n";
    let more = format!(
        "api_token: api-0123456789abcdef\nenvironments:\n  - project: infra\n    name: other\n    repository: {}\n    \
         branch: main\n    env: {{ROOT: {}}}\n    agents: {{token: other-0123456789abcdef}}\n",
        world.repo.path().display(),
        world.host.root().display()
    );
    let config = world.config.replacen(other, &more, 1);
    let served = crate::serve::serve_unasked(world.dir.path(), &config);
    let refused = |token: &str, environment: &str| {
        let url = format!(
            "{}/api/v1/agent_connection?environment={environment}",
            served.api
        );
        let mut headers = vec![("authorization".to_owned(), format!("Bearer {token}"))];
        headers.push((
            "sec-websocket-key".to_owned(),
            "dGhlIHNhbXBsZSBub25jZQ==".to_owned(),
        ));
        crate::harness::send("GET", &url, &headers, b"")
    };
    let expected = refused("other-0123456789abcdef", "nowhere");
    assert_eq!(expected.0, 403);
    for token in ["other-0123456789abcdef", "api-0123456789abcdef", "wrong"] {
        assert_eq!(refused(token, "prod"), expected, "{token}");
    }
    // The right one gets as far as the WebSocket, which this is not.
    assert_eq!(refused(TOKEN, "prod").0, 400);
    let api = format!("{}/api/v2/environment", served.api);
    let headers = [("authorization".to_owned(), format!("Bearer {TOKEN}"))];
    assert_eq!(crate::harness::send("GET", &api, &headers, b"").0, 403);
}

#[test]
fn a_second_installation_waits_while_the_first_one_works_and_takes_over_when_it_ends() {
    let world = World::new(&files(&[("a", "x")]), EXTERNAL);
    let served = world.serve();
    let first = world.agent(&served.api, "localhost", "first");
    first.logs("connected to");
    let second = world.agent(&served.api, "localhost", "second");
    second.logs("another installation works for agent localhost");
    assert!(!second.log().contains("connected to http"));
    drop(first);
    second.logs("connected to http");
    // Names that the environment does not expect are refused with what to do.
    let third = world.agent(&served.api, "elsewhere", "third");
    third.logs("the setting `agent_map` of the environment has to say `external:`");
}

/// Given: a machine that was made as a copy of another one, with the data directory of its agent. Expected: the agent of the copy
/// stands by and says what to do. Were it let in, the two would take turns, and both begin the same runs.
#[test]
fn an_agent_on_a_copied_data_directory_stands_by_and_says_so() {
    let world = World::new(&slow("1"), EXTERNAL);
    let served = world.serve();
    let first = world.agent(&served.api, "localhost", "first");
    first.logs("connected to");
    let at = |name: &str| world.dir.path().join(name);
    std::fs::create_dir(at("copy")).unwrap();
    std::fs::copy(at("first/instance"), at("copy/instance")).unwrap();
    let second = world.agent(&served.api, "localhost", "copy");
    second.logs("if the data directory was copied from another machine");
    wait_until("it is deployed", || history(&served).1 == "deployed");
    assert_eq!(world.host.read("runs"), "run\ndone\n");
    assert!(!second.log().contains("connected to http"));
    assert!(
        !first.log().contains("not connected to the server"),
        "{}",
        first.log()
    );
    drop(first);
    second.logs("connected to http");
}

/// A network of its own, with one cable to ours.
struct Cable {
    name: String,
    address: String,
}

impl Cable {
    /// `None`: this machine lets nobody make one.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let name = format!("stw{id}");
        let (ours, theirs) = (format!("10.{}.{}.1", 64 + id % 64, id / 64 % 250), "2");
        let script = format!(
            "set -e; ip netns add {name}; ip link add {name}a type veth peer name {name}b; \
             ip link set {name}b netns {name}; ip addr add {ours}/24 dev {name}a; ip link set {name}a up; \
             ip netns exec {name} ip addr add {}{theirs}/24 dev {name}b; \
             ip netns exec {name} ip link set {name}b up",
            ours.trim_end_matches('1')
        );
        let made = Command::new("sh").args(["-c", &script]).output();
        let cable = Self {
            name,
            address: ours,
        };
        match made {
            Ok(output) if output.status.success() => Some(cable),
            _ => {
                skip("network namespaces (iproute2, as root)");
                None
            }
        }
    }

    fn set(&self, state: &str) {
        let interface = format!("{}a", self.name);
        let output = Command::new("ip")
            .args(["link", "set", &interface, state])
            .output();
        assert!(output.unwrap().status.success());
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .output();
        let _ = Command::new("ip")
            .args(["link", "del", &format!("{}a", self.name)])
            .output();
    }
}

#[test]
fn an_agent_in_another_network_survives_that_its_cable_is_pulled() {
    let Some(cable) = Cable::new() else {
        return;
    };
    let world = World::new(&slow("2"), QUIET);
    let served = world.serve();
    let line = Line::on(&cable.address, &served.api);
    let wrapper = ["ip", "netns", "exec", &cable.name];
    let data = world.dir.path().join("agent");
    let agent = Agent::start_in(&wrapper, &line.url(), "localhost", TOKEN, &data);
    wait_until("it runs", || world.host.read("runs") == "run\n");
    cable.set("down");
    wait_until("it ends meanwhile", || {
        world.host.read("runs") == "run\ndone\n"
    });
    let environment = served.environment("prod");
    wait_until("the server notices", || {
        served.get(&environment, "/api/v2/agents")["data"][0]["status"] == "down"
    });
    cable.set("up");
    wait_until("the result comes", || {
        history(&served) == (1, json!("deployed"))
    });
    assert_eq!(world.host.read("runs"), "run\ndone\n");
    drop(agent);
}

/// Given: an agent whose log can not be written, since the disk is full or nobody reads it any more. Expected: it goes on
/// trying to reach its server, and ends when it is asked to.
#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (token, data) = (dir.path().join("token"), dir.path().join("data"));
    std::fs::write(&token, "a".repeat(40)).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    let mut command = crate::harness::steward();
    command.args(["agent", "--environment", "prod", "--name", "a", "--server"]);
    command.arg(address).arg("--token-file").arg(&token);
    command.arg("--data").arg(&data);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut child = command.stderr(full).spawn().unwrap();
    // Each connection that ends at once is a line of the log.
    for _ in 0..3 {
        drop(server.accept().unwrap());
    }
    crate::harness::signal(child.id(), rustix::process::Signal::TERM);
    crate::harness::wait_until("the agent ends", || child.try_wait().unwrap().is_some());
}
