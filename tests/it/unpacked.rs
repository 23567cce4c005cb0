//! Our Python package, unpacked and compiled once for all tests: each server with a new data folder would spend a second of
//! processor time on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::fs::Mode;

use crate::harness::{Repo, steward};

/// Bytes that are free where the package is put: it has some megabytes.
const ROOM: u64 = 256 << 20;

/// Puts the package where the server of the data folder `data` looks for it. Where that cannot be, the server does it all.
pub fn lay_out(data: &Path) {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(package) = MADE.get_or_init(make) else {
        return;
    };
    let runtime = data.join("runtime");
    // As the server makes them.
    for folder in [data, &runtime] {
        let _ = rustix::fs::mkdir(folder, Mode::RWXU);
    }
    let copied = runtime.join(package.file_name().unwrap_or_default());
    // On a small disk there is only what a test has put there, or the server.
    let has_room =
        rustix::fs::statvfs(&runtime).is_ok_and(|disk| disk.f_bavail * disk.f_frsize > ROOM);
    if has_room && !copied.exists() {
        // With the times of the sources, which their bytecode names.
        let mut command = Command::new("cp");
        let _ = command.arg("-a").arg(package).arg(copied).status();
    }
}

/// The package of the binary, in a folder that goes with the target directory of cargo and is used again until the package is
/// another one.
fn make() -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    std::fs::create_dir_all(&cache).ok()?;
    // Unpacked for who needs Python.
    let project = Repo::new("import m\nm::f()\n");
    let plugin = "from inmanta.plugins import plugin\n\n\n@plugin\ndef f() -> None:\n    pass\n";
    project.write_module("m", "", plugin);
    let unpacked = steward()
        .arg("compile")
        .current_dir(project.path())
        .env("XDG_CACHE_HOME", &cache)
        .output()
        .ok()?;
    if !unpacked.status.success() {
        return None;
    }
    // The one that was used now; there may be older ones.
    let folders = std::fs::read_dir(cache.join("steward")).ok()?.flatten();
    let folders =
        folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("python-"));
    let used =
        folders.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    let (_, package) = used.max()?;
    let mut command = Command::new("python3");
    command.args(["-I", "-m", "compileall", "-q"]).arg(&package);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok()?;
    Some(package)
}
