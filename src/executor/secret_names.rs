//! Secrets that names give away, in what came of a run: whoever asks what changed is not to be told a password.
//!
//! Handlers in Python hide the attributes of such names, and what references resolve to, before they answer
//! (`python/steward_host/hidden.py` has the same words). Here the members of such names are hidden in the values of all
//! handlers, however deep: a file in JSON, the body of a request, the settings of a program. Source:
//! docs/reference/deployment.md § 5.8.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::handler::HIDDEN;
use super::protocol::TaskOutcome;
use crate::domain::ResourceId;

/// Words of a name that holds a secret; one that has several words is split at `_`, `-` and capital letters.
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "apikey",
];

/// Pairs of words that do so together.
const PAIRS: &[(&str, &str)] = &[
    ("private", "key"),
    ("api", "key"),
    ("access", "key"),
    ("auth", "key"),
    ("ssh", "key"),
    ("shared", "key"),
    ("encryption", "key"),
    ("snmp", "community"),
    ("proxy", "authorization"),
    ("set", "cookie"),
];

/// Names that hold a secret where they are the whole name, such as the headers of requests: `authorization_mode` holds none.
const NAMES: &[&str] = &["authorization", "cookie", "psk"];

/// A part that each name with one of the words has, so that most names are not taken apart.
const PARTS: &[&str] = &[
    "pass",
    "secret",
    "token",
    "credential",
    "key",
    "community",
    "authorization",
    "cookie",
    "psk",
];

/// A shorter text is hidden only where it is the value: as a part of others it would hide half of the log.
const MIN_TEXT: usize = 4;

/// Replaces what names say to be secret in the differences and the log lines of a run, and its texts in the lines: not those
/// that are part of the resource's id, which everybody knows.
pub(crate) fn hide(outcome: &mut TaskOutcome, resource_id: &ResourceId) {
    let mut texts = BTreeSet::new();
    for (name, change) in &mut outcome.changes {
        let Value::Object(sides) = change else {
            continue;
        };
        for side in sides.values_mut() {
            hide_entry(name, side, &mut texts);
        }
    }
    for line in &mut outcome.logs {
        hide_members(&mut line.kwargs, &mut texts);
    }
    let known = resource_id.as_str();
    texts.retain(|text| text.len() >= MIN_TEXT && text != HIDDEN && !known.contains(text.as_str()));
    for text in &texts {
        for line in &mut outcome.logs {
            if line.msg.contains(text) {
                line.msg = line.msg.replace(text, HIDDEN);
            }
        }
    }
    for line in &mut outcome.logs {
        if let Some(shown) = without_passwords(&line.msg) {
            line.msg = shown;
        }
    }
}

/// A text in whose URLs no password is left: `https://user:(hidden)@host`. `None`: it has none.
fn without_passwords(text: &str) -> Option<String> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'');
        let host = behind.find(is_end).map_or(behind, |end| &behind[..end]);
        let login = host.rfind('@').map(|at| &host[..at]);
        rest = behind;
        if let Some((login, (user, password))) =
            login.and_then(|login| Some((login, login.split_once(':')?)))
            && !password.is_empty()
        {
            shown.push_str(user);
            shown.push(':');
            shown.push_str(HIDDEN);
            rest = &behind[login.len()..];
        }
    }
    shown.push_str(rest);
    (shown != text).then_some(shown)
}

fn hide_members(members: &mut Map<String, Value>, texts: &mut BTreeSet<String>) {
    for (name, value) in members {
        hide_entry(name, value, texts);
    }
}

/// That nothing is there is no secret, and what is true or false is none.
fn hide_entry(name: &str, value: &mut Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::Null | Value::Bool(_) => (),
        Value::String(text) if text.is_empty() => (),
        Value::Object(sides) if is_change(sides) => {
            for side in sides.values_mut() {
                hide_entry(name, side, texts);
            }
        }
        _ if is_secret(name) => {
            add_texts(value, texts);
            *value = HIDDEN.into();
        }
        _ => hide_value(value, texts),
    }
}

/// A difference, as handlers log it.
fn is_change(members: &Map<String, Value>) -> bool {
    members.len() == 2 && members.contains_key("current") && members.contains_key("desired")
}

fn hide_value(value: &mut Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide_value(item, texts)),
        Value::Object(members) => hide_members(members, texts),
        Value::String(text) => {
            if let Some(shown) = without_passwords(text) {
                *text = shown;
            }
        }
        _ => (),
    }
}

fn add_texts(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            texts.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(members) => members.values().for_each(|item| add_texts(item, texts)),
        _ => (),
    }
}

/// Whether a name says that it holds a secret: `password`, `db_password`, `dbPassword`, `api-key`.
pub(crate) fn is_secret(name: &str) -> bool {
    let small = name.to_ascii_lowercase();
    if !PARTS.iter().any(|part| small.contains(part)) {
        return false;
    }
    let words = words(name);
    if let [only] = words.as_slice()
        && NAMES.contains(&only.as_str())
    {
        return true;
    }
    let has_word = words.iter().any(|word| WORDS.contains(&word.as_str()));
    let mut pairs = words
        .windows(2)
        .map(|pair| (pair[0].as_str(), pair[1].as_str()));
    has_word || pairs.any(|pair| PAIRS.contains(&pair))
}

