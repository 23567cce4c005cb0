//! The service inventory, as a compile sees it and as it leaves it.
//!
//! A compile is a function of a commit, locked modules and inputs, so it never asks the inventory: the instances come with
//! the request ([`ServicesInput`]), and what the module `lsm` would write is part of the answer ([`ServicesOutput`]), which
//! whoever asked applies. Source: docs/reference/lsm.md § 4 and § 5.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::Variables;

/// Which service instances there are, and what the compile is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServicesInput {
    /// What the compile is for.
    pub purpose: ServicePurpose,
    /// The ids of the instances that a partial compile is for; `None`: the compile is one of everything.
    pub requested: Option<Vec<String>>,
    /// Which services are owned by another one, by their names.
    pub owners: BTreeMap<String, ServiceOwner>,
    /// Versions of services that have another owner than that, by their numbers; `None`: they have none.
    pub owners_of_versions: BTreeMap<String, BTreeMap<String, Option<ServiceOwner>>>,
    /// All instances of the environment, terminated ones included, by the names of their services; with `has_more` those
    /// only that the requested ones belong with: their trees of owners, each as a whole.
    pub instances: ServiceInstances,
    /// There are other instances, which are asked for when the model wants them: see [`ServiceInventory`]. So what a partial
    /// compile is given does not grow with the inventory.
    pub has_more: bool,
}

/// Instances by the names of their services.
pub type ServiceInstances = BTreeMap<String, Vec<ServiceInstance>>;

/// What a compile wants to know of instances that it was not given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceQuestion {
    /// All instances of the service with this name, terminated ones included.
    Service(String),
    /// The instance with this id, of whatever service.
    Instance(String),
    /// The values that a path finds in the attributes of a service's instances: less than the instances, and known without
    /// reading them.
    Values {
        /// The name of the service.
        service: String,
        /// A dict path, with wildcards or without.
        path: String,
        /// The ids of instances that are left out: those that the compile knows itself, and may have changed.
        without: BTreeSet<String>,
    },
    /// A number of a range that no instance of the service has at a path: what an allocator takes from a pool. All values would
    /// do as well, but there is one for each instance, and the number is found without a look at them.
    FreeNumber {
        /// The name of the service.
        service: String,
        /// A dict path, with wildcards or without.
        path: String,
        /// As above.
        without: BTreeSet<String>,
        /// Numbers that are taken besides: those of the instances `without`.
        taken: Vec<i64>,
        /// The smallest number of the range.
        lower: i64,
        /// The largest one.
        upper: i64,
        /// Which of the free numbers it is: the remainder of this by how many there are, counted from the smallest.
        draw: u64,
    },
}

/// The answer to a [`ServiceQuestion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAnswer {
    /// The instances that it is about; none if there are none.
    Instances(ServiceInstances),
    /// The values that are not null, of all attribute sets of instances that have not ended.
    Values(Vec<serde_json::Value>),
    /// The free number; `None`: all are taken.
    FreeNumber(Option<i64>),
}

impl ServiceAnswer {
    /// As Python gets it: the text of a dict or a list, which has one element or none if it is about a number.
    ///
    /// # Errors
    /// It can not be written as JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        match self {
            Self::Instances(instances) => serde_json::to_string(instances),
            Self::Values(values) => serde_json::to_string(values),
            Self::FreeNumber(number) => serde_json::to_string(number.as_slice()),
        }
    }
}

/// Has all instances of an environment, for compiles that were given some ([`ServicesInput::has_more`]).
pub trait ServiceInventory: std::fmt::Debug + Send + Sync {
    /// Answers a question.
    ///
    /// # Errors
    /// Why it can not be answered, for people.
    fn ask(&self, question: ServiceQuestion) -> Result<ServiceAnswer, String>;
}

/// Whose resource sets the instances of a service are part of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceOwner {
    /// The name of the owning service.
    pub owner: String,
    /// The relation of the owned service that holds the id of the owning instance.
    pub relation: String,
}

/// What a compile that sees services is for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ServicePurpose {
    /// The desired state.
    #[default]
    Production,
    /// To see whether one instance may go on in its lifecycle. Nothing is exported.
    Validation {
        /// The id of the instance.
        instance: String,
        /// The version of the instance when the validation was asked for.
        version: u64,
    },
    /// The definitions of services. The model sees no instance.
    Definitions,
}

/// One ordered service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceInstance {
    /// A UUID.
    pub id: String,
    /// The version of the definition that it follows.
    #[serde(default)]
    pub service_entity_version: u64,
    /// How often it has changed, from 1.
    pub version: u64,
    /// How often its desired state has changed, from 1.
    #[serde(default = "first")]
    pub desired_state_version: u64,
    /// The name of its state.
    pub state: String,
    /// What is asked for and not accepted yet.
    #[serde(default)]
    pub candidate_attributes: Option<Attributes>,
    /// What is to be deployed.
    #[serde(default)]
    pub active_attributes: Option<Attributes>,
    /// What was deployed before the update that is under way.
    #[serde(default)]
    pub rollback_attributes: Option<Attributes>,
    /// Its own values for switches of the lifecycle.
    #[serde(default)]
    pub config: BTreeMap<String, bool>,
    /// Whether it has ended.
    #[serde(default)]
    pub deleted: bool,
}

