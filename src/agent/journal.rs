//! The file in which an agent keeps what must survive its own end: which runs have begun, and results that the server does not
//! have yet.
//!
//! It is a sequence of records, each a length and a MessagePack document, and only ever appended to. What is live is in memory as
//! well; when the file has grown far beyond that, it is written anew beside itself and takes its own place. A record that was cut
//! off by a crash is the last one, and is dropped at the next start.
//!
//! A result reaches the disk before the server hears of it (`fdatasync`); a beginning only reaches the kernel, since after a crash
//! of the whole machine what ran is told as cut off either way: see [`Journal::open`].

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Map;
use steward_compiler::protocol;

use crate::domain::{ActionId, HandlerStatus, LogLevel, Timestamp};
use crate::executor::bounds::MAX_REPLY_BYTES;
use crate::executor::protocol::{LogLine, TaskDone, TaskOutcome};
use crate::executor::remote::Carried;

/// The file is written anew when it has more bytes than this, and few of them are live.
const COMPACT_BYTES: u64 = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Begun(Carried),
    Ended(Box<Kept>),
    /// The server has the result with this number.
    Acknowledged(u64),
    /// A run that was given back before its handler began.
    GivenBack(ActionId),
}

/// A result that the server does not have yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) carried: Carried,
    pub(super) done: TaskDone,
}

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    running: BTreeMap<ActionId, Carried>,
    results: BTreeMap<u64, Kept>,
    next: u64,
}

impl Journal {
    /// Opens the file, or makes it. Runs that had begun and not ended were cut off with the agent that ran them: they have a
    /// result from now on, which says so.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut journal = Self {
            path: path.to_owned(),
            file: open(path)?,
            n_bytes: 0,
            running: BTreeMap::new(),
            results: BTreeMap::new(),
            next: 1,
        };
        let mut reader = BufReader::new(File::open(path)?);
        while let Ok(Some(record)) = protocol::read_frame_within(&mut reader, 2 * MAX_REPLY_BYTES) {
            journal.take(record);
        }
        let cut_off: Vec<Carried> = journal.running.values().cloned().collect();
        // Also drops what was cut off in the file.
        journal.compact()?;
        for carried in cut_off {
            let done = interrupted(carried.action, "the agent ended during this run");
            journal.end(done)?;
        }
        Ok(journal)
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Begun(carried) => {
                self.running.insert(carried.action, carried);
            }
            Record::Ended(kept) => {
                self.running.remove(&kept.carried.action);
                self.next = self.next.max(kept.number + 1);
                self.results.insert(kept.number, *kept);
            }
            Record::Acknowledged(number) => {
                self.results.remove(&number);
            }
            Record::GivenBack(action) => {
                self.running.remove(&action);
            }
        }
    }

    /// Whether a run has begun, or has a result that the server does not have.
    pub(super) fn knows(&self, action: ActionId) -> bool {
        self.running.contains_key(&action)
            || self
                .results
                .values()
                .any(|kept| kept.carried.action == action)
    }

    /// All runs that the server has to hear of.
    pub(super) fn carried(&self) -> Vec<Carried> {
        let ended = self.results.values().map(|kept| &kept.carried);
        self.running.values().chain(ended).cloned().collect()
    }

    pub(super) fn results(&self) -> impl Iterator<Item = &Kept> {
        self.results.values()
    }

    /// The runs that have not ended.
    pub(super) fn running(&self) -> Vec<ActionId> {
        self.running.keys().copied().collect()
    }

    /// Notes that a run begins.
    pub(super) fn begin(&mut self, carried: Carried) -> io::Result<()> {
        self.append(&Record::Begun(carried.clone()))?;
        self.running.insert(carried.action, carried);
        Ok(())
    }

    /// Keeps the result of a run; `None`: it did not run, or has one already.
    pub(super) fn end(&mut self, done: TaskDone) -> io::Result<Option<Kept>> {
        let Some(carried) = self.running.get(&done.action).cloned() else {
            return Ok(None);
        };
        let kept = Kept {
            number: self.next,
            carried,
            done,
        };
        self.append(&Record::Ended(Box::new(kept.clone())))?;
        self.file.sync_data()?;
        self.take(Record::Ended(Box::new(kept.clone())));
        Ok(Some(kept))
    }

    /// A run has not begun, and does not count as given to this agent any more.
    pub(super) fn give_back(&mut self, action: ActionId) -> io::Result<()> {
        if self.running.remove(&action).is_some() {
            self.append(&Record::GivenBack(action))?;
        }
        Ok(())
    }

    /// The server has these results.
    pub(super) fn acknowledge(&mut self, numbers: &[u64]) -> io::Result<()> {
        for number in numbers {
            if self.results.remove(number).is_some() {
                self.append(&Record::Acknowledged(*number))?;
            }
        }
        let is_mostly_dead = self.results.is_empty() || self.n_bytes > 16 * COMPACT_BYTES;
        if self.n_bytes > COMPACT_BYTES && is_mostly_dead {
            self.compact()?;
        }
        Ok(())
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut frame = Vec::new();
        protocol::write_frame(&mut frame, record)?;
        self.file.write_all(&frame)?;
        self.n_bytes += frame.len() as u64;
        Ok(())
    }

    /// Writes what is live beside the file, and puts it in its place.
    fn compact(&mut self) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
        let begun = self.running.values().cloned().map(Record::Begun);
        let ended = self.results.values().cloned();
        let ended = ended.map(|kept| Record::Ended(Box::new(kept)));
        for record in begun.chain(ended) {
            protocol::write_frame(fresh.as_file_mut(), &record)?;
        }
        fresh.as_file().sync_data()?;
        self.n_bytes = fresh.as_file().metadata()?.len();
        fresh.persist(&self.path)?;
        self.file = open(&self.path)?;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

