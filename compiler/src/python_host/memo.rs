//! What calls of plugins gave, kept between compiles, so that Python is not even started for calls that were made before.
//!
//! A plugin that only computes (`python/steward_host/purity.py` decides it) gives the same for the same: for the same
//! arguments, and for the same values of what it reads of the model. What it reads depends on what it has read before, so
//! what is kept is a decision tree:
//!
//! ```text
//! summary(connection)       reads connection.customer   →  a vpn::Customer
//!                           reads its name              →  "acme"        or  "initech"
//!                           reads connection.kind       →  "plain"           …
//!                           gives "acme, plain"
//! ```
//!
//! The tree is a table. A place in it is the digest of all that led there: the plugin, the arguments, and each value read, in
//! order. An instance is in it by its entity and the order in which the call came upon it, not by its number, which another
//! model changes. At each place stands what is read next, or the result. So a call is looked up by reading the model as the
//! plugin would (`runtime/python_bridge/remembered.rs`), and one new value on the way leads to a place that nobody knows.
//!
//! All of it is of the same Python code, interpreter and variables as the declarations beside which it is kept
//! (`super::declarations`): when one of these changes, it is forgotten. Kept is what the last compile used or added.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::hash::Map;

/// A place in the tree: a digest of 128 bits.
pub type Place = (u64, u64);

/// The form of what is kept.
const FORM: &[u8; 8] = b"memo\0\0\0\x02";
/// Places at most. More are not added.
const MOST_PLACES: usize = 1_000_000;
/// Bytes of all results at most, for the same reason.
const MOST_BYTES: usize = 16 << 20;
/// A record: the digest, and two numbers.
const RECORD: usize = 24;
/// In the place of the number of an instance: the record is that of a result.
const IS_RESULT: u32 = u32::MAX;

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The plugin reads an attribute next.
    Read {
        /// Which of the instances that the call has come upon, from 0.
        instance: u32,
        /// The name, in [`Memo::name`].
        name: u32,
    },
    /// It returns the value that begins here, in [`Memo::result`].
    Result {
        /// A number for [`Memo::result`].
        at: u32,
    },
}

/// The calls that are known.
#[derive(Debug, Default)]
pub struct Memo {
    /// Plugins that are known to compute only, or not to.
    verdicts: BTreeMap<String, bool>,
    names: Vec<String>,
    known_names: Map<String, u32>,
    /// What stands at each place, and whether it was of use in this compile.
    places: Map<Place, (Next, bool)>,
    /// MessagePack, each behind its length.
    results: Vec<u8>,
    n_used: usize,
    is_changed: bool,
}

/// The digest of a place that is `before` and what was found there.
pub fn place(before: Place, found: &[u8]) -> Place {
    let mut hasher = SipHasher13::new_with_keys(before.0, before.1);
    hasher.write(found);
    let digest = hasher.finish128();
    (digest.h1, digest.h2)
}

impl Memo {
    /// What [`Memo::to_bytes`] wrote for the same `identity`; empty if it did not.
    pub(in crate::python_host) fn from_bytes(bytes: &[u8], identity: [u8; 32]) -> Self {
        read(bytes, identity).unwrap_or_default()
    }

