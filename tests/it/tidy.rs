//! Invariants that are absences: which module may use which, and words that must not be in the repository.

use std::fs;
use std::path::{Path, PathBuf};

pub fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// module → the modules of this crate that it may use. Where the arrow is missing the parts meet in the store.
const ALLOWED: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("observe", &["domain"]),
    ("process", &["sandbox"]),
    ("sandbox", &[]),
    ("files", &[]),
    ("python", &["files"]),
    ("modules", &["files", "process", "python", "sandbox"]),
    ("forge", &[]),
    ("git", &[]),
    ("store", &["domain"]),
    (
        "deploy",
        &["domain", "files", "observe", "process", "store"],
    ),
    ("agent", &["domain", "deploy", "files", "process"]),
    (
        "compile",
        &[
            "domain", "observe", "process", "sandbox", "store", "git", "deploy", "modules",
            "files", "python",
        ],
    ),
    ("watch", &["domain", "store", "git", "compile", "deploy"]),
    ("config", &["domain", "compile", "forge", "git", "python"]),
    (
        "api",
        &[
            "domain", "store", "deploy", "files", "forge", "git", "observe", "process", "server",
        ],
    ),
    (
        "server",
        &[
            "api", "compile", "config", "deploy", "domain", "files", "forge", "git", "modules",
            "observe", "process", "python", "sandbox", "store", "watch",
        ],
    ),
];

#[test]
fn modules_use_only_what_they_may() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (module, allowed) in ALLOWED {
        let files = match src.join(module) {
            dir if dir.is_dir() => sources(&dir),
            _ => vec![src.join(format!("{module}.rs"))],
        };
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for line in text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
            {
                for used in line.split("crate::").skip(1) {
                    let used: String = used
                        .chars()
                        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                        .collect();
                    let is_known = ALLOWED.iter().any(|(name, _)| *name == used) || used == "cli";
                    assert!(
                        !is_known || used == *module || allowed.contains(&used.as_str()),
                        "{}: `{module}` may not use `{used}`: {line}",
                        file.display()
                    );
                }
            }
        }
    }
}

#[test]
fn sql_is_written_in_the_store_only_and_yaml_is_read_within_limits() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in sources(&src) {
        let text = fs::read_to_string(&file).unwrap();
        let within = |module: &str| file.starts_with(src.join(module));
        assert!(
            within("store") || !text.contains("sqlx::"),
            "{}",
            file.display()
        );
        assert!(
            !text.contains("serde_yaml"),
            "{}: read it with steward_compiler::yaml",
            file.display()
        );
        assert!(
            within("git") || !text.contains("git2::"),
            "{}",
            file.display()
        );
        assert!(
            within("watch") || !text.contains("notify::Watcher"),
            "{}",
            file.display()
        );
    }
    let compiler = Path::new(env!("CARGO_MANIFEST_DIR")).join("compiler/src");
    for file in sources(&compiler) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            file.starts_with(compiler.join("yaml")) || !text.contains("serde_yaml"),
            "{}: read it with crate::yaml",
            file.display()
        );
    }
}
