//! What a run has seen: counts, and the differences that nothing explains.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::answer::{Answer, Outcome};
use crate::compare::Difference;
use crate::tree::Case;

/// No more shrunk cases than this of one signature.
const MAX_OF_A_SIGNATURE: usize = 2;
const PROGRESS_EVERY: usize = 500;

pub struct Report {
    directory: PathBuf,
    started: Instant,
    n_cases: usize,
    kinds: BTreeMap<&'static str, usize>,
    accepted: usize,
    rejected: BTreeMap<String, usize>,
    crashed: BTreeMap<String, usize>,
    timeouts: usize,
    deviations: BTreeMap<&'static str, usize>,
    differences: BTreeMap<String, usize>,
}

impl Report {
    pub fn new(directory: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        Ok(Report {
            directory: directory.to_owned(),
            started: Instant::now(),
            n_cases: 0,
            kinds: BTreeMap::new(),
            accepted: 0,
            rejected: BTreeMap::new(),
            crashed: BTreeMap::new(),
            timeouts: 0,
            deviations: BTreeMap::new(),
            differences: BTreeMap::new(),
        })
    }

    /// Counts a case; whether its difference is worth shrinking.
    pub fn add(
        &mut self,
        kind: &'static str,
        reference: &Answer,
        difference: Option<&Difference>,
        deviation: Option<&'static str>,
    ) -> bool {
        self.n_cases += 1;
        *self.kinds.entry(kind).or_default() += 1;
        let first = reference
            .errors
            .first()
            .map(|error| error.kind.clone())
            .unwrap_or_default();
        match reference.outcome {
            Outcome::Accepted => self.accepted += 1,
            Outcome::Rejected => *self.rejected.entry(first).or_default() += 1,
            Outcome::Crashed => *self.crashed.entry(first).or_default() += 1,
            Outcome::Timeout => self.timeouts += 1,
        }
        if self.n_cases.is_multiple_of(PROGRESS_EVERY) {
            println!(
                "{} cases, {} unexplained, {:.0} s",
                self.n_cases,
                self.n_unexplained(),
                self.started.elapsed().as_secs_f64()
            );
        }
        match (difference, deviation) {
            (None, _) => false,
            (Some(_), Some(name)) => {
                *self.deviations.entry(name).or_default() += 1;
                false
            }
            (Some(difference), None) => {
                let count = self
                    .differences
                    .entry(difference.signature.clone())
                    .or_default();
                *count += 1;
                *count <= MAX_OF_A_SIGNATURE
            }
        }
    }

    /// Writes a shrunk case down.
    pub fn keep(&self, number: u64, title: &str, case: &Case, detail: &str) -> std::io::Result<()> {
        let text = format!("{title}\n\n{}\n{detail}\n", case.listing());
        println!("---\n{text}");
        std::fs::write(self.directory.join(format!("{number}.txt")), text)
    }

    fn n_unexplained(&self) -> usize {
        self.differences.values().sum()
    }

    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }

    pub fn summary(&self) -> String {
        let mut text = format!(
            "{} cases in {:.0} s\nof each kind: {:?}\n",
            self.n_cases,
            self.started.elapsed().as_secs_f64(),
            self.kinds
        );
        let n_rejected: usize = self.rejected.values().sum();
        let _ = writeln!(
            text,
            "the reference accepts {}, rejects {n_rejected}:",
            self.accepted
        );
        counts(&mut text, &self.rejected);
        let _ = writeln!(text, "ends by an exception of its host:");
        counts(&mut text, &self.crashed);
        let _ = writeln!(text, "does not end: {}\ndeviations:", self.timeouts);
        counts(&mut text, &self.deviations);
        let _ = writeln!(text, "unexplained differences: {}", self.n_unexplained());
        counts(&mut text, &self.differences);
        text
    }
}

fn counts<K: std::fmt::Display>(text: &mut String, counts: &BTreeMap<K, usize>) {
    for (name, count) in counts {
        let _ = writeln!(text, "  {count:6} {name}");
    }
}
