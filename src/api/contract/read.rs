//! Reads `endpoints.txt`; its head says how it is written.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{AnswerBody, Answered, Argument, Contract, Endpoint, Field, Shape};

/// What the lines that are indented belong to.
enum Block {
    None,
    Group(String),
    Endpoint(String, String),
}

/// The text as data, or the line that cannot be read.
pub(super) fn contract(text: &str) -> Result<Contract, String> {
    let mut contract = Contract::default();
    let mut block = Block::None;
    for (n, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: String| format!("endpoints.txt:{}: {why}: {line}", n + 1);
        if line.starts_with(' ') {
            inner(&mut contract, &block, line.trim()).map_err(wrong)?;
        } else {
            block = head(&mut contract, line).map_err(wrong)?;
        }
    }
    let named = |shape: &Shape| unknown(&contract.shapes, shape);
    let answers = contract.endpoints.values().flat_map(|one| &one.answers);
    let bodies = answers.filter_map(|answer| match &answer.body {
        AnswerBody::Data(shape) | AnswerBody::Page(shape) | AnswerBody::Whole(shape) => Some(shape),
        AnswerBody::Nothing | AnswerBody::Document(_) => None,
    });
    match bodies.chain(contract.shapes.values()).find_map(named) {
        Some(name) => Err(format!("endpoints.txt: there is no shape `{name}`")),
        None => Ok(contract),
    }
}

/// The first name that is no shape.
fn unknown(shapes: &BTreeMap<String, Shape>, shape: &Shape) -> Option<String> {
    match shape {
        Shape::Named(name) => (!shapes.contains_key(name)).then(|| name.clone()),
        Shape::Maybe(inner) | Shape::List(inner) | Shape::Map(inner) => unknown(shapes, inner),
        Shape::Fields(fields) => fields
            .iter()
            .find_map(|field| unknown(shapes, &field.shape)),
        Shape::All(parts) => parts.iter().find_map(|part| unknown(shapes, part)),
        Shape::Any
        | Shape::Null
        | Shape::Text
        | Shape::Whole
        | Shape::Flag
        | Shape::Moment
        | Shape::Id
        | Shape::Range
        | Shape::Object
        | Shape::Words(_) => None,
    }
}

fn head(contract: &mut Contract, line: &str) -> Result<Block, String> {
    if let Some(name) = line.strip_prefix('$') {
        contract.groups.insert(name.to_owned(), Vec::new());
        return Ok(Block::Group(name.to_owned()));
    }
    if let Some((name, text)) = line.split_once(" = ") {
        contract.shapes.insert(name.to_owned(), whole(text)?);
        return Ok(Block::None);
    }
    let (verb, path) = line.split_once(' ').ok_or("neither shape nor endpoint")?;
    let key = (verb.to_owned(), path.to_owned());
    match contract.endpoints.insert(key, Endpoint::default()) {
        Some(_) => Err("it is there twice".to_owned()),
        None => Ok(Block::Endpoint(verb.to_owned(), path.to_owned())),
    }
}

fn inner(contract: &mut Contract, block: &Block, line: &str) -> Result<(), String> {
    let added = match line.strip_prefix('@') {
        Some(name) => {
            let group = contract.groups.get(name);
            group.ok_or("there is no such group")?.clone()
        }
        None if line.starts_with("->") => Vec::new(),
        None => vec![argument(line)?],
    };
    match block {
        Block::None => Err("it belongs to nothing".to_owned()),
        Block::Group(name) => {
            contract
                .groups
                .entry(name.clone())
                .or_default()
                .extend(added);
            Ok(())
        }
        Block::Endpoint(verb, path) => {
            let key = (verb.clone(), path.clone());
            let endpoint = contract.endpoints.entry(key).or_default();
            endpoint.arguments.extend(added);
            if let Some(text) = line.strip_prefix("->") {
                endpoint.answers.push(answered(text.trim())?);
            }
            Ok(())
        }
    }
}

/// `name?: TYPE = default | what it is`.
fn argument(line: &str) -> Result<Argument, String> {
    let (name, rest) = line.split_once(": ").ok_or("an argument has a type")?;
    let mut text = Text(rest);
    let shape = text.shape()?;
    let rest = text.0.trim();
    let (default, what) = rest.split_once("| ").ok_or("it says nothing for people")?;
    let default = default.trim().strip_prefix('=').map(str::trim);
    Ok(Argument {
        name: name.trim_end_matches('?').to_owned(),
        is_required: !name.ends_with('?'),
        shape,
        default: default.map(|text| serde_json::from_str(text).unwrap_or(Value::from(text))),
        what: what.trim().to_owned(),
    })
}

