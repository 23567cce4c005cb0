//! What fuzzing reaches of the server: each reader of bytes from outside, alone (`tests/fuzz`). A target is a function that
//! panics when a reader gave an answer that it must not give. The tests call them, too.

use steward_compiler::protocol;

use crate::executor::protocol::{ExecutorCommand, ExecutorReply};
use crate::forge::{self, Event, Forge};

pub use crate::api::fuzzing::{handler_requests, http};
pub use crate::git::fuzzing::{fetch, git, git_answers};
pub use crate::sandbox::fuzzing::links;

/// Lines of headers, an empty line, and a body: a delivery of each forge. What comes of it may be logged.
pub fn webhook(bytes: &[u8]) {
    let mut headers: Vec<(String, &[u8])> = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = rest[..end].trim_ascii();
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        headers.push((String::from_utf8_lossy(name).into_owned(), value));
    }
    let of_name = |name: &str| -> Vec<&[u8]> {
        let found = headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).collect()
    };
    for forge in [Forge::GitHub, Forge::Gitea, Forge::Forgejo] {
        let verified = forge::verify(forge, b"a secret of the test", &of_name, rest);
        assert!(verified.is_err(), "nobody knows the secret");
        let message = match forge::parse(forge, &of_name, rest) {
            Ok(hook) => {
                if let Event::Push(push) = &hook.event {
                    assert!(push.reference.starts_with("refs/"), "{push:?}");
                    assert_eq!(push.deleted, push.after.is_none(), "{push:?}");
                }
                format!("{hook:?}")
            }
            Err(error) => error.to_string(),
        };
        assert!(!message.chars().any(char::is_control), "{message:?}");
        assert!(message.len() < 10_000, "{} bytes to log", message.len());
    }
}

/// Any text as `steward.lock`: what is read is written as it was read.
pub fn lock(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(lock) = crate::modules::Lock::parse(&text) {
        let again = crate::modules::Lock::parse(&lock.text());
        assert!(again.is_ok_and(|again| again == lock), "{lock:?}");
    }
}

/// Any text as `project.yml` and as a requirements file.
pub fn requirements(bytes: &[u8]) {
    crate::modules::read_any(&String::from_utf8_lossy(bytes));
}

/// Any bytes as what a compile sends to the proxy of its environment.
pub fn proxy(bytes: &[u8]) {
    crate::compile::read_any_request(bytes);
}

/// Any text as what pip and uv say that they would install, and as what a build has left of a package.
pub fn packages(bytes: &[u8]) {
    crate::modules::read_any_answer(&String::from_utf8_lossy(bytes));
}

/// Any text as the configuration, but those that name files, which would be read.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if text.contains("file") || text.contains("credential") {
        return;
    }
    if let Err(error) = crate::config::parse(&text) {
        let message = error.to_string();
        assert!(message.starts_with("steward.yaml"), "{message}");
        assert!(message.len() < 20_000, "{} bytes to log", message.len());
    }
}

/// Any bytes as frames of executors and compile workers, and to them.
pub fn frames(bytes: &[u8]) {
    if let Ok(reply) = protocol::decode::<ExecutorReply>(bytes) {
        let mut again = Vec::new();
        assert!(
            protocol::write_frame(&mut again, &reply).is_ok(),
            "{reply:?}"
        );
        let read = protocol::read_frame::<ExecutorReply>(&mut &again[..]);
        assert!(matches!(read, Ok(Some(_))), "{reply:?}");
    }
    let _ = protocol::decode::<ExecutorCommand>(bytes);
    crate::compile::read_any_frame(bytes);
    crate::git::read_any_worker_frame(bytes);
    // What a worker that was killed has left.
    if let Some((number, table)) = bytes.split_first_chunk() {
        let _ = steward_compiler::place_of(u32::from_le_bytes(*number), table);
    }
}
