//! Instances whose resources cannot be exported: what becomes of them, what becomes of the others, and what is told.
//! Source: docs/reference/lsm.md § 3.7, § 3.13.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::embedded::text;
use crate::harness::{DEADLINE, Repo, finish, steward, wait_until};
use crate::service_world::{LINKS, World, id_of};

/// A dependency manager that takes no link to `ams2` where it is exported: no validation sees that.
const MANAGER: &str = "import os
from inmanta.export import dependency_manager


@dependency_manager
def taboo(model, resources):
    is_export = os.environ.get('inmanta_model_state') == 'active'
    if is_export and any('ams2' in str(name) for name in resources):
        raise Exception('ams2 is not exported')
";

/// A plugin that refuses a bandwidth, as models validate what a type cannot say.
const PLUGIN: &str = "from inmanta.plugins import plugin


@plugin
def allowed(mbps: 'int') -> 'bool':
    if mbps == 13:
        raise ValueError('thirteen is taken already')
    return True
";

fn diagnosis(world: &World, site: &str) -> String {
    let mut command = steward();
    let port = world.running.api.rsplit(':').next().unwrap();
    command.args(["lsm", "diagnose", "link", site, "--server-port", port]);
    command.current_dir(world.host.root());
    let Output { stdout, .. } = finish(command);
    text(&stdout)
}

#[test]
fn an_instance_whose_resources_have_no_good_id_is_rejected_and_holds_up_nobody() {
    let world = World::new();
    let bad = world.create("a,b=c[d]", 100);
    world.reaches(&bad, "rejected");
    // Neither has one with a character that not every database can hold.
    let worse = world.create("a\u{0}b", 100);
    world.reaches(&worse, "rejected");
    let good = world.create("ams1", 100);
    world.reaches(&good, "up");
    let found = world.get(&format!("{bad}/diagnose")).1["data"].clone();
    let error = found["rejections"][0]["errors"][0]["message"].to_string();
    assert!(error.contains("a,b=c[d]"), "{found:#}");
}

/// Given: a push without the service, and without the module `lsm` at all, then an order, an update and a deletion; a push that
/// has it again. Expected: they are refused, or wait, and say that the model lacks the service; nothing that is deployed goes
/// before it is back.
#[test]
fn instances_of_a_service_that_the_model_has_no_more_say_so_and_go_on_when_it_is_back() {
    for (model, partial) in [
        ("import lsm\n", "lsm_partial_compile=true"),
        ("x = 1\n", "lsm_partial_compile=false"),
    ] {
        let world = World::with(LINKS, &[partial], "link");
        let path = world.create("ams1", 100);
        world.reaches(&path, "up");
        world.repo.write("main.cf", model);
        world.repo.commit("no links");
        wait_until("it is said that the service is missed", || {
            let notifications = world.running.get_ok("/api/v2/notification?limit=100");
            notifications
                .to_string()
                .contains("the service link is in the catalog with 1 instance")
        });
        let missing = |path: &str, part: &str| {
            let found = world.get(&format!("{path}/diagnose")).1["data"][part].to_string();
            let said = format!("the service link of the instance {}", id_of(path));
            found.contains(&said) && found.contains("is not in the model any more")
        };
        let other = world.create("ams2", 100);
        world.reaches(&other, "rejected");
        assert!(
            missing(&other, "rejections"),
            "{}",
            diagnosis(&world, "ams2")
        );
        world.delete(&path);
        wait_until("its deletion waits", || missing(&path, "exports"));
        assert_eq!(world.instance(&path)["state"], "deleting");
        assert!(world.host.root().join("ams1").exists());
        world.repo.write("main.cf", LINKS);
        world.repo.commit("links again");
        wait_until("it is deleted", || !world.host.root().join("ams1").exists());
    }
}

/// Given: an entity without the implementations of lsm::ServiceEntity, so that nothing reports the end of its deployment; then a
/// push that has them. Expected: the diagnosis of its instance says so and what to do; afterwards the instance is up.
#[test]
fn a_diagnosis_tells_that_the_model_makes_no_transfer() {
    for settings in [["lsm_partial_compile=true"], ["lsm_partial_compile=false"]] {
        let bare = LINKS.replace("using deploy, parents", "using deploy");
        let world = World::with(&bare, &settings, "link");
        let path = world.create("ams1", 100);
        world.reaches(&path, "creating");
        let exports = || world.get(&format!("{path}/diagnose")).1["data"]["exports"].clone();
        wait_until("it is said that there is no transfer", || {
            let said = exports()[0]["trace"].to_string();
            said.contains("no lsm::LifecycleTransfer") && said.contains("add `parents`")
        });
        assert!(diagnosis(&world, "ams1").contains("no lsm::LifecycleTransfer"));
        world.repo.write("main.cf", LINKS);
        world.repo.commit("parents");
        world.reaches(&path, "up");
        assert_eq!(exports(), serde_json::json!([]));
    }
}

#[test]
fn a_failed_export_is_in_the_diagnosis_of_all_that_wait_for_it_until_one_succeeds() {
    let repo = Repo::new(&format!("import taboo\n{LINKS}"));
    repo.write_module("taboo", "", MANAGER);
    repo.commit("a manager");
    let world = World::start(repo, &[], "link");
    let first = world.create("ams1", 100);
    world.reaches(&first, "up");
    let (bad, other) = (world.create("ams2", 100), world.create("ams3", 100));
    world.reaches(&bad, "creating");
    world.reaches(&other, "creating");
    for (site, path) in [("ams2", &bad), ("ams3", &other)] {
        wait_until("its export has failed", || {
            world.get(&format!("{path}/diagnose")).1["data"]["exports"][0].is_object()
        });
        let why = diagnosis(&world, site);
        assert!(
            why.contains("not exported as version") && why.contains("ams2 is not exported"),
            "{why}"
        );
    }
    world.repo.write("libs/taboo/plugins/__init__.py", "");
    world.repo.commit("no manager");
    world.reaches(&bad, "up");
    world.reaches(&other, "up");
}

