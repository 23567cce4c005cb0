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
//! A plugin may read files, too: at such a place stands the path, and what leads on is the digest of the file. Of a file that somebody
//! has changed since the compile began, nobody knows what the plugin has read, and nothing is kept.
//!
//! All of it is of the same Python code, interpreter and variables as the declarations beside which it is kept
//! (`super::declarations`): when one of these changes, it is forgotten. Kept is what the last compile used or added.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::time::SystemTime;

use hashbrown::HashTable;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::file_stamp::{self, FileStamp};
use crate::hash::Map;
use crate::python_host::session::{Key, digest};

/// A place in the tree: a digest of 128 bits.
pub type Place = (u64, u64);

/// The form of what is kept.
const FORM: &[u8; 8] = b"memo\0\0\0\x07";
/// Places at most. More are not added.
const MOST_PLACES: usize = 1_000_000;
/// Bytes of all results at most, for the same reason.
const MOST_BYTES: usize = 38 << 20;
/// Bytes of a record: the place, and two numbers.
const RECORD: usize = 24;
/// In the place of the number of an instance: the record is that of a result.
const IS_RESULT: u32 = u32::MAX;
/// The same of words.
const IS_LOGGED: u32 = u32::MAX - 1;
/// The same of a file.
const IS_FILE: u32 = u32::MAX - 2;

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
    /// It reads a file next.
    File {
        /// The number of its path, in [`Memo::name`].
        path: u32,
    },
    /// It says what begins here, in [`Memo::result`], for people, and goes on.
    Logged {
        /// A number for [`Memo::result`].
        at: u32,
    },
    /// It returns the value that begins here, in [`Memo::result`].
    Result {
        /// A number for [`Memo::result`].
        at: u32,
    },
}

/// A place, and what stands there.
#[derive(Debug, Clone, Copy)]
struct Record {
    place: Place,
    next: Next,
}

/// The calls that are known.
///
/// A large compile goes through hundreds of thousands of places, each of them once. A hash map of them would be read all over:
/// nearly each look at it would wait for the memory. So the records lie in the order in which a compile came to them, which is
/// the order of the next one, too, but for what has changed: a place that is new to a compile mostly stands behind the one that was
/// new to it before. An index, which is much smaller, finds the others.
#[derive(Debug, Default)]
pub struct Memo {
    /// The place before all calls. Nobody but us knows it, so nobody can write arguments that lead to a place of others.
    start: Place,
    /// Plugins that are known to compute only, or not to.
    verdicts: BTreeMap<String, bool>,
    names: Vec<String>,
    known_names: Map<String, u32>,
    kept: Kept,
    /// The records of this compile. Their numbers go on behind those of the kept ones.
    added: Vec<Record>,
    /// Where in all records a place is: made when it is asked for, by the first half of the place.
    index: OnceCell<HashTable<u32>>,
    /// The number of the record behind the last of those that this compile has come to.
    expected: Cell<u32>,
    /// Which records were of use in this compile, in the order of their first use, and the same by their numbers.
    used: Vec<u32>,
    is_used: Vec<bool>,
    /// MessagePack, each behind its length. Their numbers go on behind those of the kept ones.
    results: Vec<u8>,
    is_changed: bool,
    /// Digests of files by the numbers of their paths, and when this compile began.
    files: RefCell<Map<u32, Option<Key>>>,
    /// The same of files that were read in this compile, as long as they are what they were then.
    files_read: RefCell<Map<String, (FileStamp, Key)>>,
    started: Option<SystemTime>,
}

/// What an earlier compile has kept, as it lies in the file: records, and behind them results.
#[derive(Debug, Default)]
struct Kept {
    file: Vec<u8>,
    records_at: usize,
    n_records: usize,
    results_at: usize,
}

impl Kept {
    fn record(&self, at: usize) -> Option<Record> {
        let start = self.records_at + at * RECORD;
        read_record(self.file.get(start..start + RECORD)?)
    }

