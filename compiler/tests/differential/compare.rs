//! Where two answers to one case differ.

use fancy_regex::Regex;
use serde_json::Value as Json;

use crate::answer::{Answer, Found, Outcome};

/// A difference that counts.
#[derive(Debug, Clone)]
pub struct Difference {
    /// What differs, without the names of the case: differences with one signature have one cause, mostly.
    pub signature: String,
    pub detail: String,
}

/// The first difference, the most telling one first.
pub fn compare(reference: &Answer, ours: &Answer) -> Option<Difference> {
    outcome(reference, ours)
        .or_else(|| errors(reference, ours))
        .or_else(|| lists(reference, ours))
        .or_else(|| warnings(reference, ours))
        .or_else(|| output(reference, ours))
        .or_else(|| model(reference, ours))
        .or_else(|| resources(reference, ours))
}

fn difference(signature: String, detail: String) -> Option<Difference> {
    Some(Difference { signature, detail })
}

fn outcome(reference: &Answer, ours: &Answer) -> Option<Difference> {
    if reference.outcome == ours.outcome && ours.outcome != Outcome::Crashed {
        return None;
    }
    difference(
        format!("outcome: {} but {}", summary(reference), summary(ours)),
        format!("reference: {}\nours: {}", all(reference), all(ours)),
    )
}

/// `rejected (TypingException)`
fn summary(answer: &Answer) -> String {
    let mut kinds: Vec<&str> = answer
        .errors
        .iter()
        .map(|error| error.kind.as_str())
        .collect();
    kinds.dedup();
    let outcome = match answer.outcome {
        Outcome::Accepted => return "accepted".to_owned(),
        Outcome::Rejected => "rejected",
        Outcome::Crashed => "crashed",
        Outcome::Timeout => return "timeout".to_owned(),
    };
    format!("{outcome} ({})", kinds.join(", "))
}

fn all(answer: &Answer) -> String {
    let mut text = summary(answer);
    for error in &answer.errors {
        text.push_str("\n  ");
        text.push_str(&error.describe());
    }
    text
}

fn errors(reference: &Answer, ours: &Answer) -> Option<Difference> {
    let places = |errors: &[Found]| {
        let mut places: Vec<String> = errors.iter().map(Found::place).collect();
        places.sort();
        places
    };
    if places(&reference.errors) == places(&ours.errors) {
        return None;
    }
    let kinds = |errors: &[Found]| {
        let mut kinds: Vec<String> = errors.iter().map(|error| error.kind.clone()).collect();
        kinds.sort();
        kinds
    };
    let (theirs, mine) = (kinds(&reference.errors), kinds(&ours.errors));
    let signature = match theirs == mine {
        true => format!("line: {}", theirs.join(", ")),
        false => format!("kind: {} but {}", theirs.join(", "), mine.join(", ")),
    };
    difference(
        signature,
        format!("reference: {}\nours: {}", all(reference), all(ours)),
    )
}

/// The points that the text of an error lists: the texts are the same there.
fn points(errors: &[Found]) -> Vec<String> {
    let lines = errors.iter().flat_map(|error| error.message.lines());
    let points = lines.filter_map(|line| line.trim_start().strip_prefix('-'));
    points.map(plain).collect()
}

fn lists(reference: &Answer, ours: &Answer) -> Option<Difference> {
    let (theirs, mine) = (points(&reference.errors), points(&ours.errors));
    let is_list = |error: &Found| error.kind == "DataClassMismatchException";
    if theirs == mine || !reference.errors.iter().any(is_list) {
        return None;
    }
    difference(
        "points of a list".to_owned(),
        format!("reference: {}\nours: {}", all(reference), all(ours)),
    )
}

/// Beginnings of warnings behind which both say what to do, each in its own words.
const ADVISED: &[&str] = &["Setting a pip index through the `repo.url` option with type `package`"];

/// The warnings by kind and text, which are the same but for where the project lies.
fn warnings(reference: &Answer, ours: &Answer) -> Option<Difference> {
    let texts = |warnings: &[Found]| {
        let text = |warning: &Found| {
            let text = plain(&warning.message);
            let said = ADVISED.iter().find(|said| text.starts_with(**said));
            let text = said.map_or(text.as_str(), |said| *said);
            format!("{}: {}", warning.kind, sorted_places(text))
        };
        let mut texts: Vec<String> = warnings.iter().map(text).collect();
        texts.sort();
        texts.dedup();
        texts
    };
    let (theirs, mut mine) = (texts(&reference.warnings), texts(&ours.warnings));
    mine.retain(|text| !is_only_logged(text));
    if theirs == mine {
        return None;
    }
    let kinds = |texts: &[String], others: &[String]| {
        let only = texts.iter().filter(|text| !others.contains(text));
        let kinds = only.filter_map(|text| text.split_once(':'));
        let mut kinds: Vec<&str> = kinds.map(|(kind, _)| kind).collect();
        kinds.dedup();
        kinds.join(", ")
    };
    difference(
        format!(
            "warnings: only {} but only {}",
            kinds(&theirs, &mine),
            kinds(&mine, &theirs)
        ),
        format!("reference: {theirs:#?}\nours: {mine:#?}"),
    )
}

