//! Options of libgit2 that hold for the whole process, and the only unsafe calls of this module.
//!
//! libgit2 keeps them in plain globals, so they are set once, before the first repository is opened:
//! every entry of [`super`] that opens one goes through [`init`].

use std::sync::Once;

use super::transport;

/// No object of a pack, delta-resolved, may be larger. Keeps a delta bomb from taking the memory.
const PACK_MAX_OBJECT_BYTES: usize = 512 << 20;
/// What of packs is mapped into memory at a time, and all of it together. libgit2 would take windows of 1 GiB, which do not
/// fit into the limit of a git worker.
const PACK_WINDOW_BYTES: usize = 32 << 20;
const PACK_MAPPED_BYTES: usize = 256 << 20;
const CONNECT_TIMEOUT_MS: i32 = 15_000;
const SERVER_TIMEOUT_MS: i32 = 60_000;

/// Sets the process-wide options of libgit2 and registers Steward's transports; later calls do nothing.
pub fn init() {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        git2::opts::strict_hash_verification(true);
        git2::opts::strict_object_creation(true);
        if let Err(error) = set_globals() {
            // Each of these only fails on an option unknown to libgit2, which we link statically.
            tracing::error!(error = error.message(), "cannot set the options of libgit2");
        }
    });
}

#[expect(
    unsafe_code,
    reason = "libgit2 has global options; Once makes this the only writer"
)]
fn set_globals() -> Result<(), git2::Error> {
    use git2::ConfigLevel::{Global, ProgramData, System, XDG};
    // SAFETY: libgit2's globals need outside synchronisation. `init` runs this once, under `Once`, and every
    // function that opens a repository calls `init` first, so nothing reads them meanwhile.
    unsafe {
        for level in [ProgramData, System, XDG, Global] {
            git2::opts::set_search_path(level, "")?;
        }
        // Safe without: libgit2 runs nothing that a repository's configuration names.
        git2::opts::set_verify_owner_validation(false)?;
        git2::opts::set_server_connect_timeout_in_milliseconds(CONNECT_TIMEOUT_MS)?;
        git2::opts::set_server_timeout_in_milliseconds(SERVER_TIMEOUT_MS)?;
        git2::opts::set_mwindow_size(PACK_WINDOW_BYTES)?;
        git2::opts::set_mwindow_mapped_limit(PACK_MAPPED_BYTES)?;
        let option = libgit2_sys::GIT_OPT_SET_PACK_MAX_OBJECT_SIZE;
        if libgit2_sys::git_libgit2_opts(option as _, PACK_MAX_OBJECT_BYTES) < 0 {
            return Err(git2::Error::from_str(
                "the size limit of pack objects was refused",
            ));
        }
        git2::transport::register(transport::SCHEME, transport::create)
    }
}
