//! Variables of an environment that are secret: a compile gets them, and nothing that is kept or shown of it has them.
//!
//! They come from the configuration at each start and live in memory only. What a compile said is searched for their
//! values before it goes anywhere. What the model puts into a resource is not touched: that is the desired state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::worker::{JobDone, PoolError};

/// What is shorter occurs by chance, and in its place a mark would say nothing and hide much.
pub const MIN_REDACTED_CHARS: usize = 4;
/// Lines of a longer secret (a key of several lines) are looked for one by one from this length on.
const MIN_LINE_CHARS: usize = 8;
/// An output that is longer may have been cut off in the middle of a secret.
const LONG_OUTPUT_BYTES: usize = 64 << 10;

/// Secret variables: never printed, never serialised.
#[derive(Clone, Default)]
pub struct SecretVariables {
    values: Arc<BTreeMap<String, String>>,
    /// What to look for, longest first, and the mark that stands for it then.
    patterns: Arc<Vec<(String, String)>>,
    /// Makes the digest worthless to who has only the database.
    key: [u8; 32],
}

impl fmt::Debug for SecretVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

impl SecretVariables {
    /// Values by the names of their variables.
    pub fn new(values: BTreeMap<String, String>) -> Self {
        let mut patterns = Vec::new();
        for (name, value) in &values {
            let mark = format!("<redacted: {name}>");
            patterns.extend(forms(value).map(|form| (form, mark.clone())));
        }
        patterns.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        patterns.dedup_by(|(a, _), (b, _)| a == b);
        Self {
            values: Arc::new(values),
            patterns: Arc::new(patterns),
            key: [0; 32],
        }
    }

    /// The same, with the key that this installation makes digests with.
    #[must_use]
    pub fn keyed(self, key: [u8; 32]) -> Self {
        Self { key, ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All variables that a compile gets: `plain` ones and these, which win.
    pub fn with(&self, plain: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = plain.clone();
        all.extend((*self.values).clone());
        all
    }

    /// Changes when one of them does, and tells nothing of them. `None`: there are none.
    pub(super) fn digest(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        for text in self.values.iter().flat_map(|(name, value)| [name, value]) {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        Some(hex::encode(mac.finalize().into_bytes()))
    }

    /// `text` with a mark in the place of every secret.
    pub(super) fn redact(&self, text: &str) -> String {
        let find = |from: usize, pattern: &str| text[from..].find(pattern).map(|at| from + at);
        let mut next: Vec<Option<usize>> = self
            .patterns
            .iter()
            .map(|(pattern, _)| find(0, pattern))
            .collect();
        let (mut redacted, mut done) = (String::new(), 0);
        // The earliest, and of those the longest: that is the first in the list.
        while let Some((which, at)) = next
            .iter()
            .enumerate()
            .filter_map(|(which, at)| Some((which, (*at)?)))
            .min_by_key(|(which, at)| (*at, *which))
        {
            let (pattern, mark) = &self.patterns[which];
            redacted.push_str(&text[done..at]);
            redacted.push_str(mark);
            done = at + pattern.len();
            for (at, (pattern, _)) in next.iter_mut().zip(self.patterns.iter()) {
                if at.is_some_and(|at| at < done) {
                    *at = find(done, pattern);
                }
            }
        }
        redacted.push_str(&text[done..]);
        redacted
    }

    /// What came of a compile, without secrets in all that is said of it.
    pub(super) fn redact_done(
        &self,
        done: Result<JobDone, PoolError>,
    ) -> Result<JobDone, PoolError> {
        if self.is_empty() {
            return done;
        }
        match done {
            Ok(mut done) => {
                done.printed = self.redact_output(&done.printed);
                for diagnostic in &mut done.diagnostics {
                    diagnostic.plain = self.redact(&diagnostic.plain);
                    diagnostic.colored = self.redact(&diagnostic.colored);
                    diagnostic.json = match serde_json::from_str::<Value>(&diagnostic.json) {
                        Ok(json) => self.redact_json(json).to_string(),
                        Err(_) => self.redact(&diagnostic.json),
                    };
                }
                Ok(done)
            }
            Err(PoolError::Ended(how, place)) => Err(PoolError::Ended(self.redact(&how), place)),
            Err(error) => Err(error),
        }
    }

    /// A long output may have been cut off at its end, in the middle of a secret.
    fn redact_output(&self, text: &str) -> String {
        let mut redacted = self.redact(text);
        if redacted.len() < LONG_OUTPUT_BYTES {
            return redacted;
        }
        let cut = self.patterns.iter().find_map(|(pattern, mark)| {
            let starts: Vec<&str> = pattern
                .char_indices()
                .skip(MIN_REDACTED_CHARS)
                .map(|(at, _)| &pattern[..at])
                .collect();
            let mut longest_first = starts.iter().rev();
            let start = longest_first.find(|start| redacted.ends_with(**start))?;
            Some((redacted.len() - start.len(), mark))
        });
        if let Some((at, mark)) = cut {
            redacted.truncate(at);
            redacted.push_str(mark);
        }
        redacted
    }

    fn redact_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact(&text)),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.redact_json(item))
                .collect(),
            Value::Object(map) => map
                .into_iter()
                .map(|(key, value)| (self.redact(&key), self.redact_json(value)))
                .collect(),
            other => other,
        }
    }
}

