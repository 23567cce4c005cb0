//! What a search for parts of texts finds: the lists of ids that are kept for it, one pair for each environment that was
//! searched, made when they are needed first.
//!
//! Every id that there is came with a version, and numbers of versions rise. So nobody has to tell the lists of new ids: who
//! searches asks for the ids of versions that are newer than the newest that the lists know. Ids that are gone stay until the
//! lists are made anew; that is why whatever is found is looked up before it is shown.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::names::{Making, Names, Wanted};
use super::{Edge, Search, Span};
use crate::domain::{EnvironmentId, ResourceId, VersionNumber};
use crate::store::macros::read;
use crate::store::{Result, Store};

/// Ids that are read at once.
const ROWS: usize = 5000;
/// Divides the ids of such a page; if one contains it, the page is read in another way.
const SEPARATOR: &str = "\u{1f}";
/// The second list may hold so many, and a quarter of the first: it is made anew for each version with new ids.
const MAX_LATER: usize = 10_000;

/// The ids of all environments that were searched.
#[derive(Debug, Default)]
pub(in crate::store) struct NameLists {
    of: Mutex<HashMap<EnvironmentId, Slot>>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Kept>>>;

#[derive(Debug)]
struct Kept {
    /// Ids of versions up to this one are in the lists.
    newest: VersionNumber,
    all: Arc<Names>,
    /// Those that came since the first list was made.
    later: Arc<Names>,
}

impl NameLists {
    fn slot(&self, environment: EnvironmentId) -> Slot {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(of.entry(environment).or_default())
    }

    pub(in crate::store) fn forget(&self, environment: EnvironmentId) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.remove(&environment);
    }
}

/// A search that is under way in one list.
struct Part {
    names: Arc<Names>,
    wanted: Wanted,
    places: Range<usize>,
    taken: VecDeque<ResourceId>,
}

/// The ids that a search finds, in ascending order, or in descending order if the last ones are asked for.
pub(in crate::store) struct MatchingIds {
    parts: Vec<Part>,
    is_last: bool,
}

impl MatchingIds {
    fn of(lists: [Arc<Names>; 2], search: &Search, span: &Span) -> Self {
        let part = |names: Arc<Names>| {
            // The first place that is not before an edge, or with its row: that is not before it, nor it.
            let place = |edge: &Edge, is_behind: bool| {
                let id = edge.key.to_string();
                let place = names.place(&id);
                let is_there = is_behind && place < names.len() && names.id(place) == id;
                place + usize::from(is_there)
            };
            let from = span.after.as_ref();
            let from = from.map_or(0, |edge| place(edge, !edge.is_included));
            let to = span.before.as_ref();
            let to = to.map_or(names.len(), |edge| place(edge, edge.is_included));
            Part {
                wanted: names.wanted(search),
                places: from..to.max(from),
                taken: VecDeque::new(),
                names,
            }
        };
        Self {
            parts: lists.map(part).into(),
            is_last: span.is_last,
        }
    }

    /// How many ids there are, whatever is searched for, those included that are gone.
    pub(super) fn n_known(&self) -> usize {
        self.parts.iter().map(|part| part.names.len()).sum()
    }

    /// The next ids, at most so many; none: that is all.
    pub(in crate::store) fn take(&mut self, n_ids: usize) -> Vec<ResourceId> {
        let is_last = self.is_last;
        for part in &mut self.parts {
            let n_more = n_ids.saturating_sub(part.taken.len());
            let more = part
                .names
                .take(&mut part.wanted, &mut part.places, is_last, n_more);
            part.taken.extend(more);
        }
        let mut ids = Vec::new();
        while ids.len() < n_ids {
            // No id is in both lists.
            let next = self
                .parts
                .iter_mut()
                .filter(|part| !part.taken.is_empty())
                .min_by(|a, b| {
                    let order = a.taken.front().cmp(&b.taken.front());
                    if is_last { order.reverse() } else { order }
                });
            match next.and_then(|part| part.taken.pop_front()) {
                Some(id) => ids.push(id),
                None => break,
            }
        }
        ids
    }
}

/// The ids of a table, page by page.
struct Reader<'a> {
    store: &'a Store,
    environment: &'a str,
    /// What `$4` joins, and what a plain list is.
    packed: &'static str,
    plain: &'static str,
    page: VecDeque<String>,
    /// The last id that was read; `None`: there are no more.
    after: Option<String>,
}

macro_rules! ids {
    ($from:literal) => {
        [
            concat!(
                "SELECT COUNT(*), COALESCE(STRING_AGG(resource_id, $4), '') FROM (",
                $from,
                ") AS page"
            ),
            $from,
        ]
    };
}
const STATES: [&str; 2] = ids!(
    "SELECT resource_id FROM resource_state WHERE environment_id = $1 AND resource_id > $2 ORDER BY resource_id LIMIT $3"
);
const DESIRED: [&str; 2] = ids!(
    "SELECT DISTINCT resource_id FROM desired_resource WHERE environment_id = $1 AND resource_id > $2 ORDER BY resource_id \
     LIMIT $3"
);

