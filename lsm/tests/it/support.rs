//! Definitions and instances for tests, and a small inventory of one instance that obeys decisions.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use steward_lsm::lifecycle::{
    Change, Decision, Edge, Edit, EditOperation, Effect, Event, NewInstance, Next, Refusal,
    Request, Settings, Trigger, Validation, create, decide,
};
use steward_lsm::{Attributes, Instance, Moment, ServiceEntity, attributes};
use uuid::Uuid;

pub fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

pub fn lifecycle(name: &str) -> Value {
    fixture("lifecycles.json")[name].clone()
}

/// A service with the attributes that are given, a lifecycle of the fixtures, and strict modifiers.
pub fn service(lifecycle_name: &str, fields: Value) -> ServiceEntity {
    let mut record = json!({
        "name": "uplink",
        "lifecycle": lifecycle(lifecycle_name),
        "strict_modifier_enforcement": true,
    });
    record.as_object_mut().unwrap().extend(object(fields));
    entity(&record)
}

#[track_caller]
pub fn entity(record: &Value) -> ServiceEntity {
    let entity = ServiceEntity::from_value(record).unwrap();
    entity.check().unwrap();
    entity
}

/// A service with one attribute that can change.
pub fn uplink(lifecycle_name: &str) -> ServiceEntity {
    let attributes = json!([
        {"name": "mbps", "type": "int", "modifier": "rw+"},
        {"name": "vlan", "type": "int?", "modifier": "r", "default_value_set": true},
    ]);
    service(lifecycle_name, json!({"attributes": attributes}))
}

pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

pub fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub fn edit(operation: EditOperation, target: &str, value: Value) -> Edit {
    let edit_id = format!("{target}/{operation:?}");
    Edit {
        edit_id,
        operation,
        target: target.to_owned(),
        value,
    }
}

/// An instance and what the server does with decisions about it.
pub struct World {
    pub entity: ServiceEntity,
    pub settings: Settings,
    pub instance: Instance,
    /// Records of the log, one a version.
    pub log: Vec<Instance>,
    pub events: Vec<Event>,
    /// The validations that were asked for and have no result.
    pub validations: Vec<Validation>,
    pub n_compiles: usize,
    clock: i64,
}

impl World {
    #[track_caller]
    pub fn new(entity: ServiceEntity, given: Value) -> Self {
        Self::with(entity, Settings::default(), given)
    }

    #[track_caller]
    pub fn with(entity: ServiceEntity, settings: Settings, given: Value) -> Self {
        let attributes = attributes::create(&entity, object(given)).unwrap();
        let new = NewInstance {
            id: id(1),
            environment: id(2),
            attributes,
            initial_state: None,
            config: [].into(),
            correlation_id: id(3),
        };
        let decision = create(&entity, new, Moment(0)).unwrap();
        let mut world = Self {
            entity,
            settings,
            instance: decision.instance.clone().unwrap(),
            log: Vec::new(),
            events: Vec::new(),
            validations: Vec::new(),
            n_compiles: 0,
            clock: 0,
        };
        world.obey(decision);
        world
    }

    /// Something happens, with the version that there is, and so does all that comes of it by itself.
    #[track_caller]
    pub fn happens(&mut self, trigger: Trigger) -> &mut Self {
        self.asks(Some(self.instance.version), trigger).unwrap();
        self
    }

    pub fn asks(&mut self, current_version: Option<u64>, trigger: Trigger) -> Result<(), Refusal> {
        self.clock += 1;
        let request = Request {
            trigger,
            current_version,
            correlation_id: id(1000 + self.clock as u128),
        };
        let now = Moment(self.clock);
        let decision = decide(&self.entity, &self.instance, &request, &self.settings, now)?;
        self.obey(decision);
        Ok(())
    }

    fn obey(&mut self, decision: Decision) {
        if decision.effect == Effect::NewVersion {
            self.log.extend(decision.instance.clone());
        }
        self.instance = decision.instance.unwrap_or_else(|| self.instance.clone());
        self.events.extend(decision.events);
        for next in decision.next {
            match next {
                Next::Validate(validation) => self.validations.push(validation),
                Next::Compile { .. } => self.n_compiles += 1,
                Next::FireAuto { known_result } => {
                    let trigger = Trigger::Auto { known_result };
                    self.asks(None, trigger).unwrap();
                }
            }
        }
    }

    /// The validation that was asked for last ends.
    #[track_caller]
    pub fn validated(&mut self, succeeded: bool) -> &mut Self {
        let validation = self.validations.pop().expect("a validation was asked for");
        let trigger = Trigger::Validated {
            edge: validation.edge,
            cause: validation.cause,
            version: validation.version,
            succeeded,
            compile: id(77),
        };
        self.asks(None, trigger).unwrap();
        self
    }