/// A complete set of attributes.
pub type Attributes = serde_json::Map<String, serde_json::Value>;

/// Counters of an instance begin here.
fn first() -> u64 {
    1
}

/// The variables among [`ServicesInput::variables`] that differ from instance to instance. Python modules that were imported for
/// one compile serve others with other values of these, unless they read them while they were imported.
pub const CHANGING_VARIABLES: [&str; 3] = [
    "inmanta_instance_id",
    "inmanta_instance_version",
    "INMANTA_REMOVED_RESOURCE_SET_ID",
];

impl ServicesInput {
    /// The variables by which models and their Python code know what a compile is for.
    /// Source: docs/reference/lsm.md § 3.8.
    #[must_use]
    pub fn variables(&self) -> Variables {
        let mut variables = Variables::new();
        let mut set = |name: &str, value: String| {
            variables.insert(name.to_owned(), value);
        };
        match &self.purpose {
            ServicePurpose::Production => {
                set("inmanta_model_state", "active".to_owned());
                if let Some(requested) = &self.requested {
                    set("inmanta_instance_id", requested.join(" "));
                }
            }
            ServicePurpose::Validation { instance, version } => {
                set("inmanta_model_state", "candidate".to_owned());
                set("inmanta_instance_id", instance.clone());
                set("inmanta_instance_version", version.to_string());
            }
            ServicePurpose::Definitions => set("lsm_no_instances", "true".to_owned()),
        }
        let is_partial = if self.requested.is_some() {
            "True"
        } else {
            "False"
        };
        set("inmanta_lsm_partial_compile", is_partial.to_owned());
        variables
    }
}

impl ServiceInstance {
    /// The value of an attribute in the first set that has something in it. Source: docs/reference/lsm.md § 4.5.
    fn newest(&self, attribute: &str) -> Option<&serde_json::Value> {
        let sets = [
            &self.candidate_attributes,
            &self.active_attributes,
            &self.rollback_attributes,
        ];
        let mut filled = sets.into_iter().flatten().filter(|set| !set.is_empty());
        filled.next()?.get(attribute)
    }
}

impl ServicesInput {
    /// The ids of the instances at the top of the trees of owners that the requested instances belong to, which are the names
    /// of the trees' resource sets. An owner that is not here, or a circle of owners, ends the search: the compile says what
    /// is wrong with it. Source: docs/reference/lsm.md § 4.5.
    #[must_use]
    pub fn roots(&self) -> Vec<String> {
        let all = self.instances.iter().flat_map(|(service, instances)| {
            let instances = instances.iter();
            instances.map(move |instance| (instance.id.as_str(), (service.as_str(), instance)))
        });
        let by_id: HashMap<&str, (&str, &ServiceInstance)> = all.collect();
        let mut roots = BTreeSet::new();
        for requested in self.requested.iter().flatten() {
            let mut at = requested.as_str();
            let mut passed = BTreeSet::new();
            while passed.insert(at) {
                let owner = by_id.get(at).and_then(|(service, instance)| {
                    let owner = self.owner(service, instance)?;
                    instance.newest(&owner.relation)?.as_str()
                });
                match owner {
                    Some(owner) => at = owner,
                    None => break,
                }
            }
            roots.insert(at.to_owned());
        }
        roots.into_iter().collect()
    }

    /// Who owns an instance: what its own version of the service says.
    fn owner(&self, service: &str, instance: &ServiceInstance) -> Option<&ServiceOwner> {
        let version = instance.service_entity_version.to_string();
        let versions = self.owners_of_versions.get(service);
        match versions.and_then(|versions| versions.get(&version)) {
            Some(owner) => owner.as_ref(),
            None => self.owners.get(service),
        }
    }
}

/// What a compile leaves for the service catalog and inventory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServicesOutput {
    /// The definitions that the model has, in the form of docs/reference/lsm.md § 5.3; `None`: the model was not exported,
    /// or does not know services.
    pub definitions: Option<Vec<ServiceDefinitions>>,
    /// In the order in which they were made; also those of a compile that failed.
    pub writes: Vec<ServiceWrite>,
}

/// All versions of the definition of one service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceDefinitions {
    /// The name of the service.
    pub name: String,
    /// The version of instances that name none.
    pub default_version: u64,
    /// Whether the model keeps several versions of it.
    pub is_versioned: bool,
    /// One record for each version.
    pub versions: Vec<serde_json::Value>,
}