impl<'a> Reader<'a> {
    fn new(store: &'a Store, environment: &'a str, [packed, plain]: [&'static str; 2]) -> Self {
        Self {
            store,
            environment,
            packed,
            plain,
            page: VecDeque::new(),
            after: Some(String::new()),
        }
    }

    /// Reads on if need be.
    async fn fill(&mut self) -> Result<()> {
        let Some(after) = self.after.take_if(|_| self.page.is_empty()) else {
            return Ok(());
        };
        let (n_rows, text): (i64, String) = read!(self.store.db, pool => {
            sqlx::query_as(self.packed)
                .bind(self.environment)
                .bind(&after)
                .bind(ROWS as i64)
                .bind(SEPARATOR)
                .fetch_one(pool)
                .await?
        });
        let n_rows = usize::try_from(n_rows).unwrap_or_default();
        let mut ids: Vec<String> = text.split(SEPARATOR).map(str::to_owned).collect();
        if n_rows == 0 {
            ids.clear();
        } else if ids.len() != n_rows {
            let rows: Vec<(String,)> = read!(self.store.db, pool => {
                sqlx::query_as(self.plain)
                    .bind(self.environment)
                    .bind(&after)
                    .bind(ROWS as i64)
                    .fetch_all(pool)
                    .await?
            });
            ids = rows.into_iter().map(|(id,)| id).collect();
        }
        ids.sort_unstable();
        self.after = ids.last().filter(|_| n_rows == ROWS).cloned();
        self.page = ids.into();
        Ok(())
    }
}

impl Store {
    /// Makes the lists of ids that searches go through, so that the first search finds them ready.
    ///
    /// # Errors
    /// The database fails.
    pub async fn names_prepare(&self, environment: EnvironmentId) -> Result<()> {
        self.names_of(environment).await.map(drop)
    }

    /// The ids within the span that are searched for, and maybe some that are gone.
    pub(in crate::store) async fn found(
        &self,
        environment: EnvironmentId,
        search: &Search,
        span: &Span,
    ) -> Result<MatchingIds> {
        let lists = self.names_of(environment).await?;
        Ok(MatchingIds::of(lists, search, span))
    }

    /// Whether the ids of all resources with these types and agents have this attribute in them, so that they say its value.
    pub(in crate::store) async fn names_all_say(
        &self,
        environment: EnvironmentId,
        search: &Search,
        attribute: &str,
    ) -> Result<bool> {
        let lists = self.names_of(environment).await?;
        Ok(lists.iter().all(|list| list.all_say(search, attribute)))
    }

    pub(super) async fn names_of(&self, environment: EnvironmentId) -> Result<[Arc<Names>; 2]> {
        const NEWEST: &str = "SELECT MAX(number) FROM version WHERE environment_id = $1";
        let slot = self.names.slot(environment);
        let mut slot = slot.lock().await;
        let id = environment.to_string();
        let (newest,): (Option<VersionNumber>,) = read!(self.db, pool => {
            sqlx::query_as(NEWEST).bind(&id).fetch_one(pool).await?
        });
        let newest = newest.unwrap_or_default();
        let known = match slot.take() {
            Some(known) if known.newest >= newest => known,
            Some(known) => match self.names_since(&id, &known).await? {
                Some(later) => Kept {
                    newest,
                    all: known.all,
                    later: Arc::new(later),
                },
                None => self.names_anew(&id, newest).await?,
            },
            None => self.names_anew(&id, newest).await?,
        };
        let lists = [Arc::clone(&known.all), Arc::clone(&known.later)];
        *slot = Some(known);
        Ok(lists)
    }

    async fn names_anew(&self, environment: &str, newest: VersionNumber) -> Result<Kept> {
        let mut states = Reader::new(self, environment, STATES);
        let mut desired = Reader::new(self, environment, DESIRED);
        let mut making = Making::default();
        loop {
            states.fill().await?;
            desired.fill().await?;
            let from = match (states.page.front(), desired.page.front()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            if from == Ordering::Equal {
                desired.page.pop_front();
            }
            let reader = if from == Ordering::Greater {
                &mut desired
            } else {
                &mut states
            };
            if let Some(id) = reader.page.pop_front() {
                making.push(&id);
            }
        }
        Ok(Kept {
            newest,
            all: Arc::new(making.finish()),
            later: Arc::default(),
        })
    }

    /// The second list with what came since; `None`: it would get too long.
    async fn names_since(&self, environment: &str, known: &Kept) -> Result<Option<Names>> {
        const SQL: &str = "SELECT resource_id FROM desired_resource WHERE environment_id = $1 AND from_version > $2 LIMIT $3";
        let n_most = known.all.len() / 4 + MAX_LATER;
        let rows: Vec<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment)
                .bind(known.newest)
                .bind(n_most as i64 + 1)
                .fetch_all(pool)
                .await?
        });
        if rows.len() > n_most {
            return Ok(None);
        }
        let later = &known.later;
        let mut ids: BTreeSet<String> = (0..later.len()).map(|place| later.id(place)).collect();
        let new = rows.into_iter().map(|(id,)| id);
        ids.extend(new.filter(|id| !known.all.has(id)));
        if ids.len() > n_most {
            return Ok(None);
        }
        let mut making = Making::default();
        for id in &ids {
            making.push(id);
        }
        Ok(Some(making.finish()))
    }
}
