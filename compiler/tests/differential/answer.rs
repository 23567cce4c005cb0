//! What a compiler makes of a case, in the form that is compared.

use serde_json::Value as Json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Accepted,
    Rejected,
    /// Of the reference: an exception that is no error of its compiler. Of ours: a mistake of our own.
    Crashed,
    Timeout,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub outcome: Outcome,
    pub output: String,
    pub errors: Vec<Found>,
    pub warnings: Vec<Found>,
    /// The dump of the compile contract, of an accepted model.
    pub model: Option<Json>,
    /// The exported resources, if they were asked for.
    pub resources: Option<Json>,
}

/// One reported error or warning.
#[derive(Debug, Clone)]
pub struct Found {
    pub kind: String,
    pub message: String,
    /// The base name.
    pub file: Option<String>,
    pub line: Option<u64>,
    pub causes: Vec<Found>,
}

impl Found {
    /// `Kind at main.cf:3`, the part that is compared.
    pub fn place(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{} at {file}:{line}", self.kind),
            _ => self.kind.clone(),
        }
    }

    pub fn describe(&self) -> String {
        let mut text = format!("{}: {}", self.place(), self.message);
        for cause in &self.causes {
            text.push_str(&format!("\n    <- {}", cause.describe()));
        }
        text
    }
}

pub fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
