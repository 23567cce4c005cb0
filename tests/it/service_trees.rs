//! Services that lead to one another: owners and what they own, relations in general, and modules that choose themselves what
//! is compiled together. Source: docs/reference/lsm.md § 1.5, § 4.5, § 4.6.

use serde_json::json;

use crate::harness::Repo;
use crate::service_world::{World, id_of, v2};

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

/// Links that name a site. It is nothing to their model what the site is like, so each can be compiled alone.
const NAMED: &str = r#"import lsm
import lsm::fsm
import std::testing

entity Thing extends lsm::ServiceEntity:
    string name
    int mbps = 1
    lsm::attribute_modifier mbps__modifier = "rw+"
end
entity Site extends Thing:
end
entity Link extends Thing:
end
Link.site [0:1] lsm::__service__ Site

implementation deploy for Thing:
    self.resources += std::testing::NullResource(
        name=self.name, value=f"{self.mbps}", purged=self.purge_resources, requires=self.requires, provides=self.provides
    )
    self.owned_resources += self.resources
end
implement Thing using deploy, parents
implement Site using parents
implement Link using parents

sites = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Site", service_entity_name="site", lifecycle=lsm::fsm::simple, service_identity="name"
)
BINDING

for i in lsm::all(sites):
    Site(instance_id=i["id"], entity_binding=sites, name=i["attributes"]["name"], mbps=i["attributes"]["mbps"])
end
for i in lsm::all(links):
    Link(
        instance_id=i["id"],
        entity_binding=OF_LINK,
        name=i["attributes"]["name"],
        mbps=i["attributes"]["mbps"],
        site=null,
    )
end
"#;

fn named(binding: &str, of_link: &str) -> String {
    NAMED
        .replace("BINDING", binding)
        .replace("OF_LINK", of_link)
}

/// Pushes another model, and waits until its version is there.
fn push(world: &World, model: &str) {
    let n_versions =
        || world.running.get_ok("/api/v2/desiredstate?limit=1")["metadata"]["total"].clone();
    let before = n_versions();
    world.repo.write("main.cf", model);
    world.repo.commit("another model");
    crate::harness::wait_until("the model is exported", || n_versions() != before);
}

/// Updates an instance that is up, and waits until it is up again.
fn update(world: &World, path: &str, mbps: u64) {
    let before = world.reaches(path, "up");
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "mbps", "value": mbps});
    let body =
        json!({"patch_id": mbps.to_string(), "current_version": before["version"], "edit": [edit]});
    world.call("PATCH", &v2(path), body);
    let after = before["version"].as_u64().unwrap() + 4;
    world.comes_to(path, "up", after);
}

/// The resources of instances that are part of the desired state.
fn desired(world: &World) -> Vec<String> {
    let list = world.running.get_ok("/api/v2/resource?limit=100");
    let all = list["data"].as_array().unwrap().iter();
    let present = all.filter(|one| one["status"] != "orphaned");
    let names = present.filter_map(|one| {
        let (_, name) = one["resource_id"]
            .as_str()?
            .split_once("NullResource[internal,name=")?;
        Some(name.trim_end_matches(']').to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Given: instances of a service that nobody owns, which gets an owner by another model, and loses it again.
/// Expected: exports of one of them take along its tree of then, and leave what does not belong to it.
#[test]
fn instances_that_are_there_change_their_trees_with_the_owner_of_their_definition() {
    let binding = |owner: &str| {
        let binding = format!(
            "links = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Link\", service_entity_name=\"link\", \
             lifecycle=lsm::fsm::simple, service_identity=\"name\"{owner})"
        );
        named(&binding, "links")
    };
    let world = World::with(&binding(""), &["lsm_partial_compile=true"], "link");
    let site = world.order("site", json!({"name": "s"}));
    world.reaches(&site, "up");
    let link = |name: &str| world.order("link", json!({"name": name, "site": id_of(&site)}));
    let links = ["a", "b"].map(link);
    links
        .iter()
        .for_each(|link| drop(world.reaches(link, "up")));
    assert_eq!(desired(&world), ["a", "b", "s"]);
    push(
        &world,
        &binding(", owner=sites, relation_to_owner=\"site\""),
    );
    update(&world, &links[0], 10);
    assert_eq!(desired(&world), ["a", "b", "s"]);
    push(&world, &binding(""));
    update(&world, &links[1], 20);
    assert_eq!(desired(&world), ["a", "b", "s"]);
    world.delete(&links[1]);
    world.reaches(&links[1], "terminated");
    update(&world, &links[0], 30);
    assert_eq!(desired(&world), ["a", "s"]);
}

/// Given: a service whose second version has an owner, and instances of both.
/// Expected: each belongs where its own version says, also when it goes.
#[test]
fn an_instance_belongs_to_the_owner_that_its_own_version_of_the_definition_names() {
    let version = |number: u64, owner: &str| {
        format!(
            "lsm::ServiceBindingVersion(version={number}, service_entity=\"__config__::Link\", \
             lifecycle=lsm::fsm::simple, service_identity=\"name\"{owner})"
        )
    };
    let owned = version(1, ", owner=sites, relation_to_owner=\"site\"");
    let binding = format!(
        "links = lsm::ServiceBinding(service_entity_name=\"link\", default_version=1, versions=[{}, {owned}])",
        version(0, "")
    );
    let of_link = "lsm::get_service_binding_version(links, i[\"service_entity_version\"])";
    let world = World::with(
        &named(&binding, of_link),
        &["lsm_partial_compile=true"],
        "link",
    );
    let site = world.order("site", json!({"name": "s"}));
    world.reaches(&site, "up");
    let attributes = |name: &str| json!({"name": name, "site": id_of(&site)});
    let inventory = "/lsm/v1/service_inventory/link";
    let body = json!({"attributes": attributes("free"), "service_entity_version": 0});
    let free = world.call("POST", inventory, body);
    let free = format!("{inventory}/{}", free["id"].as_str().unwrap());
    world.reaches(&free, "up");
    let owned = world.order("link", attributes("owned"));
    world.reaches(&owned, "up");
    update(&world, &free, 10);
    update(&world, &owned, 20);
    assert_eq!(desired(&world), ["free", "owned", "s"]);
    world.delete(&free);
    world.reaches(&free, "terminated");
    update(&world, &owned, 30);
    assert_eq!(desired(&world), ["owned", "s"]);
}
