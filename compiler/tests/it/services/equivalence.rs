//! Partial compiles against full ones: whatever happens to whichever instances, the resource sets of the trees that were
//! compiled, put in the place of those that were there, make the desired state that a compile of everything gives.
//!
//! A case is an inventory of trees of owners three levels deep, with instances in states of all kinds, and some operations on
//! it: an instance is ordered, moves to another state, gets other attributes, ends. After each, or after several (a batch), the
//! model is compiled for the instances that changed, with no more than their trees as input. Instances share resources in no
//! set (pools that they require, barriers that require them). The one difference is meant: a shared resource that nothing needs
//! any more stays until the next full export. Source: docs/reference/lsm.md § 4.5, § 4.6.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::json;
use steward_compiler::{
    Attributes, Export, Resource, ServiceAnswer, ServiceInstance, ServiceInstances,
    ServiceInventory, ServiceOwner, ServiceQuestion, ServicesInput, WarmHosts, merge_partial,
};

use super::Project;

const MODEL: &str = r#"
import lsm
import lsm::fsm
import std::testing
import own

entity Pool:
    string name
end
Pool.users [0:] -- std::testing::NullResource
Pool.resource [1] -- std::testing::NullResource
index Pool(name)
implementation pool for Pool:
    self.resource = std::testing::NullResource(name="pool {{ self.name }}")
    std::testing::NullResource(name="barrier {{ self.name }}", requires=self.users)
end
implement Pool using pool

entity Thing extends lsm::ServiceEntity:
    string name
    string pool
end
Thing.own [1] -- std::testing::NullResource
implementation thing for Thing:
    pool = Pool(name=self.pool)
    self.own = std::testing::NullResource(
        name=self.name, value=self.pool, purged=self.purge_resources, requires=self.requires, provides=self.provides
    )
    self.own.requires += pool.resource
    pool.users += self.own
    self.resources += self.own
    self.owned_resources += self.own
end

entity Site extends Thing: end
entity Link extends Thing: end
entity Port extends Thing: end
Link.site [1] lsm::__service__ Site
Port.link [1] lsm::__service__ Link
index Site(instance_id)
index Link(instance_id)
implementation link for Link:
    self.own.requires += self.site.own
end
implementation port for Port:
    self.own.requires += self.link.own
end
implement Thing using thing, parents
implement Site using parents
implement Link using link, parents
implement Port using port, parents

sites = lsm::ServiceEntityBindingV2(service_entity="__config__::Site", service_entity_name="site", lifecycle=lsm::fsm::simple)
links = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Link", service_entity_name="link", lifecycle=lsm::fsm::simple, owner=sites, relation_to_owner="site"
)
ports = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Port", service_entity_name="port", lifecycle=lsm::fsm::simple, owner=links, relation_to_owner="link"
)
for i in lsm::all(sites):
    Site(instance_id=i["id"], entity_binding=sites, **i["attributes"])
end
for i in lsm::all(links):
    a = i["attributes"]
    Link(instance_id=i["id"], entity_binding=links, name=a["name"], pool=a["pool"], site=Site[instance_id=a["site"]])
end
for i in lsm::all(ports):
    a = i["attributes"]
    Port(instance_id=i["id"], entity_binding=ports, name=a["name"], pool=a["pool"], link=Link[instance_id=a["link"]])
end
for name in own::wanted():
    std::print(own::state_of(name))
end
"#;

/// Python code that asks for instances which the compile was not given.
const PLUGINS: &str = "
from inmanta.plugins import plugin
from inmanta_plugins.lsm import global_cache

@plugin
def wanted() -> 'string[]':
    return ['site', 'link', 'port']

@plugin
def state_of(service: 'string') -> 'string':
    return f'{service} {len(global_cache.get_all_instances(None, service))}'
";

/// The states of `lsm::fsm::simple`: whether instances in them are exported, and the sets that they have (candidate, active,
/// rollback).
const STATES: &[(&str, bool, [bool; 3])] = &[
    ("start", false, [true, false, false]),
    ("acknowledged", false, [true, false, false]),
    ("rejected", false, [true, false, false]),
    ("creating", true, [false, true, false]),
    ("up", true, [false, true, false]),
    ("failed", true, [false, true, false]),
    ("update_start", true, [true, true, false]),
    ("update_rejected_failed", true, [true, true, false]),
    ("update_inprogress", true, [false, true, true]),
    ("update_failed", true, [false, true, true]),
    ("rollback", true, [true, true, false]),
    ("deleting", true, [false, true, false]),
    ("terminated", false, [false, true, false]),
];

/// Each service with its owner, and the relation to it.
const OWNERS: [(&str, Option<(&str, &str)>); 3] = [
    ("site", None),
    ("link", Some(("site", "site"))),
    ("port", Some(("link", "link"))),
];

/// Numbers that follow from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[derive(Debug, Clone)]
struct Instance {
    service: &'static str,
    owner: Option<String>,
    record: ServiceInstance,
}

#[derive(Debug, Clone, Default)]
struct Inventory {
    instances: BTreeMap<String, Instance>,
}

