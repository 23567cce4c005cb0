//! Instances whose resources cannot be exported: what becomes of them, what becomes of the others, and what is told.
//! Source: docs/reference/lsm.md § 3.7, § 3.13.

use std::process::Output;

use crate::embedded::text;
use crate::harness::{Repo, finish, steward};
use crate::service_world::{LINKS, World};

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
        crate::harness::wait_until("its export has failed", || {
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