/// Something that is written to the inventory, with no effect on the lifecycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceWrite {
    /// Read-only attributes of an instance.
    Attributes {
        /// The name of the service.
        service_entity: String,
        /// The id of the instance.
        instance: String,
        /// The version that the instance had when the compile began; it has another one by now: refused.
        current_version: u64,
        /// Which set they are written into. A candidate set that is not there is first made from the active one.
        set: AttributeSet,
        /// What is written; see [`ServiceEdit`].
        edits: Vec<ServiceEdit>,
    },
    /// A parameter of the environment with values that user interfaces suggest.
    SuggestedValues {
        /// The name of the parameter.
        name: String,
        /// The values.
        values: Vec<serde_json::Value>,
    },
}

/// One of the sets of attributes that an instance has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeSet {
    /// What is asked for and not accepted yet.
    Candidate,
    /// What is to be deployed.
    Active,
}

/// A value at a place of an attribute set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceEdit {
    /// A path as docs/reference/lsm.md § 6 describes them.
    pub target: String,
    /// What is there from now on.
    pub value: serde_json::Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(input: &ServicesInput) -> Vec<String> {
        let variables = input.variables().into_iter();
        variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn the_purpose_of_a_compile_is_what_its_variables_say() {
        let id = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
        let validation = ServicesInput {
            purpose: ServicePurpose::Validation {
                instance: id.to_owned(),
                version: 3,
            },
            requested: Some(vec![id.to_owned()]),
            ..ServicesInput::default()
        };
        let expected = [
            format!("inmanta_instance_id={id}"),
            "inmanta_instance_version=3".to_owned(),
            "inmanta_lsm_partial_compile=True".to_owned(),
            "inmanta_model_state=candidate".to_owned(),
        ];
        assert_eq!(names(&validation), expected);
        let batch = ServicesInput {
            requested: Some(vec!["a".to_owned(), "b".to_owned()]),
            ..ServicesInput::default()
        };
        let expected = [
            "inmanta_instance_id=a b",
            "inmanta_lsm_partial_compile=True",
            "inmanta_model_state=active",
        ];
        assert_eq!(names(&batch), expected);
    }

    #[test]
    fn the_roots_of_instances_are_their_owners_or_they_themselves() {
        let owned = |id: &str, owner: &str| ServiceInstance {
            id: id.to_owned(),
            candidate_attributes: Some(Attributes::new()),
            active_attributes: Some(Attributes::from_iter([(
                "of".to_owned(),
                serde_json::json!(owner),
            )])),
            ..ServiceInstance::default()
        };
        let owner = |name: &str| ServiceOwner {
            owner: name.to_owned(),
            relation: "of".to_owned(),
        };
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(id, of)| owned(id, of)).collect();
        let mut input = ServicesInput {
            owners: BTreeMap::from([
                ("port".to_owned(), owner("card")),
                ("card".to_owned(), owner("site")),
            ]),
            instances: BTreeMap::from([
                ("site".to_owned(), pairs(&[("s", "ignored")])),
                (
                    "card".to_owned(),
                    pairs(&[("c", "s"), ("x", "y"), ("y", "x")]),
                ),
                ("port".to_owned(), pairs(&[("p", "c"), ("q", "nowhere")])),
            ]),
            ..ServicesInput::default()
        };
        for (requested, roots) in [
            (vec!["p", "c", "s"], vec!["s"]),
            (vec!["q", "p"], vec!["nowhere", "s"]),
            (vec!["gone"], vec!["gone"]),
        ] {
            input.requested = Some(requested.into_iter().map(str::to_owned).collect());
            assert_eq!(input.roots(), roots);
        }
        input.requested = Some(vec!["x".to_owned()]);
        assert_eq!(input.roots().len(), 1, "a circle is left");
        // An earlier version has no owner, though it has the relation.
        let versions = BTreeMap::from([("0".to_owned(), None)]);
        input.owners_of_versions = BTreeMap::from([("port".to_owned(), versions)]);
        for (version, root) in [(0, "p"), (1, "s")] {
            let ports = input.instances.get_mut("port").unwrap();
            ports[0].service_entity_version = version;
            input.requested = Some(vec!["p".to_owned()]);
            assert_eq!(input.roots(), [root]);
        }
    }

    #[test]
    fn a_document_of_services_is_typed() {
        let wrong = [
            (r#"{"instance": {}}"#, "unknown field `instance`"),
            (
                r#"{"instances": {"uplink": [{"id": "a", "version": 1}]}}"#,
                "missing field `state`",
            ),
            (
                r#"{"purpose": {"validation": {"instance": "a"}}}"#,
                "missing field `version`",
            ),
        ];
        for (text, reason) in wrong {
            let error = serde_json::from_str::<ServicesInput>(text).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
