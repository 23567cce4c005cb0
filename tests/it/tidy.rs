//! Invariants that are absences: what is used, written or read in one place only.

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
