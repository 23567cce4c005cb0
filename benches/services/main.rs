//! What an order of a service costs from the call until it is up, however many instances there are; see README.md beside the
//! folder of this file.
//!
//! `cargo bench --bench services -- 1000 100000`: so many instances present. `--orders 10000`: so many at once by one client
//! (1000). `--validations 4`: so many validations side by side (`lsm_parallel_validations`). `--optimized`: transfers that
//! change nothing need no compile. On PostgreSQL, too, with the URL of a server in `STEWARD_TEST_POSTGRES`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod inventory;
mod server;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::{Database, Server};

/// Orders one after the other of which the median is taken.
const ROUNDS: usize = 30;
const INVENTORY: &str = "/lsm/v1/service_inventory/link";

/// A service with a resource that does nothing and a number from a pool.
const MODEL: &str = r#"import lsm
import lsm::fsm
import pool
import std::testing

entity Link extends lsm::ServiceEntity:
    string site
    int mbps = 100
    int? vlan = null
    lsm::attribute_modifier vlan__modifier = "r"
end
index Link(instance_id)
implementation deploy for Link:
    self.resources += std::testing::NullResource(
        name=self.site, value="{{self.mbps}} {{self.vlan}}", purged=self.purge_resources, requires=self.requires,
        provides=self.provides
    )
    self.owned_resources += self.resources
end
implement Link using deploy, parents
links = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Link", service_entity_name="link", lifecycle=lsm::fsm::simple, service_identity="site",
    allocation_spec="links"
)
for i in lsm::all(links):
    Link(instance_id=i["id"], entity_binding=links, **i["attributes"])
end
"#;

/// The pool of numbers, as Python code of a module.
const POOL: &str = r#"from inmanta_plugins.lsm.allocation import AllocationSpec, AnyUniqueInt, LSM_Allocator

AllocationSpec("links", LSM_Allocator(attribute="vlan", strategy=AnyUniqueInt(lower=1, upper=10000000)))
"#;

/// The project.
const FILES: [(&str, &str); 5] = [
    ("project.yml", "name: bench\nmodulepath: libs\n"),
    ("main.cf", MODEL),
    (
        "libs/pool/module.yml",
        "name: pool\nversion: 1.0.0\nlicense: x\n",
    ),
    ("libs/pool/model/_init.cf", "import lsm\n"),
    ("libs/pool/plugins/__init__.py", POOL),
];

/// What the command line asks for.
struct Asked {
    sizes: Vec<usize>,
    n_orders: usize,
    n_validations: usize,
    is_optimized: bool,
}

fn asked() -> Asked {
    let mut asked = Asked {
        sizes: Vec::new(),
        n_orders: 1000,
        n_validations: 1,
        is_optimized: false,
    };
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--orders" => asked.n_orders = number(arguments.next()).expect("a number of orders"),
            "--validations" => asked.n_validations = number(arguments.next()).expect("a number"),
            "--optimized" => asked.is_optimized = true,
            other => asked.sizes.extend(other.parse::<usize>()),
        }
    }
    if asked.sizes.is_empty() {
        asked.sizes = vec![1_000, 100_000];
    }
    asked
}

fn main() {
    let asked = asked();
    let mut databases = vec![Database::Sqlite];
    if let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") {
        databases.push(Database::Postgres(url));
    }
    for database in databases {
        for n_present in &asked.sizes {
            measure(&database, *n_present, &asked);
        }
    }
}

fn measure(database: &Database, n_present: usize, asked: &Asked) {
    println!("{}, {n_present} instances:", database.name());
    let settings = format!(
        "lsm_partial_compile: true, enable_batched_partial_compiles: true, recompile_backoff: 0.1, \
         lsm_parallel_validations: {}, enable_lsm_transfer_optimization: {}",
        asked.n_validations, asked.is_optimized
    );
    let mut server = Server::new(database, &FILES, &settings);
    server.start();
    server.catalog_has("link");
    let first = order(&server, "first");
    let template = server.get(&format!("{INVENTORY}/{first}"))["data"].clone();
    server.stop();
    let began = Instant::now();
    inventory::multiply(&server, &template, n_present.saturating_sub(1));
    println!("  put in               {:>9.1} s", seconds(began));
    server.start();
    full_compile(&server, n_present);
    one_by_one(&server);
    all_at_once(&server, asked.n_orders);
    server.stop();
}

