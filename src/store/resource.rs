//! Resources by content, as versions hold them.

use std::collections::HashMap;

use futures_util::TryStreamExt;

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

impl Row {
    fn into_resource(self) -> Result<StoredResource> {
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

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT r.digest, r.resource_id, r.resource_type, r.agent, r.id_attribute, r.id_value, r.attributes, \
             r.attribute_hash, r.requires, r.is_undefined, r.created_us, i.set_name FROM set_interval i \
             JOIN set_member m ON m.revision_id = i.revision_id \
             JOIN resource r ON r.environment_id = i.environment_id AND r.digest = m.digest \
             WHERE i.environment_id = $1 AND i.from_version <= $2 AND (i.to_version IS NULL OR i.to_version > $2) ",
            $rest
        )
    };
}

impl Store {
    /// Shows the attributes of all stored resources of all environments, one after the other.
    pub async fn resource_attributes(&self, mut seen: impl FnMut(&str)) -> Result<()> {
        const SQL: &str = "SELECT attributes FROM resource";
        read!(self.db, pool => {
            let mut rows = sqlx::query_as::<_, (String,)>(SQL).fetch(pool);
            while let Some((attributes,)) = rows.try_next().await? {
                seen(&attributes);
            }
        });
        Ok(())
    }

    /// All resources of a version, by id.
    pub async fn resource_list(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<StoredResource>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("ORDER BY r.resource_id"))
                .bind(environment.to_string())
                .bind(version)
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_resource).collect()
    }

    /// What resources of a version require, by id, without all else that they hold.
    pub async fn resource_requires(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        ids: &[ResourceId],
    ) -> Result<HashMap<ResourceId, Vec<ResourceId>>> {
        const SQL: &str = "SELECT r.resource_id, r.requires FROM set_interval i \
                           JOIN set_member m ON m.revision_id = i.revision_id \
                           JOIN resource r ON r.environment_id = i.environment_id AND r.digest = m.digest \
                           WHERE i.from_version <= ";
        let mut found = HashMap::new();
        for chunk in ids.chunks(1000) {
            let rows: Vec<(ResourceId, String)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(SQL);
                query.push_bind(version).push(" AND (i.to_version IS NULL OR i.to_version > ");
                query.push_bind(version).push(") AND i.environment_id = ");
                query.push_bind(environment.to_string()).push(" AND r.resource_id IN (");
                let mut list = query.separated(", ");
                for id in chunk {
                    list.push_bind(id);
                }
                query.push(")");
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
            sqlx::query_as(select!("AND r.resource_id = $3"))
                .bind(environment.to_string())
                .bind(version)
                .bind(resource_id)
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_resource).transpose()
    }

    /// The resources of the sets that differ between the two versions, and the ids that only the old one has.
    /// What is in neither list is the same in both.
    pub async fn resource_changes(
        &self,
        environment: EnvironmentId,
        from: VersionNumber,
        to: VersionNumber,
    ) -> Result<(Vec<StoredResource>, Vec<ResourceId>)> {
        const OLD: &str = "SELECT r.resource_id, r.digest FROM set_interval i \
                           JOIN set_member m ON m.revision_id = i.revision_id \
                           JOIN resource r ON r.environment_id = i.environment_id AND r.digest = m.digest \
                           WHERE i.environment_id = $1 AND i.from_version <= $2 \
                           AND i.to_version IS NOT NULL AND i.to_version > $2 AND i.to_version <= $3";
        let (old, new): (Vec<(ResourceId, String)>, Vec<Row>) = read!(self.db, pool => {
            let old = sqlx::query_as(OLD).bind(environment.to_string()).bind(from).bind(to).fetch_all(pool).await?;
            let new = sqlx::query_as(select!("AND i.from_version > $3 ORDER BY r.resource_id"))
                .bind(environment.to_string())
                .bind(to)
                .bind(from)
                .fetch_all(pool)
                .await?;
            (old, new)
        });
        let mut old: HashMap<ResourceId, String> = old.into_iter().collect();
        let mut changed = Vec::new();
        for row in new {
            if old
                .remove(&row.resource_id)
                .is_none_or(|digest| digest != row.digest)
            {
                changed.push(row.into_resource()?);
            }
        }
        let mut removed: Vec<ResourceId> = old.into_keys().collect();
        removed.sort_unstable();
        Ok((changed, removed))
    }

    /// The contents that a resource had over the versions: (content, first version), newest first.
    pub async fn resource_history(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<Vec<StoredResource>> {
        const SQL: &str = "SELECT r.digest, r.resource_id, r.resource_type, r.agent, r.id_attribute, r.id_value, \
                           r.attributes, r.attribute_hash, r.requires, r.is_undefined, r.created_us, '' AS set_name \
                           FROM resource r WHERE r.environment_id = $1 AND r.resource_id = $2 \
                           ORDER BY r.created_us DESC";
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(resource_id).fetch_all(pool).await?
        });
        rows.into_iter().map(Row::into_resource).collect()
    }
}
