//! Transfers that keep the desired state, on the real server, with `enable_lsm_transfer_optimization` and without: how many
//! compiles they make, and how the instance goes on from what is known of its deployment.
//! Source: docs/reference/lsm.md § 3.9.

use serde_json::{Value, json};

use crate::harness::wait_until;
use crate::service_world::{LINKS, World};

const OPTIMIZED: &[&str] = &["enable_lsm_transfer_optimization=true"];

/// [`LINKS`] with a lifecycle that has a way from `up` that keeps what is deployed, and one that does not.
fn links() -> String {
    let lifecycle = r#"
start = lsm::State(name="start", validate_self="candidate", export_resources=false)
creating = lsm::State(name="creating", export_resources=true, validate_self="active", validate_others="active")
up = lsm::State(name="up", label="success", export_resources=true, validate_self="active", validate_others="active")
checking = lsm::State(name="checking", export_resources=true, validate_self="active", validate_others="active")
checked = lsm::State(name="checked", label="success", export_resources=true, validate_self="active", validate_others="active")
broken = lsm::State(name="broken", label="danger", export_resources=true, validate_self="active", validate_others="active")
renewing = lsm::State(name="renewing", export_resources=true, validate_self="active", validate_others="active")

checks = lsm::LifecycleStateMachine(name="checks", initial_state=start)
checks.transfers = [
    lsm::StateTransfer(source=start, target=creating, auto=true, target_operation="promote"),
    lsm::StateTransfer(source=creating, target=up, error=broken, resource_based=true, target_same_desired_state=true, error_same_desired_state=true),
    lsm::StateTransfer(source=up, target=checking, api_set_state=true, target_same_desired_state=true),
    lsm::StateTransfer(source=checking, target=checked, error=broken, resource_based=true, target_same_desired_state=true, error_same_desired_state=true),
    lsm::StateTransfer(source=checked, target=renewing, api_set_state=true),
    lsm::StateTransfer(source=renewing, target=up, error=broken, resource_based=true),
]
"#;
    let model = LINKS.replace("lsm::fsm::simple", "checks");
    model.replace(
        "links = lsm::Service",
        &format!("{lifecycle}\nlinks = lsm::Service"),
    )
}

impl World {
    /// The compiles that were asked for, once none is under way.
    fn n_compiles(&self) -> u64 {
        let reports = || self.running.get_ok("/api/v2/compilereport?limit=100");
        wait_until("all compiles have ended", || {
            let reports = reports();
            let reports = reports["data"].as_array().unwrap();
            reports.iter().all(|report| !report["completed"].is_null())
        });
        reports()["metadata"]["total"].as_u64().unwrap()
    }

    fn set_state(&self, path: &str, target: &str) -> Value {
        let version = self.instance(path)["version"].clone();
        let body = json!({"current_version": version, "target_state": target, "message": "m"});
        self.call("POST", &format!("{path}/state"), body)
    }
}

/// Given: an instance that is up, and whose state changes on ways that keep the desired state. Expected: with the setting no
/// compile follows, and without it one for each transfer; in either case the number of the desired state stays, and what is known of
/// the deployment leads on. A way that does not keep it compiles, deploys and counts.
//: lsm 61, 62
#[test]
fn transfers_that_keep_the_desired_state_compile_only_where_the_optimization_is_off() {
    for settings in [OPTIMIZED, &[]] {
        let is_optimized = !settings.is_empty();
        let world = World::with(&links(), settings, "link");
        let path = world.create("ams1", 100);
        let up = world.reaches(&path, "up");
        assert_eq!(world.host.read("ams1"), "100\n");
        let n_before = world.n_compiles();
        world.set_state(&path, "checking");
        let checked = world.reaches(&path, "checked");
        assert_eq!(
            checked["desired_state_version"],
            up["desired_state_version"]
        );
        let n_more = world.n_compiles() - n_before;
        if is_optimized {
            assert_eq!(n_more, 0, "nothing that is deployed changes");
        } else {
            assert!(n_more >= 1, "each transfer compiles");
        }
        // The deployment goes on to be watched: what breaks is seen without a compile between.
        let n_before = world.n_compiles();
        world.set_state(&path, "renewing");
        let up = world.reaches(&path, "up");
        assert_ne!(
            checked["desired_state_version"],
            up["desired_state_version"]
        );
        assert!(world.n_compiles() > n_before);
        assert_eq!(
            world.states(&path),
            [
                "start", "creating", "up", "checking", "checked", "renewing", "up"
            ]
        );
        assert_eq!(world.host.read("ams1"), "100\n");
    }
}

/// Given: the server dies as soon as it has acknowledged a transfer that keeps the desired state. Expected: it starts, and what it
/// knew of the deployment leads the instance on, without a compile for it.
#[test]
fn what_is_known_of_a_deployment_leads_on_after_a_crash() {
    let mut world = World::with(&links(), OPTIMIZED, "link");
    let path = world.create("ams1", 100);
    let up = world.reaches(&path, "up");
    world.n_compiles();
    world.set_state(&path, "checking");
    world.crashes(OPTIMIZED);
    let checked = world.reaches(&path, "checked");
    assert_eq!(
        checked["desired_state_version"],
        up["desired_state_version"]
    );
    let states = ["start", "creating", "up", "checking", "checked"];
    assert_eq!(world.states(&path), states);
}

/// Given: a deployment that fails, and then succeeds when it is repaired. Expected: the instance is where the last result leads,
/// though nothing was compiled.
#[test]
fn a_deployment_that_fails_leads_an_instance_to_its_error_without_a_compile() {
    let world = World::with(&links(), OPTIMIZED, "link");
    std::fs::create_dir(world.host.file("ams1")).unwrap();
    std::fs::write(world.host.file("ams1").join("x"), "").unwrap();
    let path = world.create("ams1", 100);
    let broken = world.reaches(&path, "broken");
    let desired = &broken["desired_state_version"];
    let n_compiles = world.n_compiles();
    assert_eq!(world.states(&path), ["start", "creating", "broken"]);
    assert_eq!(&world.instance(&path)["desired_state_version"], desired);
    assert_eq!(world.n_compiles(), n_compiles);
}
