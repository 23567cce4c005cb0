//! What fuzzing reaches besides [`crate::compile`]: parts of the compiler on bytes alone (`compiler/fuzz`). A target is a
//! function that panics when a reader gave an answer that it must not give. The tests call them, too.

use std::io::Write as _;

use crate::intern::Interner;
use crate::project;
use crate::protocol::{self, FromHost, ToHost};
use crate::span::FileId;
use crate::syntax;
use crate::yaml::{self, Limits};

/// Where the tokens of a text are, blanks and comments included.
pub fn tokens(text: &str) -> Vec<(usize, usize)> {
    let tokens = syntax::tokens(text);
    let place = |token: &syntax::token::Token| (token.start as usize, token.end as usize);
    tokens.iter().map(place).collect()
}

/// Where the mistakes of a text are, if they have places.
pub fn mistakes(text: &str) -> Vec<(usize, usize)> {
    let parsed = syntax::parse(FileId(0), text, &mut Interner::default());
    let spans = parsed.errors.iter().filter_map(|error| error.span);
    spans
        .map(|span| (span.start as usize, span.end as usize))
        .collect()
}

/// More than a fuzzer needs to say something new.
const MAX_BYTES: usize = 4096;

/// Any text is read as the YAML library reads it, or refused because it exceeds a limit.
pub fn yaml(bytes: &[u8]) {
    let small = Limits {
        bytes: MAX_BYTES,
        depth: 4,
        nodes: 40,
        aliases: 4,
        text_bytes: 200,
    };
    let large = Limits {
        nodes: 5_000,
        depth: 100,
        aliases: 200,
        text_bytes: 1 << 20,
        ..small
    };
    if bytes.len() > MAX_BYTES {
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    let loose = yaml::from_str::<yaml::Value>(&text, &large);
    let tight = yaml::from_str::<yaml::Value>(&text, &small);
    if loose.as_ref().is_err_and(yaml::Error::is_limit) {
        assert!(tight.is_err(), "the tighter limits let through: {text:?}");
        return;
    }
    let real = yaml::unbounded(yaml::without_byte_order_mark(&text));
    match (&loose, &real) {
        // Two errors may differ in the order in which they are found.
        (Err(_), Err(_)) => {}
        (Ok(ours), Ok(real)) => assert!(same(ours, real), "{text:?}"),
        _ => panic!("{loose:?}, but the library says {real:?}: {text:?}"),
    }
    if let Ok(value) = &real {
        let mut size = Size::default();
        size.add(value, 0);
        let exceeds = size.depth > small.depth
            || size.nodes > small.nodes
            || size.text_bytes > small.text_bytes;
        let has_aliases = text.matches('*').count() > small.aliases;
        match tight {
            Ok(_) => assert!(
                size.depth <= small.depth && size.nodes <= small.nodes,
                "{text:?}"
            ),
            Err(error) => assert!(exceeds || has_aliases || size.repeats, "{error}: {text:?}"),
        }
    }
}

/// A number that is none is not equal to itself.
fn same(ours: &yaml::Value, real: &yaml::Value) -> bool {
    ours == real || format!("{ours:?}") == format!("{real:?}")
}

/// How much a value says.
#[derive(Default)]
struct Size {
    depth: usize,
    nodes: usize,
    text_bytes: usize,
    /// It has a tag: its text counts, too, and is not in the value as it was written.
    repeats: bool,
}

impl Size {
    fn add(&mut self, value: &yaml::Value, depth: usize) {
        self.nodes += 1;
        match value {
            yaml::Value::Sequence(items) => {
                self.depth = self.depth.max(depth + 1);
                items.iter().for_each(|item| self.add(item, depth + 1));
            }
            yaml::Value::Mapping(entries) => {
                self.depth = self.depth.max(depth + 1);
                for (key, value) in entries {
                    self.add(key, depth + 1);
                    self.add(value, depth + 1);
                }
            }
            yaml::Value::String(text) => self.text_bytes += text.len(),
            yaml::Value::Tagged(tagged) => {
                self.repeats = true;
                self.depth = self.depth.max(depth + 1);
                self.add(&tagged.value, depth + 1);
            }
            yaml::Value::Null | yaml::Value::Bool(_) | yaml::Value::Number(_) => {}
        }
    }
}

/// Any text as `project.yml`, `module.yml`, `setup.cfg`, `requirements.txt`.
pub fn metadata(bytes: &[u8]) {
    project::read_metadata(&String::from_utf8_lossy(bytes));
}

/// Any bytes as frames between our processes and Python, in both directions. What is read can be written and read again.
pub fn frames(bytes: &[u8]) {
    let mut framed = Vec::new();
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let _ = framed.write_all(&length.to_be_bytes());
    let _ = framed.write_all(bytes);
    // As it came, and with a length that fits.
    for mut stream in [bytes, &framed[..]] {
        if let Ok(Some(message)) = protocol::read_frame::<FromHost>(&mut &stream[..]) {
            let mut again = Vec::new();
            let written = protocol::write_frame(&mut again, &message);
            assert!(written.is_ok(), "{message:?}");
            let read = protocol::read_frame::<FromHost>(&mut &again[..]);
            assert!(matches!(read, Ok(Some(_))), "{message:?}");
        }
        let _ = protocol::read_frame::<ToHost>(&mut &stream[..]);
        let _ = protocol::read_frame::<serde_json::Value>(&mut stream);
    }
}

/// Numbers that look random, the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n.max(1) as u64).unwrap_or(0)
    }
}

/// Some seed with a few changes, or a part of another one in it. `words`: what the format is made of.
pub fn mutated(seeds: &[Vec<u8>], words: &[&[u8]], numbers: &mut Numbers) -> Vec<u8> {
    let pick = |numbers: &mut Numbers| seeds.get(numbers.below(seeds.len())).cloned();
    let mut bytes = pick(numbers).unwrap_or_default();
    for _ in 0..=numbers.below(5) {
        let at = numbers.below(bytes.len() + 1);
        let end = bytes.len().min(at + numbers.below(24));
        let byte = u8::try_from(numbers.below(256)).unwrap_or(0);
        match numbers.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, byte),
            3 => {
                let copy = bytes.get(at..end).unwrap_or_default().to_vec();
                let to = numbers.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            4 => {
                let other = pick(numbers).unwrap_or_default();
                let from = numbers.below(other.len());
                let part = other.into_iter().skip(from).take(60);
                bytes.splice(at..end, part);
            }
            _ => {
                let word = words.get(numbers.below(words.len())).copied();
                bytes.splice(at..at, word.unwrap_or(b"\0").to_vec());
            }
        }
    }
    bytes
}
