//! The model text of the built-in modules `std`, `fs`, `exec` and `steward`.

pub const SOURCES: &[(&str, &str, &str)] = &[
    ("std", "std/model/_init.cf", include_str!("std.cf")),
    (
        "std::testing",
        "std/model/testing.cf",
        include_str!("std_testing.cf"),
    ),
    ("fs", "fs/model/_init.cf", include_str!("fs.cf")),
    ("exec", "exec/model/_init.cf", include_str!("exec.cf")),
    (
        "steward",
        "steward/model/_init.cf",
        include_str!("steward.cf"),
    ),
];

/// Our modules with Python code: the server's binary carries them as they would be installed.
pub const CARRIED: &[&str] = &["lsm"];

pub fn has_module(name: &str) -> bool {
    source(name).is_some()
}

/// Whether the program carries a module of this name, so that nothing need be installed for it.
pub fn is_carried(name: &str) -> bool {
    has_module(name) || CARRIED.contains(&name)
}

/// Reported file name and text of a namespace.
pub fn source(namespace: &str) -> Option<(&'static str, &'static str)> {
    SOURCES
        .iter()
        .find(|(name, ..)| *name == namespace)
        .map(|(_, file, text)| (*file, *text))
}

/// The text of a file as diagnostics name it.
pub fn text(file: &str) -> Option<&'static str> {
    SOURCES
        .iter()
        .find(|(_, name, _)| *name == file)
        .map(|(.., text)| *text)
}

#[cfg(test)]
mod tests {
    use crate::pattern::compile;

    #[test]
    fn patterns_of_builtin_modules_are_right() {
        let mut n_patterns = 0;
        for (namespace, ..) in super::SOURCES {
            let (_, text) = super::source(namespace).expect("it is there");
            for token in crate::syntax::tokens(text) {
                if token.kind == crate::syntax::token::Kind::Regex {
                    let literal = &text[token.start as usize..token.end as usize];
                    let pattern = &literal[literal.find('/').expect("it starts with one") + 1..];
                    let pattern = &pattern[..pattern.len() - 1];
                    assert_eq!(compile(pattern, true).err(), None, "{pattern}");
                    n_patterns += 1;
                }
            }
        }
        assert!(n_patterns > 0);
    }
}
