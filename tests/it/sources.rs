//! What the code cites is there: `docs/reference/language.md § 8.6` is a document of the repository with such a section.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files whose comments cite documents. Not `migrations`, whose texts never change.
const CITING: &[&str] = &[
    "src",
    "compiler/src",
    "compiler/tests",
    "lsm/src",
    "lsm/tests",
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
    for folder in ["src", "compiler/src", "lsm/src", "python"] {
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

/// Numbers of issues mean nothing to who has the repository only: the text says what it has to say, or cites a document.
#[test]
fn nothing_cites_the_number_of_an_issue() {
    let folders = ["src", "compiler", "python", "tests", "benches", "docs"];
    let mut files = Vec::new();
    for folder in folders {
        texts(&root().join(folder), &mut files);
    }
    for file in files {
        let text = joined(&fs::read_to_string(&file).unwrap()).to_lowercase();
        // In two parts, so that this file does not name what it looks for.
        let word = ["issue", " "].concat();
        for (at, _) in text.match_indices(&word) {
            let rest = &text[at + word.len()..];
            assert!(
                !rest.starts_with(|c: char| c.is_ascii_digit()),
                "{}: `{}` is a number that nobody can look up",
                file.display(),
                &text[at..].chars().take(20).collect::<String>()
            );
        }
    }
}

/// What is written for people: the pages at the top, those of `docs`, and the ones beside code.
fn documents() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["docs", "benches", "systemd"] {
        texts(&root().join(folder), &mut files);
    }
    let top = fs::read_dir(root()).unwrap().flatten();
    files.extend(top.map(|entry| entry.path()));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files
}

/// The anchor of a heading, as forges make it: `## 8.6 Emission rules` is `86-emission-rules`.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    title
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        // Without code, in which the same characters mean something else.
        let text: String = text.split('`').step_by(2).collect();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let (path, section) = target.split_once('#').unwrap_or((target, ""));
            let to = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let headings = fs::read_to_string(&to).unwrap_or_default();
            let mut headings = headings.lines().filter(|line| line.starts_with('#'));
            if !to.exists() || !section.is_empty() && !headings.any(|line| anchor(line) == section)
            {
                wrong.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "not there:\n{}", wrong.join("\n"));
}

#[test]
fn code_that_documents_name_is_there() {
    let folders = [
        "src/",
        "compiler/",
        "python/",
        "tests/",
        "fixtures/",
        "benches/",
    ];
    let mut wrong = Vec::new();
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let path = name.split("::").next().unwrap();
            let is_path = folders.iter().any(|folder| path.starts_with(folder))
                && !path.contains(|c: char| c.is_whitespace() || "*<{".contains(c));
            let candidates = [path.to_owned(), format!("{path}.rs")];
            let mut candidates = candidates.iter().map(|path| root().join(path));
            if is_path && !candidates.any(|path| path.exists()) {
                wrong.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "not there:\n{}", wrong.join("\n"));
}
