//! Which commit to compile, decided from what is known.

use std::collections::BTreeMap;

use crate::domain::CompileState;
use crate::store::Compile;

/// What a compile is a pure function of, besides the compiler itself and the modules that the commit holds. `secrets` is
/// what stands for the secret variables.
pub(super) fn inputs_digest(
    tree: &str,
    variables: &BTreeMap<String, String>,
    secrets: Option<&str>,
) -> String {
    use sha2::{Digest, Sha256};
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    part(env!("CARGO_PKG_VERSION"));
    part(tree);
    for (name, value) in variables {
        part(name);
        part(value);
    }
    if let Some(secrets) = secrets {
        part("secrets");
        part(secrets);
    }
    hex::encode(hasher.finalize())
}

/// After a look at the repository: whether its head needs a compile, given the last verdict on this environment.
/// A commit that was rejected is not tried again before something changes, or the server starts anew.
pub(super) fn needs_compile(
    head: &str,
    inputs: &str,
    last: Option<&Compile>,
    is_start: bool,
) -> bool {
    last.is_none_or(|last| {
        last.commit_id.as_deref() != Some(head)
            || last.inputs_digest.as_deref() != Some(inputs)
            || (is_start && last.state == CompileState::Rejected)
    })
}

#[cfg(test)]
mod tests {
    use super::{inputs_digest, needs_compile};
    use crate::domain::{CompileId, CompileState, EnvironmentId, Timestamp};
    use crate::store::Compile;

    fn judged(commit: &str, inputs: &str, state: CompileState) -> Compile {
        Compile {
            id: CompileId::generate(),
            environment_id: EnvironmentId::generate(),
            requested: Timestamp(0),
            started: None,
            completed: None,
            attempts: 1,
            state,
            reason: None,
            do_export: true,
            update: true,
            metadata: serde_json::Value::Null,
            variables: Default::default(),
            commit_id: Some(commit.into()),
            inputs_digest: Some(inputs.into()),
            diagnostics: serde_json::Value::Null,
            version: None,
            substitute: None,
            remote_id: None,
            services: None,
        }
    }

    #[test]
    fn a_new_head_or_new_inputs_need_a_compile_and_a_rejected_commit_does_not_again() {
        assert!(needs_compile("a", "i", None, false));
        for state in [CompileState::Exported, CompileState::Rejected] {
            assert!(!needs_compile(
                "a",
                "i",
                Some(&judged("a", "i", state)),
                false
            ));
            assert!(needs_compile(
                "b",
                "i",
                Some(&judged("a", "i", state)),
                false
            ));
            assert!(needs_compile(
                "a",
                "j",
                Some(&judged("a", "i", state)),
                false
            ));
        }
        assert!(needs_compile(
            "a",
            "i",
            Some(&judged("a", "i", CompileState::Rejected)),
            true
        ));
        assert!(!needs_compile(
            "a",
            "i",
            Some(&judged("a", "i", CompileState::Exported)),
            true
        ));
    }

    #[test]
    fn the_digest_tells_apart_what_differs() {
        let variables = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let digests = [
            inputs_digest("t", &variables(&[]), None),
            inputs_digest("u", &variables(&[]), None),
            inputs_digest("t", &variables(&[("a", "bc")]), None),
            inputs_digest("t", &variables(&[("ab", "c")]), None),
            inputs_digest("t", &variables(&[]), Some("one")),
            inputs_digest("t", &variables(&[]), Some("other")),
        ];
        let distinct: std::collections::BTreeSet<&String> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
    }
}
