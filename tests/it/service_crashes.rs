//! kill -9 of the server, of the processes that compile and of those that deploy, while clients create, update and delete service
//! instances, one by one and by orders: every operation that was acknowledged ends where the specification says. `STEWARD_KILLS`: how often, 10 without.
//! Source: docs/reference/lsm.md § 3.10, § 3.11.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::crash::descendants;
use crate::harness::{DEADLINE, Host, Repo, signal, skip, wait_until};
use crate::serve::{Served, serve};
use crate::service_world::LINKS;

pub(crate) const INVENTORY: &str = "/lsm/v1/service_inventory/link";
/// Clients, each with instances of its own; one more works by orders.
const CLIENTS: u64 = 2;

/// What a client knows of an instance of its own.
pub(crate) struct Own {
    pub(crate) path: String,
    pub(crate) site: String,
    /// The bandwidth that was acknowledged last; `None`: to be deleted.
    pub(crate) wanted: Option<i64>,
}

/// A client that goes on when the server is gone: it sends the same again, as one does who got no answer.
pub(crate) struct Client {
    pub(crate) number: u64,
    api: Arc<Mutex<String>>,
    environment: String,
    agent: ureq::Agent,
    pub(crate) random: StdRng,
    pub(crate) own: Vec<Own>,
    pub(crate) n_done: usize,
}

impl Client {
    fn new(number: u64, api: &Arc<Mutex<String>>, environment: &str) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build();
        Self {
            number,
            api: Arc::clone(api),
            environment: environment.to_owned(),
            agent: agent.into(),
            random: StdRng::seed_from_u64(number),
            own: Vec::new(),
            n_done: 0,
        }
    }

    /// Asks until there is an answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let deadline = Instant::now() + 2 * DEADLINE;
        let sent = match method {
            "GET" => Vec::new(),
            _ => body.to_string().into_bytes(),
        };
        loop {
            let api = self.api.lock().unwrap().clone();
            let request = ureq::http::Request::builder()
                .method(method)
                .uri(format!("{api}{path}"))
                .header("X-Inmanta-tid", &self.environment)
                .body(sent.clone())
                .unwrap();
            let answer = self.agent.run(request).ok().and_then(|mut answer| {
                let text = answer.body_mut().read_to_string().ok()?;
                Some((answer.status().as_u16(), serde_json::from_str(&text).ok()?))
            });
            match answer {
                // Where a server dies while it answers, or is not up yet.
                Some((status, _)) if status >= 500 => {}
                Some(answer) => return answer,
                None => {}
            }
            assert!(Instant::now() < deadline, "{method} {path} has no answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn instance(&self, path: &str) -> Value {
        self.ask("GET", path, &json!({})).1["data"].clone()
    }

    /// With an id of the client's own, the same order sent twice is one order.
    fn create(&mut self) {
        let id = uuid::Uuid::new_v4();
        let site = format!("s{}-{}", self.number, self.own.len());
        let mbps = self.random.random_range(1..600);
        let body = json!({"attributes": {"site": site, "mbps": mbps}, "service_instance_id": id});
        let (status, answer) = self.ask("POST", INVENTORY, &body);
        assert!([200, 409].contains(&status), "{status} {answer}");
        self.own.push(Own {
            path: format!("{INVENTORY}/{id}"),
            site,
            wanted: Some(mbps),
        });
        self.n_done += 1;
    }

    /// Updates or deletes one of its instances, if that is up.
    fn change(&mut self) {
        let at = self.random.random_range(0..self.own.len());
        let (path, wanted) = (self.own[at].path.clone(), self.own[at].wanted);
        let instance = self.instance(&path);
        if instance["state"] != "up" || wanted.is_none() {
            return;
        }
        let version = instance["version"].clone();
        if self.random.random_bool(0.7) {
            let mbps = self.random.random_range(1..600);
            let edit =
                json!({"edit_id": "1", "operation": "replace", "target": "mbps", "value": mbps});
            let patch = format!("{}-{}", self.number, self.n_done);
            let body = json!({"patch_id": patch, "current_version": version, "edit": [edit]});
            let path = path.replace("/lsm/v1/", "/lsm/v2/");
            // The same update again has no effect, and is acknowledged again.
            if self.ask("PATCH", &path, &body).0 == 200 {
                self.own[at].wanted = Some(mbps);
                self.n_done += 1;
            }
        } else {
            let one = format!("{path}?current_version={version}");
            let (status, _) = self.ask("DELETE", &one, &json!({}));
            // Nobody else deletes it: was the answer lost, then its state tells.
            let state = self.instance(&path)["state"].clone();
            let is_deleting = [json!("deleting"), json!("terminated")].contains(&state);
            assert!(status != 200 || is_deleting, "acknowledged, and {state}");
            if is_deleting {
                self.own[at].wanted = None;
                self.n_done += 1;
            }
        }
    }

    /// Goes on until it is told to stop, with at most this many instances.
    fn run(mut self, is_over: &AtomicBool, most: usize) -> Self {
        while !is_over.load(Ordering::Relaxed) {
            let is_new = self.own.is_empty() || self.random.random_bool(0.3);
            if is_new && self.own.len() < most {
                self.create();
            } else {
                self.change();
            }
            let pause = self.random.random_range(10..150);
            std::thread::sleep(Duration::from_millis(pause));
        }
        self
    }
}