/// Orders an instance, and waits until it is up; gives its id.
fn order(server: &Server, site: &str) -> String {
    let body = json!({"attributes": {"site": site}});
    let id = server.post(INVENTORY, &body)["data"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let path = format!("{INVENTORY}/{id}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.get(&path)["data"]["state"] != "up" {
        assert!(Instant::now() < deadline, "{}", server.get(&path));
        std::thread::sleep(Duration::from_millis(2));
    }
    id
}

/// Compiles all instances, and waits until their resources are deployed.
fn full_compile(server: &Server, n_present: usize) {
    let began = Instant::now();
    server.notify();
    let report = loop {
        let reports = server.get("/api/v2/compilereport?limit=1");
        if reports["data"][0]["completed"].is_string() && reports["data"][0]["partial"] == false {
            let metadata = &reports["data"][0]["metadata"];
            if metadata["type"] != "lsm_export" && metadata["type"] != "lsm" {
                break reports["data"][0].clone();
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(report["success"], true, "{report}");
    let id = report["id"].as_str().expect("an id");
    let stages = server.get(&format!("/api/v2/compilereport/{id}"))["data"]["reports"].clone();
    println!(
        "  full compile         {:>9.1} s   {}",
        seconds(began),
        spans(&stages)
    );
    loop {
        let summary = server.get("/api/v2/resource?limit=1&deploy_summary=true");
        let summary = &summary["metadata"]["deploy_summary"];
        // Until the version is in force, there are the resources of the one before. Each instance has two.
        let is_in_force = summary["total"].as_u64() >= Some(2 * n_present as u64);
        if is_in_force && summary["by_state"]["deployed"] == summary["total"] {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "  deployed after       {:>9.1} s   {}",
        seconds(began),
        server.memory()
    );
}

/// How long each stage of a compile took.
fn spans(stages: &Value) -> String {
    let stages = stages.as_array().cloned().unwrap_or_default();
    let spans = stages.iter().map(|stage| {
        let name = stage["name"].as_str().unwrap_or_default();
        let began = server::milliseconds(&stage["started"]);
        let ended = server::milliseconds(&stage["completed"]);
        format!("{name} {:.0} ms", ended - began)
    });
    spans.collect::<Vec<_>>().join(", ")
}

fn one_by_one(server: &Server) {
    for n in 0..3 {
        order(server, &format!("warm{n}"));
    }
    let mut took: Vec<f64> = (0..ROUNDS)
        .map(|n| {
            let began = Instant::now();
            order(server, &format!("one{n}"));
            seconds(began) * 1000.0
        })
        .collect();
    took.sort_by(f64::total_cmp);
    println!(
        "  order to up          {:>9.0} ms  median; 95 of 100 below {:.0} ms",
        took[ROUNDS / 2],
        took[ROUNDS * 95 / 100]
    );
    let report = server.newest("lsm_export");
    println!("    its export:  {}", spans(&report["reports"]));
    let report = server.newest("lsm");
    println!("    validation:  {}", spans(&report["reports"]));
    let page = |path: &str| {
        let began = Instant::now();
        let answer = server.get(path);
        (seconds(began) * 1000.0, answer)
    };
    let path = format!("{INVENTORY}?limit=20");
    let (counting, answer) = page(&path);
    let next = answer["links"]["next"].as_str().unwrap_or(&path).to_owned();
    let least = |path: &str| {
        let took = (0..7).map(|_| page(path).0);
        took.fold(f64::INFINITY, f64::min)
    };
    println!(
        "  page of instances    {:>9.1} ms  the second page {:.1} ms; the first of all, which counts, {counting:.1} ms",
        least(&path),
        least(&next)
    );
    let search = |word: &str| format!("{path}&filter.id_or_service_identity={word}");
    let (first, _) = page(&search("present77"));
    println!(
        "  found by a word      {:>9.1} ms  one {:.1} ms, none {:.1} ms; the first search {first:.1} ms",
        least(&search("present7")),
        least(&search("present777")),
        least(&search("nowhere"))
    );
    println!("  server               {}", server.memory());
}

fn all_at_once(server: &Server, n_orders: usize) {
    let state = || {
        let entity = server.get("/lsm/v1/service_catalog/link?instance_summary=True");
        entity["data"]["instance_summary"]["by_state"].clone()
    };
    let n_before = state()["up"].as_u64().unwrap_or_default();
    let (began, cpu) = (Instant::now(), server.cpu());
    for n in 0..n_orders {
        let body = json!({"attributes": {"site": format!("many{n}")}});
        server.post(INVENTORY, &body);
    }
    println!("  {n_orders} orders taken in {:>9.1} s", seconds(began));
    let mut told = Instant::now();
    while state()["up"].as_u64() < Some(n_before + n_orders as u64) {
        std::thread::sleep(Duration::from_millis(50));
        if told.elapsed() > Duration::from_secs(20) {
            println!("    after {:.0} s: {}", seconds(began), state());
            told = Instant::now();
        }
    }
    let took = seconds(began);
    println!(
        "  all up after         {took:>9.1} s   {:.1} a second; CPU seconds {}; {}",
        n_orders as f64 / took,
        server.cpu().since(&cpu),
        server.memory()
    );
}

fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}