    /// The resources of the desired state of now are deployed, or one failed.
    #[track_caller]
    pub fn reported(&mut self, succeeded: bool) -> &mut Self {
        let next_version = self.instance.desired_state_version;
        self.asks(
            None,
            Trigger::Reported {
                next_version,
                succeeded,
            },
        )
        .unwrap();
        self
    }

    #[track_caller]
    pub fn updated(&mut self, name: &str, value: Value) -> &mut Self {
        self.happens(update(name, value))
    }

    #[track_caller]
    pub fn set_state(&mut self, target: &str) -> &mut Self {
        self.happens(set_state(target))
    }

    /// `version state C A R`, each set as the value of `mbps`.
    pub fn line(&self) -> String {
        let set = |set: &Option<Attributes>| match set {
            None => "∅".to_owned(),
            Some(set) => set["mbps"].to_string(),
        };
        let Instance { version, state, .. } = &self.instance;
        let [c, a, r] = [
            &self.instance.candidate_attributes,
            &self.instance.active_attributes,
            &self.instance.rollback_attributes,
        ]
        .map(set);
        format!("{version} {state} {c} {a} {r}")
    }

    #[track_caller]
    pub fn is(&mut self, line: &str) -> &mut Self {
        assert_eq!(self.line(), line);
        self
    }
}

pub fn update(name: &str, value: Value) -> Trigger {
    let edits = vec![edit(EditOperation::Replace, name, value)];
    Trigger::Updated {
        change: Change::Edits(edits),
        comment: None,
    }
}

pub fn set_state(target: &str) -> Trigger {
    Trigger::SetState {
        target: target.to_owned(),
        message: None,
    }
}

/// An edge, for validations that a test makes up.
pub fn edge(source: &str, target: &str, error: &str) -> Edge {
    Edge {
        source: source.to_owned(),
        target: target.to_owned(),
        error: Some(error.to_owned()),
    }
}

/// The paths of the fields that are refused.
pub fn paths(problems: &steward_lsm::Problems) -> Vec<&str> {
    problems
        .0
        .iter()
        .map(|problem| problem.path.as_str())
        .collect()
}

/// VPNs with sites, each with a router of another service and with peers.
pub fn vpn(is_strict: bool) -> ServiceEntity {
    let asn = json!({"ge": 1, "le": 4_294_967_295_u32});
    let routing = json!({"names": {"static": "static", "bgp": "bgp"}, "value": "vpn::routing"});
    let peers = json!({
        "name": "peers", "modifier": "rw+", "key_attributes": ["address"],
        "attributes": [
            {"name": "address", "type": "string", "validation_type": "ipaddress.IPv4Address"},
            {"name": "remote_as", "type": "int", "modifier": "rw+",
             "validation_type": "pydantic.conint", "validation_parameters": asn},
        ],
    });
    let sites = json!({
        "name": "sites", "modifier": "rw+", "lower_limit": 1, "upper_limit": 3, "key_attributes": ["name"],
        "attributes": [
            {"name": "name", "type": "string"},
            {"name": "routing", "type": "string", "modifier": "rw+", "default_value": "static",
             "default_value_set": true, "validation_type": "enum", "validation_parameters": routing},
            {"name": "vlan", "type": "int?", "modifier": "r", "default_value_set": true,
             "validation_type": "pydantic.conint?", "validation_parameters": {"ge": 1, "lt": 4095}},
        ],
        "embedded_entities": [peers],
        "inter_service_relations": [
            {"name": "router", "entity_type": "router", "lower_limit": 1, "upper_limit": 1},
        ],
    });
    let contact = json!({
        "name": "contact", "upper_limit": 1,
        "attributes": [{"name": "mail", "type": "string", "modifier": "rw+"}],
    });
    entity(&json!({
        "name": "vpn",
        "attributes": [
            {"name": "customer", "type": "string", "validation_type": "pydantic.constr",
             "validation_parameters": {"regex": "^[A-Z]{3}[0-9]{2}$"}},
            {"name": "route_target", "type": "int?", "modifier": "r", "default_value_set": true},
            {"name": "note", "type": "string?", "modifier": "rw+"},
            {"name": "tags", "type": "string[]", "modifier": "rw+", "default_value": [], "default_value_set": true},
        ],
        "embedded_entities": [sites, contact],
        "inter_service_relations": [
            {"name": "backups", "entity_type": "vpn", "modifier": "rw+", "upper_limit": 2},
        ],
        "lifecycle": lifecycle("simple"),
        "service_identity": "customer",
        "strict_modifier_enforcement": is_strict,
    }))
}