/// `STATUS KIND TYPE`, the status if it is not 200.
fn answered(text: &str) -> Result<Answered, String> {
    let (status, text) = match text.split_once(' ') {
        Some((status, rest)) if status.bytes().all(|byte| byte.is_ascii_digit()) => {
            (status.parse().map_err(|_| "no status")?, rest)
        }
        _ => (200, text),
    };
    let (kind, shape) = text.split_once(' ').unwrap_or((text, ""));
    let body = match kind {
        "nothing" => AnswerBody::Nothing,
        "data" => AnswerBody::Data(whole(shape)?),
        "page" => AnswerBody::Page(whole(shape)?),
        "body" => AnswerBody::Whole(whole(shape)?),
        document if document.contains('/') => AnswerBody::Document(document.to_owned()),
        _ => return Err("no kind of answer".to_owned()),
    };
    Ok(Answered { status, body })
}

/// A shape that a whole text is.
fn whole(text: &str) -> Result<Shape, String> {
    let mut text = Text(text);
    let shape = text.shape()?;
    match text.0.trim() {
        "" => Ok(shape),
        rest => Err(format!("`{rest}` follows a type")),
    }
}

/// What is still to be read.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(format!("`{token}` is missing before `{}`", self.0)),
        }
    }

    fn word(&mut self) -> &'a str {
        let text = self.0.trim_start();
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let (word, rest) = text.split_at(text.find(is_end).unwrap_or(text.len()));
        self.0 = rest;
        word
    }

    fn quoted(&mut self) -> Result<String, String> {
        self.expect("\"")?;
        let (word, rest) = self.0.split_once('"').ok_or("a quote is not closed")?;
        self.0 = rest;
        Ok(word.to_owned())
    }

    /// What follows is one more word of a list of them, and not the text for people.
    fn has_word(&self) -> bool {
        let rest = self.0.trim_start().strip_prefix('|');
        rest.is_some_and(|rest| rest.trim_start().starts_with('"'))
    }

    fn shape(&mut self) -> Result<Shape, String> {
        let first = self.part()?;
        let mut parts = vec![first];
        while self.take("&") {
            parts.push(self.part()?);
        }
        match <[Shape; 1]>::try_from(parts) {
            Ok([one]) => Ok(one),
            Err(parts) => Ok(Shape::All(parts)),
        }
    }

    fn part(&mut self) -> Result<Shape, String> {
        let shape = self.plain()?;
        Ok(match self.take("?") {
            true => Shape::Maybe(Box::new(shape)),
            false => shape,
        })
    }

    fn plain(&mut self) -> Result<Shape, String> {
        if self.take("(") {
            let shape = self.shape()?;
            self.expect(")")?;
            return Ok(shape);
        }
        if self.take("[") {
            let shape = self.shape()?;
            self.expect("]")?;
            return Ok(Shape::List(Box::new(shape)));
        }
        if self.take("{") {
            return self.fields();
        }
        if self.0.trim_start().starts_with('"') {
            let mut words = vec![self.quoted()?];
            while self.has_word() {
                self.expect("|")?;
                words.push(self.quoted()?);
            }
            return Ok(Shape::Words(words));
        }
        Ok(match self.word() {
            "" => return Err(format!("a type is missing before `{}`", self.0)),
            "any" => Shape::Any,
            "null" => Shape::Null,
            "str" => Shape::Text,
            "int" => Shape::Whole,
            "bool" => Shape::Flag,
            "time" => Shape::Moment,
            "uuid" => Shape::Id,
            "range" => Shape::Range,
            "object" => Shape::Object,
            name => Shape::Named(name.to_owned()),
        })
    }

    /// Behind the brace that opens.
    fn fields(&mut self) -> Result<Shape, String> {
        if self.take("*") {
            self.expect(":")?;
            let shape = self.shape()?;
            self.expect("}")?;
            return Ok(Shape::Map(Box::new(shape)));
        }
        let mut fields = Vec::new();
        while !self.take("}") {
            let name = self.word().to_owned();
            let is_required = !self.take("?");
            self.expect(":")?;
            fields.push(Field {
                name,
                is_required,
                shape: self.shape()?,
            });
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Shape::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::{argument, contract, whole};
    use crate::api::contract::Shape;

    #[test]
    fn a_text_that_is_wrong_names_its_line() {
        for (text, line) in [
            ("    a: int | x", 1),
            ("\nA = [int", 2),
            ("GET /a\nGET /a", 2),
            ("GET /a\n    a int", 2),
            ("GET /a\n    @b", 2),
        ] {
            let error = contract(text).unwrap_err();
            assert!(
                error.starts_with(&format!("endpoints.txt:{line}:")),
                "{error}"
            );
        }
        let error = contract("GET /a\n    -> data B").unwrap_err();
        assert!(error.contains("no shape `B`"), "{error}");
    }

    #[test]
    fn an_argument_has_a_type_a_default_and_a_text_for_people() {
        let read = argument(r#"a.b?: ["x" | "y"] = x | one | of these"#).unwrap();
        let words = Shape::Words(vec!["x".to_owned(), "y".to_owned()]);
        assert_eq!(read.shape, Shape::List(Box::new(words)));
        assert_eq!((read.name.as_str(), read.is_required), ("a.b", false));
        assert_eq!(read.default, Some("x".into()));
        assert_eq!(read.what, "one | of these");
        assert!(matches!(whole("(A & {b: int})?"), Ok(Shape::Maybe(_))));
    }
}
