//! Resources by content, as versions hold them.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::TryStreamExt;
use sha2::{Digest, Sha256};

use super::macros::{read, row};
use super::{Result, Store, document};
use crate::domain::{AgentName, EnvironmentId, ResourceId, Timestamp, VersionNumber};

/// A resource of a version. Source: docs/reference/language.md § 12, docs/reference/deployment.md § 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResource {
    /// SHA-256 of the content, hex.
    pub digest: String,
    /// Without version.
    pub resource_id: ResourceId,
    pub resource_type: String,
    pub agent: AgentName,
    pub id_attribute: String,
    pub id_value: String,
    /// JSON object text of all fields but `requires`, `id` and `version`.
    pub attributes: String,
    pub attribute_hash: String,
    /// Resource ids without version, sorted.
    pub requires: Vec<ResourceId>,
    pub is_undefined: bool,
    /// Empty: shared.
    pub set_name: String,
    /// When this content was first stored.
    pub created: Timestamp,
}

row! {
    pub(super) struct Row {
        digest: String,
        resource_id: ResourceId,
        resource_type: String,
        agent: AgentName,
        id_attribute: String,
        id_value: String,
        attributes: String,
        attribute_hash: String,
        requires: String,
        is_undefined: bool,
        created_us: i64,
        set_name: String,
    }
}

/// Whether the two are not the same content.
fn differ((old, new): &(Option<Row>, Option<Row>)) -> bool {
    old.as_ref().map(|row| &row.digest) != new.as_ref().map(|row| &row.digest)
}

impl StoredResource {
    /// The digest of what it says, in the place of the one that it has.
    #[must_use]
    pub fn with_digest(mut self) -> Self {
        let mut hasher = Sha256::new();
        let mut part = |text: &str| steward_compiler::add_part(&mut hasher, text);
        part(self.resource_id.as_str());
        part(&self.attributes);
        part(if self.is_undefined {
            "undefined"
        } else {
            "defined"
        });
        for require in &self.requires {
            part(require.as_str());
        }
        self.digest = format!("{:x}", hasher.finalize());
        self
    }

    /// The same resource with these requires, which are sorted.
    pub(super) fn with_requires(&self, requires: Vec<ResourceId>) -> Self {
        if requires == self.requires {
            return self.clone();
        }
        let changed = Self {
            requires,
            ..self.clone()
        };
        changed.with_digest()
    }
}

impl Row {
    pub(super) fn into_resource(self) -> Result<StoredResource> {
        Ok(StoredResource {
            requires: document("resource", "requires", &self.digest, &self.requires)?,
            digest: self.digest,
            resource_id: self.resource_id,
            resource_type: self.resource_type,
            agent: self.agent,
            id_attribute: self.id_attribute,
            id_value: self.id_value,
            attributes: self.attributes,
            attribute_hash: self.attribute_hash,
            is_undefined: self.is_undefined,
            set_name: self.set_name,
            created: Timestamp(self.created_us),
        })
    }
}

/// What a version has: `$1` the environment, `$2` the version. The plus keeps databases from an index that knows when
/// resources came, and not which.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT digest, resource_id, resource_type, agent, id_attribute, id_value, attributes, attribute_hash, \
             requires, is_undefined, created_us, set_name FROM desired_resource ",
            $rest
        )
    };
}
pub(super) use select;

mod page;

/// What a resource requires in some versions.
#[derive(Debug, Clone)]
pub struct ResourceLinks {
    pub resource_id: ResourceId,
    pub requires: Vec<ResourceId>,
    pub versions: std::ops::Range<VersionNumber>,
}

impl Store {
    /// Shows the attributes of all stored resources of all environments, one after the other.
    pub async fn resource_attributes(&self, mut seen: impl FnMut(&str)) -> Result<()> {
        const SQL: &str = "SELECT attributes FROM desired_resource";
        read!(self.db, pool => {
            let mut rows = sqlx::query_as::<_, (String,)>(SQL).fetch(pool);
            while let Some((attributes,)) = rows.try_next().await? {
                seen(&attributes);
            }
        });
        Ok(())
    }

