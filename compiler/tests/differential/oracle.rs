//! The reference, in a process of its own (`oracle.py`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

use crate::answer::{Answer, Found, Outcome, base_name};
use crate::tree::{Case, VARIABLES};

const SCRIPT: &str = include_str!("oracle.py");

/// A running interpreter that has imported the reference.
pub struct Oracle {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    pub fn start(interpreter: &Path) -> std::io::Result<Self> {
        let mut child = Command::new(interpreter)
            .args(["-c", SCRIPT])
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let requests = child.stdin.take();
        let answers = child
            .stdout
            .take()
            .ok_or_else(|| std::io::Error::other("no output of the oracle"))?;
        Ok(Oracle {
            child,
            requests,
            answers: BufReader::new(answers),
        })
    }

    /// What the reference makes of a case; `is_alone`: in a process that no other case has seen. An error: the process is
    /// gone.
    pub fn run(&mut self, case: &Case, is_alone: bool) -> std::io::Result<Answer> {
        let files: serde_json::Map<String, Json> = case
            .rendered()
            .into_iter()
            .map(|(path, text)| (path, text.into()))
            .collect();
        let variables: serde_json::Map<String, Json> = VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        let request =
            json!({ "files": files, "export": case.export, "env": variables, "alone": is_alone });
        let requests = self
            .requests
            .as_mut()
            .ok_or_else(|| std::io::Error::other("the oracle is stopped"))?;
        writeln!(requests, "{request}")?;
        requests.flush()?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(std::io::Error::other("the oracle has ended"));
        }
        Ok(answer(&serde_json::from_str(&line)?))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It ends at the end of its input, and takes its directory with it.
        self.requests = None;
        let _ = self.child.wait();
    }
}

fn answer(json: &Json) -> Answer {
    Answer {
        outcome: match json["outcome"].as_str() {
            Some("accepted") => Outcome::Accepted,
            Some("rejected") => Outcome::Rejected,
            Some("timeout") => Outcome::Timeout,
            _ => Outcome::Crashed,
        },
        output: json["output"].as_str().unwrap_or_default().to_owned(),
        errors: found(&json["errors"]),
        warnings: found(&json["warnings"]),
        model: json.get("model").cloned(),
        resources: json.get("resources").cloned(),
    }
}

fn found(errors: &Json) -> Vec<Found> {
    let errors = errors.as_array().map(Vec::as_slice).unwrap_or_default();
    errors
        .iter()
        .map(|error| Found {
            kind: error["kind"].as_str().unwrap_or_default().to_owned(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            file: error["file"].as_str().map(base_name),
            line: error["line"].as_u64(),
            causes: found(&error["causes"]),
        })
        .collect()
}
