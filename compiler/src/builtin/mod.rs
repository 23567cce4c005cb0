//! The model text of the built-in modules `std`, `fs` and `exec`.

pub const SOURCES: &[(&str, &str, &str)] = &[
    ("std", "std/model/_init.cf", include_str!("std.cf")),
    (
        "std::testing",
        "std/model/testing.cf",
        include_str!("std_testing.cf"),
    ),
    ("fs", "fs/model/_init.cf", include_str!("fs.cf")),
    ("exec", "exec/model/_init.cf", include_str!("exec.cf")),
];

pub fn has_module(name: &str) -> bool {
    source(name).is_some()
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
