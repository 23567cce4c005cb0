//! Pages of resources that are not in the order of their ids.
//!
//! Agent and value are parts of an id, so the lists of all ids (`found`) know that order, too ([`Names::order`]): a page is
//! a few neighbours in it, found by bisection. What a list gives may be gone, or of another status; so it is looked up, and more
//! is taken until the page is full. An index of the database has the states of each status in the order of their ids: a page in
//! the order of the statuses is one of those of the first status, one of the next, and so on.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::names::{IdPart, Names, Wanted};
use super::{Edge, Key, Part, Search, Span};
use crate::domain::{EnvironmentId, ResourceId, ResourceStatus, VersionNumber};
use crate::store::state::ROWS;
use crate::store::{ResourceState, Result, Store, StoredResource};

/// So many ids are taken out and sorted for a page; where more are found, each of a few hundred neighbours is found, so that the
/// whole order is gone through.
const FEW: usize = 5000;

/// What a list of states is sorted by, and then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOrder {
    Part(IdPart),
    Status,
}

impl StateOrder {
    /// The place of a state in the list.
    pub fn key(self, state: &ResourceState) -> Key {
        match self {
            Self::Part(part) => key(part, &state.resource_id),
            Self::Status => Key(vec![
                Part::text(state.status().as_str()),
                Part::text(state.resource_id.as_str()),
            ]),
        }
    }
}

fn key(part: IdPart, id: &ResourceId) -> Key {
    Key(vec![Part::text(part.of(id)), Part::text(id.as_str())])
}

/// A walk through one list of ids, in the order of a part of them.
struct Walk {
    names: Arc<Names>,
    part: IdPart,
    wanted: Wanted,
    /// All that are wanted, in order; `None`: they are many, and found on the way.
    few: Option<Vec<u32>>,
    left: Range<usize>,
    next: Option<u32>,
}

impl Walk {
    fn of(names: Arc<Names>, part: IdPart, search: &Search, span: &Span) -> Self {
        let mut wanted = names.wanted(search);
        let few = if search.is_narrow() {
            names.all_wanted(&mut wanted, FEW)
        } else {
            None
        };
        let few = few.map(|mut few| {
            few.sort_unstable_by(|a, b| names.compare(part, *a, *b));
            few
        });
        let order = few.as_deref().unwrap_or_else(|| names.order(part));
        let key = |place: &u32| key(part, &ResourceId::new(names.id(*place as usize)));
        let is_before = |edge: &Edge| order.partition_point(|place| !edge.is_below(&key(place)));
        let is_inside = |edge: &Edge| order.partition_point(|place| edge.is_above(&key(place)));
        let from = span.after.as_ref().map_or(0, is_before);
        let to = span.before.as_ref().map_or(order.len(), is_inside);
        Self {
            left: from..to.max(from),
            names,
            part,
            wanted,
            few,
            next: None,
        }
    }

    /// The next place, which stays until it is taken.
    fn peek(&mut self, is_last: bool) -> Option<u32> {
        while self.next.is_none() {
            let n = if is_last {
                self.left.next_back()?
            } else {
                self.left.next()?
            };
            let place = match &self.few {
                Some(few) => few[n],
                None => self.names.order(self.part)[n],
            };
            if self.few.is_some() || self.names.is_wanted(&self.wanted, place as usize) {
                self.next = Some(place);
            }
        }
        self.next
    }
}

/// The ids that a search finds, in the order of a part of them, or downwards if the last ones are asked for.
struct SortedIds {
    walks: [Walk; 2],
    is_last: bool,
}

impl SortedIds {
    /// How many ids there are, whatever is searched for, those included that are gone.
    fn n_known(&self) -> usize {
        self.walks.iter().map(|walk| walk.names.len()).sum()
    }

