//! Definitions out of JSON. Every mistake is found in one reading: what is wrong is noted, and a default takes its place.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    EmbeddedEntity, EntityAttribute, Fields, InterServiceRelation, Label, Lifecycle, Modifier,
    Operation, ServiceEntity, SetName, State, Transfer,
};
use crate::Problems;

/// How deep embedded entities may be nested: definitions of people have three or four levels, and each one costs stack.
const MAX_DEPTH: usize = 64;

pub(super) fn service_entity(value: &Value) -> Result<ServiceEntity, Problems> {
    let mut problems = Problems::default();
    let record = Record::new(value, String::new(), &mut problems);
    let entity = ServiceEntity {
        name: record.text("name", &mut problems),
        version: record.number("version", &mut problems).unwrap_or(0),
        description: record.optional_text("description", &mut problems),
        fields: fields(&record, 0, &mut problems),
        lifecycle: lifecycle(&record, &mut problems),
        config: switches(&record, &mut problems),
        service_identity: record.optional_text("service_identity", &mut problems),
        service_identity_display_name: record
            .optional_text("service_identity_display_name", &mut problems),
        strict_modifier_enforcement: record.flag("strict_modifier_enforcement", &mut problems),
        owner: record.optional_text("owner", &mut problems),
        relation_to_owner: record.optional_text("relation_to_owner", &mut problems),
        owned_entities: record
            .texts("owned_entities", &mut problems)
            .unwrap_or_default(),
    };
    problems.or(entity)
}

fn fields(record: &Record<'_>, depth: usize, problems: &mut Problems) -> Fields {
    if depth > MAX_DEPTH {
        problems.add(
            &record.path,
            format!("is nested more than {MAX_DEPTH} levels deep"),
        );
        return Fields::default();
    }
    let attributes = record.records("attributes", problems);
    let embedded = record.records("embedded_entities", problems);
    let relations = record.records("inter_service_relations", problems);
    Fields {
        attributes: attributes
            .iter()
            .map(|one| attribute(one, problems))
            .collect(),
        embedded_entities: embedded
            .iter()
            .map(|one| embedded_entity(one, depth + 1, problems))
            .collect(),
        inter_service_relations: relations
            .iter()
            .map(|one| relation(one, problems))
            .collect(),
        key_attributes: record.texts("key_attributes", problems),
        entity_annotations: record
            .map("entity_annotations", problems)
            .unwrap_or_default(),
    }
}

fn attribute(record: &Record<'_>, problems: &mut Problems) -> EntityAttribute {
    EntityAttribute {
        name: record.text("name", problems),
        value_type: record.text("type", problems),
        description: record.optional_text("description", problems),
        modifier: modifier(record, problems),
        default_value: record.get("default_value").cloned().unwrap_or(Value::Null),
        default_value_set: record.flag("default_value_set", problems),
        validation_type: record.optional_text("validation_type", problems),
        validation_parameters: record.map("validation_parameters", problems),
        attribute_annotations: record
            .map("attribute_annotations", problems)
            .unwrap_or_default(),
    }
}

fn embedded_entity(record: &Record<'_>, depth: usize, problems: &mut Problems) -> EmbeddedEntity {
    EmbeddedEntity {
        name: record.text("name", problems),
        entity_type: record.optional_text("type", problems),
        description: record.optional_text("description", problems),
        modifier: modifier(record, problems),
        lower_limit: record.number("lower_limit", problems).unwrap_or(0),
        upper_limit: record.number("upper_limit", problems),
        fields: fields(record, depth, problems),
        attribute_annotations: record
            .map("attribute_annotations", problems)
            .unwrap_or_default(),
    }
}

fn relation(record: &Record<'_>, problems: &mut Problems) -> InterServiceRelation {
    InterServiceRelation {
        name: record.text("name", problems),
        entity_type: record.text("entity_type", problems),
        description: record.optional_text("description", problems),
        lower_limit: record.number("lower_limit", problems).unwrap_or(0),
        upper_limit: record.number("upper_limit", problems),
        modifier: modifier(record, problems),
        attribute_annotations: record
            .map("attribute_annotations", problems)
            .unwrap_or_default(),
    }
}

/// Without one, something is set when the instance is created.
fn modifier(record: &Record<'_>, problems: &mut Problems) -> Modifier {
    let all = [Modifier::ReadOnly, Modifier::AtCreation, Modifier::Always];
    let parse = |text: &str| all.into_iter().find(|one| one.as_str() == text);
    record
        .word("modifier", "r, rw or rw+", parse, problems)
        .unwrap_or(Modifier::AtCreation)
}

fn lifecycle(record: &Record<'_>, problems: &mut Problems) -> Lifecycle {
    let missing = Value::Null;
    let value = record.get("lifecycle").unwrap_or(&missing);
    let record = Record::new(value, record.path_of("lifecycle"), problems);
    let states = record.records("states", problems);
    let transfers = record.records("transfers", problems);
    Lifecycle {
        name: record.text("name", problems),
        initial_state: record.text("initial_state", problems),
        alternative_initial_states: record
            .texts("alternative_initial_states", problems)
            .unwrap_or_default(),
        states: states.iter().map(|one| state(one, problems)).collect(),
        transfers: transfers
            .iter()
            .map(|one| transfer(one, problems))
            .collect(),
    }
}