    fn results(&self) -> &[u8] {
        self.file.get(self.results_at..).unwrap_or_default()
    }
}

/// The digest of a place that is `before` and what was found there.
pub fn place(before: Place, found: &[u8]) -> Place {
    let mut hasher = SipHasher13::new_with_keys(before.0, before.1);
    hasher.write(found);
    let digest = hasher.finish128();
    (digest.h1, digest.h2)
}

impl Memo {
    /// An empty one, whose calls begin at a place of its own.
    pub(in crate::python_host) fn empty() -> Self {
        let random = RandomState::new();
        Memo {
            start: (random.hash_one(0), random.hash_one(1)),
            started: Some(file_stamp::now()),
            ..Memo::default()
        }
    }

    /// What [`Memo::to_bytes`] wrote for the same `identity`; empty if it did not.
    pub(in crate::python_host) fn from_bytes(bytes: Vec<u8>, identity: [u8; 32]) -> Self {
        read(bytes, identity).unwrap_or_else(Memo::empty)
    }

    /// All of it that this compile used or added, if there is anything new in that. `identity`: of what it depends on.
    pub(in crate::python_host) fn to_bytes(&self, identity: [u8; 32]) -> Option<Vec<u8>> {
        if !self.is_changed && self.used.len() * 2 >= self.n_records() {
            return None;
        }
        let head = rmp_serde::to_vec(&(self.start, &self.verdicts, &self.names)).ok()?;
        let mut records = Vec::with_capacity(self.used.len() * RECORD);
        let mut results = Vec::new();
        for at in &self.used {
            let record = self.record(*at as usize)?;
            let (first, second) = match record.next {
                Next::Read { instance, name } => (instance, name),
                Next::File { path } => (IS_FILE, path),
                Next::Logged { at } | Next::Result { at } => {
                    let begin = u32::try_from(results.len()).ok()?;
                    let result = self.result(at)?;
                    results.extend_from_slice(&u32::try_from(result.len()).ok()?.to_le_bytes());
                    results.extend_from_slice(result);
                    let is_logged = matches!(record.next, Next::Logged { .. });
                    (if is_logged { IS_LOGGED } else { IS_RESULT }, begin)
                }
            };
            records.extend_from_slice(&record.place.0.to_le_bytes());
            records.extend_from_slice(&record.place.1.to_le_bytes());
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

    /// The place before all calls.
    pub fn start(&self) -> Place {
        self.start
    }

    /// Which plugins are known to compute only, or not to.
    pub fn verdicts(&self) -> &BTreeMap<String, bool> {
        &self.verdicts
    }

    /// Whether some calls of a plugin may be known.
    pub fn has_calls_of(&self, plugin: &str) -> bool {
        !self.is_empty() && self.verdicts.get(plugin) == Some(&true)
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
        self.n_records() == 0
    }

    /// What stands at a place, and the number of its record.
    pub fn next(&self, place: Place) -> Option<(u32, Next)> {
        let expected = self.expected.get();
        let record = self.record(expected as usize);
        if let Some(record) = record.filter(|record| record.place == place) {
            self.expected.set(expected + 1);
            return Some((expected, record.next));
        }
        let found = *self.index().find(place.0, |at| self.is_at(*at, place))?;
        self.expected.set(expected.max(found + 1));
        Some((found, self.record(found as usize)?.next))
    }

    /// Notes that a record was of use.
    pub fn use_record(&mut self, record: u32) {
        let at = record as usize;
        if self.is_used.len() <= at {
            self.is_used.resize(self.n_records().max(at + 1), false);
        }
        if !std::mem::replace(&mut self.is_used[at], true) {
            self.used.push(record);
        }
    }

    /// The name of an attribute.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }

    /// The digest of the file of this number, as it was when this compile asked for it first; `None`: it can not be read.
    pub fn file_digest(&self, path: u32) -> Option<Key> {
        let known = self.files.borrow().get(&path).copied();
        known.unwrap_or_else(|| {
            let digest = self.name(path).and_then(digest);
            self.files.borrow_mut().insert(path, digest);
            digest
        })
    }

    /// The same of a file that was read in this compile. `None`, too: somebody may have changed it meanwhile.
    pub fn digest_of_read(&self, path: &str) -> Option<Key> {
        let stamp = || FileStamp::of(Path::new(path)).filter(FileStamp::is_file);
        let before = stamp()?;
        if !before.is_settled(self.started?) {
            return None;
        }
        // A thousand calls may read one large file.
        if let Some((known, digest)) = self.files_read.borrow().get(path)
            && *known == before
        {
            return Some(*digest);
        }
        let digest = digest(path)?;
        if stamp()? != before {
            return None;
        }
        let mut files_read = self.files_read.borrow_mut();
        files_read.insert(path.to_owned(), (before, digest));
        Some(digest)
    }

    /// A result, or words, as MessagePack.
    pub fn result(&self, at: u32) -> Option<&[u8]> {
        let (at, kept) = (at as usize, self.kept.results());
        let rest = match at.checked_sub(kept.len()) {
            Some(at) => self.results.get(at..)?,
            None => &kept[at..],
        };
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

    /// Notes which file a plugin reads at a place; `false`: as above.
    pub fn add_file(&mut self, place: Place, path: u32) -> bool {
        self.add(place, Next::File { path })
    }

    /// Notes what a plugin gives at a place, as MessagePack; `false`: as above.
    pub fn add_result(&mut self, place: Place, result: &[u8]) -> bool {
        if let Some((record, Next::Result { at })) = self.next(place) {
            self.use_record(record);
            return self.result(at) == Some(result);
        }
        self.add_bytes(place, result, |at| Next::Result { at })
    }

    /// Notes what a plugin says at a place, as MessagePack; `false`: as above.
    pub fn add_logged(&mut self, place: Place, logged: &[u8]) -> bool {
        if let Some((record, Next::Logged { at })) = self.next(place) {
            self.use_record(record);
            return self.result(at) == Some(logged);
        }
        self.add_bytes(place, logged, |at| Next::Logged { at })
    }

    fn add_bytes(&mut self, place: Place, result: &[u8], next: impl Fn(u32) -> Next) -> bool {
        let n_bytes = self.kept.results().len() + self.results.len();
        let (Ok(at), Ok(size)) = (u32::try_from(n_bytes), u32::try_from(result.len())) else {
            return false;
        };
        if n_bytes + result.len() > MOST_BYTES {
            return true;
        }
        self.results.extend_from_slice(&size.to_le_bytes());
        self.results.extend_from_slice(result);
        self.add(place, next(at))
    }

    fn add(&mut self, place: Place, next: Next) -> bool {
        if let Some((record, known)) = self.next(place) {
            self.use_record(record);
            return known == next;
        }
        if self.n_records() >= MOST_PLACES {
            return true;
        }
        let Ok(number) = u32::try_from(self.n_records()) else {
            return true;
        };
        self.added.push(Record { place, next });
        if let Some(mut index) = self.index.take() {
            index.insert_unique(place.0, number, |at| self.hash_at(*at));
            self.index = OnceCell::from(index);
        }
        self.use_record(number);
        self.is_changed = true;
        true
    }

    fn n_records(&self) -> usize {
        self.kept.n_records + self.added.len()
    }

    fn record(&self, at: usize) -> Option<Record> {
        match at.checked_sub(self.kept.n_records) {
            Some(at) => self.added.get(at).copied(),
            None => self.kept.record(at),
        }
    }

    fn is_at(&self, record: u32, place: Place) -> bool {
        let record = self.record(record as usize);
        record.is_some_and(|record| record.place == place)
    }

    /// By what the index finds a record: half of a digest is as good as a hash of it.
    fn hash_at(&self, record: u32) -> u64 {
        self.record(record as usize)
            .map_or(0, |record| record.place.0)
    }

    fn index(&self) -> &HashTable<u32> {
        self.index.get_or_init(|| {
            let mut index = HashTable::with_capacity(self.n_records());
            for at in 0..self.n_records() {
                if let (Some(record), Ok(number)) = (self.record(at), u32::try_from(at)) {
                    index.insert_unique(record.place.0, number, |at| self.hash_at(*at));
                }
            }
            index
        })
    }
}

fn read(file: Vec<u8>, identity: [u8; 32]) -> Option<Memo> {
    let rest = file.strip_prefix(FORM)?;
    let rest = rest.strip_prefix(&identity)?;
    let (head, rest) = part(rest)?;
    let (records, results) = part(rest)?;
    let (start, verdicts, names): (Place, BTreeMap<String, bool>, Vec<String>) =
        rmp_serde::from_slice(head).ok()?;
    let known = names.iter().enumerate();
    let known_names = known.map(|(at, name)| Some((name.clone(), u32::try_from(at).ok()?)));
    let known_names = known_names.collect::<Option<_>>()?;
    let results_at = file.len() - results.len();
    let kept = Kept {
        records_at: results_at - records.len(),
        n_records: records.len() / RECORD,
        results_at,
        file,
    };
    Some(Memo {
        start,
        started: Some(file_stamp::now()),
        verdicts,
        known_names,
        names,
        kept,
        ..Memo::default()
    })
}

fn read_record(bytes: &[u8]) -> Option<Record> {
    let (first, rest) = bytes.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    let (instance, rest) = rest.split_first_chunk()?;
    let number = u32::from_le_bytes(*rest.first_chunk()?);
    let next = match u32::from_le_bytes(*instance) {
        IS_RESULT => Next::Result { at: number },
        IS_LOGGED => Next::Logged { at: number },
        IS_FILE => Next::File { path: number },
        instance => Next::Read {
            instance,
            name: number,
        },
    };
    let place = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
    Some(Record { place, next })
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
        let end = place(begin, b"acme");
        assert!(memo.add_logged(end, b"\x92\xa4INFO\xa1a"));
        assert!(memo.add_result(place(end, b"w"), b"\xa4acme"));
        memo
    }

    fn read_all(memo: &Memo) {
        for at in 0..memo.n_records() {
            let Some(record) = memo.record(at) else {
                continue;
            };
            let _ = memo.next(record.place);
            let _ = match record.next {
                Next::Logged { at } | Next::Result { at } => memo.result(at).map(<[u8]>::len),
                Next::Read { name, .. } | Next::File { path: name } => {
                    memo.name(name).map(str::len)
                }
            };
        }
    }

    /// Given: calls that a compile has added. Expected: the next compile finds them, and writes nothing that it only used.
    #[test]
    fn what_is_kept_is_found_again() {
        let bytes = sample().to_bytes(IDENTITY).expect("there is something new");
        let mut memo = Memo::from_bytes(bytes, IDENTITY);
        let begin = place((0, 0), b"vpn::summary");
        assert!(memo.has_calls_of("vpn::summary") && !memo.has_calls_of("vpn::other"));
        assert_eq!(
            memo.next(begin),
            Some((
                0,
                Next::Read {
                    instance: 0,
                    name: 0
                }
            ))
        );
        assert_eq!(memo.name(0), Some("customer"));
        let end = place(begin, b"acme");
        let Some((1, Next::Logged { at })) = memo.next(end) else {
            panic!("it says something there");
        };
        assert_eq!(memo.result(at), Some(&b"\x92\xa4INFO\xa1a"[..]));
        let Some((2, Next::Result { at })) = memo.next(place(end, b"w")) else {
            panic!("it ends there");
        };
        assert_eq!(memo.result(at), Some(&b"\xa4acme"[..]));
        assert_eq!(memo.next(place(begin, b"initech")), None);
        (0..3).for_each(|record| memo.use_record(record));
        assert_eq!(memo.to_bytes(IDENTITY), None);
    }

    /// Given: a compile that makes a new call between two known ones, and leaves out a third. Expected: the next one finds the
    /// three that it made, in this order, and no other.
    #[test]
    fn what_is_used_is_kept_in_the_order_of_its_use() {
        let start = |name: &str| place((0, 0), name.as_bytes());
        let mut memo = Memo::default();
        for name in ["a", "left out", "b"] {
            assert!(memo.add_result(start(name), name.as_bytes()));
        }
        let bytes = memo.to_bytes(IDENTITY).expect("there is something new");
        let mut memo = Memo::from_bytes(bytes, IDENTITY);
        let use_known = |memo: &mut Memo, name: &str| {
            let (record, _) = memo.next(start(name)).expect("it is known");
            memo.use_record(record);
        };
        use_known(&mut memo, "b");
        assert_eq!(memo.next(start("new")), None);
        assert!(memo.add_result(start("new"), b"new"));
        assert!(memo.add_result(start("new"), b"new"), "it is there already");
        use_known(&mut memo, "a");
        use_known(&mut memo, "b");
        let bytes = memo.to_bytes(IDENTITY).expect("there is something new");
        let memo = Memo::from_bytes(bytes, IDENTITY);
        assert_eq!(memo.next(start("left out")), None);
        for (number, name) in ["b", "new", "a"].into_iter().enumerate() {
            let Some((record, Next::Result { at })) = memo.next(start(name)) else {
                panic!("{name} is known");
            };
            assert_eq!(record as usize, number);
            assert_eq!(memo.result(at), Some(name.as_bytes()));
        }
    }

    /// Input: arguments that were made to lead to the place of others (docs/reference/security.md § 3.38). Answer: where calls begin is another place in each memo, and the same one in each compile that reads it.
    #[test]
    fn nobody_knows_where_calls_begin() {
        let (mut memo, other) = (Memo::empty(), Memo::empty());
        assert_ne!(memo.start(), other.start());
        assert!(memo.add_result(place(memo.start(), b"f"), b"\xc0"));
        let bytes = memo.to_bytes(IDENTITY).expect("there is something new");
        let again = Memo::from_bytes(bytes, IDENTITY);
        assert_eq!(again.start(), memo.start());
        assert!(again.next(place(memo.start(), b"f")).is_some());
    }

    /// Given: calls of which a compile used none. Expected: they are forgotten.
    #[test]
    fn what_is_of_no_use_goes() {
        let bytes = sample().to_bytes(IDENTITY).expect("there is something new");
        let bytes = Memo::from_bytes(bytes, IDENTITY).to_bytes(IDENTITY);
        let memo = Memo::from_bytes(bytes.expect("most of it is of no use"), IDENTITY);
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
        let end = place(begin, b"acme");
        assert!(!memo.add_result(end, b"\xa1x") && !memo.add_logged(end, b"\x90"));
        assert!(!memo.add_result(place(end, b"w"), b"\xa1x"));
    }

    /// Input: a file that is cut anywhere, of another identity, or with changed bytes (docs/reference/security.md § 4.2). Answer: nothing of it is known, or other things are; no panic.
    #[test]
    fn broken_files_are_forgotten() {
        let bytes = sample().to_bytes(IDENTITY).expect("there is something new");
        assert!(Memo::from_bytes(bytes.clone(), [8; 32]).is_empty());
        for end in 0..bytes.len() {
            let memo = Memo::from_bytes(bytes[..end].to_vec(), IDENTITY);
            read_all(&memo);
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let memo = Memo::from_bytes(changed, IDENTITY);
            read_all(&memo);
        }
    }
}
