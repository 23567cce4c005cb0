//! Agents on other machines: `steward agent` and the server, as processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::harness::{Host, Repo, files, steward, wait_until};
use crate::serve::{Served, serve};

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

    /// On a port of its own choice.
    #[track_caller]
    pub fn serve(&self) -> Served {
        serve(self.dir.path(), &self.config)
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
        std::fs::create_dir_all(data).unwrap();
        let (secret, log) = (data.join("token"), data.join("log"));
        std::fs::write(&secret, token).unwrap();
        let stderr = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = steward()
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
        let name = resource["id_details"]["resource_id_value"].as_str().unwrap();
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
    wait_until("the version is in force", || {
        agents().as_array().is_some_and(|agents| !agents.is_empty())
    });
    wait_until("the agent is down", || agents()[0]["status"] == "down");
    assert_eq!(world.host.read("a"), "");
    let listed = served.get(&environment, "/api/v2/resource");
    let id = listed["data"][0]["resource_id"].as_str().unwrap();
    let path = format!("/api/v2/resource/{}/explain", crate::harness::segment(id));
    let explained = served.get(&environment, &path);
    let chain = explained["data"]["chain"].as_array().unwrap();
    let text = chain.last().unwrap()["text"].as_str().unwrap();
    assert!(text.contains("is not connected since 20"), "{explained}");
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