fn state(record: &Record<'_>, problems: &mut Problems) -> State {
    let label = "success, info, warning or danger";
    State {
        name: record.text("name", problems),
        label: record.word("label", label, Label::parse, problems),
        export_resources: record.flag("export_resources", problems),
        validate_self: set_name(record, "validate_self", problems),
        validate_others: set_name(record, "validate_others", problems),
        purge_resources: record.flag("purge_resources", problems),
        deleted: record.flag("deleted", problems),
        values: record.map("values", problems).unwrap_or_default(),
        previous_attr_set_on_validate: set_name(record, "previous_attr_set_on_validate", problems),
        previous_attr_set_on_export: set_name(record, "previous_attr_set_on_export", problems),
        annotations: record.map("annotations", problems).unwrap_or_default(),
    }
}

fn transfer(record: &Record<'_>, problems: &mut Problems) -> Transfer {
    Transfer {
        source: record.text("source", problems),
        target: record.text("target", problems),
        error: record.optional_text("error", problems),
        auto: record.flag("auto", problems),
        validate: record.flag("validate", problems),
        api_set_state: record.flag("api_set_state", problems),
        on_update: record.flag("on_update", problems),
        on_delete: record.flag("on_delete", problems),
        resource_based: record.flag("resource_based", problems),
        config_name: record.optional_text("config_name", problems),
        description: record
            .optional_text("description", problems)
            .unwrap_or_default(),
        target_operation: operation(record, "target_operation", problems),
        error_operation: operation(record, "error_operation", problems),
        target_same_desired_state: record.flag("target_same_desired_state", problems),
        error_same_desired_state: record.flag("error_same_desired_state", problems),
        annotations: record.map("annotations", problems).unwrap_or_default(),
    }
}

fn set_name(record: &Record<'_>, name: &str, problems: &mut Problems) -> Option<SetName> {
    record.word(
        name,
        "candidate, active or rollback",
        SetName::parse,
        problems,
    )
}

fn operation(record: &Record<'_>, name: &str, problems: &mut Problems) -> Option<Operation> {
    let known = "promote, rollback, clear candidate, clear active or clear rollback";
    record.word(name, known, Operation::parse, problems)
}

fn switches(record: &Record<'_>, problems: &mut Problems) -> BTreeMap<String, bool> {
    let mut found = BTreeMap::new();
    for (name, value) in record.map("config", problems).unwrap_or_default() {
        match value.as_bool() {
            Some(value) => drop(found.insert(name, value)),
            None => problems.add(record.path_of(&format!("config.{name}")), "must be a bool"),
        }
    }
    found
}

/// An object, and where it stands.
struct Record<'v> {
    map: Option<&'v Map<String, Value>>,
    path: String,
}

impl<'v> Record<'v> {
    fn new(value: &'v Value, path: String, problems: &mut Problems) -> Self {
        let map = value.as_object();
        if map.is_none() {
            problems.add(&path, "must be an object");
        }
        Self { map, path }
    }

    /// What is there; null is as good as nothing.
    fn get(&self, name: &str) -> Option<&'v Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// A value that `take` understands.
    fn take<T>(
        &self,
        name: &str,
        wanted: &str,
        take: impl Fn(&'v Value) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        let value = self.get(name)?;
        let taken = take(value);
        if taken.is_none() {
            problems.add(self.path_of(name), format!("must be {wanted}"));
        }
        taken
    }

    fn optional_text(&self, name: &str, problems: &mut Problems) -> Option<String> {
        let take = |value: &Value| value.as_str().map(str::to_owned);
        self.take(name, "a string", take, problems)
    }

    /// A text that must be there, and not empty.
    fn text(&self, name: &str, problems: &mut Problems) -> String {
        // Of something that is no object nothing else is wrong.
        if self.map.is_some() && self.get(name).is_none_or(|value| value == "") {
            problems.add(self.path_of(name), "is missing");
        }
        self.optional_text(name, problems).unwrap_or_default()
    }

    fn number(&self, name: &str, problems: &mut Problems) -> Option<u64> {
        self.take(name, "an integer from 0", Value::as_u64, problems)
    }

    fn flag(&self, name: &str, problems: &mut Problems) -> bool {
        self.take(name, "a bool", Value::as_bool, problems)
            .unwrap_or(false)
    }

    fn map(&self, name: &str, problems: &mut Problems) -> Option<Map<String, Value>> {
        let take = |value: &Value| value.as_object().cloned();
        self.take(name, "an object", take, problems)
    }

    fn word<T>(
        &self,
        name: &str,
        known: &str,
        parse: impl Fn(&str) -> Option<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        self.take(name, known, |value| parse(value.as_str()?), problems)
    }

    fn texts(&self, name: &str, problems: &mut Problems) -> Option<Vec<String>> {
        let take = |value: &Value| {
            let items = value.as_array()?.iter();
            items.map(|item| item.as_str().map(str::to_owned)).collect()
        };
        self.take(name, "a list of strings", take, problems)
    }

    fn records(&self, name: &str, problems: &mut Problems) -> Vec<Record<'v>> {
        let items = self.take(name, "a list of objects", Value::as_array, problems);
        let items = items.into_iter().flatten().enumerate();
        let path = |at: usize| format!("{}[{at}]", self.path_of(name));
        items
            .map(|(at, item)| Record::new(item, path(at), problems))
            .collect()
    }
}
