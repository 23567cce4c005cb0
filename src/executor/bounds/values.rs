//! Limits of values: what is too long is cut, what would be wrong when it is cut is left out, and a line says so.

use std::borrow::Cow;
use std::io;

use serde_json::{Map, Value};
use steward_compiler::protocol::{Discovered, Fact};

use super::Share;
use crate::domain::{LogLevel, Timestamp};
use crate::executor::protocol::LogLine;

/// Facts that one run may tell, and that one resource may have.
pub const MAX_FACTS: usize = 1000;
/// Resources that one run may find.
pub const MAX_DISCOVERED: usize = 10_000;
/// Bytes of the value of a fact, and of what is known of a found resource, as JSON.
const FACT_BYTES: usize = 64 << 10;
/// Bytes of all facts of a run.
const FACTS_BYTES: usize = 1 << 20;
/// Bytes of all that a run found.
const FOUND_BYTES: usize = 4 << 20;
/// Bytes of the name of a fact, an attribute or a resource.
pub(super) const NAME_BYTES: usize = 2 << 10;
/// JSON nested deeper than 128 could be written, but not be read back.
pub const MAX_DEPTH: usize = 64;
/// What a mark takes at most.
const MARK_BYTES: usize = 80;
/// Bytes of what is the same on both sides of a difference that are kept before it, where its values are cut.
const SAME_BYTES: usize = 200;

/// Cuts a text to `limit` bytes, a mark included.
pub(super) fn cut(text: &mut String, limit: usize) {
    let n_bytes = text.len();
    cut_again(text, limit, n_bytes);
}

/// As [`cut`], of what is left of a text that had `n_bytes`: the mark says how many of these are missing.
fn cut_again(text: &mut String, limit: usize, n_bytes: usize) {
    if text.len() <= limit {
        return;
    }
    let mut kept = limit.saturating_sub(MARK_BYTES);
    while !text.is_char_boundary(kept) {
        kept -= 1;
    }
    let n_cut = n_bytes - kept;
    text.truncate(kept);
    text.shrink_to_fit();
    if limit > MARK_BYTES {
        text.push_str(&format!("… ({n_cut} bytes were cut, the limit is {limit})"));
    }
}

/// The size of a value as JSON text, which is not made for it.
pub fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// Whether arrays and objects lie in each other more than `left` levels deep.
pub fn is_deep(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if left == 0 => true,
        Value::Array(items) => items.iter().any(|item| is_deep(item, left - 1)),
        Value::Object(fields) => fields.values().any(|item| is_deep(item, left - 1)),
        _ => false,
    }
}

/// Makes a value that is too large or too deep a text that is not; gives its size as JSON.
pub(super) fn bound_value(value: &mut Value, limit: usize) -> usize {
    let n_bytes = json_bytes(value);
    if n_bytes <= limit && !is_deep(value, MAX_DEPTH) {
        return n_bytes;
    }
    let mut text = match std::mem::take(value) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let n_bytes = text.len();
    cut(&mut text, limit.saturating_sub(2));
    // JSON escapes: a text of nothing but control characters is six times as long there.
    for part in [2, 4, 8] {
        if json_bytes(&text) <= limit {
            break;
        }
        cut_again(&mut text, limit / part, n_bytes);
    }
    *value = Value::String(text);
    json_bytes(value)
}

pub(super) fn note(level: LogLevel, msg: String) -> LogLine {
    LogLine {
        level,
        msg,
        kwargs: Map::new(),
        timestamp_us: Timestamp::now().0,
    }
}

/// Of two long values that begin alike, what is kept begins shortly before they differ: else both would be cut before that, and the
/// same would stand on both sides.
fn begin_at_difference(sides: &mut Map<String, Value>, limit: usize) {
    // What is certainly kept of a text: `bound_value` cuts no more. What was begun so is not begun again: its mark and what is the
    // same behind that are less.
    let certain = (limit / 8).max(2 * SAME_BYTES);
    let text = |side| long_text(sides.get(side)?, certain);
    let (Some(current), Some(desired)) = (text("current"), text("desired")) else {
        return;
    };
    if json_bytes(&current) <= limit && json_bytes(&desired) <= limit {
        return;
    }
    let pairs = current.bytes().zip(desired.bytes());
    let n_same = pairs.take_while(|(one, other)| one == other).count();
    let begin = begin_before(&current, n_same);
    if begin < certain {
        return;
    }
    let kept = |text: &str| {
        let rest = text.get(begin..).unwrap_or_default();
        Value::String(format!(
            "… ({begin} bytes before this are the same)\n{rest}"
        ))
    };
    let (current, desired) = (kept(&current), kept(&desired));
    sides.insert("current".to_owned(), current);
    sides.insert("desired".to_owned(), desired);
}

/// A text of more than `certain` bytes, or what would stand for a list or an object of so many.
fn long_text(value: &Value, certain: usize) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if text.len() > certain => Some(Cow::Borrowed(text)),
        Value::Array(_) | Value::Object(_) if json_bytes(value) > certain => {
            Some(Cow::Owned(value.to_string()))
        }
        _ => None,
    }
}

/// Where a line begins that is shortly before this byte, or a character.
fn begin_before(text: &str, n_bytes: usize) -> usize {
    let mut begin = n_bytes.saturating_sub(SAME_BYTES);
    while !text.is_char_boundary(begin) {
        begin -= 1;
    }
    let before = text.as_bytes().get(begin..n_bytes).unwrap_or_default();
    let line = before.iter().position(|byte| *byte == b'\n');
    line.map_or(begin, |line| begin + line + 1)
}

