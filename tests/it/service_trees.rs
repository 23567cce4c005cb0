//! Services that lead to one another: owners and what they own, relations in general, and modules that choose themselves what
//! is compiled together. Source: docs/reference/lsm.md § 1.5, § 4.5, § 4.6.

use serde_json::json;

use crate::harness::Repo;
use crate::service_world::{World, id_of};

const NOBODY: &str = "00000000-0000-4000-8000-000000000001";

#[test]
fn what_an_instance_refers_to_has_to_be_there_and_knows_who_refers_to_it() {
    let world = World::fixture("circuit", &["lsm_partial_compile=true"], "circuit");
    let inventory = |service: &str| format!("/lsm/v1/service_inventory/{service}");
    let cabinet = |site: &str| json!({"attributes": {"name": "k", "site": site}});
    let refused = |site: &str| world.refused("POST", &inventory("cabinet"), cabinet(site));
    // The child comes before its parent; the parent is of another service; it is no id at all.
    let (status, message) = refused(NOBODY);
    assert!(status == 400 && message.contains("site"), "{message}");
    assert!(message.contains(NOBODY), "{message}");
    let site = world.order("site", json!({"name": "s"}));
    world.reaches(&site, "up");
    let made = world.order("cabinet", json!({"name": "k", "site": id_of(&site)}));
    world.reaches(&made, "up");
    let (status, message) = refused(id_of(&made));
    assert!(status == 400 && message.contains("site"), "{message}");
    let (status, message) = refused("s");
    assert!(
        status == 400 && message.contains("id of a site"),
        "{message}"
    );

    // All that is wrong is in one answer, of a new instance and of an update.
    let all = json!({"attributes": {"name": 3, "site": NOBODY, "more": 1}});
    let (status, message) = world.refused("POST", &inventory("cabinet"), all);
    for mistake in [
        "name: ",
        "more: ",
        &format!("site: {NOBODY} is no instance of site"),
    ] {
        assert!(status == 400 && message.contains(mistake), "{message}");
    }
    let up = world.instance(&made);
    let changed = json!({"name": "other", "site": NOBODY, "note": 4});
    let all = json!({"patch_id": "1", "current_version": up["version"], "edit": [
        {"edit_id": "1", "operation": "replace", "target": ".", "value": changed},
    ]});
    let (status, message) = world.refused("PATCH", &made.replace("v1", "v2"), all);
    for mistake in [
        "note: ",
        "name: ",
        &format!("site: {NOBODY} is no instance of site"),
    ] {
        assert!(status == 400 && message.contains(mistake), "{message}");
    }

    let shown = |path: &str| {
        world.instance(&format!("{path}?include_referenced_by=true"))["referenced_by"].clone()
    };
    assert_eq!(shown(&site), json!([id_of(&made)]));
    assert_eq!(shown(&made), json!([]));
    // A tree goes from its leaves to its root, and the root learns of it.
    world.delete(&site);
    let back = world.comes_to(&site, "up", 6);
    assert_eq!(world.states(&site)[4], "delete_validating_up", "{back}");
    let found = world.running.get_ok(&format!("{site}/diagnose"))["data"].clone();
    assert!(found["rejections"][0]["compile_id"].is_string(), "{found}");
    world.delete(&made);
    world.reaches(&made, "terminated");
    assert_eq!(shown(&site), json!([]));
    world.delete(&site);
    world.reaches(&site, "terminated");
    let (status, message) = refused(id_of(&site));
    assert!(status == 400 && message.contains("site"), "{message}");
}

/// Things that wait in their first state until somebody asks for more, so that many of them cost nothing.
const CHOSEN: &str = r#"import fs
import lsm
import own

entity Thing extends lsm::ServiceEntity:
    string name
    string? beside = null
end
index Thing(name)

start = lsm::State(name="start", export_resources=false)
active = lsm::State(name="active", export_resources=true, validate_self="active", validate_others="active")
up = lsm::State(name="up", export_resources=true, validate_self="active", validate_others="active")
lifecycle = lsm::LifecycleStateMachine(name="idle", initial_state=start, transfers=[
    lsm::StateTransfer(source=start, target=active, api_set_state=true, target_operation="promote"),
    lsm::StateTransfer(source=active, target=up, error=active, resource_based=true),
])
things = lsm::ServiceEntityBindingV2(service_entity="__config__::Thing", service_entity_name="thing", lifecycle=lifecycle)

root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)
implementation deploy for Thing:
    self.resources += fs::File(
        host=host, path="{{ root }}/{{ self.name }}", content=own::seen(), requires=self.requires, provides=self.provides
    )
    self.owned_resources += self.resources
end
implementation neighbour for Thing:
    # Without it this compile fails.
    other = Thing[name=self.beside]
end
implement Thing using deploy, parents
implement Thing using neighbour when self.beside is defined

for i in lsm::all(things):
    Thing(instance_id=i["id"], entity_binding=things, **i["attributes"])
end
"#;

/// Takes those that are asked for, and those whose names they have as their neighbours, out of all that there are.
const SELECTOR: &str = r#"from inmanta.plugins import plugin
from inmanta_plugins.lsm import global_cache
from inmanta_plugins.lsm.partial import AbstractSelector

seen = 0


@plugin
def seen_things() -> "string":
    return "of " + str(seen)


class Neighbours(AbstractSelector):
    def select_all(self):
        global seen
        things = global_cache.get_all_instances(self.env, "thing")
        seen = len(things)
        asked = [thing for thing in things if thing["id"] in self.requested_instances]
        names = {self._get_attribute(thing, "beside") for thing in asked}
        return {"thing": asked + [thing for thing in things if self._get_attribute(thing, "name") in names]}


global_cache.set_selector_factory(Neighbours)
"#;

/// More than a page of a list has, unless it is asked for more.
const MANY: usize = 251;

//: lsm 94
#[test]
fn a_module_that_chooses_by_itself_sees_all_instances_and_gets_those_that_it_names() {
    let repo = Repo::new(&CHOSEN.replace("own::seen()", "own::seen_things()"));
    repo.write("project.yml", "name: chosen\nmodulepath: libs\n");
    let setup = "[metadata]\nname = inmanta-module-own\nversion = 1.0.0\nlicense = X\n\n[options]\npackages = find_namespace:\n";
    repo.write("libs/own/setup.cfg", setup);
    repo.write("libs/own/model/_init.cf", "import lsm\n");
    repo.write("libs/own/inmanta_plugins/own/__init__.py", SELECTOR);
    repo.commit("things");
    let world = World::start(repo, &["lsm_partial_compile=true"], "thing");
    let order = |name: &str, beside: Option<&str>| {
        world.order("thing", json!({"name": name, "beside": beside}))
    };
    let begin = |path: &str| {
        let body = json!({"current_version": 1, "target_state": "active", "message": "m"});
        world.call("POST", &format!("{path}/state"), body);
    };
    let first = order("first", None);
    begin(&first);
    world.reaches(&first, "up");
    for number in 2..MANY {
        order(&format!("n{number}"), None);
    }
    let last = order("last", Some("first"));
    begin(&last);
    world.reaches(&last, "up");
    assert_eq!(world.host.read("last"), format!("of {MANY}"));
}
