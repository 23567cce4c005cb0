//! Services on the real server: instances over REST, how they go through their states, also when the server is killed.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Host, Repo, request, signal, skip, wait_until};
use crate::serve::{Served, serve};
use crate::service_world::{LINKS, World, bandwidth, path_of, v2};

//: lsm 23, 29, 31, 33, 43, 45, 69
#[test]
fn an_instance_is_validated_deployed_updated_and_deleted() {
    let world = World::new();
    let path = world.create("ams1", 100);
    let up = world.reaches(&path, "up");
    assert_eq!(up["candidate_attributes"], Value::Null);
    assert_eq!(
        up["active_attributes"],
        json!({"site": "ams1", "mbps": 100, "vlan": null})
    );
    assert_eq!(world.host.read("ams1"), "100\n");
    assert_eq!(
        world.states(&path),
        ["start", "acknowledged", "creating", "up"]
    );
    // By its identity, too.
    let same = world.instance("/lsm/v1/service_inventory/link/site=ams1");
    assert_eq!(same["id"], up["id"]);

    let updated = world.call("PATCH", &v2(&path), bandwidth(200, &up["version"], "p1"));
    assert_eq!(
        (&updated["state"], &updated["version"]),
        (&json!("update_start"), &json!(5))
    );
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while world.instance(&path)["version"].as_u64() < Some(8) {
        assert!(
            std::time::Instant::now() < deadline,
            "{}",
            world.instance(&path)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let up = world.reaches(&path, "up");
    assert_eq!(world.host.read("ams1"), "200\n");
    assert_eq!(up["rollback_attributes"]["mbps"], 100);

    let resources = world.running.get_ok(&format!("{path}/resources"))["data"].clone();
    assert_eq!(resources.as_array().unwrap().len(), 1, "{resources}");
    assert_eq!(resources[0]["resource_state"], "deployed");
    let progress = world.instance(&format!("{path}?include_deployment_progress=True"));
    assert_eq!(
        progress["deployment_progress"],
        json!({"total": 1, "failed": 0, "deployed": 1, "waiting": 0})
    );

    let version = up["version"].as_u64().unwrap();
    world.call(
        "DELETE",
        &format!("{path}?current_version={version}"),
        json!({}),
    );
    let ended = world.reaches(&path, "terminated");
    assert_eq!(ended["deleted"], json!(true));
    assert!(!world.host.file("ams1").exists());
    let list = |more: &str| {
        let list = world
            .running
            .get_ok(&format!("/lsm/v1/service_inventory/link?{more}"));
        list["data"].as_array().unwrap().len()
    };
    assert_eq!(
        (
            list(""),
            list("include_deleted=true"),
            list("filter.deleted=True")
        ),
        (0, 1, 1)
    );
    // Its identity is free again.
    let path = world.create("ams1", 50);
    world.reaches(&path, "up");
}

//: lsm 34, 43, 98
#[test]
fn a_model_that_refuses_an_instance_rejects_it_and_the_diagnosis_says_why() {
    let world = World::new();
    let path = world.create("bad", 666);
    let rejected = world.reaches(&path, "rejected");
    assert_eq!(rejected["candidate_attributes"]["mbps"], 666);
    assert_eq!(rejected["active_attributes"], Value::Null);
    let found = world.running.get_ok(&format!("{path}/diagnose"))["data"].clone();
    let errors = found["rejections"][0]["errors"].clone();
    assert!(
        errors[0]["message"].as_str().unwrap().contains("mbps"),
        "{found:#}"
    );
    assert!(found["rejections"][0]["compile_id"].is_string());
    // Corrected, it goes its way.
    world.call(
        "PATCH",
        &v2(&path),
        bandwidth(10, &rejected["version"], "p1"),
    );
    world.reaches(&path, "up");
    assert_eq!(world.host.read("bad"), "10\n");
}

//: lsm 65, 98
#[test]
fn a_failed_deployment_fails_the_instance_until_a_repair_succeeds() {
    let world = World::new();
    // A directory with something in it is where the file shall be.
    std::fs::create_dir(world.host.file("ams1")).unwrap();
    std::fs::write(world.host.file("ams1").join("x"), "").unwrap();
    let path = world.create("ams1", 100);
    let failed = world.reaches(&path, "failed");
    assert_eq!(failed["desired_state_version"], json!(4));
    let found = world.running.get_ok(&format!("{path}/diagnose"))["data"].clone();
    assert!(
        found["failures"][0]["resource_id"]
            .as_str()
            .unwrap()
            .contains("fs::File"),
        "{found:#}"
    );
    std::fs::remove_dir_all(world.host.file("ams1")).unwrap();
    world.call(
        "POST",
        "/api/v1/deploy",
        json!({"agent_trigger_method": "push_full_deploy"}),
    );
    world.reaches(&path, "up");
    assert_eq!(world.host.read("ams1"), "100\n");
}

//: lsm 44, 51
#[test]
fn of_two_updates_with_one_version_one_succeeds_and_the_same_update_again_has_no_effect() {
    let world = World::new();
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    let (api, environment) = (world.running.api.clone(), world.running.environment());
    let update = |patch: &str, mbps: i64| {
        let url = format!("{api}{}", v2(&path));
        let body = bandwidth(mbps, &up["version"], patch);
        let environment = environment.clone();
        std::thread::spawn(move || request("PATCH", &url, Some(&environment), Some(&body)).0)
    };
    let threads: Vec<_> = (0..8).map(|n| update(&format!("p{n}"), 10 + n)).collect();
    let statuses: Vec<u16> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let good: Vec<_> = (0..8).filter(|n| statuses[*n as usize] == 200).collect();
    assert_eq!(good.len(), 1, "{statuses:?}");
    assert!(
        statuses.iter().all(|status| [200, 409].contains(status)),
        "{statuses:?}"
    );
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while world.instance(&path)["version"].as_u64() < Some(8) {
        assert!(
            std::time::Instant::now() < deadline,
            "{}",
            world.instance(&path)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = world.reaches(&path, "up");
    // The version is long out of date, and still it is no conflict: it was done.
    let again = bandwidth(99, &up["version"], &format!("p{}", good[0]));
    let answer = world.call("PATCH", &v2(&path), again);
    assert_eq!(answer["version"], after["version"]);
    assert_eq!(world.instance(&path), after);
}

//: lsm 49
#[test]
fn automatic_transfers_that_a_crash_interrupts_are_taken_up_again_and_none_twice() {
    let mut world = World::new();
    let paths: Vec<String> = (0..5).map(|n| world.create(&format!("s{n}"), n)).collect();
    world.crashes(&[]);
    for path in &paths {
        world.reaches(path, "up");
        let states = ["start", "acknowledged", "creating", "up"];
        assert_eq!(world.states(path), states);
    }
    let reports = world.running.get_ok("/api/v2/compilereport?limit=1000")["data"].clone();
    let reports = reports.as_array().unwrap().iter();
    let validated = reports.filter(|report| report["metadata"]["type"] == "lsm");
    let mut validated: Vec<String> = validated
        .map(|report| report["remote_id"].to_string())
        .collect();
    validated.sort_unstable();
    let n_validated = validated.len();
    validated.dedup();
    assert_eq!((n_validated, validated.len()), (5, 5), "{validated:?}");
}

/// Kills a server again and again while instances are created, updated and deleted; in the end each is where the calls that were
/// acknowledged have brought it.
fn killed_at_any_moment(config: &str, n_rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (repo, host) = (Repo::new(LINKS), Host::new());
    let config = format!(
        "{config}environments:\n  - project: p\n    name: e\n    repository: {}\n    branch: main\n    env: {{ROOT: {}}}\n",
        repo.path().display(),
        host.root().display()
    );
    let start = || serve(dir.path(), &config);
    let mut served = start();
    let environment = served.environment("e");
    let call = |served: &Served, method: &str, path: &str, body: &Value| {
        let url = format!("{}{path}", served.api);
        request(method, &url, Some(&environment), Some(body))
    };
    wait_until("the service is in the catalog", || {
        served.get(&environment, "/lsm/v1/service_catalog/link")["data"].is_object()
    });
    let mut random = StdRng::seed_from_u64(15);
    // What was acknowledged: the bandwidth of each site, `None`: it was deleted.
    let mut shall: Vec<(String, String, Option<i64>)> = Vec::new();
    for round in 0..n_rounds {
        let n_before = shall.len();
        for n in 0..2 {
            let (site, mbps) = (format!("s{round}-{n}"), random.random_range(1..600));
            let body = json!({"attributes": {"site": site, "mbps": mbps}});
            let (status, answer) = call(&served, "POST", "/lsm/v1/service_inventory/link", &body);
            assert_eq!(status, 200, "{answer}");
            shall.push((path_of(&answer["data"]), site, Some(mbps)));
        }
        // One of before is updated or deleted, where its state lets us.
        if n_before > 0 {
            let (path, _, wanted) = &mut shall[random.random_range(0..n_before)];
            let instance = served.get(&environment, path)["data"].clone();
            if instance["state"] == "up" && wanted.is_some() {
                if random.random_bool(0.5) {
                    let mbps = random.random_range(1..600);
                    let body = bandwidth(mbps, &instance["version"], &format!("p{round}"));
                    if call(&served, "PATCH", &v2(path), &body).0 == 200 {
                        *wanted = Some(mbps);
                    }
                } else {
                    let path = format!("{path}?current_version={}", instance["version"]);
                    if call(&served, "DELETE", &path, &json!({})).0 == 200 {
                        *wanted = None;
                    }
                }
            }
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..1500)));
        signal(served.child.id(), Signal::KILL);
        served.child.wait().unwrap();
        served = start();
    }
    for (path, site, wanted) in &shall {
        let expected = if wanted.is_some() { "up" } else { "terminated" };
        let mut last;
        let deadline = std::time::Instant::now() + 2 * crate::harness::DEADLINE;
        loop {
            last = served.get(&environment, path)["data"].clone();
            let is_there = last["state"] == expected
                && (wanted.is_none() || last["active_attributes"]["mbps"] == json!(wanted));
            let content = host.read(site);
            if is_there && wanted.is_none_or(|mbps| content == format!("{mbps}\n")) {
                break;
            }
            if std::time::Instant::now() > deadline {
                let events = served.get(&environment, &format!("{path}/events?limit=100"));
                panic!("{site} shall be {wanted:?}, its file is {content:?}: {last:#}\n{events:#}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(host.file(site).exists(), wanted.is_some(), "{last:#}");
        let log = served.get(
            &environment,
            &format!("{path}/log?sort=version.asc&limit=1000"),
        );
        let log = log["data"].as_array().unwrap();
        for (at, item) in log.iter().enumerate() {
            assert_eq!(
                item["version"],
                json!(at + 1),
                "no version is skipped or repeated"
            );
        }
        let last_item = log.last().unwrap();
        assert_eq!(
            (&last_item["state"], &last_item["version"]),
            (&last["state"], &last["version"])
        );
    }
}

//: lsm 37
#[test]
fn a_server_that_is_killed_brings_every_instance_to_where_it_shall_be() {
    killed_at_any_moment("", 10);
}

#[tokio::test]
async fn a_server_on_postgresql_that_is_killed_brings_every_instance_to_where_it_shall_be() {
    let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") else {
        skip("STEWARD_TEST_POSTGRES names no PostgreSQL server");
        return;
    };
    let name = format!("steward_it_services_{}", std::process::id());
    let admin = sqlx::PgPool::connect(&url).await.unwrap();
    let create = format!("CREATE DATABASE {name}");
    sqlx::query(&create).execute(&admin).await.unwrap();
    let base = url.rsplit_once('/').unwrap().0.to_owned();
    let config = format!("database: {base}/{name}\n");
    let outcome = tokio::task::spawn_blocking(move || killed_at_any_moment(&config, 10)).await;
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    sqlx::query(&drop).execute(&admin).await.unwrap();
    outcome.unwrap();
}
