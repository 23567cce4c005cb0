//! References in resources of native types: those of `std`, which need nothing but a variable of the executor or a fact.
//!
//! A resource has null where a reference belongs, the references by their ids, and mutators that say which of them goes where.
//! The ones of modules are Python code, and stay with handlers in Python. What a reference resolves to is secret, as it is
//! there (`python/steward_host/hidden.py`): a report has [`HIDDEN`] in its place.
//! Source: docs/reference/std.md § 5.7, docs/reference/deployment.md § 5.8.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Attributes, Context, Error, HIDDEN};
use crate::domain::ResourceId;

/// Asks the server: method and arguments, status and body.
pub(crate) type AskServer<'a> = &'a dyn Fn(String, Map<String, Value>) -> (u16, Value);

/// References that resolve one another; a version may come from anywhere, and have a circle of them.
const MAX_DEPTH: usize = 32;
/// A shorter text is hidden only where it is a value of its own: as a part of other texts it would hide half of the log.
const MIN_TEXT_CHARS: usize = 4;
/// What is cut before it is logged has a part of a secret that is longer than this; so its parts are hidden, too.
const LONG_TEXT_CHARS: usize = 512;
const PART_CHARS: usize = 64;

/// What a report hides.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// The attributes that references fill.
    names: BTreeSet<String>,
    /// What references have resolved to, and what was found in such an attribute.
    texts: BTreeSet<String>,
}

/// A resource with all that its references stand for. `secrets` gets what that is, also if it fails.
///
/// # Errors
/// What cannot be resolved here, or not now.
pub(super) fn fill<'a>(
    desired: &'a Attributes,
    ask: AskServer<'_>,
    secrets: &mut Secrets,
) -> Result<Cow<'a, Attributes>, Error> {
    let mutators = list(desired.get("mutators"));
    if mutators.is_empty() {
        return Ok(Cow::Borrowed(desired));
    }
    let mut resolver = Resolver {
        references: list(desired.get("references")),
        ask,
        known: BTreeMap::new(),
        texts: &mut secrets.texts,
    };
    let mut filled = Value::Object(desired.clone());
    for mutator in mutators {
        let destination =
            argument(mutator, "destination").and_then(|found| found["value"].as_str());
        let destination = destination.unwrap_or("an attribute");
        let unknown = |what: &str| {
            Error::Failed(format!(
                "`{destination}` is filled by a reference{what}, which only handlers in Python resolve: give the value in \
                 the model, or take the resource of a module with a handler of its own"
            ))
        };
        let value = argument(mutator, "value").filter(|_| mutator["type"] == "core::Replace");
        let (Some(value), Some(path)) = (value, pointer(destination)) else {
            return Err(unknown(""));
        };
        let name = path.first().cloned().unwrap_or_default();
        secrets.names.insert(name);
        let value = resolver.argument(value, 0).map_err(|why| match why {
            Unresolved::Kind(kind) => unknown(&format!(" of type {kind}")),
            Unresolved::Failed(why) => Error::Failed(format!(
                "`{destination}` is filled by a reference that cannot be resolved: {why}"
            )),
        })?;
        texts_of(&value, &mut *resolver.texts);
        let place =
            place(&mut filled, &path).ok_or_else(|| unknown(" at a place that is not there"))?;
        *place = value;
    }
    match filled {
        Value::Object(filled) => Ok(Cow::Owned(filled)),
        _ => Ok(Cow::Borrowed(desired)),
    }
}

/// Why a reference has no value.
enum Unresolved {
    /// Only Python knows its type.
    Kind(String),
    Failed(String),
}

struct Resolver<'a> {
    references: &'a [Value],
    ask: AskServer<'a>,
    /// Values by the ids of their references.
    known: BTreeMap<String, Value>,
    texts: &'a mut BTreeSet<String>,
}

