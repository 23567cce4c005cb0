//! `docs/security.md`: each bad input that is listed there, what the answer is, and the test that shows it.
//!
//! A test says so in a line above its attribute: `/// Input: WHAT (SOURCES). Answer: WHAT HAPPENS.` The table is made of these
//! lines; `STEWARD_UPDATE=1 cargo test --test it security::` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::sources;

const PAGE: &str = "docs/security.md";
const MARK: &str = "<!-- Below: made by tests/it/security.rs. -->\n";
const INPUT: &str = "/// Input: ";
const ANSWER: &str = "). Answer: ";

/// What is sent, by the number in the list of bad inputs.
const INPUTS: [&str; 40] = [
    "webhooks without, with a wrong, or with two signatures",
    "webhooks with the secret of another repository",
    "webhook bodies that are huge, endless, slow, or unpack without end",
    "webhook bodies that are no object, cut off, nested, of wrong types",
    "webhooks with lists that are null or empty",
    "webhooks with commit ids that are none",
    "webhooks with strange names of branches, with control characters",
    "webhooks that name another repository",
    "webhooks delivered again and again, out of order, for nobody",
    "webhooks of another time",
    "headers of two forges in one request",
    "requests of foreign pages",
    "paths that are encoded twice, leave the root, or go on",
    "repository URLs that are commands or options",
    "repository URLs of local paths",
    "repository URLs of private addresses, however they are written",
    "redirects of repositories",
    "repository URLs with passwords and control characters",
    "servers with another certificate or host key",
    "symbolic links out of a tree",
    "names in a tree that lead out of it",
    "entries of a tree that are no plain files, too large, too many, too deep",
    "YAML that grows, nests, or means something else",
    "templates that do not end, include themselves or others' files",
    "models with cycles, double resources, strange names, slow regular expressions",
    "submodules with strange paths and URLs",
    "pointers and attributes of git that ask for filters",
    "replaced objects and alternates",
    "repositories of other formats, empty ones, branches that are gone",
    "pushes backwards and forged signatures",
    "packs that never end, are cut off or wrong; servers that are silent",
    "cron expressions and durations that make no sense",
    "a disk that is full, a database that is gone or read-only",
    "kill -9 at any moment",
    "results of an older generation of executors",
    "tokens that are wrong, guessed, or of another kind",
    "secrets in logs, databases and answers",
    "repositories whose code prints its environment or opens sockets",
    "commits that remove nearly everything",
    "two servers on one database or directory",
];

/// What of these nobody can send to this version, and why.
const NOT_YET: &[(usize, &str)] = &[
    (
        10,
        "no forge that is supported signs a time; deliveries are told apart by their ids",
    ),
    (
        30,
        "signatures of commits are not looked at; a branch that moves backwards is compiled as it is",
    ),
    (39, "there is no approval of large removals yet"),
];

/// A row of the table.
struct Row {
    sources: Vec<String>,
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
            let (input, sources) = input
                .rsplit_once(" (")
                .unwrap_or_else(|| panic!("{place}: no source"));
            let name = lines[at..].iter().find_map(|line| {
                let line = line.strip_prefix("async ").unwrap_or(line);
                Some(line.strip_prefix("fn ")?.split('(').next()?.to_owned())
            });
            let module = file.strip_prefix(root).unwrap().with_extension("");
            let test = name.unwrap_or_else(|| panic!("{place}: no test below"));
            rows.push(Row {
                sources: sources_of(sources),
                input: input.to_owned(),
                answer: answer.trim_end_matches('.').to_owned(),
                test: format!("`{}::{test}`", module.display()),
            });
        }
    }
    rows
}

/// `security.md § 3 no. 1, 4 | issue 16.2` are three.
fn sources_of(text: &str) -> Vec<String> {
    let mut sources: Vec<String> = Vec::new();
    for part in text.split([',', '|']).map(str::trim) {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        match sources.last().filter(|_| is_number) {
            Some(last) => {
                let list = last.trim_end_matches(|c: char| c.is_ascii_digit());
                sources.push(format!("{list}{part}"));
            }
            None => sources.push(part.to_owned()),
        }
    }
    sources
}

/// The number in the list of bad inputs, for what is of it.
fn number(source: &str) -> Option<usize> {
    source.strip_prefix("security.md § 3 no. ")?.parse().ok()
}

fn table() -> String {
    let mut by_number: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    let mut others: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows() {
        let line = format!("| {} | {} | {} |\n", row.input, row.answer, row.test);
        for source in row.sources {
            match number(&source) {
                Some(number @ 1..=40) => by_number.entry(number).or_default().insert(line.clone()),
                Some(number) => panic!("{}: there is no input {number}", row.test),
                None => others.entry(source).or_default().insert(line.clone()),
            };
        }
    }
    let head = "| what is sent | what happens | test |\n|---|---|---|\n";
    let mut text = String::new();
    for (number, input) in (1..).zip(INPUTS) {
        text.push_str(&format!("\n### {number}. {input}\n\n"));
        let missing = NOT_YET.iter().find(|(missing, _)| *missing == number);
        match (by_number.get(&number), missing) {
            (Some(lines), None) => {
                text.push_str(head);
                text.extend(lines.iter().map(String::as_str));
            }
            (None, Some((_, why))) => text.push_str(&format!("Not answered: {why}.\n")),
            (Some(_), Some(_)) => panic!("input {number} is answered by now"),
            (None, None) => panic!("no test answers input {number}: {input}"),
        }
    }
    text.push_str("\n## What a tester found in a release\n");
    for (source, lines) in others {
        let point = source.trim_start_matches("issue 16.").to_owned();
        let point = if point == "low" {
            "smaller things".to_owned()
        } else {
            format!("finding {point}")
        };
        text.push_str(&format!("\n### {point}\n\n{head}"));
        text.extend(lines.iter().map(String::as_str));
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
