//! Our own Python package, carried in the binary and unpacked by content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use steward_compiler::PythonRuntime;

use crate::files::touch;

/// What `build.rs` packed: the contents one after the other, and for each a line `LENGTH PATH`.
static CONTENTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/python.contents"));
static NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/python.names"));

/// The interpreter with our package, which is unpacked below `cache`.
///
/// # Errors
/// The package cannot be written.
pub fn runtime(interpreter: PathBuf, cache: &Path) -> io::Result<PythonRuntime> {
    Ok(PythonRuntime {
        interpreter,
        package: unpack(cache)?,
        files: None,
        launcher: Default::default(),
    })
}

/// The directory with our package's present content; written once.
pub fn unpack(cache: &Path) -> io::Result<PathBuf> {
    let target = cache.join(format!("python-{}", &digest()[..16]));
    if target.is_dir() {
        // It is in use: see `sweep_python`.
        let _ = touch(&target);
        return Ok(target);
    }
    fs::create_dir_all(cache)?;
    let temporary = tempfile::Builder::new()
        .prefix(".python-")
        .tempdir_in(cache)?;
    for (path, content) in files() {
        let path = temporary.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(cache))?;
        fs::write(path, content)?;
    }
    match fs::rename(temporary.path(), &target) {
        Ok(()) => {
            // It has a new name; there is nothing left to delete.
            let _ = temporary.keep();
            Ok(target)
        }
        // Somebody else was faster.
        Err(_) if target.is_dir() => Ok(target),
        Err(error) => Err(error),
    }
}

/// The folder of our modules that have Python code, of an unpacked package.
pub fn carried(package: &Path) -> PathBuf {
    package.join("steward_modules")
}

/// Compiles our package where it was unpacked, once, with nobody's code but ours: compiles of repositories read this bytecode
/// and write none. Blocks.
pub fn precompile(runtime: &PythonRuntime) {
    if runtime.package.join("steward_host/__pycache__").is_dir() {
        return;
    }
    let mut command = Command::new(&runtime.interpreter);
    command
        .args(["-I", "-m", "compileall", "-q"])
        .arg(&runtime.package)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Without it, compiles begin a little later.
    if let Err(error) = command.status() {
        tracing::debug!(%error, "cannot compile our Python package ahead of need");
    }
}

/// The digest of all our Python sources, in hexadecimal.
pub(super) fn digest() -> &'static str {
    include_str!(concat!(env!("OUT_DIR"), "/python.digest"))
}

/// Our Python sources: path below the package, content.
pub(super) fn files() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let mut rest = CONTENTS;
    NAMES.lines().filter_map(move |line| {
        let (length, path) = line.split_once(' ')?;
        let content;
        (content, rest) = rest.split_at_checked(length.parse().ok()?)?;
        Some((path, content))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_package_is_unpacked_once_and_found_again() {
        let cache = tempfile::tempdir().unwrap();
        let first = super::unpack(cache.path()).unwrap();
        assert!(first.join("steward_host/__main__.py").is_file());
        assert!(
            first.join("inmanta/plugins.py").is_file()
                || first.join("inmanta/plugins/__init__.py").is_file()
        );
        assert_eq!(super::unpack(cache.path()).unwrap(), first);
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_binary_carries_the_sources_and_nothing_that_running_them_leaves() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut n_bytes = 0;
        for (path, content) in super::files() {
            assert!(
                path.ends_with(".py") && !path.starts_with("tests/")
                    || path.starts_with("steward_modules/"),
                "{path}"
            );
            assert_eq!(std::fs::read(root.join(path)).unwrap(), content, "{path}");
            n_bytes += content.len();
        }
        assert_eq!(n_bytes, super::CONTENTS.len());
    }

    #[test]
    fn other_sources_have_another_digest() {
        use sha2::{Digest, Sha256};
        let both = [super::NAMES.as_bytes(), super::CONTENTS].concat();
        assert_eq!(super::digest(), hex::encode(Sha256::digest(both)));
    }

    /// Fails for a source that was added while nothing else has changed: see `build.rs`.
    #[test]
    fn no_source_is_missing_in_the_binary() {
        fn look(root: &Path, dir: &Path, carried: &BTreeSet<&str>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                if path.is_dir() {
                    look(root, &path, carried);
                } else if path
                    .extension()
                    .is_some_and(|kind| kind == "py" || kind == "cf")
                {
                    let is_carried = carried.contains(name);
                    assert!(
                        is_carried,
                        "python/{name} is new: `touch build.rs`, so that it is packed"
                    );
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let carried: BTreeSet<&str> = super::files().map(|(path, _)| path).collect();
        let packages: BTreeSet<&str> = carried
            .iter()
            .filter_map(|path| path.split('/').next())
            .collect();
        for package in packages {
            look(&root, &root.join(package), &carried);
        }
    }
}
