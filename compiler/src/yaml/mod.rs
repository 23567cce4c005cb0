//! The only way to read YAML: within limits, whoever wrote it.
//!
//! The YAML library takes quadratic time for brackets that nest without end, and as much memory as aliases ask for. So a
//! text is looked at twice before it becomes values: `scan` sees to it that the library takes linear time, and `measure`
//! counts what the text says, with every alias counted as what it stands for. Both stop at the limit.

mod measure;
mod scan;
mod text;

use std::path::Path;

use serde::de::DeserializeOwned;
pub use serde_yaml::{Mapping, Value, to_string};

/// How much a text may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Length of the text itself, in bytes.
    pub bytes: usize,
    /// Collections and tags in each other, brackets among them. The library takes 127.
    pub depth: usize,
    /// Scalars and collections; what an alias stands for counts wherever it is named.
    pub nodes: usize,
    /// How many aliases (`*name`) there may be.
    pub aliases: usize,
    /// The texts of all scalars, in bytes; what an alias stands for counts wherever it is named.
    pub text_bytes: usize,
}

/// The limits for every file of a project and for the configuration: a lock of 5 000 packages has
/// 60 000 nodes and 1 MiB.
pub const LIMITS: Limits = Limits {
    bytes: 4 << 20,
    depth: 100,
    nodes: 200_000,
    aliases: 10_000,
    text_bytes: 8 << 20,
};

/// An error may quote what it refuses, which may be long.
const LONGEST_MESSAGE: usize = 2000;

/// Why a text is not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is longer than the limit.
    #[error("the text has {bytes} bytes, more than {limit} are not read")]
    TooLarge {
        /// Bytes that are read.
        limit: usize,
        /// Bytes that it has.
        bytes: usize,
    },
    /// Its collections are nested deeper than the limit.
    #[error("more than {limit} lists and maps nested in each other{}", at(*line))]
    TooDeep {
        /// Levels that are read.
        limit: usize,
        /// The line where the limit was met, from 1, if it is known.
        line: Option<usize>,
    },
    /// It has more values than the limit.
    #[error("more than {limit} values, aliases counted as what they stand for{}", at(*line))]
    TooManyNodes {
        /// Values that are read.
        limit: usize,
        /// The line where the limit was met, from 1, if it is known.
        line: Option<usize>,
    },
    /// It has more aliases than the limit.
    #[error("more than {limit} aliases{}", at(*line))]
    TooManyAliases {
        /// Aliases that are read.
        limit: usize,
        /// The line where the limit was met, from 1, if it is known.
        line: Option<usize>,
    },
    /// Its values have more text than the limit.
    #[error("more than {limit} bytes of text, aliases counted as what they stand for{}", at(*line))]
    TooMuchText {
        /// Bytes of text that are read.
        limit: usize,
        /// The line where the limit was met, from 1, if it is known.
        line: Option<usize>,
    },
    /// It has more `%TAG` directives than the limit.
    #[error("more than {limit} %TAG directives at line {line}")]
    TooManyDirectives {
        /// Directives that are read.
        limit: usize,
        /// The line where the limit was met, from 1.
        line: usize,
    },
    /// A key that one map has twice, and the lines with a key of this name.
    #[error("{}: the key is in the lines {lines}", shortened(&error.to_string()))]
    Duplicate {
        /// What the library says.
        #[source]
        error: serde_yaml::Error,
        /// As text: `3, 5 and 8`.
        lines: String,
    },
    /// What the library says: no YAML, or not what was asked for.
    #[error("{}", shortened(&.0.to_string()))]
    Syntax(#[from] serde_yaml::Error),
}

impl Error {
    /// It is YAML, but more of it than is read.
    pub fn is_limit(&self) -> bool {
        !matches!(self, Self::Syntax(_) | Self::Duplicate { .. })
    }
}

fn at(line: Option<usize>) -> String {
    line.map(|line| format!(" at line {line}"))
        .unwrap_or_default()
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    // The place comes last.
    let half = LONGEST_MESSAGE / 2;
    let start = message.floor_char_boundary(half);
    let end = message.ceil_char_boundary(message.len() - half);
    format!("{} … {}", &message[..start], &message[end..])
}

/// Reads a text of one document as a value of that type, in time and memory that are linear in its length.
///
/// # Errors
/// The limit that the text exceeds, with the line where; or what is wrong with it.
pub fn from_str<T: DeserializeOwned>(text: &str, limits: &Limits) -> Result<T, Error> {
    let text = without_byte_order_mark(text);
    check(text, limits)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the bounded reader that all others use"
    )]
    let value =
        serde_yaml::from_str(text).map_err(|error| match lines_of_duplicate(text, &error) {
            Some(lines) => Error::Duplicate { error, lines },
            None => Error::Syntax(error),
        })?;
    Ok(value)
}

/// The lines with a key of the outermost map that is there twice, if that is what an error is about: the library says only of
/// inner maps where they are.
fn lines_of_duplicate(text: &str, error: &serde_yaml::Error) -> Option<String> {
    let message = error.to_string();
    let (_, key) = message.split_once("duplicate entry with key ")?;
    let key: String = serde_json::from_str(key).ok()?;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let rest = line.trim_start_matches(['"', '\'']).strip_prefix(&key);
        rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    });
    let numbers: Vec<String> = lines.map(|(at, _)| (at + 1).to_string()).collect();
    let (last, others) = numbers.split_last()?;
    (!others.is_empty() && others.len() < 10).then(|| format!("{} and {last}", others.join(", ")))
}

/// A text without the byte order mark that some editors write in front of it. The library would count the mark as a column
/// of the first line, which would then be indented further than the others.
pub(crate) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Whether a text is within the limits.
fn check(text: &str, limits: &Limits) -> Result<(), Error> {
    if text.len() > limits.bytes {
        return Err(Error::TooLarge {
            limit: limits.bytes,
            bytes: text.len(),
        });
    }
    scan::check(text, limits)?;
    measure::check(text, limits)
}

/// The text of a YAML file, if it is a plain file within the limit on bytes.
///
/// # Errors
/// Those of [`crate::plain_file::read_text`].
pub fn read_file(path: &Path, limits: &Limits) -> std::io::Result<String> {
    crate::plain_file::read_text(path, limits.bytes as u64)
}

/// The most brackets and block collections open at once, and the tokens, for fuzzing.
#[doc(hidden)]
pub fn scanned(text: &str, limits: &Limits) -> Result<(usize, usize, usize), Error> {
    let scanned = scan::check(text, limits)?;
    Ok((scanned.brackets, scanned.blocks, scanned.tokens))
}

/// What the library says without us, for fuzzing.
#[doc(hidden)]
#[expect(
    clippy::disallowed_methods,
    reason = "it is compared with the bounded reader"
)]
pub fn unbounded(text: &str) -> Result<Value, serde_yaml::Error> {
    serde_yaml::from_str(text)
}

#[cfg(test)]
mod tests;