fn state(name: &str) -> &'static (&'static str, bool, [bool; 3]) {
    let mut states = STATES.iter();
    states.find(|(known, ..)| *known == name).expect("a state")
}

impl Inventory {
    fn is_exported(&self, id: &str) -> bool {
        state(&self.instances[id].record.state).1
    }

    fn children(&self, id: &str) -> impl Iterator<Item = &str> {
        let is_child = move |(_, one): &(&String, &Instance)| one.owner.as_deref() == Some(id);
        let children = self.instances.iter().filter(is_child);
        children.map(|(id, _)| id.as_str())
    }

    /// Puts an instance into a random state that its owner and what it owns allow: without its owner a model has no link.
    fn move_on(&mut self, id: &str, random: &mut Random) {
        let owner = self.instances[id].owner.clone();
        let may_be_exported = owner.is_none_or(|owner| self.is_exported(&owner));
        let must_be = self.children(id).any(|child| self.is_exported(child));
        let legal = STATES.iter().filter(|(_, is_exported, _)| {
            (*is_exported || !must_be) && (!*is_exported || may_be_exported)
        });
        let legal: Vec<_> = legal.collect();
        let (name, _, sets) = *random.one_of(&legal);
        let instance = self.instances.get_mut(id).expect("it is there");
        let mut attributes = Attributes::from_iter([
            (
                "name".to_owned(),
                json!(format!("{} {id}", instance.service)),
            ),
            ("pool".to_owned(), json!(*random.one_of(&["a", "b", "c"]))),
        ]);
        let relation = OWNERS.iter().find(|(name, _)| *name == instance.service);
        if let Some((_, Some((_, relation)))) = relation {
            attributes.insert((*relation).to_owned(), json!(instance.owner));
        }
        let record = &mut instance.record;
        let old = record.active_attributes.take();
        let [candidate, active, rollback] = *sets;
        record.active_attributes = active.then(|| attributes.clone());
        record.rollback_attributes = rollback.then(|| old.unwrap_or(attributes.clone()));
        record.candidate_attributes = candidate.then_some(attributes);
        record.state = (*name).to_owned();
        record.deleted = *name == "terminated";
        record.version += 1;
        record.desired_state_version += 1;
    }

    fn order(&mut self, random: &mut Random) -> String {
        let (service, owner) = *random.one_of(&OWNERS);
        let owners = self.instances.iter().filter(|(_, one)| {
            Some(one.service) == owner.map(|(owner, _)| owner) && !one.record.deleted
        });
        let owners: Vec<String> = owners.map(|(id, _)| id.clone()).collect();
        let (service, owner) = match owner {
            Some(_) if owners.is_empty() => ("site", None),
            Some(_) => (service, Some(random.one_of(&owners).clone())),
            None => (service, None),
        };
        let id = super::id(self.instances.len() as u32 + 1);
        let record = ServiceInstance {
            id: id.clone(),
            ..ServiceInstance::default()
        };
        let instance = Instance {
            service,
            owner,
            record,
        };
        self.instances.insert(id.clone(), instance);
        self.move_on(&id, random);
        id
    }

    fn root(&self, id: &str) -> String {
        match &self.instances[id].owner {
            Some(owner) => self.root(owner),
            None => id.to_owned(),
        }
    }

    /// What a compile is given: of a partial one the trees of the requested instances.
    fn input(&self, requested: Option<Vec<String>>) -> ServicesInput {
        let roots: Option<BTreeSet<String>> = requested
            .as_ref()
            .map(|ids| ids.iter().map(|id| self.root(id)).collect());
        let mut instances = ServiceInstances::new();
        for (id, instance) in &self.instances {
            if roots
                .as_ref()
                .is_none_or(|roots| roots.contains(&self.root(id)))
            {
                let service = instances.entry(instance.service.to_owned()).or_default();
                service.push(instance.record.clone());
            }
        }
        let owners = OWNERS.iter().filter_map(|(name, owner)| {
            let (owner, relation) = (*owner)?;
            let owner = ServiceOwner {
                owner: owner.to_owned(),
                relation: relation.to_owned(),
            };
            Some(((*name).to_owned(), owner))
        });
        ServicesInput {
            has_more: requested.is_some(),
            requested,
            owners: owners.collect(),
            instances,
            ..ServicesInput::default()
        }
    }
}

/// Answers what compiles ask, and remembers it.
#[derive(Debug)]
struct Asked {
    all: ServiceInstances,
    questions: Mutex<Vec<ServiceQuestion>>,
}

impl ServiceInventory for Asked {
    fn ask(&self, question: ServiceQuestion) -> Result<ServiceAnswer, String> {
        let mut found = self.all.clone();
        match &question {
            ServiceQuestion::Service(wanted) => found.retain(|name, _| name == wanted),
            ServiceQuestion::Instance(wanted) => {
                for instances in found.values_mut() {
                    instances.retain(|instance| instance.id == *wanted);
                }
                found.retain(|_, instances| !instances.is_empty());
            }
            ServiceQuestion::Values { .. } | ServiceQuestion::FreeNumber { .. } => {
                return Err("this model takes nothing".to_owned());
            }
        }
        self.questions.lock().expect("one at a time").push(question);
        Ok(ServiceAnswer::Instances(found))
    }
}

