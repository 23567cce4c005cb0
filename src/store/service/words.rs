//! Parts of ids and identities: which instances of a service have a word in them that is searched for.
//!
//! No index finds a part of a text, and a database that looks at a hundred thousand rows takes a tenth of a second. So the ids
//! and identities of the instances that have not ended stand here, one behind the other (`listing/texts.rs`), and what has
//! changed is read again before each search (`remembered`). What is found here is looked at once more by the database, together
//! with whatever else is searched for: an entry that is no longer true does no harm, and what was changed is entered anew.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use super::list::InstanceSearch;
use crate::domain::EnvironmentId;
use crate::store::listing::{COUNTED, Texts, Word};
use crate::store::macros::read;
use crate::store::{Result, Store, parsed, storable};

/// Instances that are read again in one statement; SQLite takes 32766 parameters.
const AT_ONCE: usize = 10_000;
/// Entries that are no longer true: so many, and as many as are true, before all are read anew.
const MAX_STALE: usize = 10_000;
/// Divides id and identity.
const BETWEEN: char = '\u{1f}';

/// The ids and identities of the instances of a service.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Id, [`BETWEEN`] and identity of each, in small letters of ASCII.
    texts: Texts,
    /// Which of the texts is true of an instance that has not ended.
    places: HashMap<Uuid, u32>,
}

impl Known {
    fn set(&mut self, id: &str, identity: Option<&str>) -> Result<()> {
        let key: Uuid = parsed("service_instance", "id", id)?;
        let text = format!("{id}{BETWEEN}{}", identity.unwrap_or_default()).to_ascii_lowercase();
        let place = self.places.get(&key);
        if place.is_some_and(|place| *self.texts.get(*place as usize) == text) {
            return Ok(());
        }
        self.places.insert(key, self.texts.len() as u32);
        self.texts.push(&text);
        Ok(())
    }

    fn is_worn(&self) -> bool {
        self.texts.len() - self.places.len() > self.places.len() + MAX_STALE
    }

    /// Ids of instances that may have one of the words, among them all that have; `None`: they are more than `n_most`.
    fn find(&self, words: &[String], n_most: usize) -> Option<BTreeSet<String>> {
        let mut words: Vec<Word> = words.iter().map(|word| Word::plain(word)).collect();
        let (mut found, mut places) = (BTreeSet::new(), 0..self.texts.len());
        while let Some(place) = self.texts.find(&mut words, &places, false) {
            let id = self.texts.get(place).split(BETWEEN).next();
            found.extend(id.map(str::to_owned));
            if found.len() > n_most {
                return None;
            }
            places.start = place + 1;
        }
        Some(found)
    }
}

impl Store {
    /// The ids of instances that may be what is searched for by words, as far as these say: few, and among them all that are.
    /// `None`: it is not searched by words, they are many, or what is kept does not say.
    pub(super) async fn service_words_find(
        &self,
        environment: EnvironmentId,
        search: &InstanceSearch,
    ) -> Result<Option<BTreeSet<String>>> {
        // Which letters beyond ASCII are the same but for their case is what each database knows for itself.
        let is_known =
            search.is_deleted == Some(false) && search.words.iter().all(|word| word.is_ascii());
        if search.words.is_empty() || !is_known {
            return Ok(None);
        }
        let thing = self.remembered.words.of(environment, search.entity.clone());
        let mut known = thing.known.lock().await;
        let changed = thing.take_changed();
        // It is put back when it was read; until then nothing is known.
        let current = known.take().filter(|known| !known.is_worn());
        let current = match current {
            Some(current) => {
                self.words_again(environment, &search.entity, current, &changed)
                    .await?
            }
            None => self.words_anew(environment, &search.entity).await?,
        };
        let found = current.find(&search.words, COUNTED as usize);
        *known = Some(current);
        Ok(found)
    }

    async fn words_anew(&self, environment: EnvironmentId, entity: &str) -> Result<Known> {
        const SQL: &str = "SELECT id, COALESCE(identity, '') FROM service_instance \
                           WHERE environment_id = $1 AND entity = $2 AND is_deleted = FALSE ORDER BY COALESCE(identity, ''), id";
        let rows: Vec<(String, String)> = read!(self.db, pool => {
            let query = sqlx::query_as(SQL).bind(environment.to_string());
            query.bind(storable(entity).into_owned()).fetch_all(pool).await?
        });
        let mut known = Known::default();
        for (id, identity) in rows {
            known.set(&id, Some(&identity))?;
        }
        Ok(known)
    }

    async fn words_again(
        &self,
        environment: EnvironmentId,
        entity: &str,
        mut known: Known,
        changed: &BTreeSet<String>,
    ) -> Result<Known> {
        let ids: Vec<&String> = changed.iter().collect();
        for chunk in ids.chunks(AT_ONCE) {
            // The service is compared in a way that no index has: SQLite would read all its instances.
            let sql = format!(
                "SELECT id, identity FROM service_instance WHERE is_deleted = FALSE AND environment_id = $1 \
                 AND entity || '' = $2 AND id IN ({})",
                super::parameters(3, chunk.len())
            );
            let rows: Vec<(String, Option<String>)> = read!(self.db, pool => {
                let mut query = sqlx::query_as(&sql).bind(environment.to_string()).bind(storable(entity).into_owned());
                for id in chunk {
                    query = query.bind(*id);
                }
                query.fetch_all(pool).await?
            });
            let there: BTreeSet<&String> = rows.iter().map(|(id, _)| id).collect();
            for gone in chunk.iter().filter(|id| !there.contains(*id)) {
                if let Ok(id) = gone.parse() {
                    known.places.remove(&id);
                }
            }
            for (id, identity) in &rows {
                known.set(id, identity.as_deref())?;
            }
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests;