/// Differences: each value by itself, then all together.
pub(super) fn bound_changes(changes: &mut Map<String, Value>, share: &Share) -> Vec<LogLine> {
    let mut left = share.bytes;
    let mut n_dropped = 0;
    let mut kept = Map::new();
    for (mut name, mut change) in std::mem::take(changes) {
        cut(&mut name, NAME_BYTES);
        let size = match &mut change {
            Value::Object(sides) => {
                sides.retain(|side, _| matches!(side.as_str(), "current" | "desired"));
                begin_at_difference(sides, share.value_bytes);
                let sides = sides.values_mut();
                sides.map(|side| bound_value(side, share.value_bytes)).sum()
            }
            other => bound_value(other, share.value_bytes),
        };
        let size: usize = size + name.len() + 32;
        // The first one stays: a run that changed something is not to look as if it had not.
        if size <= left || kept.is_empty() {
            left = left.saturating_sub(size);
            kept.insert(name, change);
        } else {
            n_dropped += 1;
        }
    }
    *changes = kept;
    let dropped = (n_dropped > 0).then(|| {
        let limit = share.bytes >> 10;
        note(
            LogLevel::Info,
            format!("… {n_dropped} more differences were cut; the limit is {limit} KiB a run"),
        )
    });
    dropped.into_iter().collect()
}

/// Why a fact or a parameter cannot be taken.
pub fn check_fact(name: &str, value: &str) -> Result<(), String> {
    let too_long = |what: &str, is: usize, limit: usize| {
        let mut shown = name.to_owned();
        cut(&mut shown, 200);
        Err(format!(
            "the {what} of the fact or parameter `{shown}` has {is} bytes; the limit is {limit}"
        ))
    };
    if name.len() > NAME_BYTES {
        return too_long("name", name.len(), NAME_BYTES);
    }
    if value.len() > FACT_BYTES {
        return too_long("value", value.len(), FACT_BYTES);
    }
    Ok(())
}

/// Why what somebody says about a fact or a parameter, beside its value, cannot be kept.
pub fn check_metadata(metadata: &Value) -> Result<(), String> {
    if is_deep(metadata, MAX_DEPTH) {
        return Err(format!(
            "the metadata is nested more than {MAX_DEPTH} levels deep; make it flatter"
        ));
    }
    match json_bytes(metadata) {
        0..=FACT_BYTES => Ok(()),
        is => Err(format!(
            "the metadata takes {is} bytes as JSON; the limit is {FACT_BYTES}"
        )),
    }
}

/// Why a found resource cannot be taken.
pub fn check_found(resource_id: &str, values: &Value) -> Result<(), String> {
    let mut shown = resource_id.to_owned();
    cut(&mut shown, 200);
    if resource_id.len() > NAME_BYTES {
        return Err(format!(
            "the id of the discovered resource `{shown}` is longer than {NAME_BYTES} bytes"
        ));
    }
    if is_deep(values, MAX_DEPTH) {
        return Err(format!(
            "the values of the discovered resource {shown} are nested deeper than {MAX_DEPTH}"
        ));
    }
    match json_bytes(values) {
        0..=FACT_BYTES => Ok(()),
        is => Err(format!(
            "the values of the discovered resource {shown} take {is} bytes; the limit is {FACT_BYTES}"
        )),
    }
}

/// A fact that was cut would be a wrong fact, so one that is too long is left out.
pub(super) fn bound_facts(facts: &mut Vec<Fact>) -> Vec<LogLine> {
    let (mut left, mut n_kept, mut refused) = (FACTS_BYTES, 0, Refused::default());
    facts.retain(|fact| {
        let size = fact.name.len() + fact.value.len();
        let taken = match check_fact(&fact.name, &fact.value) {
            Ok(()) if n_kept >= MAX_FACTS => Err(format!("the limit is {MAX_FACTS} facts a run")),
            Ok(()) if size > left => Err(format!("the limit is {FACTS_BYTES} bytes a run")),
            taken => taken,
        };
        if taken.is_ok() {
            left -= size;
            n_kept += 1;
        }
        refused.note(taken)
    });
    refused.line("facts were not taken")
}

pub(super) fn bound_discovered(discovered: &mut Vec<Discovered>) -> Vec<LogLine> {
    let (mut left, mut n_kept, mut refused) = (FOUND_BYTES, 0, Refused::default());
    discovered.retain_mut(|found| {
        let values = Value::Object(std::mem::take(&mut found.values));
        let size = found.resource_id.len() + json_bytes(&values);
        let taken = match check_found(&found.resource_id, &values) {
            Ok(()) if n_kept >= MAX_DISCOVERED => {
                Err(format!("the limit is {MAX_DISCOVERED} resources a run"))
            }
            Ok(()) if size > left => Err(format!("the limit is {FOUND_BYTES} bytes a run")),
            taken => taken,
        };
        if let Value::Object(values) = values {
            found.values = values;
        }
        if taken.is_ok() {
            left -= size;
            n_kept += 1;
        }
        refused.note(taken)
    });
    refused.line("discovered resources were not taken")
}

/// How many were refused, and why the first one was.
#[derive(Default)]
struct Refused {
    n: usize,
    first: String,
}

impl Refused {
    fn note(&mut self, taken: Result<(), String>) -> bool {
        let Err(why) = taken else { return true };
        if self.n == 0 {
            self.first = why;
        }
        self.n += 1;
        false
    }

    fn line(self, what: &str) -> Vec<LogLine> {
        let line = (self.n > 0).then(|| {
            let text = format!("{} {what}: {}", self.n, self.first);
            note(LogLevel::Warning, text)
        });
        line.into_iter().collect()
    }
}