    /// The next ids, at most so many; none: that is all.
    fn take(&mut self, n_ids: usize) -> Vec<ResourceId> {
        let mut ids = Vec::new();
        while ids.len() < n_ids {
            let [a, b] = &mut self.walks;
            // No id is in both lists.
            let walk = match (a.peek(self.is_last), b.peek(self.is_last)) {
                (None, None) => break,
                (Some(_), None) => a,
                (None, Some(_)) => b,
                (Some(x), Some(y)) => {
                    let text = |walk: &Walk, place: u32| {
                        let id = ResourceId::new(walk.names.id(place as usize));
                        key(walk.part, &id)
                    };
                    let is_first = text(a, x).cmp(&text(b, y)) == Ordering::Less;
                    if is_first != self.is_last { a } else { b }
                }
            };
            if let Some(place) = walk.next.take() {
                ids.push(ResourceId::new(walk.names.id(place as usize)));
            }
        }
        ids
    }
}

/// The part of a list in the order of statuses that is of one status, as a span of that status's list by id; `None`: nothing.
fn of_status(status: ResourceStatus, span: &Span) -> Option<Span> {
    let text = Part::text(status.as_str());
    let bound = |edge: &Edge| {
        let mut parts = edge.key.0.iter();
        let order = parts
            .next()
            .map_or(Ordering::Less, |first| first.cmp(&text));
        let rest: Vec<Part> = parts.cloned().collect();
        (order, rest, edge.is_included)
    };
    let mut inner = Span {
        after: None,
        before: None,
        ..span.clone()
    };
    if let Some((order, rest, is_included)) = span.after.as_ref().map(bound) {
        match order {
            Ordering::Greater => return None,
            Ordering::Equal if !rest.is_empty() => {
                inner.after = Some(Edge {
                    key: Key(rest),
                    is_included,
                });
            }
            _ => {}
        }
    }
    if let Some((order, rest, is_included)) = span.before.as_ref().map(bound) {
        match order {
            Ordering::Less => return None,
            // It stands before all of the status.
            Ordering::Equal if rest.is_empty() => return None,
            Ordering::Equal => {
                inner.before = Some(Edge {
                    key: Key(rest),
                    is_included,
                })
            }
            Ordering::Greater => {}
        }
    }
    Some(inner)
}

impl Store {
    /// The states that are searched for, as far as the span goes, in this order, each with its place. `counts`: of
    /// [`Store::state_counts`].
    pub async fn state_page_by(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        order: StateOrder,
        span: &Span,
    ) -> Result<Vec<(Key, ResourceState)>> {
        let ids = self
            .state_ids_by(environment, search, counts, order, span)
            .await?;
        let states = self.state_some(environment, &ids).await?;
        let mut keyed: Vec<_> = states
            .into_iter()
            .map(|state| (order.key(&state), state))
            .collect();
        keyed.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(keyed)
    }

    /// How many states are searched for within a span of a list in this order, up to its limit; without edges, as
    /// [`Store::state_count`] has it.
    pub async fn state_count_by(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        order: StateOrder,
        span: &Span,
    ) -> Result<i64> {
        if span.after.is_none() && span.before.is_none() {
            return self.state_count(environment, search, counts, span).await;
        }
        let ids = self
            .state_ids_by(environment, search, counts, order, span)
            .await?;
        Ok(ids.len() as i64)
    }

    /// Which resources are searched for, as far as the span goes.
    async fn state_ids_by(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        order: StateOrder,
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        match order {
            StateOrder::Status => {
                self.state_ids_by_status(environment, search, counts, span)
                    .await
            }
            StateOrder::Part(part) => {
                self.state_ids_by_part(environment, search, counts, part, span)
                    .await
            }
        }
    }