    /// The resources that are undefined in some version, with the versions in which they are.
    pub async fn resource_undefined(
        &self,
        environment: EnvironmentId,
    ) -> Result<Vec<(ResourceId, std::ops::Range<VersionNumber>)>> {
        const SQL: &str = "SELECT resource_id, from_version, to_version FROM desired_resource \
                           WHERE environment_id = $1 AND is_undefined ORDER BY resource_id";
        let rows: Vec<(ResourceId, VersionNumber, VersionNumber)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        Ok(rows
            .into_iter()
            .map(|(id, from, to)| (id, from..to))
            .collect())
    }

    /// What requires something in some version between two, both included, with what it requires and the versions in which it
    /// does.
    pub async fn resource_links(
        &self,
        environment: EnvironmentId,
        first: VersionNumber,
        last: VersionNumber,
    ) -> Result<Vec<ResourceLinks>> {
        const SQL: &str = "SELECT resource_id, requires, from_version, to_version FROM desired_resource \
                           WHERE environment_id = $1 AND + from_version <= $3 AND to_version > $2 AND requires <> '[]'";
        let rows: Vec<(ResourceId, String, VersionNumber, VersionNumber)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(first).bind(last).fetch_all(pool).await?
        });
        let mut links = Vec::with_capacity(rows.len());
        for (resource_id, requires, from, to) in rows {
            links.push(ResourceLinks {
                requires: document("resource", "requires", resource_id.as_str(), &requires)?,
                versions: from..to,
                resource_id,
            });
        }
        Ok(links)
    }

    /// All resources of a version, by id.
    pub async fn resource_list(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<StoredResource>> {
        let mut resources = Vec::new();
        self.resource_each(environment, version, |resource| resources.push(resource))
            .await?;
        Ok(resources)
    }

    /// Shows all resources of a version, by id, one after the other: whoever keeps a part of each of a million needs no room
    /// for the whole of them.
    pub async fn resource_each(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        mut seen: impl FnMut(StoredResource),
    ) -> Result<()> {
        const SQL: &str = select!(
            "WHERE environment_id = $1 AND + from_version <= $2 AND to_version > $2 ORDER BY resource_id"
        );
        read!(self.db, pool => {
            let query = sqlx::query_as::<_, Row>(SQL).bind(environment.to_string()).bind(version);
            let mut rows = query.fetch(pool);
            while let Some(row) = rows.try_next().await? {
                seen(row.into_resource()?);
            }
        });
        Ok(())
    }

    /// What resources require, each in a version of its own, by id: one query, of however many versions they are.
    pub async fn resource_requires_in(
        &self,
        environment: EnvironmentId,
        wanted: &[(&ResourceId, VersionNumber)],
    ) -> Result<HashMap<ResourceId, Vec<ResourceId>>> {
        let mut found = HashMap::new();
        for chunk in wanted.chunks(1000) {
            // Each is looked for by its key, whatever the database knows of the size of the table: a join of them is a walk
            // through all resources on PostgreSQL until its statistics are there.
            let rows: Vec<(ResourceId, Option<String>)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT wanted.column1, (SELECT requires FROM desired_resource WHERE environment_id = ",
                );
                query.push_bind(environment.to_string());
                query.push(" AND resource_id = wanted.column1 AND + from_version <= wanted.column2");
                query.push(" AND to_version > wanted.column2 LIMIT 1) FROM (");
                query.push_values(chunk, |mut row, (id, version)| {
                    row.push_bind(*id).push_bind(*version);
                });
                query.push(") AS wanted");
                query.build_query_as().persistent(false).fetch_all(pool).await?
            });
            let rows = rows
                .into_iter()
                .filter_map(|(id, requires)| Some((id, requires?)));
            for (id, requires) in rows {
                let requires = document("resource", "requires", id.as_str(), &requires)?;
                found.insert(id, requires);
            }
        }
        Ok(found)
    }

    /// What resources of a version require, by id, without all else that they hold.
    pub async fn resource_requires(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        ids: &[ResourceId],
    ) -> Result<HashMap<ResourceId, Vec<ResourceId>>> {
        let mut found = HashMap::new();
        for chunk in ids.chunks(1000) {
            let rows: Vec<(ResourceId, String)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT resource_id, requires FROM desired_resource WHERE + from_version <= ",
                );
                query.push_bind(version).push(" AND to_version > ").push_bind(version);
                query.push(" AND environment_id = ").push_bind(environment.to_string());
                super::state::push_ids!(query, chunk);
                query.build_query_as().fetch_all(pool).await?
            });
            for (id, requires) in rows {
                let requires = document("resource", "requires", id.as_str(), &requires)?;
                found.insert(id, requires);
            }
        }
        Ok(found)
    }

    pub async fn resource_fetch(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        resource_id: &ResourceId,
    ) -> Result<Option<StoredResource>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND + from_version <= $2 AND to_version > $2 AND resource_id = $3"
            ))
            .bind(environment.to_string())
            .bind(version)
            .bind(resource_id)
            .fetch_optional(pool)
            .await?
        });
        row.map(Row::into_resource).transpose()
    }

    /// The first version of those without a gap up to this one in which the resource has the content that it has there.
    pub async fn resource_since(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        resource_id: &ResourceId,
    ) -> Result<Option<VersionNumber>> {
        const SQL: &str = "SELECT from_version FROM desired_resource WHERE environment_id = $1 AND + from_version <= $2 \
                           AND to_version > $2 AND resource_id = $3";
        let row: Option<(VersionNumber,)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(version)
                .bind(resource_id)
                .fetch_optional(pool)
                .await?
        });
        Ok(row.map(|(from,)| from))
    }

    /// The newest stored version that has a resource, be it released or not.
    pub async fn resource_newest(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<Option<VersionNumber>> {
        const SQL: &str = "SELECT MAX(v.number) FROM desired_resource d CROSS JOIN version v \
                           WHERE d.environment_id = $1 AND d.resource_id = $2 AND v.environment_id = d.environment_id \
                           AND + d.from_version <= v.number AND + d.to_version > v.number";
        let (newest,): (Option<VersionNumber>,) = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(resource_id)
                .fetch_one(pool)
                .await?
        });
        Ok(newest)
    }

    /// The rows that the first version has and that end until the second, and the rows that begin between them and that the
    /// second has: together, by resource. No other row is read.
    async fn resource_rows(
        &self,
        environment: EnvironmentId,
        from: VersionNumber,
        to: VersionNumber,
    ) -> Result<BTreeMap<ResourceId, (Option<Row>, Option<Row>)>> {
        let (old, new): (Vec<Row>, Vec<Row>) = read!(self.db, pool => {
            let old = sqlx::query_as(select!(
                "WHERE environment_id = $1 AND from_version <= $2 AND to_version > $2 AND to_version <= $3 \
                 AND to_version < 9223372036854775807"
            ));
            let old = old.bind(environment.to_string()).bind(from).bind(to).fetch_all(pool).await?;
            let new = sqlx::query_as(select!(
                "WHERE environment_id = $1 AND from_version > $2 AND from_version <= $3 AND to_version > $3"
            ));
            let new = new.bind(environment.to_string()).bind(from).bind(to).fetch_all(pool).await?;
            (old, new)
        });
        let mut pairs: BTreeMap<ResourceId, (Option<Row>, Option<Row>)> = BTreeMap::new();
        for row in old {
            let pair = pairs.entry(row.resource_id.clone()).or_default();
            pair.0 = Some(row);
        }
        for row in new {
            let pair = pairs.entry(row.resource_id.clone()).or_default();
            pair.1 = Some(row);
        }
        Ok(pairs)
    }

    /// The resources that differ between the two versions, by id, as the first and as the second has them.
    pub async fn resource_differences(
        &self,
        environment: EnvironmentId,
        from: VersionNumber,
        to: VersionNumber,
    ) -> Result<Vec<(Option<StoredResource>, Option<StoredResource>)>> {
        let pairs = self.resource_rows(environment, from, to).await?;
        let resource = |row: Option<Row>| row.map(Row::into_resource).transpose();
        let differing = pairs.into_values().filter(differ);
        differing
            .map(|(old, new)| Ok((resource(old)?, resource(new)?)))
            .collect()
    }

    /// What is to be done when the desired state goes from one version to another, with the released ones between them:
    /// the resources that are new or changed, and the ids that were removed. One that a released version between them did
    /// not have was removed and is new, whatever it was before: it is in both lists. What is in neither list is the same in
    /// all of them. Source: docs/reference/deployment.md § 2.10.
    pub async fn resource_changes(
        &self,
        environment: EnvironmentId,
        from: VersionNumber,
        to: VersionNumber,
    ) -> Result<(Vec<StoredResource>, Vec<ResourceId>)> {
        let returned = self.resource_returned(environment, from, to).await?;
        let (mut changed, mut removed) = (Vec::new(), Vec::new());
        for (id, pair) in self.resource_rows(environment, from, to).await? {
            let is_returned = pair.0.is_some() && returned.contains(&id);
            if !is_returned && !differ(&pair) {
                continue;
            }
            if is_returned || pair.1.is_none() {
                removed.push(id);
            }
            if let Some(new) = pair.1 {
                changed.push(new.into_resource()?);
            }
        }
        Ok((changed, removed))
    }

    /// The resources that some released version between the two does not have.
    async fn resource_returned(
        &self,
        environment: EnvironmentId,
        from: VersionNumber,
        to: VersionNumber,
    ) -> Result<HashSet<ResourceId>> {
        const RELEASED: &str = "SELECT number FROM version WHERE environment_id = $1 AND number > $2 AND number < $3 \
                                AND released_us IS NOT NULL";
        const ENDED: &str = "SELECT resource_id, from_version, to_version FROM desired_resource WHERE environment_id = $1 \
                             AND to_version > $2 AND to_version <= $3 AND to_version < 9223372036854775807";
        const BEGUN: &str = "SELECT resource_id, from_version, to_version FROM desired_resource WHERE environment_id = $1 \
                             AND from_version > $2 AND from_version <= $3";
        type Interval = (ResourceId, VersionNumber, VersionNumber);
        let released: Vec<(VersionNumber,)> = read!(self.db, pool => {
            sqlx::query_as(RELEASED).bind(environment.to_string()).bind(from).bind(to).fetch_all(pool).await?
        });
        if released.is_empty() {
            return Ok(HashSet::new());
        }
        let mut intervals: HashMap<ResourceId, Vec<(VersionNumber, VersionNumber)>> =
            HashMap::new();
        for sql in [ENDED, BEGUN] {
            let rows: Vec<Interval> = read!(self.db, pool => {
                sqlx::query_as(sql).bind(environment.to_string()).bind(from).bind(to).fetch_all(pool).await?
            });
            for (id, begin, end) in rows {
                intervals.entry(id).or_default().push((begin, end));
            }
        }
        let is_gone = |intervals: &[(VersionNumber, VersionNumber)]| {
            let covers = |number: VersionNumber| {
                let mut all = intervals.iter();
                all.any(|(begin, end)| *begin <= number && number < *end)
            };
            !released.iter().all(|(number,)| covers(*number))
        };
        let gone = intervals
            .into_iter()
            .filter(|(_, intervals)| is_gone(intervals));
        Ok(gone.map(|(id, _)| id).collect())
    }

    /// The contents that a resource had over the versions that were released, newest first. One that came back after another
    /// one is there again, with the moment when it was stored again: the first of them is always the one that it has now.
    pub async fn resource_history(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<Vec<StoredResource>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND resource_id = $2 AND EXISTS (SELECT 1 FROM version v \
                 WHERE v.environment_id = $1 AND v.number >= from_version AND v.number < to_version \
                 AND v.released_us IS NOT NULL) ORDER BY created_us, from_version"
            ))
            .bind(environment.to_string())
            .bind(resource_id)
            .fetch_all(pool)
            .await?
        });
        let contents = rows.into_iter().map(Row::into_resource);
        let mut history: Vec<StoredResource> = contents.collect::<Result<_>>()?;
        // Also of one that changed its set, was away for a while, or was another one in a version that nobody released.
        history.dedup_by(|later, earlier| later.digest == earlier.digest);
        history.reverse();
        Ok(history)
    }
}