/// The steps that the lifecycle of the service has: from state to state.
fn steps(served: &Served, environment: &str) -> BTreeSet<(String, String)> {
    let entity = served.get(environment, "/lsm/v1/service_catalog/link");
    let transfers = entity["data"]["lifecycle"]["transfers"].clone();
    let mut steps = BTreeSet::new();
    for transfer in transfers.as_array().unwrap() {
        let text = |name: &str| transfer[name].as_str().map(str::to_owned);
        let source = text("source").unwrap();
        let ends = [text("target"), text("error")];
        steps.extend(ends.into_iter().flatten().map(|end| (source.clone(), end)));
    }
    steps
}

/// Kills something again and again while clients work, or, with `cut`, breaks the connections to the database and leaves the
/// server running; in the end each instance is where the calls that were acknowledged have brought it, on a way that its
/// lifecycle has.
fn troubled_at_any_moment(config: &str, cut: Option<&dyn Fn()>) {
    let n_kills = std::env::var("STEWARD_KILLS").ok();
    let n_kills: usize = n_kills.map_or(10, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (repo, host) = (Repo::new(LINKS), Host::new());
    let settings = "{lsm_partial_compile: true, enable_batched_partial_compiles: true}";
    let config = format!(
        "{config}environments:\n  - project: p\n    name: e\n    repository: {}\n    branch: main\n    env: {{ROOT: {}}}\n    \
         settings: {settings}\n",
        repo.path().display(),
        host.root().display()
    );
    let start = || serve(dir.path(), &config);
    let mut served = start();
    let environment = served.environment("e");
    wait_until("the service is in the catalog", || {
        served.get(&environment, "/lsm/v1/service_catalog/link")["data"].is_object()
    });
    let api = Arc::new(Mutex::new(served.api.clone()));
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..=CLIENTS).map(|number| {
        let client = Client::new(number, &api, &environment);
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || match number {
            CLIENTS => client.run_orders(&is_over, n_kills),
            _ => client.run(&is_over, n_kills),
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut random = StdRng::seed_from_u64(15);
    let mut n_killed = [0; 3];
    for _ in 0..n_kills {
        std::thread::sleep(Duration::from_millis(random.random_range(0..1200)));
        if let Some(cut) = cut {
            cut();
            continue;
        }
        // Of those below the server any: one that compiles or deploys, or the Python code of either.
        let roles = ["compile-worker", "executor"];
        let victim = random.random_range(0..4);
        let below = descendants(served.child.id()).into_iter();
        let found = roles.get(victim).and_then(|role| {
            let of_role: Vec<u32> = below
                .filter(|one| one.role == *role)
                .map(|one| one.pid)
                .collect();
            (!of_role.is_empty()).then(|| of_role[random.random_range(0..of_role.len())])
        });
        if let Some(pid) = found {
            signal(pid, Signal::KILL);
            n_killed[victim] += 1;
            continue;
        }
        signal(served.child.id(), Signal::KILL);
        served.child.wait().unwrap();
        served = start();
        api.lock().unwrap().clone_from(&served.api);
        n_killed[2] += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    let clients: Vec<Client> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    let n_done: usize = clients.iter().map(|client| client.n_done).sum();
    println!(
        "{n_done} operations acknowledged; killed: {} compile workers, {} executors, the server {} times",
        n_killed[0], n_killed[1], n_killed[2]
    );
    let steps = steps(&served, &environment);
    for client in &clients {
        for own in &client.own {
            ends_well(client, own, &host, &steps);
        }
    }
}

#[track_caller]
fn ends_well(client: &Client, own: &Own, host: &Host, steps: &BTreeSet<(String, String)>) {
    let Own { path, site, wanted } = own;
    let expected = if wanted.is_some() { "up" } else { "terminated" };
    let deadline = Instant::now() + 3 * DEADLINE;
    let last = loop {
        let last = client.instance(path);
        let is_there = last["state"] == expected
            && (wanted.is_none() || last["active_attributes"]["mbps"] == json!(wanted));
        if is_there && wanted.is_none_or(|mbps| host.read(site) == format!("{mbps}\n")) {
            break last;
        }
        if Instant::now() > deadline {
            let events = client.ask("GET", &format!("{path}/events?limit=100"), &json!({}));
            let file = host.read(site);
            panic!("{site} shall be {wanted:?}, its file is {file:?}: {last:#}\n{events:#?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(host.file(site).exists(), wanted.is_some(), "{last:#}");
    let log = format!("{path}/log?sort=version.asc&limit=1000");
    let log = client.ask("GET", &log, &json!({})).1["data"].clone();
    let log = log.as_array().unwrap();
    for (at, item) in log.iter().enumerate() {
        let version = json!(at + 1);
        assert_eq!(item["version"], version, "one is skipped or repeated");
    }
    for pair in log.windows(2) {
        let state = |item: &Value| item["state"].as_str().unwrap().to_owned();
        let step = (state(&pair[0]), state(&pair[1]));
        assert!(steps.contains(&step), "{site} went {step:?}");
    }
    let end = log.last().unwrap();
    assert_eq!(
        (&end["state"], &end["version"]),
        (&last["state"], &last["version"])
    );
}

//: lsm 37
#[test]
fn a_server_that_is_killed_brings_every_instance_to_where_it_shall_be() {
    troubled_at_any_moment("", None);
}

/// Runs the trouble on a database of its own of a PostgreSQL server; `cuts`: what breaks are the connections to it.
async fn on_postgresql(name: &str, cuts: bool) {
    let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") else {
        skip("STEWARD_TEST_POSTGRES names no PostgreSQL server");
        return;
    };
    let name = format!("steward_it_{name}_{}", std::process::id());
    let admin = sqlx::PgPool::connect(&url).await.unwrap();
    let create = format!("CREATE DATABASE {name}");
    sqlx::query(&create).execute(&admin).await.unwrap();
    let base = url.rsplit_once('/').unwrap().0.to_owned();
    let config = format!("database: {base}/{name}\n");
    let (cutter, runtime) = (admin.clone(), tokio::runtime::Handle::current());
    let of_it =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    let outcome = tokio::task::spawn_blocking(move || {
        let cut = || {
            let cut = sqlx::query(&of_it).execute(&cutter);
            runtime.block_on(cut).unwrap();
        };
        troubled_at_any_moment(&config, cuts.then_some(&cut as &dyn Fn()));
    });
    let outcome = outcome.await;
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    sqlx::query(&drop).execute(&admin).await.unwrap();
    outcome.unwrap();
}

#[tokio::test]
async fn a_server_on_postgresql_that_is_killed_brings_every_instance_to_where_it_shall_be() {
    on_postgresql("services", false).await;
}

/// Given: connections to PostgreSQL that break again and again, as when it fails over. Expected: the server goes on by itself, and
/// no instance stays in a state that an automatic transfer leads out of.
#[tokio::test]
async fn a_server_whose_connections_to_postgresql_break_brings_every_instance_to_where_it_shall_be()
{
    on_postgresql("cuts", true).await;
}
