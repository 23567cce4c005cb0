//! Handlers in Python on other machines: their code goes there, by digest.

use crate::agentless::Far;
use crate::external::{World, statuses};
use crate::harness::wait_until;

/// A module with a handler that says where it runs, and whether it has an `_io`.
const CODE: &str = r#"
import os
import sys
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource

@resource("row::Row", agent="agent", id_attribute="path")
class Row(PurgeableResource):
    fields = ("path", "value")

@provider("row::Row")
class RowHandler(CRUDHandler[Row]):
    def read_resource(self, ctx, resource):
        with open(resource.path, "w") as file:
            file.write(f"{resource.value} {self._io} {__file__}")
    def create_resource(self, ctx, resource): ...
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

const MODEL: &str = "entity Row extends std::PurgeableResource:\n    string path\n    string agent\n    int value = 0\nend\n\
                     implement Row using std::none\n";

const MAIN: &str = "import row\nroot = std::get_env(\"ROOT\")\nrow::Row(path=\"{{root}}/row\", agent=\"localhost\", value=7)\n";

fn add_module(world: &World) {
    let repo = &world.repo;
    repo.write_module("row", MODEL, CODE);
    repo.write("main.cf", MAIN);
    repo.commit("a module");
}

#[test]
fn the_code_of_a_handler_goes_to_its_agent_and_runs_there() {
    let world = World::new("", "agent_map: {localhost: 'external:'}");
    add_module(&world);
    let served = world.serve();
    let _agent = world.agent(&served.api, "localhost", "agent");
    wait_until("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    let said = world.host.read("row");
    let place = world.dir.path().join("agent/code");
    assert!(said.starts_with("7 None "), "{said}");
    assert!(said.contains(&place.display().to_string()), "{said}");
}

#[test]
fn the_code_of_a_handler_goes_over_ssh_and_leaves_nothing_behind() {
    let Some(far) = Far::new("", "known_hosts") else {
        return;
    };
    add_module(&far.world);
    let mut served = far.world.serve();
    wait_until("it is deployed", || {
        statuses(&served).to_string().contains("deployed")
    });
    let said = far.world.host.read("row");
    let place = far.folder.path().display().to_string();
    assert!(said.contains(&place), "{said}");
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the other side has cleaned up", || far.left() == 0);
}
