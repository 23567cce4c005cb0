//! Orders: changes to several instances in one call. Which item waits for which, and when an item has ended.
//! Source: docs/reference/lsm.md § 5.10.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::attributes::{self, Change, Edit, references};
use crate::definition::{Label, ServiceEntity, State, Transfer};
use crate::lifecycle::{Event, EventType, Severity, is_enabled};
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
///
/// Two items wait for each other if each can be reached from the other. Such groups are found in two walks (Kosaraju): the first
/// goes along the waits, and notes items in the order in which it is done with them; the second begins with the last of these
/// and goes against the waits, so that it reaches those of one group only. Each walk passes each wait once: an order may have a
/// thousand items that all wait for one another.
#[must_use]
pub fn in_circles(waiting: &BTreeMap<Uuid, &[Uuid]>) -> BTreeSet<Uuid> {
    let ids: Vec<Uuid> = waiting.keys().copied().collect();
    let place = |id: &Uuid| ids.binary_search(id).ok();
    let along: Vec<Vec<usize>> = waiting
        .values()
        .map(|others| others.iter().filter_map(place).collect())
        .collect();
    let mut against = vec![Vec::new(); ids.len()];
    for (from, others) in along.iter().enumerate() {
        others.iter().for_each(|to| against[*to].push(from));
    }
    let mut seen = vec![false; ids.len()];
    let mut done = Vec::new();
    for start in 0..ids.len() {
        done.extend(walk(&along, start, &mut seen));
    }
    let mut seen = vec![false; ids.len()];
    let groups = done.into_iter().rev();
    groups
        .map(|start| walk(&against, start, &mut seen))
        .filter(|group| match group[..] {
            [alone] => along[alone].contains(&alone),
            _ => true,
        })
        .flatten()
        .map(|at| ids[at])
        .collect()
}

/// What can be reached from a start and was not seen before, in the order in which the walk is done with it.
fn walk(ways: &[Vec<usize>], start: usize, seen: &mut [bool]) -> Vec<usize> {
    let mut done = Vec::new();
    let mut path = Vec::new();
    if !std::mem::replace(&mut seen[start], true) {
        path.push((start, ways[start].iter()));
    }
    while let Some((at, rest)) = path.last_mut() {
        let next = rest.find(|next| !std::mem::replace(&mut seen[**next], true));
        match next {
            Some(next) => path.push((*next, ways[*next].iter())),
            None => {
                done.push(*at);
                path.pop();
            }
        }
    }
    done
}

/// The transfers of an instance since an item began whose change has this correlation id: of its versions since then, and of what
/// is remembered of them.
#[must_use]
pub fn steps(versions: Vec<Instance>, events: &[&Event], correlation_id: Uuid) -> Vec<Step> {
    let step = |version: Instance| {
        let mut led = events.iter().filter(|event| {
            event.service_instance_version + 1 == version.version
                && !event.ignored_transition
                && event.destination.as_ref() == Some(&version.state)
        });
        let error = led.clone().find(|event| event.is_error_transition);
        let is_foreign = led.any(|event| {
            let is_change = matches!(
                event.event_type,
                EventType::OnUpdateTransition | EventType::OnDeleteTransition
            );
            is_change
                && event.severity != Severity::Error
                && event.event_correlation_id != correlation_id
        });
        Step {
            is_error: error.is_some(),
            is_deployment: error
                .is_some_and(|event| event.event_type == EventType::ResourceTransition),
            is_foreign,
            instance: version,
        }
    };
    versions.into_iter().map(step).collect()
}

/// A transfer that an instance made after an item began.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The instance after it.
    pub instance: Instance,
    /// Whether it was the edge to the error state.
    pub is_error: bool,
    /// Whether a deployment decided, not a compile.
    pub is_deployment: bool,
    /// Whether somebody else updated or deleted the instance with it.
    pub is_foreign: bool,
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
/// what it leads to is not what was ordered; and what happens to an instance after it has arrived is no matter of the order any
/// more, however late that is looked at. `instance`: as it is now, `None`: it is gone. `steps`: all since the item began.
/// `edits`: of an update.
#[must_use]
pub fn progress(
    entity: &ServiceEntity,
    action: Action,
    edits: &[Edit],
    instance: Option<&Instance>,
    steps: &[Step],
) -> Progress {
    let goal = Goal {
        entity,
        action,
        edits,
    };
    let decided = steps.iter().find_map(|step| {
        // Its switches and what compiles write change without a new version.
        let is_now = |now: &&Instance| now.version == step.instance.version;
        goal.after(step, instance.filter(is_now).unwrap_or(&step.instance))
    });
    if let Some(decided) = decided {
        return decided;
    }
    match instance {
        None => inconclusive("the instance was removed by somebody else"),
        Some(_) => Progress::Running,
    }
}