impl Resolver<'_> {
    /// The value of an argument of a reference or a mutator. Source: docs/reference/language.md § 12.11.
    fn argument(&mut self, argument: &Value, depth: usize) -> Result<Value, Unresolved> {
        match argument["type"].as_str().unwrap_or_default() {
            "literal" | "json" => Ok(argument["value"].clone()),
            "reference" => self.reference(argument["id"].as_str().unwrap_or_default(), depth),
            other => Err(Unresolved::Kind(format!("{other} (an argument)"))),
        }
    }

    fn reference(&mut self, id: &str, depth: usize) -> Result<Value, Unresolved> {
        if let Some(known) = self.known.get(id) {
            return Ok(known.clone());
        }
        let failed = |why: &str| Err(Unresolved::Failed(why.to_owned()));
        if depth == MAX_DEPTH {
            return failed("references that need each other have no value");
        }
        let Some(reference) = self.references.iter().find(|known| known["id"] == id) else {
            return failed("the resource does not have it");
        };
        let mut argument_of = |name: &str| match argument(reference, name) {
            Some(argument) => self.argument(argument, depth + 1),
            None => Err(Unresolved::Failed(format!("it has no argument `{name}`"))),
        };
        let value = match reference["type"].as_str().unwrap_or_default() {
            "std::Environment" => {
                let name = argument_of("name")?;
                variable(name.as_str().unwrap_or_default())?
            }
            "std::IntReference" => whole_number(&argument_of("value")?)?,
            "std::FactReference" => {
                let environment = argument_of("environment")?;
                let (resource, name) = (argument_of("resource_id")?, argument_of("fact_name")?);
                // Facts of a test, which no server has.
                let mocked = argument_of("mocked_facts").unwrap_or_default();
                let mocked = resource
                    .as_str()
                    .and_then(|id| mocked.get(id)?.get(name.as_str()?));
                match mocked {
                    Some(mocked) => mocked.clone(),
                    None => self.fact(environment, resource, name)?,
                }
            }
            other => return Err(Unresolved::Kind(other.to_owned())),
        };
        texts_of(&value, &mut *self.texts);
        self.known.insert(id.to_owned(), value.clone());
        Ok(value)
    }

    fn fact(&self, environment: Value, resource: Value, name: Value) -> Result<Value, Unresolved> {
        let shown = format!(
            "fact {} of {}",
            name.as_str().unwrap_or_default(),
            resource.as_str().unwrap_or_default()
        );
        let arguments = [
            ("tid", environment),
            ("id", name),
            ("resource_id", resource),
        ];
        let arguments = arguments.map(|(name, value)| (name.to_owned(), value));
        match (self.ask)("get_param".to_owned(), Map::from_iter(arguments)) {
            (200, body) => Ok(body["parameter"]["value"].clone()),
            (code, _) => Err(Unresolved::Failed(format!(
                "{shown} is not known (HTTP {code})"
            ))),
        }
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn argument<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    list(of.get("args"))
        .iter()
        .find(|argument| argument["name"] == name)
}

fn variable(name: &str) -> Result<Value, Unresolved> {
    match std::env::var(name) {
        Ok(value) => Ok(value.into()),
        Err(std::env::VarError::NotPresent) => Err(Unresolved::Failed(format!(
            "Environment variable {name} is not set"
        ))),
        Err(std::env::VarError::NotUnicode(_)) => Err(Unresolved::Failed(format!(
            "Environment variable {name} is no text"
        ))),
    }
}

/// As Python's `int` makes it. What it is made of is secret, and so not in the error.
fn whole_number(value: &Value) -> Result<Value, Unresolved> {
    let number = match value {
        Value::Bool(is_true) => Some(i64::from(*is_true)),
        Value::Number(number) if number.is_i64() || number.is_u64() => return Ok(value.clone()),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is cut to a whole number"
        )]
        Value::Number(number) => number.as_f64().map(|number| number.trunc() as i64),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .map(Value::from)
        .ok_or_else(|| Unresolved::Failed("what is to be a whole number is none".to_owned()))
}

/// The steps of a destination, `field`, `field[0].'key'`.
fn pointer(destination: &str) -> Option<Vec<String>> {
    let end = destination.find(['.', '[']).unwrap_or(destination.len());
    let (first, mut rest) = destination.split_at(end);
    let mut steps = vec![first.to_owned()];
    while !rest.is_empty() {
        let (step, behind) = if let Some(index) = rest.strip_prefix('[') {
            let (index, behind) = index.split_once(']')?;
            index.parse::<usize>().ok()?;
            (index.to_owned(), behind)
        } else if let Some(key) = rest.strip_prefix(".'") {
            quoted(key)?
        } else {
            let key = rest.strip_prefix('.')?;
            let end = key.find(['.', '[']).unwrap_or(key.len());
            (key[..end].to_owned(), &key[end..])
        };
        steps.push(step);
        rest = behind;
    }
    (!first.is_empty()).then_some(steps)
}

/// A key up to its closing quote, and what is behind it; a backslash takes the next character as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return Some((key, &text[at + 1..])),
            '\\' => key.push(characters.next()?.1),
            other => key.push(other),
        }
    }
    None
}

