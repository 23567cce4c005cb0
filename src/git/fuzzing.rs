//! For fuzzing: what a repository, who names one and who serves one can say.

mod fetch;

pub use fetch::{fetch, git_answers};

use std::collections::BTreeMap;

use super::names::{Node, check_link, check_name};
use super::url::{AddressPolicy, RepositoryUrl};

/// Any text as the URL of a repository, and any lines as the tree of one: a name, or `name -> target` for a link.
pub fn git(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    url(text.lines().next().unwrap_or_default());
    let mut nodes = BTreeMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(name) = check_name(line) {
            assert!(!name.contains('/') && name != "..", "{name:?}");
            assert!(!name.chars().any(char::is_control), "{name:?}");
        }
    }
    for line in text.lines() {
        match line.split_once(" -> ") {
            Some((path, target)) => nodes.insert(path, Node::Link(target)),
            None if line.ends_with('/') => nodes.insert(line.trim_end_matches('/'), Node::Folder),
            None => nodes.insert(line, Node::File),
        };
    }
    let mut n_steps = 10_000;
    for path in nodes.keys() {
        let _ = check_link(path, &nodes, &mut n_steps);
    }
}

/// A URL that is accepted is the same when it is read again, and no option of a command.
fn url(text: &str) {
    if let Ok(url) = RepositoryUrl::parse(text, &AddressPolicy::default()) {
        let shown = url.as_str();
        assert!(!shown.starts_with('-'), "{shown:?}");
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(url.host().is_none_or(|host| !host.starts_with('-')));
        let again = RepositoryUrl::parse(shown, &AddressPolicy::default());
        assert!(again.is_ok_and(|again| again == url), "{shown:?}");
        let _ = url.identity();
    }
}