/// The text of a warning about a shadowed variable with the places of its declarations sorted: the reference takes them out
/// of a set, whose order says nothing.
fn sorted_places(text: &str) -> String {
    const FROM: &str = "originally declared at ";
    let places = text.split_once(FROM).and_then(|(head, rest)| {
        let (places, tail) = rest.split_once(", shadowed at ")?;
        let mut places: Vec<&str> = places.split(',').collect();
        places.sort_unstable();
        Some(format!(
            "{head}{FROM}{}, shadowed at {tail}",
            places.join(",")
        ))
    });
    places.unwrap_or_else(|| text.to_owned())
}

/// Whether a warning is ours alone, or the reference writes it to its log, where it is no warning of Python.
///
/// Of an invalid escape sequence the reference means to warn as we do, but looks for a text that Python does not say: what its
/// log has is Python's own `DeprecationWarning`, without a place in the model.
fn is_only_logged(text: &str) -> bool {
    const TOLD: &[&str] = &["Loaded V1 module", "Python type"];
    let general = text.strip_prefix("InmantaWarning: ");
    let is_of_key_not_read = text.starts_with("ProjectConfigurationWarning: project.yml")
        && text.contains("` is not read");
    is_of_key_not_read
        || text.ends_with(" and no type: every value is accepted here")
        || text.starts_with("ParserWarning: Invalid escape sequence in ")
        || general.is_some_and(|text| !TOLD.iter().any(|told| text.starts_with(told)))
}

fn output(reference: &Answer, ours: &Answer) -> Option<Difference> {
    let (theirs, mine) = (plain(&reference.output), plain(&ours.output));
    if theirs == mine {
        return None;
    }
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let what = match sorted(&theirs) == sorted(&mine) {
        true => "order of output",
        false => "output",
    };
    let outcome = summary(reference);
    difference(
        format!("{what} ({outcome})"),
        format!("reference:\n{theirs}ours:\n{mine}"),
    )
}

/// Without addresses, and without the directory of the project.
fn plain(output: &str) -> String {
    if !output.contains("7") && !output.contains("/") {
        return output.to_owned();
    }
    let address = Regex::new(r"(?i)\b(?:0x)?(?:7[ef]|55|56)[0-9a-f]{10}\b")
        .expect("it is a regular expression");
    let directory = Regex::new(r"(?:/[\w./-]*steward-oracle-\w+/project|\B\.)?/(?=[\w/]+\.cf\b)")
        .expect("it is a regular expression");
    let output = address.replace_all(output, "ADDRESS");
    directory.replace_all(&output, "").into_owned()
}

fn model(reference: &Answer, ours: &Answer) -> Option<Difference> {
    let (Some(theirs), Some(mine)) = (&reference.model, &ours.model) else {
        return None;
    };
    let (theirs, mine) = (canonical(theirs), canonical(mine));
    if theirs == mine {
        return None;
    }
    let mut found = Vec::new();
    walk("", &theirs, &mine, &mut found);
    difference("model".to_owned(), found.join("\n"))
}

fn resources(reference: &Answer, ours: &Answer) -> Option<Difference> {
    let (theirs, mine) = match (&reference.resources, &ours.resources) {
        (None, None) => return None,
        (theirs, mine) => (
            canonical(theirs.as_ref().unwrap_or(&Json::Null)),
            canonical(mine.as_ref().unwrap_or(&Json::Null)),
        ),
    };
    if theirs == mine {
        return None;
    }
    let mut found = Vec::new();
    walk("", &theirs, &mine, &mut found);
    difference("resources".to_owned(), found.join("\n"))
}

/// With objects by key; lists of instances and of resources, which have no order, sorted.
fn canonical(json: &Json) -> Json {
    match json {
        Json::Object(object) => {
            let mut entries: Vec<(String, Json)> = object
                .iter()
                .filter(|(key, _)| *key != "version" || !object.contains_key("id"))
                .map(|(key, value)| (key.clone(), canonical(value)))
                .collect();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            Json::Object(entries.into_iter().collect())
        }
        Json::Array(items) => {
            let mut items: Vec<Json> = items.iter().map(canonical).collect();
            let is_set = |item: &Json| {
                item.get("requires").is_some()
                    || item
                        .as_str()
                        .is_some_and(|id| id.contains("::") && id.ends_with(']'))
            };
            if items.iter().all(is_set) {
                items.sort_by_key(Json::to_string);
            }
            Json::Array(items)
        }
        // The compile contract wants a version in the ids of `requires`, where the reference has none.
        Json::String(text) => match text.strip_suffix(",v=0") {
            Some(id) if id.ends_with(']') => id.into(),
            _ => plain(text).into(),
        },
        other => other.clone(),
    }
}

fn walk(path: &str, theirs: &Json, mine: &Json, found: &mut Vec<String>) {
    match (theirs, mine) {
        (Json::Object(left), Json::Object(right)) => {
            for key in left
                .keys()
                .chain(right.keys().filter(|key| !left.contains_key(*key)))
            {
                let at = format!("{path}/{key}");
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => walk(&at, left, right, found),
                    (Some(left), None) => found.push(format!("{at}: {left} but nothing")),
                    (_, right) => found.push(format!(
                        "{at}: nothing but {}",
                        right.unwrap_or(&Json::Null)
                    )),
                }
            }
        }
        (Json::Array(left), Json::Array(right)) if left.len() == right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                walk(&format!("{path}/{at}"), left, right, found);
            }
        }
        (left, right) if left != right => found.push(format!("{path}: {left} but {right}")),
        _ => (),
    }
}
