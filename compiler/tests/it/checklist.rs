//! Every entry of the checklists of the language (`lang`), of its std module (`std`), of the Python surface (`sdk`) and of
//! services (`lsm`) and deployment (`deploy`) has a test.
//!
//! A test says which entries it shows: `#: lang 57, 58; std 3` on a line of a case or before a Python test, `//: lang 57`
//! before a Rust test. `docs/checklist.md` lists the entries, what each is about, and its tests; titles are written there,
//! the tests come from the marks. `UPDATE=1 cargo test -p steward-compiler checklist` writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::lang::{cases, files};

const LISTS: &[(&str, u32)] = &[
    ("lang", 202),
    ("std", 33),
    ("sdk", 45),
    ("lsm", 111),
    ("deploy", 145),
];

/// Entries whose tests are not here yet, from the first to the last of a row. One that gets a mark must leave this list. Those
/// of `lsm` wait for the inventory and the compiles of a server.
#[rustfmt::skip]
const AWAITED: &[(&str, u32, u32)] = &[
    ("sdk", 45, 45),
];

/// The same of `deploy`, which has many.
const AWAITED_OF_DEPLOY: &[u32] = &[];

type Entry = (String, u32);

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The entries of a mark: `lang 57, 58; std 3`.
fn entries(mark: &str, place: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    for part in mark.split(';') {
        let (list, numbers) = part.trim().split_once(' ').expect(place);
        let (_, last) = LISTS.iter().find(|(name, _)| *name == list).expect(place);
        for number in numbers.split(',') {
            let number: u32 = number.trim().parse().expect(place);
            assert!((1..=*last).contains(&number), "{place}: no entry {number}");
            found.push((list.to_owned(), number));
        }
    }
    found
}

/// Marks before functions and classes: `//: lang 1` … `fn name`, each as it is written, with its place.
pub fn marks(path: &Path, leader: &str, keywords: &[&str]) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(path).expect("a test file is readable");
    let name = path.strip_prefix(root()).expect("it is below");
    let mut found = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(mark) = line.strip_prefix(leader) {
            waiting.push(mark.to_owned());
        } else if let Some(rest) = keywords.iter().find_map(|word| line.strip_prefix(word)) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let function = &rest[..end.unwrap_or(rest.len())];
            let test = format!("{}::{function}", name.display());
            found.extend(waiting.drain(..).map(|mark| (mark, test.clone())));
        }
    }
    assert!(waiting.is_empty(), "{}: a mark at the end", path.display());
    found
}

fn marked_functions(path: &Path, leader: &str, keywords: &[&str]) -> Vec<(Entry, String)> {
    let mut found = Vec::new();
    for (mark, test) in marks(path, leader, keywords) {
        // Those of `surface.rs` are names.
        if !mark.starts_with("api ") {
            let entries = entries(&mark, &test).into_iter();
            found.extend(entries.map(|entry| (entry, test.clone())));
        }
    }
    found
}

fn tests() -> BTreeMap<Entry, Vec<String>> {
    let mut tests: BTreeMap<Entry, Vec<String>> = BTreeMap::new();
    let lang = root().join("fixtures/lang");
    for path in cases() {
        let name = path
            .strip_prefix(env!("CARGO_MANIFEST_DIR"))
            .unwrap_or(&path);
        let name = name.strip_prefix("../fixtures/lang").unwrap_or(name);
        let name = name.with_extension("").display().to_string();
        let text = std::fs::read_to_string(&path).expect("a case is readable");
        for mark in text.lines().filter_map(|line| line.strip_prefix("#: ")) {
            for entry in entries(mark, &name) {
                tests.entry(entry).or_default().push(name.clone());
            }
        }
    }
    assert!(lang.is_dir());
    for directory in [
        "compiler/tests",
        "compiler/src",
        "tests/it",
        "src",
        "python/tests",
        "fixtures/modules",
        "lsm/tests",
    ] {
        for path in files(&root().join(directory)) {
            let marked = match path.extension().and_then(|extension| extension.to_str()) {
                // The marks that this file speaks of are none.
                Some("rs") if !path.ends_with("checklist.rs") => {
                    marked_functions(&path, "//: ", &["fn ", "async fn "])
                }
                Some("py") => marked_functions(&path, "#: ", &["def ", "class "]),
                _ => continue,
            };
            for (entry, test) in marked {
                tests.entry(entry).or_default().push(test);
            }
        }
    }
    tests
}

/// `docs/checklist.md` with the tests of today; what is wrong with the titles is a panic.
fn rewritten(text: &str, tests: &BTreeMap<Entry, Vec<String>>) -> String {
    let mut out = String::new();
    let mut seen: Vec<Entry> = Vec::new();
    let mut list = "";
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            list = title.split(':').next().unwrap_or_default();
        }
        let mut cells = line.split(" | ");
        let number = cells.next().and_then(|cell| cell.strip_prefix("| "));
        let Some(number) = number.and_then(|number| number.trim().parse::<u32>().ok()) else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let title = cells.next().unwrap_or_default().trim();
        assert!(!title.is_empty(), "entry {number} of {list} has no title");
        let entry = (list.to_owned(), number);
        let names = tests.get(&entry).map(Vec::as_slice).unwrap_or_default();
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        out.push_str(&format!("| {number} | {title} | {} |\n", names.join(" ")));
        seen.push(entry);
    }
    let all = LISTS
        .iter()
        .flat_map(|(list, last)| (1..=*last).map(|number| ((*list).to_owned(), number)));
    assert_eq!(
        seen,
        all.collect::<Vec<_>>(),
        "entries of docs/checklist.md"
    );
    out
}

#[test]
fn every_entry_of_the_checklists_has_a_test() {
    let tests = tests();
    for (list, last) in LISTS {
        for number in 1..=*last {
            let has = tests.contains_key(&((*list).to_owned(), number));
            let mut rows = AWAITED.iter();
            let awaited = rows
                .any(|(of, first, last)| of == list && (*first..=*last).contains(&number))
                || (*list == "deploy" && AWAITED_OF_DEPLOY.contains(&number));
            assert!(has || awaited, "{list} {number} has no test");
            assert!(
                !(has && awaited),
                "{list} {number} has a test: it is not awaited any more"
            );
        }
    }
}

#[test]
fn the_table_of_the_checklists_is_up_to_date() {
    let path = root().join("docs/checklist.md");
    let text = std::fs::read_to_string(&path).expect("docs/checklist.md is readable");
    let wanted = rewritten(&text, &tests());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &wanted).expect("docs/checklist.md is writable");
        return;
    }
    assert!(
        text == wanted,
        "docs/checklist.md is stale: UPDATE=1 cargo test -p steward-compiler checklist"
    );
}
