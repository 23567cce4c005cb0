//! Packs our Python sources for the binary: their contents in one file, names and lengths in another, and
//! the digest of both in a third, since it would take a command longer to compute it than to start.
//!
//! Sources only: a working copy also has what running them leaves behind, and a binary must be the same with and without. So
//! cargo looks at each source by itself: in a folder it would look at what is left behind, too, and make all once more. A
//! source that is new is packed when something else changes; a test of `src/python/sources.rs` says when that is missing.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Below `python/`, what the binary carries.
const PACKAGES: [&str; 5] = [
    "inmanta",
    "inmanta_lsm",
    "steward_host",
    "steward_modules",
    "steward_std",
];

/// What modules of the language have besides Python sources.
const KINDS: [&str; 3] = ["py", "cf", "cfg"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=migrations");
    let root = Path::new("python");
    let mut files = Vec::new();
    for package in PACKAGES {
        collect(&root.join(package), &mut files)?;
    }
    files.sort();
    let (mut contents, mut names) = (Vec::new(), String::new());
    for path in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        let content = fs::read(path)?;
        let name = path.strip_prefix(root).map_err(io::Error::other)?;
        let name = name
            .to_str()
            .ok_or_else(|| io::Error::other(format!("{} is not UTF-8", path.display())))?;
        names.push_str(&format!("{} {name}\n", content.len()));
        contents.extend(content);
    }
    let mut hasher = Sha256::new();
    hasher.update(&names);
    hasher.update(&contents);
    let digest: String = hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?);
    fs::write(out.join("python.digest"), digest)?;
    fs::write(out.join("python.names"), names)?;
    fs::write(out.join("python.contents"), contents)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|kind| KINDS.iter().any(|known| kind == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}