#[test]
fn a_diagnosis_tells_the_exception_of_the_plugin_that_refused() {
    let check = "implement Link using checked\nimplementation checked for Link:\n    std::assert(refuse::allowed(self.mbps))\nend\n";
    let repo = Repo::new(&format!("import refuse\n{LINKS}{check}"));
    repo.write_module("refuse", "", PLUGIN);
    repo.commit("a plugin");
    let world = World::start(repo, &[], "link");
    let bad = world.create("ams1", 13);
    world.reaches(&bad, "rejected");
    let why = diagnosis(&world, "ams1");
    assert!(
        why.contains("caused by ValueError: thirteen is taken already"),
        "{why}"
    );
}

/// Takes another server for the one that runs, when that has nothing to do any more.
fn is_upgraded(world: &mut World) {
    wait_until("all is exported", || {
        let reports = world.get("/api/v2/compilereport?limit=100").1["data"].clone();
        let mut reports = reports.as_array().unwrap().iter();
        reports.all(|one| !one["completed"].is_null())
    });
    world.is_killed();
    made_by_another_server(world);
    world.starts_again(PARTIAL);
}

const PARTIAL: &[&str] = &["lsm_partial_compile=true"];

/// Gives the versions of a stopped server's database other Python code of the module `lsm`, as a server of before would have
/// stored it: with one file more.
fn made_by_another_server(world: &World) {
    let database = world.host.data().join("steward.db");
    let script = "import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for number, modules in database.execute('SELECT number, modules FROM version').fetchall():
    code = json.loads(modules)
    for files in [one['files'] for one in code['modules'] if one['name'] == 'lsm']:
        files.append({**files[-1], 'module': 'inmanta_plugins.lsm._of_before'})
    database.execute('UPDATE version SET modules = ? WHERE number = ?', (json.dumps(code), number))
database.commit()";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(database);
    assert!(python.status().unwrap().success());
}

#[test]
fn after_an_upgrade_of_the_server_orders_go_on_behind_one_full_compile() {
    let mut world = World::with(LINKS, PARTIAL, "link");
    let first = world.create("ams1", 100);
    world.reaches(&first, "up");
    is_upgraded(&mut world);
    let (second, third) = (world.create("ams2", 100), world.create("ams3", 100));
    world.reaches(&second, "up");
    world.reaches(&third, "up");
    let reports = world.get("/api/v2/compilereport?limit=100").1["data"].clone();
    let reports = reports.as_array().unwrap();
    assert!(
        reports.iter().all(|one| one["success"] != false),
        "{reports:#?}"
    );
    let stages = |report: &Value| {
        let id = report["id"].as_str().unwrap();
        let report = world.running.get_ok(&format!("/api/v2/compilereport/{id}"));
        report["data"]["reports"].as_array().unwrap().clone()
    };
    let stages: Vec<Value> = reports.iter().flat_map(stages).collect();
    let all: Vec<_> = stages
        .iter()
        .filter(|one| one["name"] == "Exporting everything")
        .collect();
    assert_eq!(all.len(), 1, "{stages:#?}");
    let why = all[0]["outstream"].as_str().unwrap();
    assert!(why.contains("the code of module lsm differs"), "{why}");
}

/// A plugin that takes its time for two instances, and does not like three: compiles of all are slow, and then fail.
const GATE: &str = "import time

from inmanta.plugins import plugin


@plugin
def pass_through(n_links: 'int') -> 'bool':
    if n_links > 1:
        time.sleep(1)
    if n_links > 2:
        raise ValueError('three links are too many')
    return True
";

#[test]
fn orders_tell_what_they_wait_for_while_everything_is_exported_and_when_that_fails() {
    let check = "std::assert(gate::pass_through(std::count(lsm::all(links))))\n";
    let repo = Repo::new(&format!("import gate\n{LINKS}{check}"));
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo.write(
        "libs/gate/module.yml",
        "name: gate\nversion: 1.0.0\nlicense: none\n",
    );
    repo.write("libs/gate/model/_init.cf", "");
    repo.write("libs/gate/plugins/__init__.py", GATE);
    repo.commit("a gate");
    let mut world = World::start(repo, PARTIAL, "link");
    for site in ["ams1", "ams2"] {
        let known = world.create(site, 100);
        world.reaches(&known, "up");
    }
    is_upgraded(&mut world);
    let third = world.create("ams3", 100);
    let says = |site: &str, what: &str| {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let why = diagnosis(&world, site);
            if why.contains(what) {
                return;
            }
            assert!(Instant::now() < deadline, "never {what}: {why}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    says(
        "ams3",
        "a full compile runs in the place of a partial one: the code of module lsm differs",
    );
    says("ams3", "three links are too many");
    // The next one does not try the same again.
    let fourth = world.create("ams4", 100);
    says(
        "ams4",
        "A full compile of this commit was tried for that, and is rejected",
    );
    world.repo.write(
        "libs/gate/plugins/__init__.py",
        &GATE.replace("n_links > 2", "False"),
    );
    world.repo.commit("any number of links");
    world.reaches(&third, "up");
    world.reaches(&fourth, "up");
}