/// Where in a resource a path leads; a key of a dict may be new.
fn place<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    let Some((step, rest)) = path.split_first() else {
        return Some(value);
    };
    match value {
        Value::Object(fields) => place(fields.entry(step.clone()).or_insert(Value::Null), rest),
        Value::Array(items) => place(items.get_mut(step.parse::<usize>().ok()?)?, rest),
        _ => None,
    }
}

/// The texts that a value consists of.
fn texts_of(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if !text.is_empty() => {
            texts.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, texts)),
        Value::Object(fields) => fields.values().for_each(|item| texts_of(item, texts)),
        _ => {}
    }
}

impl Secrets {
    /// Leaves nothing of them in what a run has logged and found.
    pub(super) fn hide(mut self, context: &mut Context, id: &ResourceId) {
        if self.names.is_empty() && self.texts.is_empty() {
            return;
        }
        // What was found where a secret belongs is the old one.
        for change in self
            .names
            .iter()
            .filter_map(|name| context.changes.get(name))
        {
            texts_of(change, &mut self.texts);
        }
        // The id is known to everybody, and a report without it could not be read.
        self.texts
            .retain(|text| !id.as_str().contains(text.as_str()));
        let forms = self.forms();
        for (name, change) in &mut context.changes {
            let is_secret = self.names.contains(name);
            for side in ["current", "desired"] {
                let value = &mut change[side];
                if !is_secret {
                    self.hide_value(value, &forms);
                } else if !value.is_null() && value != "" {
                    *value = json!(HIDDEN);
                }
            }
        }
        for line in &mut context.logs {
            self.hide_text(&mut line.msg, &forms);
            for value in line.kwargs.values_mut() {
                self.hide_value(value, &forms);
            }
        }
    }

    fn hide_value(&self, value: &mut Value, forms: &[String]) {
        match value {
            Value::String(text) => self.hide_text(text, forms),
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.hide_value(item, forms)),
            Value::Object(fields) => fields
                .values_mut()
                .for_each(|item| self.hide_value(item, forms)),
            _ => {}
        }
    }

    fn hide_text(&self, text: &mut String, forms: &[String]) {
        if self.texts.contains(text) {
            HIDDEN.clone_into(text);
            return;
        }
        for form in forms {
            if text.contains(form) {
                *text = text.replace(form, HIDDEN);
            }
        }
    }

    /// The texts, and the pieces of them that stand alone in logs, as they are and as JSON and errors quote them, the longest
    /// first.
    fn forms(&self) -> Vec<String> {
        let mut forms = BTreeSet::new();
        for part in self.texts.iter().flat_map(|text| parts(text)) {
            if part.chars().nth(MIN_TEXT_CHARS - 1).is_none() {
                continue;
            }
            let inside = |quoted: String| quoted[1..quoted.len() - 1].to_owned();
            forms.extend(serde_json::to_string(&part).ok().map(inside));
            forms.insert(inside(format!("{part:?}")));
            forms.insert(part);
        }
        let mut forms: Vec<String> = forms.into_iter().collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms
    }
}