/// A desired state: of each resource its set, its attributes and what it requires.
type State = BTreeMap<String, (Option<String>, String, BTreeSet<String>)>;

fn state_of(resources: &[Resource]) -> State {
    let entry = |one: &Resource| {
        let requires = one.requires.iter().cloned().collect();
        let value = (one.resource_set.clone(), one.attributes.clone(), requires);
        (one.id.clone(), value)
    };
    resources.iter().map(entry).collect()
}

struct Case<'a> {
    project: &'a Project,
    hosts: Arc<WarmHosts>,
    inventory: Inventory,
    desired: Vec<Resource>,
}

impl Case<'_> {
    fn full(&self) -> Vec<Resource> {
        let input = self.inventory.input(None);
        let run = self.project.compile(input, Some(&self.hosts), None);
        run.resources().to_vec()
    }

    /// Exports the sets of the trees of these instances, as the server does.
    fn export(&mut self, changed: &BTreeSet<String>) {
        let input = self
            .inventory
            .input(Some(changed.iter().cloned().collect()));
        let roots = input.roots();
        let asked = Arc::new(Asked {
            all: self.inventory.input(None).instances,
            questions: Mutex::default(),
        });
        let inventory: Arc<dyn ServiceInventory> = asked.clone();
        let run = self
            .project
            .compile(input, Some(&self.hosts), Some(inventory));
        run.check();
        let mut questions = asked.questions.lock().expect("it is done").clone();
        questions.sort_by_key(|question| format!("{question:?}"));
        let wanted = ["link", "port", "site"].map(|name| ServiceQuestion::Service(name.to_owned()));
        assert_eq!(questions, wanted, "it asks for what the model wants only");
        for line in &run.printed {
            let (service, n) = line.split_once(' ').expect("two words");
            let of = |one: &&Instance| one.service == service && !one.record.deleted;
            let known = self.inventory.instances.values().filter(of).count();
            assert_eq!(n, known.to_string(), "{service}");
        }
        let resources = run.resources().to_vec();
        let exported: BTreeSet<_> = resources
            .iter()
            .filter_map(|one| one.resource_set.clone())
            .collect();
        let removed = roots.into_iter().filter(|root| !exported.contains(root));
        let export = Export {
            removed_sets: removed.collect(),
            resources,
            ..Export::default()
        };
        self.desired = merge_partial(&self.desired, &export).expect("the rules are kept");
    }
}

/// What differs between what partial exports made and what a full one makes, but for shared resources that nobody needs.
fn difference(partial: &State, full: &State) -> Vec<String> {
    let mut found = Vec::new();
    for (id, wanted) in full {
        if partial.get(id) != Some(wanted) {
            found.push(format!("{id}: {:?} instead of {wanted:?}", partial.get(id)));
        }
    }
    let extra = partial.iter().filter(|(id, _)| !full.contains_key(*id));
    let extra = extra.filter(|(_, (set, _, requires))| set.is_some() || !requires.is_empty());
    found.extend(extra.map(|(id, one)| format!("{id}: {one:?} is not there in full")));
    found
}

/// One case.
fn check(project: &Project, hosts: &Arc<WarmHosts>, seed: u64) {
    // From 0 would follow zeros only.
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut inventory = Inventory::default();
    for _ in 0..2 + random.below(8) {
        inventory.order(&mut random);
    }
    let mut case = Case {
        project,
        hosts: Arc::clone(hosts),
        inventory,
        desired: Vec::new(),
    };
    case.desired = case.full();
    let mut story = Vec::new();
    for _ in 0..1 + random.below(3) {
        let mut changed = BTreeSet::new();
        for _ in 0..1 + random.below(3) {
            let ids: Vec<String> = case.inventory.instances.keys().cloned().collect();
            let id = match random.below(4) {
                0 => case.inventory.order(&mut random),
                _ => random.one_of(&ids).clone(),
            };
            if !case.inventory.instances[&id].record.deleted {
                case.inventory.move_on(&id, &mut random);
            }
            let state = &case.inventory.instances[&id].record.state;
            story.push(format!("{id} is {state}"));
            changed.insert(id);
        }
        story.push("export".to_owned());
        case.export(&changed);
    }
    let difference = difference(&state_of(&case.desired), &state_of(&case.full()));
    assert!(
        difference.is_empty(),
        "seed {seed}: {story:#?} {difference:#?}"
    );
}

/// How many cases there are when nobody says otherwise with `STEWARD_CASES`.
const CASES: u64 = 240;

#[test]
//: lsm 81, 89, 90, 91
fn partial_exports_make_the_desired_state_that_a_full_one_makes() {
    let project = Project::new(MODEL).with_plugins(PLUGINS);
    let cases = std::env::var("STEWARD_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let project = &project;
            scope.spawn(move || {
                let hosts: Arc<WarmHosts> = Arc::default();
                for seed in (0..cases).filter(|seed| seed % threads == thread) {
                    check(project, &hosts, seed + 1);
                }
            });
        }
    });
}
