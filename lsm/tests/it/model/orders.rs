//! Several instances that name one another, and orders about them, against the rules of the specification.
//!
//! A round has a ready-made lifecycle. A compile is what a model would make of the instances: it succeeds if every instance that
//! takes part names only others that take part. In a quiet round nothing fails and nobody disturbs: every item of an order that is
//! in no circle completes. In a noisy round compiles and deployments fail as they like, other clients change and delete
//! instances, looks at orders come late, and the server dies between the note that an item begins and its change; then no item
//! may begin before its turn, change after its end, or say what is not so; and once all is quiet, every order ends.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use steward_lsm::definition::{Label, SetName};
use steward_lsm::lifecycle::{
    Change, Decision, Edit, EditOperation, Effect, Event, NewInstance, Next, Refusal, Request,
    Settings, Trigger, Validation, create, decide,
};
use steward_lsm::order::{
    Action, Failure, ItemState, Planned, Progress, Turn, dependencies, in_circles, named,
    order_state, progress, steps, turn,
};
use steward_lsm::select::{Purpose, Selected, select};
use steward_lsm::{Attributes, Instance, Moment, ServiceEntity, attributes};
use uuid::Uuid;

use super::lifecycles::Random;
use super::rounds;
use crate::support::{edit, entity, id, object};

/// How many steps the test takes where nobody says it.
const STEPS: usize = 100_000;
/// Steps of one round; then another lifecycle follows.
const STEPS_A_ROUND: usize = 400;
/// After so many things that happen when all is quiet, everything has come to rest.
const ENOUGH: usize = 2_000;

struct Item {
    instance: Uuid,
    action: Action,
    /// Of a creation.
    attributes: Value,
    /// Of an update.
    edits: Vec<Edit>,
    /// What is to be in force after it.
    mbps: u64,
    dependencies: Vec<Uuid>,
    correlation_id: Uuid,
    state: ItemState,
    base_version: Option<u64>,
    failure: Option<Failure>,
}

/// A server with its inventory and its orders.
struct Server {
    entity: ServiceEntity,
    settings: Settings,
    instances: BTreeMap<Uuid, Instance>,
    log: BTreeMap<Uuid, Vec<Instance>>,
    events: BTreeMap<Uuid, Vec<Event>>,
    validations: Vec<(Uuid, Validation)>,
    orders: Vec<Vec<Item>>,
    n_ids: u128,
    is_noisy: bool,
    /// It dies no more.
    is_settling: bool,
    story: Vec<String>,
}

/// What an item came to.
type Ended = Option<Result<(), Failure>>;

impl Server {
    fn new(lifecycle: &Value, is_noisy: bool, random: &mut Random) -> Self {
        let entity = entity(&json!({
            "name": "s", "lifecycle": lifecycle, "strict_modifier_enforcement": true,
            "attributes": [{"name": "mbps", "type": "int", "modifier": "rw+"}],
            "inter_service_relations": [{"name": "to", "entity_type": "s", "modifier": "rw+", "lower_limit": 0}],
        }));
        let settings = Settings {
            transfer_optimization: random.percent(50),
            expert_mode: false,
            environment_name: "e".to_owned(),
        };
        Self {
            entity,
            settings,
            instances: BTreeMap::new(),
            log: BTreeMap::new(),
            events: BTreeMap::new(),
            validations: Vec::new(),
            orders: Vec::new(),
            n_ids: 100,
            is_noisy,
            is_settling: false,
            story: Vec::new(),
        }
    }

    fn fresh(&mut self) -> Uuid {
        self.n_ids += 1;
        id(self.n_ids)
    }