/// The result of a run that nobody can tell more of.
pub(super) fn interrupted(action: ActionId, why: &str) -> TaskDone {
    unavailable(action, format!("{why}; the resource is verified again"))
}

/// The result of a run that no handler has ended, with its one log line.
pub(super) fn unavailable(action: ActionId, why: String) -> TaskDone {
    let now = Timestamp::now().0;
    let line = LogLine {
        level: LogLevel::Error,
        msg: why,
        kwargs: Map::new(),
        timestamp_us: now,
    };
    TaskDone {
        action,
        finished_us: now,
        outcome: TaskOutcome {
            logs: vec![line],
            ..TaskOutcome::of(HandlerStatus::Unavailable)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{AgentName, ResourceId, VersionNumber};

    fn carried() -> Carried {
        Carried {
            action: ActionId::generate(),
            agent: AgentName::new("web1"),
            resource_id: ResourceId::new("m::R[web1,name=a]"),
            version: VersionNumber::new(1),
            intent: "x".to_owned(),
            is_deploy: true,
        }
    }

    fn good(action: ActionId) -> TaskDone {
        TaskDone {
            action,
            finished_us: 1,
            outcome: TaskOutcome::of(HandlerStatus::Deployed),
        }
    }

    #[test]
    fn a_result_is_kept_over_restarts_until_it_is_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (one, two) = (carried(), carried());
        let mut journal = Journal::open(&path).unwrap();
        journal.begin(one.clone()).unwrap();
        journal.begin(two.clone()).unwrap();
        let kept = journal.end(good(one.action)).unwrap().unwrap();
        assert!(journal.end(good(one.action)).unwrap().is_none());
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        let statuses: Vec<_> = journal
            .results()
            .map(|kept| (kept.carried.action, kept.done.outcome.status))
            .collect();
        let expected = [
            (one.action, HandlerStatus::Deployed),
            (two.action, HandlerStatus::Unavailable),
        ];
        assert_eq!(statuses, expected);
        journal.acknowledge(&[kept.number]).unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert!(!journal.knows(one.action) && journal.knows(two.action));
    }

    #[test]
    fn a_record_that_a_crash_cut_off_is_dropped_and_those_before_it_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let one = carried();
        let mut journal = Journal::open(&path).unwrap();
        journal.begin(one.clone()).unwrap();
        journal.end(good(one.action)).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        // A length, and the begin of the record that it is of.
        file.write_all(&whole[..10]).unwrap();
        drop(file);
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.results().count(), 1);
        // What comes after it can be read again.
        let two = carried();
        journal.begin(two.clone()).unwrap();
        drop(journal);
        assert!(Journal::open(&path).unwrap().knows(two.action));
    }
}
