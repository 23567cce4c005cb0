//! `docs/security.md`: each bad input of `docs/reference/security.md`, what the answer is, and the test that shows it.
//!
//! A test says so in a line above its attribute: `/// Input: WHAT (docs/reference/security.md § 3.4, § 4.2). Answer: WHAT
//! HAPPENS.` The table is made of these lines; `STEWARD_UPDATE=1 cargo test --test it security::` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::sources;

const PAGE: &str = "docs/security.md";
/// Where the inputs are described, in sections of the chapters 3 and 4.
const LIST: &str = "docs/reference/security.md";
const MARK: &str = "<!-- Below: made by tests/it/security.rs. -->\n";
const INPUT: &str = "/// Input: ";
const ANSWER: &str = "). Answer: ";

/// What of these nobody can send to this version, and why.
const NOT_YET: &[(&str, &str)] = &[
    (
        "3.10",
        "no forge that is supported signs a time; deliveries are told apart by their ids",
    ),
    (
        "3.30",
        "signatures of commits are not looked at; a branch that moves backwards is compiled as it is",
    ),
    ("3.39", "there is no approval of large removals yet"),
];

/// The sections that want a test, with their titles, in the order of the page: `### 3.4 Webhook bodies`.
fn sections() -> Vec<(String, String)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST)).unwrap();
    let headings = text.lines().filter_map(|line| line.strip_prefix("### "));
    let pairs = headings.map(|heading| heading.split_once(' ').unwrap());
    let pairs = pairs.map(|(number, title)| (number.to_owned(), title.to_owned()));
    pairs.collect()
}

/// A row of the table.
struct Row {
    sections: Vec<String>,
    input: String,
    answer: String,
    test: String,
}

fn rows() -> Vec<Row> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "tests/it", "compiler/src", "compiler/tests"];
    let mut rows = Vec::new();
    for file in folders
        .iter()
        .flat_map(|folder| sources(&root.join(folder)))
    {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(said) = line.strip_prefix(INPUT) else {
                continue;
            };
            if file.ends_with("tests/it/security.rs") {
                continue;
            }
            let place = format!("{}:{}", file.display(), at + 1);
            // It may go on in the lines below.
            let more = lines[at + 1..]
                .iter()
                .map_while(|line| line.strip_prefix("/// "));
            let said = std::iter::once(said)
                .chain(more)
                .collect::<Vec<_>>()
                .join(" ");
            let (input, answer) = said
                .split_once(ANSWER)
                .unwrap_or_else(|| panic!("{place}: no answer"));
            let (input, sections) = input
                .rsplit_once(" (")
                .and_then(|(input, sources)| Some((input, sections_of(sources)?)))
                .unwrap_or_else(|| panic!("{place}: it cites no section of {LIST}"));
            let function = lines[at..].iter().find_map(|line| {
                let line = line.strip_prefix("async ").unwrap_or(line);
                Some(line.strip_prefix("fn ")?.split('(').next()?.to_owned())
            });
            let mut between = lines[at..].iter().take_while(|line| !line.contains("fn "));
            let name = function.filter(|_| {
                between.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
            });
            let module = file.strip_prefix(root).unwrap().with_extension("");
            let test = name.unwrap_or_else(|| panic!("{place}: no test below"));
            rows.push(Row {
                sections,
                input: input.to_owned(),
                answer: answer.trim_end_matches('.').to_owned(),
                test: format!("`{}::{test}`", module.display()),
            });
        }
    }
    rows
}

/// `docs/reference/security.md § 3.1, § 4.2` are two sections.
fn sections_of(sources: &str) -> Option<Vec<String>> {
    let list = sources.strip_prefix(LIST)?;
    let sections = list
        .split(',')
        .map(|section| section.trim().strip_prefix("§ "));
    sections.map(|section| section.map(str::to_owned)).collect()
}

fn table() -> String {
    let sections = sections();
    let mut by_section: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows() {
        let line = format!("| {} | {} | {} |\n", row.input, row.answer, row.test);
        for section in row.sections {
            let is_there = sections.iter().any(|(number, _)| *number == section);
            assert!(is_there, "{}: {LIST} has no § {section}", row.test);
            by_section.entry(section).or_default().insert(line.clone());
        }
    }
    let mut text = String::new();
    for (number, title) in sections {
        text.push_str(&format!("\n### {number} {title}\n\n"));
        let missing = NOT_YET.iter().find(|(missing, _)| *missing == number);
        match (by_section.get(&number), missing) {
            (Some(lines), None) => {
                text.push_str("| what is sent | what happens | test |\n|---|---|---|\n");
                text.extend(lines.iter().map(String::as_str));
            }
            (None, Some((_, why))) => text.push_str(&format!("Not answered: {why}.\n")),
            (Some(_), Some(_)) => panic!("{LIST} § {number} is answered by now"),
            (None, None) => panic!("no test answers {LIST} § {number}: {title}"),
        }
    }
    text
}

#[test]
fn every_bad_input_of_the_list_has_its_answer_and_its_test() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (intro, written) = page.split_once(MARK).unwrap();
    let made = table();
    if std::env::var_os("STEWARD_UPDATE").is_some() {
        fs::write(&path, format!("{intro}{MARK}{made}")).unwrap();
        return;
    }
    assert!(
        written == made,
        "{PAGE} is not what the tests say: run STEWARD_UPDATE=1 cargo test --test it security::"
    );
}
