//! Orders: changes to several instances in one call. Which item waits for which, and when an item has ended.
//! Source: docs/reference/lsm.md § 5.10.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::attributes::{self, Change, Edit, references};
use crate::definition::{Label, ServiceEntity, Transfer};
use crate::lifecycle::{Event, EventType, is_enabled};
use crate::{Attributes, Instance};

/// What an item does to its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Makes it.
    Create,
    /// Changes its attributes.
    Update,
    /// Deletes it.
    Delete,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Delete];

    /// As it is stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// From its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    /// It has not begun.
    Acknowledged,
    /// Its instance is on its way.
    InProgress,
    /// Its instance is where the item wants it.
    Completed,
    /// It is not, and will not be.
    Failed,
}

impl ItemState {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Acknowledged,
        Self::InProgress,
        Self::Completed,
        Self::Failed,
    ];

    /// As it is stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledged => "acknowledged",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// From its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// Whether nothing more will happen to the item.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// The state of an order, made of those of its items.
#[must_use]
pub fn order_state(items: impl IntoIterator<Item = ItemState>) -> &'static str {
    let (mut n_completed, mut n_failed) = (0, 0);
    for state in items {
        match state {
            ItemState::Acknowledged | ItemState::InProgress => return "in_progress",
            ItemState::Completed => n_completed += 1,
            ItemState::Failed => n_failed += 1,
        }
    }
    match (n_completed, n_failed) {
        (_, 0) => "success",
        (0, _) => "failed",
        _ => "partial",
    }
}

/// Why an item failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// What it asks for is not allowed.
    InvalidOrderItem,
    /// The model does not compile with it.
    ValidationCompileFailed,
    /// The instance ended in a bad state.
    ExecutionFailed,
    /// An item that it depends on failed.
    ExecutionSkipped,
    /// Somebody else changed the instance meanwhile.
    Inconclusive,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::InvalidOrderItem,
        Self::ValidationCompileFailed,
        Self::ExecutionFailed,
        Self::ExecutionSkipped,
        Self::Inconclusive,
    ];

    /// As it is stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidOrderItem => "INVALID_ORDER_ITEM",
            Self::ValidationCompileFailed => "VALIDATION_COMPILE_FAILED",
            Self::ExecutionFailed => "EXECUTION_FAILED",
            Self::ExecutionSkipped => "EXECUTION_SKIPPED",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }

    /// From its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// An item before the order begins, as far as others may have to wait for it.
#[derive(Debug, Clone, Default)]
pub struct Planned {
    /// The instance that it is about.
    pub instance: Uuid,
    /// What it does; `None`: nothing that is known.
    pub action: Option<Action>,
    /// The instances that it names from now on.
    pub names: BTreeSet<Uuid>,
    /// The instances that it names until now.
    pub named: BTreeSet<Uuid>,
}

/// The instances that a set names; attributes that are wrong name nobody, and fail when their item begins.
#[must_use]
pub fn named(entity: &ServiceEntity, attributes: &Attributes) -> BTreeSet<Uuid> {
    let found = references(entity, attributes);
    found.into_iter().map(|found| found.id).collect()
}

/// The instances whose items each item has to wait for, in the order of the items.
///
/// An instance can name another one only when that is there: so what names an instance waits for the item that makes it. And
/// it can be deleted only when nobody names it any more: so that waits for the items that drop those who name it, or the name.
#[must_use]
pub fn dependencies(items: &[Planned]) -> Vec<Vec<Uuid>> {
    let waits = |item: &Planned, other: &Planned| match (item.action, other.action) {
        (Some(Action::Create | Action::Update), Some(Action::Create)) => {
            item.names.contains(&other.instance)
        }
        (Some(Action::Delete), Some(Action::Update | Action::Delete)) => {
            other.named.contains(&item.instance)
        }
        _ => false,
    };
    let of = |item: &Planned| {
        let others = items.iter().filter(|other| other.instance != item.instance);
        let found = others.filter(|other| waits(item, other));
        found.map(|other| other.instance).collect()
    };
    items.iter().map(of).collect()
}

/// What an item does that has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Others have to end before.
    Waits,
    /// It begins.
    Begins,
    /// The item of this instance failed, on which it depends.
    Skipped(Uuid),
}

/// Whose turn it is: an item begins when all that it depends on have come to what was wanted. `state`: how far the item of an
/// instance is.
#[must_use]
pub fn turn(dependencies: &[Uuid], state: impl Fn(Uuid) -> Option<ItemState>) -> Turn {
    let is = |id: Uuid, wanted: ItemState| state(id) == Some(wanted);
    let failed = dependencies.iter().find(|id| is(**id, ItemState::Failed));
    if let Some(failed) = failed {
        return Turn::Skipped(*failed);
    }
    match dependencies.iter().all(|id| is(*id, ItemState::Completed)) {
        true => Turn::Begins,
        false => Turn::Waits,
    }
}

