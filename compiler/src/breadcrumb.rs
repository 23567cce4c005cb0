//! Where a compile is, for whoever must say it when its process was killed.
//!
//! A process that the kernel kills, or that finds no more memory, cannot say what it was doing. So a compile leaves a
//! *breadcrumb* in memory that outlives it: before the model runs, the table of all places of its sources; then, at each
//! statement, instance and call, the number of the place, which is one store of four bytes. Nothing more is done while the
//! process lives. Who finds it dead looks the number up in the table ([`place`]).

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::span::{Loc, Sources};

/// More than the places of the largest models. A larger table is not left, and not read.
pub const MAX_TABLE_BYTES: usize = 64 << 20;

type WriteTable = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Memory for a breadcrumb that others can read.
pub struct Breadcrumb {
    at: &'static AtomicU32,
    write_table: WriteTable,
}

/// The place that compiles without a breadcrumb write to.
static NOBODY_READS: AtomicU32 = AtomicU32::new(0);

impl fmt::Debug for Breadcrumb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breadcrumb")
            .field("at", self.at)
            .finish_non_exhaustive()
    }
}

impl Breadcrumb {
    /// `at` gets the number of a place, 0 for none; `write_table` the table that [`place`] looks it up in.
    pub fn new(
        at: &'static AtomicU32,
        write_table: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Self {
        Self {
            at,
            write_table: Box::new(write_table),
        }
    }

    /// The places of the model that runs next.
    pub(crate) fn begin(&self, sources: &Sources) {
        self.at.store(Loc::NONE.0, Ordering::Relaxed);
        let table = table(sources);
        if table.len() <= MAX_TABLE_BYTES {
            (self.write_table)(&table);
        }
    }

    /// Notes that the compile is at no place of the model any more.
    pub fn end(&self) {
        self.at.store(Loc::NONE.0, Ordering::Relaxed);
    }

    /// What the places go to.
    pub(crate) fn target(breadcrumb: Option<&Self>) -> &'static AtomicU32 {
        breadcrumb.map_or(&NOBODY_READS, |breadcrumb| breadcrumb.at)
    }
}

/// All places, in numbers of 32 bits (little endian): how many files there are; of each the length of its name, the name,
/// how many lines it has and where each begins; then file and offset of each place, in the order of their numbers.
fn table(sources: &Sources) -> Vec<u8> {
    let mut out = Vec::new();
    let mut push = |number: usize, text: &str| {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    push(sources.files.len(), "");
    for file in &sources.files {
        push(file.name.len(), &file.name);
        push(file.line_starts().len(), "");
        for start in file.line_starts() {
            push(*start as usize, "");
        }
    }
    for span in sources.spans() {
        push(span.file.0 as usize, "");
        push(span.start as usize, "");
    }
    out
}

/// File and line of a place, in the table that a compile has left. `None`: the number is none of its places, or the table
/// is broken.
pub fn place(at: u32, table: &[u8]) -> Option<(String, u32)> {
    if at == Loc::NONE.0 {
        return None;
    }
    let mut reader = Reader(table);
    let n_files = reader.number()?;
    let mut files = Vec::new();
    for _ in 0..n_files {
        let length = reader.number()? as usize;
        let name = reader.bytes(length)?;
        let n_lines = reader.number()? as usize;
        files.push((name, reader.bytes(n_lines.checked_mul(4)?)?));
    }
    reader.bytes((at as usize).checked_mul(8)?)?;
    let (file, offset) = (reader.number()?, reader.number()?);
    let (name, starts) = files.get(file as usize)?;
    let starts = starts
        .chunks_exact(4)
        .filter_map(|start| Some(u32::from_le_bytes(start.try_into().ok()?)));
    let line = starts.take_while(|start| *start <= offset).count();
    let name = std::str::from_utf8(name).ok()?;
    Some((name.to_owned(), u32::try_from(line).ok()?))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n_bytes)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;

    #[test]
    fn a_place_is_found_again_by_its_number_in_the_table() {
        let mut sources = Sources::default();
        let first = sources.add_file("main.cf".to_owned(), "a = 1\nb = 2\n\nc = 3".to_owned());
        let other = sources.add_file("libs/m.cf".to_owned(), String::new());
        let at = |file, start| Span {
            file,
            start,
            end: start,
        };
        let places = [
            at(first, 0),
            at(first, 5),
            at(first, 6),
            at(first, 13),
            at(other, 0),
        ]
        .map(|span| sources.loc(span).0);
        let table = table(&sources);
        let found = places.map(|number| place(number, &table).unwrap());
        let expected = [
            ("main.cf", 1),
            ("main.cf", 1),
            ("main.cf", 2),
            ("main.cf", 4),
        ];
        for (found, (name, line)) in found
            .iter()
            .zip(expected.into_iter().chain([("libs/m.cf", 1)]))
        {
            assert_eq!(found, &(name.to_owned(), line));
        }
        assert_eq!(place(0, &table), None);
        assert_eq!(place(6, &table), None);
        assert_eq!(place(u32::MAX, &table), None);
    }

    #[test]
    fn a_broken_table_has_no_place() {
        let mut sources = Sources::default();
        let file = sources.add_file("main.cf".to_owned(), "a\nb".to_owned());
        let number = sources.loc(Span {
            file,
            start: 2,
            end: 3,
        });
        let table = table(&sources);
        assert!(place(number.0, &table).is_some());
        for n_bytes in 0..table.len() {
            assert_eq!(place(number.0, &table[..n_bytes]), None, "{n_bytes}");
        }
        let mut hostile = table.clone();
        hostile[..4].fill(0xff);
        assert_eq!(place(number.0, &hostile), None);
    }
}