/// A text, its lines, and what is left of a long one that is cut.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![text.to_owned()];
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    if lines.len() > 1 {
        parts.extend(lines.iter().map(|line| (*line).to_owned()));
    }
    for line in lines {
        let characters: Vec<char> = line.chars().collect();
        if characters.len() > LONG_TEXT_CHARS {
            parts.extend(characters.chunks(PART_CHARS).map(String::from_iter));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(id: &str, kind: &str, arguments: Value) -> Value {
        json!({"id": id, "type": kind, "args": arguments})
    }

    fn literal(name: &str, value: Value) -> Value {
        json!({"type": "literal", "name": name, "value": value})
    }

    fn replace(destination: &str, id: &str) -> Value {
        let value = json!({"type": "reference", "name": "value", "id": id});
        json!({"type": "core::Replace", "args": [value, literal("destination", json!(destination))]})
    }

    fn filled(attributes: Value, facts: &Value) -> Result<Value, String> {
        let Value::Object(attributes) = attributes else {
            panic!("it is an object");
        };
        let ask = |method: String, arguments: Map<String, Value>| {
            assert_eq!(method, "get_param");
            match facts.get(arguments["id"].as_str().unwrap()) {
                Some(value) => (200, json!({"parameter": {"value": value}})),
                None => (404, Value::Null),
            }
        };
        let found = fill(&attributes, &ask, &mut Secrets::default());
        let found = found.map_err(|error| error.to_string())?.into_owned();
        Ok(Value::Object(found))
    }

    #[test]
    fn references_of_std_are_filled_in_wherever_they_belong() {
        let arguments = |name: &str| {
            json!([
                literal("environment", json!("e")),
                literal("resource_id", json!("t::R[a,name=b]")),
                literal("fact_name", json!(name)),
                literal("mocked_facts", json!({"t::R[a,name=b]": {"mocked": "m"}})),
            ])
        };
        let references = json!([
            reference("1", "std::FactReference", arguments("size")),
            reference(
                "2",
                "std::IntReference",
                json!([{"type": "reference", "name": "value", "id": "1"}])
            ),
            reference("3", "std::FactReference", arguments("mocked")),
            reference(
                "4",
                "std::Environment",
                json!([literal("name", json!("CARGO_PKG_NAME"))])
            ),
        ]);
        let resource = json!({
            "size": null, "dict": {"a.b": null, "c": [1, null]}, "name": null, "references": references,
            "mutators": [replace("size", "2"), replace("dict.'a.b'", "3"), replace("dict.c[1]", "1"), replace("name", "4")],
        });
        let found = filled(resource.clone(), &json!({"size": " 17 "})).unwrap();
        assert_eq!(found["size"], 17);
        assert_eq!(found["dict"], json!({"a.b": "m", "c": [1, " 17 "]}));
        assert_eq!(found["name"], "steward");
        let error = filled(resource.clone(), &json!({})).unwrap_err();
        assert!(
            error.contains("fact size of t::R[a,name=b] is not known (HTTP 404)"),
            "{error}"
        );
        // What it is made of is secret.
        let error = filled(resource, &json!({"size": "seventeen"})).unwrap_err();
        assert!(
            error.contains("whole number") && !error.contains("seventeen"),
            "{error}"
        );
    }

    #[test]
    fn what_only_python_resolves_is_refused_and_circles_end() {
        let of = |references: Value, mutator: Value| {
            let resource =
                json!({"content": null, "references": references, "mutators": [mutator]});
            filled(resource, &json!({})).unwrap_err()
        };
        let secret = json!([reference("1", "vault::Secret", json!([]))]);
        let error = of(secret.clone(), replace("content", "1"));
        assert!(
            error.contains("`content` is filled by a reference of type vault::Secret, which only"),
            "{error}"
        );
        let mut other = replace("content", "1");
        other["type"] = json!("net::Merge");
        assert!(of(secret.clone(), other).contains("only handlers in Python"));
        assert!(of(secret.clone(), replace("content.'x", "1")).contains("only handlers in Python"));
        assert!(of(secret, replace("content", "2")).contains("does not have it"));
        let itself = json!([{"type": "reference", "name": "name", "id": "1"}]);
        let circle = json!([reference("1", "std::Environment", itself)]);
        assert!(of(circle, replace("content", "1")).contains("need each other"));
        let unset = json!([reference(
            "1",
            "std::Environment",
            json!([literal("name", json!("NO_SUCH_VARIABLE"))])
        )]);
        assert!(
            of(unset, replace("content", "1"))
                .contains("Environment variable NO_SUCH_VARIABLE is not set")
        );
    }

    #[test]
    fn reports_have_nothing_of_what_references_resolve_to() {
        let secrets = Secrets {
            names: BTreeSet::from(["content".to_owned()]),
            texts: BTreeSet::from([
                "first \"line\"\nsecond".to_owned(),
                "abc".to_owned(),
                "known".to_owned(),
            ]),
        };
        let changes = [
            (
                "content".to_owned(),
                json!({"current": "older", "desired": "first \"line\"\nsecond"}),
            ),
            (
                "other".to_owned(),
                json!({"current": null, "desired": ["abc", "abcd", 7]}),
            ),
        ];
        let mut context = Context {
            changes: Attributes::from_iter(changes),
            ..Context::default()
        };
        for text in [
            "wrote \"first \\\"line\\\"\\nsecond\" there",
            "the second line is wrong",
            "instead of older",
            "abcd of known",
        ] {
            context.info(text);
        }
        secrets.hide(&mut context, &ResourceId::new("t::R[a,name=known]"));
        assert_eq!(
            context.changes["content"],
            json!({"current": HIDDEN, "desired": HIDDEN})
        );
        assert_eq!(
            context.changes["other"]["desired"],
            json!([HIDDEN, "abcd", 7])
        );
        let logs: Vec<&str> = context.logs.iter().map(|line| line.msg.as_str()).collect();
        assert_eq!(
            logs,
            [
                "wrote \"(hidden)\" there",
                "the (hidden) line is wrong",
                "instead of (hidden)",
                "abcd of known",
            ]
        );
    }
}