/// The items that have not begun and wait for themselves by way of others. Items are named by their instances, each with those
/// that it waits for.
#[must_use]
pub fn in_circles(waiting: &BTreeMap<Uuid, &[Uuid]>) -> BTreeSet<Uuid> {
    let waits_for_itself = |start: &Uuid| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<Uuid> = vec![*start];
        while let Some(id) = next.pop() {
            let others = waiting.get(&id).copied().unwrap_or_default();
            next.extend(others.iter().filter(|other| seen.insert(**other)));
        }
        seen.contains(start)
    };
    waiting.keys().copied().filter(waits_for_itself).collect()
}

/// The transfers of an instance, of its versions since an item began and what is remembered of them.
#[must_use]
pub fn steps(versions: &[Instance], events: &[&Event]) -> Vec<Step> {
    let step = |version: &Instance| {
        let led = events.iter().find(|event| {
            event.service_instance_version + 1 == version.version
                && event.is_error_transition
                && !event.ignored_transition
        });
        Step {
            state: version.state.clone(),
            is_error: led.is_some(),
            is_deployment: led.is_some_and(|led| led.event_type == EventType::ResourceTransition),
        }
    };
    versions.iter().map(step).collect()
}

/// Whether somebody else has updated or deleted an instance since an item began, whose change has this correlation id.
#[must_use]
pub fn is_disturbed(events: &[&Event], correlation_id: Uuid) -> bool {
    events.iter().any(|event| {
        let is_change = matches!(
            event.event_type,
            EventType::OnUpdateTransition | EventType::OnDeleteTransition
        );
        is_change && !event.ignored_transition && event.event_correlation_id != correlation_id
    })
}

/// A transfer that an instance made after an item began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The state that it led to.
    pub state: String,
    /// Whether it was the edge to the error state.
    pub is_error: bool,
    /// Whether a deployment decided, not a compile.
    pub is_deployment: bool,
}

/// What has become of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The instance goes on, or waits for somebody.
    Running,
    /// It is where the item wants it.
    Completed,
    /// It is not; the text is for people.
    Failed(Failure, String),
}

/// What has become of an item whose change has begun.
///
/// The first step that decides counts, wherever the instance is by now: a lifecycle may lead on from an error by itself, and
/// what it leads to is not what was ordered. `instance`: as it is now, `None`: it is gone. `steps`: all since the item began.
/// `is_disturbed`: somebody else has updated or deleted the instance since then. `edits`: of an update.
#[must_use]
pub fn progress(
    entity: &ServiceEntity,
    action: Action,
    edits: &[Edit],
    instance: Option<&Instance>,
    steps: &[Step],
    is_disturbed: bool,
) -> Progress {
    for step in steps {
        let Some(state) = entity.lifecycle.state(&step.state) else {
            continue;
        };
        if state.deleted && action == Action::Delete {
            return Progress::Completed;
        }
        let is_bad = match state.label {
            Some(Label::Danger) => true,
            // What was ordered is refused: the instance is as good as before, and not as it was wanted.
            Some(Label::Warning | Label::Success) => step.is_error,
            // A deletion that a validation refuses leads back, whatever the instance was about.
            Some(Label::Info) | None => {
                step.is_error && !step.is_deployment && action == Action::Delete
            }
        };
        if is_bad {
            let failure = if step.is_error && !step.is_deployment {
                Failure::ValidationCompileFailed
            } else {
                Failure::ExecutionFailed
            };
            let reason = format!("the instance went into the state {}", step.state);
            return Progress::Failed(failure, reason);
        }
    }
    let Some(instance) = instance else {
        let reason = "the instance was removed by somebody else";
        return Progress::Failed(Failure::Inconclusive, reason.to_owned());
    };
    if is_disturbed || instance.deleted {
        let reason = "somebody else changed the instance meanwhile";
        return Progress::Failed(Failure::Inconclusive, reason.to_owned());
    }
    let state = entity.lifecycle.state(&instance.state);
    let is_good = state.is_some_and(|state| state.label == Some(Label::Success));
    let has_moved = !steps.is_empty();
    if action != Action::Delete && has_moved && is_good && is_stable(entity, instance) {
        if action == Action::Update && !has_edits(entity, instance, edits) {
            let reason = "somebody else led the instance back before it had what was ordered";
            return Progress::Failed(Failure::Inconclusive, reason.to_owned());
        }
        return Progress::Completed;
    }
    Progress::Running
}

/// Whether edits would change nothing of an instance: it has what they say. One that can not be done again (an element is there)
/// has been done.
fn has_edits(entity: &ServiceEntity, instance: &Instance, edits: &[Edit]) -> bool {
    if edits.is_empty() {
        return true;
    }
    let Some(base) = instance.base() else {
        return false;
    };
    let change = Change::Edits(edits.to_vec());
    let Ok(after) = attributes::update(entity, base, &change) else {
        return true;
    };
    let mut before = base.clone();
    attributes::fill(entity, &mut before);
    after == before
}

/// Whether an instance stays where it is unless somebody asks for something, or a deployment fails.
fn is_stable(entity: &ServiceEntity, instance: &Instance) -> bool {
    let leads_on = |transfer: &Transfer| {
        let by_itself = transfer.auto && is_enabled(entity, instance, transfer);
        let by_success = transfer.resource_based && transfer.target != instance.state;
        by_itself || by_success
    };
    !entity.lifecycle.leaving(&instance.state).any(leads_on)
}