/// The texts in which a value may be said: as it is, as JSON and Python write it between quotes, and line by line.
fn forms(value: &str) -> impl Iterator<Item = String> {
    let quoted = Value::String(value.to_owned()).to_string();
    let as_json = quoted[1..quoted.len() - 1].to_owned();
    let as_python = value
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t");
    let with_single = as_python.replace('\'', "\\'");
    let lines: Vec<String> = value
        .lines()
        .map(str::trim)
        .filter(|line| line.chars().count() >= MIN_LINE_CHARS)
        .map(str::to_owned)
        .collect();
    [value.to_owned(), as_json, as_python, with_single]
        .into_iter()
        .filter(|form| form.chars().count() >= MIN_REDACTED_CHARS)
        .chain(lines)
}

#[cfg(test)]
mod tests {
    use super::SecretVariables;

    fn secrets(pairs: &[(&str, &str)]) -> SecretVariables {
        let pairs = pairs.iter().copied();
        SecretVariables::new(pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    #[test]
    fn every_occurrence_is_replaced_and_the_longest_first() {
        let both = secrets(&[("A", "hunter2"), ("B", "hunter2-and-more"), ("C", "abc")]);
        let redacted = both.redact("hunter2hunter2, hunter2-and-more; abc é hunter");
        let expected = "<redacted: A><redacted: A>, <redacted: B>; abc é hunter";
        assert_eq!(redacted, expected);
        assert_eq!(secrets(&[]).redact("as it is"), "as it is");
        assert!(!format!("{both:?}").contains("hunter"));
    }

    #[test]
    fn a_mark_is_not_searched_again() {
        let both = secrets(&[("A", "redacted"), ("redacted", "other value")]);
        let expected = "<redacted: redacted> <redacted: A>";
        assert_eq!(both.redact("other value redacted"), expected);
    }

    #[test]
    fn what_is_quoted_or_split_into_lines_is_found_too() {
        let key = secrets(&[("KEY", "line-one-of-the-key\n\"line\"-two-of-the-key\n")]);
        let quoted = r#"x = "line-one-of-the-key\n\"line\"-two-of-the-key\n" y"#;
        assert_eq!(key.redact(quoted), r#"x = "<redacted: KEY>" y"#);
        let python = r#"'line-one-of-the-key\n"line"-two-of-the-key\n'"#;
        assert_eq!(key.redact(python), "'<redacted: KEY>'");
        assert_eq!(
            key.redact("> line-one-of-the-key\n> and"),
            "> <redacted: KEY>\n> and"
        );
        let short = secrets(&[("LOGIN", "admin\nhunter2pw")]);
        assert_eq!(
            short.redact("  = note: hunter2pw"),
            "  = note: <redacted: LOGIN>"
        );
    }

    #[test]
    fn a_secret_that_a_limit_cut_off_leaves_nothing() {
        let one = secrets(&[("A", "correct-horse")]);
        let long = "x".repeat(70_000);
        let redacted = one.redact_output(&format!("{long}correct-h"));
        assert_eq!(redacted, format!("{long}<redacted: A>"));
    }

    #[test]
    fn the_digest_changes_with_value_and_key_and_holds_neither() {
        let one = secrets(&[("A", "hunter2")]);
        let digests = [
            one.digest(),
            secrets(&[("A", "hunter3")]).digest(),
            one.clone().keyed([1; 32]).digest(),
            secrets(&[]).digest(),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
        assert_eq!(digests[3], None);
    }
}
