//! Any text as the URL of a repository, and as its names and links.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::git(bytes));
