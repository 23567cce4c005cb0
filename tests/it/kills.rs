//! kill -9 of server, executors, Python hosts and agents on other machines at random while two hundred resources deploy:
//! nothing is lost, and nothing is run again that was reported done (docs/reference/deployment.md § 4.12). By hand also with more of both:
//! `STEWARD_TEST_RESOURCES=10000 STEWARD_TEST_KILLS=100 cargo test -p steward --test it kills::`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::Signal;

use crate::crash::descendants;
use crate::external::{Agent, TOKEN};
use crate::harness::{DEADLINE, Host, Repo, signal, skip};
use crate::serve::{Served, serve, serve_on};

const AGENTS: usize = 8;

/// Those of them that are processes of their own, as on another machine.
const EXTERNAL: [&str; 2] = ["agent6", "agent7"];

fn number(variable: &str, otherwise: usize) -> usize {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn n_resources() -> usize {
    number("STEWARD_TEST_RESOURCES", 200)
}

fn n_kills_wanted() -> usize {
    number("STEWARD_TEST_KILLS", 20)
}

/// As `harness::wait_until`, with more time for more resources.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE * u32::try_from(n_resources().div_ceil(200)).unwrap();
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Notes each run, takes its time, and writes what it shall.
const CODE: &str = r#"
import os, time
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource

@resource("row::Row", agent="agent", id_attribute="path")
class Row(PurgeableResource):
    fields = ("path", "value")

@provider("row::Row")
class RowHandler(CRUDHandler[Row]):
    def read_resource(self, ctx, resource):
        with open(resource.path + ".runs", "a") as file:
            file.write(f"{resource.value}\n")
        time.sleep(0.01)
        try:
            with open(resource.path) as file:
                resource.value = int(file.read() or 0)
        except FileNotFoundError:
            resource.value = -1
    def create_resource(self, ctx, resource): ...
    def update_resource(self, ctx, changes, resource):
        with open(resource.path + ".new", "w") as file:
            file.write(str(resource.value))
        os.replace(resource.path + ".new", resource.path)
        ctx.set_updated()
    def delete_resource(self, ctx, resource): ...
"#;

const MODEL: &str = r#"
entity Row extends std::PurgeableResource:
    string path
    string agent
    int value = 0
end
implement Row using std::none
"#;

/// Chains over all agents: each resource requires the one that is eight before it.
fn model(value: usize) -> String {
    let mut model = "import row\nroot = std::get_env(\"ROOT\")\n".to_owned();
    for n in 0..n_resources() {
        let requires = match n.checked_sub(AGENTS) {
            Some(before) => format!("r{before}"),
            None => String::new(),
        };
        model.push_str(&format!(
            "r{n} = row::Row(path=\"{{{{root}}}}/{n}\", agent=\"agent{}\", value={value}, send_event=false, \
             requires=[{requires}])\n",
            n / 3 % AGENTS
        ));
    }
    model
}

/// How often each resource has run.
fn n_runs(host: &Host) -> BTreeMap<usize, usize> {
    let runs = |n: usize| std::fs::read_to_string(host.file(&format!("{n}.runs")));
    let count = |n| (n, runs(n).unwrap_or_default().lines().count());
    (0..n_resources()).map(count).collect()
}

/// The resources that the server says are deployed.
fn reported_done(served: &Served) -> Vec<usize> {
    let environment = served.environment("prod");
    let name = |one: &serde_json::Value| {
        let id = one["resource_id"].as_str().unwrap();
        id.rsplit('/')
            .next()
            .unwrap()
            .trim_end_matches(']')
            .parse::<usize>()
            .unwrap()
    };
    let mut path = "/api/v2/resource?limit=1000&filter.status=deployed".to_owned();
    let mut done = Vec::new();
    loop {
        let page = served.get(&environment, &path);
        done.extend(page["data"].as_array().unwrap().iter().map(name));
        match page["links"]["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => return done,
        }
    }
}

fn is_in_force(served: &Served, n_versions: usize) -> bool {
    let environment = served.environment("prod");
    let newest = served.get(&environment, "/api/v2/desiredstate?limit=1")["data"][0].clone();
    newest["version"] == n_versions && newest["status"] == "active"
}

fn kill_at_random(dir: &Path, database: &str) {
    let host = Host::new();
    let repo = Repo::new("");
    repo.write_module("row", MODEL, CODE);
    repo.write("main.cf", &model(1));
    repo.commit("a module");
    let config = format!(
        "{database}executor: {{hosts: 4}}\nenvironments:\n  - project: infra\n    name: prod\n    repository: {}\n    \
         branch: main\n    env: {{ROOT: {}}}\n    agents: {{token: {TOKEN}}}\n    settings:\n      \
         deploy_retry_backoff: 1\n      autostart_agent_repair_interval: 0\n      \
         agent_map: {{{}: 'external:', {}: 'external:'}}\n",
        repo.path().display(),
        host.root().display(),
        EXTERNAL[0],
        EXTERNAL[1]
    );
    let seed = std::env::var("STEWARD_TEST_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = StdRng::seed_from_u64(seed);
    let mut served = serve(dir, &config);
    let port = served.api.rsplit_once(':').unwrap().1.to_owned();
    let start_agent = |name: &str, api: &str| Agent::start(api, name, TOKEN, &dir.join(name));
    let mut agents = EXTERNAL.map(|name| start_agent(name, &served.api));
    let (mut value, mut n_kills, mut n_halfway) = (1, 0, 0);
    // What was reported done for the value in force, with how often it had run by then.
    let mut done: BTreeMap<usize, usize> = BTreeMap::new();
    while n_kills < n_kills_wanted() {
        wait_until("the version is in force", || is_in_force(&served, value));
        std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
        // First who is done, then how often they have run.
        let reported = reported_done(&served);
        let runs = n_runs(&host);
        for n in reported {
            done.entry(n).or_insert(runs[&n]);
        }
        if done.len() == n_resources() {
            check_done(&host, &done);
            value += 1;
            done.clear();
            repo.write("main.cf", &model(value));
            repo.commit("next");
            continue;
        }
        n_kills += 1;
        n_halfway += usize::from(!done.is_empty());
        let role = ["server", "agent", "executor", "python"][random.random_range(0..4)];
        if role == "agent" {
            let n = random.random_range(0..EXTERNAL.len());
            signal(agents[n].child.id(), Signal::KILL);
            // As one who supervises it does: a folder is locked until its process is gone.
            agents[n].child.wait().unwrap();
            agents[n] = start_agent(EXTERNAL[n], &served.api);
            continue;
        }
        let parents = agents.iter().map(|agent| agent.child.id());
        let parents = parents.chain([served.child.id()]);
        let all = parents.flat_map(descendants);
        let victims: Vec<u32> = all
            .filter(|one| one.role == role)
            .map(|one| one.pid)
            .collect();
        match victims.get(random.random_range(0..victims.len().max(1))) {
            Some(pid) => signal(*pid, Signal::KILL),
            None => {
                // Dropping it kills it.
                drop(served);
                served = serve_on(dir, &config, &port);
            }
        }
    }
    assert!(
        n_halfway > 2,
        "{n_halfway} kills found something done and something not"
    );
    wait_until("all is as the last version says", || {
        (0..n_resources()).all(|n| host.read(&n.to_string()) == value.to_string())
    });
    wait_until("all is reported done", || {
        reported_done(&served).len() == n_resources()
    });
    check_done(&host, &done);
    wait_until("no run is left open", || {
        let environment = served.environment("prod");
        let actions = served.get(&environment, "/api/v2/resource_actions?limit=1000");
        let mut actions = actions["data"].as_array().unwrap().iter();
        actions.all(|action| !action["finished"].is_null())
    });
}

/// What was reported done has not run since.
#[track_caller]
fn check_done(host: &Host, done: &BTreeMap<usize, usize>) {
    let now = n_runs(host);
    for (n, before) in done {
        assert_eq!(now[n], *before, "{n} was reported done and ran again");
    }
}

/// Input: kill -9 of server, agents, executors and Python hosts while hundreds of resources deploy (docs/reference/security.md § 3.34). Answer: nothing is lost, and nothing runs again that was reported done.
//: deploy 85, 87, 88
#[test]
fn twenty_kills_lose_nothing_and_repeat_nothing_that_was_reported_done() {
    let dir = tempfile::tempdir().unwrap();
    kill_at_random(dir.path(), "");
}

#[tokio::test]
async fn twenty_kills_lose_and_repeat_nothing_on_postgresql() {
    let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") else {
        skip("STEWARD_TEST_POSTGRES names no PostgreSQL server");
        return;
    };
    let name = format!("steward_kills_{}", std::process::id());
    let admin = sqlx::PgPool::connect(&url).await.unwrap();
    let run = async |sql: String| {
        sqlx::query(&sql).execute(&admin).await.unwrap();
    };
    run(format!("CREATE DATABASE {name}")).await;
    let base = url.rsplit_once('/').unwrap().0.to_owned();
    let config = format!("database: {base}/{name}\n");
    let outcome = tokio::task::spawn_blocking(move || {
        let dir = tempfile::tempdir().unwrap();
        kill_at_random(dir.path(), &config);
    });
    let outcome = outcome.await;
    run(format!("DROP DATABASE {name} WITH (FORCE)")).await;
    outcome.unwrap();
}