fn inconclusive(reason: impl Into<String>) -> Progress {
    Progress::Failed(Failure::Inconclusive, reason.into())
}

/// What an item wants of its instance.
struct Goal<'g> {
    entity: &'g ServiceEntity,
    action: Action,
    edits: &'g [Edit],
}

impl Goal<'_> {
    /// What a step decides about the item, if it does. `instance`: as it is, or was, after the step.
    fn after(&self, step: &Step, instance: &Instance) -> Option<Progress> {
        if step.is_foreign {
            return Some(inconclusive("somebody else changed the instance meanwhile"));
        }
        let name = &instance.state;
        let state = self.entity.lifecycle.state(name)?;
        if state.deleted {
            return Some(match self.action {
                Action::Delete => Progress::Completed,
                _ => inconclusive("somebody else changed the instance meanwhile"),
            });
        }
        let is_bad = match state.label {
            Some(Label::Danger) => true,
            // What was ordered is refused: the instance is as good as before, and not as it was wanted.
            Some(Label::Warning | Label::Success) => step.is_error,
            // A deletion that a validation refuses leads back, whatever the instance was about.
            Some(Label::Info) | None => {
                step.is_error && !step.is_deployment && self.action == Action::Delete
            }
        };
        if is_bad {
            let reason = format!("the instance went into the state {name}");
            return Some(Progress::Failed(failure_of(step), reason));
        }
        if self.action != Action::Delete && !is_stable(self.entity, instance) {
            return None;
        }
        if self.action != Action::Delete && state.label == Some(Label::Success) {
            if self.action == Action::Update && !has_edits(self.entity, instance, self.edits) {
                let reason = "somebody else led the instance back before it had what was ordered";
                return Some(inconclusive(reason));
            }
            return Some(Progress::Completed);
        }
        if self.is_within_reach(name) {
            return None;
        }
        Some(match (step.is_error, self.action) {
            (true, _) => Progress::Failed(
                failure_of(step),
                format!("the instance went into the state {name}"),
            ),
            (false, Action::Delete) => inconclusive(format!(
                "the instance was led into the state {name}, from which only another deletion leads to its end"
            )),
            (false, Action::Create | Action::Update) => inconclusive(format!(
                "the instance stays in the state {name}, from which nothing leads to a state with the label success"
            )),
        })
    }

    /// Whether what is wanted can be reached from a state without another update or deletion. Switches may be turned on, and
    /// clients may ask for states.
    fn is_within_reach(&self, from: &str) -> bool {
        let lifecycle = &self.entity.lifecycle;
        let mut reached = vec![from];
        let mut at = 0;
        while let Some(name) = reached.get(at).copied() {
            at += 1;
            let is_wanted = |state: &State| match self.action {
                Action::Delete => state.deleted,
                Action::Create | Action::Update => state.label == Some(Label::Success),
            };
            if lifecycle.state(name).is_some_and(is_wanted) {
                return true;
            }
            let ways = lifecycle.transfers.iter().filter(|transfer| {
                let goes = transfer.auto || transfer.resource_based || transfer.api_set_state;
                transfer.source == name && goes
            });
            for way in ways {
                for end in [Some(&way.target), way.error.as_ref()]
                    .into_iter()
                    .flatten()
                {
                    if !reached.contains(&end.as_str()) {
                        reached.push(end);
                    }
                }
            }
        }
        false
    }
}

/// Why an item failed whose instance a step led into a bad state.
fn failure_of(step: &Step) -> Failure {
    match step.is_error && !step.is_deployment {
        true => Failure::ValidationCompileFailed,
        false => Failure::ExecutionFailed,
    }
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