    /// All of it that this compile used or added, if there is anything new in that. `identity`: of what it depends on.
    pub(in crate::python_host) fn to_bytes(&self, identity: [u8; 32]) -> Option<Vec<u8>> {
        if !self.is_changed && self.n_used * 2 >= self.places.len() {
            return None;
        }
        let head = rmp_serde::to_vec(&(&self.verdicts, &self.names)).ok()?;
        let mut used: Vec<(&Place, Next)> = self
            .places
            .iter()
            .filter(|(_, (_, is_used))| *is_used)
            .map(|(place, (next, _))| (place, *next))
            .collect();
        used.sort_unstable_by_key(|(place, _)| **place);
        let mut records = Vec::with_capacity(used.len() * RECORD);
        let mut results = Vec::new();
        for (place, next) in used {
            let (first, second) = match next {
                Next::Read { instance, name } => (instance, name),
                Next::Result { at } => {
                    let begin = u32::try_from(results.len()).ok()?;
                    let result = self.result(at)?;
                    results.extend_from_slice(&u32::try_from(result.len()).ok()?.to_le_bytes());
                    results.extend_from_slice(result);
                    (IS_RESULT, begin)
                }
            };
            records.extend_from_slice(&place.0.to_le_bytes());
            records.extend_from_slice(&place.1.to_le_bytes());
            records.extend_from_slice(&first.to_le_bytes());
            records.extend_from_slice(&second.to_le_bytes());
        }
        let mut bytes = Vec::with_capacity(64 + head.len() + records.len() + results.len());
        bytes.extend_from_slice(FORM);
        bytes.extend_from_slice(&identity);
        for part in [&head, &records] {
            bytes.extend_from_slice(&u32::try_from(part.len()).ok()?.to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(&results);
        Some(bytes)
    }

    /// Which plugins are known to compute only, or not to.
    pub fn verdicts(&self) -> &BTreeMap<String, bool> {
        &self.verdicts
    }

    /// Whether some calls of a plugin may be known.
    pub fn has_calls_of(&self, plugin: &str) -> bool {
        !self.places.is_empty() && self.verdicts.get(plugin) == Some(&true)
    }

    /// Notes whether a plugin computes only.
    pub fn judge(&mut self, plugin: &str, is_pure: bool) {
        if self.verdicts.get(plugin) != Some(&is_pure) {
            self.verdicts.insert(plugin.to_owned(), is_pure);
            self.is_changed = true;
        }
    }

    /// Whether no call is known.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What stands at a place.
    pub fn next(&self, place: Place) -> Option<Next> {
        self.places.get(&place).map(|(next, _)| *next)
    }

    /// Notes that a place was of use.
    pub fn use_place(&mut self, place: Place) {
        if let Some((_, is_used)) = self.places.get_mut(&place)
            && !*is_used
        {
            *is_used = true;
            self.n_used += 1;
        }
    }

    /// The name of an attribute.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }

    /// A result, as MessagePack.
    pub fn result(&self, at: u32) -> Option<&[u8]> {
        let rest = self.results.get(at as usize..)?;
        let (size, rest) = rest.split_first_chunk()?;
        rest.get(..u32::from_le_bytes(*size) as usize)
    }

    /// Notes what an attribute is called; its number.
    pub fn number_of(&mut self, name: &str) -> u32 {
        if let Some(known) = self.known_names.get(name) {
            return *known;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.known_names.insert(name.to_owned(), number);
        number
    }

    /// Notes what a plugin reads at a place, if there is room; `false`: something else stands there.
    pub fn add_read(&mut self, place: Place, instance: u32, name: u32) -> bool {
        self.add(place, Next::Read { instance, name })
    }

    /// Notes what a plugin gives at a place, as MessagePack; `false`: as above.
    pub fn add_result(&mut self, place: Place, result: &[u8]) -> bool {
        if let Some(Next::Result { at }) = self.next(place) {
            self.use_place(place);
            return self.result(at) == Some(result);
        }
        let (Ok(at), Ok(size)) = (
            u32::try_from(self.results.len()),
            u32::try_from(result.len()),
        ) else {
            return false;
        };
        if self.results.len() + result.len() > MOST_BYTES {
            return true;
        }
        self.results.extend_from_slice(&size.to_le_bytes());
        self.results.extend_from_slice(result);
        self.add(place, Next::Result { at })
    }

    fn add(&mut self, place: Place, next: Next) -> bool {
        if let Some((known, _)) = self.places.get(&place) {
            let is_same = *known == next;
            self.use_place(place);
            return is_same;
        }
        if self.places.len() >= MOST_PLACES {
            return true;
        }
        self.places.insert(place, (next, true));
        self.n_used += 1;
        self.is_changed = true;
        true
    }
}

fn read(bytes: &[u8], identity: [u8; 32]) -> Option<Memo> {
    let rest = bytes.strip_prefix(FORM)?;
    let rest = rest.strip_prefix(&identity)?;
    let (head, rest) = part(rest)?;
    let (records, results) = part(rest)?;
    let (verdicts, names): (BTreeMap<String, bool>, Vec<String>) =
        rmp_serde::from_slice(head).ok()?;
    let known = names.iter().enumerate();
    let known_names = known.map(|(at, name)| Some((name.clone(), u32::try_from(at).ok()?)));
    let mut places = Map::default();
    places.reserve(records.len() / RECORD);
    for record in records.chunks_exact(RECORD) {
        let (first, rest) = record.split_first_chunk()?;
        let (second, rest) = rest.split_first_chunk()?;
        let (instance, rest) = rest.split_first_chunk()?;
        let number = u32::from_le_bytes(*rest.first_chunk()?);
        let next = match u32::from_le_bytes(*instance) {
            IS_RESULT => Next::Result { at: number },
            instance => Next::Read {
                instance,
                name: number,
            },
        };
        let place = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
        places.insert(place, (next, false));
    }
    Some(Memo {
        verdicts,
        known_names: known_names.collect::<Option<_>>()?,
        names,
        places,
        results: results.to_vec(),
        n_used: 0,
        is_changed: false,
    })
}

/// A part behind its length, and what follows it.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*size) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: [u8; 32] = [7; 32];

    fn sample() -> Memo {
        let mut memo = Memo::default();
        memo.judge("vpn::summary", true);
        let name = memo.number_of("customer");
        let begin = place((0, 0), b"vpn::summary");
        assert!(memo.add_read(begin, 0, name));
        assert!(memo.add_result(place(begin, b"acme"), b"\xa4acme"));
        memo
    }

    /// Given: calls that a compile has added. Expected: the next compile finds them, and writes nothing that it only used.
    #[test]
    fn what_is_kept_is_found_again() {
        let bytes = sample().to_bytes(IDENTITY).expect("there is something new");
        let mut memo = Memo::from_bytes(&bytes, IDENTITY);
        let begin = place((0, 0), b"vpn::summary");
        assert!(memo.has_calls_of("vpn::summary") && !memo.has_calls_of("vpn::other"));
        assert_eq!(
            memo.next(begin),
            Some(Next::Read {
                instance: 0,
                name: 0
            })
        );
        assert_eq!(memo.name(0), Some("customer"));
        let end = place(begin, b"acme");
        let Some(Next::Result { at }) = memo.next(end) else {
            panic!("it ends there");
        };
        assert_eq!(memo.result(at), Some(&b"\xa4acme"[..]));
        assert_eq!(memo.next(place(begin, b"initech")), None);
        memo.use_place(begin);
        memo.use_place(end);
        assert_eq!(memo.to_bytes(IDENTITY), None);
    }

    /// Given: calls of which a compile used none. Expected: they are forgotten.
    #[test]
    fn what_is_of_no_use_goes() {
        let bytes = sample().to_bytes(IDENTITY).expect("there is something new");
        let bytes = Memo::from_bytes(&bytes, IDENTITY).to_bytes(IDENTITY);
        let memo = Memo::from_bytes(&bytes.expect("most of it is of no use"), IDENTITY);
        assert!(memo.is_empty());
        assert_eq!(memo.verdicts().len(), 1);
    }

    /// Given: a plugin that reads or gives something else at the same place. Expected: it is told.
    #[test]
    fn two_things_at_one_place_are_told() {
        let mut memo = sample();
        let begin = place((0, 0), b"vpn::summary");
        assert!(memo.add_read(begin, 0, 0) && !memo.add_read(begin, 1, 0));
        assert!(!memo.add_result(begin, b"\xa1x"));
        assert!(!memo.add_result(place(begin, b"acme"), b"\xa1x"));
    }

    /// Input: a file that is cut anywhere, of another identity, or with changed bytes (docs/reference/security.md § 4.2). Answer: nothing of it is known, or other things are; no panic.
    #[test]
    fn broken_files_are_forgotten() {
        let bytes = sample().to_bytes(IDENTITY).expect("there is something new");
        assert!(Memo::from_bytes(&bytes, [8; 32]).is_empty());
        for end in 0..bytes.len() {
            let memo = Memo::from_bytes(&bytes[..end], IDENTITY);
            let results = memo.places.values().filter_map(|(next, _)| match next {
                Next::Result { at } => Some(*at),
                Next::Read { .. } => None,
            });
            for at in results {
                let _ = memo.result(at);
            }
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let memo = Memo::from_bytes(&changed, IDENTITY);
            for (next, _) in memo.places.values() {
                let _ = match next {
                    Next::Result { at } => memo.result(*at).map(<[u8]>::len),
                    Next::Read { name, .. } => memo.name(*name).map(str::len),
                };
            }
        }
    }
}