    async fn state_ids_by_status(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        let is_wanted = |status: &ResourceStatus| {
            search
                .statuses
                .as_ref()
                .is_none_or(|all| all.contains(status))
        };
        let there = counts
            .iter()
            .filter(|(status, n)| **n > 0 && is_wanted(status));
        let mut statuses: Vec<ResourceStatus> = there.map(|(status, _)| *status).collect();
        statuses.sort_unstable_by_key(|status| status.as_str());
        if span.is_last {
            statuses.reverse();
        }
        let mut ids = Vec::new();
        for status in statuses {
            let Some(inner) = of_status(status, span) else {
                continue;
            };
            let of_it = Search {
                statuses: Some(vec![status]),
                ..search.clone()
            };
            let rest = Span {
                limit: span.limit - ids.len() as i64,
                ..inner
            };
            if rest.limit <= 0 {
                break;
            }
            ids.extend(self.state_ids(environment, &of_it, counts, &rest).await?);
        }
        Ok(ids)
    }

    async fn state_ids_by_part(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        part: IdPart,
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        let statuses = Self::to_look_at(search, counts);
        let n_there = statuses.as_ref().map(|statuses| {
            let numbers = statuses.iter().filter_map(|one| counts.get(one));
            numbers.sum::<i64>()
        });
        if n_there.is_some_and(|n_there| n_there <= FEW as i64) {
            // Those of such a status are few, whatever is searched for.
            let all = Span::first(i64::MAX);
            let ids = self
                .state_ids_of(environment, statuses.as_deref(), &all)
                .await?;
            let keyed = ids
                .into_iter()
                .filter(|id| search.fits(id))
                .map(|id| (key(part, &id), id));
            let mut inside: Vec<_> = keyed.filter(|(key, _)| span.has(key)).collect();
            inside.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            span.cut(&mut inside);
            return Ok(inside.into_iter().map(|(_, id)| id).collect());
        }
        let mut sorted = self.sorted(environment, search, part, span).await?;
        let n_wanted = usize::try_from(span.limit).unwrap_or_default();
        if statuses.is_none() && Self::all_have_states(counts, sorted.n_known()) {
            return Ok(sorted.take(n_wanted));
        }
        let (mut ids, mut n_next) = (Vec::new(), n_wanted.min(ROWS));
        while ids.len() < n_wanted {
            let some = sorted.take(n_next);
            if some.is_empty() {
                break;
            }
            let there = self
                .state_there(environment, &some, statuses.as_deref())
                .await?;
            ids.extend(some.into_iter().filter(|id| there.contains(id)));
            n_next = ROWS;
        }
        ids.truncate(n_wanted);
        Ok(ids)
    }

    /// Those resources of a version that are searched for, in the order of a part of their ids, as far as the span goes, each
    /// with its place.
    pub async fn resource_page_by(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        search: &Search,
        part: IdPart,
        span: &Span,
    ) -> Result<Vec<(Key, StoredResource)>> {
        let mut sorted = self.sorted(environment, search, part, span).await?;
        let n_wanted = usize::try_from(span.limit).unwrap_or_default();
        let (mut rows, mut n_next) = (Vec::new(), n_wanted.min(ROWS));
        while rows.len() < n_wanted {
            let ids = sorted.take(n_next);
            if ids.is_empty() {
                break;
            }
            let some = self.resource_some(environment, version, &ids).await?;
            let mut some: Vec<_> = some
                .into_iter()
                .map(|row| (key(part, &row.resource_id), row))
                .collect();
            some.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            if span.is_last {
                some.reverse();
            }
            rows.extend(some);
            n_next = ROWS;
        }
        rows.truncate(n_wanted);
        if span.is_last {
            rows.reverse();
        }
        Ok(rows)
    }

    async fn sorted(
        &self,
        environment: EnvironmentId,
        search: &Search,
        part: IdPart,
        span: &Span,
    ) -> Result<SortedIds> {
        let lists = self.names_of(environment).await?;
        let (search, span, is_last) = (search.clone(), span.clone(), span.is_last);
        // The first time a million ids are brought into order.
        let walks = tokio::task::spawn_blocking(move || {
            lists.map(|names| Walk::of(names, part, &search, &span))
        });
        match walks.await {
            Ok(walks) => Ok(SortedIds { walks, is_last }),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The server stops: nobody waits for the answer.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests;
