//! Any answers of a git server to a whole fetch.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| steward::fuzzing::fetch(bytes));
