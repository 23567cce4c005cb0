//! What the code cites is there: `docs/reference/language.md § 8.6` is a document of the repository with such a section.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files whose comments cite documents. Not `migrations`, whose texts never change.
const CITING: &[&str] = &[
    "src",
    "compiler/src",
    "compiler/tests",
    "python",
    "tests",
    "benches",
    "docs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn texts(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let is_text = |extension: &std::ffi::OsStr| {
            ["rs", "py", "sql", "md"].contains(&extension.to_str().unwrap_or(""))
        };
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("seeds") {
            texts(&path, found);
        } else if path.extension().is_some_and(is_text) {
            found.push(path);
        }
    }
}

/// The numbers of a document's headings: `## 8.6 Order` is `8.6`.
fn sections(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() {
            continue;
        }
        let number = title.trim_start().split(' ').next().unwrap_or("");
        let number = number.trim_end_matches('.');
        if number.starts_with(|c: char| c.is_ascii_digit()) {
            found.insert(number.to_owned());
        }
    }
    found
}

/// The text with the lines of each comment joined, since a citation may go over the end of a line.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.trim_start();
        let marks = ["//!", "///", "//", "#", "--"];
        let body = marks.iter().find_map(|mark| line.strip_prefix(mark));
        out.push(' ');
        out.push_str(body.unwrap_or(line).trim());
    }
    out
}

/// The documents that a text cites, each with its sections: `docs/design.md § 3, § 4` gives two.
fn citations(text: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("docs/") {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        let rest = &text[at..];
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let Some(path) = rest[..end].find(".md").map(|end| &rest[..end + 3]) else {
            continue;
        };
        let mut rest = &rest[path.len()..];
        found.push((path.to_owned(), None));
        loop {
            let joint = [" ", ", ", " and ", " to ", "–"];
            let after = joint.iter().find_map(|joint| rest.strip_prefix(joint));
            let Some(number) = after.and_then(|after| after.strip_prefix("§ ")) else {
                break;
            };
            let is_number = |c: char| c.is_ascii_digit() || c == '.';
            let end = number.find(|c| !is_number(c)).unwrap_or(number.len());
            let section = number[..end].trim_end_matches('.');
            found.push((path.to_owned(), Some(section.to_owned())));
            rest = &number[end..];
        }
    }
    found
}

#[test]
fn what_is_cited_is_there() {
    let mut files = Vec::new();
    for folder in CITING {
        texts(&root().join(folder), &mut files);
    }
    let mut documents: BTreeMap<String, Option<BTreeSet<String>>> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut n_cited = 0;
    for file in files
        .iter()
        .filter(|file| !file.ends_with("tests/it/sources.rs"))
    {
        let text = joined(&fs::read_to_string(file).unwrap());
        for (path, section) in citations(&text) {
            let document = documents.entry(path.clone()).or_insert_with(|| {
                let text = fs::read_to_string(root().join(&path)).ok()?;
                Some(sections(&text))
            });
            let is_there = match (document, &section) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(sections), Some(section)) => sections.contains(section),
            };
            n_cited += usize::from(section.is_some());
            if !is_there {
                wrong.push(format!("{}: {path} § {section:?}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "not there:\n{}", wrong.join("\n"));
    assert!(n_cited > 150, "only {n_cited} citations were found");
}

#[test]
fn documents_are_cited_by_their_whole_path() {
    let mut files = Vec::new();
    for folder in ["src", "compiler/src", "python"] {
        texts(&root().join(folder), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for name in [
            "language",
            "deployment",
            "deploy",
            "std-module",
            "rest-api",
            "python-sdk",
        ] {
            for (at, cited) in text.match_indices(&format!("{name}.md")) {
                let is_whole = text[..at].ends_with("docs/reference/");
                let is_other = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
                assert!(
                    is_whole || is_other,
                    "{}: {cited} is cited without its folder",
                    file.display()
                );
            }
        }
    }
}
