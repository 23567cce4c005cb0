//! Storing a full version.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::NewVersion;
use super::members::{LargeSets, Members};
use super::plan::{OpenResource, Plan, SetChange, SetContent, crossing_of, sets_of};
use super::rows::{Header, Writer};
use crate::domain::{EnvironmentId, ResourceId, Timestamp, VersionNumber};
use crate::store::macros::transaction;
use crate::store::{CompileEnd, Error, Result, Store, StoredResource};

impl Store {
    /// Stores a full version and the end of the compile that made it, in one transaction, and gives its number.
    /// Only what differs from the version before is written. The outcome of `end` is this number, whatever it says.
    pub async fn version_store(
        &self,
        new: &NewVersion,
        end: &CompileEnd,
    ) -> Result<(VersionNumber, SetChange)> {
        let content = FullContent::of(new);
        let environment = new.environment_id.to_string();
        let stored = transaction!(self.db, tx => {
            let number = tx.next_number(&environment).await?;
            let change = store_full(tx, &self.large_sets, new, number, &content, Some(end)).await?;
            (number, change)
        });
        self.large_sets.keep(new.environment_id, &content.sets);
        self.wrote_version(new.environment_id, stored.1);
        Ok(stored)
    }

    /// The next number of a version, for who is going to store it.
    pub async fn version_reserve(&self, environment: EnvironmentId) -> Result<VersionNumber> {
        let environment = environment.to_string();
        Ok(transaction!(self.db, tx => tx.next_number(&environment).await?))
    }

    /// Stores a full version that no compile of ours made, under a number that was reserved.
    ///
    /// # Errors
    /// [`Error::Refused`] for a number that nobody reserved; [`Error::Conflict`] for one that is stored, or lower than one
    /// that is: what comes later is newer.
    pub async fn version_store_reserved(
        &self,
        number: VersionNumber,
        new: &NewVersion,
    ) -> Result<SetChange> {
        const LAST: &str = "UPDATE environment SET last_version = last_version WHERE id = $1 RETURNING last_version";
        const NEWEST: &str = "SELECT MAX(number) FROM version WHERE environment_id = $1";
        let content = FullContent::of(new);
        let environment = new.environment_id.to_string();
        let change = transaction!(self.db, tx => {
            let last: Option<(VersionNumber,)> =
                sqlx::query_as(LAST).bind(&environment).fetch_optional(&mut *tx).await?;
            let (newest,): (Option<VersionNumber>,) =
                sqlx::query_as(NEWEST).bind(&environment).fetch_one(&mut *tx).await?;
            let is_reserved = last.is_some_and(|(last,)| VersionNumber::NONE < number && number <= last);
            if !is_reserved {
                return Err(Error::Refused(format!(
                    "version number {number} was not reserved: ask for one with POST /api/v2/reserve_version"
                )));
            }
            if let Some(newest) = newest.filter(|newest| *newest >= number) {
                return Err(Error::Conflict(format!(
                    "version {number} can not be stored: version {newest} is stored already; reserve a new number"
                )));
            }
            store_full(tx, &self.large_sets, new, number, &content, None).await?
        });
        self.large_sets.keep(new.environment_id, &content.sets);
        self.wrote_version(new.environment_id, change);
        Ok(change)
    }
}

/// What a full version is, worked out before the transaction, which others wait for.
struct FullContent<'a> {
    sets: BTreeMap<&'a str, SetContent<'a>>,
    crossing: String,
}

impl<'a> FullContent<'a> {
    fn of(new: &'a NewVersion) -> Self {
        Self {
            sets: sets_of(&new.resources),
            crossing: crossing_of(&new.resources),
        }
    }
}

async fn store_full(
    connection: &mut impl Writer,
    large_sets: &LargeSets,
    new: &NewVersion,
    number: VersionNumber,
    content: &FullContent<'_>,
    end: Option<&CompileEnd>,
) -> Result<SetChange> {
    let environment = new.environment_id.to_string();
    let open = connection.open_sets(&environment).await?;
    let plan = Plan::of_sets(&open, &content.sets);
    let mut known = Known::new();
    for (name, _) in &plan.begun_sets {
        let digest = open.get(*name);
        let members = digest.and_then(|digest| large_sets.find(new.environment_id, name, digest));
        known.extend(members.map(|members| (*name, members)));
    }
    let old = old_members(connection, &environment, &plan, &known).await?;
    let plan = plan.with_resources(old.rows, &old.new);
    let header = Header {
        number,
        n_resources: new.resources.len() as i64,
        crossing: &content.crossing,
        now: Timestamp::now().0,
    };
    connection.write_plan(&environment, &plan, &header).await?;
    connection.write_header(new, &header, end).await?;
    Ok(plan.change())
}

type Known<'a> = HashMap<&'a str, Arc<Members>>;

/// What sets that end have in the newest version, and what they have not.
#[derive(Default)]
struct Old<'a> {
    /// Their resources; of the sets in `new` those that do not stay as they are.
    rows: Vec<OpenResource>,
    /// The resources that known sets do not have so.
    new: HashMap<&'a str, Vec<&'a StoredResource>>,
}

/// Reads what the sets have that end; of those whose members are known, only what differs.
async fn old_members<'a>(
    connection: &mut impl Writer,
    environment: &str,
    plan: &Plan<'a>,
    known: &Known<'_>,
) -> Result<Old<'a>> {
    let mut old = Old::default();
    for &(name, set) in &plan.begun_sets {
        let Some(members) = known.get(name) else {
            continue;
        };
        let new = set.members.iter().filter(|one| !members.has(one));
        let new: Vec<&StoredResource> = new.copied().collect();
        if new.len() > members.len() / 2 {
            continue;
        }
        let ids: Vec<&ResourceId> = new.iter().map(|one| &one.resource_id).collect();
        let mut found = connection.open_some_members(environment, &ids).await?;
        found.retain(|row| row.set_name == name);
        // Otherwise some have left the set, whose ids only the database has.
        if found.len() + set.members.len() == members.len() + new.len() {
            old.rows.extend(found);
            old.new.insert(name, new);
        }
    }
    let unknown = plan.ended_sets.iter().copied();
    let unknown: Vec<&str> = unknown.filter(|name| !old.new.contains_key(name)).collect();
    let rows = connection.open_members(environment, &unknown).await?;
    old.rows.extend(rows);
    Ok(old)
}