/// `dbPassword` and `db_password` are `db` and `password`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in name.chars() {
        let is_boundary = !character.is_alphanumeric() || (character.is_uppercase() && was_small);
        if is_boundary {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        was_small = character.is_lowercase() || character.is_numeric();
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{HandlerStatus, LogLevel};
    use crate::executor::protocol::LogLine;

    /// The texts in quotes of an assignment of Python, up to the closing bracket of its call.
    fn quoted(source: &str, name: &str) -> Vec<String> {
        let (_, value) = source
            .split_once(&format!("\n{name} = frozenset("))
            .expect("it is assigned");
        let (value, _) = value.split_once("}").expect("it is a set");
        let texts = value.split('"').skip(1).step_by(2);
        texts.map(str::to_owned).collect()
    }

    /// What a plan hides, handlers in Python hide: both have the same words.
    #[test]
    fn python_has_the_same_words() {
        const SOURCE: &str = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/python/steward_host/hidden.py"
        ));
        assert_eq!(quoted(SOURCE, "_WORDS"), WORDS);
        assert_eq!(quoted(SOURCE, "_NAMES"), NAMES);
        let pairs = PAIRS.iter().flat_map(|(first, second)| [*first, *second]);
        assert_eq!(quoted(SOURCE, "_PAIRS"), pairs.collect::<Vec<_>>());
        assert!(SOURCE.contains(&format!("\nHIDDEN = \"{HIDDEN}\"\n")));
    }
    #[test]
    fn names_that_hold_secrets_are_known_by_their_words() {
        for name in [
            "password",
            "db_password",
            "dbPassword",
            "api-token",
            "private_key",
            "sshKey",
            "Authorization",
            "Set-Cookie",
            "psk",
            "pre_shared_key",
            "snmp_community",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "content",
            "key",
            "passwords_file_mode_x",
            "tokenizer",
            "path",
            "public_key",
            "authorization_mode",
            "cookie_domain",
            "bgp_community",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }

    /// Given: texts with URLs. Expected: passwords are hidden, and nothing else, be it a user without one, or an `@` of a path.
    #[test]
    fn passwords_of_urls_are_hidden() {
        for (text, shown) in [
            (
                "https://u:pw@host/x and amqp://a:b@c",
                Some("https://u:(hidden)@host/x and amqp://a:(hidden)@c"),
            ),
            ("https://u:p@ss:w@host", Some("https://u:(hidden)@host")),
            ("ssh://git@host/x", None),
            ("https://host:80/a@b", None),
            ("https://u:@host", None),
            ("no url", None),
        ] {
            assert_eq!(without_passwords(text).as_deref(), shown, "{text}");
        }
    }

    /// Given: secrets in members of values, in lists and in arguments of lines. Expected: none of them is left, and what is
    /// beside them is.
    #[test]
    fn members_with_names_of_secrets_are_hidden_however_deep() {
        let object = |api_key: &str| json!({"user": "u", "db": [{"api_key": api_key, "port": 1}]});
        let change = |from: Value, to: Value| json!({"current": from, "desired": to});
        let mut outcome = TaskOutcome::of(HandlerStatus::Deployed);
        outcome.changes = Map::from_iter([
            (
                "conf".to_owned(),
                change(object("hunter2"), object("swordfish")),
            ),
            ("api_token".to_owned(), change(json!(null), json!("sesame"))),
            ("path".to_owned(), change(json!("a"), json!("b"))),
        ]);
        let kwargs = json!({"changes": {"conf": change(object("hunter2"), json!(null))}, "password": "sesame", "n": 1});
        outcome.logs = vec![LogLine {
            level: LogLevel::Info,
            msg: "from hunter2 to u".to_owned(),
            kwargs: kwargs.as_object().unwrap().clone(),
            timestamp_us: 1,
        }];
        hide(&mut outcome, &ResourceId::new("t::R[a,n=x]"));
        let hidden = object(HIDDEN);
        assert_eq!(
            outcome.changes["conf"],
            change(hidden.clone(), hidden.clone())
        );
        assert_eq!(
            outcome.changes["api_token"],
            change(json!(null), json!(HIDDEN))
        );
        assert_eq!(outcome.changes["path"], change(json!("a"), json!("b")));
        let line = &outcome.logs[0];
        assert_eq!(line.msg, "from (hidden) to u");
        let kwargs =
            json!({"changes": {"conf": change(hidden, json!(null))}, "password": HIDDEN, "n": 1});
        assert_eq!(Value::Object(line.kwargs.clone()), kwargs);
        let before = outcome.clone();
        hide(&mut outcome, &ResourceId::new("t::R[a,n=x]"));
        assert_eq!(outcome, before);
    }
}
