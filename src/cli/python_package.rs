//! `steward python-package`: our Python package, for tools that install packages.

use std::path::PathBuf;
use std::process::ExitCode;

use super::TROUBLE;
use crate::python::Distribution;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the path is what it is asked for"
)]
pub(super) fn run(out: Option<PathBuf>, lsm: bool) -> ExitCode {
    let folder = out.unwrap_or_else(|| super::cache_dir().join("python-package"));
    let program = std::env::current_exe().ok();
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    match Distribution::write(&folder, program.as_deref()) {
        Ok(distribution) => {
            println!("{}", distribution.path.display());
            for (path, _) in distribution.companions.iter().filter(|_| lsm) {
                println!("{}", path.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("steward: cannot write to {}: {error}", folder.display());
            ExitCode::from(TROUBLE)
        }
    }
}