    fn note(&mut self, what: String) {
        self.story.push(what);
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}\n{}", self.story.join("\n"))
    }

    /// Something happens to an instance, and all that comes of it by itself.
    fn happens(
        &mut self,
        at: Uuid,
        trigger: Trigger,
        current_version: Option<u64>,
        correlation_id: Uuid,
    ) -> Result<(), Refusal> {
        let mut request = Request {
            trigger,
            current_version,
            correlation_id,
        };
        // A circle of automatic transfers would never end.
        for _ in 0..100 {
            self.n_ids += 1;
            let now = Moment(i64::try_from(self.n_ids).unwrap());
            let before = &self.instances[&at];
            let decision = decide(&self.entity, before, &request, &self.settings, now)?;
            let Some(known_result) = self.store(at, decision) else {
                return Ok(());
            };
            request = Request {
                trigger: Trigger::Auto { known_result },
                current_version: None,
                correlation_id: self.fresh(),
            };
        }
        self.fail("automatic transfers never end")
    }

    /// Stores a decision; the result that an automatic transfer is to know, if one is to be looked for.
    fn store(&mut self, at: Uuid, decision: Decision) -> Option<bool> {
        if let Some(after) = decision.instance {
            if decision.effect == Effect::NewVersion {
                self.log.entry(at).or_default().push(after.clone());
            }
            self.instances.insert(at, after);
        }
        self.events.entry(at).or_default().extend(decision.events);
        let mut auto = None;
        for next in decision.next {
            match next {
                Next::Compile { .. } => {}
                Next::FireAuto { known_result } => {
                    auto = Some(auto.unwrap_or(false) || known_result);
                }
                Next::Validate(validation) => {
                    let mut known = self.validations.iter();
                    let is_known = known.any(|(_, one)| {
                        (one.correlation_id, &one.edge)
                            == (validation.correlation_id, &validation.edge)
                    });
                    if !is_known {
                        self.validations.push((at, validation));
                    }
                }
            }
        }
        auto
    }

    /// Whether a model of these instances compiles: whoever takes part names only others that do.
    fn compiles(&self, purpose: Purpose) -> bool {
        let mut present = BTreeSet::new();
        let mut wanted = BTreeSet::new();
        for instance in self.instances.values() {
            match select(&self.entity, instance, purpose, None) {
                Ok(Selected::With(_, set)) => {
                    present.insert(instance.id);
                    wanted.extend(named(&self.entity, set));
                }
                Ok(Selected::Excluded | Selected::Lacks(_)) => {}
                Err(_) => return false,
            }
        }
        wanted.is_subset(&present)
    }

    fn is_alive(&self, id: Uuid) -> bool {
        self.instances.get(&id).is_some_and(|found| !found.deleted)
    }

    fn base_names(&self, id: Uuid) -> BTreeSet<Uuid> {
        let base = self.instances.get(&id).and_then(Instance::base);
        base.map(|base| named(&self.entity, base))
            .unwrap_or_default()
    }

    /// The validation that has waited longest, or any other, ends.
    fn validation_ends(&mut self, random: &mut Random) -> bool {
        if self.validations.is_empty() {
            return false;
        }
        let last = if self.is_noisy {
            self.validations.len()
        } else {
            1
        };
        let (at, validation) = self.validations.remove(random.below(last));
        let succeeded = match self.is_noisy {
            true => random.percent(70),
            false => self.compiles(Purpose::Validation(at)),
        };
        self.note(format!("{at}: {:?} ends: {succeeded}", validation.edge));
        let trigger = Trigger::Validated {
            edge: validation.edge,
            cause: validation.cause,
            version: validation.version,
            succeeded,
            compile: id(9),
        };
        let correlation_id = self.fresh();
        let taken = self.happens(at, trigger, None, correlation_id);
        assert!(taken.is_ok(), "nobody is refused what comes by itself");
        true
    }

    /// The resources of an instance are deployed, or fail.
    fn deployment_ends(&mut self, at: Uuid, succeeded: bool) {
        let instance = &self.instances[&at];
        let state = self.entity.lifecycle.state(&instance.state);
        if !state.is_some_and(|state| state.export_resources) {
            return;
        }
        let next_version = instance.desired_state_version;
        self.note(format!(
            "{at}: deployment in {} ends: {succeeded}",
            instance.state
        ));
        let trigger = Trigger::Reported {
            next_version,
            succeeded,
        };
        let correlation_id = self.fresh();
        let taken = self.happens(at, trigger, None, correlation_id);
        assert!(taken.is_ok(), "nobody is refused what comes by itself");
    }

    /// An order of a few items about instances that no open order is about. After it nobody names what is gone.
    fn order(&mut self, random: &mut Random) {
        let open = self.orders.iter().flatten();
        let open: BTreeSet<Uuid> = open
            .filter(|item| !item.state.has_ended())
            .map(|item| item.instance)
            .collect();
        let alive: Vec<Uuid> = self.instances.values().map(|one| one.id).collect();
        let alive = alive.into_iter().filter(|id| self.is_alive(*id));
        let (_, free): (Vec<Uuid>, Vec<Uuid>) = alive.partition(|id| open.contains(id));
        let made: Vec<Uuid> = (0..random.below(3)).map(|_| self.fresh()).collect();
        let mut gone: BTreeSet<Uuid> = free
            .iter()
            .copied()
            .filter(|_| random.percent(25))
            .collect();
        let changed: Vec<Uuid> = free
            .iter()
            .copied()
            .filter(|id| !gone.contains(id) && random.percent(40))
            .collect();
        // Nothing goes that somebody names who neither goes nor changes.
        loop {
            let stays = self.instances.keys().filter(|id| self.is_alive(**id));
            let stays: Vec<Uuid> = stays
                .copied()
                .filter(|id| !gone.contains(id) && !changed.contains(id))
                .collect();
            let named: BTreeSet<Uuid> = stays.iter().flat_map(|id| self.base_names(*id)).collect();
            let n_before = gone.len();
            gone.retain(|id| !named.contains(id));
            if gone.len() == n_before {
                break;
            }
        }
        let may_be_named: Vec<Uuid> = free
            .iter()
            .copied()
            .filter(|id| !gone.contains(id))
            .chain(made.iter().copied())
            .collect();
        let mut items = Vec::new();
        for (instance, action) in made
            .iter()
            .map(|id| (*id, Action::Create))
            .chain(changed.iter().map(|id| (*id, Action::Update)))
            .chain(gone.iter().map(|id| (*id, Action::Delete)))
        {
            let mbps = random.next() % 1000;
            let mut names: Vec<String> = may_be_named
                .iter()
                .filter(|other| **other != instance)
                .map(Uuid::to_string)
                .collect();
            names.retain(|_| random.percent(30));
            items.push(Item {
                instance,
                action,
                attributes: json!({"mbps": mbps, "to": names}),
                edits: vec![
                    edit(EditOperation::Replace, "mbps", json!(mbps)),
                    edit(EditOperation::Replace, "to", json!(names)),
                ],
                mbps,
                dependencies: Vec::new(),
                correlation_id: self.fresh(),
                state: ItemState::Acknowledged,
                base_version: None,
                failure: None,
            });
        }
        for at in (1..items.len()).rev() {
            items.swap(at, random.below(at + 1));
        }
        if items.is_empty() {
            return;
        }
        let planned: Vec<Planned> = items
            .iter()
            .map(|item| Planned {
                instance: item.instance,
                action: Some(item.action),
                names: match item.action {
                    Action::Delete => self.base_names(item.instance),
                    _ => named(&self.entity, &object(item.attributes.clone())),
                },
                named: self.base_names(item.instance),
            })
            .collect();
        for (item, dependencies) in items.iter_mut().zip(dependencies(&planned)) {
            item.dependencies = dependencies;
            let what = format!(
                "order {}: {:?} {} {} after {:?}",
                self.orders.len(),
                item.action,
                item.instance,
                item.attributes,
                item.dependencies
            );
            self.story.push(what);
        }
        self.orders.push(items);
    }

    /// Looks at an order as the server does.
    fn look(&mut self, order: usize, random: &mut Random) {
        loop {
            let mut has_ended = false;
            for at in 0..self.orders[order].len() {
                has_ended |= self.look_at_item(order, at, random);
            }
            if has_ended {
                continue;
            }
            let items = &self.orders[order];
            if items.iter().any(|item| item.state == ItemState::InProgress) {
                return;
            }
            let waiting = items
                .iter()
                .filter(|item| item.state == ItemState::Acknowledged);
            let waiting: BTreeMap<Uuid, &[Uuid]> = waiting
                .map(|item| (item.instance, item.dependencies.as_slice()))
                .collect();
            let circles = in_circles(&waiting);
            if circles.is_empty() {
                return;
            }
            for at in 0..self.orders[order].len() {
                if circles.contains(&self.orders[order][at].instance) {
                    self.end(order, at, Err(Failure::InvalidOrderItem));
                }
            }
        }
    }

    /// Whether the item ended.
    fn look_at_item(&mut self, order: usize, at: usize, random: &mut Random) -> bool {
        let states: BTreeMap<Uuid, ItemState> = self.orders[order]
            .iter()
            .map(|item| (item.instance, item.state))
            .collect();
        let item = &self.orders[order][at];
        if item.state.has_ended() {
            return false;
        }
        let ended = if item.base_version.is_some() {
            self.examine(order, at, random)
        } else {
            match turn(&item.dependencies, |id| states.get(&id).copied()) {
                Turn::Waits => None,
                Turn::Begins => self.begin(order, at, random),
                Turn::Skipped(_) => Some(Err(Failure::ExecutionSkipped)),
            }
        };
        match ended {
            None => false,
            Some(ended) => {
                self.end(order, at, ended);
                true
            }
        }
    }

    /// It is its turn: then what it names is there, and nobody of its order names what it deletes.
    fn check_turn(&self, order: usize, at: usize) {
        let items = &self.orders[order];
        let item = &items[at];
        for other in items {
            let names_it = || {
                let names = named(&self.entity, &object(item.attributes.clone()));
                names.contains(&other.instance)
            };
            let is_early = match (item.action, other.action) {
                (Action::Create | Action::Update, Action::Create) => {
                    names_it() && !self.instances.contains_key(&other.instance)
                }
                (Action::Delete, Action::Create) => false,
                // Whoever is deleted may name it until the end, but has ended.
                (Action::Delete, _) if other.instance != item.instance => {
                    let names = self.base_names(other.instance);
                    self.is_alive(other.instance) && names.contains(&item.instance)
                }
                _ => false,
            };
            if is_early && !self.is_noisy {
                let what = format!(
                    "{} begins before {} has ended",
                    item.instance, other.instance
                );
                self.fail(&what);
            }
        }
    }

    fn begin(&mut self, order: usize, at: usize, random: &mut Random) -> Ended {
        self.check_turn(order, at);
        let invalid = Some(Err(Failure::InvalidOrderItem));
        let item = &self.orders[order][at];
        let (instance, action, correlation_id) = (item.instance, item.action, item.correlation_id);
        let found = self.instances.get(&instance);
        let version = found.map_or(0, |found| found.version);
        let missing = |names: BTreeSet<Uuid>| names.iter().any(|id| !self.is_alive(*id));
        match (action, found) {
            (Action::Create, None) => {
                if missing(named(&self.entity, &object(item.attributes.clone()))) {
                    return invalid;
                }
            }
            (Action::Create, Some(_)) | (_, None) => return invalid,
            (Action::Delete, Some(_)) => {}
            (Action::Update, Some(found)) => {
                let nothing = Attributes::new();
                let base = found.base().unwrap_or(&nothing);
                let change = Change::Edits(item.edits.clone());
                let Ok(after) = attributes::update(&self.entity, base, &change) else {
                    return invalid;
                };
                if after == *base && !found.deleted {
                    return Some(Ok(()));
                }
                let known = named(&self.entity, base);
                let new = named(&self.entity, &after);
                if missing(new.difference(&known).copied().collect()) {
                    return invalid;
                }
            }
        }
        let item = &mut self.orders[order][at];
        item.base_version = Some(version);
        item.state = ItemState::InProgress;
        let trigger = match action {
            Action::Create => None,
            Action::Update => Some(Trigger::Updated {
                change: Change::Edits(item.edits.clone()),
                comment: None,
            }),
            Action::Delete => Some(Trigger::Deleted),
        };
        if self.is_noisy && !self.is_settling && random.percent(5) {
            self.note(format!("crash before {instance} changes"));
            return None;
        }
        let changed = match trigger {
            Some(trigger) => self
                .happens(instance, trigger, Some(version), correlation_id)
                .is_ok(),
            None => self.create(order, at),
        };
        match changed {
            true => self.examine_once(order, at),
            false => invalid,
        }
    }

    fn create(&mut self, order: usize, at: usize) -> bool {
        let item = &self.orders[order][at];
        let given = object(item.attributes.clone());
        let Ok(attributes) = attributes::create(&self.entity, given) else {
            return false;
        };
        let transfers = self.entity.lifecycle.transfers.iter();
        let switches = transfers.filter_map(|transfer| transfer.config_name.clone());
        let new = NewInstance {
            id: item.instance,
            environment: id(2),
            attributes,
            initial_state: None,
            config: switches.map(|name| (name, true)).collect(),
            correlation_id: item.correlation_id,
        };
        let (instance, correlation_id) = (item.instance, self.fresh());
        self.n_ids += 1;
        let now = Moment(i64::try_from(self.n_ids).unwrap());
        let decision = create(&self.entity, new, now).unwrap();
        self.log
            .insert(instance, decision.instance.iter().cloned().collect());
        if let Some(known_result) = self.store(instance, decision) {
            let trigger = Trigger::Auto { known_result };
            let taken = self.happens(instance, trigger, None, correlation_id);
            assert!(taken.is_ok(), "nobody is refused what comes by itself");
        }
        // As for an effect of its own, the log has one record of the first version.
        self.log
            .get_mut(&instance)
            .unwrap()
            .dedup_by_key(|one| one.version);
        true
    }

    fn examine(&mut self, order: usize, at: usize, random: &mut Random) -> Ended {
        let item = &self.orders[order][at];
        let events = self.events.get(&item.instance).into_iter().flatten();
        let is_ours = |event: &Event| event.event_correlation_id == item.correlation_id;
        let base = item.base_version.unwrap();
        let mut events = events.filter(|event| event.service_instance_version >= base);
        match events.any(|event| is_ours(event) && event.destination.is_some()) {
            true => self.examine_once(order, at),
            false => self.begin(order, at, random),
        }
    }

    fn examine_once(&self, order: usize, at: usize) -> Ended {
        let item = &self.orders[order][at];
        let base = item.base_version.unwrap();
        let events = self.events.get(&item.instance).into_iter().flatten();
        let events: Vec<&Event> = events
            .filter(|event| event.service_instance_version >= base)
            .collect();
        let log = self.log.get(&item.instance).into_iter().flatten();
        let log: Vec<Instance> = log.filter(|one| one.version > base).cloned().collect();
        let steps = steps(log, &events, item.correlation_id);
        if steps.iter().any(|step| step.is_foreign) && !self.is_noisy {
            self.fail("nobody else changed anything");
        }
        let instance = self.instances.get(&item.instance);
        let edits: &[Edit] = match item.action {
            Action::Update => &item.edits,
            Action::Create | Action::Delete => &[],
        };
        let entity = &self.entity;
        match progress(entity, item.action, edits, instance, &steps) {
            Progress::Running => None,
            Progress::Completed => Some(Ok(())),
            Progress::Failed(failure, _) => Some(Err(failure)),
        }
    }

    /// Notes how an item ended, and looks whether that is so.
    fn end(&mut self, order: usize, at: usize, ended: Result<(), Failure>) {
        let item = &mut self.orders[order][at];
        assert!(!item.state.has_ended());
        item.state = match ended {
            Ok(()) => ItemState::Completed,
            Err(_) => ItemState::Failed,
        };
        item.failure = ended.err();
        let what = format!("{:?} {} ends: {ended:?}", item.action, item.instance);
        self.note(what);
        let items = &self.orders[order];
        let item = &items[at];
        let instance = self.instances.get(&item.instance);
        let is_so = match (ended, item.action) {
            (Ok(()), Action::Delete) => {
                let mut log = self.log[&item.instance].iter();
                let is_end = |one: &Instance| {
                    let state = self.entity.lifecycle.state(&one.state);
                    state.is_some_and(|state| state.deleted)
                };
                log.any(is_end)
            }
            (Ok(()), Action::Create | Action::Update) => {
                let base = instance.and_then(Instance::base);
                let base = base.map(|set| set["mbps"].as_u64());
                // An update to what is there already completes wherever the instance is.
                let is_nothing = item.base_version.is_none() && base == Some(Some(item.mbps));
                // It was good with what was ordered, whatever has become of it before anybody looked.
                let is_good = |one: &Instance| {
                    let state = self.entity.lifecycle.state(&one.state);
                    let in_force = one.set(SetName::Active).map(|set| set["mbps"].as_u64());
                    state.is_some_and(|state| state.label == Some(Label::Success))
                        && in_force == Some(Some(item.mbps))
                };
                let mut log = self.log[&item.instance].iter();
                is_nothing || log.any(|one| Some(one.version) > item.base_version && is_good(one))
            }
            (Err(Failure::ExecutionSkipped), _) => item.dependencies.iter().any(|id| {
                let mut others = items.iter();
                others.any(|other| other.instance == *id && other.state == ItemState::Failed)
            }),
            (Err(Failure::Inconclusive), _) => self.is_noisy,
            (Err(_), _) => true,
        };
        if !is_so {
            self.fail("that is not so");
        }
    }

    /// Nothing more comes from outside; what is under way goes on.
    fn settle(&mut self, random: &mut Random) {
        self.is_settling = true;
        for _ in 0..ENOUGH {
            for order in 0..self.orders.len() {
                self.look(order, random);
            }
            if self.validation_ends(random) {
                continue;
            }
            let versions = |server: &Self| -> Vec<u64> {
                let all = server.instances.values();
                all.map(|one| one.version).collect()
            };
            let before = versions(self);
            // Where a model does not compile, nothing is deployed; in a noisy world it did before.
            if self.is_noisy || self.compiles(Purpose::Production) {
                let all: Vec<Uuid> = self.instances.keys().copied().collect();
                all.into_iter()
                    .for_each(|at| self.deployment_ends(at, true));
            }
            if versions(self) == before && self.validations.is_empty() {
                self.is_settling = false;
                return;
            }
        }
        self.fail("it never comes to rest");
    }

    /// All is at rest: then every order has ended, but for items whose instances wait for people.
    fn check_rest(&self) {
        for items in &self.orders {
            let state = order_state(items.iter().map(|item| item.state));
            let has_ended = items.iter().all(|item| item.state.has_ended());
            assert_eq!(has_ended, state != "in_progress");
            let waits_for_people = |item: &Item| {
                let instance = &self.instances[&item.instance];
                let mut leaving = self.entity.lifecycle.leaving(&instance.state);
                leaving.any(|one| one.api_set_state)
            };
            let mut open = items
                .iter()
                .filter(|item| item.state == ItemState::InProgress);
            if !has_ended && (!self.is_noisy || !open.all(waits_for_people)) {
                self.fail("an order never ends");
            }
            if self.is_noisy {
                continue;
            }
            let waits = items
                .iter()
                .map(|item| (item.instance, item.dependencies.as_slice()));
            let mut hopeless = in_circles(&waits.collect());
            loop {
                let more = items.iter().filter(|item| {
                    !hopeless.contains(&item.instance)
                        && item.dependencies.iter().any(|id| hopeless.contains(id))
                });
                let more: Vec<Uuid> = more.map(|item| item.instance).collect();
                if more.is_empty() {
                    break;
                }
                hopeless.extend(more);
            }
            for item in items {
                let is_good = item.state == ItemState::Completed;
                if is_good == hopeless.contains(&item.instance) {
                    let what = format!(
                        "{} of {:?} came to {:?}",
                        item.instance, item.action, item.failure
                    );
                    self.fail(&what);
                }
            }
        }
    }

    /// Other clients, and what fails by itself.
    fn noise(&mut self, random: &mut Random) {
        let all: Vec<Uuid> = self.instances.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let at = *random.pick(&all);
        let correlation_id = self.fresh();
        match random.below(100) {
            0..35 => drop(self.validation_ends(random)),
            35..80 => self.deployment_ends(at, random.percent(75)),
            80..90 => {
                self.note(format!("{at}: somebody updates it"));
                let edits = vec![edit(
                    EditOperation::Replace,
                    "mbps",
                    json!(random.next() % 1000),
                )];
                let trigger = Trigger::Updated {
                    change: Change::Edits(edits),
                    comment: None,
                };
                let _ = self.happens(at, trigger, None, correlation_id);
            }
            90..95 => {
                self.note(format!("{at}: somebody deletes it"));
                let _ = self.happens(at, Trigger::Deleted, None, correlation_id);
            }
            _ => {
                let states = &self.entity.lifecycle.states;
                let target = states[random.below(states.len())].name.clone();
                self.note(format!("{at}: somebody asks for {target}"));
                let trigger = crate::support::set_state(&target);
                let _ = self.happens(at, trigger, None, correlation_id);
            }
        }
    }
}

