//! Resource sets of services, and compiles of some instances only. Source: docs/reference/lsm.md § 4.5, § 4.6.

use serde_json::{Value, json};

use super::{Project, Run, services_of};

const VPN: &str = "30000000-0000-4000-8000-000000000001";
const LINK: &str = "40000000-0000-4000-8000-000000000001";

fn run(change: impl FnOnce(&mut Value)) -> Run {
    let mut services = services_of("l3vpn/one.json");
    change(&mut services);
    Project::fixture("l3vpn").run(&services)
}

/// The sets, each with the number of its resources.
fn sets(run: &Run) -> Vec<(String, usize)> {
    let mut sets: Vec<(String, usize)> = Vec::new();
    for resource in run.resources() {
        let name = resource.resource_set.clone().unwrap_or_default();
        match sets.iter_mut().find(|(known, _)| *known == name) {
            Some((_, n)) => *n += 1,
            None => sets.push((name, 1)),
        }
    }
    sets.sort();
    sets
}

#[test]
//: lsm 89
fn an_instance_and_all_that_it_owns_are_in_one_set_of_its_name() {
    // Three sites, one of them removed, the link, and two lifecycle transfers; of the two routers only their transfers.
    let router = |number: u8| (format!("20000000-0000-4000-8000-00000000000{number}"), 1);
    assert_eq!(
        sets(&run(|_| ())),
        [router(1), router(2), (VPN.to_owned(), 6)]
    );
}

#[test]
fn instances_that_only_a_plain_relation_leads_to_are_not_part_of_a_partial_compile() {
    let whole = run(|services| services["requested"] = json!([LINK]));
    let refusal = format!("{:?}", whole.compiled.diagnostics);
    assert!(
        !whole.compiled.succeeded() && refusal.contains("Router"),
        "{refusal}"
    );
}

const TREE: &str = "
import lsm
import lsm::fsm
import std::testing
entity Site extends lsm::ServiceEntity:
    string name
end
entity Link extends lsm::ServiceEntity:
    string name
end
Link.site [1] lsm::__service__ Site
index Site(instance_id)
implementation site for Site:
    self.resources += std::testing::NullResource(name=self.name, requires=self.requires, provides=self.provides)
    self.owned_resources += self.resources
end
implementation link for Link:
    self.resources += std::testing::NullResource(
        name=\"{{ self.site.name }}-{{ self.name }}\", requires=self.requires, provides=self.provides
    )
    self.owned_resources += self.resources
end
implement Site using site, parents
implement Link using link, parents
sites = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Site\", service_entity_name=\"site\", lifecycle=lsm::fsm::simple)
links = lsm::ServiceEntityBindingV2(
    service_entity=\"__config__::Link\", service_entity_name=\"link\", lifecycle=lsm::fsm::simple, owner=sites, relation_to_owner=\"site\"
)
for i in lsm::all(sites):
    Site(instance_id=i[\"id\"], entity_binding=sites, **i[\"attributes\"])
end
for i in lsm::all(links):
    Link(instance_id=i[\"id\"], entity_binding=links, name=i[\"attributes\"][\"name\"], site=Site[instance_id=i[\"attributes\"][\"site\"]])
end
";

fn tree(states: [&str; 4], requested: Value) -> Value {
    let id = super::id;
    let made = |number: u32, state: &str, attributes: Value| {
        let mut one = super::instance(
            number,
            state,
            json!({"active": attributes.clone(), "candidate": attributes}),
        );
        one["deleted"] = json!(state == "terminated");
        one
    };
    let link = |name: &str| json!({"name": name, "site": id(1)});
    json!({
        "requested": requested,
        "owners": {"link": {"owner": "site", "relation": "site"}},
        "instances": {
            "site": [made(1, states[0], json!({"name": "s1"})), made(2, states[3], json!({"name": "s2"}))],
            "link": [made(3, states[1], link("l1")), made(4, states[2], link("l2"))],
        },
    })
}

/// The names of the resources that are no lifecycle transfers, each with the number of the set.
fn names(services: &Value) -> Vec<String> {
    let run = Project::new(TREE).run(services);
    let summary = run.summary().into_iter();
    let own = summary.filter_map(|line| {
        let (_, rest) = line.split_once("name=")?;
        let (name, set) = rest.split_once("] ")?;
        Some(format!("{name} {}", &set[7..8]))
    });
    let mut own: Vec<String> = own.collect();
    own.sort();
    own
}

#[test]
//: lsm 90
fn a_child_is_compiled_with_its_root_and_all_of_its_descendants_and_with_nothing_else() {
    let id = super::id;
    let all = ["up", "up", "up", "up"];
    assert_eq!(
        names(&tree(all, Value::Null)),
        ["s1 1", "s1-l1 1", "s1-l2 1", "s2 2"]
    );
    assert_eq!(
        names(&tree(all, json!([id(3)]))),
        ["s1 1", "s1-l1 1", "s1-l2 1"]
    );
    assert_eq!(names(&tree(all, json!([id(2)]))), ["s2 2"]);
    assert_eq!(
        names(&tree(all, json!([id(4), id(2)]))),
        ["s1 1", "s1-l1 1", "s1-l2 1", "s2 2"]
    );
}

#[test]
//: lsm 91
fn a_child_that_ended_is_gone_from_the_set_of_its_root() {
    let id = super::id;
    let states = ["up", "up", "terminated", "terminated"];
    assert_eq!(names(&tree(states, json!([id(4)]))), ["s1 1", "s1-l1 1"]);
    assert_eq!(names(&tree(states, json!([id(2)]))), Vec::<String>::new());
}

#[test]
//: lsm 94
fn a_module_may_choose_the_instances_of_partial_compiles_itself() {
    let code = "
from inmanta_plugins.lsm import global_cache
from inmanta_plugins.lsm.partial import AbstractSelector

class Selector(AbstractSelector):
    def select_all(self):
        sites = global_cache.get_all_instances(self.env, 'site')
        return {'site': [site for site in sites if self._get_attribute(site, 'name') == 's2']}

global_cache.set_selector_factory(Selector)
";
    let services = tree(["up", "up", "up", "up"], json!([super::id(3)]));
    let project = Project::new(&format!("import own\n{TREE}")).with_plugins(code);
    let run = project.run(&services);
    assert_eq!(run.summary().len(), 2);
    assert!(run.summary()[1].contains("name=s2"), "{:?}", run.summary());
}

#[test]
fn an_instance_without_its_owner_is_told() {
    let mut services = tree(["up", "up", "up", "up"], json!([super::id(3)]));
    services["instances"]["link"][0]["candidate_attributes"]["site"] = json!(super::id(9));
    let refusal = Project::new(TREE).refusal(&services);
    assert!(refusal.contains("which no instance has"), "{refusal}");
    services["owners"]["site"] = json!({"owner": "link", "relation": "link"});
    services["instances"]["link"][0]["candidate_attributes"]["site"] = json!(super::id(1));
    services["instances"]["site"][0]["candidate_attributes"]["link"] = json!(super::id(3));
    let refusal = Project::new(TREE).refusal(&services);
    assert!(refusal.contains("own one another in a circle"), "{refusal}");
}