fn play(seed: u64, lifecycles: &[&Value]) -> (usize, [usize; 1]) {
    let mut random = Random(seed);
    let is_noisy = random.percent(50);
    let lifecycle = *random.pick(lifecycles);
    let mut server = Server::new(lifecycle, is_noisy, &mut random);
    let mut n_steps = 0;
    while n_steps < STEPS_A_ROUND {
        server.order(&mut random);
        let n_noises = if is_noisy { random.below(40) } else { 0 };
        for _ in 0..n_noises {
            server.noise(&mut random);
            // Some looks come late.
            for order in 0..server.orders.len() {
                if random.percent(70) {
                    server.look(order, &mut random);
                }
            }
        }
        n_steps += 10 + n_noises;
        if !is_noisy || random.percent(30) {
            server.settle(&mut random);
            server.check_rest();
        }
        if server.instances.len() > 12 {
            break;
        }
    }
    server.settle(&mut random);
    server.check_rest();
    let all = server.orders.iter().flatten();
    let n_completed = all.filter(|item| item.state == ItemState::Completed);
    (n_steps, [n_completed.count()])
}

//: lsm 104
#[test]
fn orders_end_as_the_specification_says_whatever_happens_to_their_instances() {
    let (n_done, [n_completed]) = rounds(STEPS, play);
    println!("{n_done} steps, {n_completed} items completed");
    assert!(n_completed > n_done / 100, "too little happens");
}
